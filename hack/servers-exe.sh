#!/usr/bin/env bash
# hack/servers-exe.sh [DIR] builds apiserver-up.exe, an API server with an etcd for Windows, into DIR, by default bin.
# It is what test/e2e uses, from the same sources. It takes minutes when nothing of it is compiled yet.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "${1:-bin}"
dir=$(cd "${1:-bin}" && pwd)
version=$(cd test/e2e/apiserver && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
pkg=k8s.io/component-base/version
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0
go build -C test/e2e/apiserver -ldflags "-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*}" -o "$dir/apiserver-up.exe" .
