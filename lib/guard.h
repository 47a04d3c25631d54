/*
 * guard.h: what checked mode writes around and into blocks, and finds changed;
 * and the page behind a block that nobody may touch.
 *
 * Before a block stand at least 16 bytes of a pattern and behind it all that
 * the pools gave beyond what was asked for, at least 16 bytes, too.  A block of
 * more than 32 KiB ends as near to a page's end as its alignment allows, and
 * the next page is its guard page: the pattern is what lies between.  A new
 * block is filled with one byte, a freed one with another.
 *
 * Without a guard page are blocks of a first-class heap, which is destroyed
 * whether or not the kernel opens their pages again, and those for which the
 * kernel has no more mappings or that would take too many of them.
 */
#ifndef HAK_GUARD_H
#define HAK_GUARD_H

#include "os.h"
#include "records.h"

#define GUARD_BYTE 0xfb
#define NEW_BYTE 0xa5
#define FREED_BYTE 0xde

/* Bytes to ask the pools for, for a record with size, align and owner; more
 * than PTRDIFF_MAX when that is too much. */
size_t hak_guard_room(const struct hak_record *record);
/* Whether a block can start so many bytes into what the pools gave of a bin. */
bool hak_guard_may_start(size_t offset, size_t raw_size);

/* What the pools gave becomes a block: raw, raw_size, size, align and owner
 * are set.  junk: its contents need not stay as they are. */
void hak_guard_new(struct hak_record *record, bool junk);
/* Its guard page, closed, and the patterns up to that; and opened again before
 * raw goes back to the pools: if the kernel will not, false, and raw must stay
 * out. */
void hak_guard_close(struct hak_record *record);
bool hak_guard_open(struct hak_record *record);

/* Whether one is closed. */
bool hak_guard_any(void);
bool hak_guard_is_page_of(const struct hak_record *record, uintptr_t address);

/* Another size where it is; false, and nothing happened, where that cannot be. */
bool hak_guard_resize(struct hak_record *record, size_t size);
/* The patterns around it anew, when its damage was told. */
void hak_guard_around(const struct hak_record *record);

/* The address of a byte before or behind the block that was overwritten, the
 * nearest one; 0 when there is none. */
uintptr_t hak_guard_damage(const struct hak_record *record);

void hak_guard_freed(const struct hak_record *record);
/* The first byte that was written since, in it or around it; 0: none. */
uintptr_t hak_guard_written(const struct hak_record *record);

#endif
