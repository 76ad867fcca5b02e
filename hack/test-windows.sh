#!/usr/bin/env bash
# Builds the Windows programs, a Wine prefix with an HNS in it and a real API
# server, and runs the end-to-end suite of npm.exe. Arguments go to "go test":
# hack/test-windows.sh -run TestGate_
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-windows: $*" >&2; }

work=$(mktemp -d)
export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
server=
clean() {
	if [ -n "$server" ]; then
		"$server" -k || true # it may have ended already
		timeout 20 "$server" -w || true
	fi
	rm -rf "$work"
}
trap clean EXIT

wine=$(hack/wine.sh "$WINEPREFIX")
for server in "$(dirname "$wine")"/wineserver{64,}; do
	[ ! -x "$server" ] || break
done
# One that stays between the tests: a program that starts while it ends, ends too.
timeout 60 "$server" -w
"$server" -p >/dev/null 2>&1 </dev/null
servers=$(hack/e2e-build.sh)
bin=$work/bin
mkdir "$bin"
ln -s "$servers/apiserver-up" "$bin"

say "building npm.exe and the doctor"
hack/exe.sh "$bin"
(
	export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
	go test -c -o "$bin/adapter.exe" ./pkg/hns/hcsadapter

	# The plugin, and who runs it: containerd's CNI and a plugin that makes endpoints.
	go build -o "$bin/winnpm-cni.exe" ./cmd/winnpm-cni
	cd test/cni
	go build -o "$bin/runtime.exe" .
	plugins=github.com/containernetworking/plugins/plugins
	go build -o "$bin/win-bridge.exe" $plugins/main/windows/win-bridge
	go build -o "$bin/host-local.exe" $plugins/ipam/host-local
)
# A DLL without the exports that everybody looks for.
echo 'int winnpm_nothing;' | x86_64-w64-mingw32-gcc -shared -o "$bin/empty.dll" -x c -

say "running the suite"
WINNPM_WINE_BIN=$bin WINNPM_WINE=$wine go test -count=1 -v -timeout 10m ./test/windows/agent "$@"
