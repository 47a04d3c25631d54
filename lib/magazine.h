/*
 * magazine.h: the unit in which free blocks travel, and the pool of them.
 *
 * A magazine is 1 KiB, aligned to its size: slot 0 is always NULL and ends a
 * stack that grows upward, so "empty" is a NULL below the top and "full" is a
 * top aligned to 1 KiB.  A stack with a lower cap starts higher up and has
 * its NULL in the slot before.  Links stand outside, at the head of the chunk.
 */
#ifndef HAK_MAGAZINE_H
#define HAK_MAGAZINE_H

#include "size_class.h"

#define MAGAZINE_SLOTS 128
#define MAGAZINE_BLOCKS (MAGAZINE_SLOTS - 1)
#define MAGAZINE_BYTES (MAGAZINE_SLOTS * sizeof(void *))

struct magazine {
	void *slot[MAGAZINE_SLOTS];
} HAK_ALIGNED(1024);

/* A list of magazines is doubly linked: newest first. */
struct magazine_links {
	struct magazine *older;
	struct magazine *newer;
};

struct magazine_list {
	struct magazine *newest;
	struct magazine *oldest;
	size_t count;
};

/* One address that is an empty stack to malloc and a full one to free. */
extern const struct magazine hak_closed[2];
#define HAK_CLOSED ((void **)(uintptr_t)&hak_closed[1])

/* An empty magazine, or NULL without memory. */
struct magazine *hak_magazine_take(void);
void hak_magazine_put(struct magazine *magazine);
/* Chunks in use, in bytes; relaxed. */
size_t hak_magazine_pool_bytes(void);

void hak_magazine_push(struct magazine_list *list, struct magazine *magazine);
struct magazine *hak_magazine_pop_newest(struct magazine_list *list);
struct magazine *hak_magazine_pop_oldest(struct magazine_list *list);

HAK_INLINE bool hak_is_full(void **top)
{
	return IS_ALIGNED(top, MAGAZINE_BYTES);
}

/* The end of the stack that a top of one of its slots belongs to. */
HAK_INLINE void **hak_magazine_end(struct magazine *magazine)
{
	return magazine->slot + MAGAZINE_SLOTS;
}

HAK_INLINE struct magazine *hak_magazine_of_end(void **end)
{
	return (struct magazine *)(void *)(end - MAGAZINE_SLOTS);
}

extern struct hak_lock hak_magazine_lock;

#endif
