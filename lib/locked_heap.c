/*
 * locked_heap.c: heaps behind one lock each.
 *
 * I1  Every slab of a heap is the box of its bin or on one of its lists, every
 *     span on spans: destroying walks them all.
 * I2  A slab's owner is set before a block of it is published and cleared,
 *     with its map entries, when the slab is released.
 *
 * The list of heaps has a lock of its own, taken before a heap's.
 */
#include "locked_heap.h"

#include "arena.h"
#include "page_map.h"
#include "span.h"

struct locked_heap {
	struct hak_lock lock;
	/* Of all heaps; under heaps_lock. */
	struct locked_heap *next, *prev;
	/* Where the heap itself stands. */
	struct slab *home;
	struct slab_list spans;
	size_t span_bytes;
	size_t live_blocks;
	struct bin_slabs bin[BINS];
};

_Static_assert(sizeof(struct locked_heap) <= GRANULE, "one granule");

struct locked_heap hak_last_heap = { .lock = HAK_LOCK_INIT(RANK_LOCKED_HEAP) };

static struct hak_lock heaps_lock = HAK_LOCK_INIT(RANK_LOCKED_HEAPS);
static struct locked_heap *heaps;
static size_t heap_count;
/* Of slabs. */
static size_t live_bytes;
static size_t live_blocks;

static void account(size_t taken, size_t given, size_t blocks)
{
	__atomic_fetch_add(&live_bytes, taken - given, __ATOMIC_RELAXED);
	__atomic_fetch_add(&live_blocks, blocks, __ATOMIC_RELAXED);
}

size_t hak_locked_heap_live_bytes(void)
{
	return LOAD_RELAXED(&live_bytes);
}

struct locked_heap *hak_locked_heap_new(void)
{
	struct slab *home = hak_arena_take(1, 1, PLACE_DENSE, CODE_NONE, 0);
	struct locked_heap *heap;

	if (home == NULL)
		return NULL;
	heap = (struct locked_heap *)home->base;
	if (!home->zero)
		__builtin_memset(heap, 0, sizeof *heap);
	heap->home = home;
	heap->lock = (struct hak_lock)HAK_LOCK_INIT(RANK_LOCKED_HEAP);
	hak_lock(&heaps_lock);
	heap->next = heaps;
	if (heaps != NULL)
		heaps->prev = heap;
	heaps = heap;
	STORE_RELAXED(&heap_count, heap_count + 1);
	hak_unlock(&heaps_lock);
	return heap;
}

static void span_add(struct locked_heap *heap, struct slab *slab)
{
	slab->prev = NULL;
	slab->next = heap->spans.head;
	if (slab->next != NULL)
		slab->next->prev = slab;
	heap->spans.head = slab;
	heap->span_bytes += slab->span_bytes;
	heap->live_blocks++;
}

static void span_remove(struct locked_heap *heap, struct slab *slab)
{
	if (slab->prev != NULL)
		slab->prev->next = slab->next;
	else
		heap->spans.head = slab->next;
	if (slab->next != NULL)
		slab->next->prev = slab->prev;
	heap->span_bytes -= slab->span_bytes;
	heap->live_blocks--;
}

static void *take_span(struct locked_heap *heap, size_t size, size_t align,
	bool *zero)
{
	struct slab *slab = hak_span_take(size, align, heap);

	if (slab == NULL)
		return NULL;
	*zero = slab->zero;
	slab->zero = false;
	hak_lock(&heap->lock);
	span_add(heap, slab);
	hak_unlock(&heap->lock);
	return (void *)slab->base;
}

/* One block; the lock is dropped while a slab is made. */
static void *take_block(struct locked_heap *heap, unsigned bin, bool *zero)
{
	struct bin_slabs *bs = &heap->bin[bin];
	void *block = NULL;
	struct slab *slab;

	*zero = false;
	hak_lock(&heap->lock);
	bs->locked_heap = true;
	if (hak_bin_take(bs, &block, 1) == 0) {
		hak_unlock(&heap->lock);
		slab = hak_slab_make(bin, heap, PLACE_DENSE);
		hak_lock(&heap->lock);
		if (slab != NULL)
			hak_bin_add(bs, slab);
		hak_bin_take(bs, &block, 1);
	}
	if (block != NULL)
		heap->live_blocks++;
	hak_unlock(&heap->lock);
	if (block != NULL)
		account(hak_bins[bin].size, 0, 1);
	return block;
}

void *hak_locked_heap_take(struct locked_heap *heap, size_t size, size_t align,
	bool *zero)
{
	unsigned bin = hak_bin_aligned(size, align);

	return bin < BINS ? take_block(heap, bin, zero)
			  : take_span(heap, size, align, zero);
}

static bool put_span(struct locked_heap *heap, struct slab *slab, void *block)
{
	if ((uintptr_t)block != slab->base || !hak_span_claim(slab))
		return false;
	hak_lock(&heap->lock);
	span_remove(heap, slab);
	hak_unlock(&heap->lock);
	hak_span_put(slab);
	return true;
}

bool hak_locked_heap_put(struct slab *slab, void *block, const char **what)
{
	struct locked_heap *heap = slab->owner;
	unsigned bin = slab->bin;
	struct slab *release = NULL;
	enum slab_put result;

	*what = "invalid pointer";
	if (bin >= BINS)
		return put_span(heap, slab, block);
	hak_lock(&heap->lock);
	result = hak_bin_put(&heap->bin[bin], slab, block, &release);
	if (result == SLAB_PUT_OK)
		heap->live_blocks--;
	hak_unlock(&heap->lock);
	hak_slab_release(release);
	if (result == SLAB_PUT_DOUBLE)
		*what = "double free";
	if (result == SLAB_PUT_OK)
		account(0, hak_bins[bin].size, (size_t)-1);
	return result == SLAB_PUT_OK;
}

struct slab *hak_locked_heap_resize(struct slab *slab, size_t size)
{
	struct locked_heap *heap = slab->owner;
	struct slab *to;

	hak_lock(&heap->lock);
	span_remove(heap, slab);
	hak_unlock(&heap->lock);
	to = hak_span_resize(slab, size);
	hak_lock(&heap->lock);
	span_add(heap, to != NULL ? to : slab);
	hak_unlock(&heap->lock);
	return to;
}

static void release_list(struct slab_list *list)
{
	hak_slab_release(list->head);
	list->head = NULL;
}

void hak_locked_heap_destroy(struct locked_heap *heap)
{
	struct slab *home = heap->home;

	hak_lock(&heaps_lock);
	if (heap->prev != NULL)
		heap->prev->next = heap->next;
	else
		heaps = heap->next;
	if (heap->next != NULL)
		heap->next->prev = heap->prev;
	STORE_RELAXED(&heap_count, heap_count - 1);
	hak_unlock(&heaps_lock);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		struct bin_slabs *bs = &heap->bin[bin];

		account(0, bs->taken * hak_bins[bin].size,
			(size_t)0 - bs->taken);
		if (bs->box != NULL)
			bs->box->next = NULL;
		hak_slab_release(bs->box);
		release_list(&bs->warm);
		release_list(&bs->listed);
		release_list(&bs->full);
	}
	while (heap->spans.head != NULL) {
		struct slab *slab = heap->spans.head;

		span_remove(heap, slab);
		hak_span_put(slab);
	}
	hak_arena_put(home);
}

/* Under the heap's lock. */
static void add_sums(const struct locked_heap *heap,
	struct locked_heap_sums *sums)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		const struct bin_slabs *bs = &heap->bin[bin];

		sums->live_bytes += bs->taken * hak_bins[bin].size;
		sums->slab_blocks += bs->taken;
		sums->slab_bytes += bs->slabs * hak_bins[bin].granules *
			GRANULE;
	}
	sums->live_blocks += heap->live_blocks;
	sums->live_bytes += heap->span_bytes;
	sums->span_bytes += heap->span_bytes;
}

void hak_locked_heap_sums(struct locked_heap *heap,
	struct locked_heap_sums *sums)
{
	*sums = (struct locked_heap_sums){ 0 };
	hak_lock(&heap->lock);
	add_sums(heap, sums);
	hak_unlock(&heap->lock);
}

static void add_if_free(struct locked_heap *heap,
	struct locked_heap_sums *sums)
{
	if (!hak_lock_patiently(&heap->lock))
		return;
	add_sums(heap, sums);
	hak_unlock(&heap->lock);
}

size_t hak_locked_heap_total(struct locked_heap_sums *sums)
{
	size_t count = 0;

	*sums = (struct locked_heap_sums){ 0 };
	if (!hak_lock_patiently(&heaps_lock))
		return 0;
	for (struct locked_heap *h = heaps; h != NULL; h = h->next) {
		add_if_free(h, sums);
		count++;
	}
	add_if_free(&hak_last_heap, sums);
	hak_unlock(&heaps_lock);
	return count;
}

void hak_locked_heap_fork_lock(void)
{
	hak_lock(&heaps_lock);
	hak_lock(&hak_last_heap.lock);
	for (struct locked_heap *h = heaps; h != NULL; h = h->next)
		hak_lock(&h->lock);
}

void hak_locked_heap_fork_unlock(void)
{
	for (struct locked_heap *h = heaps; h != NULL; h = h->next)
		hak_unlock(&h->lock);
	hak_unlock(&hak_last_heap.lock);
	hak_unlock(&heaps_lock);
}

void hak_locked_heap_fork_reset(void)
{
	for (struct locked_heap *h = heaps; h != NULL; h = h->next)
		hak_lock_reset(&h->lock);
	hak_lock_reset(&hak_last_heap.lock);
	hak_lock_reset(&heaps_lock);
}

HAK_EXPOSE(hak_note_locked_heaps, heap_count);
HAK_EXPOSE(hak_note_locked_blocks, live_blocks);
HAK_EXPOSE(hak_note_locked_bytes, live_bytes);
