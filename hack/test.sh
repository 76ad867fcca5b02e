#!/usr/bin/env bash
# Tests the root module; arguments go to go test. Without arguments the oracle,
# the random walks and the disturbed scenarios, which do less under the race
# detector, then run once more without it. The oracle prints how often every field of the API was
# generated, allowed and denied.
#
# With RAPID_SEED random tests draw what that seed gives, as in .ci/run, where a
# change is to fail for what it changed. Without it every run draws anew.
set -euo pipefail
cd "$(dirname "$0")/.."

race=-race
if ! hack/cc.sh; then
	echo "make test: no C compiler (or CGO_ENABLED=0), so the tests run without the race detector" >&2
	race=
fi
if [ $# != 0 ]; then
	exec go test $race -count=1 "$@" ./...
fi

# Only packages that draw know the flag.
imports='{{range .TestImports}}{{.}} {{end}}{{range .XTestImports}}{{.}} {{end}}'
mapfile -t draws < <(go list -f "{{.ImportPath}} $imports" ./... | awk '/pgregory.net\/rapid/ {print $1}')
mapfile -t others < <(go list ./... | grep -vxF "$(printf '%s\n' "${draws[@]}")")
seed=()
if [ -n "${RAPID_SEED:-}" ]; then
	seed=("-rapid.seed=$RAPID_SEED")
fi
status=0
go test $race -count=1 "${others[@]}" || status=$?
go test $race -count=1 "${draws[@]}" "${seed[@]}" || status=$?
if [ -n "$race" ]; then
	said=$(mktemp)
	trap 'rm -f "$said"' EXIT
	# Beside each other: the oracle is busy on one core.
	go test -count=1 ./pkg/dataplane ./test/torture "${seed[@]}" >"$said" 2>&1 &
	beside=$!
	go test -count=1 -v ./test/oracle/oracletest "${seed[@]}" || status=$?
	wait "$beside" || status=$?
	cat "$said"
	# These measure memory and CPU time, so nothing is beside them.
	go test -count=1 ./test/hostile || status=$?
	go test -count=1 ./cmd/npm -run '^(TestUnderAttack|TestBundleBomb|TestAnswerWithoutEnd)$' || status=$?
fi
exit "$status"
