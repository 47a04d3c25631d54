/*
 * fork() in one thread while another allocates, frees, trims and forks. The
 * child has one thread, no lock that a vanished thread holds, and every block
 * but those the other thread had; the parent goes on.
 *
 * BUG 1: fork does not take the lock of the bin
 * BUG 2: the child keeps the heaps of others on its list
 * BUG 3: the child does not reset its locks
 * BUG 4: fork takes the bins before the registry
 * BUG 5: handlers of other libraries cannot pass the locks that fork holds
 */
#define ANYWHERE (bitmap | spill | program | front[0] | front[1] | \
	depot[0] | depot[1])
#include "common.h"

#define ME 0
#define OTHER 1
#define NOBODY 2

byte bitmap = ALL, spill, program;
byte front[2], depot[2];
bit listed[2] = 1;
bit registry, bin_lock, heap_lock[2];
bit child;
byte owner = NOBODY;	/* hak_lock_fork_owner */
byte ended;


/* hak_lock_slow() in lib/lock.c: the forking thread passes */
inline pass_lock(l, who)
{
	atomic {
		if
#if BUG != 5
		:: owner == who
#endif
		:: (BUG == 5 || owner != who) && l == 0 -> l = 1
		fi
	}
}

inline pass_unlock(l, who)
{
	d_step {
		if
		:: owner == who
		:: owner != who -> assert(l == 1); l = 0
		fi
	}
}

/* hak_shard_flush() in lib/shard.c */
inline flush(b, who)
{
	pass_lock(bin_lock, who);
	put(bitmap, b);
	pass_unlock(bin_lock, who)
}

/* Two lists at once, as a slab's bit and its count: torn in between. */
bit torn;

/* hak_shard_take() in lib/shard.c, hak_cache_refill() in lib/unified_cache.c */
inline call_malloc(who, b)
{
	lowest(front[who], b);
	if
	:: b != NONE -> out(front[who], b)
	:: else ->
		pass_lock(bin_lock, who);
		assert(!torn);
		lowest(bitmap, b);
		if
		:: b != NONE -> torn = 1; out(bitmap, b); torn = 0
		:: else
		fi;
		pass_unlock(bin_lock, who)
	fi;
	if
	:: b != NONE -> put(program, b)
	:: else
	fi
}

/* hak_cache_overflow() in lib/unified_cache.c */
inline call_free(who, b, c)
{
	atomic {
		lowest(program, b);
		if
		:: b != NONE -> out(program, b)
		:: else
		fi
	}
	if
	:: b == NONE
	:: b != NONE && front[who] == 0 -> put(front[who], b)
	:: b != NONE && front[who] != 0 ->
		/* depot_push() in lib/unified_cache.c */
		pass_lock(heap_lock[who], who);
		put(depot[who], b);
		pass_unlock(heap_lock[who], who)
	fi
}

/* give_back() in lib/budget.c, which does nothing while its thread forks;
 * flush_all_depots() in lib/budget.c */
inline trim(who, b, h)
{
	lock(registry);
	h = 0;
	do
	:: h < 2 && listed[h] && depot[h] != 0 ->
		lock(heap_lock[h]);
		lowest(depot[h], b);
		if
		:: b != NONE -> out(depot[h], b)
		:: else
		fi;
		unlock(heap_lock[h]);
		if
		:: b != NONE -> flush(b, who)
		:: else
		fi
	:: h < 2 && !(listed[h] && depot[h] != 0) -> h++
	:: h == 2 -> break
	od;
	unlock(registry)
}

/* hak_fork_prepare() in lib/fork.c */
inline prepare(who)
{
#if BUG == 4
	lock(bin_lock);
	lock(registry);
#else
	lock(registry);
	/* hak_shard_fork_lock() in lib/shard.c */
#if BUG != 1
	lock(bin_lock);
#endif
#endif
	/* hak_lock_fork_begin() in lib/lock.c */
	owner = who
}

/* hak_fork_parent() in lib/fork.c */
inline in_parent()
{
	owner = NOBODY;
#if BUG != 1
	unlock(bin_lock);
#endif
	unlock(registry)
}

/* hak_fork_child() in lib/fork.c: everybody else has vanished */
inline in_child(who)
{
	owner = NOBODY;
#if BUG != 3
	/* hak_shard_fork_reset() in lib/shard.c */
	bin_lock = 0;
	registry = 0;
#endif
#if BUG != 2
	/* lose() in lib/registry.c */
	listed[1 - who] = 0;
#endif
	heap_lock[who] = 0
}

/* Nothing runs in the child but the thread that forked. */
proctype other() provided (!child)
{
	byte b = NONE, c = NONE, h, calls = 3;

	do
	:: calls > 0 -> calls--;
		if
		:: call_malloc(OTHER, b)
		:: call_free(OTHER, b, c)
		:: trim(OTHER, b, h)
		:: prepare(OTHER); in_parent()
		fi
	:: calls == 0 -> break
	od;
	ended++
}

proctype forker()
{
	byte b = NONE, c = NONE, h, there;

	call_malloc(ME, b);
	prepare(ME);
	/* A handler of another library allocates, after ours has run. */
	call_malloc(ME, b);
	if
	:: in_parent()
	:: atomic { child = 1; there = bitmap | spill | program | front[ME] |
			depot[ME] }
		call_malloc(ME, b);
		in_child(ME)
	fi;
	call_malloc(ME, b);
	call_free(ME, b, c);
	call_free(ME, b, c);
	trim(ME, b, h);
	if
	:: child ->
		assert(((bitmap | spill | program | front[ME] | depot[ME]) &
			there) == there);
		/* The vanished thread stands still for ever: no deadlock. */
		do
		:: child = 1
		od
	:: !child ->
		ended == 1;
		assert(ANYWHERE == ALL)
	fi
}

init {
	atomic { run other(); run forker() }
}
