/*
 * page_map.h: from any pointer to what it may be, without a branch.
 *
 * One byte a granule says which bin a block there belongs to (enum hak_code);
 * beside it, a second, cold array holds the granule's descriptor.  Both stand
 * in leaves of 4 GiB of address space.  The root holds each leaf's distance
 * from a shared leaf that is never written, so an all-zero root is valid
 * before anything ran, and both indices truncate: no pointer, however wild,
 * leads to a wild read.  Bits 48 to 63 are compared on the cold paths.
 *
 * An entry is written under the lock of its arena or mapping before any block
 * of the granule is published and stays while one is out: relaxed reads
 * suffice, because the program orders its own hand-over of the pointer.
 */
#ifndef HAK_PAGE_MAP_H
#define HAK_PAGE_MAP_H

#include "slab.h"

#define LEAF_GRANULES 65536

struct page_leaf {
	uint8_t code[LEAF_GRANULES];
	struct slab *slab[LEAF_GRANULES];
};

struct page_map {
	/* leaf address minus the address of zero; atomic, relaxed. */
	intptr_t root[LEAF_GRANULES];
	struct page_leaf zero;
};

extern struct page_map hak_page_map;

HAK_INLINE struct page_leaf *hak_page_leaf(const void *p)
{
	return (struct page_leaf *)((uintptr_t)&hak_page_map.zero +
		(uintptr_t)LOAD_RELAXED(&hak_page_map.root[
			(uint16_t)((uintptr_t)p >> 32)]));
}

HAK_INLINE unsigned hak_page_map_code(const void *p)
{
	return LOAD_RELAXED(&hak_page_leaf(p)->code[
		(uint16_t)((uintptr_t)p >> GRANULE_SHIFT)]);
}

/* The descriptor; NULL where nothing of ours starts or continues. */
HAK_INLINE struct slab *hak_page_map_slab(const void *p)
{
	return LOAD_RELAXED(&hak_page_leaf(p)->slab[
		(uint16_t)((uintptr_t)p >> GRANULE_SHIFT)]);
}

/* Whether p is an alias of an address that user space can have. */
HAK_INLINE bool hak_page_map_is_alias(const void *p)
{
	return (uintptr_t)p >> 48 != 0;
}

/* Make room for the entries of a range; false without memory. */
bool hak_page_map_cover(uintptr_t start, size_t size);

/* Write the entries of granules that hak_page_map_cover() covered. */
void hak_page_map_set(uintptr_t start, size_t granules, struct slab *slab,
	unsigned code);

/* Leaves made so far, in bytes of address space; relaxed. */
size_t hak_page_map_bytes(void);

extern struct hak_lock hak_page_map_lock;

#endif
