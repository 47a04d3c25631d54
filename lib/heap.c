/*
 * heap.c: birth, exit, registry and budget of heaps.
 *
 * I1  hak_heap points at a constant heap or at a registered one of its own
 *     thread; it is set before anything that may allocate again.
 * I2  hak_cache_share times the number of heaps stays within the budget (or
 *     SHARE_LEAST each).
 * I3  A heap on the free list holds no block and no magazine.
 *
 * The registry lock guards the lists of heaps.  It is the first lock taken,
 * so a heap's depots may be emptied, slabs released and pages purged under
 * it; maintenance gives way (trylock) when somebody else is at it.
 */
#include "heap.h"

#include "arena.h"
#include "background.h"
#include "limit.h"
#include "locked_heap.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "probe.h"
#include "records.h"
#include "shard.h"
#include "span.h"
#include "start.h"

#include <pthread.h>

#define HEAP_BYTES ALIGN_UP(sizeof(struct heap), CACHE_LINE)
#define SHARE_LEAST (16 * KIB)
#define CACHE_LEAST (8 * MIB)
#define RETAIN_LEAST (16 * MIB)
/* Freed bytes between two looks at what lies idle, at least. */
#define LOOK_LEAST (64 * KIB)
/* Runs of free pages that a sweep gives back first, in bytes. */
#define SWEEP_RUN (16 * KIB)

#define C4 HAK_CLOSED, HAK_CLOSED, HAK_CLOSED, HAK_CLOSED
#define C16 C4, C4, C4, C4
#define CLOSED_HEAP { { C16, C16, C16, C16, HAK_CLOSED } }
_Static_assert(CODES == 65, "CLOSED_HEAP closes every code");

#define UNBORN4 CLOSED_HEAP, CLOSED_HEAP, CLOSED_HEAP, CLOSED_HEAP
_Static_assert(UNBORN_FREES == 16, "one initializer each");

const struct constant_heaps hak_constant_heaps = {
	{ UNBORN4, UNBORN4, UNBORN4, UNBORN4 }, CLOSED_HEAP,
};

__thread struct heap *hak_heap
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) =
	(struct heap *)(uintptr_t)&hak_constant_heaps;

static struct hak_lock registry_lock = HAK_LOCK_INIT(RANK_REGISTRY);

/* Under registry_lock. */
static struct heap *heaps;
static struct heap *free_heaps;
static size_t heap_count;
static pthread_key_t exit_key;
static bool exit_key_made;
static size_t chunk_bytes;

/* Blocks, by bin, that lay in caches of threads a fork left behind; written
 * in the child while it has one thread. */
static size_t lost[BINS];
static size_t lost_bytes;

/* Read relaxed. */
static size_t retain_bytes = RETAIN_LEAST;
static uint64_t over_since_ms;

unsigned hak_due;
size_t hak_due_freed_bytes;
size_t hak_due_freed_enough = MIB;

size_t hak_heap_count(void)
{
	return LOAD_RELAXED(&heap_count);
}

size_t hak_heap_retain_bytes(void)
{
	return LOAD_RELAXED(&retain_bytes);
}

static size_t held_bytes(void)
{
	size_t bytes = 0;

	for (struct heap *h = heaps; h != NULL; h = h->next)
		bytes += hak_cache_held_bytes(h);
	return bytes;
}

size_t hak_heap_held_bytes(void)
{
	size_t bytes;

	hak_lock(&registry_lock);
	bytes = held_bytes();
	hak_unlock(&registry_lock);
	return bytes;
}

static size_t live_without(size_t held)
{
	size_t taken = hak_shard_taken_bytes(), idle;

	idle = held + hak_shard_spill_bytes() + lost_bytes;
	return (taken > idle ? taken - idle : 0) + hak_span_live_bytes() +
		hak_locked_heap_live_bytes();
}

size_t hak_heap_live_bytes(void)
{
	return live_without(hak_heap_held_bytes());
}

/* Under registry_lock. */
static size_t live_now(void)
{
	return live_without(held_bytes());
}

/* Heaps are never unmapped, so a walk without the lock, at worst, sees one
 * that ended and holds nothing. */
void hak_heap_visit(void (*visit)(struct heap *, void *), void *arg)
{
	bool locked = hak_lock_patiently(&registry_lock);

	for (struct heap *h = heaps; h != NULL; h = h->next)
		visit(h, arg);
	if (locked)
		hak_unlock(&registry_lock);
}

size_t hak_heap_lost(unsigned bin)
{
	return LOAD_RELAXED(&lost[bin]);
}

size_t hak_heap_chunk_bytes(void)
{
	return LOAD_RELAXED(&chunk_bytes);
}

static size_t retain_of(size_t live)
{
	size_t retain = LOAD_RELAXED(&hak_options.retain);

	return retain != SIZE_MAX ? retain : MAX(RETAIN_LEAST, live / 8);
}

/* Bytes that may be resident beyond what the program holds, free granules
 * aside: caches, queues, free blocks and tails in slabs, metadata. */
static size_t waste_beside(size_t live)
{
	size_t resident = hak_arena_used_bytes() + hak_arena_head_bytes() +
		hak_mapping_bytes();

	resident -= MIN(resident, hak_shard_purged_bytes());
	return resident > live ? resident - live : 0;
}

/* Shares and bounds from what is live now.  Under registry_lock. */
static void recompute(size_t live)
{
	size_t retain = retain_of(live);
	size_t cache = LOAD_RELAXED(&hak_options.cache);

	if (cache == 0)
		cache = MAX(CACHE_LEAST, live / 16);

	/* All empty memory counts, but a program whose slabs are sparse for
	 * good must not refault every large block. */
	STORE_RELAXED(&retain_bytes,
		retain - MIN(waste_beside(live), retain / 8 * 7));
	STORE_RELAXED(&hak_cache_budget, cache);
	STORE_RELAXED(&hak_cache_share,
		MAX(SHARE_LEAST, cache / MAX(heap_count, 1)));
}

static struct heap *new_heap(void)
{
	struct heap *heap = free_heaps;
	struct slab *chunk;

	if (heap != NULL) {
		free_heaps = heap->next;
		return heap;
	}
	chunk = hak_arena_take(1, 1, heap_count == 0 ? PLACE_SMALL
						     : PLACE_DENSE,
		CODE_NONE, 0);
	if (chunk == NULL)
		return NULL;
	if (!chunk->zero)
		__builtin_memset((void *)chunk->base, 0, GRANULE);
	STORE_RELAXED(&chunk_bytes, chunk_bytes + GRANULE);
	for (size_t at = GRANULE / HEAP_BYTES; at-- > 0;) {
		heap = (struct heap *)(chunk->base + at * HEAP_BYTES);
		heap->next = free_heaps;
		free_heaps = heap;
	}
	free_heaps = heap->next;
	return heap;
}

static void heap_exit(void *arg);

static void enrol(struct heap *heap)
{
	heap->next = heaps;
	heap->prev = NULL;
	if (heaps != NULL)
		heaps->prev = heap;
	heaps = heap;
	STORE_RELAXED(&heap_count, heap_count + 1);
	recompute(live_now());
}

/* A heap that nobody would end must not come to be: such a thread does with
 * the locked heap.  Under registry_lock. */
static bool can_end(void)
{
	if (!exit_key_made)
		exit_key_made = pthread_key_create(&exit_key, heap_exit) == 0;
	return exit_key_made;
}

static HAK_COLD struct heap *heap_birth(void)
{
	struct heap *heap;

	hak_start();
	hak_lock(&registry_lock);
	heap = can_end() ? new_heap() : NULL;
	if (heap != NULL) {
		*heap = (struct heap){ .lock = HAK_LOCK_INIT(RANK_HEAP) };
		hak_cache_init(heap);
		heap->shard = hak_shard_assign();
		heap->thread = hak_os_thread();
		enrol(heap);
	}
	hak_unlock(&registry_lock);
	if (heap == NULL)
		return NULL;
	hak_heap = heap;
	hak_counters_begin(heap->counters, heap->shard);
	hak_background_note_birth(heap->thread);
	HAK_PROBE(heap_birth, heap, heap->thread);
	/* May allocate, and finds the heap in place. */
	if (pthread_setspecific(exit_key, heap) != 0) {
		heap_exit(heap);
		hak_heap = hak_heap_unborn(0);
		return NULL;
	}
	hak_start_late();
	if (hak_options.check)
		heap->stack = hak_origin_stack();
	return heap;
}

static void heap_exit(void *arg)
{
	struct heap *heap = arg;

	hak_heap = hak_heap_dead();
	hak_background_note_exit(heap->thread);
	HAK_PROBE(heap_exit, heap, heap->thread);
	hak_cache_teardown(heap);
	hak_lock(&registry_lock);
	hak_counters_end(heap->counters);
	if (heap->prev != NULL)
		heap->prev->next = heap->next;
	else
		heaps = heap->next;
	if (heap->next != NULL)
		heap->next->prev = heap->prev;
	heap->next = free_heaps;
	free_heaps = heap;
	STORE_RELAXED(&heap_count, heap_count - 1);
	recompute(live_now());
	hak_unlock(&registry_lock);
}

struct heap *hak_heap_for_malloc(void)
{
	struct heap *heap = hak_heap;

	if (HAK_LIKELY(!hak_heap_is_constant(heap)))
		return heap;
	return heap == hak_heap_dead() ? NULL : heap_birth();
}

struct heap *hak_heap_for_free(void)
{
	struct heap *heap = hak_heap;

	if (HAK_LIKELY(!hak_heap_is_constant(heap)))
		return heap;
	if (heap == hak_heap_dead())
		return NULL;
	if (heap == hak_heap_unborn(UNBORN_FREES - 1))
		return heap_birth();
	hak_heap = (struct heap *)((uintptr_t)heap +
		sizeof(struct constant_heap));
	return NULL;
}

/* Empty memory beyond the bound goes, at once or after the delay; returns what
 * went.  Under registry_lock. */
static size_t purge_excess(void)
{
	size_t bytes, keep = hak_heap_retain_bytes();
	uint64_t now, delay = (uint64_t)LOAD_RELAXED(
		&hak_options.purge_delay_ms);

	if (hak_arena_dirty_bytes() <= keep) {
		over_since_ms = 0;
		return 0;
	}
	if (delay != 0) {
		now = hak_os_now_ms();
		if (over_since_ms == 0)
			over_since_ms = now;
		if (now - over_since_ms < delay)
			return 0;
		over_since_ms = 0;
	}
	bytes = hak_arena_purge(keep);
	if (bytes != 0)
		hak_arena_release(false);
	return bytes;
}

static void flush_all_depots(void)
{
	for (struct heap *h = heaps; h != NULL; h = h->next)
		hak_cache_flush_depots(h);
}

/* What the last sweep left: the next one must have something to gain.  Under
 * registry_lock. */
static size_t swept_waste;
static size_t swept_live;

/* The waste from which on a sweep pays: more than may stay, and clearly more
 * than the last sweep left.  So the work of sweeps is a bounded part of the
 * work of frees. */
static size_t sweep_from(size_t retain)
{
	return MAX(retain, swept_waste + MAX(retain / 4, swept_waste / 8));
}

/* Worth a sweep: as above, or too much is idle and the program gave half of
 * its memory back. */
static bool sweep_pays(size_t live)
{
	size_t retain = retain_of(live), waste = waste_beside(live);

	if (waste <= retain)
		swept_waste = MIN(swept_waste, waste);
	swept_live = MAX(swept_live, live);
	return waste > retain &&
		(waste > sweep_from(retain) || live <= swept_live / 2);
}

/* How much has to be freed before that can change.  Not too little, or a
 * program that hovers there would do nothing but look. */
static void look_again(size_t live)
{
	size_t retain = retain_of(live), waste = waste_beside(live);
	size_t from = sweep_from(retain), more;

	if (waste <= retain)
		more = retain - waste;
	else
		more = MIN(from - MIN(from, waste),
			live - MIN(live, swept_live / 2));
	STORE_RELAXED(&hak_due_freed_enough,
		MAX(more, MAX(LOOK_LEAST, live / 16)));
	STORE_RELAXED(&hak_due_freed_bytes, 0);
}

/* Empty what pins slabs, then give back the free pages inside them; returns
 * how much those were, and what was live then. */
static size_t sweep(size_t *live)
{
	size_t bytes = 0;

	if (!hak_heap_is_constant(hak_heap))
		hak_cache_flush(hak_heap);
	flush_all_depots();
	hak_spill_drain();
	*live = live_now();
	hak_shard_release_empty();
	/* Long runs first: a page costs a system call and a fault. */
	for (size_t run = SWEEP_RUN; run >= hak_page_size &&
	     waste_beside(*live) > retain_of(*live); run /= 4)
		bytes += hak_shard_purge(run);
	swept_live = *live;
	swept_waste = waste_beside(*live);
	return bytes;
}

/* Bounds from what is live now; what exceeds them goes.  Returns how much.
 * Under registry_lock. */
static size_t judge(unsigned due)
{
	size_t live = live_now(), bytes = 0;

	if (due & DUE_SWEEP && sweep_pays(live))
		bytes = sweep(&live);
	look_again(live);
	recompute(live);
	return bytes + purge_excess();
}

/* Any thread may take from any shard, so heaps can be moved while they run. */
static void spread(void)
{
	hak_shard_add();
	for (struct heap *h = heaps; h != NULL; h = h->next)
		/* Release: pairs with the acquire in shard_of() (unified_cache.c); whoever
		 * gets a block of the new shard knows that there is one. */
		__atomic_store_n(&h->shard, hak_shard_assign(),
			__ATOMIC_RELEASE);
}

static void add(size_t *sum, size_t n)
{
	STORE_RELAXED(sum, *sum + n);
}

/* A round of the background thread: what a busy program would do as it goes,
 * and half of each spill queue, since another thread may yet want the rest. */
static bool tidy(void)
{
	struct hak_background *sums = &hak_background;
	size_t drained = 0, purged;
	bool more;

	if (!hak_try_lock(&registry_lock))
		return true;
	__atomic_fetch_and(&hak_due, ~(DUE_BUDGET | DUE_SWEEP),
		__ATOMIC_RELAXED);
	add(&sums->magazines, hak_spill_drain_half(&drained));
	purged = judge(DUE_SWEEP);
	add(&sums->drained_bytes, drained);
	add(&sums->purged_bytes, purged);
	add(&sums->rounds, 1);
	/* Time alone makes due what waits for its delay, and what was drained
	 * may have left slabs sparse. */
	more = over_since_ms != 0 || hak_shard_spill_bytes() != 0 ||
		(LOAD_RELAXED(&hak_due) & DUE_SWEEP) != 0;
	hak_unlock(&registry_lock);
	return more;
}

HAK_COLD void hak_heap_background(void)
{
	hak_background_start(tidy);
}

static void wake_background(bool wanted)
{
	if (wanted && LOAD_RELAXED(&hak_background_asleep))
		hak_background_wake();
}

HAK_COLD void hak_heap_maintain(void)
{
	unsigned due;
	bool later;

	if (!hak_try_lock(&registry_lock)) {
		/* Who has it may have looked before this was due, and the
		 * background thread may be about to sleep. */
		wake_background(LOAD_RELAXED(&hak_due) & DUE_BACKGROUND);
		return;
	}
	/* What is set from here on is for the next round. */
	due = __atomic_exchange_n(&hak_due, 0, __ATOMIC_RELAXED);
	if (due & DUE_SPREAD)
		spread();
	judge(due);
	later = over_since_ms != 0 || (due & DUE_BACKGROUND) != 0;
	hak_unlock(&registry_lock);
	wake_background(later);
}

void hak_heap_retune(void)
{
	hak_lock(&registry_lock);
	judge(0);
	hak_unlock(&registry_lock);
	hak_heap_background();
	hak_background_wake();
}

static size_t give_back(size_t keep, bool pages)
{
	size_t bytes = 0;

	/* In a handler between fork's: other heaps' locks are not ours. */
	if (hak_lock_is_forking())
		return 0;
	hak_lock(&registry_lock);
	if (!hak_heap_is_constant(hak_heap))
		hak_cache_flush(hak_heap);
	flush_all_depots();
	hak_spill_drain();
	if (pages)
		bytes += hak_shard_purge(hak_page_size);
	else
		hak_shard_release_empty();
	bytes += hak_arena_purge(keep);
	hak_os_settle();
	recompute(live_now());
	hak_unlock(&registry_lock);
	return bytes;
}

HAK_COLD bool hak_heap_recover(void)
{
	size_t before = hak_limit_used();

	/* What is purged inside slabs makes room within a limit, but not in
	 * the address space. */
	give_back(0, LOAD_RELAXED(&hak_options.limit) != 0);
	return hak_arena_release(true) || hak_limit_used() < before;
}

size_t hak_heap_trim(size_t keep)
{
	return give_back(keep, true);
}

void hak_heap_fork_prepare(void)
{
	hak_lock(&hak_quarantine_lock);
	hak_lock(&registry_lock);
	/* Not before: two threads may fork at once. */
	hak_lock_fork_prepare();
	hak_locked_heap_fork_lock();
	hak_records_fork_lock();
	hak_shard_fork_lock();
	hak_lock(&hak_magazine_lock);
	hak_lock(&hak_arena_lock);
	hak_lock(&hak_mapping_lock);
	hak_lock(&hak_meta_lock);
	hak_lock(&hak_page_map_lock);
	hak_lock(&hak_owed_lock);
	hak_lock_fork_begin();
}

void hak_heap_fork_parent(void)
{
	/* Taken by other libraries' handlers, if at all: nobody else can hold
	 * it while the registry is locked. */
	if (!hak_heap_is_constant(hak_heap))
		hak_lock_reset(&hak_heap->lock);
	hak_lock_fork_end();
	hak_unlock(&hak_owed_lock);
	hak_unlock(&hak_page_map_lock);
	hak_unlock(&hak_meta_lock);
	hak_unlock(&hak_mapping_lock);
	hak_unlock(&hak_arena_lock);
	hak_unlock(&hak_magazine_lock);
	hak_shard_fork_unlock();
	hak_records_fork_unlock();
	hak_locked_heap_fork_unlock();
	hak_unlock(&registry_lock);
	hak_unlock(&hak_quarantine_lock);
}

static void lose(const struct heap *heap)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		size_t n = hak_cache_held(heap, bin);

		lost[bin] += n;
		lost_bytes += n * hak_bins[bin].size;
	}
}

/* The other threads are gone and their caches torn: strike their heaps.  What
 * lay in them is lost to this process, within the budget. */
void hak_heap_fork_child(void)
{
	struct heap *own = hak_heap_is_constant(hak_heap) ? NULL : hak_heap;

	hak_lock_fork_end();
	hak_lock_reset(&hak_owed_lock);
	hak_lock_reset(&hak_page_map_lock);
	hak_lock_reset(&hak_meta_lock);
	hak_lock_reset(&hak_mapping_lock);
	hak_lock_reset(&hak_arena_lock);
	hak_lock_reset(&hak_magazine_lock);
	hak_shard_fork_reset();
	hak_records_fork_reset();
	hak_locked_heap_fork_reset();
	hak_lock_reset(&registry_lock);
	for (struct heap *h = heaps; h != NULL; h = h->next)
		if (h != own)
			lose(h);
	heaps = own;
	heap_count = own != NULL;
	hak_cache_reserved = own != NULL
		? own->reserved_bytes + own->depot_bytes : 0;
	hak_background_fork_child(own != NULL);
	if (own != NULL) {
		own->next = own->prev = NULL;
		own->thread = hak_os_thread();
		hak_lock_reset(&own->lock);
	}
	hak_lock(&registry_lock);
	recompute(live_now());
	hak_unlock(&registry_lock);
}

HAK_EXPOSE(hak_note_heaps, heaps);
HAK_EXPOSE(hak_note_lost, lost);
HAK_EXPOSE(hak_note_heap_chunk_bytes, chunk_bytes);
HAK_EXPOSE(hak_note_retain_bytes, retain_bytes);
