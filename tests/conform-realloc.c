/*
 * realloc: contents survive every change of size, a failure changes nothing,
 * size 0 frees, and a growing buffer is not copied at every step.
 */
#include "under-preload.h"

#include <malloc.h>

#include "util.h"

static uint32_t state;

static int resizes(unsigned char *p, size_t from, size_t to)
{
	unsigned tag = (unsigned)(from * 7 + to);
	size_t kept = from < to ? from : to;

	REQUIRE(p, "no block of %zu bytes", from);
	pattern_fill(p, 0, from, tag);
	p = realloc(p, to);
	REQUIRE(p, "realloc(%zu -> %zu) gave NULL", from, to);
	REQUIRE(to < 16 || (uintptr_t)p % 16 == 0,
		"realloc(%zu -> %zu) gave %p", from, to, (void *)p);
	REQUIRE(pattern_check(p, kept, tag) == kept,
		"realloc(%zu -> %zu) lost byte %zu", from, to,
		pattern_check(p, kept, tag));
	REQUIRE(malloc_usable_size(p) >= to, "realloc(%zu -> %zu): usable %zu",
		from, to, malloc_usable_size(p));
	memset(p, 0x77, to);
	free(p);
	return 1;
}

static const size_t sizes[] = {1, 8, 16, 17, 24, 48, 100, 128, 129, 255, 512,
	1000, 1024, 1025, 1280, 2048, 4096, 5000, 8192, 16000, 16384, 32768,
	32769, 40000, 65536, 65537, 131072, 200000, 524288, 1048576, 1048577,
	1500000, 3000000, 34000000};

static int every_pair_of_sizes(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			/* the large pairs cost most of the time: a fifth */
			if (sizes[i] + sizes[j] > MIB && (i + j) % 5)
				continue;
			if (!resizes(malloc(sizes[i]), sizes[i], sizes[j]))
				return 0;
		}
	return 1;
}

static int random_pairs(void)
{
	for (unsigned i = 0; i < rounds(4000, 20); i++) {
		size_t from = 1 + below(&state, 3000);

		if (!resizes(malloc(from), from, 1 + below(&state, 3000)))
			return 0;
	}
	return 1;
}

static int aligned_blocks_too(void)
{
	for (unsigned i = 0; i < rounds(200, 20); i++) {
		size_t alignment = (size_t)16 << below(&state, 13);
		size_t from = 1 + below(&state, 200000);

		if (!resizes(memalign(alignment, from), from,
			    1 + below(&state, 200000)))
			return 0;
	}
	return 1;
}

/* One block for a long time, with others in its way. */
static int long_walk(void)
{
	unsigned char *p = NULL, *others[16] = {NULL};
	size_t n = 0;

	for (unsigned i = 0; i < rounds(400, 10); i++) {
		unsigned char **other = &others[below(&state, 16)];
		size_t to = 1 + below(&state, i % 40 ? 70000 : 3000000);
		size_t kept = n < to ? n : to;

		free(*other);
		*other = malloc(1 + below(&state, 70000));
		p = realloc(p, to);
		REQUIRE(p && pattern_check(p, kept, 9) == kept,
			"step %u, %zu -> %zu: %p", i, n, to, (void *)p);
		pattern_fill(p, kept, to, 9);
		n = to;
	}
	free(p);
	for (int i = 0; i < 16; i++)
		free(others[i]);
	return 1;
}

static int failure_keeps(size_t n)
{
	static const size_t too_much[] = {SIZE_MAX, SIZE_MAX - 64,
		(size_t)PTRDIFF_MAX + 1, SIZE_MAX / 2 + 4096, (size_t)1 << 60};
	unsigned char *p = malloc(n);

	REQUIRE(p, "malloc(%zu) gave NULL", n);
	pattern_fill(p, 0, n, 3);
	for (size_t i = 0; i < ARRAY_SIZE(too_much); i++) {
		void *q;

		errno = 0;
		q = realloc(p, too_much[i]);
		REQUIRE(!q && errno == ENOMEM, "realloc(%zu -> %#zx): %p, %d",
			n, too_much[i], q, errno);
	}
	REQUIRE(pattern_check(p, n, 3) == n, "%zu bytes did not survive", n);
	p = realloc(p, n + 1);
	REQUIRE(p && pattern_check(p, n, 3) == n,
		"%zu bytes are of no use after a failure", n);
	free(p);
	return 1;
}

static int failures_keep_the_block(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (!failure_keeps(sizes[i]))
			return 0;
	return 1;
}

/* As the C library that programs were written against: NULL, and no leak. */
static int size_zero_frees(void)
{
	static const size_t size[] = {8, 100, 3000, 65536, 300000};
	volatile size_t zero = 0;
	long before = rss_kib();

	for (int i = 0; i < 6000; i++) {
		size_t n = size[i % ARRAY_SIZE(size)];
		char *p = malloc(n), *q;

		REQUIRE(p, "malloc(%zu) gave NULL", n);
		memset(p, 1, n);
		q = realloc(p, zero);
		REQUIRE(!q, "realloc(p, 0) gave %p", (void *)q);
	}
	REQUIRE(rss_kib() - before < 32 * 1024, "RSS grew by %ld KiB",
		rss_kib() - before);
	return 1;
}

/* 48 MiB in steps of a page: whole copies would move 290 GB. */
static int growth_is_cheap(void)
{
	double start = cpu_seconds();
	unsigned char *p = NULL;
	unsigned moves = 0;

	for (size_t n = 0; n < 48 * MIB; n += 4096) {
		unsigned char *q = realloc(p, n + 4096);

		REQUIRE(q, "realloc(%zu) gave NULL", n + 4096);
		moves += q != p;
		p = q;
		p[n] = pattern_byte(n, 1);
		REQUIRE(cpu_seconds() - start < 6,
			"%zu MiB took %.1f s of CPU time and %u moves", n / MIB,
			cpu_seconds() - start, moves);
	}
	diag("48 MiB in steps of a page: %.2f s of CPU time, %u moves",
		cpu_seconds() - start, moves);
	for (size_t n = 0; n < 48 * MIB; n += 4096)
		REQUIRE(p[n] == pattern_byte(n, 1), "byte %zu was lost", n);
	free(p);
	return 1;
}

static int shrinking_gives_back(void)
{
	size_t n = 33 * MIB;
	unsigned char *p = malloc(n);
	long full, left;

	REQUIRE(p, "malloc(%zu) gave NULL", n);
	memset(p, 1, n);
	pattern_fill(p, 0, MIB, 6);
	full = rss_kib();
	p = realloc(p, MIB);
	left = rss_kib();
	REQUIRE(p && pattern_check(p, MIB, 6) == MIB, "contents were lost");
	REQUIRE(full - left > 24 * 1024,
		"RSS %ld KiB became %ld when 32 of 33 MiB were given up", full,
		left);
	free(p);
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(8);
	state = test_seed();
	ok(every_pair_of_sizes(), "contents survive between all kinds of size");
	ok(random_pairs(), "contents survive between random sizes");
	ok(aligned_blocks_too(), "aligned blocks can be resized");
	ok(long_walk(), "one block walks up and down among others");
	ok(failures_keep_the_block(), "a failed realloc keeps the block");
	ok(size_zero_frees(), "size 0 frees the block and gives NULL");
	ok(growth_is_cheap(), "growing page by page does not copy each time");
	ok(shrinking_gives_back(), "shrinking a large block gives pages back");
	return done();
}
