/*
 * limit.c: the one place that says no.
 *
 * A limit is on memory handed out, touched or not: what a program may touch
 * later without asking.  Whoever takes granules, makes a mapping or lets a
 * block grow asks here first; a refusal goes the way of a system without
 * memory: caches are emptied, free memory is purged, the request is tried once
 * more, and fails.
 *
 * Two threads may be admitted at once where one would have fitted: the excess
 * is what threads allocate within the same microsecond, and is not kept.
 */
#include "limit.h"

#include "arena.h"
#include "mapping.h"
#include "options.h"
#include "page_map.h"
#include "shard.h"

size_t hak_limit_used(void)
{
	size_t used = hak_arena_used_bytes() + hak_arena_head_bytes() +
		hak_mapping_bytes() + hak_mapping_meta_bytes() +
		hak_page_map_bytes();

	return used - MIN(used, hak_shard_purged_bytes());
}

bool hak_limit_admits(size_t bytes)
{
	size_t limit = LOAD_RELAXED(&hak_options.limit), used;

	if (HAK_LIKELY(limit == 0))
		return true;
	used = hak_limit_used();
	if (used > limit || bytes > limit - used)
		return false;
	hak_arena_purge(limit - used - bytes);
	return true;
}
