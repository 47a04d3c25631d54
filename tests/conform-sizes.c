/*
 * Sizes at both ends: nothing at all, more than any object may have, products
 * that overflow, and what errno says of it.
 */
#include "under-preload.h"

#include <malloc.h>

#include "util.h"

static volatile size_t zero; /* volatile: the compiler must not know */

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static int zero_sizes_are_blocks(void)
{
	enum { KINDS = 6, EACH = 3000 };
	static void *block[KINDS * EACH];
	size_t n = 0;

	for (int i = 0; i < EACH; i++) {
		block[n++] = malloc(zero);
		block[n++] = calloc(zero, 40);
		block[n++] = calloc(40, zero);
		block[n++] = realloc(NULL, zero);
		block[n++] = reallocarray(NULL, zero, 16);
		block[n++] = memalign(64, zero);
	}
	for (size_t i = 0; i < n; i++)
		REQUIRE(block[i], "kind %zu gave NULL", i % KINDS);
	qsort(block, n, sizeof *block, by_address);
	for (size_t i = 1; i < n; i++)
		REQUIRE(block[i] != block[i - 1], "two blocks at %p", block[i]);
	for (size_t i = 0; i < n; i++)
		free(block[i]);
	return 1;
}

/* Each entry point that takes a size; the request must fail with ENOMEM. */
enum entry {
	MALLOC,
	CALLOC_1_N,
	CALLOC_N_1,
	REALLOC_NULL,
	REALLOCARRAY,
	MEMALIGN_32,
	MEMALIGN_PAGE,
	MEMALIGN_MIB,
	ALIGNED_ALLOC,
	VALLOC,
	PVALLOC,
	ENTRIES
};

static const char *const entry_name[ENTRIES] = {
	"malloc",
	"calloc(1, n)",
	"calloc(n, 1)",
	"realloc",
	"reallocarray",
	"memalign(32, n)",
	"memalign(page, n)",
	"memalign(1 MiB, n)",
	"aligned_alloc",
	"valloc",
	"pvalloc",
};

static void *request(enum entry entry, size_t n)
{
	switch (entry) {
	case MALLOC:
		return malloc(n);
	case CALLOC_1_N:
		return calloc(1, n);
	case CALLOC_N_1:
		return calloc(n, 1);
	case REALLOC_NULL:
		return realloc(NULL, n);
	case REALLOCARRAY:
		return reallocarray(NULL, n, 1);
	case MEMALIGN_32:
		return memalign(32, n);
	case MEMALIGN_PAGE:
		return memalign((size_t)sysconf(_SC_PAGESIZE), n);
	case MEMALIGN_MIB:
		return memalign(MIB, n);
	case ALIGNED_ALLOC:
		return aligned_alloc(16, n);
	case VALLOC:
		return valloc(n);
	case PVALLOC:
		return pvalloc(n);
	default:
		return NULL;
	}
}

static int refuses(enum entry entry, size_t n)
{
	void *p;

	errno = 0;
	p = request(entry, n);
	REQUIRE(!p, "%s of %#zx gave %p", entry_name[entry], n, p);
	REQUIRE(errno == ENOMEM, "%s of %#zx left errno at %d",
		entry_name[entry], n, errno);
	return 1;
}

static int posix_memalign_refuses(size_t alignment, size_t n)
{
	char mark;
	void *p = &mark;
	int error = posix_memalign(&p, alignment, n);

	REQUIRE(error == ENOMEM, "posix_memalign(%#zx, %#zx) returned %d",
		alignment, n, error);
	REQUIRE(p == &mark, "posix_memalign(%#zx, %#zx) set the pointer",
		alignment, n);
	return 1;
}

/* Distances at which a careless rounding would wrap to a small number. */
static const size_t distance[] = {
	0,
	1,
	2,
	7,
	8,
	15,
	16,
	17,
	31,
	32,
	63,
	64,
	127,
	1023,
	1024,
	4095,
	4096,
	4097,
	65535,
	65536,
	65537,
	(size_t)1 << 20,
	((size_t)1 << 20) + 1,
	(size_t)1 << 21,
	(size_t)1 << 22,
	(size_t)1 << 26,
	(size_t)1 << 32,
};

static int entry_refuses_too_much(enum entry entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(distance); i++) {
		if (!refuses(entry, SIZE_MAX - distance[i]) ||
			!refuses(entry, (size_t)PTRDIFF_MAX + 1 + distance[i]))
			return 0;
	}
	return refuses(entry, PTRDIFF_MAX) &&
	       refuses(entry, PTRDIFF_MAX - 4096) &&
	       refuses(entry, (size_t)1 << 62) &&
	       refuses(entry, (size_t)1 << 48);
}

static int posix_memalign_refuses_too_much(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(distance); i++) {
		if (!posix_memalign_refuses(64, SIZE_MAX - distance[i]) ||
			!posix_memalign_refuses(4096, SIZE_MAX - distance[i]) ||
			!posix_memalign_refuses(
				MIB, (size_t)PTRDIFF_MAX + 1 + distance[i]))
			return 0;
	}
	return 1;
}

/* The size is modest, the alignment is what cannot be had. */
static int impossible_alignment_fails(void)
{
	static const size_t size[] = {0, 1, 100, 70000};

	for (int shift = 48; shift < 64; shift++) {
		size_t alignment = (size_t)1 << shift;

		for (size_t i = 0; i < ARRAY_SIZE(size); i++) {
			void *p = memalign(alignment, size[i]);

			REQUIRE(!p, "memalign(2^%d, %zu) gave %p", shift,
				size[i], p);
			p = aligned_alloc(alignment, size[i]);
			REQUIRE(!p, "aligned_alloc(2^%d, %zu) gave %p", shift,
				size[i], p);
		}
		if (!posix_memalign_refuses(alignment, 100))
			return 0;
	}
	return 1;
}

static int overflowing_products_fail(void)
{
	unsigned char *kept = malloc(333);

	pattern_fill(kept, 0, 333, 4);
	for (int shift = 1; shift < 64; shift++) {
		volatile size_t a = (size_t)1 << shift;
		volatile size_t b = (size_t)1 << (64 - shift);
		void *p;

		errno = 0;
		p = calloc(a, b);
		REQUIRE(!p && errno == ENOMEM, "calloc(2^%d, 2^%d): %p, %d",
			shift, 64 - shift, p, errno);
		errno = 0;
		p = calloc(b + 1, a);
		REQUIRE(!p && errno == ENOMEM, "calloc(2^%d + 1, 2^%d): %p, %d",
			64 - shift, shift, p, errno);
		errno = 0;
		p = reallocarray(kept, a, b + 1);
		REQUIRE(!p && errno == ENOMEM, "reallocarray(2^%d ...): %p, %d",
			shift, p, errno);
		REQUIRE(pattern_check(kept, 333, 4) == 333,
			"a failed reallocarray touched its block");
	}
	free(kept);
	return 1;
}

static int products_that_fit_work(void)
{
	volatile size_t a = 65536, b = 33;
	unsigned char *p = calloc(a, b), *q = reallocarray(NULL, 1000, b);

	REQUIRE(p && q, "calloc(65536, 33): %p, reallocarray: %p", (void *)p,
		(void *)q);
	REQUIRE(first_dirty(p, a * b) == a * b, "calloc is not zero");
	pattern_fill(q, 0, 33000, 1);
	q = reallocarray(q, 2000, b);
	REQUIRE(q && pattern_check(q, 33000, 1) == 33000,
		"reallocarray lost what was there");
	free(p);
	free(q);
	return 1;
}

static int pvalloc_rounds_up_to_pages(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t n = 1; n < 4 * page; n += 111) {
		char *p = pvalloc(n), *q = valloc(n);
		size_t whole = (n + page - 1) / page * page;

		REQUIRE(p && q, "pvalloc(%zu): %p, valloc: %p", n, (void *)p,
			(void *)q);
		REQUIRE((uintptr_t)p % page == 0 && (uintptr_t)q % page == 0,
			"pvalloc(%zu): %p, valloc: %p", n, (void *)p,
			(void *)q);
		REQUIRE(malloc_usable_size(p) >= whole,
			"pvalloc(%zu) can hold only %zu bytes", n,
			malloc_usable_size(p));
		memset(p, 1, whole);
		memset(q, 2, n);
		free(p);
		free(q);
	}
	return 1;
}

static int free_keeps_errno(void)
{
	static void *block[400];
	size_t n = 0;

	for (size_t size = 1; size < 48 * MIB; size += size / 7 + 1) {
		char *p = malloc(size);

		REQUIRE(p, "malloc(%zu) gave NULL", size);
		p[0] = p[size - 1] = 1;
		block[n++] = p;
	}
	while (n < ARRAY_SIZE(block))
		block[n++] = malloc(100);
	for (size_t i = 0; i < n; i++) {
		errno = 4711;
		free(block[i]);
		REQUIRE(errno == 4711, "errno is %d after free %zu", errno, i);
		free(NULL);
		REQUIRE(errno == 4711, "errno is %d after free(NULL)", errno);
	}
	return 1;
}

static int heap_still_works(void)
{
	for (size_t n = 1; n < 4 * MIB; n = n * 2 + 1) {
		char *p = malloc(n);

		REQUIRE(p, "malloc(%zu) gave NULL", n);
		memset(p, 0x5c, n);
		free(p);
	}
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(ENTRIES + 8);
	ok(zero_sizes_are_blocks(), "a request for 0 bytes gives a new block");
	for (int i = 0; i < ENTRIES; i++)
		ok(entry_refuses_too_much(i),
			"%s refuses more than PTRDIFF_MAX with ENOMEM",
			entry_name[i]);
	ok(posix_memalign_refuses_too_much(),
		"posix_memalign refuses it and leaves the pointer alone");
	ok(impossible_alignment_fails(), "impossible alignments give NULL");
	ok(overflowing_products_fail(),
		"overflowing products fail in calloc and reallocarray");
	ok(products_that_fit_work(), "products that fit are served");
	ok(pvalloc_rounds_up_to_pages(),
		"valloc aligns to pages, pvalloc rounds up to them");
	ok(free_keeps_errno(), "free keeps errno");
	ok(heap_still_works(), "the heap works after all of this");
	return done();
}
