/*
 * size_class.c: the tables of sizes.
 *
 * I1  Sizes rise strictly with the code; each table of size_class.h agrees
 *     with the others (tests/size-class.c compares all of them with a model).
 * I2  Every size of 16 bytes or more is a multiple of 16, every size of L2.5
 *     a multiple of 8 KiB.
 * I3  The blocks of a slab fit a bitmap of SLAB_WORDS words; the 8-byte bin
 *     uses half its granule for that.
 * I4  The spans of L2.5 are cut without a tail, so that 40 KiB costs 40 KiB.
 *
 * For a bin with size s the reciprocal is ceil(2^32 / s).  It gives the exact
 * index for every offset that is a multiple of s in a slab of any bin, so
 * index * s == offset tells block starts from interior pointers.
 */
#include "size_class.h"

#define BIN(size, granules)                                                    \
	{ (size), (uint32_t)((((uint64_t)1 << 32) + (size) - 1) / (size)),     \
		(uint16_t)((size) == 8 ? GRANULE / 2 / 8                       \
				       : (granules) * GRANULE / (size)),       \
		(granules) }

const struct hak_bin hak_bins[BINS] = {
	{ 0, 0, 0, 0 },
	BIN(8, 1),
	BIN(16, 1),
	BIN(32, 1),
	BIN(48, 1),
	BIN(64, 1),
	BIN(80, 1),
	BIN(96, 1),
	BIN(112, 1),
	BIN(128, 1),
	BIN(160, 1),
	BIN(192, 1),
	BIN(224, 1),
	BIN(256, 1),
	BIN(320, 1),
	BIN(384, 1),
	BIN(448, 1),
	BIN(512, 1),
	BIN(640, 1),
	BIN(768, 1),
	BIN(896, 1),
	BIN(1024, 1),
	BIN(1280, 2),
	BIN(1536, 2),
	BIN(1792, 2),
	BIN(2048, 2),
	BIN(2560, 2),
	BIN(3072, 2),
	BIN(3584, 2),
	BIN(4096, 2),
	BIN(5120, 2),
	BIN(6144, 2),
	BIN(7168, 2),
	BIN(8192, 2),
	BIN(10240, 4),
	BIN(12288, 4),
	BIN(14336, 4),
	BIN(16384, 4),
	BIN(20480, 4),
	BIN(24576, 4),
	BIN(28672, 4),
	BIN(32768, 4),
	BIN(40960, 5),
	BIN(49152, 3),
	BIN(57344, 7),
	BIN(65536, 1),
	BIN(81920, 5),
	BIN(98304, 3),
	BIN(114688, 7),
	BIN(131072, 2),
	BIN(163840, 5),
	BIN(196608, 3),
	BIN(229376, 7),
	BIN(262144, 4),
	BIN(327680, 5),
	BIN(393216, 6),
	BIN(458752, 7),
	BIN(524288, 8),
	BIN(655360, 10),
	BIN(786432, 12),
	BIN(917504, 14),
	BIN(1048576, 16),
};

const uint8_t hak_tiny_bins[TINY_MAX / 8 + 1] = {
	1, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9,
	9, 10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 13, 13, 13,
	13, 14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15,
	15, 16, 16, 16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 17, 17,
	17, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18,
	18, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19,
	19, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20,
	20, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21, 21,
	21,
};

_Static_assert(L2_FIRST - TINY_FIRST == 21, "21 Tiny bins");
_Static_assert(L25_FIRST - L2_FIRST == 20, "4 bins a doubling, 1 to 32 KiB");
_Static_assert(BINS - L25_FIRST == 20, "4 bins a doubling, 32 KiB to 1 MiB");
_Static_assert(CODES <= 256, "a code is one byte of the page map");

unsigned hak_bin_aligned(size_t size, size_t align)
{
	unsigned bin;

	if (size > L25_MAX || align > GRANULE)
		return BINS;
	for (bin = hak_bin_of(size); bin < BINS; bin++)
		if (hak_bins[bin].size % align == 0)
			return bin;
	return BINS;
}

unsigned hak_band_of(unsigned bin)
{
	uint32_t size = hak_bins[bin].size;

	return size <= 8 ? 0 : 29 - (unsigned)__builtin_clz(size - 1);
}
