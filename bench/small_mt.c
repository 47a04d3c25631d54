/*
 * small_mt: random_mixed in several threads at once, each with slots of its
 * own, so that what it shows beyond random_mixed is the cost of sharing.
 */
#include "slots.h"

static struct slots slots = {
	.threads = 2,
	.ops = 8000000,
	.ws = 400,
	.min = 16,
	.max = 1024,
	.warmup = 10,
	.seed = 2463534242,
};

SLOTS_WORKLOAD("small_mt", BENCH_MAX_THREADS, 0)
