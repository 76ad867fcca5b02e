#!/usr/bin/env bash
# Builds the agent and looks at its page in a real Chromium. Arguments go to "go
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
NPM_PAGE_BIN=$PWD/bin/npm
export CHROMIUM WINNPM_SCREENSHOTS NPM_PAGE_BIN

say "building npm"
go build -o "$NPM_PAGE_BIN" ./cmd/npm
say "looking with $("$CHROMIUM" --version 2>/dev/null)"
cd test/page
go test -count=1 -v -timeout 5m "$@" ./...
say "pictures are in $WINNPM_SCREENSHOTS"
