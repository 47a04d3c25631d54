/*
 * The byte reservation: heaps that come, grow, give way and go, while the
 * share of each changes. Whoever grew did so within the share it saw; once a
 * heap has come by its cold path again, it is within the share that holds.
 *
 * BUG 1: a cap grows without a look at the share
 * BUG 2: an ended heap still counts when shares are made
 * BUG 3: a heap that is beyond its share stays there
 */
#define ANYWHERE 0
#include "common.h"

#ifndef LONG
#define LONG 0
#endif
#define HEAPS 2
#define BUDGET (2 + 2 * LONG)
#define LEAST 1

byte share = BUDGET;		/* hak_cache_share */
byte count;			/* heap_count */
byte reserved[HEAPS], depots[HEAPS];
bit registry, heap_lock[HEAPS];
byte ended;

/* recompute() in lib/budget.c */
inline recompute()
{
	if
	:: count == 0 -> share = BUDGET
	:: count != 0 -> share = (BUDGET / count > LEAST -> BUDGET / count :
			LEAST)
	fi
}

/* heap_birth() in lib/heap.c, hak_registry_add() in lib/registry.c */
inline birth()
{
	lock(registry);
	count++;
	recompute();
	unlock(registry)
}

/* heap_exit() in lib/heap.c, hak_cache_teardown() in lib/unified_cache.c */
inline end_heap(me)
{
	reserved[me] = 0;
	lock(heap_lock[me]);
	depots[me] = 0;
	unlock(heap_lock[me]);
	lock(registry);
#if BUG != 2
	count--;
#endif
	recompute();
	unlock(registry)
}

/* fits() in lib/unified_cache.c: own caps, and depots that others may empty
 * meanwhile, but never fill */
inline fits(me, more, saw, yes)
{
	saw = share;
	yes = (reserved[me] + depots[me] + more <= saw)
}

/* grow() in lib/unified_cache.c */
inline grow(me, saw, yes)
{
	fits(me, 1, saw, yes);
#if BUG == 1
	yes = 1;
#endif
	if
	:: yes -> reserved[me]++; assert(reserved[me] + depots[me] <= saw)
	:: else
	fi
}

/* exchange() in lib/unified_cache.c, depot_push() in lib/unified_cache.c */
inline exchange(me, saw, yes)
{
	fits(me, 1, saw, yes);
	if
	:: yes ->
		lock(heap_lock[me]);
		depots[me]++;
		unlock(heap_lock[me]);
		assert(reserved[me] + depots[me] <= saw)
	:: else
	fi
}

/* evict_for() in lib/unified_cache.c, then shrink() in lib/unified_cache.c:
 * on an overflow of a heap that no longer fits */
inline give_way(me, saw, yes)
{
	fits(me, 0, saw, yes);
	do
	:: !yes && depots[me] > 0 ->
		lock(heap_lock[me]);
		depots[me] = (depots[me] > 0 -> depots[me] - 1 : 0);
		unlock(heap_lock[me]);
		fits(me, 0, saw, yes)
	:: !yes && depots[me] == 0 && reserved[me] > LEAST ->
		reserved[me]--;
		fits(me, 0, saw, yes)
	:: yes || (depots[me] == 0 && reserved[me] <= LEAST) -> break
	od
}

proctype heap(byte me)
{
	byte saw, calls = 2 + LONG;
	bit yes;

	birth();
	do
	:: calls > 0 -> calls--;
		if
		:: grow(me, saw, yes)
		:: exchange(me, saw, yes)
		fi
	:: calls == 0 -> break
	od;
#if BUG != 3
	give_way(me, saw, yes);
#else
	fits(me, 0, saw, yes);
#endif
	/* It is within the share it saw last, or at its least. */
	assert(reserved[me] + depots[me] <= saw || reserved[me] <= LEAST);
	end_heap(me);
	ended++
}

/* sweep() in lib/budget.c, hak_budget_maintain() in lib/budget.c: under the
 * registry, which it only tries to get */
proctype maintain()
{
	byte h, rounds = 2;

	do
	:: rounds > 0 ->
		rounds--;
		if
		:: atomic { registry == 0 -> registry = 1 };
			h = 0;
			do
			:: h < HEAPS ->
				/* hak_cache_flush_depots() in
				 * lib/unified_cache.c */
				lock(heap_lock[h]);
				depots[h] = 0;
				unlock(heap_lock[h]);
				h++
			:: else -> break
			od;
			recompute();
			unlock(registry)
		:: registry == 1
		fi
	:: rounds == 0 -> break
	od;
	ended++
}

init {
	atomic { run heap(0); run heap(1); run maintain() }
	ended == HEAPS + 1;
	assert(count == 0 && share == BUDGET);
	assert(reserved[0] + reserved[1] + depots[0] + depots[1] == 0)
}
