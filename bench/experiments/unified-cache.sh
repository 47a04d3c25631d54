#!/bin/sh
# How many blocks of the bands C5 to C7 a thread caches, alone and together
# with the warm pool: do the two add?
. "$(dirname "$0")/common.sh"

bands=HAKMEM_TINY_UNIFIED_C5+HAKMEM_TINY_UNIFIED_C6+HAKMEM_TINY_UNIFIED_C7

for ws in 400 8192; do
	sweep "unified-cache-$ws" "$bands=128,256,512" \
		-- bench/random_mixed --ops=1M --ws=$ws
	sweep "unified-cache-and-warm-pool-$ws" "$bands=128,256,512" \
		HAKMEM_WARM_POOL_SIZE=12,16,24 \
		-- bench/random_mixed --ops=1M --ws=$ws
done
