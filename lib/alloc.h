/*
 * alloc.h: malloc and free: the hit paths, inline, and what follows a miss.
 *
 * On x86-64 a hit of malloc is at most 15 instructions and one of free at most
 * 23, two of which tell a double free: no call, no lock, no atomic
 * read-modify-write (tests/hot-path.sh).
 */
#ifndef HAK_ALLOC_H
#define HAK_ALLOC_H

#include "unified_cache.h"

/* All of them set errno to ENOMEM when they return NULL for want of memory,
 * and keep it otherwise. */

/* Any size; everything that is no Tiny hit. */
void *hak_alloc_slow(size_t size);
/* 1 KiB and more: a hit of an L2 ring, or the above. */
void *hak_alloc_above(size_t size);
/* Everything that is no push. */
void hak_free_slow(void *block);

/* The same with what the program says of the block; only checked mode looks. */
void hak_free_sized_slow(void *block, size_t size);
void hak_free_aligned_sized_slow(void *block, size_t align, size_t size);
void hak_free_aligned_slow(void *block, size_t align);

void *hak_calloc(size_t count, size_t size);
void *hak_realloc(void *block, size_t size);
/* align is a power of two. */
void *hak_aligned_alloc(size_t align, size_t size);
size_t hak_usable_size(void *block);
size_t hak_good_size(size_t size);

/* The same in a locked heap. */
struct locked_heap;
void *hak_heap_alloc(struct locked_heap *heap, size_t size, size_t align);
void *hak_heap_calloc(struct locked_heap *heap, size_t count, size_t size);
void *hak_heap_realloc(struct locked_heap *heap, void *block, size_t size);

/* Around checked mode, which works on these: a block of the heap, or of the
 * thread's caches for NULL, and whether it reads as zero. */
void *hak_pools_alloc(struct locked_heap *heap, size_t size, size_t align,
	bool *zero);
/* Only what the above gave.  Locks of rank RANK_QUARANTINE may be held. */
void hak_pools_free(void *block);
size_t hak_pools_size(const void *block);
/* After frees, with no lock held. */
void hak_pools_maintain(void);

/* Where a function's result goes: spares the hit path a move. */
#if defined(__x86_64__)
#define IN_RESULT_REGISTER(p) __asm__("" : "+a"(p))
#else
#define IN_RESULT_REGISTER(p) ((void)0)
#endif

/* Keeps the compiler from holding the address of a top in a register of its
 * own: indexing from the heap costs nothing, computing the address does. */
#define INDEX_FROM(heap) __asm__("" : "+r"(heap))

/* A request of at most TINY_MAX bytes; NULL: a miss. */
HAK_INLINE void *hak_malloc_hit(size_t size)
{
	unsigned bin;
	struct heap *heap;
	void **top, *block;

	bin = hak_tiny_bins[(size + 7) >> 3];
	heap = hak_heap;
	top = LOAD_RELAXED(&heap->top[bin]);
	block = top[-1];
	IN_RESULT_REGISTER(block);
	INDEX_FROM(heap);
	if (HAK_UNLIKELY(block == NULL))
		return NULL;
	STORE_RELAXED(&heap->top[bin], top - 1);
	return block;
}

HAK_INLINE void *hak_malloc(size_t size)
{
	void *block;

	if (HAK_UNLIKELY(size > TINY_MAX))
		return hak_alloc_above(size);
	block = hak_malloc_hit(size);
	if (HAK_UNLIKELY(block == NULL))
		return hak_alloc_slow(size);
	return block;
}

/* False: nothing was done. */
HAK_INLINE bool hak_free_hit(void *block)
{
	struct heap *heap = hak_heap;
	unsigned code = hak_page_map_code(block);
	void **top = LOAD_RELAXED(&heap->top[code]);

	INDEX_FROM(heap);
	/* What lies on top of the stack was freed already. */
	if (HAK_UNLIKELY(hak_is_full(top)) || HAK_UNLIKELY(top[-1] == block))
		return false;
	*top = block;
	STORE_RELAXED(&heap->top[code], top + 1);
	return true;
}

HAK_INLINE void hak_free(void *block)
{
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_slow(block);
}

#endif
