/*
 * registry.h: what a thread without a heap has, the list of heaps, and the sums
 * over all of them.
 */
#ifndef HAK_REGISTRY_H
#define HAK_REGISTRY_H

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

/* Guards the list and what it is added up to.  The first lock taken, so a
 * heap's depots may be emptied, slabs released and pages purged under it. */
extern struct hak_lock hak_registry_lock;
/* The newest first, linked by next. */
extern struct heap *hak_registry;

/* Under the lock. */
void hak_registry_add(struct heap *heap);
void hak_registry_remove(struct heap *heap);
/* In a fork's child: strike all but this one, which may be NULL. */
void hak_registry_strike_others(struct heap *own);
/* Bytes in the program's hands. */
size_t hak_registry_live_bytes(void);

/* Live heaps, and bytes of blocks that all of them hold; relaxed. */
size_t hak_heap_count(void);
size_t hak_heap_held_bytes(void);
/* Bytes in the program's hands, within what caches hide; relaxed. */
size_t hak_heap_live_bytes(void);
/* Blocks of a bin that were in caches of threads which a fork left behind. */
size_t hak_heap_lost(unsigned bin);

#endif
