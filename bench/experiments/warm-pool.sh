#!/bin/sh
# How many slabs of a bin a shard keeps warm.
. "$(dirname "$0")/common.sh"

sweep warm-pool-mixed HAKMEM_WARM_POOL_SIZE=12,16,24 \
	-- bench/random_mixed --ops=1M --ws=400
sweep warm-pool-batch HAKMEM_WARM_POOL_SIZE=12,16,24 \
	-- bench/batch --n=100000 --order=random --ops=200K
