#!/usr/bin/env bash
# Tests the root module; arguments go to go test. Without arguments the oracle,
# the random walks and the disturbed scenarios, which do less under the race
# detector, then run once more without it. The oracle prints how often every field of the API was
# generated, allowed and denied.
set -euo pipefail
cd "$(dirname "$0")/.."

race=-race
if ! hack/cc.sh; then
	echo "make test: no C compiler (or CGO_ENABLED=0), so the tests run without the race detector" >&2
	race=
fi
go test $race -count=1 "$@" ./...
if [ $# = 0 ] && [ -n "$race" ]; then
	said=$(mktemp)
	trap 'rm -f "$said"' EXIT
	status=0
	# Beside each other: the oracle is busy on one core.
	go test -count=1 ./pkg/dataplane ./test/torture >"$said" 2>&1 &
	beside=$!
	go test -count=1 -v ./test/oracle/oracletest || status=$?
	wait "$beside" || status=$?
	cat "$said"
	exit "$status"
fi
