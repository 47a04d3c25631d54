/*
 * large_mt: buffers of 64 KiB to 1 MiB with a byte written in every page.
 * Page faults and the return of memory dominate: an allocator that unmaps on
 * every free, or one that never does, shows here.
 */
#include "slots.h"

static struct slots slots = {
	.threads = 2,
	.ops = 5000,
	.ws = 64,
	.min = 64 << 10,
	.max = 1 << 20,
	.warmup = 10,
	.seed = 2463534242,
};

SLOTS_WORKLOAD("large_mt", BENCH_MAX_THREADS, 4096)
