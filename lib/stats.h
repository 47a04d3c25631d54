/*
 * stats.h: statistics derived by walking: a snapshot and its texts.
 *
 * stats.c takes a snapshot of its own process. stats_sum.c and stats_print.c
 * work on copies and call nothing of the allocator, so that the command can
 * make the same snapshot of another process and print it the same way.
 */
#ifndef HAK_STATS_H
#define HAK_STATS_H

#include "background.h"
#include "hakmem.h"
#include "shard.h"
#include "unified_cache.h"

/* One thread's caches. */
struct hak_snapshot_heap {
	size_t thread;		/* its number in the kernel */
	size_t shard;
	size_t front_bytes;
	size_t ring_bytes;
	size_t depot_bytes;
	size_t reserved_bytes;	/* what its magazines and rings may hold */
	size_t magazines;	/* attached, in depots and spare */
	size_t footprint_bytes; /* the caches' own memory, blocks not counted */
};

struct hak_snapshot {
	struct hakmem_stats total;
	struct hakmem_bin_stats bin[BINS];
	/* Where any are compiled in. */
	struct hak_counters counters[HAK_COUNTERS_COMPILED];
	size_t pid;
	/* Parts that are left out: another process's books that did not fit
	 * together. */
	size_t left_out;
	/* Bins below it have their stacks in heap->top[]. */
	unsigned open_bins;
	/* Rows of heap[], and how many of them are filled. */
	size_t room;
	size_t rows;
	struct hak_snapshot_heap heap[];
};

/* --- stats_sum.c: from copies of the allocator's structures --------------- */

void hak_stats_clear(struct hak_snapshot *stats, size_t room);
void hak_stats_add_bin(struct hak_snapshot *stats, unsigned bin,
	const struct bin_slabs *bs);
void hak_stats_add_background(struct hak_snapshot *stats,
	const struct hak_background *from);
void hak_stats_add_heap(struct hak_snapshot *stats, const struct heap *heap);
/* What follows from the rest; the last call. */
void hak_stats_finish(struct hak_snapshot *stats);

/* --- stats_print.c -------------------------------------------------------- */

void hak_stats_print(const struct hak_snapshot *stats, bool json,
	void (*write)(void *arg, const char *text), void *arg);

/* --- stats.c: this process ------------------------------------------------ */

/* All but resident memory and page faults, which cost system calls. */
void hak_stats_take(struct hak_snapshot *stats, size_t room);
/* Those two. */
void hak_stats_take_system(struct hak_snapshot *stats);
/* Snapshot and print; false without memory. */
bool hak_stats_report(bool json, void (*write)(void *arg, const char *text),
	void *arg);
/* The same to a file descriptor: 0, or an error number. */
int hak_stats_report_to(bool json, int fd);
/* hakmem_stats_get and hakmem_stats_get_bin. */
int hak_stats_get(struct hakmem_stats *stats);
int hak_stats_get_bin(unsigned bin, struct hakmem_bin_stats *stats);
/* HAKMEM_STATS: remember where to print, at the start or when it is set, and
 * print at exit. */
void hak_stats_start(void);
void hak_stats_exit(void);

#endif
