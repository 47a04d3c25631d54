/*
 * cache_limits.c: the refill policy.
 *
 * Tiny: fronts grow to a whole magazine, refills from 16 to 64 blocks (a small
 * loop does not thrash, bulk work gains 15 %).  A depot has no bound of its own
 * beside the budget: a push and a pop cost less than two visits of a bitmap,
 * even for blocks in random order (100 000 of 64 bytes: 0.82 of the time that
 * mimalloc 3.4.3 needs, and 1.4 with depots of 1 MiB).
 * L2: rings of HAKMEM_L2_RING_CAP blocks and RING_BYTES, refills of L2_BATCH_
 * BYTES at most.  L2.5: rings of HAKMEM_L25_RING_CAP blocks and L25_RING_BYTES;
 * larger blocks are better off in the arena, where any bin can have the pages.
 */
#include "cache_limits.h"

#include "magazine.h"
#include "options.h"

#define BATCH_FIRST 16
#define BATCH_MAX 64
#define RING_BYTES (256 * KIB)
#define L25_RING_BYTES (256 * KIB)
#define L2_BATCH_BYTES (64 * KIB)

struct cache_limits hak_cache_limits[BINS];

static size_t size_of(unsigned bin)
{
	return hak_bins[bin].size;
}

/* HAKMEM_TINY_UNIFIED_Cn, or -1. */
static int unified_max(unsigned bin)
{
	const int of_band[BANDS] = {
		hak_options.tiny_unified_c0, hak_options.tiny_unified_c1,
		hak_options.tiny_unified_c2, hak_options.tiny_unified_c3,
		hak_options.tiny_unified_c4, hak_options.tiny_unified_c5,
		hak_options.tiny_unified_c6, hak_options.tiny_unified_c7 };

	return of_band[hak_band_of(bin)];
}

static unsigned cap_max(unsigned bin)
{
	size_t cap;

	if (bin < L2_FIRST) {
		int most = unified_max(bin);

		return most < 0 ? MAGAZINE_BLOCKS
				: MIN((unsigned)most, MAGAZINE_BLOCKS);
	}
	if (bin < L25_FIRST)
		cap = MIN((size_t)hak_options.l2_ring_cap,
			RING_BYTES / size_of(bin));
	else
		cap = MIN((size_t)hak_options.l25_ring_cap,
			L25_RING_BYTES / size_of(bin));
	return (unsigned)cap;
}

static unsigned cap_first(unsigned bin)
{
	size_t size = size_of(bin);
	unsigned cap = size <= 256 ? 16 : bin < L2_FIRST ? 8
		: bin < L25_FIRST ? (unsigned)MAX(16 * KIB / size, 1) : 1;

	return MIN(cap, cap_max(bin));
}

/* Many threads that share a small budget: no magazines for what is rare. */
static unsigned cap_least(unsigned bin)
{
	return size_of(bin) <= 256 ? MIN(4u, cap_first(bin)) : 0;
}

/* Magazines beside a full front: what the option allows, from the first; else
 * none at first, and what the budget allows. */
static void set_depot(struct cache_limits *limits, unsigned bin)
{
	int most = bin < L2_FIRST ? unified_max(bin) : 0;

	if (most < 0) {
		limits->depot_first = 0;
		limits->depot_max = UINT16_MAX;
	} else {
		limits->depot_first = limits->depot_max =
			(uint16_t)MAX(most / MAGAZINE_BLOCKS - 1, 0);
	}
}

/* HAKMEM_TINY_REFILL_COUNT and the more specific ones; 0: none set. */
static unsigned refill_option(unsigned bin)
{
	const int of_band[BANDS] = {
		hak_options.tiny_refill_count_c0,
		hak_options.tiny_refill_count_c1,
		hak_options.tiny_refill_count_c2,
		hak_options.tiny_refill_count_c3,
		hak_options.tiny_refill_count_c4,
		hak_options.tiny_refill_count_c5,
		hak_options.tiny_refill_count_c6,
		hak_options.tiny_refill_count_c7 };
	unsigned band = hak_band_of(bin);
	int group = band < 4 ? hak_options.tiny_refill_count_hot
			     : hak_options.tiny_refill_count_mid;

	if (of_band[band] != 0)
		return (unsigned)of_band[band];
	return (unsigned)(group != 0 ? group : hak_options.tiny_refill_count);
}

/* Blocks of the first refill, and of the largest. */
static void set_batch(struct cache_limits *limits, unsigned bin)
{
	unsigned option = bin < L2_FIRST ? refill_option(bin) : 0;
	size_t first = 1, most = 1;

	if (option != 0) {
		first = most = option;
	} else if (bin < L2_FIRST) {
		first = BATCH_FIRST;
		most = BATCH_MAX;
	} else if (bin < L25_FIRST) {
		most = MAX(L2_BATCH_BYTES / size_of(bin), 1);
		first = MAX(MIN(L2_BATCH_BYTES / 4 / size_of(bin), 16), 1);
	}
	limits->batch_first = (uint8_t)first;
	limits->batch_max = (uint8_t)most;
}

void hak_cache_limits_init(void)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		struct cache_limits *limits = &hak_cache_limits[bin];

		limits->cap_first = (uint8_t)cap_first(bin);
		limits->cap_least = (uint8_t)cap_least(bin);
		limits->cap_max = (uint8_t)cap_max(bin);
		set_batch(limits, bin);
		set_depot(limits, bin);
	}
}
