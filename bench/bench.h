/*
 * What the workloads share: options, threads that start together, the clock,
 * a seeded generator and the result line. Rules that keep the figures honest:
 *
 * I1 Only the workload's own blocks come from malloc. Slot tables and the like
 *    come from bench_map(), so no bookkeeping is in the allocator's figures.
 * I2 Nothing here calls malloc while the clock runs.
 * I3 What a run stores, and so its checksum, follows from the options alone:
 *    two allocators must print the same one. A block that does not hold what
 *    was written makes the run fail, it is never a figure.
 *
 * The result is one line on the standard output, fields separated by tabs:
 * workload, threads=, ops=, ns_per_op=, ops_per_s=, cpu_s=, peak_rss_kb=,
 * checksum=, then fields of the workload's own. Time per operation is wall
 * time of the run divided by the operations of all threads; cpu_s is user and
 * system time of the process between start and end of the clock.
 *
 * Exit status: 0, or 1 when a block was damaged or could not be allocated,
 * or 2 for a wrong option; 1 and 2 come with one line on standard error.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define BENCH_MAX_THREADS 1024

/* A number with least and greatest value, or, with words, the index of one. */
struct bench_option {
	const char *name;
	uint64_t *value;
	uint64_t least;
	uint64_t greatest;
	const char *const *words; /* ends with NULL */
	const char *help;
};

struct bench {
	const char *name;
	const struct bench_option *options; /* ends with a NULL name */
};

/* Reads the command line; ends the process for --help and wrong options. */
void bench_options(const struct bench *bench, int argc, char **argv);

/* Ends the process with status 2: options that do not fit together. */
_Noreturn void bench_refuse(const char *what, uint64_t value);

/* Ends the process with status 1. */
_Noreturn void bench_fail(const char *what, uint64_t value);

/* Zeroed memory for bookkeeping, already resident; never fails. */
void *bench_map(size_t size);

/*
 * Runs prepare(0..threads-1) outside the clock, then, all at once, the bodies
 * on the clock. One thread is the calling one: a process with one thread is
 * measured as such. prepare may be NULL.
 */
void bench_run(unsigned threads, void (*prepare)(unsigned index),
	void (*body)(unsigned index));

/* The same clock for workloads that make their own threads. */
void bench_clock_start(void);
void bench_clock_stop(void);

/* One more field of the result line, after the common ones. */
void bench_note(const char *key, uint64_t value);

/* Counts processes that were waited for, and their peak, in the result. */
void bench_count_children(uint64_t peak_kb);

/* Prints the result line. The value is main's. */
int bench_report(unsigned threads, uint64_t ops, uint64_t checksum);

uint64_t bench_rss_kb(void);
uint64_t bench_peak_rss_kb(void);
uint64_t bench_now_ns(void);

/* The workloads' only way to malloc and realloc: a failure ends the run. */
static inline void *bench_malloc(size_t size)
{
	void *block = malloc(size);

	if (__builtin_expect(!block, 0))
		bench_fail("cannot allocate bytes", size);
	return block;
}

static inline void *bench_realloc(void *block, size_t size)
{
	void *moved = realloc(block, size);

	if (__builtin_expect(!moved, 0))
		bench_fail("cannot reallocate to bytes", size);
	return moved;
}

/* The state of a generator is never 0. */
static inline uint32_t bench_xorshift32(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

/* 0 .. bound-1, from the high bits of a 32-bit random number. */
static inline uint32_t bench_scale(uint32_t random, uint32_t bound)
{
	return (uint32_t)(((uint64_t)random * bound) >> 32);
}

/* A seed of its own for each thread; thread 0 has the seed as given. */
static inline uint32_t bench_thread_seed(uint64_t seed, unsigned index)
{
	uint32_t s = (uint32_t)seed ^ (uint32_t)index * 0x9e3779b9u;

	return s ? s : 1;
}

/* The first byte: what most workloads store, and look at outside the clock. */
static inline void bench_put(void *block, uint64_t value)
{
	*(volatile unsigned char *)block = (unsigned char)value;
}

static inline uint64_t bench_get(const void *block)
{
	return *(const volatile unsigned char *)block;
}

/* Fails unless the block still holds what bench_put() stored. */
static inline uint64_t bench_verify(const void *block, uint64_t value)
{
	if (bench_get(block) != (unsigned char)value)
		bench_fail("a block was damaged, first byte", bench_get(block));
	return (unsigned char)value;
}

#endif
