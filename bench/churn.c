/*
 * churn: threads that live briefly. Each frees what the thread before it in
 * its line left, allocates blocks, frees every other one and leaves the rest.
 * A thread is joined before the next one starts. Shows what the birth and the
 * end of a thread cost, and what memory ended threads keep.
 */
#include "bench.h"

#include <pthread.h>

static uint64_t threads = 2;
static uint64_t generations = 5000;
static uint64_t blocks = 200;
static uint64_t min = 16;
static uint64_t max = 1024;
static uint64_t seed = 1;

static struct line {
	void **left; /* NULL where the thread itself freed the block */
	uint32_t random;
	uint64_t generation;
	uint64_t checksum;
} lines[BENCH_MAX_THREADS];

static void drop(struct line *l, uint64_t i)
{
	l->checksum += bench_verify(l->left[i], i + l->generation);
	free(l->left[i]);
	l->left[i] = NULL;
}

static void free_left(struct line *l)
{
	uint64_t i;

	for (i = 0; i < blocks; i++)
		if (l->left[i])
			drop(l, i);
}

static void leave_blocks(struct line *l)
{
	uint32_t range = (uint32_t)(max - min + 1);
	uint64_t i;

	l->generation++;
	for (i = 0; i < blocks; i++) {
		uint32_t r = bench_xorshift32(&l->random);

		l->left[i] = bench_malloc(min + bench_scale(r, range));
		bench_put(l->left[i], i + l->generation);
	}
	for (i = 0; i < blocks; i += 2)
		drop(l, i);
}

static void *live(void *argument)
{
	free_left(argument);
	leave_blocks(argument);
	return NULL;
}

static void prepare(unsigned index)
{
	lines[index].left = bench_map(blocks * sizeof(void *));
	lines[index].random = bench_thread_seed(seed, index);
}

static void body(unsigned index)
{
	pthread_t thread;
	uint64_t i;

	for (i = 0; i < generations; i++) {
		if (pthread_create(&thread, NULL, live, &lines[index]))
			bench_fail("cannot start thread", i);
		pthread_join(thread, NULL);
	}
	free_left(&lines[index]);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"threads", &threads, 1, BENCH_MAX_THREADS, NULL,
			"lines, one brief thread each at a time"},
		{"generations", &generations, 1, 100000000, NULL,
			"threads of each line, one after the other"},
		{"blocks", &blocks, 1, 1 << 24, NULL, "blocks of a thread"},
		{"min", &min, 1, 1 << 30, NULL, "smallest block"},
		{"max", &max, 1, 1 << 30, NULL, "largest block"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"churn", options};
	uint64_t sum = 0;
	uint64_t i;

	bench_options(&bench, argc, argv);
	if (min > max)
		bench_refuse("min is above max", min);
	bench_run((unsigned)threads, prepare, body);
	for (i = 0; i < threads; i++)
		sum = sum * 31 + lines[i].checksum;
	return bench_report((unsigned)threads, threads * generations, sum);
}
