/*
 * guard.c: patterns around and in blocks, and pages behind them.
 *
 * I1  The bytes of a live block are the program's: they are written when it is
 *     born and when it was freed, and read never.
 * I2  What is compared is what was written: at most GUARD_MOST bytes on either
 *     side, the whole of a freed block up to 1 MiB and the beginning of a
 *     longer one, so that what the program never touched stays without memory.
 * I3  What the pools get back can be read and written: a guard page is closed
 *     only while its block is recorded, under the shelf's lock.
 */
#include "guard.h"

#include "size_class.h"

#define GUARD_LEAST 16
#define GUARD_MOST 128
#define FILL_MOST (64 * KIB)

/* Each splits a mapping, and a process has 65530 of them unless its system
 * allows more (vm.max_map_count): most must be left to the program. */
#define PAGES_MOST 8192

/* Guard pages that are closed; relaxed. */
static unsigned pages;

static bool wants_page(const struct hak_record *record)
{
	return record->size > L2_MAX && record->owner == NULL;
}

/* What must be behind a block: one page to guard, and one to end at. */
static size_t tail_least(const struct hak_record *record)
{
	return wants_page(record) ? 2 * hak_page_size : GUARD_LEAST;
}

size_t hak_guard_room(const struct hak_record *record)
{
	size_t head = MAX(record->align, GUARD_LEAST);
	size_t tail = tail_least(record);

	if (record->size > PTRDIFF_MAX || record->align > PTRDIFF_MAX / 2 ||
	    record->size > PTRDIFF_MAX - head - tail)
		return SIZE_MAX;
	return head + record->size + tail;
}

bool hak_guard_may_start(size_t offset, size_t raw_size)
{
	if (raw_size <= L2_MAX)
		return offset == GUARD_LEAST;
	return IS_ALIGNED(offset, GUARD_LEAST) && offset >= GUARD_LEAST &&
		offset < GUARD_LEAST + hak_page_size;
}

static uintptr_t end_of_room(const struct hak_record *record)
{
	return record->page != 0 ? record->page
				 : record->raw + record->raw_size;
}

static void fill(uintptr_t at, size_t n, int byte)
{
	__builtin_memset((void *)at, byte, n);
}

/* The first of n bytes that is another one, or NULL. */
static const unsigned char *other(uintptr_t at, size_t n, unsigned char byte)
{
	const unsigned char *p = (const unsigned char *)at, *end = p + n;
	uint64_t word, all = byte * 0x0101010101010101u;

	for (; (size_t)(end - p) >= sizeof word; p += sizeof word) {
		__builtin_memcpy(&word, p, sizeof word);
		if (word != all)
			break;
	}
	while (p != end && *p == byte)
		p++;
	return p != end ? p : NULL;
}

static size_t head_bytes(const struct hak_record *record)
{
	return MIN(record->block - record->raw, GUARD_MOST);
}

static size_t tail_bytes(const struct hak_record *record)
{
	return MIN(end_of_room(record) - record->block - record->size,
		GUARD_MOST);
}

static size_t filled_bytes(size_t size)
{
	return size <= L25_MAX ? size : FILL_MOST;
}

void hak_guard_around(const struct hak_record *record)
{
	size_t head = head_bytes(record);

	fill(record->block - head, head, GUARD_BYTE);
	fill(record->block + record->size, tail_bytes(record), GUARD_BYTE);
}

/* Where the block starts: at first as early as it can, then so late that it
 * ends where that would have been in the same page. */
static uintptr_t place(const struct hak_record *record)
{
	size_t align = MAX(record->align, GUARD_LEAST);
	uintptr_t block = record->raw + align;

	if (!wants_page(record))
		return block;
	return ALIGN_DOWN(ALIGN_UP(block + record->size, hak_page_size) -
		record->size, align);
}

void hak_guard_new(struct hak_record *record, bool junk)
{
	record->block = place(record);
	if (junk)
		fill(record->block, MIN(record->size, FILL_MOST), NEW_BYTE);
}

static bool close_page(uintptr_t page)
{
	if (__atomic_fetch_add(&pages, 1, __ATOMIC_RELAXED) < PAGES_MOST &&
	    hak_os_forbid((void *)page, hak_page_size))
		return true;
	__atomic_fetch_sub(&pages, 1, __ATOMIC_RELAXED);
	return false;
}

void hak_guard_close(struct hak_record *record)
{
	uintptr_t page = ALIGN_UP(record->block + record->size, hak_page_size);

	if (wants_page(record) &&
	    page + hak_page_size <= record->raw + record->raw_size &&
	    close_page(page))
		record->page = page;
	/* Not before: in the page itself it would cost memory. */
	hak_guard_around(record);
}

bool hak_guard_any(void)
{
	return LOAD_RELAXED(&pages) != 0;
}

bool hak_guard_is_page_of(const struct hak_record *record, uintptr_t address)
{
	return record->page != 0 && address - record->page < hak_page_size;
}

bool hak_guard_open(struct hak_record *record)
{
	if (record->page == 0)
		return true;
	if (!hak_os_commit((void *)record->page, hak_page_size))
		return false;
	__atomic_fetch_sub(&pages, 1, __ATOMIC_RELAXED);
	record->page = 0;
	return true;
}

/* It may always become shorter, and longer where its page goes along. */
static bool has_room(const struct hak_record *record, size_t size)
{
	size_t room = record->raw + record->raw_size - record->block;
	struct hak_record longer = { .size = size, .owner = record->owner };
	size_t tail = tail_least(&longer);

	return size <= record->size || (tail <= room && size <= room - tail);
}

bool hak_guard_resize(struct hak_record *record, size_t size)
{
	if (!has_room(record, size) || !hak_guard_open(record))
		return false;
	record->size = size;
	hak_guard_close(record);
	return true;
}

uintptr_t hak_guard_damage(const struct hak_record *record)
{
	size_t head = head_bytes(record);
	const unsigned char *p = other(record->block + record->size,
		tail_bytes(record), GUARD_BYTE);

	if (p != NULL)
		return (uintptr_t)p;
	if (other(record->block - head, head, GUARD_BYTE) == NULL)
		return 0;
	for (p = (const unsigned char *)record->block - 1; *p == GUARD_BYTE;)
		p--;
	return (uintptr_t)p;
}

void hak_guard_freed(const struct hak_record *record)
{
	fill(record->block, filled_bytes(record->size), FREED_BYTE);
}

uintptr_t hak_guard_written(const struct hak_record *record)
{
	const unsigned char *p = other(record->block,
		filled_bytes(record->size), FREED_BYTE);

	return p != NULL ? (uintptr_t)p : hak_guard_damage(record);
}
