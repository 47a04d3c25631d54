/*
 * slab.h: the descriptor of a slab or span, and its bitmap.
 *
 * Descriptors live apart from user memory, in metadata.  The fields a pointer
 * is decoded with (base, span_bytes, bin, blocks, owner) are constant while
 * any block is out; the rest is under the lock of the (shard, bin) or of the
 * locked heap the slab belongs to.
 */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "size_class.h"

#define SLAB_WORDS 64

/* Where a slab stands; each change is made under its lock. */
enum slab_state {
	SLAB_FREE,	/* its granules belong to the arena */
	SLAB_CARVING,	/* the page box: refills take from it */
	SLAB_WARM,	/* recently used, on the warm list */
	SLAB_LISTED,	/* partly free, beyond the warm pool */
	SLAB_FULL,	/* nothing free */
	SLAB_SPAN	/* no slab: one large or huge block */
};

struct locked_heap;

/* 64 + 512 bytes: no multiple of a power of two, so that the descriptors of
 * many slabs do not fall into the same cache sets. */
struct slab {
	/* First byte of the first block; granule-aligned. */
	uintptr_t base;
	/* Usable bytes of a large or huge block, else 0. */
	size_t span_bytes;
	/* Address space a huge block has for itself; at least span_bytes. */
	size_t room;
	/* Links of the list of its state. */
	struct slab *next, *prev;
	/* The locked heap it belongs to, else NULL. */
	struct locked_heap *owner;
	uint16_t blocks;
	/* Bits set in the bitmap. */
	uint16_t free;
	uint16_t granules;
	/* The word the next take looks at first. */
	uint8_t scan;
	/* enum hak_code: the true bin, also in a locked heap. */
	uint8_t bin;
	/* enum slab_state. */
	uint8_t state;
	/* SHARD_NONE in a locked heap, whose lock is another. */
	uint8_t shard;
	/* Came by a mapping of its own, not from an arena. */
	uint8_t mapped;
	/* A span's pages were never written since they were zero. */
	uint8_t zero;
	/* The value of free at the last purge of its free pages, plus 1, and
	 * SLAB_PURGED_ALL; 0 once any block was taken since. */
	uint16_t purged_at;
	/* Pages, of 4 KiB, that were given back inside it. */
	uint16_t purged;
	/* Bit i set: block i is free.  Slabs of L2.5 use words 1 and 2 for
	 * SLAB_ZERO and SLAB_OUT. */
	uint64_t bits[SLAB_WORDS] HAK_ALIGNED(CACHE_LINE);
};

_Static_assert(offsetof(struct slab, bits) == CACHE_LINE, "one line of head");

#define SHARD_NONE 255

#define SLAB_PURGE_UNIT ((size_t)4 * KIB)
/* Runs of a single page were purged as well; beyond any count of blocks. */
#define SLAB_PURGED_ALL 0x8000

/* L2.5: bit i set while block i is zero for sure. */
#define SLAB_ZERO 1
/* L2.5: bit i set while block i is the program's; atomic. */
#define SLAB_OUT 2

enum slab_put {
	SLAB_PUT_OK,
	/* Was full, or is wholly free now: its list may have to change. */
	SLAB_PUT_MOVE,
	SLAB_PUT_INTERIOR,
	SLAB_PUT_DOUBLE
};

/* All blocks free; the granules' addresses and count are set already. */
void hak_slab_init(struct slab *slab, unsigned bin, bool zero);

/* Take n <= slab->free blocks: to[n - 1] gets the one at the lowest address,
 * so that a stack filled with them hands out rising addresses. */
void hak_slab_take(struct slab *slab, void **to, unsigned n);

/* The block's index, or -1 when p is no block's start. */
HAK_INLINE int hak_slab_index(const struct slab *slab, const void *p)
{
	const struct hak_bin *bin = &hak_bins[slab->bin];
	uint64_t offset = (uintptr_t)p - slab->base;
	uint32_t index = hak_block_index(bin, (uint32_t)offset);

	return (uint64_t)index * bin->size == offset && index < slab->blocks
		? (int)index : -1;
}

/* One block back; bin is the slab's, passed because callers have it at hand.
 * The offset is compared in 64 bits: an alias of a block in the bits that the
 * page map ignores is no block's start either. */
HAK_INLINE enum slab_put hak_slab_put(struct slab *slab,
	const struct hak_bin *bin, const void *p)
{
	uint64_t offset = (uintptr_t)p - slab->base;
	uint32_t index = hak_block_index(bin, (uint32_t)offset);
	uint64_t *word = &slab->bits[index >> 6 & (SLAB_WORDS - 1)];
	uint64_t bit = (uint64_t)1 << (index & 63);
	unsigned free;

	if (HAK_UNLIKELY((uint64_t)index * bin->size != offset ||
			index >= slab->blocks))
		return SLAB_PUT_INTERIOR;
	if (HAK_UNLIKELY(*word & bit))
		return SLAB_PUT_DOUBLE;
	*word |= bit;
	free = slab->free + 1u;
	slab->free = (uint16_t)free;
	/* One compare for "free == 1" and "free == blocks". */
	if (HAK_UNLIKELY(free - 2 >= slab->blocks - 2u))
		return SLAB_PUT_MOVE;
	return SLAB_PUT_OK;
}

/* Give runs of free whole pages, of at least so many bytes, inside a partly
 * used slab back; returns bytes. */
size_t hak_slab_purge(struct slab *slab, size_t least);

HAK_INLINE bool hak_slab_is_empty(const struct slab *slab)
{
	return slab->free == slab->blocks;
}

#endif
