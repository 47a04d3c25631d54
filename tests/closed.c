/*
 * Closed caches: the hit paths see nothing but misses, in every pool, and the
 * magazines behind them work as ever.
 */
#include "alloc.h"
#include "forward.h"
#include "heap.h"

#include "tap.h"

#include <pthread.h>

/* The insides alone: there is no other library to pass calls to. */
const struct hak_entry_points *hak_forward;

enum { BLOCKS = 100 };

static const size_t sizes[] = { 8, 64, 1000, 4096, 30000, 50000, 1000000 };
enum { SIZES = COUNT_OF(sizes) };

static void *blocks[BLOCKS];

static bool all_closed(const struct heap *heap)
{
	for (unsigned code = 0; code < CODES; code++)
		if (heap->top[code] != HAK_CLOSED)
			return false;
	return true;
}

/* The block freed last is the next one handed out: it came from a stack. */
static bool is_cached(size_t size)
{
	void *first = hak_malloc(size), *second;

	hak_free(first);
	second = hak_malloc(size);
	hak_free(second);
	return first == second;
}

static bool fill(size_t size)
{
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = hak_malloc(size);
		if (blocks[i] == NULL)
			return false;
		memset(blocks[i], i & 255, size);
	}
	return true;
}

static bool empty(size_t size)
{
	bool intact = true;

	for (int i = 0; i < BLOCKS; i++) {
		const unsigned char *p = blocks[i];

		intact &= p[0] == (i & 255) && p[size - 1] == (i & 255);
		hak_free(blocks[i]);
	}
	return intact;
}

static void *thread(void *arg)
{
	bool *passed = arg;

	*passed = fill(64) && all_closed(hak_heap) && empty(64) &&
		is_cached(64) && all_closed(hak_heap);
	return NULL;
}

int main(void)
{
	pthread_t id;
	bool passed = false;

	plan(2 * SIZES + 7);
	hak_cache_close();
	ok(hak_cache_is_closed(), "closed before the first heap");
	for (int i = 0; i < SIZES; i++) {
		ok(fill(sizes[i]) && empty(sizes[i]),
			"%zu bytes: blocks keep their contents", sizes[i]);
		ok(is_cached(sizes[i]), "%zu bytes: a stack serves",
			sizes[i]);
	}
	ok(all_closed(hak_heap), "no hit path was opened");
	ok(hak_cache_held(hak_heap, hak_bin_of(64)) > 0,
		"blocks held are counted");
	hak_cache_flush(hak_heap);
	is_size(hak_cache_held_bytes(hak_heap), 0, "a flush empties them");
	ok(all_closed(hak_heap), "and opens none");
	pthread_create(&id, NULL, thread, &passed);
	pthread_join(id, NULL);
	ok(passed, "another thread's caches are closed, too");
	is_size(hak_heap_live_bytes(), 0, "nothing is live");
	return done();
}
