/*
 * cache_limits.h: how much a heap may cache of each bin, and in what steps.
 *
 * The one place of the refill policy: defaults, options and budgets become a
 * row a bin at start, and the cold paths only read it.
 */
#ifndef HAK_CACHE_LIMITS_H
#define HAK_CACHE_LIMITS_H

#include "size_class.h"

struct cache_limits {
	/* Blocks of the front magazine or ring: where the budget is spent, at
	 * first, and at most. */
	uint8_t cap_least;
	uint8_t cap_first;
	uint8_t cap_max;
	/* Blocks of a refill: after a quiet time, and after some misses. */
	uint8_t batch_first;
	uint8_t batch_max;
	/* Full magazines of the depot: at first, and at most. */
	uint16_t depot_first;
	uint16_t depot_max;
};

/* Constant after hak_cache_limits_init(). */
extern struct cache_limits hak_cache_limits[BINS];

/* From hak_options; before the first heap is born. */
void hak_cache_limits_init(void);

#endif
