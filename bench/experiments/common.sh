# shellcheck shell=sh
# What the experiments share. Each is run in a configured and built tree and
# takes options of the lab, such as --time 1h; without any, --time 10m:
#
#	../bench/experiments/warm-pool.sh --precision 0.5%
#
# The text goes to standard output, all runs to experiments/NAME.json.

set -eu
name=$(basename "$0" .sh)
source=$(cd "$(dirname "$0")/../.." && pwd)
results=$PWD/experiments
mkdir -p "$results"

[ -x ./hakmem ] && [ -x bench/random_mixed ] || {
	echo "$name: run it where hakmem was built: no ./hakmem here" >&2
	exit 1
}

# CPU time on the workload's own clock: less noise than operations a second
# where other processes run, and the same thing where none do.
time_used="--better lower --pattern cpu_s=([0-9.]+)"

# sweep LABEL VARIABLE... -- WORKLOAD..., with options in $options
sweep() {
	label=$1
	shift
	echo "==== $name: $label"
	# shellcheck disable=SC2086 # they are lists of words
	"$hakmem" sweep $time_used $options --json="$results/$label.json" "$@"
}

# A build with other switches, in a directory of its own.
build() {
	tree=$results/build-$1
	shift
	mkdir -p "$tree"
	(cd "$tree" &&
		"$source/configure" --quiet CFLAGS="${CFLAGS--O2 -g}" "$@" &&
		make -s -j2 hakmem libhakmem-preload.la) >"$tree.log" 2>&1 || {
		echo "$name: the build with $* failed: see $tree.log" >&2
		exit 1
	}
}

hakmem=$PWD/hakmem
options=$*
[ "$options" ] || options='--time 10m'
