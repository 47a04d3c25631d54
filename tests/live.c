/*
 * Live bytes and blocks, which the library derives by walking, equal the
 * program's own account: exactly, whenever its threads rest.
 */
#include "hakmem.h"

#include "util.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 25, SLOTS = 400 };

struct worker {
	void *block[SLOTS];
	uint32_t random;
	size_t blocks, bytes; /* this thread's account */
};

static struct worker workers[THREADS];
static pthread_barrier_t resting, going_on;
static struct hakmem_stats before;

static struct hakmem_stats stats(void)
{
	struct hakmem_stats all = {.struct_size = sizeof all};

	hakmem_stats_get(&all);
	return all;
}

/* Mostly small, now and then of every region. */
static size_t some_size(uint32_t *state)
{
	switch (below(state, 64)) {
	case 0:
		return 1 + below(state, 3 << 20);
	case 1:
		return 1 + below(state, 100000);
	case 2:
		return below(state, 2) ? 40 << 20 : 0;
	default:
		return 1 + below(state, 1500);
	}
}

static void account(struct worker *w, void *block, int sign)
{
	if (!block)
		return;
	w->blocks += (size_t)sign;
	w->bytes += (size_t)sign * hakmem_usable_size(block);
}

static void *renew(struct worker *w, void *old)
{
	size_t n = some_size(&w->random);

	switch (below(&w->random, 4)) {
	case 0:
		return n ? hakmem_realloc(old, n) : old;
	case 1:
		hakmem_free(old);
		return hakmem_aligned_alloc(
			(size_t)16 << below(&w->random, 9), n);
	case 2:
		hakmem_free(old);
		return hakmem_calloc(1, n);
	default:
		hakmem_free(old);
		return below(&w->random, 2) ? hakmem_malloc(n) : NULL;
	}
}

static void step(struct worker *w)
{
	/* A block of another thread's, whose slot is this one's for a round. */
	size_t at = below(&w->random, SLOTS);

	account(w, w->block[at], -1);
	w->block[at] = renew(w, w->block[at]);
	account(w, w->block[at], 1);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 2000; i++)
			step(w);
		pthread_barrier_wait(&resting);
		pthread_barrier_wait(&going_on);
	}
	return NULL;
}

/* Sums that wrap balance, as blocks change hands between threads. */
static int agrees(const char *when)
{
	struct hakmem_stats now = stats();
	size_t blocks = 0, bytes = 0;

	for (int i = 0; i < THREADS; i++) {
		blocks += workers[i].blocks;
		bytes += workers[i].bytes;
	}
	REQUIRE(now.live_blocks - before.live_blocks == blocks &&
			now.live_bytes - before.live_bytes == bytes,
		"%s: %zu blocks of %zu bytes, and not %zu of %zu", when,
		now.live_blocks - before.live_blocks,
		now.live_bytes - before.live_bytes, blocks, bytes);
	return 1;
}

static void swap_blocks(void)
{
	for (int i = 0; i < SLOTS; i++) {
		void *first = workers[0].block[i];

		for (int t = 0; t + 1 < THREADS; t++)
			workers[t].block[i] = workers[t + 1].block[i];
		workers[THREADS - 1].block[i] = first;
	}
}

static void test_one_thread(void)
{
	int right = 1;

	for (int round = 0; round < 200 && right; round++) {
		for (int i = 0; i < 100; i++)
			step(&workers[0]);
		right = agrees("one thread");
	}
	ok(right, "one thread: exact at every step");
}

static void test_threads(void)
{
	pthread_t thread[THREADS];
	int right = 1;

	pthread_barrier_init(&resting, NULL, THREADS + 1);
	pthread_barrier_init(&going_on, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, &workers[i]))
			bail("no thread: %s", strerror(errno));
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&resting);
		right &= agrees("threads");
		swap_blocks();
		pthread_barrier_wait(&going_on);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ok(right, "threads that free each other's blocks: exact when they rest");
	ok(agrees("after"), "threads that ended: exact");
}

static void test_end(void)
{
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < SLOTS; i++) {
			account(&workers[t], workers[t].block[i], -1);
			hakmem_free(workers[t].block[i]);
		}
	ok(agrees("end"), "all is freed: exact");
	is_size(stats().live_bytes, before.live_bytes, "and none is left");
}

int main(void)
{
	uint32_t seed = test_seed();

	plan(5);
	for (int i = 0; i < THREADS; i++)
		workers[i].random = seed + (uint32_t)i * 7919 + 1;
	before = stats();
	test_one_thread();
	test_threads();
	test_end();
	return done();
}
