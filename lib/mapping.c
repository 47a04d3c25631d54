/*
 * mapping.c: one mapping a block, and their descriptors.
 *
 * I1  A map entry is cleared before the kernel may give the range to somebody
 *     else, and written before the block is published.
 * I2  Descriptors come from chunks that are never unmapped; a free one has
 *     state SLAB_FREE, so a walk needs no list of live ones.
 *
 * hak_meta_lock guards the free list; hak_mapping_lock guards map entries of
 * mappings and the two sums.
 */
#include "mapping.h"

#include "due.h"
#include "limit.h"
#include "lock.h"
#include "options.h"
#include "os.h"
#include "page_map.h"

struct meta_chunk {
	struct meta_chunk *next;
	struct slab slabs[];
};

#define META_SLABS ((GRANULE - CACHE_LINE) / sizeof(struct slab))

struct hak_lock hak_mapping_lock = HAK_LOCK_INIT(RANK_HUGE);
struct hak_lock hak_meta_lock = HAK_LOCK_INIT(RANK_META);

/* Under hak_meta_lock. */
static struct meta_chunk *chunks;
static struct slab *free_slabs;
static size_t meta_bytes;

/* Under hak_mapping_lock; read relaxed. */
static size_t mapping_count;
static size_t mapping_bytes;

static bool add_chunk(void)
{
	struct meta_chunk *chunk = hak_os_map(GRANULE, GRANULE);
	struct slab *slab;

	if (chunk == NULL)
		return false;
	slab = (struct slab *)((char *)chunk + CACHE_LINE);
	for (size_t i = 0; i < META_SLABS; i++) {
		slab[i].next = free_slabs;
		free_slabs = &slab[i];
	}
	chunk->next = chunks;
	chunks = chunk;
	STORE_RELAXED(&meta_bytes, meta_bytes + GRANULE);
	return true;
}

/* With the promise that what it will describe can be given back. */
static struct slab *take_descriptor(void)
{
	struct slab *slab = NULL;

	if (!hak_os_promise())
		return NULL;
	hak_lock(&hak_meta_lock);
	if (free_slabs != NULL || add_chunk()) {
		slab = free_slabs;
		free_slabs = slab->next;
	}
	hak_unlock(&hak_meta_lock);
	if (slab == NULL)
		hak_os_discard_promised(NULL, 0);
	return slab;
}

/* And what it described, if it did. */
static void put_descriptor(struct slab *slab, void *start, size_t size)
{
	hak_os_discard_promised(start, size);
	hak_lock(&hak_meta_lock);
	slab->state = SLAB_FREE;
	slab->next = free_slabs;
	free_slabs = slab;
	hak_unlock(&hak_meta_lock);
}

/* A huge block has one entry, at its start; the rest means "no block". */
static size_t entries(const struct slab *slab)
{
	return slab->granules != 0 ? slab->granules : 1;
}

static size_t bytes_of(const struct slab *slab)
{
	return slab->granules != 0 ? slab->granules * GRANULE
				   : slab->span_bytes;
}

static void publish(struct slab *slab, unsigned code, bool on)
{
	hak_lock(&hak_mapping_lock);
	hak_page_map_set(slab->base, entries(slab), on ? slab : NULL,
		on ? code : CODE_NONE);
	STORE_RELAXED(&mapping_count, on ? mapping_count + 1
					 : mapping_count - 1);
	STORE_RELAXED(&mapping_bytes, on ? mapping_bytes + bytes_of(slab)
					 : mapping_bytes - bytes_of(slab));
	hak_unlock(&hak_mapping_lock);
	hak_due_set(DUE_BUDGET);
}

/* Bytes that are mapped for a huge block at start: to the end of its last huge
 * page where there are any, lest the tail be filled by small ones. */
static size_t extent(uintptr_t start, size_t size)
{
	if (hak_options.thp == HAK_THP_NEVER || size < LARGE_MAX)
		return size;
	return ALIGN_UP(start + size, SUPERSLAB) - start;
}

static size_t mapped_bytes(const struct slab *slab)
{
	return MIN(extent(slab->base, slab->span_bytes), slab->room);
}

static void describe(struct slab *slab, void *start, size_t size, size_t room,
	unsigned code)
{
	slab->base = (uintptr_t)start;
	slab->mapped = true;
	slab->zero = true;
	slab->owner = NULL;
	slab->shard = 0;
	slab->bin = (uint8_t)code;
	slab->granules = 0;
	slab->span_bytes = size;
	slab->room = room;
	slab->state = SLAB_SPAN;
}

struct slab *hak_mapping_take(size_t size, size_t align, unsigned code,
	bool is_slab)
{
	struct slab *slab = take_descriptor();
	size_t room, claim;
	void *start;

	if (slab == NULL)
		return NULL;
	if (!hak_limit_admits(size, &claim)) {
		put_descriptor(slab, NULL, 0);
		return NULL;
	}
	room = is_slab ? size : extent(0, size);
	start = hak_os_map(room, MAX(align, GRANULE));
	if (start == NULL || !hak_page_map_cover((uintptr_t)start, size)) {
		put_descriptor(slab, start, start != NULL ? room : 0);
		hak_limit_settle(claim);
		return NULL;
	}
	describe(slab, start, size, room, code);
	if (is_slab) {
		slab->granules = (uint16_t)(size / GRANULE);
		slab->span_bytes = 0;
	} else if (hak_options.thp != HAK_THP_NEVER && size >= SUPERSLAB) {
		hak_os_hugepage(start, room, true);
	}
	publish(slab, code, true);
	hak_limit_settle(claim);
	return slab;
}

void hak_mapping_put(struct slab *slab)
{
	void *start = (void *)slab->base;
	size_t bytes = bytes_of(slab);

	publish(slab, 0, false);
	put_descriptor(slab, start, MAX(bytes, slab->room));
}

/* Room for a block that has outgrown its place: a half more than it needs, so
 * that growth by small steps moves it a few times only.  It lies to the huge
 * pages as the old place does, or the kernel would have to split and copy
 * page tables entry by entry. */
static void *reserve_room(uintptr_t from, size_t size, size_t *room)
{
	size_t phase = size >= SUPERSLAB ? from % SUPERSLAB : 0;
	size_t align = size >= SUPERSLAB ? SUPERSLAB : GRANULE;
	char *target;

	*room = extent(phase, ALIGN_UP(size + size / 2, hak_page_size));
	target = hak_os_reserve(*room + phase, align);
	if (target == NULL) {
		*room = size;
		return hak_os_reserve(size, GRANULE);
	}
	hak_os_discard(target, phase);
	return target + phase;
}

/* Move the pages onto the reserved target: the block is never without a home,
 * and its new one starts a granule. */
static bool move(struct slab *slab, size_t size)
{
	unsigned code = slab->owner != NULL ? CODE_LOCKED : CODE_HUGE;
	char *from = (char *)slab->base, *target;
	size_t old = mapped_bytes(slab), end, room;

	target = reserve_room(slab->base, size, &room);
	if (target == NULL)
		return false;
	if (!hak_page_map_cover((uintptr_t)target, size)) {
		hak_os_discard(target, room);
		return false;
	}
	end = MIN(extent((uintptr_t)target, size), room);
	publish(slab, 0, false);
	if (!hak_os_move(from, old, target, end)) {
		publish(slab, code, true);
		hak_os_discard(target + end, room - end);
		return false;
	}
	hak_os_discard(from + old, MAX(slab->room, old) - old);
	slab->base = (uintptr_t)target;
	slab->span_bytes = size;
	slab->room = room;
	publish(slab, code, true);
	return true;
}

/* Longer where it stands.  The reserved room gives way to the block's own
 * mapping, which must stay one: a mapping of two parts could not move. */
static bool grow(struct slab *slab, size_t size)
{
	char *start = (char *)slab->base;
	size_t old = mapped_bytes(slab), end = extent(slab->base, size);

	if (end <= old)
		return true;
	if (slab->room > old &&
	    !hak_os_unmap(start + old, MIN(end, slab->room) - old))
		return false;
	if (!hak_os_grow(start, old, end)) {
		/* Somebody took the gap: what is left beyond it goes, too. */
		hak_os_discard(start + end, MAX(slab->room, end) - end);
		slab->room = old;
		return false;
	}
	slab->room = MAX(slab->room, end);
	return true;
}

static void account_resize(struct slab *slab, size_t size)
{
	hak_lock(&hak_mapping_lock);
	STORE_RELAXED(&mapping_bytes, mapping_bytes - slab->span_bytes + size);
	slab->span_bytes = size;
	hak_unlock(&hak_mapping_lock);
}

bool hak_mapping_resize(struct slab *slab, size_t size)
{
	char *start = (char *)slab->base;
	size_t old = slab->span_bytes;

	if (size > old && !grow(slab, size))
		return move(slab, size);
	if (size < old) {
		size_t end = extent(slab->base, size);

		if (slab->room > end &&
		    !hak_os_unmap(start + end, slab->room - end))
			return false;
		slab->room = MIN(slab->room, end);
	}
	account_resize(slab, size);
	return true;
}

struct slab *hak_mapping_adopt(void *span, size_t old, size_t size,
	unsigned code)
{
	struct slab *slab = take_descriptor();
	size_t room = 0, gone = 0, end;
	char *target = slab == NULL ? NULL
		: reserve_room((uintptr_t)span, size, &room);

	if (target == NULL || !hak_page_map_cover((uintptr_t)target, size))
		goto undo;
	if (!hak_os_move_pages(span, target, old)) {
		gone = old;
		goto undo;
	}
	end = MIN(extent((uintptr_t)target, size), room);
	if (hak_os_unmap(target + old, end - old))
		gone = end;
	if (gone == 0 || !hak_os_grow(target, old, end)) {
		/* No way on: the bytes go home, which needs nobody's leave.  A
		 * gap behind them may be somebody's by now. */
		__builtin_memcpy(span, target, old);
		hak_os_discard(target, old);
		gone = MAX(gone, old);
		goto undo;
	}
	describe(slab, target, size, room, code);
	slab->zero = false;
	publish(slab, code, true);
	return slab;
undo:
	if (target != NULL)
		hak_os_discard(target + gone, room - gone);
	if (slab != NULL)
		put_descriptor(slab, NULL, 0);
	return NULL;
}

size_t hak_mapping_meta_bytes(void)
{
	return LOAD_RELAXED(&meta_bytes);
}

size_t hak_mapping_count(void)
{
	return LOAD_RELAXED(&mapping_count);
}

size_t hak_mapping_bytes(void)
{
	return LOAD_RELAXED(&mapping_bytes);
}

void hak_mapping_visit(bool (*visit)(struct slab *, void *), void *arg)
{
	if (!hak_lock_patiently(&hak_meta_lock))
		return;
	for (struct meta_chunk *c = chunks; c != NULL; c = c->next) {
		struct slab *slab = (struct slab *)((char *)c + CACHE_LINE);

		for (size_t i = 0; i < META_SLABS; i++)
			if (slab[i].state != SLAB_FREE && !visit(&slab[i], arg))
				break;
	}
	hak_unlock(&hak_meta_lock);
}

HAK_EXPOSE(hak_note_meta_chunks, chunks);
HAK_EXPOSE(hak_note_meta_bytes, meta_bytes);
HAK_EXPOSE(hak_note_mapping_count, mapping_count);
HAK_EXPOSE(hak_note_mapping_bytes, mapping_bytes);
