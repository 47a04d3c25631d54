/*
 * hakmem: a memory allocator for 64-bit Linux
 * SPDX-License-Identifier: MIT
 *
 * Linked as libhakmem, these functions stand beside the C library's malloc
 * and replace nothing. In a process that runs on libhakmem-preload they share
 * one set of memory with malloc, and blocks may be freed by either.
 *
 * For every function below, unless it says otherwise:
 * - all sizes and alignments are in bytes;
 * - a block is aligned to 16 bytes, or to 8 if 8 or fewer were asked for;
 * - a size of 0 gives a block of its own, which has to be freed;
 * - a failed allocation returns NULL and sets errno to ENOMEM, and so does
 *   any request beyond PTRDIFF_MAX; success leaves errno as it was;
 * - any thread may call at any time, also while others fork, and in the child
 *   of a fork; a block may be freed by another thread than the one that got
 *   it; no function may be called from a signal handler.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>

#define HAKMEM_VERSION_MAJOR 1
#define HAKMEM_VERSION_MINOR 0
#define HAKMEM_VERSION_PATCH 0
#define HAKMEM_VERSION_STRING "1.0.0"

#if defined __GNUC__ || defined __clang__
#define HAKMEM_ATTRIBUTE(list) __attribute__(list)
#else
#define HAKMEM_ATTRIBUTE(list)
#endif

#define HAKMEM_API HAKMEM_ATTRIBUTE((__visibility__("default")))
/* The result aliases nothing that the program can reach otherwise. */
#define HAKMEM_ATTR_MALLOC HAKMEM_ATTRIBUTE((__malloc__))
/* Argument n, or the product of two arguments, is the size of the block. */
#define HAKMEM_ATTR_SIZE(n) HAKMEM_ATTRIBUTE((__alloc_size__(n)))
#define HAKMEM_ATTR_SIZE2(n, m) HAKMEM_ATTRIBUTE((__alloc_size__(n, m)))
/* Argument n is the alignment of the block. */
#define HAKMEM_ATTR_ALIGN(n) HAKMEM_ATTRIBUTE((__alloc_align__(n)))
#define HAKMEM_ATTR_USE HAKMEM_ATTRIBUTE((__warn_unused_result__))
/* Argument n is looked at, what it points to is not: a new block may come. */
#if defined __GNUC__ && __GNUC__ >= 11
#define HAKMEM_ATTR_UNREAD(n) HAKMEM_ATTRIBUTE((__access__(__none__, n)))
#else
#define HAKMEM_ATTR_UNREAD(n)
#endif

#ifndef __cplusplus
#define HAKMEM_NOEXCEPT
#elif __cplusplus >= 201103L
#define HAKMEM_NOEXCEPT noexcept
#else
#define HAKMEM_NOEXCEPT throw()
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- ISO C ------------------------------------------------------------- */

/* A block of at least size bytes, not initialised. */
HAKMEM_API void *hakmem_malloc(size_t size) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_MALLOC HAKMEM_ATTR_SIZE(1) HAKMEM_ATTR_USE;

/* A block for count objects of size bytes each, all zero. A product that
 * overflows fails with ENOMEM. */
HAKMEM_API void *hakmem_calloc(size_t count, size_t size) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_MALLOC HAKMEM_ATTR_SIZE2(1, 2) HAKMEM_ATTR_USE;

/*
 * Resize a block; it may move, and keeps its contents up to the smaller size.
 * With block NULL this is malloc. With size 0 the block is freed and NULL is
 * returned, as glibc does (C23 leaves it undefined). On failure the block
 * stays as it was. A block of a heap stays in its heap.
 */
HAKMEM_API void *hakmem_realloc(void *block, size_t size) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_SIZE(2) HAKMEM_ATTR_USE;

/* Free a block from any function of this header. NULL is ignored and errno
 * is kept. A pointer that is no live block ends the process, unless
 * HAKMEM_INVALID_FREE says otherwise; see hakmem(7). */
HAKMEM_API void hakmem_free(void *block) HAKMEM_NOEXCEPT;

/* A block aligned to alignment, a power of two (C17; size need not be a
 * multiple of it). Any other alignment fails with EINVAL. */
HAKMEM_API void *hakmem_aligned_alloc(size_t alignment, size_t size)
	HAKMEM_NOEXCEPT HAKMEM_ATTR_MALLOC HAKMEM_ATTR_ALIGN(1)
	HAKMEM_ATTR_SIZE(2) HAKMEM_ATTR_USE;

/* Free a block of malloc, calloc or realloc whose size the caller knows; size
 * is what was asked for (C23). */
HAKMEM_API void hakmem_free_sized(void *block, size_t size) HAKMEM_NOEXCEPT;

/* Free a block of aligned_alloc; alignment and size are what was asked for
 * (C23). */
HAKMEM_API void hakmem_free_aligned_sized(void *block, size_t alignment,
	size_t size) HAKMEM_NOEXCEPT;

/* --- POSIX ------------------------------------------------------------- */

/*
 * Store an aligned block in *block and return 0. The alignment must be a power
 * of two and a multiple of sizeof(void *), else EINVAL is returned; ENOMEM is
 * returned where there is no memory. On failure *block and errno are kept.
 */
HAKMEM_API int hakmem_posix_memalign(void **block, size_t alignment,
	size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR_USE;

/* realloc to count objects of size bytes each; a product that overflows fails
 * with ENOMEM and keeps the block (POSIX.1-2024). */
HAKMEM_API void *hakmem_reallocarray(void *block, size_t count, size_t size)
	HAKMEM_NOEXCEPT HAKMEM_ATTR_SIZE2(2, 3) HAKMEM_ATTR_USE;

/* --- Sizes, memory, version ---------------------------------------------- */

/* The bytes of a block that may be written, at least those asked for and the
 * same for the whole life of the block; 0 for NULL. */
HAKMEM_API size_t hakmem_usable_size(const void *block) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_UNREAD(1);

/* The usable size that malloc(size) would give: what a growing buffer may as
 * well ask for. 0 if no such block can exist. */
HAKMEM_API size_t hakmem_good_size(size_t size) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_USE;

/* Give free memory back to the system, keeping about pad bytes of it for
 * coming requests. Returns 1 if something was given back and 0 if not, as
 * malloc_trim does. It may take milliseconds. */
HAKMEM_API int hakmem_trim(size_t pad) HAKMEM_NOEXCEPT;

/* The version of the library in use, which may be newer than the header's
 * HAKMEM_VERSION_STRING. */
HAKMEM_API const char *hakmem_version(void) HAKMEM_NOEXCEPT HAKMEM_ATTR_USE;

/* --- Heaps ----------------------------------------------------------------
 *
 * A heap holds blocks that can be given back all at once. It has a lock and
 * no caches, so it is slower than malloc; any thread may use it. Its blocks
 * are freed by hakmem_free and resized by either realloc.
 */
struct hakmem_heap;

/* A new heap without a block. */
HAKMEM_API struct hakmem_heap *hakmem_heap_new(void) HAKMEM_NOEXCEPT
	HAKMEM_ATTR_USE;

/* Free all blocks of the heap and the heap itself. No other thread may be
 * using the heap or its blocks. NULL is ignored. */
HAKMEM_API void hakmem_heap_destroy(struct hakmem_heap *heap) HAKMEM_NOEXCEPT;

HAKMEM_API void *hakmem_heap_malloc(struct hakmem_heap *heap, size_t size)
	HAKMEM_NOEXCEPT HAKMEM_ATTR_MALLOC HAKMEM_ATTR_SIZE(2)
	HAKMEM_ATTR_USE;

HAKMEM_API void *hakmem_heap_calloc(struct hakmem_heap *heap, size_t count,
	size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR_MALLOC HAKMEM_ATTR_SIZE2(2, 3)
	HAKMEM_ATTR_USE;

/* With block NULL this is hakmem_heap_malloc; another block must be of this
 * heap. */
HAKMEM_API void *hakmem_heap_realloc(struct hakmem_heap *heap, void *block,
	size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR_SIZE(3) HAKMEM_ATTR_USE;

HAKMEM_API void *hakmem_heap_aligned_alloc(struct hakmem_heap *heap,
	size_t alignment, size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR_MALLOC
	HAKMEM_ATTR_ALIGN(2) HAKMEM_ATTR_SIZE(3) HAKMEM_ATTR_USE;

/* What a heap holds. Fields are only ever added at the end. */
struct hakmem_heap_stats {
	size_t struct_size; /* set by the caller: sizeof of this struct */
	size_t live_blocks; /* blocks not freed */
	size_t live_bytes;  /* the sum of their usable sizes */
	size_t slab_bytes;  /* memory of the slabs that small blocks are cut from */
	size_t span_bytes;  /* memory of the spans that larger blocks have */
};

/* Fill in what struct_size has room for, all of one moment. Returns 0, or -1
 * with errno EINVAL if struct_size is too small to be set. */
HAKMEM_API int hakmem_heap_stats(struct hakmem_heap *heap,
	struct hakmem_heap_stats *stats) HAKMEM_NOEXCEPT;

/* --- Statistics -----------------------------------------------------------
 *
 * Derived by walking over what the allocator keeps anyway, so that nothing is
 * counted while the program runs. Threads that allocate meanwhile may shift
 * single figures by a magazine (127 blocks) each; in a process that stands
 * still all of them are exact. hakmem(7) explains each.
 */

/* Of the process. Fields are only ever added at the end. */
struct hakmem_stats {
	size_t struct_size; /* set by the caller: sizeof of this struct */
	size_t live_blocks; /* blocks that are not freed */
	size_t live_bytes; /* their usable sizes */
	size_t span_blocks; /* of them, large and huge blocks */
	size_t span_bytes; /* their usable sizes */
	size_t heap_objects; /* first-class heaps (hakmem_heap_new) */
	size_t heap_object_bytes; /* blocks of them that stand in slabs */
	size_t slabs; /* slabs of the shards */
	size_t slabs_carving; /* page boxes, which refills take from */
	size_t slabs_warm; /* in warm pools */
	size_t slabs_listed; /* partly free, beyond the warm pools */
	size_t slabs_full; /* without a free block */
	size_t slab_bytes; /* memory of these slabs */
	size_t slab_live_bytes; /* blocks in the program's hands */
	size_t front_bytes; /* free blocks in threads' magazines */
	size_t ring_bytes; /* free blocks in threads' rings of L2 and L2.5 */
	size_t depot_bytes; /* free blocks in threads' depots */
	size_t spill_bytes; /* free blocks on their way between threads */
	size_t lost_bytes; /* blocks that a fork left in caches of other threads */
	size_t free_bytes; /* free blocks in bitmaps */
	size_t tail_bytes; /* ends of slabs that no block covers */
	size_t mapped_bytes; /* address space taken from the system */
	size_t resident_bytes; /* of it, in memory now */
	size_t active_bytes; /* granules and mappings handed out */
	size_t retained_bytes; /* free granules that hold pages, for reuse */
	size_t retain_limit_bytes; /* most of them that may stay */
	size_t metadata_bytes; /* descriptors, page map, heaps, magazines and records */
	size_t arenas; /* arenas */
	size_t arena_bytes; /* address space of arenas */
	size_t superslabs; /* SuperSlabs opened in them */
	size_t mappings; /* blocks and slabs with a mapping of their own */
	size_t mapping_bytes; /* their memory */
	size_t purge_calls; /* times that memory was given back by madvise */
	size_t purged_bytes; /* memory given back so, since the start */
	size_t slab_purged_bytes; /* free pages given back inside slabs in use */
	size_t minor_faults; /* page faults of the process without input */
	size_t major_faults; /* page faults of the process with input */
	size_t heaps; /* threads with caches */
	size_t heap_bytes; /* the structures of these caches */
	size_t magazine_bytes; /* magazines, in chunks */
	size_t cache_share_bytes; /* free blocks that each thread may hold */
	size_t tls_bytes; /* static thread-local storage of a thread */
	size_t shards; /* shards */
	size_t spill_magazines; /* full magazines in spill queues */
	size_t background_threads; /* background threads, 0 or 1 */
	size_t background_rounds; /* rounds that it made */
	size_t background_magazines; /* magazines that it took from spill queues */
	size_t background_drained_bytes; /* their blocks, put into bitmaps */
	size_t background_purged_bytes; /* memory that it gave back to the system */
};

/* Fill in what struct_size has room for. Returns 0, or -1 with errno EINVAL if
 * struct_size is too small to be set. */
HAKMEM_API int hakmem_stats_get(struct hakmem_stats *stats) HAKMEM_NOEXCEPT;

/* Of one block size, all shards and threads together. The fields from live to
 * free add up to blocks; those from carving to full add up to slabs. */
struct hakmem_bin_stats {
	size_t struct_size; /* set by the caller: sizeof of this struct */
	size_t size;	/* of a block, in bytes */
	size_t slabs;
	size_t blocks;	/* of these slabs */
	size_t live;	/* in the program's hands */
	size_t front;	/* free, in threads' magazines or rings */
	size_t depot;	/* free, in threads' depots */
	size_t spill;	/* free, on their way between threads */
	size_t lost;	/* left by a fork in caches of other threads */
	size_t free;	/* free, in bitmaps */
	size_t carving;	/* slabs that refills take from */
	size_t warm;	/* slabs in warm pools */
	size_t listed;	/* slabs partly free, beyond the warm pools */
	size_t full;	/* slabs without a free block */
};

/* The bins are numbered from 0, in the order of their sizes. Returns 0, or -1
 * with errno EINVAL beyond the last or if struct_size is too small. */
HAKMEM_API int hakmem_stats_get_bin(unsigned bin,
	struct hakmem_bin_stats *stats) HAKMEM_NOEXCEPT;

enum hakmem_stats_format { HAKMEM_STATS_TEXT, HAKMEM_STATS_JSON };

/*
 * Print all statistics and the options in force. The text comes in pieces, each
 * ended by a NUL, by calls of write with arg; with write NULL it goes to file
 * descriptor 2. write may allocate and free. The schema of the JSON object is
 * in hakmem(7). Returns 0, or -1 with errno EINVAL for an unknown format,
 * ENOMEM without memory for the snapshot and EIO where descriptor 2 cannot be
 * written.
 */
HAKMEM_API int hakmem_stats_print(enum hakmem_stats_format format,
	void (*write)(void *arg, const char *text), void *arg);

/* --- Options --------------------------------------------------------------
 *
 * The variables of hakmem(7), by the same names and values as in the
 * environment, which is read at the first call of any function.
 */

/* Write the value in force into value, which has room for size bytes, as text
 * that hakmem_option_set would take. Returns 0, or -1 with errno ENOENT for an
 * unknown name and ERANGE for a lack of room (value then holds what fits). */
HAKMEM_API int hakmem_option_get(const char *name, char *value, size_t size)
	HAKMEM_NOEXCEPT;

/*
 * Change an option of this process from now on; memory that may no longer be
 * kept is given back before the call returns. Returns 0, or -1 with errno
 * ENOENT for an unknown name, EPERM for an option that cannot change while a
 * process runs, and EINVAL for a value that it does not accept; nothing has
 * changed then.
 */
HAKMEM_API int hakmem_option_set(const char *name, const char *value)
	HAKMEM_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
