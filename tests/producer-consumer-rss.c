/*
 * Blocks that one thread allocates and another frees must be of use to the
 * first again at once, or memory grows without bound: while the queue between
 * the two is short, RSS stays near what is live.
 */
#include "under-preload.h"

#include <pthread.h>

#include "util.h"

enum { PRODUCERS = 4, BATCH = 64, QUEUE = 64 * BATCH };

/* Each thread of the producing side holds this many of its blocks. */
static size_t held_each, block_size;
static size_t room; /* of the queue, in blocks: at most a few MiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static void *queue[QUEUE];
static size_t queued;
static int producing;

static void send(void **blocks, size_t n)
{
	pthread_mutex_lock(&lock);
	while (queued + n > room)
		pthread_cond_wait(&not_full, &lock);
	memcpy(queue + queued, blocks, n * sizeof *blocks);
	queued += n;
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&lock);
}

/* Returns 0 when all producers have ended and nothing is left. */
static size_t receive(void **blocks)
{
	size_t n;

	pthread_mutex_lock(&lock);
	while (!queued && producing)
		pthread_cond_wait(&not_empty, &lock);
	n = queued;
	memcpy(blocks, queue, n * sizeof *blocks);
	queued = 0;
	pthread_cond_broadcast(&not_full);
	pthread_mutex_unlock(&lock);
	return n;
}

static void producer_ends(void)
{
	pthread_mutex_lock(&lock);
	producing--;
	pthread_cond_broadcast(&not_empty);
	pthread_mutex_unlock(&lock);
}

struct outbox {
	void *block[BATCH];
	size_t n;
};

static void post(struct outbox *out, void *block)
{
	out->block[out->n++] = block;
	if (out->n == BATCH) {
		send(out->block, BATCH);
		out->n = 0;
	}
}

static void *produce(void *arg)
{
	struct outbox out = {.n = 0};
	void **held = calloc(held_each, sizeof *held);
	uint32_t state = (uint32_t)(uintptr_t)arg;

	for (size_t i = 0; i < held_each * rounds(5, 20); i++) {
		size_t at =
			i < held_each ? i : below(&state, (uint32_t)held_each);

		if (held[at])
			post(&out, held[at]);
		held[at] = malloc(block_size);
		if (!held[at])
			bail("malloc gave NULL");
		memset(held[at], 1, block_size);
	}
	for (size_t at = 0; at < held_each; at++)
		post(&out, held[at]);
	send(out.block, out.n);
	free(held);
	producer_ends();
	return NULL;
}

/* Never allocates: its first act towards the allocator is a free. */
static void *consume(void *unused)
{
	void *block[QUEUE];

	for (;;) {
		size_t n = receive(block);

		for (size_t i = 0; i < n; i++)
			free(block[i]);
		if (!n)
			return unused;
	}
}

static int still_producing(void)
{
	int n;

	pthread_mutex_lock(&lock);
	n = producing;
	pthread_mutex_unlock(&lock);
	return n;
}

static size_t room_for(size_t size)
{
	size_t n = 2 * MIB / size;

	return n < 2 * BATCH ? 2 * BATCH : n > QUEUE ? QUEUE : n;
}

/* The most RSS while it runs; what an earlier run left counts too. */
static long run(int producers, int consumers, size_t size, size_t live)
{
	pthread_t thread[2 * PRODUCERS];
	long peak = 0;
	int n = 0;

	block_size = size;
	room = room_for(size);
	held_each = live / size / (size_t)producers;
	producing = producers;
	for (int i = 0; i < consumers; i++)
		pthread_create(&thread[n++], NULL, consume, NULL);
	for (long i = 0; i < producers; i++)
		pthread_create(&thread[n++], NULL, produce, (void *)(i + 5));
	while (still_producing()) {
		long rss = rss_kib();

		peak = rss > peak ? rss : peak;
		sleep_ms(5);
	}
	while (n)
		pthread_join(thread[--n], NULL);
	return peak;
}

struct shape {
	int producers, consumers;
	size_t size, live;
};

static const struct shape shapes[] = {
	{PRODUCERS, 1, 592, 24 << 20},
	{1, 1, 64, 16 << 20},
	{1, PRODUCERS, 300, 16 << 20},
	{2, 2, 5000, 24 << 20},
	{2, 2, 70000, 24 << 20},
};

int main(int argc, char **argv)
{
	long start;

	(void)argc;
	under_preload(argv);
	start = rss_kib();
	plan(ARRAY_SIZE(shapes));
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		const struct shape *s = &shapes[i];
		long live = (long)(s->live / 1024);
		long in_queue = (long)(room_for(s->size) * s->size / 1024);
		long peak = run(s->producers, s->consumers, s->size, s->live) -
			    start;

		ok(peak < (live + in_queue) * 3 / 2 + 24 * 1024,
			"%d producers, %d consumers, %zu bytes: RSS +%ld KiB "
			"for %ld to %ld KiB",
			s->producers, s->consumers, s->size, peak, live,
			live + in_queue);
	}
	return done();
}
