/*
 * Counters: a single thread whose every hit, miss, refill and exchange of
 * magazines is worked out by hand, and threads whose sums must balance. Cases
 * of groups that are not compiled in are left out.
 */
#include "alloc.h"
#include "budget.h"
#include "due.h"
#include "forward.h"
#include "heap.h"
#include "locked_heap.h"
#include "shard.h"
#include "stats.h"

#include "tap.h"

#include <pthread.h>

/* The insides alone: there is no other library to pass calls to. */
const struct hak_entry_points *hak_forward;

enum { SIZE = 64, BATCH = 8, MANY = 1000, THREADS = 4 };

static void *blocks[MANY];
static unsigned bin;

#define COUNTS(group, got, want, name)                                         \
	(HAK_COMPILED_##group ? (void)is_size(got, want, name)                 \
			      : skip(1, "not compiled in"))
#define HOLDS(compiled, passed, name)                                          \
	((compiled) ? (void)ok(passed, name) : skip(1, "not compiled in"))

static struct hak_snapshot now;

static const struct hak_counters *take(void)
{
	hak_stats_take(&now, 0);
	return (const struct hak_counters *)(void *)now.counters;
}

static void fill_from(int first, int end)
{
	for (int i = first; i < end; i++)
		blocks[i] = hak_malloc(SIZE);
}

static void fill(int n)
{
	fill_from(0, n);
}

static void empty(int n)
{
	for (int i = 0; i < n; i++)
		hak_free(blocks[i]);
}

static void test_refills(void)
{
	const struct hak_counters *c;

	fill(BATCH);
	c = take();
	COUNTS(REFILL, c->box_blocks, 0, "a new slab is no page box");
	COUNTS(REFILL, c->box_cycles, 0, "and its time not that of one");
	HOLDS(HAK_COMPILED_REFILL, c->granule_cycles + c->superslab_cycles > 0,
		"but of its own stage");
	fill_from(BATCH, 10 * BATCH);
	c = take();
	COUNTS(CACHE, c->misses[bin], 10, "a miss a batch");
	COUNTS(CACHE, c->hits[bin], 10 * (BATCH - 1), "hits are the rest");
	HOLDS(HAK_COMPILED_CACHE, c->refill_cycles[bin] > 0,
		"refills take time");
	COUNTS(CLASS, c->allocs[bin], 10 * BATCH, "allocations");
	COUNTS(CLASS, c->frees[bin], 0, "no frees yet");
	COUNTS(CLASS, c->peak[bin], 10 * BATCH, "all of them are out of bitmaps");
	COUNTS(REFILL, c->granule_attempts + c->superslab_attempts, 1,
		"one slab was made");
	COUNTS(REFILL, c->granule_blocks + c->superslab_blocks, BATCH,
		"for the first batch");
	COUNTS(REFILL, c->box_blocks, 9 * BATCH, "the others came from the page box");
	COUNTS(REFILL, c->depot_blocks + c->spill_blocks + c->warm_blocks +
		c->listed_blocks, 0, "and none from elsewhere");
	COUNTS(REFILL, c->depot_attempts, 10, "the depot was asked first");
}

/* Three full slabs, of each of which one block is freed: the newest is the page
 * box, and of the others one is warm and one is not. */
static void test_stages(void)
{
	unsigned each = hak_bins[bin].blocks, warm = hak_options.warm_pool_size;
	static void *all[3 * 1024];
	struct hak_counters before;
	const struct hak_counters *c;

	if (each > 1024 || each % BATCH != 0)
		bail("a slab has %u blocks", each);
	hak_options.warm_pool_size = 1;
	for (unsigned i = 0; i < 3 * each; i++)
		all[i] = hak_malloc(SIZE);
	for (unsigned i = 0; i < 3; i++)
		hak_free(all[i * each]);
	hak_cache_flush(hak_heap);
	before = *take();
	for (unsigned i = 0; i < 3; i++)
		all[i * each] = hak_malloc(SIZE);
	c = take();
	COUNTS(REFILL, c->box_blocks - before.box_blocks, 1, "of the page box");
	COUNTS(REFILL, c->warm_blocks - before.warm_blocks, 1, "of a warm slab");
	COUNTS(REFILL, c->listed_blocks - before.listed_blocks, 1,
		"of one that is no longer warm");
	COUNTS(REFILL, c->listed_attempts - before.listed_attempts, 2,
		"which was asked for another slab in vain");
	for (unsigned i = 0; i < 3 * each; i++)
		hak_free(all[i]);
	hak_options.warm_pool_size = warm;
	hak_cache_flush(hak_heap);
}

/* A front of 127 blocks and a depot of two magazines; the queue takes four:
 * 1000 frees fill seven magazines and leave 111 blocks in the front. */
static void test_magazines(void)
{
	struct hak_counters before;
	const struct hak_counters *c;

	fill(MANY);
	before = *take();
	empty(MANY);
	c = take();
	COUNTS(FREE, c->tls - before.tls, MANY, "every block goes on a magazine");
	COUNTS(FREE, c->depot_puts - before.depot_puts, 7, "exchanges");
	COUNTS(FREE, c->depot_takes - before.depot_takes, 5, "beyond two");
	COUNTS(FREE, c->spill_puts - before.spill_puts, 4, "four find the queue");
	COUNTS(DIAG, c->spill_refused - before.spill_refused, 1, "the fifth not");
	COUNTS(FREE, c->ss_local - before.ss_local, 127, "and is flushed");
	COUNTS(FREE, c->ss_remote, 0, "to the own shard");
	COUNTS(CLASS, c->frees[bin] - before.frees[bin], MANY, "frees");

	before = *c;
	fill(111 + 6 * 127);
	c = take();
	COUNTS(CACHE, c->hits[bin] - before.hits[bin], 111 + 6 * 126, "hits again");
	COUNTS(CACHE, c->misses[bin] - before.misses[bin], 6, "a miss a magazine");
	COUNTS(FREE, c->depot_takes - before.depot_takes, 2, "from the depot");
	COUNTS(FREE, c->spill_takes - before.spill_takes, 4, "from the queue");
	COUNTS(REFILL, c->depot_blocks - before.depot_blocks, 2 * 127,
		"blocks of the depot");
	COUNTS(REFILL, c->spill_blocks - before.spill_blocks, 4 * 127,
		"blocks of the queue");
	COUNTS(REFILL, c->box_blocks - before.box_blocks, 0, "none from bitmaps");
	empty(111 + 6 * 127);
}

static void test_returns(void)
{
	struct hak_counters before = *take();
	const struct hak_counters *c;
	struct locked_heap *heap;
	void *block;

	hak_free(NULL);
	ok(hak_malloc(PTRDIFF_MAX) == NULL, "too much");
	c = take();
	COUNTS(DIAG, c->free_null - before.free_null, 1, "a free of nothing");
	COUNTS(DIAG, c->alloc_failed - before.alloc_failed, 1, "a failure");
	before = *c;
	block = hak_malloc(SIZE);
	heap = hak_locked_heap_new();
	ok(hak_realloc(block, (size_t)PTRDIFF_MAX + 1) == NULL &&
		hak_calloc(SIZE_MAX / 2, 3) == NULL &&
		hak_heap_alloc(heap, PTRDIFF_MAX, 1) == NULL &&
		hak_heap_calloc(heap, SIZE_MAX / 2, 3) == NULL,
		"too much, by other ways");
	c = take();
	COUNTS(DIAG, c->alloc_failed - before.alloc_failed, 4, "failures all");
	hak_locked_heap_destroy(heap);
	hak_free(block);
}

static void *work(void *arg)
{
	void *mine[200];
	unsigned random = (unsigned)(size_t)arg;

	for (int i = 0; i < 200; i++)
		mine[i] = hak_malloc(16u << i % 8);
	for (int round = 0; round < 20000; round++) {
		int i;

		random = random * 1664525 + 1013904223;
		i = (int)(random >> 8) % 200;
		hak_free(mine[i]);
		mine[i] = hak_malloc(random >> 20);
	}
	/* Half of them stay when the thread has ended. */
	for (int i = 0; i < 200; i += 2)
		hak_free(mine[i]);
	return NULL;
}

static void test_threads(void)
{
	const struct hak_snapshot *s = &now;
	const struct hak_counters *c;
	pthread_t threads[THREADS];
	size_t depots = 0, spilled = 0;
	bool balanced = true, all_hit_or_missed = true;

	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	c = take();
	for (unsigned b = TINY_FIRST; b < BINS; b++) {
		balanced &= c->allocs[b] - c->frees[b] == s->bin[b].live;
		all_hit_or_missed &= c->hits[b] + c->misses[b] == c->allocs[b];
		depots += s->bin[b].depot / MAGAZINE_BLOCKS;
		spilled += s->bin[b].spill / MAGAZINE_BLOCKS;
	}
	HOLDS(HAK_COMPILED_CLASS, balanced,
		"allocations less frees are what is live, in every bin");
	HOLDS(HAK_COMPILED_CLASS && HAK_COMPILED_CACHE, all_hit_or_missed,
		"each of them was a hit or a miss");
	COUNTS(FREE, c->depot_puts - c->depot_takes, depots,
		"magazines put less those taken are in depots");
	COUNTS(FREE, c->spill_puts - c->spill_takes, spilled, "or in queues");
}

/* A thread that is moved to another shard knows which frees are remote. */
static void move_to(unsigned shard)
{
	for (int i = 0; hak_heap->shard != shard && i < 100; i++) {
		hak_due_set(DUE_SPREAD);
		hak_budget_maintain();
	}
	if (hak_heap->shard != shard)
		bail("not moved");
}

static void test_shards(void)
{
	struct hak_counters before;
	const struct hak_counters *c;

	hak_shard_force(2);
	move_to(0);
	hak_cache_flush(hak_heap);
	fill(10 * BATCH);
	move_to(1);
	before = *take();
	empty(10 * BATCH);
	hak_cache_flush(hak_heap);
	c = take();
	COUNTS(FREE, c->ss_remote - before.ss_remote, 10 * BATCH,
		"moved: blocks of the old shard are remote");
	COUNTS(FREE, c->ss_local - before.ss_local, 0, "moved: and not local");
	move_to(0);
	fill(10 * BATCH);
	before = *take();
	empty(10 * BATCH);
	hak_cache_flush(hak_heap);
	c = take();
	COUNTS(FREE, c->ss_local - before.ss_local, 10 * BATCH,
		"moved back: they are local");
	COUNTS(FREE, c->ss_remote - before.ss_remote, 0,
		"moved back: and not remote");
}

static size_t tries(const struct hak_counters *c)
{
	return c->depot_attempts + c->spill_attempts + c->box_attempts +
		c->warm_attempts + c->listed_attempts + c->granule_attempts +
		c->superslab_attempts + c->box_blocks;
}

static void test_heap_objects(void)
{
	struct locked_heap *heap = hak_locked_heap_new();
	struct hak_counters before = *take();

	for (int i = 0; i < MANY; i++)
		hak_heap_alloc(heap, SIZE, 1);
	COUNTS(REFILL, tries(take()) - tries(&before), 0,
		"a first-class heap refills no thread's cache");
	hak_locked_heap_destroy(heap);
}

static void test_ticks(void)
{
	is_size(hak_ticks_since(0), 0, "a gate that was closed at the start");
}

/* Threads that come and go while sums are taken: of counters that only rise. */
static bool stop;

static void *one_block(void *arg)
{
	hak_free(hak_malloc(SIZE));
	return arg;
}

static void *churn(void *arg)
{
	while (!LOAD_RELAXED(&stop)) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, one_block, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return arg;
}

static void test_ends(void)
{
	size_t last = 0, most = 0;
	pthread_t thread;
	int fell = 0;

	pthread_create(&thread, NULL, churn, NULL);
	for (int i = 0; i < 20000; i++) {
		size_t allocs = take()->allocs[bin];

		fell += allocs < last;
		last = allocs;
		most = allocs > most ? allocs : most;
	}
	STORE_RELAXED(&stop, true);
	pthread_join(thread, NULL);
	HOLDS(HAK_COMPILED_CLASS, fell == 0,
		"no thread that ends is counted twice or not at all");
	HOLDS(HAK_COMPILED_CLASS, most > 0, "and they were there");
}

/* After the library's own destructor of the thread. */
static pthread_key_t late;

static void at_the_end(void *block)
{
	hak_free(hak_malloc(SIZE));
	hak_free(block);
}

static void *leaves_work(void *arg)
{
	pthread_setspecific(late, hak_malloc(SIZE));
	return arg;
}

static void test_homeless(void)
{
	struct hak_counters before = *take();
	const struct hak_counters *c;
	static char no_block[64];
	pthread_t thread;

	pthread_key_create(&late, at_the_end);
	pthread_create(&thread, NULL, leaves_work, NULL);
	pthread_join(thread, NULL);
	hak_options.invalid_free = HAK_INVALID_FREE_IGNORE;
	hak_free(no_block + 16);
	c = take();
	COUNTS(DIAG, c->alloc_homeless - before.alloc_homeless, 1,
		"an allocation without a cache");
	COUNTS(DIAG, c->free_homeless - before.free_homeless, 1,
		"a free without a cache");
	COUNTS(DIAG, c->free_invalid - before.free_invalid, 1,
		"a free of no block");
}

static void not_asked_for(void)
{
	const struct hak_counters *c;
	const size_t *all;

	hak_options.measure_unified_cache = hak_options.measure_class = 0;
	hak_options.measure_free = hak_options.measure_refill = 0;
	hak_options.measure_diag = 0;
	fill(MANY);
	empty(MANY);
	hak_free(NULL);
	c = take();
	all = (const size_t *)c;
	for (size_t i = 0; i < HAK_COUNTERS; i++)
		if (all[i] != 0)
			fprintf(stderr, "counter %zu is %zu", i, all[i]);
	if (hak_cache_is_closed())
		fprintf(stderr, "the caches are closed");
}

int main(void)
{
	char errors[200];
	int status;

	if (!HAK_COUNTERS_COMPILED)
		skip_all("no group of counters is compiled in");
	plan(55);
	hak_options.tiny_refill_count_c3 = BATCH;
	hak_options.tiny_unified_c3 = 3 * 127;
	bin = hak_bin_of(SIZE);
	hak_options.measure_unified_cache = HAK_COMPILED_CACHE;
	hak_options.measure_class = HAK_COMPILED_CLASS;
	hak_options.measure_free = HAK_COMPILED_FREE;
	hak_options.measure_refill = HAK_COMPILED_REFILL;
	hak_options.measure_diag = HAK_COMPILED_DIAG;
	/* Before this process's first allocation decides on the caches. */
	is_int(tap_child(not_asked_for, &status, errors, sizeof errors), 0,
		"compiled in and not asked for: runs");
	is_str(errors, "", "compiled in and not asked for: counts nothing");
	test_refills();
	empty(10 * BATCH);
	hak_cache_flush(hak_heap);
	test_stages();
	test_magazines();
	test_returns();
	test_threads();
	test_shards();
	test_heap_objects();
	test_ticks();
	test_ends();
	test_homeless();
	return done();
}
