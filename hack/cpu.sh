#!/usr/bin/env bash
# Runs a program, for go test -exec, that may use SECONDS_OF_CPU of processor time.
# That is what it costs however busy the machine is.
set -uo pipefail

(ulimit -t "$SECONDS_OF_CPU" && exec "$@")
status=$?
if [ $status = 137 ] || [ $status = 152 ]; then
	echo "FAIL: the tests of $PWD take more than $SECONDS_OF_CPU s of processor time: test/effort has the numbers that make test plays less of" >&2
fi
exit $status
