/*
 * HAKMEM_BG_SPILL: threads that leave magazines in a spill queue, and the
 * background thread, which drains half of it a round and sleeps without a
 * timeout when nothing is left. When all is quiet the queue is empty: whoever
 * filled it has woken whoever empties it.
 *
 * BUG 1: a maintenance that finds the registry taken wakes nobody
 * BUG 2: the thread sleeps without a look after it said that it would
 * BUG 3: a wake does not count
 */
#define ANYWHERE 0
#include "common.h"

#ifndef LONG
#define LONG 0
#endif
#define THREADS 2

bit registry, bin_lock;
byte spill;		/* magazines */
bit due;		/* DUE_BACKGROUND of hak_due */
bit says;		/* hak_background_asleep */
byte wakes;
bit sleeps;		/* in the kernel */
byte ended;

/* hak_background_wake() in lib/background.c */
inline wake()
{
#if BUG != 3
	wakes++;
#endif
	if
	:: says -> sleeps = 0
	:: !says
	fi
}

/* hak_budget_maintain() in lib/budget.c */
inline maintain(was)
{
	if
	:: atomic { registry == 0 -> registry = 1 };
		d_step { was = due; due = 0 };
		unlock(registry)
	:: registry == 1 ->
#if BUG == 1
		was = 0
#else
		was = due
#endif
	fi;
	if
	:: was && says -> wake()
	:: !(was && says)
	fi
}

proctype thread()
{
	byte calls = 1 + LONG;
	bit was;

	do
	:: calls > 0 -> calls--;
		/* hak_spill_put() in lib/shard.c */
		lock(bin_lock);
		spill++;
		was = says;
		unlock(bin_lock);
		if
		:: was -> due = 1
		:: !was
		fi;
		/* The end of the cold path. */
		if
		:: due -> maintain(was)
		:: !due
		fi
	:: calls == 0 -> break
	od;
	ended++
}

/* Somebody who has the registry for other reasons. */
proctype trim()
{
	lock(registry);
	unlock(registry);
	ended++
}

/* tidy() in lib/budget.c, hak_spill_drain_half() in lib/shard.c */
inline round(more)
{
	if
	:: atomic { registry == 0 -> registry = 1 };
		lock(bin_lock);
		spill = spill / 2;
		unlock(bin_lock);
		more = (spill != 0);
		unlock(registry)
	:: registry == 1 -> more = 1
	fi
}

/* work() in lib/background.c */
active proctype background()
{
	byte seen;
	bit more;

	do
	:: seen = wakes;
		round(more);
		if
		:: !more ->
			says = 1;
#if BUG != 2
			round(more);
#endif
			/* sleep_until_woken() in lib/background.c */
			do
			:: !more && wakes == seen ->
				/* futex_wait() in lib/background.c */
				atomic {
					if
					:: wakes == seen -> sleeps = 1
					:: else
					fi
				};
end_asleep:			sleeps == 0
			:: more || wakes != seen -> break
			od;
			says = 0
		:: more
		fi
	od
}

init {
	atomic { run thread(); run thread(); run trim() }
	atomic { ended == THREADS + 1 && sleeps -> assert(spill == 0) }
}
