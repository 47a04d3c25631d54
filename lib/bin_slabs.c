/*
 * bin_slabs.c: the slabs of a bin: page box, warm pool, listed slabs.
 *
 * I1  Each slab is in exactly one state, on that state's list, and changes it
 *     under the lock of its bin:
 *         CARVING  the page box; never released
 *         WARM     at most HAKMEM_WARM_POOL_SIZE, wholly free ones last
 *         LISTED   partly free, beyond the warm pool
 *         FULL     nothing free; on a list in locked heaps alone
 * I2  blocks - taken is the number of bits set in the bin's bitmaps.
 */
#include "bin_slabs.h"

#include "limit.h"
#include "mapping.h"
#include "options.h"

/* Single-slab mappings beyond this would eat up the process's map count. */
#define MAPPINGS_MAX 16384

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
		bool fresh = chain->bin >= L25_FIRST && hak_slab_is_empty(chain) &&
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
		if (hak_slab_is_empty(slab)) {
			bs->warm_empty--;
			drop(bs, slab, release);
		} else {
			slab->state = SLAB_LISTED;
			list_push(&bs->listed, slab);
		}
	}
}

/* A slab's free count reached 1 or its maximum. */
void hak_bin_reorder(struct bin_slabs *bs, struct slab *slab,
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
	if (hak_slab_is_empty(slab)) {
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

/* Blocks came from the page box, which this stage had brought there. */
static void count_stage(enum refill_stage stage, unsigned blocks,
	uint64_t start)
{
#define COUNT_STAGE(of, name)                                                  \
	if (stage == of) {                                                     \
		HAK_COUNT(REFILL, name##_blocks, blocks);                      \
		HAK_COUNT(REFILL, name##_cycles, hak_ticks_since(start));      \
	}
	COUNT_STAGE(STAGE_BOX, box)
	COUNT_STAGE(STAGE_WARM, warm)
	COUNT_STAGE(STAGE_LISTED, listed)
	COUNT_STAGE(STAGE_GRANULE, granule)
	COUNT_STAGE(STAGE_SUPERSLAB, superslab)
#undef COUNT_STAGE
}

/* A box that has blocks left gives way.  A wholly free one must be counted as
 * such, or nothing would ever release it. */
static void set_aside(struct bin_slabs *bs, struct slab *slab)
{
	if (hak_slab_is_empty(slab)) {
		slab->state = SLAB_WARM;
		list_append(&bs->warm, slab);
		bs->warm_empty++;
	} else {
		slab->state = SLAB_LISTED;
		list_push(&bs->listed, slab);
	}
}

/* Pages that were given back will be in use again: false where the limit does
 * not allow for them. */
static bool refill_purged(struct bin_slabs *bs, struct slab *slab)
{
	size_t claim;

	if (slab->purged != 0) {
		if (!hak_limit_admits(slab->purged * SLAB_PURGE_UNIT, &claim))
			return false;
		forget_purged(bs, slab);
		hak_limit_settle(claim);
	}
	slab->purged_at = 0;
	return true;
}

/* One that nothing was given back of. */
static struct slab *find_whole(struct slab *slab)
{
	while (slab != NULL && slab->purged != 0)
		slab = slab->next;
	return slab;
}

/* A partly used slab before a wholly free one: it stays dense. */
static struct slab *choose_box(struct bin_slabs *bs)
{
	struct slab *slab = bs->warm.head;

	HAK_COUNT(REFILL, warm_attempts, !bs->locked_heap);
	if (slab == NULL || (hak_slab_is_empty(slab) && bs->listed.head != NULL)) {
		HAK_COUNT(REFILL, listed_attempts, !bs->locked_heap);
		slab = bs->listed.head;
	}
	if (slab == NULL || HAK_LIKELY(refill_purged(bs, slab)))
		return slab;
	slab = find_whole(bs->warm.head);
	if (slab == NULL)
		slab = find_whole(bs->listed.head);
	if (slab != NULL)
		slab->purged_at = 0;
	return slab;
}

/* The page box is used up: it is full now, and the next slab takes over; where
 * that was is told. */
static bool next_box(struct bin_slabs *bs, enum refill_stage *stage)
{
	struct slab *slab;

	if (bs->box != NULL) {
		bs->box->state = SLAB_FULL;
		if (bs->locked_heap)
			list_push(&bs->full, bs->box);
		bs->box = NULL;
	}
	slab = choose_box(bs);
	if (slab == NULL)
		return false;
	*stage = slab->state == SLAB_WARM ? STAGE_WARM : STAGE_LISTED;
	list_remove(slab->state == SLAB_WARM ? &bs->warm : &bs->listed, slab);
	if (hak_slab_is_empty(slab))
		bs->warm_empty--;
	slab->state = SLAB_CARVING;
	slab->scan = 0;
	bs->box = slab;
	return true;
}

/* From a page box that `stage` brought, on which time was spent from `start`. */
static unsigned take(struct bin_slabs *bs, void **to, unsigned n,
	enum refill_stage stage, uint64_t start)
{
	unsigned left = n;

	while (left != 0) {
		unsigned have;

		if (bs->box == NULL || bs->box->free == 0) {
			if (!next_box(bs, &stage))
				break;
			continue;
		}
		if (HAK_UNLIKELY(bs->box->purged_at != 0) &&
		    !refill_purged(bs, bs->box)) {
			set_aside(bs, bs->box);
			bs->box = NULL;
			continue;
		}
		have = MIN(left, bs->box->free);
		left -= have;
		hak_slab_take(bs->box, to + left, have);
		if (!bs->locked_heap)
			count_stage(stage, have, start);
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

unsigned hak_bin_take(struct bin_slabs *bs, void **to, unsigned n)
{
	HAK_COUNT(REFILL, box_attempts, !bs->locked_heap);
	return take(bs, to, n, STAGE_BOX, HAK_TICKS(REFILL));
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

unsigned hak_bin_take_new(struct bin_slabs *bs, void **to, unsigned n,
	enum refill_stage stage, uint64_t start)
{
	HAK_COUNT(REFILL, granule_attempts, stage == STAGE_GRANULE);
	HAK_COUNT(REFILL, superslab_attempts, stage == STAGE_SUPERSLAB);
	return take(bs, to, n, stage, start);
}

enum slab_put hak_bin_put(struct bin_slabs *bs, struct slab *slab, void *block,
	struct slab **release)
{
	enum slab_put result = hak_slab_put(slab, &hak_bins[slab->bin], block);

	if (result == SLAB_PUT_MOVE) {
		hak_bin_reorder(bs, slab, release);
		result = SLAB_PUT_OK;
	}
	if (result == SLAB_PUT_OK)
		STORE_RELAXED(&bs->taken, bs->taken - 1);
	return result;
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
	if (bs->box != NULL && hak_slab_is_empty(bs->box)) {
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

	if (now != 0 && !slab->mapped)
		hak_arena_note_holes(slab);
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

size_t hak_bin_purge(struct bin_slabs *bs, size_t least)
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
