/*
 * First-class heaps: allocation that drops the heap's lock while it makes a
 * slab, frees from another thread, destruction, a walk for the statistics and
 * fork. A granule is in one place; a heap that is gone is not locked.
 *
 * BUG 1: a heap's home goes back before the heap is off the list
 * BUG 2: the slab is added without the heap's lock
 * BUG 3: fork takes a heap's lock before the list's
 * BUG 4: the wholly free slab is released and stays on its list
 */
/* Blocks are granules here: free in the arena, or slabs of the heap. */
#define ANYWHERE (arena | slabs)
#include "common.h"

byte arena = ALL, slabs;
byte live;			/* blocks of the heap, one a slab */
bit list_lock, heap_lock, arena_lock;
bit listed, there;
byte users, ended;

/* hak_arena_take() in lib/arena.c */
inline arena_take(g)
{
	lock(arena_lock);
	lowest(arena, g);
	if
	:: g != NONE -> out(arena, g)
	:: else
	fi;
	unlock(arena_lock)
}

/* hak_arena_put() in lib/arena.c */
inline arena_put(g)
{
	lock(arena_lock);
	put(arena, g);
	unlock(arena_lock)
}

inline lock_heap()
{
	lock(heap_lock);
	assert(there)
}

/* hak_locked_heap_new() in lib/locked_heap.c */
inline new_heap()
{
	there = 1;
	lock(list_lock);
	listed = 1;
	unlock(list_lock)
}

/* take_block() in lib/locked_heap.c */
inline take_block(g)
{
	byte was;

	lock_heap();
	unlock(heap_lock);
	/* hak_slab_make() in lib/bin_slabs.c */
	arena_take(g);
#if BUG != 2
	lock_heap();
#endif
	if
	:: g != NONE ->
		/* hak_bin_add() in lib/bin_slabs.c */
		put(slabs, g);
		was = live;
		live = was + 1
	:: else
	fi;
#if BUG != 2
	unlock(heap_lock)
#endif
}

/* hak_locked_heap_put() in lib/locked_heap.c */
inline put_block(g)
{
	lock_heap();
	/* hak_bin_put() in lib/bin_slabs.c, hak_bin_reorder() in lib/bin_slabs.c */
	live--;
#if BUG != 4
	out(slabs, g);
#endif
	unlock(heap_lock);
	/* hak_slab_release() in lib/bin_slabs.c */
	arena_put(g)
}

proctype user()
{
	byte g = NONE;

	take_block(g);
	if
	:: g != NONE -> put_block(g)
	:: skip
	fi;
	users++;
	ended++
}

/* hak_locked_heap_destroy() in lib/locked_heap.c: when nobody uses it */
proctype destroyer()
{
	byte g;

	users == 2;
#if BUG == 1
	there = 0;
#endif
	lock(list_lock);
	listed = 0;
	unlock(list_lock);
	do
	:: lowest(slabs, g);
		if
		:: g == NONE -> break
		:: else -> out(slabs, g); arena_put(g); live--
		fi
	od;
	there = 0;
	ended++
}

/* hak_locked_heap_fork_lock() in lib/locked_heap.c and
 * hak_locked_heap_fork_unlock() in lib/locked_heap.c */
proctype forker()
{
	bit walked;

#if BUG == 3
	if
	:: listed -> lock_heap(); walked = 1
	:: else
	fi;
	lock(list_lock);
#else
	lock(list_lock);
	if
	:: listed -> lock_heap(); walked = 1
	:: else
	fi;
#endif
	lock(arena_lock);
	unlock(arena_lock);
	if
	:: walked -> unlock(heap_lock)
	:: else
	fi;
	unlock(list_lock);
	ended++
}

/* hak_locked_heap_total() in lib/locked_heap.c */
proctype walker()
{
	lock(list_lock);
	if
	:: listed -> lock_heap(); assert(live <= BLOCKS); unlock(heap_lock)
	:: else
	fi;
	unlock(list_lock);
	ended++
}

init {
	new_heap();
	atomic {
		run user(); run user(); run destroyer(); run forker();
		run walker()
	}
	ended == 5;
	assert(arena == ALL && slabs == 0 && live == 0)
}
