#!/usr/bin/env bash
# Rewrites the golden files of every package whose tests define -update, then
# shows what changed: read it as you would read code.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rlE --include='*_test.go' 'flag\.Bool\("update"' cmd pkg tool test |
	xargs -n1 dirname | sort -u | sed 's|^|./|' |
	while read -r package; do
		go test -count=1 "$package" -update
	done
git status --short -- '*/testdata/*' docs/performance.md deploy
