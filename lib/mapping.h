/*
 * mapping.h: blocks and slabs with a mapping of their own, and the pool of
 * descriptors for them.
 *
 * Huge blocks live here, and all slabs under HAKMEM_TINY_USE_SUPERSLAB=0.
 */
#ifndef HAK_MAPPING_H
#define HAK_MAPPING_H

#include "slab.h"

/* size bytes (page-granular), aligned to a granule or more.  A slab (slab set:
 * whole granules) gets a map entry for each granule, a huge block one for its
 * first.  NULL without memory. */
struct slab *hak_mapping_take(size_t size, size_t align, unsigned code,
	bool slab);
void hak_mapping_put(struct slab *slab);

/* A huge block of size bytes whose first `old` bytes are the pages of a span
 * that stays where it is and reads as zero afterwards; NULL, and nothing
 * changed, when the kernel does not move them. */
struct slab *hak_mapping_adopt(void *span, size_t old, size_t size,
	unsigned code);

/* Resize a huge block; it may move.  False leaves everything as it was. */
bool hak_mapping_resize(struct slab *slab, size_t size);

/* Chunks of descriptors, in bytes; relaxed. */
size_t hak_mapping_meta_bytes(void);

/* Mappings in use, and their bytes; relaxed. */
size_t hak_mapping_count(void);
size_t hak_mapping_bytes(void);

/* Walk over the descriptors; stops early when visit returns false. */
void hak_mapping_visit(bool (*visit)(struct slab *, void *), void *arg);

extern struct hak_lock hak_mapping_lock;
extern struct hak_lock hak_meta_lock;

#endif
