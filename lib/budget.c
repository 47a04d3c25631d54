/*
 * budget.c: what may lie idle, and giving back what may not.
 *
 * I1  hak_cache_share times the number of heaps stays within hak_cache_budget
 *     (or SHARE_LEAST each).
 * I2  Empty memory beyond the bound of HAKMEM_RETAIN goes without a clock:
 *     granules as soon as enough of them changed hands, pages in sparse slabs
 *     by a sweep as soon as enough was freed.
 *
 * All of it is under hak_registry_lock.  Maintenance gives way (trylock) when
 * somebody else is at it.
 */
#include "budget.h"

#include "arena.h"
#include "background.h"
#include "limit.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "registry.h"
#include "shard.h"

#define SHARE_LEAST (16 * KIB)
#define CACHE_LEAST (8 * MIB)
#define RETAIN_LEAST (16 * MIB)
/* Free granules that may stay resident however sparse slabs are. */
#define SPARE_MOST (2 * MIB)
/* Freed bytes between two looks at what lies idle: a sixteenth of what is live
 * within these, but so much for each heap, since a look visits all of them. */
#define LOOK_LEAST (64 * KIB)
#define LOOK_MOST MIB
#define LOOK_HEAP (4 * KIB)
/* Runs of free pages that a sweep gives back first, in bytes. */
#define SWEEP_RUN (16 * KIB)

/* Read relaxed. */
static size_t retain_bytes = RETAIN_LEAST;
static uint64_t over_since_ms;

unsigned hak_due;
size_t hak_due_freed_bytes;
size_t hak_due_freed_enough = MIB;

size_t hak_budget_retain_bytes(void)
{
	return LOAD_RELAXED(&retain_bytes);
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

static size_t spare_of(size_t retain)
{
	return MIN(retain / 8, SPARE_MOST);
}

/* Shares and bounds from what is live now, and what is idle beside it. */
static void recompute(size_t live, size_t waste)
{
	size_t retain = retain_of(live);
	size_t cache = LOAD_RELAXED(&hak_options.cache);

	if (cache == 0)
		cache = MAX(CACHE_LEAST, live / 16);

	/* All empty memory counts, but a program whose slabs are sparse for
	 * good must not refault every large block. */
	STORE_RELAXED(&retain_bytes,
		MAX(retain - MIN(waste, retain),
			spare_of(retain)));
	STORE_RELAXED(&hak_cache_budget, cache);
	STORE_RELAXED(&hak_cache_share,
		MAX(SHARE_LEAST, cache / MAX(hak_heap_count(), 1)));
}

void hak_budget_update(void)
{
	size_t live = hak_registry_live_bytes();

	recompute(live, waste_beside(live));
}

/* Empty memory beyond the bound goes, at once or after the delay; returns what
 * went. */
static size_t purge_excess(void)
{
	size_t bytes, keep = hak_budget_retain_bytes();
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
	/* A bound that somebody set is held; churn makes it dear. */
	bytes = hak_arena_purge(keep,
		LOAD_RELAXED(&hak_options.retain) == SIZE_MAX);
	if (bytes != 0)
		hak_arena_release(false);
	return bytes;
}

static void flush_all_depots(void)
{
	for (struct heap *h = hak_registry; h != NULL; h = h->next)
		hak_cache_flush_depots(h);
}

/* What the last sweep left: the next one must have something to gain.  Under
 * hak_registry_lock. */
static size_t swept_waste;
static size_t swept_live;
/* What was freed since, up to the last look. */
static size_t swept_freed;

/* The waste from which on a sweep pays: more than may stay, and clearly more
 * than the last sweep left.  So the work of sweeps is a bounded part of the
 * work of frees. */
static size_t sweep_from(size_t retain)
{
	return MAX(retain, swept_waste + MAX(retain / 4, swept_waste / 8));
}

/* Worth a sweep: as above, or too much is idle and the program gave half of
 * its memory back, not in large blocks alone, which pin nothing.  Half of what
 * was live at the last sweep, or since while no sweep was wanted: what only
 * comes and goes between pinned pages must not sweep each time. */
static bool sweep_pays(size_t live, size_t waste)
{
	size_t retain = retain_of(live);

	swept_waste = MIN(swept_waste, waste);
	if (waste <= retain)
		swept_live = MAX(swept_live, live);
	return waste > retain &&
		(waste > sweep_from(retain) ||
			(live <= swept_live / 2 && swept_freed >= live / 2));
}

static size_t look_least(size_t live)
{
	size_t least = MAX(LOOK_LEAST, MIN(live / 16, LOOK_MOST));

	return MAX(least, hak_heap_count() * LOOK_HEAP);
}

/* How much has to be freed before that can change.  Not too little, or a
 * program that hovers there would do nothing but look. */
static void look_again(size_t live, size_t waste)
{
	size_t retain = retain_of(live);
	size_t from = sweep_from(retain), more, idle = waste;
	size_t dirty = hak_arena_dirty_bytes();

	/* Free granules go when waste wants their room. */
	if (dirty > spare_of(retain))
		idle += dirty;
	/* The bound falls by an eighth of what is freed. */
	if (waste <= retain)
		more = MAX((retain - MIN(retain, idle)) / 9 * 8,
			MIN(spare_of(retain), retain - waste));
	else
		more = MIN(from - MIN(from, waste),
			live - MIN(live, swept_live / 2));
	STORE_RELAXED(&hak_due_freed_enough, MAX(more, look_least(live)));
	STORE_RELAXED(&hak_due_freed_bytes, 0);
}

/* Empty what pins slabs, then give back the free pages inside them; returns
 * how much those were, and what was live then. */
static size_t sweep(size_t *live)
{
	size_t bytes = 0, enough;

	if (!hak_heap_is_constant(hak_heap))
		hak_cache_flush(hak_heap);
	flush_all_depots();
	hak_spill_drain();
	*live = hak_registry_live_bytes();
	hak_shard_release_empty();
	/* Who gave so much back is spared nothing for what it may take again. */
	hak_arena_end_churn();
	/* Long runs first: a page costs a system call and a fault.  Down to where
	 * the next sweep pays at the bound, which may have fallen by an eighth. */
	enough = retain_of(*live) / 8 * 5;
	for (size_t run = SWEEP_RUN; run >= hak_page_size &&
	     waste_beside(*live) > enough; run /= 4)
		bytes += hak_shard_purge(run);
	swept_live = *live;
	swept_waste = waste_beside(*live);
	swept_freed = 0;
	return bytes;
}

/* Bounds from what is live now; what exceeds them goes, whatever was the reason
 * to look: the next look counts frees from this one on.  Returns how much.
 * Under hak_registry_lock. */
static size_t judge(void)
{
	size_t live = hak_registry_live_bytes(), bytes = 0;
	/* Once: where large blocks come and go, looks are a good part of what
	 * they cost. */
	size_t waste = waste_beside(live);

	swept_freed += LOAD_RELAXED(&hak_due_freed_bytes);
	/* In a handler between fork's, other heaps' locks are not ours. */
	if (sweep_pays(live, waste) && !hak_lock_is_forking()) {
		bytes = sweep(&live);
		waste = swept_waste;
	}
	recompute(live, waste);
	bytes += purge_excess();
	look_again(live, waste);
	return bytes;
}

/* Any thread may take from any shard, so heaps can be moved while they run. */
static void spread(void)
{
	hak_shard_add();
	for (struct heap *h = hak_registry; h != NULL; h = h->next) {
		unsigned shard = hak_shard_assign();

		/* Release: pairs with the acquire in shard_of() (unified_cache.c); whoever
		 * gets a block of the new shard knows that there is one. */
		__atomic_store_n(&h->shard, shard, __ATOMIC_RELEASE);
		hak_counters_settle(h->counters, shard);
	}
}

static void add(size_t *sum, size_t n)
{
	STORE_RELAXED(sum, *sum + n);
}

/* Milliseconds until memory that waits for its delay goes, and at least those
 * of a round; 0 if none does. */
static uint64_t purge_due_in(void)
{
	uint64_t delay = (uint64_t)LOAD_RELAXED(&hak_options.purge_delay_ms);
	uint64_t due = over_since_ms + delay, now = hak_os_now_ms();

	if (over_since_ms == 0)
		return 0;
	return due > now ? MAX(due - now, HAK_BACKGROUND_MS)
			 : HAK_BACKGROUND_MS;
}

/* A round of the background thread: what a busy program would do as it goes,
 * and half of each spill queue, since another thread may yet want the rest. */
static uint64_t tidy(void)
{
	struct hak_background *sums = &hak_background;
	size_t drained = 0, purged;
	uint64_t ms;

	if (!hak_try_lock(&hak_registry_lock))
		return HAK_BACKGROUND_MS;
	__atomic_fetch_and(&hak_due, ~(DUE_BUDGET | DUE_SWEEP),
		__ATOMIC_RELAXED);
	add(&sums->magazines, hak_spill_drain_half(&drained));
	purged = judge();
	add(&sums->drained_bytes, drained);
	add(&sums->purged_bytes, purged);
	add(&sums->rounds, 1);
	/* What was drained may have left slabs sparse. */
	if (hak_shard_spill_bytes() != 0 ||
	    (LOAD_RELAXED(&hak_due) & DUE_SWEEP) != 0)
		ms = HAK_BACKGROUND_MS;
	else
		ms = purge_due_in();
	hak_unlock(&hak_registry_lock);
	return ms;
}

HAK_COLD void hak_budget_background(void)
{
	hak_background_start(tidy);
}

static void wake_background(bool wanted)
{
	if (wanted && LOAD_RELAXED(&hak_background_asleep))
		hak_background_wake();
}

HAK_COLD void hak_budget_maintain(void)
{
	unsigned due;
	bool later, waits;

	if (!hak_try_lock(&hak_registry_lock)) {
		/* Who has it may have looked before this was due, and the
		 * background thread may be about to sleep. */
		wake_background(LOAD_RELAXED(&hak_due) & DUE_BACKGROUND);
		return;
	}
	/* What is set from here on is for the next round. */
	due = __atomic_exchange_n(&hak_due, 0, __ATOMIC_RELAXED);
	if (due & DUE_SPREAD)
		spread();
	/* A delay that began before is known to the background thread. */
	waits = over_since_ms != 0;
	judge();
	later = (over_since_ms != 0 && !waits) || (due & DUE_BACKGROUND) != 0;
	hak_unlock(&hak_registry_lock);
	wake_background(later);
}

void hak_budget_retune(void)
{
	hak_lock(&hak_registry_lock);
	judge();
	/* Heaps of idle threads would not learn of a smaller budget. */
	if (LOAD_RELAXED(&hak_cache_reserved) >
			LOAD_RELAXED(&hak_cache_budget) &&
	    !hak_lock_is_forking())
		flush_all_depots();
	hak_unlock(&hak_registry_lock);
	hak_background_wake();
}

static size_t give_back(size_t keep, bool pages)
{
	size_t bytes = 0, mapped;

	/* In a handler between fork's: other heaps' locks are not ours. */
	if (hak_lock_is_forking())
		return 0;
	hak_lock(&hak_registry_lock);
	mapped = hak_mapping_bytes();
	if (!hak_heap_is_constant(hak_heap))
		hak_cache_flush(hak_heap);
	flush_all_depots();
	hak_spill_drain();
	if (pages)
		bytes += hak_shard_purge(hak_page_size);
	else
		hak_shard_release_empty();
	/* Slabs with a mapping of their own went by munmap. */
	bytes += mapped - MIN(mapped, hak_mapping_bytes());
	bytes += hak_arena_purge(keep, false);
	hak_os_settle();
	hak_budget_update();
	hak_unlock(&hak_registry_lock);
	return bytes;
}

HAK_COLD bool hak_budget_recover(void)
{
	size_t before = hak_limit_used();

	/* What is purged inside slabs makes room within a limit, but not in
	 * the address space. */
	give_back(0, LOAD_RELAXED(&hak_options.limit) != 0);
	return hak_arena_release(true) || hak_limit_used() < before;
}

size_t hak_budget_trim(size_t keep)
{
	return give_back(keep, true);
}

HAK_EXPOSE(hak_note_retain_bytes, retain_bytes);
