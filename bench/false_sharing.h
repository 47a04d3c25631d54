/*
 * What scratch and thrash share: a thread writes a small block over and over.
 * If the allocator gave two threads blocks of one cache line, each write costs
 * a transfer between cores.
 */
#ifndef BENCH_FALSE_SHARING_H
#define BENCH_FALSE_SHARING_H

#include "bench.h"

static uint64_t threads = 2;
static uint64_t iterations = 1000;
static uint64_t size = 1;
static uint64_t writes = 500000;

static uint64_t checksums[BENCH_MAX_THREADS];

#define FALSE_SHARING_OPTIONS                                                  \
	{"threads", &threads, 1, BENCH_MAX_THREADS, NULL, "threads"},          \
		{"iterations", &iterations, 1, 100000000, NULL,                \
			"blocks of each thread, in turn"},                     \
		{"size", &size, 1, 1 << 20, NULL, "bytes of a block"},         \
		{"writes", &writes, 1, 1000000000, NULL,                       \
			"times that each byte of a block is written"},         \
	{                                                                      \
		0                                                              \
	}

/* The bytes are counters from 0; the last round tells how often they moved. */
static uint64_t write_over(volatile unsigned char *block)
{
	uint64_t sum = 0;
	uint64_t w, i;

	for (i = 0; i < size; i++)
		block[i] = 0;
	for (w = 0; w < writes; w++)
		for (i = 0; i < size; i++)
			block[i]++;
	for (i = 0; i < size; i++)
		sum += bench_verify((const void *)&block[i], writes);
	return sum;
}

static void write_blocks(unsigned index)
{
	uint64_t i;

	for (i = 0; i < iterations; i++) {
		unsigned char *block = bench_malloc(size);

		checksums[index] += write_over(block);
		free(block);
	}
}

static int false_sharing_report(void)
{
	uint64_t sum = 0;
	uint64_t i;

	for (i = 0; i < threads; i++)
		sum = sum * 31 + checksums[i];
	return bench_report(
		(unsigned)threads, threads * iterations * writes * size, sum);
}

#endif
