/*
 * HAKMEM_LIMIT: allocations beyond it fail, free memory makes room below it,
 * and what a process has is never more.
 */
#include "alloc.h"
#include "forward.h"
#include "limit.h"
#include "stats.h"

#include "tap.h"

/* The insides alone: there is no other library to pass calls to. */
const struct hak_entry_points *hak_forward;

enum { MOST = 2000000 };
#define LIMIT (48 * MIB)

static void *blocks[MOST];

/* Allocate until it fails; the number of blocks. */
static size_t exhaust(size_t size)
{
	size_t n = 0;

	errno = 0;
	while (n < MOST && (blocks[n] = hak_malloc(size)) != NULL)
		memset(blocks[n++], 1, size);
	return n;
}

static void empty(size_t n)
{
	while (n > 0)
		hak_free(blocks[--n]);
}

static size_t resident(void)
{
	struct hakmem_stats stats = { .struct_size = sizeof stats };

	hak_stats_get(&stats);
	return stats.resident_bytes;
}

/* Each size from empty: what the one before left must not be in its way. */
static void test_size(size_t size, size_t least)
{
	size_t n = exhaust(size), again;

	is_int(errno, ENOMEM, "%zu bytes: ENOMEM", size);
	ok(n * size >= least && n * size <= LIMIT,
		"%zu bytes: %zu MiB of them fit", size, n * size / MIB);
	/* A huge page is resident whole, whatever was handed out of it. */
	ok(hak_limit_used() <= LIMIT && resident() <= LIMIT + SUPERSLAB,
		"%zu bytes: no more is taken or resident", size);
	empty(n);
	again = exhaust(size);
	ok(again >= n - n / 50, "%zu bytes: as many once more", size);
	empty(again);
}

static void test_growth(void)
{
	char *block = hak_malloc(20 * MIB), *grown;

	block[20 * MIB - 1] = 7;
	grown = hak_realloc(block, 60 * MIB);
	ok(grown == NULL && errno == ENOMEM, "realloc: too large fails");
	is_int(block[20 * MIB - 1], 7, "realloc: and keeps the block");
	block = hak_realloc(block, 21 * MIB);
	ok(block != NULL, "realloc: a little more is granted");
	hak_free(block);
}

static void test_untouched(void)
{
	void *half = hak_calloc(1, 30 * MIB);

	ok(half != NULL, "calloc: below the limit");
	ok(hak_calloc(1, 30 * MIB) == NULL,
		"calloc: untouched memory counts");
	hak_free(half);
	half = hak_malloc(40 * MIB);
	ok(half != NULL, "a huge block below the limit");
	ok(hak_malloc(40 * MIB) == NULL, "and no second one");
	hak_free(half);
}

/* One block of each page stays: the free pages make room. */
static void test_purged(void)
{
	size_t n = exhaust(1024), left = 0;
	void *large;

	for (size_t i = 0; i < n; i++)
		if (i % 64 != 0)
			hak_free(blocks[i]);
		else
			blocks[left++] = blocks[i];
	large = hak_malloc(24 * MIB);
	ok(large != NULL, "free pages of slabs in use make room");
	ok(hak_limit_used() <= LIMIT, "within the limit");
	hak_free(large);
	empty(left);
}

int main(void)
{
	static const size_t sizes[] = { 32, 1000, 5000, 100000, 3000000 };

	plan(4 * COUNT_OF(sizes) + 9);
	hak_options.limit = LIMIT;
	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		test_size(sizes[i], 36 * MIB);
	test_growth();
	test_untouched();
	test_purged();
	return done();
}
