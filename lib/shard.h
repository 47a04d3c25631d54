/*
 * shard.h: where heaps take blocks from and put them back.
 *
 * Slabs belong to a shard, never to a thread.  A refill is one lock operation
 * for a batch of blocks, a flush one for a whole magazine.
 */
#ifndef HAK_SHARD_H
#define HAK_SHARD_H

#include "bin_slabs.h"
#include "due.h"

#define SHARDS_MAX 16

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

#endif
