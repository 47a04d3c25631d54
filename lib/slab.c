/*
 * slab.c: taking blocks from a bitmap, and giving its free pages back.
 *
 * I1  slab->free equals the number of bits set among the first slab->blocks.
 * I2  Bits at or beyond slab->blocks are never set, so a tail is never handed
 *     out.
 * I3  A free block is never read or written here: all state is in the bitmap.
 *
 * Callers hold the lock of the slab.
 */
#include "slab.h"

#include "os.h"

void hak_slab_init(struct slab *slab, unsigned bin, bool zero)
{
	unsigned blocks = hak_bins[bin].blocks, i;

	slab->bin = (uint8_t)bin;
	slab->blocks = (uint16_t)blocks;
	slab->free = (uint16_t)blocks;
	slab->scan = 0;
	slab->span_bytes = 0;
	slab->owner = NULL;
	slab->purged_at = 0;
	slab->purged = 0;
	for (i = 0; i < blocks / 64; i++)
		slab->bits[i] = ~(uint64_t)0;
	if (blocks % 64 != 0)
		slab->bits[i] = ((uint64_t)1 << blocks % 64) - 1;
	if (bin >= L25_FIRST) {
		slab->bits[SLAB_ZERO] = zero ? slab->bits[0] : 0;
		STORE_RELAXED(&slab->bits[SLAB_OUT], 0);
	}
}

/* Lowest n bits of the word, as addresses, downwards from *to. */
static uint64_t take_word(uint64_t word, uintptr_t base, size_t size,
	void **to, unsigned n)
{
	if (word == ~(uint64_t)0 && n == 64) {
		for (unsigned i = 0; i < 64; i++)
			*--to = (void *)(base + i * size);
		return 0;
	}
	while (n-- > 0) {
		*--to = (void *)(base + (unsigned)__builtin_ctzll(word) * size);
		word &= word - 1;
	}
	return word;
}

void hak_slab_take(struct slab *slab, void **to, unsigned n)
{
	size_t size = hak_bins[slab->bin].size;
	unsigned words = (slab->blocks + 63u) / 64, k = slab->scan;
	unsigned left = n;

	ASSERT(n <= slab->free);
	slab->free = (uint16_t)(slab->free - n);
	for (;;) {
		uint64_t word = slab->bits[k];
		unsigned have = (unsigned)__builtin_popcountll(word);

		if (have > left)
			have = left;
		if (have != 0) {
			slab->bits[k] = take_word(word,
				slab->base + (size_t)k * 64 * size, size,
				to + left, have);
			left -= have;
			if (left == 0)
				break;
		}
		k = k + 1 == words ? 0 : k + 1;
	}
	slab->scan = (uint8_t)k;
}

/* Whether blocks first .. last are all free. */
static bool all_free(const struct slab *slab, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++) {
		if ((i & 63) == 0 && i + 63 <= last) {
			if (slab->bits[i >> 6] != ~(uint64_t)0)
				return false;
			i += 63;
		} else if (!(slab->bits[i >> 6] >> (i & 63) & 1)) {
			return false;
		}
	}
	return true;
}

size_t hak_slab_purge(struct slab *slab, size_t least)
{
	const struct hak_bin *bin = &hak_bins[slab->bin];
	size_t page = hak_page_size, used = (size_t)slab->blocks * bin->size;
	size_t end = slab->granules * GRANULE, start = 0, done = 0;

	if (slab->free == 0 || slab->purged_at ==
	    (slab->free + 1u) + SLAB_PURGED_ALL ||
	    (slab->purged_at == slab->free + 1u && least > page))
		return 0;
	for (size_t at = 0; at <= end; at += page) {
		bool free = at < used && all_free(slab,
			(unsigned)(at / bin->size),
			MIN((unsigned)((at + page - 1) / bin->size),
				slab->blocks - 1u));

		if (free)
			continue;
		if (at - start >= least && at > start &&
		    hak_os_purge((void *)(slab->base + start),
				at - start))
			done += at - start;
		start = at + page;
	}
	slab->purged_at = (uint16_t)(slab->free + 1u +
		(least <= page ? SLAB_PURGED_ALL : 0));
	return done;
}
