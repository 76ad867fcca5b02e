#!/usr/bin/env bash
# Has Spin check the model of the transaction, test/model, exhaustively: it must
# hold, every mutant of it must break the promise that is named, and every place
# without which it would prove nothing must be reached. No arguments.
#
# hack/model.sh -DNO_PINS -DONLY=4 prints a shortest counterexample instead, if
# there is one for these flags.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "model: $*" >&2; }

if ! command -v spin >/dev/null; then
	hack/apt.sh model Spin spin
fi
cc=${CC:-cc}
if ! command -v "$cc" >/dev/null; then
	say "a C compiler is needed, $cc is none: install gcc or clang, or set CC"
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp test/model/transaction.pml "$work"
cd "$work"

flags=() # of the last generate, with the defaults

# generate SPIN_FLAG... writes pan.c.
generate() {
	flags=("$@")
	[[ " $* " == *" -DONLY="* ]] || flags+=(-DONLY=0)
	[[ " $* " == *" -DREACH="* ]] || flags+=(-DREACH=0)
	spin "${flags[@]}" -a transaction.pml >spin.out 2>&1 || { cat spin.out >&2; return 1; }
}

# check "C flags" "pan flags" SPIN_FLAG... leaves what the checker said in out.
check() {
	local c=$1 p=$2
	shift 2
	rm -f -- *.trail
	: >out
	# Order reduction is off: everything is global, so it would reduce nothing.
	# shellcheck disable=SC2086
	generate "$@" && "$cc" -w -DNOREDUCE -DMEMLIM=3000 $c -o pan pan.c && ./pan $p >out 2>&1
}

if [ $# -gt 0 ]; then
	check "-DSAFETY -DBFS" "" "$@" # breadth first
	grep -E 'assertion violated|errors:' out
	[ ! -f transaction.pml.trail ] || spin "${flags[@]}" -t -p -g transaction.pml
	exit
fi

passed=0
failed=0
# verdict NAME START PROBLEM ends a check: one line, PROBLEM empty for success.
verdict() {
	local word=ok states
	if [ -n "$3" ]; then
		word="FAIL: $3"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
	states=$(awk '/states, stored/ { print $1; exit }' out)
	printf '%-44s %9s states %5.1f s  %s\n' "$1" "${states:-0}" \
		"$(awk -v a="$2" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" "$word"
}

# holds NAME "C flags" "pan flags" SPIN_FLAG...: searched to the end, no error,
# and no statement was never reached (but for those of reach, which are off).
holds() {
	local name=$1 start=$EPOCHREALTIME problem=
	shift
	check "$@" || problem="the checker did not run"
	if ! grep -q 'errors: 0$' out; then
		problem="broken (for promises, hack/model.sh -DONLY=0 prints a shortest way)"
		[[ " $* " != *" -DBUDGET="* ]] || [ ! -f transaction.pml.trail ] ||
			spin "${flags[@]}" -t -p -g transaction.pml | tail -n 150 >&2
	elif grep -qE 'Search not completed|too small' out; then
		problem="not searched to the end"
	elif grep -E '^\s.*transaction.pml:[0-9]+, state' out | grep -vE '"(-end-|\(killed\)|assert\(!\(0\)\))"' >&2; then
		problem="statements above were never reached"
	fi
	verdict "$name" "$start" "$problem"
}

# breaks NAME REGEXP "C flags" "pan flags" SPIN_FLAG...: fails in the way that
# REGEXP describes.
breaks() {
	local name=$1 how=$2 start=$EPOCHREALTIME problem=
	shift 2
	check "$@" || problem="the checker did not run"
	grep -qE "$how" out || problem="${problem:-nothing found}"
	verdict "$name" "$start" "$problem"
}

holds "all promises, trouble without end" "-O2 -DSAFETY" "-m4000000 -w22"
holds "converges after any two troubles" "-O2 -DNFAIR=3" "-m4000000 -w20 -a -f" -DBUDGET=2

while read -r mutant promise; do
	breaks "-D$mutant breaks promise $promise" "assertion violated \(\($promise&&" "-DSAFETY" "-m4000000 -w20" "-D$mutant" "-DONLY=$promise"
done <<-'LIST'
	NO_PINS 4
	NO_PINS 5
	NO_REREAD 4
	NO_LOCK 1
	NO_LOCK 3
	NO_DOOR 2
	NO_DOOR 6
	NO_READY 2
	NO_LISTING 4
	NO_SETS_READ 1
LIST
breaks "-DNO_RECONCILER does not converge" "acceptance cycle" "-DNFAIR=3" "-m4000000 -w20 -a -f" -DNO_RECONCILER -DBUDGET=1
for place in 1 2 3 4 5; do
	breaks "place $place is reached" "assertion violated +!\($place\)" "-DSAFETY" "-m4000000 -w20" "-DREACH=$place"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
