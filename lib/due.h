/*
 * due.h: work that was seen to be needed where it could not be done.
 *
 * Whoever sees a reason under a lock sets it; the cold paths look, when they
 * hold no lock, and do the work (hak_budget_maintain).
 */
#ifndef HAK_DUE_H
#define HAK_DUE_H

#include "base.h"

enum hak_due {
	/* Granules moved: shares and bounds are stale. */
	DUE_BUDGET = 1,
	/* So much was freed that pages may be had from sparse slabs. */
	DUE_SWEEP = 2,
	/* Threads wait for each other's bins: spread them over more shards. */
	DUE_SPREAD = 4,
	/* A spill queue is no longer empty, and the background thread sleeps. */
	DUE_BACKGROUND = 8
};

/* A set of reasons; relaxed: a late look costs nothing but time. */
extern unsigned hak_due;

HAK_INLINE void hak_due_set(unsigned reasons)
{
	__atomic_fetch_or(&hak_due, reasons, __ATOMIC_RELAXED);
}

/* Bytes that went from fronts to depots and bitmaps since the last look, and
 * how many make the next one worth while; relaxed. */
extern size_t hak_due_freed_bytes;
extern size_t hak_due_freed_enough;

HAK_INLINE void hak_due_freed(size_t bytes)
{
	if (__atomic_add_fetch(&hak_due_freed_bytes, bytes, __ATOMIC_RELAXED) >=
	    LOAD_RELAXED(&hak_due_freed_enough))
		hak_due_set(DUE_SWEEP);
}

#endif
