/*
 * heap.c: birth and exit of heaps.
 *
 * I1  hak_heap points at a constant heap or at a registered one of its own
 *     thread; it is set before anything that may allocate again.
 * I2  A heap on the free list holds no block and no magazine.
 */
#include "heap.h"

#include "arena.h"
#include "background.h"
#include "budget.h"
#include "os.h"
#include "probe.h"
#include "shard.h"
#include "start.h"

#include <pthread.h>

#define HEAP_BYTES ALIGN_UP(sizeof(struct heap), CACHE_LINE)

/* Under hak_registry_lock. */
static struct heap *free_heaps;
static pthread_key_t exit_key;
static bool exit_key_made;
static size_t chunk_bytes;

size_t hak_heap_chunk_bytes(void)
{
	return LOAD_RELAXED(&chunk_bytes);
}

static struct heap *new_heap(void)
{
	struct heap *heap = free_heaps;
	struct slab *chunk;

	if (heap != NULL) {
		free_heaps = heap->next;
		return heap;
	}
	chunk = hak_arena_take(1, 1, hak_heap_count() == 0 ? PLACE_SMALL
						     : PLACE_DENSE,
		CODE_NONE, 0);
	if (chunk == NULL)
		return NULL;
	if (!chunk->zero)
		__builtin_memset((void *)chunk->base, 0, GRANULE);
	STORE_RELAXED(&chunk_bytes, chunk_bytes + GRANULE);
	for (size_t at = GRANULE / HEAP_BYTES; at-- > 0;) {
		heap = (struct heap *)(chunk->base + at * HEAP_BYTES);
		heap->next = free_heaps;
		free_heaps = heap;
	}
	free_heaps = heap->next;
	return heap;
}

static void heap_exit(void *unused);

/* A heap that nobody would end must not come to be: such a thread does with
 * the locked heap.  Under hak_registry_lock. */
static bool can_end(void)
{
	if (!exit_key_made)
		exit_key_made = pthread_key_create(&exit_key, heap_exit) == 0;
	return exit_key_made;
}

static HAK_COLD struct heap *heap_birth(void)
{
	struct heap *heap;

	hak_start();
	hak_lock(&hak_registry_lock);
	heap = can_end() ? new_heap() : NULL;
	if (heap != NULL) {
		*heap = (struct heap){ .lock = HAK_LOCK_INIT(RANK_HEAP) };
		hak_cache_init(heap);
		heap->shard = hak_shard_assign();
		heap->thread = hak_os_thread();
		hak_counters_begin(heap->counters, heap->shard);
		hak_registry_add(heap);
		hak_budget_update();
	}
	hak_unlock(&hak_registry_lock);
	if (heap == NULL) {
		hak_start_late();
		return NULL;
	}
	hak_heap = heap;
	hak_background_note_birth(heap->thread);
	HAK_PROBE(heap_birth, heap, heap->thread);
	/* May allocate, and finds the heap in place. */
	if (pthread_setspecific(exit_key, heap) != 0) {
		heap_exit(NULL);
		hak_heap = hak_heap_unborn(0);
		heap = NULL;
	}
	/* With or without a heap: the process has locks. */
	hak_start_late();
	if (heap == NULL)
		return NULL;
	if (hak_options.check)
		heap->stack = hak_origin_stack();
	return heap;
}

/* By the thread's own word, not by the key's value: a C library in another
 * namespace of the loader has keys of its own, but the values of both stand in
 * one place, and another copy's heap may have come there. */
static void heap_exit(void *unused)
{
	struct heap *heap = hak_heap;

	(void)unused;
	if (hak_heap_is_constant(heap))
		return;
	hak_heap = hak_heap_dead();
	hak_background_note_exit(heap->thread);
	HAK_PROBE(heap_exit, heap, heap->thread);
	hak_cache_teardown(heap);
	hak_lock(&hak_registry_lock);
	hak_counters_end(heap->counters);
	hak_registry_remove(heap);
	hak_counters_ended();
	heap->next = free_heaps;
	free_heaps = heap;
	hak_budget_update();
	hak_unlock(&hak_registry_lock);
}

struct heap *hak_heap_for_malloc(void)
{
	struct heap *heap = hak_heap;

	if (HAK_LIKELY(!hak_heap_is_constant(heap)))
		return heap;
	return heap == hak_heap_dead() ? NULL : heap_birth();
}

struct heap *hak_heap_for_free(void)
{
	struct heap *heap = hak_heap;

	if (HAK_LIKELY(!hak_heap_is_constant(heap)))
		return heap;
	if (heap == hak_heap_dead())
		return NULL;
	if (heap == hak_heap_unborn(UNBORN_FREES - 1))
		return heap_birth();
	hak_heap = (struct heap *)((uintptr_t)heap +
		sizeof(struct constant_heap));
	return NULL;
}

struct hak_origin hak_heap_origin(struct hak_caller caller)
{
	struct hak_stack_range none = { 0, 0 };

	return hak_origin_walk(caller, hak_heap_is_constant(hak_heap)
		? none : hak_heap->stack);
}

HAK_EXPOSE(hak_note_heap_chunk_bytes, chunk_bytes);
