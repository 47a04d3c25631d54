/*
 * records.h: what checked mode (HAKMEM_CHECK) knows of each block.
 *
 * A record for each block that the program has or freed not long ago, in
 * hash tables apart from the blocks.  The tables are cut into shelves, each
 * with a lock; a block's address says which shelf.  A shelf's freed blocks
 * wait on it, oldest first: together they are the quarantine.
 */
#ifndef HAK_RECORDS_H
#define HAK_RECORDS_H

#include "base.h"
#include "lock.h"
#include "origin.h"

/* Whether blocks are recorded: decided once, with the options.  Until then a
 * cold path must ask hak_start() first. */
enum hak_check_mode { HAK_CHECK_OFF, HAK_CHECK_UNDECIDED, HAK_CHECK_ON };
extern unsigned hak_check_mode; /* relaxed */

struct locked_heap;

struct hak_record {
	/* In the bucket, or of free records. */
	struct hak_record *next;
	/* The one that was freed after it. */
	struct hak_record *newer;
	/* What the program has. */
	uintptr_t block;
	/* What it asked for. */
	size_t size;
	size_t align;
	/* What the pools gave; block lies in it. */
	uintptr_t raw;
	size_t raw_size;
	/* The guard page behind the block, or 0. */
	uintptr_t page;
	/* The locked heap that it is of, or NULL. */
	struct locked_heap *owner;
	bool freed;
	/* Its damage was told. */
	bool told;
	struct hak_origin made;
	struct hak_origin unmade;
};

struct record_chunk;

/* All of it under lock. */
struct hak_shelf {
	struct hak_lock lock;
	unsigned bits;
	/* 2^bits of them, and the granules they stand in. */
	struct hak_record **buckets;
	struct slab *home;
	size_t count;
	/* Chunks of records that have a free one. */
	struct record_chunk *chunks;
	struct hak_record *oldest, *newest;
} HAK_ALIGNED(CACHE_LINE);

#define SHELVES 16
extern struct hak_shelf hak_shelves[SHELVES];

/* Held while blocks leave the quarantine; taken before a shelf's. */
extern struct hak_lock hak_quarantine_lock;

struct hak_shelf *hak_shelf_of(uintptr_t block);

/* A record in the shelf, a copy of what is given; NULL without memory. */
struct hak_record *hak_record_add(struct hak_shelf *shelf,
	const struct hak_record *record);
struct hak_record *hak_record_find(struct hak_shelf *shelf, uintptr_t block);
/* Forget it. */
void hak_record_drop(struct hak_shelf *shelf, struct hak_record *record);

/* Into the quarantine, and out of it: the oldest of the shelf, which stays
 * recorded until it is dropped. */
void hak_record_push(struct hak_shelf *shelf, struct hak_record *record);
struct hak_record *hak_record_pop(struct hak_shelf *shelf);
/* Forget all that is of a heap. */
void hak_records_drop_owner(struct hak_shelf *shelf,
	const struct locked_heap *owner);
/* Bytes of blocks in it, as the pools count, and of their records; relaxed. */
size_t hak_records_quarantined(void);

/* Each record of a shelf, also if visit drops it; stops when it says false. */
void hak_records_visit(struct hak_shelf *shelf,
	bool (*visit)(struct hak_shelf *, struct hak_record *, void *),
	void *arg);

/* A copy of the record, of any shelf, that is the address's; its block is 0
 * where none is.  patiently: passing over shelves whose lock is not to be had. */
struct hak_record hak_records_search(
	bool (*is_it)(const struct hak_record *, uintptr_t address),
	uintptr_t address, bool patiently);

/* Granules that records and tables stand in, in bytes; relaxed. */
size_t hak_records_bytes(void);

void hak_records_fork_lock(void);
void hak_records_fork_unlock(void);
void hak_records_fork_reset(void);

#endif
