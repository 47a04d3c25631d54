/*
 * arena.h: granules: runs of 64 KiB out of reserved arenas.
 *
 * An arena is 64 MiB of address space (16, 4 or 2 when there is less), opened
 * a SuperSlab of 2 MiB at a time; its head holds one descriptor a granule.
 * Freed granules keep their pages, up to a bound that floor 4 sets, and are
 * taken again lowest address first.
 */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "slab.h"

enum hak_place {
	/* Small pages at the head of the first arena, while they last. */
	PLACE_SMALL,
	/* Where huge pages may back it. */
	PLACE_DENSE
};

/* A run of granules; its descriptor's base, granules and zero are set and the
 * map entries of its first `entries` granules written.  align_granules is a
 * power of two.  NULL without memory. */
struct slab *hak_arena_take(unsigned granules, unsigned align_granules,
	enum hak_place place, unsigned code, unsigned entries);
void hak_arena_put(struct slab *slab);

/* Make a span longer or shorter in place; the pages of a cut tail are given
 * to the arena as they are. */
bool hak_arena_resize(struct slab *slab, unsigned granules);

/* Note that the pages of a run were moved away: it reads as zero again. */
void hak_arena_put_zero(struct slab *slab);

/* Pages inside the run were purged: the kernel must not fill them again. */
void hak_arena_note_holes(const struct slab *slab);

/* The program gave much back: nothing is spared for what it may take again. */
void hak_arena_end_churn(void);

/* Purge free granules until at most keep bytes of them hold pages and, where
 * spare is set and keep is not 0, what a program that churns will need again;
 * returns the bytes given back. */
size_t hak_arena_purge(size_t keep, bool spare);

/* Unmap arenas that are wholly free, those without resident granules or all;
 * true when address space came back. */
bool hak_arena_release(bool dirty_too);

/* Bytes handed out, of free granules that hold pages, and opened; relaxed. */
size_t hak_arena_used_bytes(void);
size_t hak_arena_dirty_bytes(void);
size_t hak_arena_opened_bytes(void);
size_t hak_arena_reserved_bytes(void);
/* Bytes of the heads of arenas, which hold descriptors. */
size_t hak_arena_head_bytes(void);

/* The beginning of an arena, for readers from outside. */
struct hak_arena_front {
	uintptr_t base;
	struct hak_arena_front *next;
	unsigned granules;
	unsigned head;
	unsigned free_count;
	unsigned longest;
	uint32_t opened;
};

/* Where an arena stands, by its place in the list; false beyond the last. */
struct hak_arena_extent {
	uintptr_t base;
	/* Bytes in all, and of the head with the descriptors. */
	size_t size;
	size_t head;
	/* One bit a SuperSlab. */
	uint32_t opened;
};
bool hak_arena_at(size_t place, struct hak_arena_extent *extent);

/* Visit the descriptor of every run in use, under the arena lock. */
void hak_arena_visit(bool (*visit)(struct slab *, void *), void *arg);

extern struct hak_lock hak_arena_lock;

#endif
