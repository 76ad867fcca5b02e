#!/usr/bin/env bash
# Plays what make test plays a part of: every draw, order, flood and size of the tests
# that take their numbers from test/effort, first under the race detector, which gets by
# with fewer, then those of which something is left without it. The oracle prints how
# often every field of the API was generated, allowed and denied.
#
# RAPID_SEED is as in hack/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

export WINNPM_EFFORT=deep
mapfile -t packages < <(hack/packages.sh github.com/winnpm/winnpm/test/effort)
mapfile -t drawing < <(hack/packages.sh pgregory.net/rapid)
mapfile -t draws < <(printf '%s\n' "${packages[@]}" | grep -xF "$(printf '%s\n' "${drawing[@]}")")
mapfile -t others < <(printf '%s\n' "${packages[@]}" | grep -vxF "$(printf '%s\n' "${drawing[@]}")")
seed=()
if [ -n "${RAPID_SEED:-}" ]; then
	seed=("-rapid.seed=$RAPID_SEED")
fi
status=0
if hack/cc.sh; then
	go test -race -count=1 -timeout=30m "${draws[@]}" "${seed[@]}" || status=$?
	go test -race -count=1 -timeout=30m "${others[@]}" || status=$?
else
	echo "make deep: no C compiler (or CGO_ENABLED=0), so nothing runs under the race detector" >&2
fi
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# Beside each other: the oracle is busy on one core.
go test -count=1 -timeout=30m ./pkg/dataplane ./test/torture "${seed[@]}" >"$said" 2>&1 &
beside=$!
go test -count=1 -v -timeout=30m ./test/oracle/oracletest "${seed[@]}" || status=$?
wait "$beside" || status=$?
cat "$said"
# These measure memory and CPU time, so nothing is beside them.
go test -count=1 -timeout=30m ./test/hostile || status=$?
go test -count=1 ./pkg/bounded || status=$?
go test -count=1 ./cmd/npm -run '^(TestUnderAttack|TestBundleBomb|TestAnswerWithoutEnd|TestInputs.*)$' || status=$?
exit "$status"
