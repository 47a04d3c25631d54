/*
 * magazine.c: the pool of magazines.
 *
 * Chunks are single granules; the first KiB of a chunk holds the links of the
 * other 63.  A chunk whose magazines are all free goes back to the arena when
 * another chunk has free ones.
 *
 * I1  slot[0] of every magazine is NULL for ever.
 * I2  A magazine is on at most one list: the pool's, a heap's spares or depot,
 *     or a spill queue.
 *
 * Everything is under hak_magazine_lock.
 */
#include "magazine.h"

#include "arena.h"
#include "lock.h"

#define PER_CHUNK (GRANULE / MAGAZINE_BYTES - 1)

struct hak_lock hak_magazine_lock = HAK_LOCK_INIT(RANK_MAGAZINES);

const struct magazine hak_closed[2];

/* The first KiB of a chunk. */
struct chunk {
	struct slab *slab;
	/* Free magazines of this chunk. */
	size_t free;
	struct magazine_links links[PER_CHUNK];
	struct magazine magazine[PER_CHUNK];
};

_Static_assert(offsetof(struct chunk, magazine) == MAGAZINE_BYTES, "head");
_Static_assert(sizeof(struct chunk) == GRANULE, "a chunk is a granule");

static struct magazine_list pool;
static size_t chunk_count;

static struct chunk *chunk_of(const struct magazine *m)
{
	return (struct chunk *)ALIGN_DOWN((uintptr_t)m, GRANULE);
}

static struct magazine_links *links_of(struct magazine *m)
{
	struct chunk *chunk = chunk_of(m);

	return &chunk->links[m - chunk->magazine];
}

void hak_magazine_push(struct magazine_list *list, struct magazine *m)
{
	struct magazine_links *links = links_of(m);

	links->older = list->newest;
	links->newer = NULL;
	if (list->newest != NULL)
		links_of(list->newest)->newer = m;
	else
		list->oldest = m;
	list->newest = m;
	STORE_RELAXED(&list->count, list->count + 1);
}

static void unlink_magazine(struct magazine_list *list, struct magazine *m)
{
	struct magazine_links *links = links_of(m);

	if (links->newer != NULL)
		links_of(links->newer)->older = links->older;
	else
		list->newest = links->older;
	if (links->older != NULL)
		links_of(links->older)->newer = links->newer;
	else
		list->oldest = links->newer;
	STORE_RELAXED(&list->count, list->count - 1);
}

struct magazine *hak_magazine_pop_newest(struct magazine_list *list)
{
	struct magazine *m = list->newest;

	if (m != NULL)
		unlink_magazine(list, m);
	return m;
}

struct magazine *hak_magazine_pop_oldest(struct magazine_list *list)
{
	struct magazine *m = list->oldest;

	if (m != NULL)
		unlink_magazine(list, m);
	return m;
}

static bool add_chunk(void)
{
	struct slab *slab = hak_arena_take(1, 1,
		chunk_count == 0 ? PLACE_SMALL : PLACE_DENSE, CODE_NONE, 0);
	struct chunk *chunk;

	if (slab == NULL)
		return false;
	chunk = (struct chunk *)slab->base;
	chunk->slab = slab;
	chunk->free = PER_CHUNK;
	/* Lowest address on top: magazines of one heap share pages. */
	for (size_t i = PER_CHUNK; i-- > 0;) {
		/* Only a recycled granule can hold anything but zero here. */
		if (!slab->zero)
			chunk->magazine[i].slot[0] = NULL;
		hak_magazine_push(&pool, &chunk->magazine[i]);
	}
	STORE_RELAXED(&chunk_count, chunk_count + 1);
	return true;
}

struct magazine *hak_magazine_take(void)
{
	struct magazine *m = NULL;

	hak_lock(&hak_magazine_lock);
	if (pool.count != 0 || add_chunk()) {
		m = hak_magazine_pop_newest(&pool);
		chunk_of(m)->free--;
	}
	hak_unlock(&hak_magazine_lock);
	return m;
}

void hak_magazine_put(struct magazine *m)
{
	struct chunk *chunk = chunk_of(m);
	struct slab *slab = NULL;

	hak_lock(&hak_magazine_lock);
	hak_magazine_push(&pool, m);
	if (++chunk->free == PER_CHUNK && pool.count > 2 * PER_CHUNK) {
		for (size_t i = 0; i < PER_CHUNK; i++)
			unlink_magazine(&pool, &chunk->magazine[i]);
		STORE_RELAXED(&chunk_count, chunk_count - 1);
		slab = chunk->slab;
	}
	hak_unlock(&hak_magazine_lock);
	if (slab != NULL)
		hak_arena_put(slab);
}

size_t hak_magazine_pool_bytes(void)
{
	return LOAD_RELAXED(&chunk_count) * GRANULE;
}

HAK_EXPOSE(hak_note_magazine_chunks, chunk_count);
