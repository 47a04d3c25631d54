/*
 * batch: n blocks of one size are allocated and written, then all freed, last
 * first, first first, or in a fixed random order. Shows what bulk refill and
 * bulk return cost. Every block is looked at in one round before the clock
 * starts and in one after it; in between only what a program must do is done.
 */
#include "bench.h"

enum order { ORDER_LIFO, ORDER_FIFO, ORDER_RANDOM };

static const char *const orders[] = {"lifo", "fifo", "random", NULL};

static uint64_t n = 1000;
static uint64_t size = 64;
static uint64_t ops = 20000000;
static uint64_t order = ORDER_LIFO;
static uint64_t seed = 1;

static void **block;
static uint32_t *turn; /* turn[i] is the i-th block to be freed */
static uint64_t checksum;

static void shuffle(void)
{
	uint32_t random = bench_thread_seed(seed, 0);
	uint32_t i, j, swap;

	for (i = (uint32_t)n - 1; i; i--) {
		j = bench_scale(bench_xorshift32(&random), i + 1);
		swap = turn[i];
		turn[i] = turn[j];
		turn[j] = swap;
	}
}

static void choose_turns(void)
{
	uint32_t last = (uint32_t)n - 1;
	uint32_t i;

	for (i = 0; i <= last; i++)
		turn[i] = order == ORDER_LIFO ? last - i : i;
	if (order == ORDER_RANDOM)
		shuffle();
}

static void allocate_all(void)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		block[i] = bench_malloc(size);
		bench_put(block[i], i);
	}
}

static void free_all(void)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		free(block[turn[i]]);
}

static void checked_round(void)
{
	uint64_t i;

	allocate_all();
	for (i = 0; i < n; i++)
		checksum = checksum * 31 + bench_verify(block[i], i);
	free_all();
}

static void prepare(unsigned index)
{
	(void)index;
	block = bench_map(n * sizeof(*block));
	turn = bench_map(n * sizeof(*turn));
	choose_turns();
	checked_round();
}

static void body(unsigned index)
{
	uint64_t done;

	(void)index;
	for (done = 0; done < ops; done += n) {
		allocate_all();
		free_all();
	}
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"n", &n, 1, 1 << 26, NULL, "blocks of a batch"},
		{"size", &size, 1, 1 << 20, NULL, "bytes of a block"},
		{"order", &order, 0, 0, orders, "order of the frees"},
		{"ops", &ops, 1, UINT64_C(1) << 40, NULL,
			"pairs of malloc and free, in whole batches"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the order"},
		{0},
	};
	static const struct bench bench = {"batch", options};

	bench_options(&bench, argc, argv);
	bench_run(1, prepare, body);
	checked_round();
	return bench_report(1, (ops + n - 1) / n * n, checksum);
}
