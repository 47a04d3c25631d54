/*
 * alloc.c: where a miss goes: by size to a pool, by kind of pointer to a free.
 *
 * The cold path decides everything anew from the size: a constant heap's
 * stacks and a thread's state may have changed since the hit path looked.
 *
 * No lock is held in this file; work that became due meanwhile is done at the
 * end of a cold path.
 */
#include "alloc.h"

#include "budget.h"
#include "check.h"
#include "due.h"
#include "forward.h"
#include "heap.h"
#include "invalid.h"
#include "locked_heap.h"
#include "shard.h"
#include "span.h"
#include "start.h"

#include <errno.h>

static void maintain_if_due(void)
{
	if (HAK_UNLIKELY(LOAD_RELAXED(&hak_due) != 0))
		hak_budget_maintain();
}

/* It may be the first call of a process, whose options nobody has read yet. */
static HAK_COLD void complain(const char *function, const char *what,
	const void *block)
{
	hak_start();
	hak_invalid_block(function, what, block);
}

/* L2.5: the block is the program's from now on, or no longer. */
static uint64_t *out_word(void *block, uint64_t *bit)
{
	struct slab *slab = hak_page_map_slab(block);

	*bit = (uint64_t)1 << hak_slab_index(slab, block);
	return &slab->bits[SLAB_OUT];
}

static void *hand_out(void *tagged, bool *zero)
{
	void *block = hak_untag(tagged);
	uint64_t bit, *word = out_word(block, &bit);

	*zero = tagged != block;
	__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
	return block;
}

/* A thread past its teardown, or one for which no heap could be made. */
static void *alloc_homeless(size_t size, size_t align, bool *zero)
{
	HAK_COUNT(DIAG, alloc_homeless, 1);
	return hak_locked_heap_take(&hak_last_heap, size, align, zero);
}

static void *alloc_bin(struct heap *heap, unsigned bin, bool *zero)
{
	void *block = hak_pop(hak_stack(heap, bin));

	if (block == NULL) {
		uint64_t start = HAK_TICKS(CACHE);

		block = hak_cache_refill(heap, bin);
		HAK_COUNT(CACHE, misses[bin], 1);
		HAK_COUNT(CACHE, refill_cycles[bin], hak_ticks_since(start));
	} else {
		HAK_COUNT(CACHE, hits[bin], 1);
	}
	HAK_COUNT(CLASS, allocs[bin], block != NULL);
	if (block != NULL && bin >= L25_FIRST)
		return hand_out(block, zero);
	return block;
}

static void *alloc_span(size_t size, size_t align, bool *zero)
{
	struct slab *slab = hak_span_take(size, align, NULL);

	if (slab == NULL)
		return NULL;
	*zero = slab->zero;
	slab->zero = false;
	return (void *)slab->base;
}

static void *alloc_try(size_t size, size_t align, bool *zero)
{
	struct heap *heap = hak_heap_for_malloc();
	unsigned bin = hak_bin_aligned(size, align);

	*zero = false;
	if (bin >= BINS)
		return alloc_span(size, align, zero);
	if (heap == NULL)
		return alloc_homeless(size, align, zero);
	return alloc_bin(heap, bin, zero);
}

/* Nothing that could be given back makes room for more than there are
 * addresses. */
static bool may_recover(size_t size)
{
	return size >> 47 == 0 && hak_budget_recover();
}

static void *no_memory(void)
{
	HAK_COUNT(DIAG, alloc_failed, 1);
	errno = ENOMEM;
	return NULL;
}

static void *alloc(size_t size, size_t align, bool *zero)
{
	void *block;

	if (size == 0)
		size = 1;
	block = size <= PTRDIFF_MAX ? alloc_try(size, align, zero) : NULL;
	if (HAK_UNLIKELY(block == NULL) && may_recover(size))
		block = alloc_try(size, align, zero);
	maintain_if_due();
	return HAK_LIKELY(block != NULL) ? block : no_memory();
}

HAK_NOINLINE void *hak_alloc_slow(size_t size)
{
	bool zero;

	if (HAK_UNLIKELY(hak_forwarding()))
		return hak_forward->malloc(size);
	if (hak_checking())
		return hak_check_malloc(size);
	return alloc(size, 1, &zero);
}

HAK_NOINLINE HAK_HIT void *hak_alloc_above(size_t size)
{
	unsigned bin;
	void *block;

	if (size > L2_MAX)
		return hak_alloc_slow(size);
	bin = hak_bin_above_tiny(size);
	block = hak_pop(&hak_heap->top[bin]);
	return HAK_LIKELY(block != NULL) ? block : hak_alloc_slow(size);
}

HAK_NOINLINE void *hak_aligned_alloc(size_t align, size_t size)
{
	bool zero;

	if (HAK_UNLIKELY(hak_forwarding()))
		return hak_forward->aligned_alloc(align, size);
	if (hak_checking())
		return hak_check_aligned_alloc(align, size);
	return alloc(size, align, &zero);
}

HAK_NOINLINE void *hak_calloc(size_t count, size_t size)
{
	size_t bytes;
	bool zero;
	void *block;

	if (HAK_UNLIKELY(hak_forwarding()))
		return hak_forward->calloc(count, size);
	if (hak_checking())
		return hak_check_calloc(count, size);
	if (__builtin_mul_overflow(count, size, &bytes))
		return no_memory();
	if (bytes <= L2_MAX) {
		block = hak_malloc(bytes);
		zero = false;
	} else {
		block = alloc(bytes, 1, &zero);
	}
	if (block != NULL && !zero)
		__builtin_memset(block, 0, bytes);
	return block;
}

/* Whether the block is the one that this thread freed last. */
static bool is_on_top(struct heap *heap, unsigned bin, const void *block)
{
	return heap != NULL && LOAD_RELAXED(hak_stack(heap, bin))[-1] == block;
}

static void free_slab_block(struct heap *heap, unsigned bin, void *block)
{
	HAK_COUNT(CLASS, frees[bin], 1);
	HAK_COUNT(DIAG, free_homeless, heap == NULL);
	if (heap != NULL)
		hak_cache_overflow(heap, bin, block);
	else
		hak_shard_flush(bin, &block, 1);
}

static const char *free_tiny_or_l2(unsigned bin, void *block)
{
	struct heap *heap = hak_heap_for_free();

	if (is_on_top(heap, bin, block))
		return "double free";
	free_slab_block(heap, bin, block);
	return NULL;
}

static const char *free_l25(unsigned bin, void *block)
{
	struct slab *slab = hak_page_map_slab(block);
	uint64_t bit, *word;
	struct heap *heap;

	if (hak_slab_index(slab, block) < 0)
		return "invalid pointer";
	word = out_word(block, &bit);
	if (!(__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit))
		return "double free";
	heap = hak_heap_for_free();
	free_slab_block(heap, bin, block);
	return NULL;
}

static const char *free_span(void *block)
{
	struct slab *slab = hak_page_map_slab(block);

	if (slab == NULL || slab->base != (uintptr_t)block)
		return "invalid pointer";
	if (!hak_span_claim(slab))
		return "double free";
	hak_span_put(slab);
	return NULL;
}

static const char *free_locked(void *block)
{
	struct slab *slab = hak_page_map_slab(block);
	const char *what = "invalid pointer";

	if (slab == NULL || slab->owner == NULL)
		return what;
	return hak_locked_heap_put(slab, block, &what) ? NULL : what;
}

/* What is wrong with it, or NULL. */
static const char *free_any(void *block)
{
	unsigned code = hak_page_map_code(block);

	if (hak_page_map_is_alias(block) || code == CODE_NONE)
		return "invalid pointer";
	if (code < L25_FIRST)
		return free_tiny_or_l2(code, block);
	if (code < BINS)
		return free_l25(code, block);
	if (code == CODE_LOCKED)
		return free_locked(block);
	return free_span(block);
}

static void free_plainly(void *block)
{
	const char *wrong;
	int saved = errno;

	if (block == NULL) {
		HAK_COUNT(DIAG, free_null, 1);
		return;
	}
	wrong = free_any(block);
	HAK_COUNT(DIAG, free_invalid, wrong != NULL);
	if (HAK_UNLIKELY(wrong != NULL))
		complain("free", wrong, block);
	maintain_if_due();
	errno = saved;
}

HAK_NOINLINE void hak_free_slow(void *block)
{
	if (HAK_UNLIKELY(hak_forwarding()))
		hak_forward->free(block);
	else if (hak_checking())
		hak_check_free(block);
	else
		free_plainly(block);
}

HAK_NOINLINE void hak_free_sized_slow(void *block, size_t size)
{
	if (HAK_UNLIKELY(hak_forwarding()))
		hak_forward->free_sized(block, size);
	else if (hak_checking())
		hak_check_free_sized(block, size);
	else
		free_plainly(block);
}

HAK_NOINLINE void hak_free_aligned_sized_slow(void *block, size_t align,
	size_t size)
{
	if (HAK_UNLIKELY(hak_forwarding()))
		hak_forward->free_aligned_sized(block, align, size);
	else if (hak_checking())
		hak_check_free_aligned_sized(block, align, size);
	else
		free_plainly(block);
}

HAK_NOINLINE void hak_free_aligned_slow(void *block, size_t align)
{
	if (hak_checking())
		hak_check_free_aligned(block, align);
	else
		hak_free_slow(block);
}

/* Whether p starts a block; whether the program has it is known without a
 * lock from 32 KiB on. */
static bool is_block(const struct slab *slab, const void *p)
{
	int i;

	if (slab->bin >= BINS)
		return slab->base == (uintptr_t)p;
	i = hak_slab_index(slab, p);
	if (i < 0 || slab->bin < L25_FIRST || slab->owner != NULL)
		return i >= 0;
	return LOAD_RELAXED(&slab->bits[SLAB_OUT]) >> i & 1;
}

/* The slab of a block; NULL after the complaint. */
static struct slab *decode(const char *function, const void *block)
{
	struct slab *slab = hak_page_map_slab(block);

	if (slab != NULL && !hak_page_map_is_alias(block) &&
	    hak_page_map_code(block) != CODE_NONE && is_block(slab, block))
		return slab;
	complain(function, "invalid pointer", block);
	return NULL;
}

static size_t size_of(const struct slab *slab)
{
	return slab->bin < BINS ? hak_bins[slab->bin].size : slab->span_bytes;
}

size_t hak_usable_size(void *block)
{
	struct slab *slab;

	if (block == NULL)
		return 0;
	if (HAK_UNLIKELY(hak_forwarding()))
		return hak_forward->usable_size(block);
	if (hak_checking())
		return hak_check_usable_size(block);
	slab = decode("usable_size", block);
	return slab != NULL ? size_of(slab) : 0;
}

size_t hak_good_size(size_t size)
{
	if (size > PTRDIFF_MAX || hak_checking())
		return size;
	return size <= L25_MAX ? hak_bins[hak_bin_of(size)].size
			       : hak_span_good_size(size);
}

/* Whether the block may stay as it is: what a smaller one would save is not
 * worth a copy. */
static bool stays(const struct slab *slab, size_t size)
{
	size_t have = size_of(slab);

	return size <= have && (size > have / 2 || have <= 64);
}

static void *resize_span(struct slab *slab, size_t size)
{
	struct slab *to = slab->owner != NULL
		? hak_locked_heap_resize(slab, size)
		: hak_span_resize(slab, size);

	maintain_if_due();
	return to != NULL ? (void *)to->base : NULL;
}

static void *alloc_beside(struct slab *slab, size_t size)
{
	return slab->owner != NULL ? hak_heap_alloc(slab->owner, size, 1)
				   : hak_malloc(size);
}

static void *move(struct slab *slab, void *block, size_t size)
{
	size_t have = size_of(slab);
	int saved = errno;
	void *to = alloc_beside(slab, size);

	if (to == NULL) {
		/* A block that should shrink is good as it is. */
		if (size > have)
			return NULL;
		errno = saved;
		return block;
	}
	__builtin_memcpy(to, block, MIN(have, size));
	hak_free(block);
	return to;
}

HAK_NOINLINE void *hak_realloc(void *block, size_t size)
{
	struct slab *slab;
	void *to = NULL;

	if (block == NULL)
		return hak_malloc(size);
	if (HAK_UNLIKELY(hak_forwarding()))
		return hak_forward->realloc(block, size);
	if (hak_checking())
		return hak_check_realloc(block, size);
	slab = decode("realloc", block);
	if (slab == NULL) {
		errno = EINVAL;
		return NULL;
	}
	if (size == 0) {
		hak_free(block);
		return NULL;
	}
	if (size > PTRDIFF_MAX)
		return no_memory();
	if (slab->bin >= BINS && size > L25_MAX)
		to = resize_span(slab, size);
	else if (stays(slab, size))
		return block;
	return to != NULL ? to : move(slab, block, size);
}

static void *heap_alloc(struct locked_heap *heap, size_t size, size_t align,
	bool *zero)
{
	void *block = NULL;

	if (size <= PTRDIFF_MAX) {
		size += size == 0;
		block = hak_locked_heap_take(heap, size, align, zero);
		if (block == NULL && may_recover(size))
			block = hak_locked_heap_take(heap, size, align, zero);
	}
	maintain_if_due();
	return block != NULL ? block : no_memory();
}

void *hak_heap_alloc(struct locked_heap *heap, size_t size, size_t align)
{
	bool zero;

	if (hak_checking())
		return hak_check_heap_alloc(heap, size, align);
	return heap_alloc(heap, size, align, &zero);
}

void *hak_heap_calloc(struct locked_heap *heap, size_t count, size_t size)
{
	size_t bytes;
	bool zero = false;
	void *block;

	if (hak_checking())
		return hak_check_heap_calloc(heap, count, size);
	if (__builtin_mul_overflow(count, size, &bytes))
		return no_memory();
	block = heap_alloc(heap, bytes, 1, &zero);
	if (block != NULL && !zero)
		__builtin_memset(block, 0, bytes);
	return block;
}

void *hak_heap_realloc(struct locked_heap *heap, void *block, size_t size)
{
	struct slab *slab;

	if (hak_checking())
		return hak_check_heap_realloc(heap, block, size);
	if (block == NULL)
		return hak_heap_alloc(heap, size, 1);
	slab = decode("heap_realloc", block);
	if (slab == NULL || slab->owner != heap) {
		if (slab != NULL)
			complain("heap_realloc",
				"block of another heap", block);
		errno = EINVAL;
		return NULL;
	}
	return hak_realloc(block, size);
}

void *hak_pools_alloc(struct locked_heap *heap, size_t size, size_t align,
	bool *zero)
{
	return heap != NULL ? heap_alloc(heap, size, align, zero)
			    : alloc(size, align, zero);
}

void hak_pools_free(void *block)
{
	const char *wrong = free_any(block);

	ASSERT(wrong == NULL);
	(void)wrong;
}

size_t hak_pools_size(const void *block)
{
	return size_of(hak_page_map_slab(block));
}

void hak_pools_maintain(void)
{
	maintain_if_due();
}
