/*
 * malloc_usable_size: at least what was asked for, the same for the life of
 * the block, and every byte of it the caller's to write.  Programs do write
 * up to it, and keep their books by it.
 */
#include "under-preload.h"

#include <malloc.h>

#include "util.h"

struct held {
	unsigned char *p;
	size_t usable;
};

static struct held held[16384];
static size_t holding;

static int hold(void *p, size_t n)
{
	size_t usable;

	REQUIRE(p, "no block of %zu bytes", n);
	usable = malloc_usable_size(p);
	REQUIRE(usable >= n, "%zu bytes were asked for, %zu are usable", n,
		usable);
	pattern_fill(p, 0, usable, (unsigned)holding);
	held[holding++] = (struct held){p, usable};
	return 1;
}

static int hold_small_sizes(void)
{
	for (size_t n = 0; n <= 2600; n++) {
		if (!hold(malloc(n), n) || !hold(calloc(1, n), n) ||
			!hold(realloc(malloc(8), n + 1), n + 1))
			return 0;
		if (n % 7 == 0 && !hold(memalign(64, n), n))
			return 0;
	}
	return 1;
}

static int hold_large_sizes(void)
{
	for (size_t n = 2601; n < 9 * MIB; n += n / 6)
		if (!hold(malloc(n), n) || !hold(memalign(4096, n / 8), n / 8))
			return 0;
	return 1;
}

static int nothing_was_overwritten(void)
{
	for (size_t i = 0; i < holding; i++) {
		size_t usable = malloc_usable_size(held[i].p);

		REQUIRE(usable == held[i].usable,
			"block %zu had %zu usable bytes and has %zu", i,
			held[i].usable, usable);
		REQUIRE(pattern_check(held[i].p, usable, (unsigned)i) == usable,
			"block %zu of %zu bytes was overwritten", i, usable);
	}
	return 1;
}

/* Free two of three, allocate again, and look at the third once more. */
static int survivors_keep_theirs(void)
{
	size_t survivors = 0;

	for (size_t i = 0; i < holding; i++)
		if (i % 3)
			free(held[i].p);
	for (size_t i = 0; i < 3000; i++) {
		size_t n = i * 3;
		unsigned char *p = malloc(n);

		REQUIRE(p, "malloc(%zu) gave NULL", n);
		memset(p, 0xdd, malloc_usable_size(p));
		free(p);
	}
	for (size_t i = 0; i < holding; i += 3) {
		size_t usable = malloc_usable_size(held[i].p);

		REQUIRE(usable == held[i].usable &&
				pattern_check(held[i].p, usable, (unsigned)i) ==
					usable,
			"block %zu of %zu bytes changed", i, usable);
		free(held[i].p);
		survivors++;
	}
	holding = 0;
	return survivors > 0;
}

static int contents_reach_to_the_end(void)
{
	for (size_t n = 1; n < 300000; n = n * 5 / 4 + 1) {
		unsigned char *p = malloc(n);
		size_t usable = malloc_usable_size(p);

		REQUIRE(p, "malloc(%zu) gave NULL", n);
		pattern_fill(p, 0, usable, 8);
		p = realloc(p, usable * 2 + 1);
		REQUIRE(p && pattern_check(p, usable, 8) == usable,
			"realloc moved less than the %zu usable bytes", usable);
		free(p);
	}
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(6);
	ok(malloc_usable_size(NULL) == 0, "NULL has no usable byte");
	ok(hold_small_sizes(), "small blocks hold what was asked for");
	ok(hold_large_sizes(), "large blocks hold what was asked for");
	ok(nothing_was_overwritten(), "all usable bytes are the block's own");
	ok(survivors_keep_theirs(),
		"they stay so while neighbours come and go");
	ok(contents_reach_to_the_end(), "realloc moves all usable bytes");
	return done();
}
