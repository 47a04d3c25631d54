/*
 * check.h: checked mode, HAKMEM_CHECK=1: the calls of the malloc family with
 * every pointer looked up, patterns around blocks, and a quarantine.
 *
 * The caches are closed then, so each call comes to a cold path, which turns
 * here.  The functions are those of alloc.h; each must be the last call of
 * the function that the program called, so that they see who that was.
 */
#ifndef HAK_CHECK_H
#define HAK_CHECK_H

#include "records.h"

bool hak_check_decide(void);

/* Asked on cold paths alone. */
HAK_INLINE bool hak_checking(void)
{
	return HAK_UNLIKELY(LOAD_RELAXED(&hak_check_mode) != HAK_CHECK_OFF) &&
		hak_check_decide();
}

void *hak_check_malloc(size_t size);
void *hak_check_calloc(size_t count, size_t size);
void *hak_check_realloc(void *block, size_t size);
void *hak_check_aligned_alloc(size_t align, size_t size);
/* On behalf of a caller further up. */
void *hak_check_alloc_for(size_t size, size_t align,
	struct hak_caller caller);
size_t hak_check_usable_size(void *block);
void hak_check_free(void *block);
void hak_check_free_sized(void *block, size_t size);
void hak_check_free_aligned_sized(void *block, size_t align, size_t size);
/* C++ knows the alignment without the size. */
void hak_check_free_aligned(void *block, size_t align);

void *hak_check_heap_alloc(struct locked_heap *heap, size_t size, size_t align);
void *hak_check_heap_calloc(struct locked_heap *heap, size_t count,
	size_t size);
void *hak_check_heap_realloc(struct locked_heap *heap, void *block,
	size_t size);
/* Before a heap is destroyed: look at its blocks a last time, forget them. */
void hak_check_heap_end(struct locked_heap *heap);

/* Look at the surroundings of all blocks and at all freed ones. */
void hak_check_all(void);

#endif
