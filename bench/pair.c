/*
 * pair: allocate a block, write it, free it. The shortest way through an
 * allocator. Two blocks that stay allocated stand watch: they are filled
 * before the clock starts and must be whole after it.
 */
#include "bench.h"

static uint64_t ops = 60000000;
static uint64_t size = 64;
static uint64_t seed = 1;

static unsigned char *watch[2];

static void prepare(unsigned index)
{
	uint32_t random = bench_thread_seed(seed, index);
	uint64_t i;
	int w;

	for (w = 0; w < 2; w++) {
		watch[w] = bench_malloc(size);
		for (i = 0; i < size; i++)
			watch[w][i] = (unsigned char)bench_xorshift32(&random);
	}
}

static void body(unsigned index)
{
	uint64_t i;

	(void)index;
	for (i = 0; i < ops; i++) {
		void *block = bench_malloc(size);

		bench_put(block, i);
		free(block);
	}
}

static uint64_t checksum(void)
{
	uint32_t random = bench_thread_seed(seed, 0);
	uint64_t sum = 0;
	uint64_t i;
	int w;

	for (w = 0; w < 2; w++)
		for (i = 0; i < size; i++)
			sum = sum * 31 + bench_verify(watch[w] + i,
						 bench_xorshift32(&random));
	return sum;
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"ops", &ops, 1, UINT64_C(1) << 40, NULL,
			"pairs of malloc and free"},
		{"size", &size, 1, 1 << 30, NULL, "bytes of a block"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"pair", options};

	bench_options(&bench, argc, argv);
	bench_run(1, prepare, body);
	return bench_report(1, ops, checksum());
}
