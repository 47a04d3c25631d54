#!/bin/sh
# The judge on this machine: a workload against itself, twenty times, and
# against itself with 2 % more operations. The first should be told apart at
# most once, the second every time.
. "$(dirname "$0")/common.sh"

run="bench/random_mixed --ws=400"
verdicts="GO NEUTRAL INCONCLUSIVE NO-GO"

# one trial; its verdict as the exit status of --gate
trial() {
	status=0
	# shellcheck disable=SC2086 # they are lists of words
	"$hakmem" ab --gate $time_used --quiet $options --a "$run --ops=$1" \
		--b "$run --ops=$2" >"$results/$name.txt" || status=$?
	[ $status -le 3 ] || exit $status
}

count() {
	label=$1
	shift
	trials=$1
	shift
	echo "==== $name: $label"
	i=0
	tally=
	while [ $i -lt "$trials" ]; do
		trial "$@"
		tally="$tally $status"
		i=$((i + 1))
	done
	i=0
	for verdict in $verdicts; do
		echo "$verdict: $(echo "$tally" | tr ' ' '\n' | grep -cx $i)"
		i=$((i + 1))
	done
}

# runs of a hundredth of a second: see "Make runs short" in bench/README.md
[ $# -gt 0 ] || options='--runs 120'
count "A against A" 20 1000000 1000000
[ $# -gt 0 ] || options='--precision 0.7% --time 5m'
count "2 % more work" 5 1000000 1020000
