/*
 * span.h: large blocks (1 to 32 MiB, spans of an arena) and huge ones (a
 * mapping each).
 *
 * Only a block's first granule has a map entry, so any other pointer into it
 * is no block.  Sizes are page-granular: what is not touched costs nothing.
 */
#ifndef HAK_SPAN_H
#define HAK_SPAN_H

#include "slab.h"

/* size > 0; align is a power of two.  The block belongs to owner, or to no
 * locked heap.  slab->zero says whether it reads as zero.  NULL without
 * memory or when size does not fit the address space. */
struct slab *hak_span_take(size_t size, size_t align,
	struct locked_heap *owner);
void hak_span_put(struct slab *slab);

/* Resize, moving pages instead of bytes where it must move; the descriptor of
 * the block at its new place, or NULL with the old one untouched. */
struct slab *hak_span_resize(struct slab *slab, size_t size);

/* What a request of size bytes would get. */
size_t hak_span_good_size(size_t size);

/* Claim the right to free the block: false when somebody did already. */
bool hak_span_claim(struct slab *slab);

/* Live large and huge blocks, and their bytes; relaxed. */
size_t hak_span_live_blocks(void);
size_t hak_span_live_bytes(void);

#endif
