#!/usr/bin/env bash
# Runs a program, for go test -exec, that may use SECONDS_OF_CPU of processor time.
# That is what it costs however busy the machine is. CPU_LOGS, if set, is a folder that
# gets a file: the seconds that the program and what it waited for took, and the package.
set -uo pipefail

(ulimit -t "$SECONDS_OF_CPU" && exec "$@")
status=$?
if [ $status = 137 ] || [ $status = 152 ]; then
	echo "FAIL: the tests of $PWD take more than $SECONDS_OF_CPU s of processor time: test/effort has the numbers that make test plays less of" >&2
fi
if [ -n "${CPU_LOGS:-}" ]; then
	# Not in a pipe: another process has no children of its own.
	log=$(mktemp "$CPU_LOGS/XXXXXX")
	times >"$log"
	line=$(awk -v folder="$PWD" 'NR == 2 {split($1 "m" $2, t, "[ms]+"); printf "%.1f %s", 60 * (t[1] + t[3]) + t[2] + t[4], folder}' "$log")
	printf '%s\n' "$line" >"$log"
fi
exit $status
