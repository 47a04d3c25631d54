/*
 * heap.h: a thread's heap from birth to exit.
 */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "origin.h"
#include "registry.h"

/* This thread's heap for an allocation, born if need be; NULL on a thread
 * past its teardown or without memory for a heap. */
struct heap *hak_heap_for_malloc(void);
/* The same for a free: NULL also while an unborn thread frees. */
struct heap *hak_heap_for_free(void);

/* The caller and those behind it, as far as this thread's stack is known. */
struct hak_origin hak_heap_origin(struct hak_caller caller);

/* Memory that heaps themselves were given; relaxed. */
size_t hak_heap_chunk_bytes(void);
#endif
