/*
 * Threads do random operations on blocks and hand half of them to each other.
 * Each block carries a pattern that is checked before it is resized or freed;
 * what it should be is kept apart from it, so that damage cannot hide itself.
 *
 * Memory is watched as well: an allocator that loses blocks on their way
 * between threads passes every other check.
 */
#include "family.h"

#include <pthread.h>
#include <stdatomic.h>

#include "util.h"

enum { THREADS = 8, SLOTS = 384, EXCHANGES = 128 };

struct block {
	unsigned char *p;
	uint32_t n;
	uint32_t tag;
};

struct exchange {
	pthread_mutex_t lock;
	struct block block;
};

static struct exchange exchanges[EXCHANGES];
static atomic_long live; /* bytes in blocks, as asked for */
static atomic_long failures;
static atomic_int running;

static void fails(const char *what, const struct block *b)
{
	if (atomic_fetch_add(&failures, 1) < 10)
		diag("%s: block %p of %u bytes", what, (void *)b->p, b->n);
}

/* Large blocks are marked at both ends and once in each page. */
static void stamp(const struct block *b, size_t from)
{
	size_t n = b->n, edge = n < 2048 ? n : 1024;

	pattern_fill(b->p, from < edge ? from : edge, edge, b->tag);
	if (n == edge)
		return;
	for (size_t i = from > edge ? from : edge; i < n; i += 4096)
		b->p[i] = pattern_byte(i, b->tag);
	pattern_fill(b->p, n - 64, n, b->tag);
}

static int is_intact(const struct block *b)
{
	size_t n = b->n, edge = n < 2048 ? n : 1024;

	if (pattern_check(b->p, edge, b->tag) != edge)
		return 0;
	if (n == edge)
		return 1;
	for (size_t i = edge; i < n - 64; i += 4096)
		if (b->p[i] != pattern_byte(i, b->tag))
			return 0;
	for (size_t i = n - 64; i < n; i++)
		if (b->p[i] != pattern_byte(i, b->tag))
			return 0;
	return 1;
}

/* Mostly Tiny, some L2 and L2.5, now and then a large one. */
static uint32_t random_size(uint32_t *state)
{
	uint32_t kind = below(state, 4096);

	if (kind < 2)
		return below(state, 3000000);
	if (kind < 16)
		return below(state, 500000);
	if (kind < 200)
		return below(state, 32768);
	return below(state, kind < 1000 ? 1100 : 260);
}

static void drop(struct block *b)
{
	if (!b->p)
		return;
	if (!is_intact(b))
		fails("damaged before its free", b);
	atomic_fetch_sub_explicit(&live, b->n, memory_order_relaxed);
	FAMILY(free)(b->p);
	b->p = NULL;
}

static void make(struct block *b, uint32_t *state)
{
	uint32_t kind = below(state, 8), shift = 4 + below(state, 9);

	b->n = random_size(state);
	b->tag = rnd(state);
	if (kind == 0) {
		b->p = FAMILY(calloc)(1, b->n);
		if (b->p && first_dirty(b->p, b->n) != b->n)
			fails("calloc is not zero", b);
	} else if (kind == 1) {
		b->p = FAMILY(aligned_alloc)((size_t)1 << shift, b->n);
		if ((uintptr_t)b->p % ((size_t)1 << shift))
			fails("misaligned", b);
	} else {
		b->p = FAMILY(malloc)(b->n);
	}
	if (!b->p) {
		fails("no memory", b);
		return;
	}
	if ((uintptr_t)b->p % (b->n >= 16 ? 16 : 8))
		fails("misaligned", b);
	if (family_usable_size(b->p) < b->n)
		fails("too short", b);
	atomic_fetch_add_explicit(&live, b->n, memory_order_relaxed);
	stamp(b, 0);
}

static void resize(struct block *b, uint32_t *state)
{
	struct block old = *b;
	uint32_t n = random_size(state) + 1;

	if (!is_intact(b))
		fails("damaged before its realloc", b);
	b->p = FAMILY(realloc)(b->p, n);
	if (!b->p) {
		fails("no memory", &old);
		return;
	}
	atomic_fetch_add_explicit(
		&live, (long)n - (long)old.n, memory_order_relaxed);
	/* the end of a shorter block carries no mark yet: look at the head */
	b->n = old.n < n ? old.n : n;
	if (pattern_check(b->p, b->n < 1024 ? b->n : 1024, b->tag) !=
		(b->n < 1024 ? b->n : 1024))
		fails("realloc lost what was there", b);
	b->n = n;
	stamp(b, 0);
}

/* Leave a block for another thread, and free what another one left. */
static void exchange(struct block *b, uint32_t *state)
{
	struct exchange *x = &exchanges[below(state, EXCHANGES)];
	struct block got;

	pthread_mutex_lock(&x->lock);
	got = x->block;
	x->block = *b;
	pthread_mutex_unlock(&x->lock);
	b->p = NULL;
	drop(&got);
}

static void step(struct block *b, uint32_t *state)
{
	uint32_t what = below(state, 16);

	if (!b->p)
		make(b, state);
	else if (what < 4)
		drop(b);
	else if (what < 9)
		exchange(b, state);
	else if (what < 12)
		resize(b, state);
	else if (!is_intact(b))
		fails("damaged while it lived", b);
	if (below(state, 20000) == 0)
		family_trim(0);
}

static void *work(void *seed)
{
	struct block slot[SLOTS] = {{0}};
	uint32_t state = (uint32_t)(uintptr_t)seed;

	for (unsigned i = rounds(20000, 40); i--;)
		step(&slot[below(&state, SLOTS)], &state);
	for (int i = 0; i < SLOTS; i++)
		drop(&slot[i]);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/*
 * The most memory in use beyond what blocks account for.  Threads go on while
 * this one looks, or waits for its turn: the live bytes before and after count.
 */
static long watch(long start, long *peak_live)
{
	long worst = 0, before = 0;

	while (atomic_load(&running)) {
		long rss = rss_kib(), after = atomic_load(&live) / 1024;
		long most = before > after ? before : after;
		long excess = rss - start - most * 3 / 2;

		if (most > *peak_live)
			*peak_live = most;
		if (excess > worst)
			worst = excess;
		sleep_ms(2);
		before = atomic_load(&live) / 1024;
	}
	return worst;
}

static long round_of_threads(uint32_t seed, long *peak_live)
{
	pthread_t thread[THREADS];
	long start = rss_kib(), excess;

	atomic_store(&running, THREADS);
	for (uint32_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work,
			    (void *)(uintptr_t)(seed + i * 7919)))
			bail("no thread: %s", strerror(errno));
	excess = watch(start, peak_live);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return excess;
}

int main(int argc, char **argv)
{
	uint32_t seed;
	long start, allowed, excess = 0, peak_live = 0;

	(void)argc;
	family_start(argv);
	plan(4);
	seed = test_seed();
	for (int i = 0; i < EXCHANGES; i++)
		pthread_mutex_init(&exchanges[i].lock, NULL);
	start = rss_kib();
	for (uint32_t i = 0; i < 3; i++) {
		long this_time =
			round_of_threads(seed + i * 104729, &peak_live);

		excess = this_time > excess ? this_time : excess;
	}
	for (int i = 0; i < EXCHANGES; i++)
		drop(&exchanges[i].block);
	diag("at most %ld KiB live; RSS %ld KiB above 1.5 times the live bytes",
		peak_live, excess);
	is_int(failures, 0, "no block was damaged, short or misaligned");
	is_int(live, 0, "every block was freed");
	if (NAMESPACED || SHARDS != 0) {
		skip(2, "memory is judged under the preload library");
		return done();
	}
	/* caches, what is retained, and 8 stacks; the libc's are its own */
	allowed = (preloaded ? 32 : 64) * 1024;
	ok(excess < allowed, "memory in use follows the live blocks");
	ok(rss_kib() - start < allowed, "RSS is %ld KiB higher at the end",
		rss_kib() - start);
	return done();
}
