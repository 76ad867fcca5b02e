#!/usr/bin/env bash
# Builds kubectl-npm and looks at its page in a real Chromium. Arguments go to "go
# test": hack/page.sh -run TestSearch. Pictures go to WINNPM_SCREENSHOTS, by
# default bin/screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "page: $*" >&2; }

find_chromium() {
	local name
	for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome; do
		command -v "$name" && return
	done
	return 1
}

if ! find_chromium >/dev/null; then
	hack/apt.sh page "chromium, or a Chrome that CHROMIUM names" chromium fonts-dejavu-core
fi
CHROMIUM=$(find_chromium) || { say "the package chromium brought no chromium"; exit 1; }
mkdir -p bin "${WINNPM_SCREENSHOTS:=bin/screenshots}"
WINNPM_SCREENSHOTS=$(cd "$WINNPM_SCREENSHOTS" && pwd)
NPM_PAGE_BIN=$PWD/bin/kubectl-npm
export CHROMIUM WINNPM_SCREENSHOTS NPM_PAGE_BIN

# axe-core looks for what keeps people out. It is only asked, nothing of it is in the page.
axe=4.10.3
NPM_PAGE_AXE=$PWD/bin/axe-core-$axe/package/axe.min.js
if [ ! -f "$NPM_PAGE_AXE" ]; then
	command -v npm >/dev/null || hack/apt.sh page "npm of Node" npm
	mkdir -p "bin/axe-core-$axe"
	(cd "bin/axe-core-$axe" && npm pack --silent "axe-core@$axe" >/dev/null && echo "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292  axe-core-$axe.tgz" | sha256sum --check --quiet && tar -xzf "axe-core-$axe.tgz" package/axe.min.js)
fi
export NPM_PAGE_AXE
say "building kubectl-npm"
go build -o "$NPM_PAGE_BIN" ./cmd/kubectl-npm
say "looking with $("$CHROMIUM" --version 2>/dev/null)"
cd test/page
go test -count=1 -v -timeout 5m "$@" ./...
say "pictures are in $WINNPM_SCREENSHOTS"
