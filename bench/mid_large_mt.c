/*
 * mid_large_mt: buffers of 8 to 32 KiB with a byte written in every page, as
 * a program that fills them would. Several threads with slots of their own.
 */
#include "slots.h"

static struct slots slots = {
	.threads = 2,
	.ops = 400000,
	.ws = 256,
	.min = 8 << 10,
	.max = 32 << 10,
	.warmup = 10,
	.seed = 2463534242,
};

SLOTS_WORKLOAD("mid_large_mt", BENCH_MAX_THREADS, 4096)
