/*
 * records.c: the hash tables of checked mode.
 *
 * I1  A block has one record at most.
 * I2  A record that is freed and on no list (between pop and drop) is the
 *     business of whoever popped it.
 * I3  Records and tables come from the arena's granules, so they count
 *     against HAKMEM_LIMIT; an empty chunk of records goes back, unless it is
 *     the only one of its shelf that has a free record.
 *
 * Callers hold the shelf's lock, but for hak_records_search().  The arena's may
 * be taken under it.
 */
#include "records.h"

#include "arena.h"

#define BITS_FIRST 10

/* A granule of records. */
struct record_chunk {
	/* Of those of the shelf that have a free record. */
	struct record_chunk *next, *prev;
	struct slab *home;
	struct hak_record *spare;
	unsigned used;
	struct hak_record records[];
};

#define CHUNK_RECORDS                                                          \
	((GRANULE - sizeof(struct record_chunk)) / sizeof(struct hak_record))

unsigned hak_check_mode = HAK_CHECK_UNDECIDED;

#define SHELF { .lock = HAK_LOCK_INIT(RANK_RECORDS) }
#define SHELF4 SHELF, SHELF, SHELF, SHELF
_Static_assert(SHELVES == 16, "one initializer each");
struct hak_shelf hak_shelves[SHELVES] = { SHELF4, SHELF4, SHELF4, SHELF4 };

struct hak_lock hak_quarantine_lock = HAK_LOCK_INIT(RANK_QUARANTINE);

/* In bytes; atomic, relaxed. */
static size_t quarantined;
static size_t meta_bytes;

/* Granules for records; NULL without memory. */
static struct slab *granules_take(size_t bytes)
{
	struct slab *slab = hak_arena_take(
		(unsigned)((bytes + GRANULE - 1) / GRANULE), 1, PLACE_DENSE,
		CODE_NONE, 0);

	if (slab != NULL)
		__atomic_fetch_add(&meta_bytes, slab->granules * GRANULE,
			__ATOMIC_RELAXED);
	return slab;
}

static void granules_put(struct slab *slab)
{
	__atomic_fetch_sub(&meta_bytes, slab->granules * GRANULE,
		__ATOMIC_RELAXED);
	hak_arena_put(slab);
}

size_t hak_records_bytes(void)
{
	return LOAD_RELAXED(&meta_bytes);
}

/* Blocks are 16-aligned. */
static uint64_t hash(uintptr_t block)
{
	return (uint64_t)(block >> 4) * 0x9e3779b97f4a7c15u;
}

struct hak_shelf *hak_shelf_of(uintptr_t block)
{
	return &hak_shelves[hash(block) >> 60];
}

static struct hak_record **bucket_of(const struct hak_shelf *shelf,
	uintptr_t block)
{
	return &shelf->buckets[hash(block) << 4 >> (64 - shelf->bits)];
}

static size_t table_bytes(unsigned bits)
{
	return sizeof(struct hak_record *) << bits;
}

/* Empty buckets in the place of what was there; false without memory. */
static bool new_table(struct hak_shelf *shelf, unsigned bits)
{
	struct slab *slab = granules_take(table_bytes(bits));

	if (slab == NULL)
		return false;
	if (!slab->zero)
		__builtin_memset((void *)slab->base, 0, table_bytes(bits));
	shelf->home = slab;
	shelf->buckets = (struct hak_record **)slab->base;
	shelf->bits = bits;
	return true;
}

static void link_in(struct hak_shelf *shelf, struct hak_record *record)
{
	struct hak_record **bucket = bucket_of(shelf, record->block);

	record->next = *bucket;
	*bucket = record;
}

/* Twice the buckets, if there is memory; else chains become longer. */
static void grow(struct hak_shelf *shelf)
{
	struct hak_record **old = shelf->buckets;
	size_t n = (size_t)1 << shelf->bits;
	struct slab *home = shelf->home;

	if (table_bytes(shelf->bits + 1) > LARGE_MAX ||
	    !new_table(shelf, shelf->bits + 1))
		return;
	for (size_t i = 0; i < n; i++) {
		struct hak_record *record = old[i], *next;

		for (; record != NULL; record = next) {
			next = record->next;
			link_in(shelf, record);
		}
	}
	granules_put(home);
}

static void chunk_link(struct hak_shelf *shelf, struct record_chunk *chunk)
{
	chunk->prev = NULL;
	chunk->next = shelf->chunks;
	if (chunk->next != NULL)
		chunk->next->prev = chunk;
	shelf->chunks = chunk;
}

static void chunk_unlink(struct hak_shelf *shelf, struct record_chunk *chunk)
{
	if (chunk->prev != NULL)
		chunk->prev->next = chunk->next;
	else
		shelf->chunks = chunk->next;
	if (chunk->next != NULL)
		chunk->next->prev = chunk->prev;
}

static bool add_chunk(struct hak_shelf *shelf)
{
	struct slab *slab = granules_take(GRANULE);
	struct record_chunk *chunk;

	if (slab == NULL)
		return false;
	chunk = (struct record_chunk *)slab->base;
	*chunk = (struct record_chunk){ .home = slab };
	for (size_t i = CHUNK_RECORDS; i-- > 0;) {
		chunk->records[i].next = chunk->spare;
		chunk->spare = &chunk->records[i];
	}
	chunk_link(shelf, chunk);
	return true;
}

static struct hak_record *record_take(struct hak_shelf *shelf)
{
	struct record_chunk *chunk = shelf->chunks;
	struct hak_record *record = chunk->spare;

	chunk->spare = record->next;
	chunk->used++;
	if (chunk->spare == NULL)
		chunk_unlink(shelf, chunk);
	return record;
}

static void record_put(struct hak_shelf *shelf, struct hak_record *record)
{
	struct record_chunk *chunk = (struct record_chunk *)ALIGN_DOWN(
		(uintptr_t)record, GRANULE);

	if (chunk->spare == NULL)
		chunk_link(shelf, chunk);
	record->next = chunk->spare;
	chunk->spare = record;
	if (--chunk->used != 0 ||
	    (shelf->chunks == chunk && chunk->next == NULL))
		return;
	chunk_unlink(shelf, chunk);
	granules_put(chunk->home);
}

static bool has_room(struct hak_shelf *shelf)
{
	if (shelf->buckets == NULL && !new_table(shelf, BITS_FIRST))
		return false;
	return shelf->chunks != NULL || add_chunk(shelf);
}

struct hak_record *hak_record_add(struct hak_shelf *shelf,
	const struct hak_record *record)
{
	struct hak_record *to;

	if (!has_room(shelf))
		return NULL;
	if (shelf->count >> shelf->bits != 0)
		grow(shelf);
	to = record_take(shelf);
	*to = *record;
	link_in(shelf, to);
	shelf->count++;
	return to;
}

struct hak_record *hak_record_find(struct hak_shelf *shelf, uintptr_t block)
{
	struct hak_record *record;

	if (shelf->buckets == NULL)
		return NULL;
	record = *bucket_of(shelf, block);
	while (record != NULL && record->block != block)
		record = record->next;
	return record;
}

void hak_record_drop(struct hak_shelf *shelf, struct hak_record *record)
{
	struct hak_record **link = bucket_of(shelf, record->block);

	while (*link != record)
		link = &(*link)->next;
	*link = record->next;
	shelf->count--;
	record_put(shelf, record);
}

static size_t weight(const struct hak_record *record)
{
	return record->raw_size + sizeof *record;
}

void hak_record_push(struct hak_shelf *shelf, struct hak_record *record)
{
	record->newer = NULL;
	if (shelf->newest != NULL)
		shelf->newest->newer = record;
	else
		shelf->oldest = record;
	shelf->newest = record;
	__atomic_fetch_add(&quarantined, weight(record), __ATOMIC_RELAXED);
}

struct hak_record *hak_record_pop(struct hak_shelf *shelf)
{
	struct hak_record *record = shelf->oldest;

	if (record == NULL)
		return NULL;
	shelf->oldest = record->newer;
	if (shelf->oldest == NULL)
		shelf->newest = NULL;
	__atomic_fetch_sub(&quarantined, weight(record), __ATOMIC_RELAXED);
	return record;
}

size_t hak_records_quarantined(void)
{
	return LOAD_RELAXED(&quarantined);
}

void hak_records_visit(struct hak_shelf *shelf,
	bool (*visit)(struct hak_shelf *, struct hak_record *, void *),
	void *arg)
{
	size_t n = shelf->buckets != NULL ? (size_t)1 << shelf->bits : 0;

	for (size_t i = 0; i < n; i++) {
		struct hak_record *record = shelf->buckets[i], *next;

		for (; record != NULL; record = next) {
			next = record->next;
			if (!visit(shelf, record, arg))
				return;
		}
	}
}

struct search {
	bool (*is_it)(const struct hak_record *, uintptr_t);
	uintptr_t address;
	struct hak_record found;
};

static bool is_another(struct hak_shelf *shelf, struct hak_record *record,
	void *arg)
{
	struct search *search = arg;

	(void)shelf;
	if (!search->is_it(record, search->address))
		return true;
	search->found = *record;
	return false;
}

struct hak_record hak_records_search(
	bool (*is_it)(const struct hak_record *, uintptr_t),
	uintptr_t address, bool patiently)
{
	struct search search = { .is_it = is_it, .address = address };

	for (unsigned i = 0; i < SHELVES && search.found.block == 0; i++) {
		struct hak_shelf *shelf = &hak_shelves[i];

		if (!patiently)
			hak_lock(&shelf->lock);
		else if (!hak_lock_patiently(&shelf->lock))
			continue;
		hak_records_visit(shelf, is_another, &search);
		hak_unlock(&shelf->lock);
	}
	return search.found;
}

static bool drop_if_owned(struct hak_shelf *shelf, struct hak_record *record,
	void *arg)
{
	if (record->owner == arg)
		hak_record_drop(shelf, record);
	return true;
}

void hak_records_drop_owner(struct hak_shelf *shelf,
	const struct locked_heap *owner)
{
	struct hak_record *last = shelf->newest, *record = NULL;

	while (record != last) {
		record = hak_record_pop(shelf);
		if (record->owner != owner)
			hak_record_push(shelf, record);
	}
	hak_records_visit(shelf, drop_if_owned, (void *)owner);
}

void hak_records_fork_lock(void)
{
	for (unsigned i = 0; i < SHELVES; i++)
		hak_lock(&hak_shelves[i].lock);
}

void hak_records_fork_unlock(void)
{
	for (unsigned i = 0; i < SHELVES; i++)
		hak_unlock(&hak_shelves[i].lock);
}

void hak_records_fork_reset(void)
{
	for (unsigned i = 0; i < SHELVES; i++)
		hak_lock_reset(&hak_shelves[i].lock);
	hak_lock_reset(&hak_quarantine_lock);
}

HAK_EXPOSE(hak_note_records_bytes, meta_bytes);
