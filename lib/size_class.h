/*
 * size_class.h: request size <-> bin, bands, pools, and the shape of slabs.
 *
 * A bin is one block size.  Codes 1 .. BINS-1 are bins of slabs; the codes
 * above say what else a pointer may be.  Up to 4 bins a doubling keep internal
 * waste at or below 25 % above 48 bytes.
 */
#ifndef HAK_SIZE_CLASS_H
#define HAK_SIZE_CLASS_H

#include "base.h"

#define GRANULE_SHIFT 16
#define GRANULE ((size_t)1 << GRANULE_SHIFT)
#define SUPERSLAB ((size_t)2 * MIB)
#define SUPERSLAB_GRANULES (SUPERSLAB / GRANULE)

#define TINY_MAX ((size_t)1 * KIB)
#define L2_MAX ((size_t)32 * KIB)
#define L25_MAX ((size_t)1 * MIB)
#define LARGE_MAX ((size_t)32 * MIB)

enum hak_code {
	CODE_NONE = 0,
	TINY_FIRST = 1,
	L2_FIRST = 22,
	L25_FIRST = 42,
	BINS = 62,
	CODE_LARGE = BINS,
	CODE_HUGE,
	CODE_LOCKED,
	CODES
};

#define BANDS 8

struct hak_bin {
	/* Block size in bytes. */
	uint32_t size;
	/* ceil(2^32 / size): offset to index by multiplication. */
	uint32_t reciprocal;
	/* Blocks in a slab. */
	uint16_t blocks;
	/* Granules of a slab. */
	uint16_t granules;
};

extern const struct hak_bin hak_bins[BINS];

/* Indexed by (size + 7) / 8. */
extern const uint8_t hak_tiny_bins[TINY_MAX / 8 + 1];

/* The bin of a request of 1025 bytes to 1 MiB. */
HAK_INLINE unsigned hak_bin_above_tiny(size_t size)
{
	size_t last = size - 1;
	unsigned doubling = 63 - (unsigned)__builtin_clzll(last);

	return L2_FIRST + (doubling - 10) * 4 +
		(unsigned)(last >> (doubling - 2) & 3);
}

/* The bin of a request of at most L25_MAX bytes. */
HAK_INLINE unsigned hak_bin_of(size_t size)
{
	return size <= TINY_MAX ? hak_tiny_bins[(size + 7) >> 3]
				: hak_bin_above_tiny(size);
}

/* The smallest bin whose blocks are aligned and hold size bytes; BINS when
 * there is none.  Slabs are granule-aligned, so any bin whose size is a
 * multiple of the alignment serves, up to one granule. */
unsigned hak_bin_aligned(size_t size, size_t align);

/* 0 .. 7 for the Tiny bins. */
unsigned hak_band_of(unsigned bin);

/* Where in its slab a block starts that holds the offset. */
HAK_INLINE uint32_t hak_block_index(const struct hak_bin *bin, uint32_t offset)
{
	return (uint32_t)((uint64_t)offset * bin->reciprocal >> 32);
}

#endif
