#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (20s), one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
while IFS=: read -r file target; do
	found=1
	echo "fuzz: $(dirname "$file") $target"
	go test -run='^$' -fuzz="^$target\$" -fuzztime="${FUZZTIME:-20s}" -fuzzminimizetime=5s "./$(dirname "$file")"
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' cmd pkg tool test | sed 's/func //' | sort)
if [ $found = 0 ]; then
	echo "fuzz: there is no fuzz target" >&2
	exit 1
fi
