/*
 * registry.c: who has caches, and what they hold.
 */
#include "registry.h"

#include "locked_heap.h"
#include "os.h"
#include "shard.h"
#include "span.h"

#define C4 HAK_CLOSED, HAK_CLOSED, HAK_CLOSED, HAK_CLOSED
#define C16 C4, C4, C4, C4
#define CLOSED_HEAP { { C16, C16, C16, C16, HAK_CLOSED } }
_Static_assert(CODES == 65, "CLOSED_HEAP closes every code");

#define UNBORN4 CLOSED_HEAP, CLOSED_HEAP, CLOSED_HEAP, CLOSED_HEAP
_Static_assert(UNBORN_FREES == 16, "one initializer each");

const struct constant_heaps hak_constant_heaps = {
	{ UNBORN4, UNBORN4, UNBORN4, UNBORN4 }, CLOSED_HEAP,
};

__thread struct heap *hak_heap
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) =
	(struct heap *)(uintptr_t)&hak_constant_heaps;

struct hak_lock hak_registry_lock = HAK_LOCK_INIT(RANK_REGISTRY);
struct heap *hak_registry;

/* Under the lock; read relaxed. */
static size_t heap_count;

/* Blocks, by bin, that lay in caches of threads a fork left behind; written
 * in the child while it has one thread. */
static size_t lost[BINS];
static size_t lost_bytes;

size_t hak_heap_count(void)
{
	return LOAD_RELAXED(&heap_count);
}

static size_t held_bytes(void)
{
	size_t bytes = 0;

	for (struct heap *h = hak_registry; h != NULL; h = h->next)
		bytes += hak_cache_held_bytes(h);
	return bytes;
}

size_t hak_heap_held_bytes(void)
{
	size_t bytes;

	hak_lock(&hak_registry_lock);
	bytes = held_bytes();
	hak_unlock(&hak_registry_lock);
	return bytes;
}

static size_t live_without(size_t held)
{
	size_t taken = hak_shard_taken_bytes(), idle;

	idle = held + hak_shard_spill_bytes() + lost_bytes;
	return (taken > idle ? taken - idle : 0) + hak_span_live_bytes() +
		hak_locked_heap_live_bytes();
}

size_t hak_heap_live_bytes(void)
{
	return live_without(hak_heap_held_bytes());
}

size_t hak_registry_live_bytes(void)
{
	return live_without(held_bytes());
}

size_t hak_heap_lost(unsigned bin)
{
	return LOAD_RELAXED(&lost[bin]);
}

void hak_registry_add(struct heap *heap)
{
	heap->next = hak_registry;
	heap->prev = NULL;
	if (hak_registry != NULL)
		hak_registry->prev = heap;
	hak_registry = heap;
	STORE_RELAXED(&heap_count, heap_count + 1);
}

void hak_registry_remove(struct heap *heap)
{
	if (heap->prev != NULL)
		heap->prev->next = heap->next;
	else
		hak_registry = heap->next;
	if (heap->next != NULL)
		heap->next->prev = heap->prev;
	STORE_RELAXED(&heap_count, heap_count - 1);
}

static void lose(const struct heap *heap)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		size_t n = hak_cache_held(heap, bin);

		lost[bin] += n;
		lost_bytes += n * hak_bins[bin].size;
	}
}

void hak_registry_strike_others(struct heap *own)
{
	for (struct heap *h = hak_registry; h != NULL; h = h->next)
		if (h != own)
			lose(h);
	hak_registry = own;
	heap_count = own != NULL;
	hak_cache_reserved = 0;
	if (own == NULL)
		return;
	hak_cache_reserved = own->reserved_bytes + own->depot_bytes;
	own->next = own->prev = NULL;
	own->thread = hak_os_thread();
	hak_lock_reset(&own->lock);
}

HAK_EXPOSE(hak_note_heaps, hak_registry);
HAK_EXPOSE(hak_note_lost, lost);
