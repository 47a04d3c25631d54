/*
 * api.c: the hakmem_* entry points.
 *
 * preload.c includes this file: in that library the malloc family stands in
 * the same translation unit, so that a static link takes both or neither.
 */
#include "alloc.h"
#include "background.h"
#include "budget.h"
#include "check.h"
#include "forward.h"
#include "hakmem.h"
#include "heap.h"
#include "locked_heap.h"
#include "message.h"
#include "options.h"
#include "start.h"
#include "stats.h"

#include <errno.h>
#include <unistd.h>

/* The preload library's entry points, under a name of their own: that is how
 * the other library knows. */
extern const struct hak_entry_points hakmem_preload_entry;

#ifndef HAK_IS_PRELOAD
#pragma weak hakmem_preload_entry
const struct hak_entry_points *hak_forward = &hakmem_preload_entry;
#endif

HAK_EXPORT HAK_HIT void *hakmem_malloc(size_t size)
{
	return hak_malloc(size);
}

HAK_EXPORT void *hakmem_calloc(size_t count, size_t size)
{
	return hak_calloc(count, size);
}

HAK_EXPORT void *hakmem_realloc(void *block, size_t size)
{
	return hak_realloc(block, size);
}

HAK_EXPORT HAK_HIT void hakmem_free(void *block)
{
	hak_free(block);
}

HAK_EXPORT void hakmem_free_sized(void *block, size_t size)
{
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_sized_slow(block, size);
}

HAK_EXPORT void hakmem_free_aligned_sized(void *block, size_t alignment,
	size_t size)
{
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_aligned_sized_slow(block, alignment, size);
}

HAK_EXPORT void *hakmem_aligned_alloc(size_t alignment, size_t size)
{
	if (!IS_POWER_OF_TWO(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return hak_aligned_alloc(alignment, size);
}

HAK_EXPORT int hakmem_posix_memalign(void **block, size_t alignment,
	size_t size)
{
	int saved = errno;
	void *p;

	if (!IS_POWER_OF_TWO(alignment) || alignment < sizeof(void *))
		return EINVAL;
	/* Checked mode wants to know who called this one. */
	p = !hak_forwarding() && hak_checking()
		? hak_check_alloc_for(size, alignment, HAK_CALLER)
		: hak_aligned_alloc(alignment, size);
	errno = saved;
	if (p == NULL)
		return ENOMEM;
	*block = p;
	return 0;
}

HAK_EXPORT void *hakmem_reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return hak_realloc(block, bytes);
}

HAK_EXPORT size_t hakmem_usable_size(const void *block)
{
	return hak_usable_size((void *)block);
}

HAK_EXPORT size_t hakmem_good_size(size_t size)
{
	return hak_good_size(size);
}

HAK_EXPORT int hakmem_trim(size_t pad)
{
	if (hak_forwarding())
		return hak_forward->trim(pad);
	if (hak_checking())
		hak_check_all();
	return hak_budget_trim(pad) != 0;
}

HAK_EXPORT const char *hakmem_version(void)
{
	return HAKMEM_VERSION_STRING;
}

static struct locked_heap *inside(struct hakmem_heap *heap)
{
	return (struct locked_heap *)heap;
}

HAK_EXPORT struct hakmem_heap *hakmem_heap_new(void)
{
	struct locked_heap *heap;

	if (hak_forwarding())
		return hak_forward->heap_new();
	hak_start();
	heap = hak_locked_heap_new();
	if (heap == NULL)
		errno = ENOMEM;
	return (struct hakmem_heap *)heap;
}

static void heap_destroy(struct locked_heap *heap)
{
	if (hak_checking())
		hak_check_heap_end(heap);
	hak_locked_heap_destroy(heap);
}

HAK_EXPORT void hakmem_heap_destroy(struct hakmem_heap *heap)
{
	if (heap == NULL)
		return;
	if (hak_forwarding())
		hak_forward->heap_destroy(heap);
	else
		heap_destroy(inside(heap));
}

HAK_EXPORT void *hakmem_heap_malloc(struct hakmem_heap *heap, size_t size)
{
	if (hak_forwarding())
		return hak_forward->heap_alloc(heap, size, 1);
	return hak_heap_alloc(inside(heap), size, 1);
}

HAK_EXPORT void *hakmem_heap_calloc(struct hakmem_heap *heap, size_t count,
	size_t size)
{
	if (hak_forwarding())
		return hak_forward->heap_calloc(heap, count, size);
	return hak_heap_calloc(inside(heap), count, size);
}

HAK_EXPORT void *hakmem_heap_realloc(struct hakmem_heap *heap, void *block,
	size_t size)
{
	if (hak_forwarding())
		return hak_forward->heap_realloc(heap, block, size);
	return hak_heap_realloc(inside(heap), block, size);
}

HAK_EXPORT void *hakmem_heap_aligned_alloc(struct hakmem_heap *heap,
	size_t alignment, size_t size)
{
	if (!IS_POWER_OF_TWO(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	if (hak_forwarding())
		return hak_forward->heap_alloc(heap, size, alignment);
	return hak_heap_alloc(inside(heap), size, alignment);
}

HAK_EXPORT int hakmem_heap_stats(struct hakmem_heap *heap,
	struct hakmem_heap_stats *stats)
{
	struct locked_heap_sums sums;
	struct hakmem_heap_stats all;
	size_t room = stats->struct_size;

	if (hak_forwarding())
		return hak_forward->heap_stats(heap, stats);
	if (room < sizeof stats->struct_size) {
		errno = EINVAL;
		return -1;
	}
	hak_locked_heap_sums(inside(heap), &sums);
	all = (struct hakmem_heap_stats){ room, sums.live_blocks,
		sums.live_bytes, sums.slab_bytes, sums.span_bytes };
	__builtin_memcpy(stats, &all, MIN(room, sizeof all));
	return 0;
}

static int fail(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

HAK_EXPORT int hakmem_stats_get(struct hakmem_stats *stats)
{
	if (hak_forwarding())
		return hak_forward->stats_get(stats);
	hak_start();
	return hak_stats_get(stats);
}

HAK_EXPORT int hakmem_stats_get_bin(unsigned bin,
	struct hakmem_bin_stats *stats)
{
	if (hak_forwarding())
		return hak_forward->stats_get_bin(bin, stats);
	hak_start();
	return hak_stats_get_bin(bin, stats);
}

HAK_EXPORT int hakmem_stats_print(enum hakmem_stats_format format,
	void (*write)(void *arg, const char *text), void *arg)
{
	bool json = format == HAKMEM_STATS_JSON;

	if (hak_forwarding())
		return hak_forward->stats_print((int)format, write, arg);
	if (!json && format != HAKMEM_STATS_TEXT) {
		errno = EINVAL;
		return -1;
	}
	hak_start();
	if (write == NULL)
		return fail(hak_stats_report_to(json, STDERR_FILENO));
	return fail(hak_stats_report(json, write, arg) ? 0 : ENOMEM);
}

HAK_EXPORT int hakmem_option_get(const char *name, char *value, size_t size)
{
	if (hak_forwarding())
		return hak_forward->option_get(name, value, size);
	hak_start();
	return fail(hak_option_text(name, value, size));
}

HAK_EXPORT int hakmem_option_set(const char *name, const char *value)
{
	int error;

	if (hak_forwarding())
		return hak_forward->option_set(name, value);
	hak_start();
	error = hak_option_change(name, value);
	if (error == 0)
		hak_start_retune();
	return fail(error);
}

/* After the program's own handlers of exit, so that what they free counts. */
__attribute__((destructor)) static void at_exit(void)
{
	if (hak_forwarding())
		return;
	hak_background_end();
	if (LOAD_RELAXED(&hak_check_mode) == HAK_CHECK_ON)
		hak_check_all();
	hak_stats_exit();
}
