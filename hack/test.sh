#!/usr/bin/env bash
# Tests the root module; arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

race=-race
if ! hack/cc.sh; then
	echo "make test: no C compiler (or CGO_ENABLED=0), so the tests run without the race detector" >&2
	race=
fi
exec go test $race -count=1 "$@" ./...
