/*
 * limit.c: the one place that says no.
 *
 * A limit is on memory handed out, touched or not: what a program may touch
 * later without asking.  Whoever takes granules, makes a mapping or lets a
 * block grow asks here first; a refusal goes the way of a system without
 * memory: caches are emptied, free memory is purged, the request is tried once
 * more, and fails.
 *
 * What was admitted counts twice for a moment, as a claim and as memory in use:
 * a thread may be refused then that would have fitted, and tries once more.
 */
#include "limit.h"

#include "arena.h"
#include "mapping.h"
#include "options.h"
#include "page_map.h"
#include "shard.h"

/* Admitted, and not counted below yet. */
static size_t claimed;

size_t hak_limit_used(void)
{
	size_t used = hak_arena_used_bytes() + hak_arena_head_bytes() +
		hak_mapping_bytes() + hak_mapping_meta_bytes() +
		hak_page_map_bytes();

	return used - MIN(used, hak_shard_purged_bytes());
}

bool hak_limit_admits(size_t bytes, size_t *claim)
{
	size_t limit = LOAD_RELAXED(&hak_options.limit), used;

	*claim = 0;
	if (HAK_LIKELY(limit == 0))
		return true;
	if (bytes > limit)
		return false;
	/* Acquire: pairs with hak_limit_settle(): who does not see a claim any
	 * more sees what became of it. */
	used = __atomic_add_fetch(&claimed, bytes, __ATOMIC_ACQUIRE);
	used += hak_limit_used();
	if (used > limit) {
		hak_limit_settle(bytes);
		return false;
	}
	*claim = bytes;
	hak_arena_purge(limit - used, false);
	return true;
}

void hak_limit_settle(size_t claim)
{
	/* Release: pairs with the acquire in hak_limit_admits(). */
	if (claim != 0)
		__atomic_fetch_sub(&claimed, claim, __ATOMIC_RELEASE);
}
