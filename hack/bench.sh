#!/usr/bin/env bash
# Runs every benchmark of the root module, each once: that they run, and that the
# requests of those in test/scale are what the cost model says.
# BENCHTIME and COUNT measure; OUT keeps the results in a file for benchstat,
# without what is not a result; BENCH and PACKAGES choose.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${PACKAGES:-$(grep -rlE --include='*_test.go' '^func Benchmark' cmd pkg tool test | xargs -n1 dirname | sort -u | sed 's|^|./|')}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
# One after the other (-p 1): they would disturb each other.
# shellcheck disable=SC2086 # a list of packages
go test -p 1 -run='^$' -bench="${BENCH:-.}" -benchmem -benchtime="${BENCHTIME:-1x}" -count="${COUNT:-1}" -timeout=0 $packages |
	tee "$results"
if [ -n "${OUT:-}" ]; then
	grep -E '^(goos|goarch|pkg|cpu): |^Benchmark' "$results" >"$OUT"
fi
