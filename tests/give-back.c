/*
 * What goes back, and when it cannot: trim tells the truth, ranges that the
 * kernel would not unmap are offered again, threads whose end nobody would
 * tell leave nothing behind, and a late free into memory that a locked heap
 * has by now is told from one of its blocks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <config.h>

#include "arena.h"
#include "hakmem.h"
#include "heap.h"
#include "locked_heap.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "shard.h"
#include "tap.h"

#include <dlfcn.h>
#include <pthread.h>

enum { SIZE = 1024, MANY = 640 };

/* --- The C library refuses ------------------------------------------------ */

/* ThreadSanitizer makes keys before it can look anything up. */
#ifdef __SANITIZE_THREAD__
enum { can_refuse = 0 };
#else
enum { can_refuse = 1 };
#endif

static bool no_keys, no_values;
#ifndef __SANITIZE_THREAD__

/* The one made last: AddressSanitizer has some of its own. */
static pthread_key_t our_key;

/* Found when first needed: that one makes keys before main(). */
static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	static int (*create)(pthread_key_t *, void (*)(void *));
	int error;

	if (create == NULL)
		create = real("pthread_key_create");
	error = no_keys ? EAGAIN : create(key, destructor);
	if (error == 0)
		our_key = *key;
	return error;
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
	static int (*set)(pthread_key_t, uintptr_t);

	if (set == NULL)
		set = real("pthread_setspecific");
	return no_values && key == our_key ? ENOMEM
					   : set(key, (uintptr_t)value);
}

#endif

/* --- Trim ----------------------------------------------------------------- */

static void *blocks[MANY];

static void take(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		blocks[i] = hakmem_malloc(SIZE);
		memset(blocks[i], 1, SIZE);
	}
}

static void give(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		hakmem_free(blocks[i]);
}

static void test_trim(void)
{
	take(0, MANY);
	hakmem_trim(0);
	is_int(hakmem_trim(0), 0, "trim: nothing is free");
	give(0, MANY / 2);
	is_int(hakmem_trim(0), 1, "trim: half of it is");
	is_int(hakmem_trim(0), 0, "trim: and went before");
	hakmem_free(blocks[MANY / 2]);
	is_int(hakmem_trim(0), 0, "trim: a block is no page");
	give(MANY / 2 + 1, MANY);
	is_int(hakmem_trim(0), 1, "trim: the rest");
	is_int(hakmem_trim(0), 0, "trim: all is gone");
}

/* The slab that is taken from: as much is free as when it was purged, and it
 * is other memory. */
static void test_page_box(void)
{
	unsigned half = 32;

	take(0, 64);
	give(0, half);
	is_int(hakmem_trim(0), 1, "page box: its free half");
	take(0, half);
	give(half, 64);
	is_int(hakmem_trim(0), 1, "page box: the other half");
	is_int(hakmem_trim(0), 0, "page box: and not once more");
	give(0, half);
	hakmem_trim(0);
}

/* --- Ranges that stay ------------------------------------------------------ */

static size_t kib_mapped(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%lu", &pages) != 1)
		bail("/proc/self/statm cannot be read");
	fclose(file);
	return pages * (hak_page_size / 1024);
}

static void refuse(unsigned calls)
{
	hak_os_inject.first = hak_os_inject.calls + 1;
	hak_os_inject.last = hak_os_inject.calls + calls;
}

static void test_unmap(void)
{
	const size_t huge = (size_t)64 << 20;
	void *block;
	size_t before;

	hakmem_free(hakmem_malloc(huge));
	before = kib_mapped();
	block = hakmem_malloc(huge);
	memset(block, 1, 1 << 20);
	refuse(1);
	hakmem_free(block);
	ok(kib_mapped() >= before + (60 << 10), "a range could not be unmapped");
	hakmem_free(hakmem_malloc(huge));
	ok(kib_mapped() <= before + 1024, "and is with the next one");
	block = hakmem_malloc(huge);
	refuse(1);
	hakmem_free(block);
	hakmem_trim(0);
	ok(kib_mapped() <= before + 1024, "or by a trim");
}

/* An arena beside the first, wholly free, that cannot go. */
static void test_arena(void)
{
	enum { LARGE = 24 };
	void *large[LARGE];
	size_t before, reserved;

	hakmem_trim(0);
	before = hak_arena_reserved_bytes();
	for (unsigned i = 0; i < LARGE; i++)
		large[i] = hakmem_malloc((size_t)8 << 20);
	reserved = hak_arena_reserved_bytes();
	ok(reserved > before, "arenas were added");
	refuse(UINT32_MAX / 2);
	for (unsigned i = 0; i < LARGE; i++)
		hakmem_free(large[i]);
	hak_arena_release(true);
	hak_os_inject.first = UINT32_MAX;
	is_size(hak_arena_reserved_bytes(), reserved,
		"what the kernel keeps is still an arena");
	large[0] = hakmem_malloc((size_t)30 << 20);
	memset(large[0], 1, (size_t)30 << 20);
	hakmem_free(large[0]);
	hak_arena_release(true);
	is_size(hak_arena_reserved_bytes(), before, "until it may go");
}

/* --- Threads that cannot tell their end ----------------------------------- */

static void *in_thread(void *arg)
{
	for (size_t size = 8; size < (size_t)4 << 20; size *= 3) {
		void *block = hakmem_malloc(size);

		if (block == NULL)
			abort();
		memset(block, 1, size < 4096 ? size : 4096);
		hakmem_free(block);
	}
	return arg;
}

static void run_threads(unsigned n)
{
	pthread_t thread;

	for (unsigned i = 0; i < n; i++) {
		if (pthread_create(&thread, NULL, in_thread, NULL) != 0)
			bail("no thread");
		pthread_join(thread, NULL);
	}
}

static bool stop;

static void *churn(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		hakmem_free(hakmem_malloc(100));
	return arg;
}

/* Without heaps there are locks all the same: children must not inherit one
 * that a thread holds. */
static void fork_among_threads(void)
{
	pthread_t thread;
	int status = 0;

	if (pthread_create(&thread, NULL, churn, NULL) != 0)
		bail("no thread");
	for (int i = 0; i < 100 && status == 0; i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(20);
			hakmem_free(hakmem_malloc(100));
			_exit(0);
		}
		waitpid(child, &status, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	if (status != 0)
		_exit(5);
}

static void without_keys(void)
{
	no_keys = true;
	run_threads(50);
	fork_among_threads();
	if (hak_heap_count() != 0)
		_exit(2);
	no_keys = false;
	run_threads(1);
	if (hak_heap_count() != 0)
		_exit(3);
	hakmem_free(hakmem_malloc(1));
	if (hak_heap_count() != 1)
		_exit(4);
}

static void without_values(void)
{
	hakmem_free(hakmem_malloc(1));
	no_values = true;
	run_threads(50);
	if (hak_heap_count() != 1)
		_exit(2);
}

static void test_threads(void)
{
	char errors[256];
	int status;

	if (!can_refuse) {
		skip(2, "ThreadSanitizer needs keys");
		return;
	}
	tap_child(without_keys, &status, errors, sizeof errors);
	is_int(status, 0, "no key: threads do without a heap %s", errors);
	tap_child(without_values, &status, errors, sizeof errors);
	is_int(status, 0, "no value: threads do without a heap %s", errors);
}

/* --- Late frees ------------------------------------------------------------ */

static void late_free(void)
{
	struct hakmem_heap *heap = hakmem_heap_new();
	struct hakmem_heap_stats stats = {.struct_size = sizeof stats};
	void *block = hakmem_heap_malloc(heap, 48);
	void *large = hakmem_heap_malloc(heap, 5000);

	/* As a cache would that holds a block of what stood here before. */
	hak_shard_flush(hak_bin_of(48), &block, 1);
	hak_shard_flush(hak_bin_of(5000), &large, 1);
	hakmem_heap_stats(heap, &stats);
	if (stats.live_blocks != 2)
		_exit(2);
	if (hakmem_heap_malloc(heap, 48) == block)
		_exit(3);
	hakmem_free(block);
	hakmem_free(large);
	hakmem_heap_destroy(heap);
}

/* Huge blocks that grow and shrink among each other, by odd numbers of pages:
 * the room that is reserved for them is a half more. */
static void resize_huge(uint32_t state)
{
	void *block[16] = { NULL };

	for (unsigned i = 0; i < 3000; i++) {
		unsigned k = state >> 28;
		size_t size = (8193 + (state >> 8) % 9000) * hak_page_size;

		if (state & 64) {
			hakmem_free(block[k]);
			block[k] = hakmem_malloc(size);
		} else {
			block[k] = hakmem_realloc(block[k], size);
		}
		if (block[k] == NULL)
			bail("no memory");
		state = state * 1664525 + 1013904223;
	}
	for (unsigned k = 0; k < 16; k++)
		hakmem_free(block[k]);
	hakmem_trim(0);
}

/* Without huge pages nothing rounds room up to 2 MiB. */
static void test_rooms(void)
{
	size_t before, after;

	hak_options.thp = HAK_THP_NEVER;
	resize_huge(1);
	before = kib_mapped();
	resize_huge(2);
	resize_huge(3);
	resize_huge(4);
	after = kib_mapped();
	/* Blocks that come to lie across 4 GiB need another leaf of the page map. */
	ok(after <= before + 2 * 576, "rooms of grown blocks leave %zu KiB",
		after - MIN(before, after));
	hak_options.thp = HAK_THP_AUTO;
}

static void test_late_free(void)
{
	char errors[256];
	int status;

	hak_options.invalid_free = HAK_INVALID_FREE_WARN;
	for (unsigned shards = 1; shards <= 2; shards++) {
		hak_shard_force(shards);
		tap_child(late_free, &status, errors, sizeof errors);
		is_int(status, 0, "late free into a locked heap, %u shards",
			shards);
		ok(strncmp(errors, "hakmem: free: double free: 0x", 29) == 0 &&
				strstr(errors + 29, "double free") != NULL,
			"and both are told");
	}
}

int main(void)
{
	hak_os_inject.first = UINT32_MAX;
	plan(6 + 3 + 3 + 3 + 2 + 1 + 4);
	/* First: no heap has come to be. */
	test_threads();
	test_trim();
	test_page_box();
	test_unmap();
	test_arena();
	test_rooms();
	test_late_free();
	return done();
}
