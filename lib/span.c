/*
 * span.c: large and huge blocks.
 *
 * I1  A span's descriptor is the program's while its map entry stands.
 * I2  span_bytes is page-granular and constant unless the program resizes.
 *
 * No lock of its own: arena.c and mapping.c do the locking.
 */
#include "span.h"

#include "arena.h"
#include "limit.h"
#include "lock.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "page_map.h"
#include "probe.h"

static size_t live_bytes;
static size_t live_blocks;

/* A block taken (given is 0), given back (taken is 0) or resized. */
static void account(size_t taken, size_t given)
{
	__atomic_fetch_add(&live_bytes, taken - given, __ATOMIC_RELAXED);
	__atomic_fetch_add(&live_blocks,
		(size_t)(given == 0) - (size_t)(taken == 0), __ATOMIC_RELAXED);
}

size_t hak_span_live_blocks(void)
{
	return LOAD_RELAXED(&live_blocks);
}

size_t hak_span_live_bytes(void)
{
	return LOAD_RELAXED(&live_bytes);
}

size_t hak_span_good_size(size_t size)
{
	return ALIGN_UP(size, hak_page_size);
}

static unsigned granules_of(size_t bytes)
{
	return (unsigned)((bytes + GRANULE - 1) / GRANULE);
}

static struct slab *take_large(size_t bytes, size_t align, unsigned code)
{
	unsigned align_granules = (unsigned)(MAX(align, GRANULE) / GRANULE);
	struct slab *slab;

	slab = hak_arena_take(granules_of(bytes), align_granules, PLACE_DENSE,
		code, 1);
	if (slab != NULL)
		slab->span_bytes = bytes;
	return slab;
}

static struct slab *take_huge(size_t bytes, size_t align, unsigned code)
{
	bool dense = hak_options.thp != HAK_THP_NEVER && bytes >= SUPERSLAB;
	struct slab *slab;

	slab = hak_mapping_take(bytes, dense ? MAX(align, SUPERSLAB) : align,
		code, false);
	if (slab == NULL && dense)
		slab = hak_mapping_take(bytes, align, code, false);
	return slab;
}

struct slab *hak_span_take(size_t size, size_t align,
	struct locked_heap *owner)
{
	size_t bytes = hak_span_good_size(size);
	struct slab *slab = NULL;

	if (bytes < size || bytes > PTRDIFF_MAX || align > PTRDIFF_MAX)
		return NULL;
	if (bytes <= LARGE_MAX && align <= SUPERSLAB)
		slab = take_large(bytes, align,
			owner != NULL ? CODE_LOCKED : CODE_LARGE);
	if (slab == NULL)
		slab = take_huge(bytes, align,
			owner != NULL ? CODE_LOCKED : CODE_HUGE);
	if (slab == NULL)
		return NULL;
	slab->bin = slab->mapped ? CODE_HUGE : CODE_LARGE;
	slab->owner = owner;
	STORE_RELAXED(&slab->bits[SLAB_OUT], 1);
	account(bytes, 0);
	HAK_PROBE(span, slab->base, bytes);
	return slab;
}

bool hak_span_claim(struct slab *slab)
{
	return __atomic_exchange_n(&slab->bits[SLAB_OUT], 0,
		__ATOMIC_RELAXED) != 0;
}

void hak_span_put(struct slab *slab)
{
	account(0, slab->span_bytes);
	if (slab->mapped)
		hak_mapping_put(slab);
	else
		hak_arena_put(slab);
}

static bool resize_in_place(struct slab *slab, size_t bytes)
{
	if (slab->mapped)
		return bytes > LARGE_MAX && hak_mapping_resize(slab, bytes);
	return bytes <= LARGE_MAX &&
		hak_arena_resize(slab, granules_of(bytes));
}

/* The pages of a span of an arena went elsewhere and it reads as zero, but for
 * what may stand behind its end, of a time when it was longer. */
static void put_moved(struct slab *slab)
{
	size_t bytes = slab->span_bytes, rest = slab->granules * GRANULE - bytes;

	account(0, bytes);
	if (rest == 0 || hak_os_purge((void *)(slab->base + bytes), rest))
		hak_arena_put_zero(slab);
	else
		hak_arena_put(slab);
}

/* A large block becomes a huge one. */
static struct slab *adopt(struct slab *slab, size_t bytes)
{
	unsigned code = slab->owner != NULL ? CODE_LOCKED : CODE_HUGE;
	struct slab *to = hak_mapping_adopt((void *)slab->base,
		slab->span_bytes, bytes, code);

	if (to == NULL)
		return NULL;
	to->bin = CODE_HUGE;
	to->owner = slab->owner;
	STORE_RELAXED(&to->bits[SLAB_OUT], 1);
	account(bytes, 0);
	put_moved(slab);
	return to;
}

static struct slab *move(struct slab *slab, size_t bytes)
{
	size_t keep = MIN(slab->span_bytes, bytes);
	struct slab *to = hak_span_take(bytes, GRANULE, slab->owner);

	if (to == NULL)
		return NULL;
	/* Bytes, not pages: a moved page would split the arena's mapping for
	 * good, and mappings are bounded. */
	__builtin_memcpy((void *)to->base, (void *)slab->base, keep);
	hak_span_put(slab);
	to->zero = false;
	return to;
}

struct slab *hak_span_resize(struct slab *slab, size_t size)
{
	size_t bytes = hak_span_good_size(size), old = slab->span_bytes;
	size_t claim = 0;
	struct slab *to = NULL;

	if (bytes < size || bytes > PTRDIFF_MAX)
		return NULL;
	if (bytes == old)
		return slab;
	if (bytes > old && !hak_limit_admits(bytes - old, &claim))
		return NULL;
	if (resize_in_place(slab, bytes)) {
		slab->span_bytes = bytes;
		account(bytes, old);
		to = slab;
	} else if (!slab->mapped && bytes > LARGE_MAX) {
		to = adopt(slab, bytes);
	}
	hak_limit_settle(claim);
	return to != NULL ? to : move(slab, bytes);
}

HAK_EXPOSE(hak_note_span_blocks, live_blocks);
HAK_EXPOSE(hak_note_span_bytes, live_bytes);
