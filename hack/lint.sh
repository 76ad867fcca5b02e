#!/usr/bin/env bash
# Builds the linter that hack/tools/go.mod pins and runs it for both systems;
# without the second run no *_windows.go would ever be looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/golangci/golangci-lint/v2
version=$(awk -v m="$module" '$1 == m { print $2 }' hack/tools/go.mod)
bin=$PWD/.cache/bin/golangci-lint-$version-$(go env GOVERSION)
if [ ! -x "$bin" ]; then
	echo "lint: building golangci-lint $version"
	mkdir -p .cache/bin
	# Built under another name first: an interrupted build leaves nothing behind.
	go build -C hack/tools -trimpath -o "$bin.$$" "$module/cmd/golangci-lint"
	mv "$bin.$$" "$bin"
fi

export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint
root=$PWD
failed=0
run() { # directory, GOOS
	echo "lint: $1 for $2"
	(cd "$1" && GOOS=$2 CGO_ENABLED=0 "$bin" run --config "$root/.golangci.yml" --timeout 5m ./...) || failed=1
}
run . linux
run . windows
run test/e2e linux
run test/page linux
run test/conformance linux
run test/cni windows
exit $failed
