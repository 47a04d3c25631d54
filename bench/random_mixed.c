/*
 * random_mixed: one thread, xorshift32, slot r % ws, a block of 16 + (r & 1023)
 * bytes whose first byte is written. Small working sets measure the hot path,
 * large ones the path between caches and slabs and the reach of the cache.
 */
#include "slots.h"

static struct slots slots = {
	.threads = 1,
	.ops = 20000000,
	.ws = 400,
	.min = 16,
	.max = 1039,
	.warmup = 10,
	.seed = 2463534242,
};

SLOTS_WORKLOAD("random_mixed", 1, 0)
