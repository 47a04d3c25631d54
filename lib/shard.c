/*
 * shard.c: slabs by bin: page box, warm pool, listed slabs, spill queues.
 *
 * I1  Each slab is in exactly one state, on that state's list, and changes it
 *     under the lock of its bin:
 *         CARVING  the page box; never released
 *         WARM     at most HAKMEM_WARM_POOL_SIZE, wholly free ones last
 *         LISTED   partly free, beyond the warm pool
 *         FULL     nothing free; on a list in locked heaps alone
 * I2  blocks - taken is the number of bits set in the bin's bitmaps.
 * I3  Blocks travel between shards, slabs never do.
 * I4  No lock of another shard is taken while one is held.
 */
#include "shard.h"

#include "background.h"
#include "invalid.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "page_map.h"
#include "probe.h"

struct shard hak_shards[SHARDS_MAX];
unsigned hak_shard_count = 1;

/* Single-slab mappings beyond this would eat up the process's map count. */
#define MAPPINGS_MAX 16384
/* Lock operations over which contention is judged. */
#define CONTENTION_WINDOW 1024
#define SPILL_BYTES (32 * KIB)
/* Freed bytes that a bin tells the heaps of at a time: one counter is shared by
 * all threads. */
#define FREED_CHUNK (32 * KIB)

static void list_push(struct slab_list *list, struct slab *slab)
{
	slab->prev = NULL;
	slab->next = list->head;
	if (list->head != NULL)
		list->head->prev = slab;
	else
		list->tail = slab;
	list->head = slab;
	STORE_RELAXED(&list->count, list->count + 1);
}

static void list_append(struct slab_list *list, struct slab *slab)
{
	slab->next = NULL;
	slab->prev = list->tail;
	if (list->tail != NULL)
		list->tail->next = slab;
	else
		list->head = slab;
	list->tail = slab;
	STORE_RELAXED(&list->count, list->count + 1);
}

static void list_remove(struct slab_list *list, struct slab *slab)
{
	if (slab->prev != NULL)
		slab->prev->next = slab->next;
	else
		list->head = slab->next;
	if (slab->next != NULL)
		slab->next->prev = slab->prev;
	else
		list->tail = slab->prev;
	STORE_RELAXED(&list->count, list->count - 1);
}

static bool is_empty(const struct slab *slab)
{
	return slab->free == slab->blocks;
}

struct slab *hak_slab_make(unsigned bin, struct locked_heap *owner,
	enum hak_place place)
{
	unsigned granules = hak_bins[bin].granules;
	unsigned code = owner != NULL ? CODE_LOCKED : bin;
	struct slab *slab = NULL;

	if (!hak_options.tiny_use_superslab && bin < L2_FIRST &&
	    hak_mapping_count() < MAPPINGS_MAX)
		slab = hak_mapping_take(granules * GRANULE, GRANULE, code,
			true);
	if (slab == NULL)
		slab = hak_arena_take(granules, 1, place, code, granules);
	if (slab == NULL)
		return NULL;
	/* What is zero travels with cached blocks; locked heaps have none. */
	hak_slab_init(slab, bin, slab->zero && owner == NULL);
	slab->owner = owner;
	if (owner != NULL)
		slab->shard = SHARD_NONE;
	return slab;
}

void hak_slab_release(struct slab *chain)
{
	while (chain != NULL) {
		struct slab *next = chain->next;
		bool fresh = chain->bin >= L25_FIRST && is_empty(chain) &&
			chain->bits[SLAB_ZERO] == chain->bits[0];

		if (chain->mapped)
			hak_mapping_put(chain);
		else if (fresh)
			hak_arena_put_zero(chain);
		else
			hak_arena_put(chain);
		chain = next;
	}
}

/* Wholly free slabs a bin keeps: enough that a loop of one malloc and one
 * free at a slab's edge does not make and unmake it. */
static unsigned warm_empty_max(unsigned bin)
{
	unsigned most = bin < L25_FIRST ? 1 : 0;
	unsigned warm = (unsigned)LOAD_RELAXED(&hak_options.warm_pool_size);

	return LOAD_RELAXED(&hak_options.retain) == 0 ? 0 : MIN(most, warm);
}

/* A slab that is taken from, or goes, has no purged pages to count. */
static void forget_purged(struct bin_slabs *bs, struct slab *slab)
{
	STORE_RELAXED(&bs->purged, bs->purged - slab->purged * SLAB_PURGE_UNIT);
	slab->purged = 0;
	slab->purged_at = 0;
}

static void drop(struct bin_slabs *bs, struct slab *slab,
	struct slab **release)
{
	forget_purged(bs, slab);
	STORE_RELAXED(&bs->slabs, bs->slabs - 1);
	STORE_RELAXED(&bs->blocks, bs->blocks - slab->blocks);
	slab->next = *release;
	*release = slab;
}

/* The oldest warm slabs beyond the pool's size move on. */
static void warm_trim(struct bin_slabs *bs, struct slab **release)
{
	size_t most = (size_t)LOAD_RELAXED(&hak_options.warm_pool_size);

	while (bs->warm.count > most) {
		struct slab *slab = bs->warm.tail;

		list_remove(&bs->warm, slab);
		if (is_empty(slab)) {
			bs->warm_empty--;
			drop(bs, slab, release);
		} else {
			slab->state = SLAB_LISTED;
			list_push(&bs->listed, slab);
		}
	}
}

/* A slab's free count reached 1 or its maximum. */
static void reorder(struct bin_slabs *bs, struct slab *slab,
	struct slab **release)
{
	if (slab->state == SLAB_CARVING)
		return;
	if (slab->state == SLAB_FULL) {
		if (bs->locked_heap)
			list_remove(&bs->full, slab);
		slab->state = SLAB_WARM;
		list_push(&bs->warm, slab);
	}
	if (is_empty(slab)) {
		list_remove(slab->state == SLAB_WARM ? &bs->warm : &bs->listed,
			slab);
		if (bs->warm_empty < warm_empty_max(slab->bin)) {
			slab->state = SLAB_WARM;
			list_append(&bs->warm, slab);
			bs->warm_empty++;
		} else {
			drop(bs, slab, release);
		}
	}
	warm_trim(bs, release);
}

/* Blocks came from the page box, which was a slab in this state before. */
static void count_stage(enum slab_state was, unsigned blocks, uint64_t start)
{
	uint64_t cycles = HAK_TICKS(REFILL) - start;

	if (was == SLAB_CARVING) {
		HAK_COUNT(REFILL, box_blocks, blocks);
		HAK_COUNT(REFILL, box_cycles, cycles);
	} else if (was == SLAB_WARM) {
		HAK_COUNT(REFILL, warm_blocks, blocks);
		HAK_COUNT(REFILL, warm_cycles, cycles);
	} else {
		HAK_COUNT(REFILL, listed_blocks, blocks);
		HAK_COUNT(REFILL, listed_cycles, cycles);
	}
}

/* The page box is used up: it is full now, and the next slab takes over; what
 * that was is told. */
static bool next_box(struct bin_slabs *bs, enum slab_state *was)
{
	struct slab *slab = bs->warm.head;

	if (bs->box != NULL) {
		bs->box->state = SLAB_FULL;
		if (bs->locked_heap)
			list_push(&bs->full, bs->box);
		bs->box = NULL;
	}
	/* A partly used slab before a wholly free one: it stays dense. */
	HAK_COUNT(REFILL, warm_attempts, 1);
	if (slab == NULL || (is_empty(slab) && bs->listed.head != NULL)) {
		HAK_COUNT(REFILL, listed_attempts, 1);
		slab = bs->listed.head;
	}
	if (slab == NULL)
		return false;
	*was = slab->state;
	list_remove(slab->state == SLAB_WARM ? &bs->warm : &bs->listed, slab);
	if (is_empty(slab))
		bs->warm_empty--;
	slab->state = SLAB_CARVING;
	slab->scan = 0;
	forget_purged(bs, slab);
	bs->box = slab;
	return true;
}

unsigned hak_bin_take(struct bin_slabs *bs, void **to, unsigned n)
{
	enum slab_state was = SLAB_CARVING;
	uint64_t start = HAK_TICKS(REFILL);
	unsigned left = n;

	HAK_COUNT(REFILL, box_attempts, 1);
	while (left != 0) {
		unsigned have;

		if (bs->box == NULL || bs->box->free == 0) {
			if (!next_box(bs, &was))
				break;
			continue;
		}
		have = MIN(left, bs->box->free);
		left -= have;
		if (HAK_UNLIKELY(bs->box->purged_at != 0))
			forget_purged(bs, bs->box);
		hak_slab_take(bs->box, to + left, have);
		count_stage(was, have, start);
		start = HAK_TICKS(REFILL);
	}
	STORE_RELAXED(&bs->taken, bs->taken + n - left);
	if (HAK_COUNTING(CLASS) && bs->taken > bs->peak[0])
		bs->peak[0] = bs->taken;
	if (left != 0 && left != n)
		for (unsigned i = 0; i < n - left; i++)
			to[i] = to[i + left];
	return n - left;
}

/* A box that has blocks left gives way.  A wholly free one must be counted as
 * such, or nothing would ever release it. */
static void set_aside(struct bin_slabs *bs, struct slab *slab)
{
	if (is_empty(slab)) {
		slab->state = SLAB_WARM;
		list_append(&bs->warm, slab);
		bs->warm_empty++;
	} else {
		slab->state = SLAB_LISTED;
		list_push(&bs->listed, slab);
	}
}

void hak_bin_add(struct bin_slabs *bs, struct slab *slab)
{
	STORE_RELAXED(&bs->slabs, bs->slabs + 1);
	STORE_RELAXED(&bs->blocks, bs->blocks + slab->blocks);
	slab->state = SLAB_CARVING;
	if (bs->box != NULL && bs->box->free == 0) {
		bs->box->state = SLAB_FULL;
		if (bs->locked_heap)
			list_push(&bs->full, bs->box);
	} else if (bs->box != NULL) {
		/* Another thread was faster: both stay. */
		set_aside(bs, bs->box);
	}
	bs->box = slab;
}

enum slab_put hak_bin_put(struct bin_slabs *bs, struct slab *slab, void *block,
	struct slab **release)
{
	enum slab_put result = hak_slab_put(slab, &hak_bins[slab->bin], block);

	if (result == SLAB_PUT_MOVE) {
		reorder(bs, slab, release);
		result = SLAB_PUT_OK;
	}
	if (result == SLAB_PUT_OK)
		STORE_RELAXED(&bs->taken, bs->taken - 1);
	return result;
}

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

/* A new slab came from an open SuperSlab, or one had to be opened; another
 * thread that opens one meanwhile may get the credit. */
static void count_new(bool opened, unsigned blocks, uint64_t start)
{
	uint64_t cycles = HAK_TICKS(REFILL) - start;

	/* The page box that the slab became is not where they come from. */
	HAK_COUNT(REFILL, box_attempts, -1);
	HAK_COUNT(REFILL, box_blocks, -(size_t)blocks);
	if (opened) {
		HAK_COUNT(REFILL, superslab_attempts, 1);
		HAK_COUNT(REFILL, superslab_blocks, blocks);
		HAK_COUNT(REFILL, superslab_cycles, cycles);
	} else {
		HAK_COUNT(REFILL, granule_attempts, 1);
		HAK_COUNT(REFILL, granule_blocks, blocks);
		HAK_COUNT(REFILL, granule_cycles, cycles);
	}
}

unsigned hak_shard_take(unsigned shard, unsigned bin, void **to, unsigned n)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin];
	unsigned got = take_here(shard, bin, to, n);
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
	slab->shard = (uint8_t)shard;
	hak_lock(&bs->lock);
	hak_bin_add(bs, slab);
	got = hak_bin_take(bs, to, n);
	tag_zero(bin, to, got);
	hak_unlock(&bs->lock);
	count_new(opened != opened_to_count(), got, start);
	return got;
}

/* What a flush found wrong; reported when no lock is held. */
struct finding {
	const char *what;
	const void *block;
};

static void count_flushed(unsigned shard, unsigned n)
{
	if (HAK_COUNTING(FREE) && hak_counters->shard == shard)
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
		if (HAK_UNLIKELY(was == 0 || is_empty(slab)))
			reorder(bs, slab, release);
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
			reorder(bs, slab, release);
		}
		if (bin >= L25_FIRST)
			note_zero(slab, blocks[i]);
		done++;
	}
	STORE_RELAXED(&bs->taken, bs->taken - done);
	count_flushed(shard, done);
	return rest;
}

/* Frees that reached bitmaps are what may leave slabs sparse. */
static void note_flushed(struct bin_slabs *bs, size_t bytes)
{
	bs->flushed += bytes;
	if (bs->flushed >= FREED_CHUNK) {
		hak_due_freed(bs->flushed);
		bs->flushed = 0;
	}
}

void hak_shard_flush(unsigned bin, void **blocks, unsigned n)
{
	struct finding finding = { NULL, NULL };
	struct slab *release = NULL;

	HAK_PROBE(flush, hak_bins[bin].size, n);
	while (n != 0) {
		struct slab *first = hak_page_map_slab(hak_untag(blocks[0]));
		unsigned shard = home_of(first);
		struct bin_slabs *bs = &hak_shards[shard].bin[bin];

		lock_counted(bs);
		note_flushed(bs, n * (size_t)hak_bins[bin].size);
		n = flush_shard(shard, bin, blocks, n, &release, &finding);
		hak_unlock(&bs->lock);
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
	if (HAK_COUNTING(FREE) && ok && hak_counters->shard != first->shard)
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

static struct slab *detach_empty(struct bin_slabs *bs)
{
	struct slab *release = NULL;

	while (bs->warm_empty != 0) {
		struct slab *slab = bs->warm.tail;

		list_remove(&bs->warm, slab);
		bs->warm_empty--;
		drop(bs, slab, &release);
	}
	if (bs->box != NULL && is_empty(bs->box)) {
		drop(bs, bs->box, &release);
		bs->box = NULL;
	}
	return release;
}

/* Bytes that were not purged before.  Pages that were stay free until a block
 * is taken, but longer runs alone may have been looked for this time. */
static size_t purge_slab(struct bin_slabs *bs, struct slab *slab, size_t least)
{
	size_t now = hak_slab_purge(slab, least) / SLAB_PURGE_UNIT;
	size_t more = now - MIN(now, slab->purged);

	slab->purged = (uint16_t)(slab->purged + more);
	STORE_RELAXED(&bs->purged, bs->purged + more * SLAB_PURGE_UNIT);
	return more * SLAB_PURGE_UNIT;
}

static size_t purge_list(struct bin_slabs *bs, struct slab_list *list,
	size_t least)
{
	size_t bytes = 0;

	for (struct slab *s = list->head; s != NULL; s = s->next)
		bytes += purge_slab(bs, s, least);
	return bytes;
}

static size_t purge_bin(struct bin_slabs *bs, size_t least)
{
	struct slab *release;
	size_t bytes = 0;

	if (LOAD_RELAXED(&bs->slabs) == 0)
		return 0;
	hak_lock(&bs->lock);
	release = detach_empty(bs);
	if (least != 0) {
		if (bs->box != NULL)
			bytes += purge_slab(bs, bs->box, least);
		bytes += purge_list(bs, &bs->warm, least) +
			purge_list(bs, &bs->listed, least);
	}
	hak_unlock(&bs->lock);
	hak_slab_release(release);
	return bytes;
}

/* least == 0: wholly free slabs alone. */
static size_t purge_all(size_t least)
{
	unsigned count = LOAD_RELAXED(&hak_shard_count);
	size_t bytes = 0;

	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			bytes += purge_bin(&hak_shards[shard].bin[bin], least);
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
