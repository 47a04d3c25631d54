/*
 * prodcons: pairs of threads; one allocates and writes blocks, the other reads
 * and frees them. Between them a bounded ring: one writer, one reader, a slot
 * is NULL when it is empty. Who finds the ring full or empty yields, so the
 * CPU time of the pair is about twice that of its slower side.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

#define MAX_PAIRS (BENCH_MAX_THREADS / 2)

static uint64_t pairs = 1;
static uint64_t ops = 8000000;
static uint64_t ring = 1024;
static uint64_t min = 16;
static uint64_t max = 1024;
static uint64_t seed = 1;

static _Atomic(void *) *rings[MAX_PAIRS];
static uint64_t checksums[MAX_PAIRS];

static void prepare(unsigned index)
{
	if (index % 2 == 0)
		rings[index / 2] = bench_map(ring * sizeof(*rings[0]));
}

static void produce(unsigned pair)
{
	uint32_t random = bench_thread_seed(seed, pair);
	uint32_t range = (uint32_t)(max - min + 1);
	uint64_t i, at;

	for (i = at = 0; i < ops; i++) {
		_Atomic(void *) *slot = &rings[pair][at];
		uint32_t r = bench_xorshift32(&random);
		void *block = bench_malloc(min + bench_scale(r, range));

		bench_put(block, r);
		while (atomic_load_explicit(slot, memory_order_relaxed))
			sched_yield();
		/* pairs with the acquire in consume() */
		atomic_store_explicit(slot, block, memory_order_release);
		at = at + 1 == ring ? 0 : at + 1;
	}
}

static void consume(unsigned pair)
{
	uint32_t random = bench_thread_seed(seed, pair);
	uint64_t sum = 0;
	uint64_t i, at;

	for (i = at = 0; i < ops; i++) {
		_Atomic(void *) *slot = &rings[pair][at];
		void *block;

		while (!(block = atomic_load_explicit(
				 slot, memory_order_acquire)))
			sched_yield();
		atomic_store_explicit(slot, NULL, memory_order_relaxed);
		sum += bench_verify(block, bench_xorshift32(&random));
		free(block);
		at = at + 1 == ring ? 0 : at + 1;
	}
	checksums[pair] = sum;
}

static void body(unsigned index)
{
	if (index % 2)
		consume(index / 2);
	else
		produce(index / 2);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"pairs", &pairs, 1, MAX_PAIRS, NULL,
			"pairs of a producer and a consumer"},
		{"ops", &ops, 1, UINT64_C(1) << 40, NULL,
			"blocks of each producer"},
		{"ring", &ring, 1, 1 << 20, NULL, "slots of a ring"},
		{"min", &min, 1, UINT32_C(1) << 30, NULL, "smallest block"},
		{"max", &max, 1, UINT32_C(1) << 30, NULL, "largest block"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"prodcons", options};
	uint64_t sum = 0;
	uint64_t pair;

	bench_options(&bench, argc, argv);
	if (min > max)
		bench_refuse("min is above max", min);
	bench_run((unsigned)pairs * 2, prepare, body);
	for (pair = 0; pair < pairs; pair++)
		sum = sum * 31 + checksums[pair];
	return bench_report((unsigned)pairs * 2, pairs * ops, sum);
}
