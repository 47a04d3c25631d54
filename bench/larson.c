/*
 * larson: a server. Each of several lines of work owns an array of blocks; a
 * thread replaces random ones for a while, then starts its successor, hands
 * it the array and ends. So blocks are freed by other threads than those that
 * made them, most of which no longer exist. The first blocks are made by the
 * main thread, off the clock.
 *
 * A profile sets several options at once; those given after it win.
 */
#include "bench.h"

#include <pthread.h>

enum profile {
	PROFILE_MIXED,
	PROFILE_TINY,
	PROFILE_MID,
	PROFILE_MANY_THREADS,
	PROFILE_SHORT,
	PROFILE_LONG,
};

static const char *const profile_names[] = {
	"mixed", "tiny", "mid", "many-threads", "short", "long", NULL};

struct settings {
	uint64_t threads;
	uint64_t blocks;
	uint64_t min;
	uint64_t max;
	uint64_t generations;
	uint64_t ops;
};

static const struct settings profiles[] = {
	[PROFILE_MIXED] = {2, 5000, 8, 1000, 50, 200000},
	[PROFILE_TINY] = {2, 10000, 8, 128, 50, 200000},
	[PROFILE_MID] = {2, 500, 2 << 10, 32 << 10, 50, 40000},
	[PROFILE_MANY_THREADS] = {64, 1000, 8, 1000, 50, 6000},
	[PROFILE_SHORT] = {8, 1000, 8, 1000, 1000, 1000},
	[PROFILE_LONG] = {2, 20000, 8, 2000, 10, 5000000},
};

/* 0 means: as the profile says. */
static uint64_t profile = PROFILE_MIXED;
static struct settings given;
static uint64_t seed = 4141;

static struct settings s;

static struct line {
	void **slot;
	uint32_t random;
	uint64_t generations_left;
} lines[BENCH_MAX_THREADS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t line_ended = PTHREAD_COND_INITIALIZER;
static uint64_t lines_left; /* under lock */

static void *make_block(uint32_t random, uint64_t slot)
{
	uint32_t range = (uint32_t)(s.max - s.min + 1);
	size_t size = s.min + bench_scale(random, range);
	char *block = bench_malloc(size);

	bench_put(block + size - 1, slot);
	bench_put(block, slot);
	return block;
}

static void replace_blocks(struct line *l)
{
	uint32_t random = l->random;
	uint64_t i;

	for (i = 0; i < s.ops; i++) {
		uint32_t r = bench_xorshift32(&random);
		uint32_t victim = bench_scale(r, (uint32_t)s.blocks);

		free(l->slot[victim]);
		l->slot[victim] = make_block(bench_xorshift32(&random), victim);
	}
	l->random = random;
}

static void end_line(void)
{
	pthread_mutex_lock(&lock);
	if (!--lines_left)
		pthread_cond_signal(&line_ended);
	pthread_mutex_unlock(&lock);
}

static void *live(void *argument);

/* The line belongs to the new thread from here on. */
static void start_thread(struct line *l)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, live, l))
		bench_fail("cannot start thread", (uint64_t)(l - lines));
	pthread_detach(thread);
}

static void *live(void *argument)
{
	struct line *l = argument;

	replace_blocks(l);
	if (--l->generations_left)
		start_thread(l);
	else
		end_line();
	return NULL;
}

static void prepare_line(unsigned index)
{
	struct line *l = &lines[index];
	uint64_t i;

	l->slot = bench_map(s.blocks * sizeof(*l->slot));
	l->random = bench_thread_seed(seed, index);
	l->generations_left = s.generations;
	for (i = 0; i < s.blocks; i++)
		l->slot[i] = make_block(bench_xorshift32(&l->random), i);
}

static void run_lines(void)
{
	unsigned i;

	lines_left = s.threads;
	bench_clock_start();
	for (i = 0; i < s.threads; i++)
		start_thread(&lines[i]);
	pthread_mutex_lock(&lock);
	while (lines_left)
		pthread_cond_wait(&line_ended, &lock);
	pthread_mutex_unlock(&lock);
	bench_clock_stop();
}

static uint64_t checksum(void)
{
	uint64_t sum = 0;
	uint64_t t, i;

	for (t = 0; t < s.threads; t++)
		for (i = 0; i < s.blocks; i++)
			sum = sum * 31 + bench_verify(lines[t].slot[i], i);
	return sum + lines[0].random;
}

static void settle(void)
{
	s = profiles[profile];
	if (given.threads)
		s.threads = given.threads;
	if (given.blocks)
		s.blocks = given.blocks;
	if (given.min)
		s.min = given.min;
	if (given.max)
		s.max = given.max;
	if (given.generations)
		s.generations = given.generations;
	if (given.ops)
		s.ops = given.ops;
	if (s.min > s.max)
		bench_refuse("min is above max", s.min);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"profile", &profile, 0, 0, profile_names,
			"what the options below are when 0"},
		{"threads", &given.threads, 0, BENCH_MAX_THREADS, NULL,
			"lines of work, one thread each at a time"},
		{"blocks", &given.blocks, 0, 1 << 24, NULL,
			"blocks of each line"},
		{"min", &given.min, 0, 1 << 30, NULL, "smallest block"},
		{"max", &given.max, 0, 1 << 30, NULL, "largest block"},
		{"generations", &given.generations, 0, 1000000, NULL,
			"threads of each line, one after the other"},
		{"ops", &given.ops, 0, UINT64_C(1) << 40, NULL,
			"blocks that each thread replaces"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"larson", options};
	unsigned i;

	bench_options(&bench, argc, argv);
	settle();
	for (i = 0; i < s.threads; i++)
		prepare_line(i);
	run_lines();
	return bench_report((unsigned)s.threads,
		s.threads * s.generations * s.ops, checksum());
}
