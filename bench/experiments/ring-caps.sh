#!/bin/sh
# The rings of L2 and L2.5, each by itself and with one cap for both: on a
# workload that lives from them, and on one that never uses them and can only
# lose by them. Built with room for the largest cap.
. "$(dirname "$0")/common.sh"

build ring-caps --with-l2-ring-cap=64 --with-l25-ring-cap=64
hakmem=$tree/hakmem

for run in "mid_large_mt --ops=150000" "large_mt --ops=1000" \
	"random_mixed --ops=1M --min=8 --max=128"; do
	label=ring-caps-${run%% *}
	# shellcheck disable=SC2086 # a list of words
	sweep "$label" HAKMEM_L2_RING_CAP=16,48,64 \
		HAKMEM_L25_RING_CAP=16,48,64 -- bench/$run
	# shellcheck disable=SC2086
	sweep "$label-one" HAKMEM_L2_RING_CAP+HAKMEM_L25_RING_CAP=16,48,64 \
		-- bench/$run
done
