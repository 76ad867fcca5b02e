#!/usr/bin/env bash
# Builds apiserver-up, which is a kube-apiserver with an etcd, into a folder below
# .cache and prints its absolute path. It takes minutes, so it is built once for
# every content of its module; an older build is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "e2e: $*" >&2; }

key=$({ go version; go env GOOS GOARCH; cat hack/e2e-build.sh test/e2e/apiserver/{go.mod,go.sum,main.go}; } | sha256sum | cut -c1-16)
cache=$PWD/.cache/e2e
bin=$cache/$key
mkdir -p "$bin"
find "$cache" -mindepth 1 -maxdepth 1 ! -name "$key" -exec rm -rf {} +

# The compiler's flags are the defaults, so that the suite finds client-go
# compiled. The API server takes its behaviour for older clients from its
# version, which is a linker flag in the upstream's builds too.
if [ ! -x "$bin/apiserver-up" ]; then
	say "building apiserver-up (once; minutes)"
	version=$(cd test/e2e/apiserver && go list -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${version#v1.}
	pkg=k8s.io/component-base/version
	go build -C test/e2e/apiserver -o "$bin/.apiserver-up.$$" \
		-ldflags "-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*}" .
	mv "$bin/.apiserver-up.$$" "$bin/apiserver-up"
	say "built apiserver-up in $SECONDS s"
fi
echo "$bin"
