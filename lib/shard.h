/*
 * shard.h: the slabs of a bin, and the queues between threads.
 *
 * Slabs belong to a shard, never to a thread.  A refill is one lock operation
 * for a batch of blocks, a flush one for a whole magazine.
 */
#ifndef HAK_SHARD_H
#define HAK_SHARD_H

#include "arena.h"
#include "counters.h"
#include "due.h"
#include "lock.h"
#include "magazine.h"

#define SHARDS_MAX 16

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
	/* Bytes put into bitmaps since a sweep was last asked for. */
	size_t flushed;
	/* Bytes of free pages that slabs on the lists gave back. */
	size_t purged;
	/* Full magazines on their way to another thread. */
	struct magazine_list spill;
	/* The most that taken ever was, where that is compiled in. */
	size_t peak[HAK_COMPILED_CLASS];
} HAK_ALIGNED(CACHE_LINE);

struct shard {
	struct bin_slabs bin[BINS];
};

extern struct shard hak_shards[SHARDS_MAX];
/* Shards that ever had slabs: 0 .. count - 1; rises only; relaxed. */
extern unsigned hak_shard_count;

/* Up to n blocks into to[0 .. count - 1], the lowest address last; L2.5
 * blocks that are zero for sure carry BLOCK_ZERO.  0 without memory. */
unsigned hak_shard_take(unsigned shard, unsigned bin, void **to, unsigned n);

/* n blocks of the bin back to the slabs they belong to. */
void hak_shard_flush(unsigned bin, void **blocks, unsigned n);

/* A full magazine for another thread; false when the queue is full. */
bool hak_spill_put(unsigned bin, struct magazine *magazine);
struct magazine *hak_spill_take(unsigned shard, unsigned bin);
/* Empty the queues of every shard into bitmaps. */
void hak_spill_drain(void);
/* Half of each queue, the oldest magazines; returns how many those were and adds
 * the bytes of their blocks.  It takes the lock of each bin. */
size_t hak_spill_drain_half(size_t *bytes);

/* Give wholly free warm slabs back to the arena. */
void hak_shard_release_empty(void);
/* Purge runs of at least so many bytes of free pages in partly used slabs;
 * returns bytes. */
size_t hak_shard_purge(size_t least);

/* Bytes of blocks that are out of the bitmaps, and of all blocks; relaxed. */
size_t hak_shard_taken_bytes(void);
size_t hak_shard_slab_bytes(void);
size_t hak_shard_spill_bytes(void);
size_t hak_shard_purged_bytes(void);

/* The shard of a heap: round robin. */
unsigned hak_shard_assign(void);
/* One shard more, up to one a processor; under the registry lock. */
void hak_shard_add(void);
unsigned hak_shard_max(void);
/* Tests: spread new heaps over n shards, whatever the machine has. */
void hak_shard_force(unsigned n);

/* Across fork: the locks of every (shard, bin), in index order. */
void hak_shard_fork_lock(void);
void hak_shard_fork_unlock(void);
void hak_shard_fork_reset(void);

/* A tag in the addresses that L2.5 stacks hold; blocks are 16-aligned. */
#define BLOCK_ZERO ((uintptr_t)1)
HAK_INLINE void *hak_untag(void *block)
{
	return (void *)((uintptr_t)block & ~BLOCK_ZERO);
}

/* The parts that locked heaps use, too; the caller holds the lock. */
unsigned hak_bin_take(struct bin_slabs *bs, void **to, unsigned n);
void hak_bin_add(struct bin_slabs *bs, struct slab *slab);
enum slab_put hak_bin_put(struct bin_slabs *bs, struct slab *slab, void *block,
	struct slab **release);
/* Make a slab of the bin; NULL without memory. */
struct slab *hak_slab_make(unsigned bin, struct locked_heap *owner,
	enum hak_place place);
/* Give a chain of slabs (linked by next) back to the system's side. */
void hak_slab_release(struct slab *chain);

#endif
