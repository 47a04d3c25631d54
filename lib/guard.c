/*
 * guard.c: patterns around and in blocks.
 *
 * I1  The bytes of a live block are the program's: they are written when it is
 *     born and when it was freed, and read never.
 * I2  What is compared is what was written: at most GUARD_MOST bytes on either
 *     side, the whole of a freed block up to 1 MiB and the beginning of a
 *     longer one, so that what the program never touched stays without memory.
 */
#include "guard.h"

#include "size_class.h"

#define GUARD_LEAST 16
#define GUARD_MOST 128
#define FILL_MOST (64 * KIB)

size_t hak_guard_room(size_t size, size_t align)
{
	size_t head = MAX(align, GUARD_LEAST);

	if (size > PTRDIFF_MAX || align > PTRDIFF_MAX / 2 ||
	    size > PTRDIFF_MAX - head - GUARD_LEAST)
		return SIZE_MAX;
	return head + size + GUARD_LEAST;
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
	size_t left = record->raw + record->raw_size - record->block -
		record->size;

	return MIN(left, GUARD_MOST);
}

static size_t filled_bytes(size_t size)
{
	return size <= L25_MAX ? size : FILL_MOST;
}

bool hak_guard_fits(const struct hak_record *record, size_t size)
{
	size_t left = record->raw + record->raw_size - record->block;

	return size <= left - GUARD_LEAST;
}

void hak_guard_around(const struct hak_record *record)
{
	size_t head = head_bytes(record);

	fill(record->block - head, head, GUARD_BYTE);
	fill(record->block + record->size, tail_bytes(record), GUARD_BYTE);
}

void hak_guard_new(struct hak_record *record, bool junk)
{
	record->block = record->raw + MAX(record->align, GUARD_LEAST);
	hak_guard_around(record);
	if (junk)
		fill(record->block, MIN(record->size, FILL_MOST), NEW_BYTE);
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
