/*
 * unified_cache.h: a thread's caches, and the hit paths of malloc and free.
 *
 * The front of a bin is the top of a stack of free blocks (magazine.h); a
 * Tiny bin also has a depot of full magazines.  L2 and L2.5 bins have a ring:
 * the same stack with a lower cap.  A heap owns no memory, it holds blocks.
 *
 * The heap of a thread that has none yet, or none any more, is a constant one
 * whose stacks are all at HAK_CLOSED: empty to malloc, full to free.  So the
 * hit paths test neither for NULL nor for a state.
 */
#ifndef HAK_UNIFIED_CACHE_H
#define HAK_UNIFIED_CACHE_H

#include "counters.h"
#include "lock.h"
#include "magazine.h"
#include "origin.h"
#include "page_map.h"

struct cached_bin {
	/* End of the front magazine or ring; NULL while none is attached. */
	void **end;
	/* Full magazines; under the heap's lock. */
	struct magazine_list depot;
	/* Full magazines that the depot may hold. */
	uint16_t depot_max;
	/* Magazines given away since the last miss: what a larger depot would
	 * have kept. */
	uint16_t credit;
	/* Blocks the front may hold: the distance from start to end. */
	uint8_t cap;
	/* Blocks of the next refill. */
	uint8_t batch;
};

struct heap {
	/* The hit paths' whole world.  Written by its thread alone, read
	 * relaxed by others for statistics.  Codes that are no Tiny or L2 bin
	 * stay at HAK_CLOSED. */
	void **top[CODES];
	/* The stacks that the hit paths must not see: those of L2.5, whose
	 * frees are checked first, and every bin's while the caches are
	 * closed. */
	void **real_top[BINS];
	struct cached_bin bin[BINS];
	/* Guards the depots; its thread takes it in cold paths alone. */
	struct hak_lock lock;
	/* Where it takes blocks from; atomic: the registry may move it. */
	unsigned shard;
	/* The thread's number in the kernel, for statistics. */
	uint32_t thread;
	/* Where it runs, if calls are checked; its thread only. */
	struct hak_stack_range stack;
	/* Cap times size over all attached bins; its thread, read relaxed. */
	size_t reserved_bytes;
	/* Blocks in depots, in bytes; under lock, read relaxed. */
	size_t depot_bytes;
	/* Empty magazines at hand; its thread only. */
	struct magazine_list spare;
	/* Registry; under its lock. */
	struct heap *next, *prev;
	/* Where any are compiled in; its thread, read relaxed. */
	struct hak_counters counters[HAK_COUNTERS_COMPILED];
};

extern __thread struct heap *hak_heap
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* What all heaps may hold, and each, in bytes; relaxed; floor 4 sets them. */
extern size_t hak_cache_budget;
extern size_t hak_cache_share;
/* Sum of reserved_bytes and depot_bytes over all heaps; atomic, relaxed. */
extern size_t hak_cache_reserved;

/* Bins below it have their stack in top[], the others in real_top[]: constant
 * once a heap exists. */
extern unsigned hak_open_bins;

/* Close the caches: every call of malloc and free takes the cold path, where
 * it can be counted or checked, while magazines do their work as ever.  Only
 * before the first heap is born. */
void hak_cache_close(void);

HAK_INLINE bool hak_cache_is_closed(void)
{
	return hak_open_bins == 0;
}

/* The stack of a bin, whichever array it stands in. */
HAK_INLINE void ***hak_stack(struct heap *heap, unsigned bin)
{
	return bin < hak_open_bins ? &heap->top[bin] : &heap->real_top[bin];
}

/* A hit pops; NULL is a miss. */
HAK_INLINE void *hak_pop(void ***stack)
{
	void **top = LOAD_RELAXED(stack);
	void *block = top[-1];

	if (HAK_LIKELY(block != NULL))
		STORE_RELAXED(stack, top - 1);
	return block;
}

/* False when the stack is full. */
HAK_INLINE bool hak_push(void ***stack, void *block)
{
	void **top = LOAD_RELAXED(stack);

	if (HAK_UNLIKELY(hak_is_full(top)))
		return false;
	*top = block;
	STORE_RELAXED(stack, top + 1);
	return true;
}

/* A miss: fetch blocks and return one of them (L2.5: tagged); NULL without
 * memory. */
void *hak_cache_refill(struct heap *heap, unsigned bin);
/* A full stack: make room, then push the block. */
void hak_cache_overflow(struct heap *heap, unsigned bin, void *block);

/* Everything a heap's thread may empty, into bitmaps.  Its thread only. */
void hak_cache_flush(struct heap *heap);
/* Flush, and give all magazines back: the heap is as at birth. */
void hak_cache_teardown(struct heap *heap);
/* The depots alone, from any thread. */
void hak_cache_flush_depots(struct heap *heap);
void hak_cache_init(struct heap *heap);

/* Blocks held, in bytes; a snapshot from any thread. */
size_t hak_cache_held_bytes(const struct heap *heap);
/* Blocks of one bin held in front and depot; a snapshot from any thread. */
size_t hak_cache_held(const struct heap *heap, unsigned bin);

#endif
