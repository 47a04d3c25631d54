/*
 * fork.c: the handlers of fork.
 *
 * The locks that prepare takes, in rank order, are all there are but those of
 * heaps, which are either the forking thread's own or lie in caches that are
 * given up.
 */
#include "fork.h"

#include "arena.h"
#include "background.h"
#include "budget.h"
#include "locked_heap.h"
#include "mapping.h"
#include "os.h"
#include "page_map.h"
#include "records.h"
#include "registry.h"
#include "shard.h"

void hak_fork_prepare(void)
{
	hak_lock(&hak_quarantine_lock);
	hak_lock(&hak_registry_lock);
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

void hak_fork_parent(void)
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
	hak_unlock(&hak_registry_lock);
	hak_unlock(&hak_quarantine_lock);
}

/* The other threads are gone and their caches torn: strike their heaps.  What
 * lay in them is lost to this process, within the budget. */
void hak_fork_child(void)
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
	hak_lock_reset(&hak_registry_lock);
	hak_registry_strike_others(own);
	hak_background_fork_child(own != NULL);
	hak_lock(&hak_registry_lock);
	hak_budget_update();
	hak_unlock(&hak_registry_lock);
}
