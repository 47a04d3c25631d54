/*
 * bin_slabs.h: the slabs of a bin in a shard, or in a locked heap.
 */
#ifndef HAK_BIN_SLABS_H
#define HAK_BIN_SLABS_H

#include "arena.h"
#include "counters.h"
#include "lock.h"
#include "magazine.h"

struct slab_list {
	struct slab *head;
	struct slab *tail;
	size_t count;
};

/* Everything here is under lock; in a locked heap, under that heap's. */
struct bin_slabs {
	struct hak_lock lock;
	/* The page box; its state is SLAB_CARVING. */
	struct slab *box;
	/* Newest first; wholly free slabs stand at its tail. */
	struct slab_list warm;
	struct slab_list listed;
	/* Full slabs; locked heaps alone keep track of them. */
	struct slab_list full;
	/* Wholly free slabs among the warm ones. */
	unsigned warm_empty;
	bool locked_heap;
	/* Slabs, their blocks, and how many of those are not in bitmaps. */
	size_t slabs;
	size_t blocks;
	size_t taken;
	/* Lock operations of refills and flushes, and those that waited. */
	unsigned locks;
	unsigned waits;
	/* Bytes put into bitmaps that hak_due_freed was not told of yet. */
	size_t flushed;
	/* Bytes of free pages that slabs on the lists gave back. */
	size_t purged;
	/* Full magazines on their way to another thread. */
	struct magazine_list spill;
	/* The most that taken ever was, where that is compiled in. */
	size_t peak[HAK_COMPILED_CLASS];
} HAK_ALIGNED(CACHE_LINE);

/* What brings a slab into the page box, as counters tell it. */
enum refill_stage {
	STAGE_BOX, /* it stood there */
	STAGE_WARM,
	STAGE_LISTED,
	STAGE_GRANULE, /* made, in an open SuperSlab */
	STAGE_SUPERSLAB,
};

/* The caller of what follows holds the lock. */

/* Up to n blocks into to[0 .. count - 1], the lowest address last; the count. */
unsigned hak_bin_take(struct bin_slabs *bs, void **to, unsigned n);
/* A new slab becomes the page box. */
void hak_bin_add(struct bin_slabs *bs, struct slab *slab);
/* As hak_bin_take, after hak_bin_add of a slab on which time was spent from
 * `start`. */
unsigned hak_bin_take_new(struct bin_slabs *bs, void **to, unsigned n,
	enum refill_stage stage, uint64_t start);
/* Slabs that go are linked to release: hak_slab_release, without the lock. */
enum slab_put hak_bin_put(struct bin_slabs *bs, struct slab *slab, void *block,
	struct slab **release);
/* A slab's free count reached 1 or its maximum. */
void hak_bin_reorder(struct bin_slabs *bs, struct slab *slab,
	struct slab **release);

/* The caller of these holds no lock of a bin. */

/* Release wholly free slabs and, where least is not 0, purge runs of at least so
 * many bytes of free pages in the others; returns bytes that were purged. */
size_t hak_bin_purge(struct bin_slabs *bs, size_t least);
/* Make a slab of the bin; NULL without memory. */
struct slab *hak_slab_make(unsigned bin, struct locked_heap *owner,
	enum hak_place place);
/* Give a chain of slabs (linked by next) back to the system's side. */
void hak_slab_release(struct slab *chain);

#endif
