/*
 * locked_heap.h: first-class heaps: one lock, own slabs and spans, no caches.
 *
 * Any thread may allocate from one; a free from any thread takes its lock and
 * sets the bit.  Nothing is ever in flight, so a heap can be destroyed whole.
 */
#ifndef HAK_LOCKED_HEAP_H
#define HAK_LOCKED_HEAP_H

#include "shard.h"

struct locked_heap;

/* The heap that is always there: for threads past their teardown. */
extern struct locked_heap hak_last_heap;

struct locked_heap *hak_locked_heap_new(void);
void hak_locked_heap_destroy(struct locked_heap *heap);

/* A block, and whether it reads as zero; NULL without memory. */
void *hak_locked_heap_take(struct locked_heap *heap, size_t size, size_t align,
	bool *zero);
/* The block's slab has the owner the caller found.  False: no block of it. */
bool hak_locked_heap_put(struct slab *slab, void *block, const char **what);
/* A span's resize, with the heap's books kept. */
struct slab *hak_locked_heap_resize(struct slab *slab, size_t size);

struct locked_heap_sums {
	size_t live_blocks;
	/* Those of slabs. */
	size_t slab_blocks;
	size_t live_bytes;
	size_t slab_bytes;
	size_t span_bytes;
};
void hak_locked_heap_sums(struct locked_heap *heap,
	struct locked_heap_sums *sums);

/* The same over all heaps; returns how many there are. */
size_t hak_locked_heap_total(struct locked_heap_sums *sums);

/* Bytes of live slab blocks in all locked heaps; relaxed. */
size_t hak_locked_heap_live_bytes(void);

void hak_locked_heap_fork_lock(void);
void hak_locked_heap_fork_unlock(void);
void hak_locked_heap_fork_reset(void);

#endif
