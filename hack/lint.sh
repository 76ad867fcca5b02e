#!/usr/bin/env bash
# Builds the linters that hack/tools pins and runs them: actionlint over the workflows,
# golangci-lint for both systems; without the second no *_windows.go would ever be looked at.
set -euo pipefail
shopt -s inherit_errexit # a build that fails in $(pinned ...) ends this, too
cd "$(dirname "$0")/.."

# pinned MODULE_DIR MODULE PACKAGE builds a program once for each version of it and of Go,
# and prints its path.
pinned() {
	local version bin
	version=$(awk -v m="$2" '$1 == m { print $2 }' "$1/go.mod")
	bin=$PWD/.cache/bin/${3##*/}-$version-$(go env GOVERSION)
	if [ ! -x "$bin" ]; then
		echo "lint: building ${3##*/} $version" >&2
		mkdir -p .cache/bin
		# Built under another name first: an interrupted build leaves nothing behind.
		go build -C "$1" -trimpath -o "$bin.$$" "$3" >&2
		mv "$bin.$$" "$bin"
	fi
	echo "$bin"
}
actionlint=$(pinned hack/tools/actionlint github.com/rhysd/actionlint github.com/rhysd/actionlint/cmd/actionlint)
module=github.com/golangci/golangci-lint/v2
bin=$(pinned hack/tools $module $module/cmd/golangci-lint)

export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint
root=$PWD
failed=0
echo "lint: .github/workflows"
# Nothing that happens to be installed beside it decides what passes.
"$actionlint" -shellcheck= -pyflakes= || failed=1
run() { # directory, GOOS
	echo "lint: $1 for $2"
	(cd "$1" && GOOS=$2 CGO_ENABLED=0 "$bin" run --config "$root/.golangci.yml" --timeout 12m ./...) || failed=1
}
run . linux
run . windows
run test/e2e linux
run test/page linux
run test/conformance linux
run test/cni windows
run test/chart linux
run test/monitoring linux
run hack/release linux
run hack/image linux
exit $failed
