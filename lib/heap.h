/*
 * heap.h: a thread's heap from birth to exit, the budget that all of them
 * share, and the work that is put off until no lock is held.
 */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "unified_cache.h"

/* The constant heaps.  A thread walks along the unborn ones with each free
 * before its first malloc: the few frees that libc does for a thread whose
 * destructors have run must not bring a heap to life that nobody will end. */
#define UNBORN_FREES 16

struct constant_heap {
	void **top[CODES];
};

struct constant_heaps {
	struct constant_heap unborn[UNBORN_FREES];
	struct constant_heap dead;
};

extern const struct constant_heaps hak_constant_heaps;

HAK_INLINE struct heap *hak_heap_unborn(unsigned i)
{
	return (struct heap *)(uintptr_t)&hak_constant_heaps.unborn[i];
}

HAK_INLINE struct heap *hak_heap_dead(void)
{
	return (struct heap *)(uintptr_t)&hak_constant_heaps.dead;
}

HAK_INLINE bool hak_heap_is_constant(const struct heap *heap)
{
	return (uintptr_t)heap - (uintptr_t)&hak_constant_heaps <
		sizeof hak_constant_heaps;
}

/* This thread's heap for an allocation, born if need be; NULL on a thread
 * past its teardown or without memory for a heap. */
struct heap *hak_heap_for_malloc(void);
/* The same for a free: NULL also while an unborn thread frees. */
struct heap *hak_heap_for_free(void);

/* Start the background thread if it is asked for and not there (background.h). */
void hak_heap_background(void);
/* Do what hak_due asks for.  No lock may be held. */
void hak_heap_maintain(void);
/* A LIVE option changed: derive anew what follows from it, and purge what may no
 * longer stay; the background thread comes or goes.  No lock may be held. */
void hak_heap_retune(void);
/* After ENOMEM: give back what can be; true when a retry may succeed. */
bool hak_heap_recover(void);
/* Empty this thread's caches, all depots and queues, and purge down to keep
 * bytes of empty memory; returns the bytes that went to the system. */
size_t hak_heap_trim(size_t keep);

/* Across fork: every lock, in rank order. */
void hak_heap_fork_prepare(void);
void hak_heap_fork_parent(void);
void hak_heap_fork_child(void);

/* Live heaps, and bytes of blocks that all of them hold; relaxed. */
size_t hak_heap_count(void);
size_t hak_heap_held_bytes(void);
/* Bytes in the program's hands, within what caches hide; relaxed. */
size_t hak_heap_live_bytes(void);
void hak_heap_visit(void (*visit)(struct heap *, void *), void *arg);
/* Blocks of a bin that were in caches of threads which a fork left behind. */
size_t hak_heap_lost(unsigned bin);
/* Memory that heaps themselves were given; relaxed. */
size_t hak_heap_chunk_bytes(void);
/* Bytes of empty memory that may stay; relaxed. */
size_t hak_heap_retain_bytes(void);

#endif
