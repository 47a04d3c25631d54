/*
 * The loop of the random-slot workloads: an operation picks a random slot and
 * frees what is there, or else allocates a block of random size. Each thread
 * has its own slots. One random number serves slot and size, so where both are
 * powers of two a slot always asks for the same size: that is the published
 * form of the workload, and changing it would end comparability.
 *
 * Included by one .c file each, which sets the defaults and says whether
 * blocks are written once or in every page.
 */
#ifndef BENCH_SLOTS_H
#define BENCH_SLOTS_H

#include "bench.h"

struct slots {
	uint64_t threads;
	uint64_t ops; /* of each thread */
	uint64_t ws;  /* slots of each thread */
	uint64_t min;
	uint64_t max;
	uint64_t warmup; /* per cent of ops, before the clock */
	uint64_t seed;
};

static struct slots slots;

static struct slots_thread {
	void **slot;
	uint32_t random;
	uint64_t checksum;
} slots_threads[BENCH_MAX_THREADS];

#define SLOTS_OPTIONS(most_threads)                                            \
	{"threads", &slots.threads, 1, most_threads, NULL, "threads"},         \
		{"ops", &slots.ops, 1, UINT64_C(1) << 40, NULL,                \
			"operations of each thread"},                          \
		{"ws", &slots.ws, 1, 1 << 24, NULL, "slots of each thread"},   \
		{"min", &slots.min, 1, UINT32_C(1) << 30, NULL,                \
			"smallest block"},                                     \
		{"max", &slots.max, 1, UINT32_C(1) << 30, NULL,                \
			"largest block"},                                      \
		{"warmup", &slots.warmup, 0, 1000, NULL,                       \
			"operations before the clock starts, in per cent of "  \
			"ops"},                                                \
		{"seed", &slots.seed, 1, UINT32_MAX, NULL,                     \
			"seed of the generator"},                              \
	{                                                                      \
		0                                                              \
	}

static inline size_t slots_size(uint32_t random, uint32_t min, uint32_t range)
{
	if (!(range & (range - 1)))
		return min + (random & (range - 1));
	return min + bench_scale(random, range);
}

static inline void slots_write(
	char *block, size_t size, size_t slot, size_t stride)
{
	size_t at;

	bench_put(block, slot);
	for (at = stride; stride && at < size; at += stride)
		bench_put(block + at, slot);
}

/* stride 0: only the first byte is written. */
static inline __attribute__((always_inline)) void slots_loop(
	struct slots_thread *t, uint64_t ops, size_t stride)
{
	uint32_t range = (uint32_t)(slots.max - slots.min + 1);
	uint32_t min = (uint32_t)slots.min;
	uint32_t ws = (uint32_t)slots.ws;
	uint32_t random = t->random;
	void **slot = t->slot;

	for (; ops; ops--) {
		uint32_t r = bench_xorshift32(&random);
		uint32_t i = r % ws;

		if (slot[i]) {
			free(slot[i]);
			slot[i] = NULL;
		} else {
			size_t size = slots_size(r, min, range);

			slot[i] = bench_malloc(size);
			slots_write(slot[i], size, i, stride);
		}
	}
	t->random = random;
}

static void slots_prepare(unsigned index)
{
	struct slots_thread *t = &slots_threads[index];

	t->slot = bench_map(slots.ws * sizeof(*t->slot));
	t->random = bench_thread_seed(slots.seed, index);
}

/* Off the clock: every block that is left still holds its slot's number. */
static uint64_t slots_checksum(void)
{
	uint64_t sum = 0;
	uint64_t t, i;

	for (t = 0; t < slots.threads; t++)
		for (i = 0; i < slots.ws; i++)
			if (slots_threads[t].slot[i])
				sum = sum * 31 + i +
				      bench_verify(slots_threads[t].slot[i], i);
	return sum;
}

static int slots_main(const struct bench *bench, int argc, char **argv,
	void (*prepare)(unsigned index), void (*body)(unsigned index))
{
	bench_options(bench, argc, argv);
	if (slots.min > slots.max)
		bench_refuse("min is above max", slots.min);
	bench_run((unsigned)slots.threads, prepare, body);
	return bench_report((unsigned)slots.threads, slots.threads * slots.ops,
		slots_checksum());
}

/* Defines main and the two bodies for one stride. */
#define SLOTS_WORKLOAD(workload, most_threads, stride)                         \
	static void prepare(unsigned index)                                    \
	{                                                                      \
		slots_prepare(index);                                          \
		slots_loop(&slots_threads[index],                              \
			slots.ops / 100 * slots.warmup +                       \
				slots.ops % 100 * slots.warmup / 100,          \
			stride);                                               \
	}                                                                      \
                                                                               \
	static void body(unsigned index)                                       \
	{                                                                      \
		slots_loop(&slots_threads[index], slots.ops, stride);          \
	}                                                                      \
                                                                               \
	int main(int argc, char **argv)                                        \
	{                                                                      \
		static const struct bench_option options[] = {                 \
			SLOTS_OPTIONS(most_threads)};                          \
		static const struct bench bench = {workload, options};         \
                                                                               \
		return slots_main(&bench, argc, argv, prepare, body);          \
	}

#endif
