/*
 * Threads that allocate, free each other's blocks and end; the exchange by
 * depots and the spill queue; a trim, and a background thread that drains.
 * No block is lost or in two places, and nobody waits for ever.
 *
 * BUG 1: a depot is read without its lock
 * BUG 2: the spill queue is read without its lock
 * BUG 3: an ending thread forgets its depot
 * BUG 4: a refused magazine is dropped
 * BUG 5: a trim takes the registry when it holds a depot, an exit before
 */
#define ANYWHERE (bitmap | spill | program | front[0] | front[1] | \
	depot[0] | depot[1])
#include "common.h"

#define THREADS 2
/* LONG: one call more, and the background thread beside a trim. */
#ifndef LONG
#define LONG 0
#endif

byte bitmap = ALL, spill, program;
byte front[THREADS], depot[THREADS];
bit listed[THREADS] = 1;
bit registry, bin_lock, heap_lock[THREADS];
short ended;

/* hak_spill_take() in lib/shard.c */
inline spill_take(b)
{
	b = NONE;
	if
	:: spill == 0
	:: spill != 0 ->
#if BUG != 2
		lock(bin_lock);
#endif
		lowest(spill, b);
		if
		:: b != NONE -> out(spill, b)
		:: else
		fi;
#if BUG != 2
		unlock(bin_lock)
#endif
	fi
}

/* hak_shard_flush() in lib/shard.c */
inline flush(b)
{
	lock(bin_lock);
	put(bitmap, b);
	unlock(bin_lock)
}

/* hak_spill_put() in lib/shard.c, give_away() in lib/unified_cache.c */
inline give_away(b)
{
	lock(bin_lock);
	if
	:: spill == 0 -> put(spill, b); b = NONE
	:: spill != 0
	fi;
	unlock(bin_lock);
	if
	:: b == NONE
#if BUG == 4
	:: b != NONE
#else
	:: b != NONE -> flush(b)
#endif
	fi
}

/* depot_pop() in lib/unified_cache.c */
inline depot_pop(h, b)
{
#if BUG != 1
	lock(heap_lock[h]);
#endif
	lowest(depot[h], b);
	if
	:: b != NONE -> out(depot[h], b)
	:: else
	fi;
#if BUG != 1
	unlock(heap_lock[h])
#endif
}

/* depot_push() in lib/unified_cache.c */
inline depot_push(h, b)
{
	lock(heap_lock[h]);
	put(depot[h], b);
	unlock(heap_lock[h])
}

/* hak_cache_flush_depots() in lib/unified_cache.c */
inline flush_depots(h, b)
{
	do
	:: depot[h] == 0 -> break
	:: depot[h] != 0 ->
		depot_pop(h, b);
		if
		:: b != NONE -> flush(b)
		:: else
		fi
	od
}

/* hak_spill_drain() in lib/shard.c */
inline drain(b)
{
	do
	:: spill_take(b);
		if
		:: b == NONE -> break
		:: else -> flush(b)
		fi
	od
}

/* hak_cache_refill() in lib/unified_cache.c */
inline refill(me, b)
{
	b = NONE;
	/* refill_magazine() in lib/unified_cache.c */
	if
	:: depot[me] != 0 -> depot_pop(me, b)
	:: depot[me] == 0
	fi;
	if
	:: b == NONE -> spill_take(b)
	:: else
	fi;
	/* hak_shard_take() in lib/shard.c */
	if
	:: b == NONE ->
		lock(bin_lock);
		lowest(bitmap, b);
		if
		:: b != NONE -> out(bitmap, b)
		:: else
		fi;
		unlock(bin_lock)
	:: else
	fi
}

inline call_malloc(me, b)
{
	if
	:: front[me] != 0 -> lowest(front[me], b); out(front[me], b)
	:: front[me] == 0 -> refill(me, b)
	fi;
	if
	:: b != NONE -> put(program, b)
	:: else
	fi
}

/* hak_cache_overflow() in lib/unified_cache.c; exchange() is its end */
inline overflow(me, b, c)
{
	if
	:: front[me] == 0
	:: front[me] != 0 ->
		/* exchange() in lib/unified_cache.c */
		lowest(front[me], c);
		out(front[me], c);
		if
		:: depot_push(me, c);
			/* beyond the depot's size, or its share: the oldest */
			if
			:: skip
			:: depot_pop(me, c);
				if
				:: c != NONE -> give_away(c)
				:: else
				fi
			fi
		:: give_away(c)
		fi
	fi;
	put(front[me], b)
}

/* Any block that the program has: blocks are freed by any thread. */
inline call_free(me, b, c)
{
	atomic {
		lowest(program, b);
		if
		:: b != NONE -> out(program, b)
		:: else
		fi
	}
	if
	:: b != NONE -> overflow(me, b, c)
	:: else
	fi
}

/* heap_exit() in lib/heap.c */
inline end_thread(me, b)
{
	/* hak_cache_teardown() in lib/unified_cache.c */
	lowest(front[me], b);
	if
	:: b != NONE -> out(front[me], b); flush(b)
	:: else
	fi;
#if BUG != 3
	flush_depots(me, b);
#endif
#if BUG == 5
	lock(registry); lock(heap_lock[me]);
	listed[me] = 0;
	unlock(heap_lock[me]); unlock(registry)
#else
	lock(registry);
	listed[me] = 0;
	unlock(registry)
#endif
}

proctype thread(byte me; byte calls)
{
	byte b = NONE, c = NONE;

	do
	:: calls > 0 -> calls--;
		if
		:: call_malloc(me, b)
		:: call_free(me, b, c)
		fi
	:: calls == 0 -> break
	od;
	end_thread(me, b);
	ended++
}

/* give_back() in lib/budget.c */
proctype trim()
{
	byte b = NONE, h;

#if BUG == 5
	lock(heap_lock[0]); lock(registry);
	unlock(heap_lock[0]);
#else
	lock(registry);
#endif
	/* flush_all_depots() in lib/budget.c */
	h = 0;
	do
	:: h < THREADS ->
		if
		:: listed[h] -> flush_depots(h, b)
		:: else
		fi;
		h++
	:: else -> break
	od;
	drain(b);
	unlock(registry);
	ended++
}

/* The thread of HAKMEM_BG_SPILL: it takes some of what waits, holds no lock
 * that it does not need for one block, and stops at any moment. */
proctype background()
{
	byte b = NONE;

	spill_take(b);
	if
	:: b != NONE -> flush(b)
	:: else
	fi;
	ended++
}

init {
	byte b = NONE;

	/* The program has all; what it frees is taken again. */
	program = ALL;
	bitmap = 0;
	atomic {
		run thread(0, 2 + LONG);
		run thread(1, 2);
		if
		:: run trim()
		:: run background()
#if LONG
		:: run trim(); run background(); ended--
#endif
		fi
	}
	ended == THREADS + 1;
	drain(b);
	assert(front[0] + front[1] + depot[0] + depot[1] + spill == 0);
	assert((bitmap | program) == ALL && (bitmap & program) == 0)
}
