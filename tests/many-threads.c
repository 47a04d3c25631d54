/*
 * 500 threads that hold 100 KB each cost little more than that: what a
 * thread has of its own must follow what it uses.  Stacks may be small.
 */
#include "under-preload.h"

#include <limits.h>
#include <pthread.h>

#include "util.h"

/* 382 blocks of 16 to 495 bytes are 100 KB. */
enum { THREADS = 500, BLOCKS = 382 };

static pthread_barrier_t holding, looked;

static void *holds_100_kb(void *unused)
{
	void *block[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++) {
		size_t n = 16 + i * 53 % 480;

		block[i] = malloc(n);
		if (!block[i])
			bail("malloc gave NULL in a thread");
		memset(block[i], 1, n);
	}
	pthread_barrier_wait(&holding);
	pthread_barrier_wait(&looked);
	for (size_t i = 0; i < BLOCKS; i++)
		free(block[i]);
	return unused;
}

static long rss_with_all_threads(void)
{
	static pthread_t thread[THREADS];
	pthread_attr_t small;
	long rss;

	pthread_barrier_init(&holding, NULL, THREADS + 1);
	pthread_barrier_init(&looked, NULL, THREADS + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 * 1024);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], &small, holds_100_kb, NULL))
			bail("thread %d: %s", i, strerror(errno));
	pthread_barrier_wait(&holding);
	rss = rss_kib();
	pthread_barrier_wait(&looked);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return rss;
}

/* All kinds of blocks on the least stack that there is. */
static void *works_on_little(void *unused)
{
	for (size_t n = 1; n < 3 * MIB; n = n * 3 / 2 + 1) {
		void *p = malloc(n);

		p = realloc(p, n * 2);
		if (!p)
			return (void *)1;
		memset(p, 1, n < 4096 ? n : 4096);
		free(p);
	}
	return unused;
}

static int small_stacks_do(void)
{
	pthread_attr_t least;

	pthread_attr_init(&least);
	if (pthread_attr_setstacksize(&least, PTHREAD_STACK_MIN))
		return 0;
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *result;

		if (pthread_create(&thread, &least, works_on_little, NULL))
			return 0;
		pthread_join(thread, &result);
		REQUIRE(!result, "no memory in a thread");
	}
	return 1;
}

int main(int argc, char **argv)
{
	long bound = 80L * 1000 * 1000 / 1024;

	(void)argc;
	under_preload(argv);
	plan(4);
	for (int round = 0; round < 2; round++) {
		long rss = rss_with_all_threads();

		ok(rss < bound,
			"round %d: RSS %ld KiB in 500 threads of "
			"100 KB",
			round + 1, rss);
	}
	sleep_ms(200);
	ok(rss_kib() < 48 * 1024, "RSS %ld KiB when all have ended", rss_kib());
	ok(small_stacks_do(), "the least stack of a thread is enough");
	return done();
}
