#!/usr/bin/env bash
# Plays what make test plays a part of: every draw, order, flood and size of the tests
# that take their numbers from test/effort. pkg/controllers, which has the goroutines,
# does so under the race detector, which gets by with fewer. The oracle prints how often
# every field of the API was generated, allowed and denied.
#
# RAPID_SEED is as in hack/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

export WINNPM_EFFORT=deep
seed=()
if [ -n "${RAPID_SEED:-}" ]; then
	seed=("-rapid.seed=$RAPID_SEED")
fi
race=-race
if ! hack/cc.sh; then
	echo "make deep: no C compiler (or CGO_ENABLED=0), so nothing runs under the race detector" >&2
	race=
fi
module=github.com/winnpm/winnpm
raced=$module/pkg/controllers
# These measure memory and processor time, so nothing is beside them; of the programs a few tests do.
alone=("$module/test/hostile" "$module/tool/bounded" "$module/cmd/npm" "$module/cmd/kubectl-npm")
mapfile -t drawing < <(hack/packages.sh pgregory.net/rapid)
mapfile -t packages < <(hack/packages.sh $module/test/effort | grep -vxF "$(printf '%s\n' "$raced" "${alone[@]}" $module/test/oracle/oracletest)")
mapfile -t draws < <(printf '%s\n' "${packages[@]}" | grep -xF "$(printf '%s\n' "${drawing[@]}")")
mapfile -t others < <(printf '%s\n' "${packages[@]}" | grep -vxF "$(printf '%s\n' "${drawing[@]}")")
status=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# Beside each other: the oracle is busy on one core.
(
	failed=0
	go test $race -count=1 -timeout=30m "$raced" "${seed[@]}" || failed=$?
	go test -count=1 -timeout=30m "${draws[@]}" "${seed[@]}" || failed=$?
	go test -count=1 -timeout=30m "${others[@]}" || failed=$?
	exit "$failed"
) >"$said" 2>&1 &
beside=$!
go test -count=1 -v -timeout=30m ./test/oracle/oracletest "${seed[@]}" || status=$?
wait "$beside" || status=$?
cat "$said"
go test -count=1 -timeout=30m "${alone[0]}" || status=$?
go test -count=1 "${alone[1]}" || status=$?
go test -count=1 "${alone[2]}" -run '^(TestUnderAttack|TestInputs.*|TestTextsOf.*)$' || status=$?
exit "$status"
