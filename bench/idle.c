/*
 * idle: threads take blocks, free all of them in a random order and then do
 * nothing more, not even end. What is resident then is what an allocator
 * keeps of memory that nobody uses.
 *
 * Every byte of a block is written; its first is looked at when it is freed.
 * In turn, a thread takes only when the one before it has freed. Fields of
 * the result, all of them VmRSS: start_kb; peak_rss_kb, as ever; freed_kb
 * after the last free; idle_kb after a pause. The clock stops before the
 * pause.
 */
#include "bench.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum turns { TURNS_TOGETHER, TURNS_IN_TURN };

static const char *const turn_words[] = {"together", "in-turn", NULL};

static uint64_t threads = 1;
static uint64_t take = 200 << 20;
static uint64_t min = 16;
static uint64_t max = 64 << 10;
static uint64_t turns = TURNS_TOGETHER;
static uint64_t pause_ms = 2000;
static uint64_t seed = 1;

struct entry {
	unsigned char *block;
	size_t size;
};

static struct worker {
	struct entry *entry;
	uint64_t most;
	uint64_t count;
	uint64_t ops;
	uint64_t checksum;
	uint32_t random;
} workers[BENCH_MAX_THREADS];

static pthread_mutex_t my_turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t freed, looked_at;

static void take_all(struct worker *w)
{
	uint32_t range = (uint32_t)(max - min + 1);
	uint64_t left = take / threads;

	while (w->count < w->most && left) {
		uint32_t r = bench_xorshift32(&w->random);
		struct entry *e = &w->entry[w->count++];

		e->size = min + bench_scale(r, range);
		e->block = bench_malloc(e->size);
		memset(e->block, (int)(e->size & 0xff), e->size);
		left -= e->size < left ? e->size : left;
		w->ops++;
	}
}

static void free_all(struct worker *w)
{
	while (w->count) {
		uint32_t r = bench_xorshift32(&w->random);
		struct entry *e = &w->entry[bench_scale(r, (uint32_t)w->count)];

		w->checksum = w->checksum * 31 + bench_verify(e->block, e->size);
		free(e->block);
		*e = w->entry[--w->count];
		w->ops++;
	}
}

static void prepare(unsigned index)
{
	struct worker *w = &workers[index];

	/* Half as many again as the mean suggests. */
	w->most = take / threads / ((min + max + 1) / 2) * 3 / 2 + 64;
	w->entry = bench_map(w->most * sizeof(*w->entry));
	w->random = bench_thread_seed(seed, index);
}

static void *work(void *argument)
{
	if (turns == TURNS_IN_TURN)
		pthread_mutex_lock(&my_turn);
	take_all(argument);
	free_all(argument);
	if (turns == TURNS_IN_TURN)
		pthread_mutex_unlock(&my_turn);
	pthread_barrier_wait(&freed);
	pthread_barrier_wait(&looked_at);
	return NULL;
}

static void look(void)
{
	struct timespec pause = {
		.tv_sec = (time_t)(pause_ms / 1000),
		.tv_nsec = (long)(pause_ms % 1000) * 1000000,
	};

	bench_note("freed_kb", bench_rss_kb());
	nanosleep(&pause, NULL);
	bench_note("idle_kb", bench_rss_kb());
}

static void run(void)
{
	pthread_t thread[BENCH_MAX_THREADS];
	unsigned i;

	pthread_barrier_init(&freed, NULL, (unsigned)threads + 1);
	pthread_barrier_init(&looked_at, NULL, (unsigned)threads + 1);
	bench_note("start_kb", bench_rss_kb());
	bench_clock_start();
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, &workers[i]))
			bench_fail("cannot start thread", i);
	pthread_barrier_wait(&freed);
	bench_clock_stop();
	look();
	pthread_barrier_wait(&looked_at);
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"threads", &threads, 1, BENCH_MAX_THREADS, NULL, "threads"},
		{"take", &take, 1, UINT64_C(1) << 40, NULL,
			"bytes that the threads take together"},
		{"min", &min, 1, 1 << 30, NULL, "smallest block"},
		{"max", &max, 1, 1 << 30, NULL, "largest block"},
		{"turns", &turns, 0, 0, turn_words,
			"threads side by side, or one after the other"},
		{"pause", &pause_ms, 0, 600000, NULL,
			"milliseconds without work before the last look"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"idle", options};
	uint64_t sum = 0, ops = 0;
	unsigned i;

	bench_options(&bench, argc, argv);
	if (min > max)
		bench_refuse("min is above max", min);
	for (i = 0; i < threads; i++)
		prepare(i);
	run();
	for (i = 0; i < threads; i++) {
		sum = sum * 31 + workers[i].checksum;
		ops += workers[i].ops;
	}
	return bench_report((unsigned)threads, ops, sum);
}
