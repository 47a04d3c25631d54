#!/bin/sh
# Statistics compiled in and switched off, against not compiled in: each group
# by itself, and all together. Is what is off free?
. "$(dirname "$0")/common.sh"

groups=$("$source/configure" --help |
	sed -n 's/^  --enable-\([a-z-]*-stats\|diagnostics\)\( .*\)*$/\1/p' |
	grep -vx all-stats)
[ "$groups" ] || {
	echo "$name: configure has no group of statistics" >&2
	exit 1
}

build without
set -- --lib "without=$tree/.libs/libhakmem-preload.so.1"
for group in $groups; do
	build "$group" "--enable-$group"
	set -- "$@" --lib \
		"$group=$tree/.libs/libhakmem-preload.so.1"
done
build all --enable-all-stats
set -- "$@" --lib "all=$tree/.libs/libhakmem-preload.so.1"

compare() {
	label=$1
	shift
	echo "==== $name: $label"
	# shellcheck disable=SC2086 # they are lists of words
	"$hakmem" ab $time_used $options --json="$results/$label.json" "$@"
}

compare telemetry-mixed "$@" -- bench/random_mixed --ops=1M --ws=400
compare telemetry-refill "$@" -- bench/batch --n=100000 --order=random --ops=200K
