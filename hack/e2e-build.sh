#!/usr/bin/env bash
# Builds kube-apiserver, etcd and apiserver-up into a folder below .cache and
# prints its absolute path. The two servers take minutes, so they are built
# once for every content of their modules; an older build is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "e2e: $*" >&2; }

key=$({ go version; go env GOOS GOARCH; cat hack/e2e-build.sh test/e2e/{apiserver,etcd}/{go.mod,go.sum,main.go}; } | sha256sum | cut -c1-16)
cache=$PWD/.cache/e2e
bin=$cache/$key
mkdir -p "$bin"
find "$cache" -mindepth 1 -maxdepth 1 ! -name "$key" -exec rm -rf {} +

# server NAME OUT LDFLAGS builds test/e2e/NAME as OUT unless it is there. The
# compiler's flags are the defaults, so that the suite finds client-go compiled.
server() {
	local name=$1 out=$2 flags=$3 start=$SECONDS
	if [ -x "$bin/$out" ]; then
		return
	fi
	say "building $out (once; minutes)"
	(cd "test/e2e/$name" && go build -ldflags "-s -w $flags" -o "$bin/.$out.$$" .)
	mv "$bin/.$out.$$" "$bin/$out"
	say "built $out in $((SECONDS - start)) s"
}

# The API server takes its behaviour for older clients from its version, which
# is a linker flag in the upstream's builds too.
version=$(cd test/e2e/apiserver && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
pkg=k8s.io/component-base/version
server etcd etcd ""
server apiserver kube-apiserver "-X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*}"

(cd test/e2e && go build -o "$bin/apiserver-up" ./cmd/apiserver-up)
echo "$bin"
