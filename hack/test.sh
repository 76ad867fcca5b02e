#!/usr/bin/env bash
# Tests the root module, as much as a change needs to know in two minutes; make deep
# plays the rest. Arguments go to go test. A package fails whose tests take more than
# SECONDS_OF_CPU (60) of processor time, and all packages fail that together take more
# than SECONDS_IN_ALL (400), more than twice what a quiet machine takes.
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

# Some tests wait for what happens outside of the process: one package more than there
# are cores keeps these busy. What the linker writes for a debugger alone takes a third of
# its time. Tests have small heaps, which four times the usual garbage hardly makes larger:
# to collect it as often as an agent does takes a fifth of the time of some. The race
# detector would let every process sleep for a second when it is done, as in make deep.
also=(
	-count=1 "-p=$(($(nproc) + 1))" -ldflags=-w
	"-exec=env GOGC=400 GORACE=atexit_sleep_ms=100 $PWD/hack/cpu.sh"
)
export SECONDS_OF_CPU=${SECONDS_OF_CPU:-60}
CPU_LOGS=$(mktemp -d)
export CPU_LOGS
trap 'rm -rf "$CPU_LOGS"' EXIT
seed=()
if [ -n "${RAPID_SEED:-}" ]; then
	seed=("-rapid.seed=$RAPID_SEED")
fi
# The slow ones come first, as no core is to wait for the last of them.
slow=$(printf 'github.com/winnpm/winnpm/%s\n' pkg/dataplane pkg/controllers cmd/kubectl-npm test/torture test/oracle/oracletest)
slow_first() { # packages
	grep -xF "$(printf '%s\n' "$@")" <<<"$slow" || true
	printf '%s\n' "$@" | grep -vxF "$slow" || true
}
# Only packages that draw know the flag.
mapfile -t draws < <(hack/packages.sh pgregory.net/rapid)
mapfile -t others < <(go list ./... | grep -vxF "$(printf '%s\n' "${draws[@]}")")
status=0
if [ ${#seed[@]} = 0 ]; then # all at once
	draws+=("${others[@]}")
	others=()
fi
mapfile -t draws < <(slow_first "${draws[@]}")
if [ ${#others[@]} != 0 ]; then
	mapfile -t others < <(slow_first "${others[@]}")
fi
go test $race "${also[@]}" "${draws[@]}" "${seed[@]}" || status=$?
if [ ${#others[@]} != 0 ]; then
	go test $race "${also[@]}" "${others[@]}" || status=$?
fi
taken=$(cat "$CPU_LOGS"/* | awk '{sum += $1} END {printf "%d", sum}')
echo "make test: $taken s of processor time; this was the quick part, make deep plays every draw, order and size"
if [ "$taken" -gt "${SECONDS_IN_ALL:-400}" ]; then
	echo "FAIL: all tests together may take ${SECONDS_IN_ALL:-400} s of processor time; these take most of it:" >&2
	cat "$CPU_LOGS"/* | sort -rn | head -5 >&2
	status=1
fi
exit "$status"
