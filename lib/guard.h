/*
 * guard.h: what checked mode writes around and into blocks, and finds changed.
 *
 * Before a block stand at least 16 bytes of a pattern and behind it all that
 * the pools gave beyond what was asked for, at least 16 bytes, too.  A new
 * block is filled with one byte, a freed one with another.
 */
#ifndef HAK_GUARD_H
#define HAK_GUARD_H

#include "records.h"

#define GUARD_BYTE 0xfb
#define NEW_BYTE 0xa5
#define FREED_BYTE 0xde

/* Bytes to ask the pools for; more than PTRDIFF_MAX when that is too much. */
size_t hak_guard_room(size_t size, size_t align);

/* What the pools gave becomes a block: raw, raw_size, size and align are set.
 * junk: its contents need not stay as they are. */
void hak_guard_new(struct hak_record *record, bool junk);
/* Whether a block may have another size where it is; the patterns around it,
 * anew, for one that was resized or whose damage was told. */
bool hak_guard_fits(const struct hak_record *record, size_t size);
void hak_guard_around(const struct hak_record *record);

/* The address of a byte before or behind the block that was overwritten, the
 * nearest one; 0 when there is none. */
uintptr_t hak_guard_damage(const struct hak_record *record);

void hak_guard_freed(const struct hak_record *record);
/* The first byte that was written since, in it or around it; 0: none. */
uintptr_t hak_guard_written(const struct hak_record *record);

#endif
