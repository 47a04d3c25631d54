/*
 * shard.c: refills and flushes, and the queues of magazines between threads.
 *
 * I1  Blocks travel between shards, slabs never do.
 * I2  No lock of another shard is taken while one is held.
 */
#include "shard.h"

#include "background.h"
#include "invalid.h"
#include "options.h"
#include "os.h"
#include "page_map.h"
#include "probe.h"

struct shard hak_shards[SHARDS_MAX];
unsigned hak_shard_count = 1;

/* Lock operations over which contention is judged. */
#define CONTENTION_WINDOW 1024
#define SPILL_BYTES (32 * KIB)
/* Freed bytes that a bin tells the heaps of at a time: one counter is shared by
 * all threads. */
#define FREED_CHUNK (32 * KIB)

static void tag_zero(unsigned bin, void **to, unsigned n)
{
	for (unsigned i = 0; bin >= L25_FIRST && i < n; i++) {
		struct slab *slab = hak_page_map_slab(to[i]);
		int index = hak_slab_index(slab, to[i]);

		if (slab->bits[SLAB_ZERO] >> index & 1)
			to[i] = (void *)((uintptr_t)to[i] | BLOCK_ZERO);
	}
}

static void note_zero(struct slab *slab, void *tagged)
{
	uint64_t bit = (uint64_t)1 << hak_slab_index(slab, hak_untag(tagged));

	if ((uintptr_t)tagged & BLOCK_ZERO)
		slab->bits[SLAB_ZERO] |= bit;
	else
		slab->bits[SLAB_ZERO] &= ~bit;
}

/* Locks of threads that refill and flush: how often one had to wait says
 * whether more shards would help. */
static void lock_counted(struct bin_slabs *bs)
{
	bool waited = !hak_try_lock(&bs->lock);

	if (waited)
		hak_lock(&bs->lock);
	bs->waits += waited;
	if (++bs->locks < CONTENTION_WINDOW)
		return;
	if (bs->waits >= CONTENTION_WINDOW / 8 &&
	    LOAD_RELAXED(&hak_shard_count) < hak_shard_max())
		hak_due_set(DUE_SPREAD);
	bs->locks = bs->waits = 0;
}

static unsigned take_here(unsigned shard, unsigned bin, void **to, unsigned n)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	unsigned got;

	lock_counted(bs);
	got = hak_bin_take(bs, to, n);
	tag_zero(bin, to, got);
	hak_unlock(&bs->lock);
	return got;
}

/* Partly free slabs of other shards, before new memory is asked for. */
static unsigned take_elsewhere(unsigned shard, unsigned bin, void **to,
	unsigned n)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);

	for (unsigned i = 1; i < count; i++) {
		unsigned other = (shard + i) % count, got;

		if (LOAD_RELAXED(&hak_shards[other].bin[bin].listed.count) == 0)
			continue;
		got = take_here(other, bin, to, n);
		if (got != 0)
			return got;
	}
	return 0;
}

static size_t opened_to_count(void)
{
	return HAK_COUNTING(REFILL) ? hak_arena_opened_bytes() : 0;
}

unsigned hak_shard_take(unsigned shard, unsigned bin, void **to, unsigned n)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	unsigned got = take_here(shard, bin, to, n);
	enum refill_stage stage;
	size_t opened;
	uint64_t start;
	struct slab *slab;

	if (got == 0)
		got = take_elsewhere(shard, bin, to, n);
	if (got != 0)
		return got;
	opened = opened_to_count();
	start = HAK_TICKS(REFILL);
	slab = hak_slab_make(bin, NULL, LOAD_RELAXED(&bs->slabs) < 2 &&
		shard == 0 && bin < L25_FIRST ? PLACE_SMALL : PLACE_DENSE);
	if (slab == NULL)
		return 0;
	/* Another thread that opens a SuperSlab meanwhile may get the credit. */
	stage = opened == opened_to_count() ? STAGE_GRANULE : STAGE_SUPERSLAB;
	slab->shard = (uint8_t)shard;
	hak_lock(&bs->lock);
	hak_bin_add(bs, slab);
	got = hak_bin_take_new(bs, to, n, stage, start);
	tag_zero(bin, to, got);
	hak_unlock(&bs->lock);
	return got;
}

/* What a flush found wrong; reported when no lock is held. */
struct finding {
	const char *what;
	const void *block;
};

static void count_flushed(unsigned shard, unsigned n)
{
	if (HAK_COUNTING(FREE) && hak_counters_are_here(shard))
		HAK_COUNT(FREE, ss_local, n);
	else
		HAK_COUNT(FREE, ss_remote, n);
}

/* The shard whose lock guards the block's slab; 0 for what is no shard's, so
 * that somebody looks at it. */
static unsigned home_of(const struct slab *slab)
{
	return slab != NULL && slab->shard != SHARD_NONE ? slab->shard : 0;
}

/* Put the leading blocks as long as nothing about them is special, and return
 * how many those were.  Neighbours that share a bitmap word are put by one
 * mask: bulk frees mostly come in runs. */
static unsigned put_plain(struct bin_slabs *bs, unsigned shard, unsigned bin,
	void **blocks, unsigned n, struct slab **release)
{
	const struct hak_bin *shape = &hak_bins[bin];
	uint64_t size = shape->size, span = 64 * size;
	unsigned i = 0;

	while (i < n) {
		struct slab *slab = hak_page_map_slab(blocks[i]);
		unsigned first, was, put = 0;
		uint64_t *word, mask = 0;
		uintptr_t start;

		if (HAK_UNLIKELY(slab == NULL || slab->bin != bin ||
				slab->shard != shard))
			break;
		first = hak_block_index(shape, (uint32_t)(
			(uintptr_t)blocks[i] - slab->base)) & ~63u;
		start = slab->base + first * size;
		word = &slab->bits[first >> 6 & (SLAB_WORDS - 1)];
		for (; i + put < n; put++) {
			uint64_t offset = (uintptr_t)blocks[i + put] - start;
			uint32_t index = hak_block_index(shape,
				(uint32_t)offset);
			uint64_t bit = (uint64_t)1 << (index & 63);

			if (offset >= span || index * size != offset ||
			    first + index >= slab->blocks ||
			    (*word | mask) & bit)
				break;
			mask |= bit;
		}
		if (put == 0)
			break;
		*word |= mask;
		was = slab->free;
		slab->free = (uint16_t)(was + put);
		i += put;
		if (HAK_UNLIKELY(was == 0 || hak_slab_is_empty(slab)))
			hak_bin_reorder(bs, slab, release);
	}
	return i;
}

/* Put those of the blocks that belong to the shard; the others move to the
 * front.  Returns how many are left. */
static unsigned flush_shard(unsigned shard, unsigned bin, void **blocks,
	unsigned n, struct slab **release, struct finding *finding)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	const struct hak_bin *shape = &hak_bins[bin];
	bool one = LOAD_RELAXED(&hak_shard_count) == 1;
	/* Elsewhere an odd address is no tagged one but a wrong one. */
	uintptr_t tags = bin >= L25_FIRST ? BLOCK_ZERO : 0;
	unsigned rest = 0, done = 0;

	for (unsigned i = 0; i < n; i++) {
		enum slab_put result;
		struct slab *slab;
		void *block;

		if (bin < L25_FIRST) {
			unsigned plain = put_plain(bs, shard, bin, blocks + i,
				n - i, release);

			done += plain;
			i += plain;
			if (i == n)
				break;
		}
		block = (void *)((uintptr_t)blocks[i] & ~tags);
		slab = hak_page_map_slab(block);

		/* A freed block's memory may be a locked heap's by now. */
		if (HAK_UNLIKELY(slab == NULL || slab->bin != bin ||
				slab->owner != NULL)) {
			*finding = (struct finding){ "double free", block };
			continue;
		}
		if (!one && slab->shard != shard) {
			blocks[rest++] = blocks[i];
			continue;
		}
		result = hak_slab_put(slab, shape, block);
		if (HAK_UNLIKELY(result != SLAB_PUT_OK)) {
			if (result != SLAB_PUT_MOVE) {
				*finding = (struct finding){
					result == SLAB_PUT_DOUBLE
						? "double free"
						: "invalid pointer", block };
				continue;
			}
			hak_bin_reorder(bs, slab, release);
		}
		if (bin >= L25_FIRST)
			note_zero(slab, blocks[i]);
		done++;
	}
	STORE_RELAXED(&bs->taken, bs->taken - done);
	count_flushed(shard, done);
	return rest;
}

/* Of the slabs that a flush made wholly free, down to an earlier one. */
static size_t chain_bytes(const struct slab *slab, const struct slab *end)
{
	size_t bytes = 0;

	for (; slab != end; slab = slab->next)
		bytes += slab->granules * GRANULE;
	return bytes;
}

/* Frees that reached bitmaps may leave slabs sparse, unless whole slabs go. */
static void note_flushed(struct bin_slabs *bs, size_t bytes, size_t gone)
{
	bs->flushed += bytes - MIN(bytes, gone);
	if (bs->flushed >= FREED_CHUNK) {
		hak_due_freed(bs->flushed);
		bs->flushed = 0;
	}
}

void hak_shard_flush(unsigned bin, void **blocks, unsigned n)
{
	struct finding finding = { NULL, NULL };
	struct slab *release = NULL, *released = NULL;
	size_t size = hak_bins[bin].size;
	unsigned blocks_left;

	HAK_PROBE(flush, hak_bins[bin].size, n);
	while (n != 0) {
		struct slab *first = hak_page_map_slab(hak_untag(blocks[0]));
		unsigned shard = home_of(first);
		struct bin_slabs *bs = &hak_shards[shard].bin[bin];

		lock_counted(bs);
		blocks_left = flush_shard(shard, bin, blocks, n, &release,
			&finding);
		note_flushed(bs, (n - blocks_left) * size,
			chain_bytes(release, released));
		hak_unlock(&bs->lock);
		n = blocks_left;
		released = release;
		if (finding.what != NULL)
			hak_invalid_block("free", finding.what, finding.block);
		finding.what = NULL;
	}
	hak_slab_release(release);
}

static size_t spill_max(unsigned bin)
{
	size_t bytes = MAGAZINE_BLOCKS * (size_t)hak_bins[bin].size;

	return LOAD_RELAXED(&hak_options.retain) == 0
		? 0 : MAX(SPILL_BYTES / bytes, 2);
}

bool hak_spill_put(unsigned bin, struct magazine *magazine)
{
	struct slab *first = hak_page_map_slab(magazine->slot[1]);
	struct bin_slabs *bs;
	bool ok, wake;

	if (first == NULL)
		return false;
	bs = &hak_shards[home_of(first)].bin[bin];
	hak_lock(&bs->lock);
	ok = bs->spill.count < spill_max(bin);
	if (ok)
		hak_magazine_push(&bs->spill, magazine);
	wake = ok && LOAD_RELAXED(&hak_background_asleep);
	hak_unlock(&bs->lock);
	if (HAK_UNLIKELY(wake))
		hak_due_set(DUE_BACKGROUND);
	HAK_COUNT(FREE, spill_puts, ok);
	HAK_COUNT(DIAG, spill_refused, !ok);
	if (HAK_COUNTING(FREE) && ok && !hak_counters_are_here(first->shard))
		HAK_COUNT(FREE, ss_remote, MAGAZINE_BLOCKS);
	return ok;
}

struct magazine *hak_spill_take(unsigned shard, unsigned bin)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	struct magazine *m;

	if (LOAD_RELAXED(&bs->spill.count) == 0)
		return NULL;
	hak_lock(&bs->lock);
	m = hak_magazine_pop_newest(&bs->spill);
	hak_unlock(&bs->lock);
	HAK_COUNT(FREE, spill_takes, m != NULL);
	return m;
}

static void empty_magazine(unsigned bin, struct magazine *m)
{
	hak_shard_flush(bin, m->slot + 1, MAGAZINE_BLOCKS);
	hak_magazine_put(m);
}

static void drain(unsigned shard, unsigned bin)
{
	struct magazine *m;

	while ((m = hak_spill_take(shard, bin)) != NULL)
		empty_magazine(bin, m);
}

static size_t drain_half(unsigned shard, unsigned bin)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	struct magazine *m;
	size_t most, n;

	hak_lock(&bs->lock);
	most = (bs->spill.count + 1) / 2;
	hak_unlock(&bs->lock);
	for (n = 0; n < most; n++) {
		hak_lock(&bs->lock);
		m = hak_magazine_pop_oldest(&bs->spill);
		hak_unlock(&bs->lock);
		if (m == NULL)
			break;
		HAK_COUNT(FREE, spill_takes, 1);
		empty_magazine(bin, m);
	}
	return n;
}

size_t hak_spill_drain_half(size_t *bytes)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);
	size_t magazines = 0;

	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < L2_FIRST; bin++) {
			size_t n = drain_half(shard, bin);

			magazines += n;
			*bytes += n * MAGAZINE_BLOCKS * hak_bins[bin].size;
		}
	return magazines;
}

void hak_spill_drain(void)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);

	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < L2_FIRST; bin++)
			drain(shard, bin);
}

/* least == 0: wholly free slabs alone. */
static size_t purge_all(size_t least)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);
	size_t bytes = 0;

	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			bytes += hak_bin_purge(&hak_shards[shard].bin[bin], least);
	return bytes;
}

void hak_shard_release_empty(void)
{
	purge_all(0);
}

size_t hak_shard_purge(size_t least)
{
	return purge_all(least);
}

enum sum { SUM_TAKEN, SUM_BLOCKS, SUM_SPILL };

static size_t sum_bytes(enum sum what)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);
	size_t bytes = 0;

	for (unsigned shard = 0; shard < count; shard++) {
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
			struct bin_slabs *bs = &hak_shards[shard].bin[bin];
			size_t n = what == SUM_TAKEN ? LOAD_RELAXED(&bs->taken)
				: what == SUM_BLOCKS
					? LOAD_RELAXED(&bs->blocks)
					: LOAD_RELAXED(&bs->spill.count) *
						MAGAZINE_BLOCKS;

			bytes += n * hak_bins[bin].size;
		}
	}
	return bytes;
}

size_t hak_shard_taken_bytes(void)
{
	return sum_bytes(SUM_TAKEN);
}

size_t hak_shard_slab_bytes(void)
{
	return sum_bytes(SUM_BLOCKS);
}

size_t hak_shard_purged_bytes(void)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);
	size_t bytes = 0;

	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			bytes += LOAD_RELAXED(
				&hak_shards[shard].bin[bin].purged);
	return bytes;
}

size_t hak_shard_spill_bytes(void)
{
	return sum_bytes(SUM_SPILL);
}

/* Set by a test: so many shards from the start. */
static unsigned forced_shards;
static unsigned next_shard;

void hak_shard_force(unsigned n)
{
	forced_shards = n;
	STORE_RELAXED(&hak_shard_count, MAX(n, hak_shard_count));
}

/* More shards than processors cannot all be in use at once. */
unsigned hak_shard_max(void)
{
	static unsigned most;

	if (LOAD_RELAXED(&most) == 0)
		STORE_RELAXED(&most, MIN(hak_os_cpus(), SHARDS_MAX));
	return LOAD_RELAXED(&most);
}

void hak_shard_add(void)
{
	if (hak_shard_count < hak_shard_max())
		STORE_RELAXED(&hak_shard_count, hak_shard_count + 1);
}

unsigned hak_shard_assign(void)
{
	return __atomic_fetch_add(&next_shard, 1, __ATOMIC_RELAXED) %
		LOAD_RELAXED(&hak_shard_count);
}

void hak_shard_fork_lock(void)
{
	for (unsigned shard = 0; shard < hak_shard_count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			hak_lock(&hak_shards[shard].bin[bin].lock);
}

void hak_shard_fork_unlock(void)
{
	for (unsigned shard = 0; shard < hak_shard_count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			hak_unlock(&hak_shards[shard].bin[bin].lock);
}

void hak_shard_fork_reset(void)
{
	for (unsigned shard = 0; shard < hak_shard_count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			hak_lock_reset(&hak_shards[shard].bin[bin].lock);
}
