/*
 * note.h: how another process finds and checks what it reads of this one.
 *
 * The reader (hakmem stat) is built with these headers. It reads structures as
 * they stand, while they change, so it takes nothing for granted; but it must
 * know their shape: layouts are compared byte by byte.
 */
#ifndef HAK_NOTE_H
#define HAK_NOTE_H

#include "arena.h"
#include "options.h"
#include "shard.h"
#include "unified_cache.h"

#define HAK_NOTE_NAME "hakmem"
/* Changes when a slot changes its meaning; their number tells by itself. The
 * first is the layout, whose first bytes are the version, in all of them. */
#define HAK_NOTE_TYPE 1

enum hak_note_slot {
#define HAKMEM_NOTE(slot, symbol) NOTE_##slot,
#include "note.def"
#undef HAKMEM_NOTE
	NOTE_SLOTS
};

struct hak_layout {
	char version[16];
	uint32_t sizes[10];
};

#define HAK_LAYOUT                                                             \
	{                                                                      \
		PACKAGE_VERSION, {                                             \
			sizeof(struct bin_slabs), sizeof(struct shard),        \
			sizeof(struct heap), sizeof(struct hak_options),       \
			sizeof(struct slab), sizeof(struct hak_counters),      \
			HAK_COUNTERS_GROUPS, BINS, SHARDS_MAX, MAGAZINE_BYTES  \
		}                                                              \
	}

extern const struct hak_layout hak_layout;

/* A chunk of descriptors of mappings: a granule with the next one's address
 * and, from the second cache line on, these. */
#define HAK_META_SLABS ((GRANULE - CACHE_LINE) / sizeof(struct slab))

#endif
