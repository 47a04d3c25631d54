#!/bin/sh
# How many blocks a refill fetches: small bands, larger bands, and both.
. "$(dirname "$0")/common.sh"

counts=16,32,64,127

for run in "random_mixed --ops=1M --ws=400" \
	"random_mixed --ops=1M --ws=8192" \
	"batch --n=1000 --ops=1M" \
	"batch --n=100000 --order=random --ops=200K"; do
	label=refill-$(echo "$run" | tr -d '-' | tr ' =' '-')
	# shellcheck disable=SC2086 # a list of words
	sweep "$label" HAKMEM_TINY_REFILL_COUNT_HOT=$counts \
		HAKMEM_TINY_REFILL_COUNT_MID=$counts -- bench/$run
	# shellcheck disable=SC2086
	sweep "$label-one" HAKMEM_TINY_REFILL_COUNT=$counts -- bench/$run
done
