/*
 * Alignment: what every block has, what the aligned entry points were asked
 * for, and what they do with an alignment that is none.
 */
#include "under-preload.h"

#include <malloc.h>

#include "util.h"

struct held {
	unsigned char *p;
	size_t n;
};

static struct held held[8192];
static size_t holding;

static void hold(void *p, size_t n)
{
	pattern_fill(p, 0, n, (unsigned)holding);
	held[holding++] = (struct held){p, n};
}

static int held_are_intact(void)
{
	for (size_t i = 0; i < holding; i++)
		REQUIRE(pattern_check(held[i].p, held[i].n, (unsigned)i) ==
				held[i].n,
			"block %zu of %zu bytes was overwritten", i, held[i].n);
	return 1;
}

/* In an order that is neither that of allocation nor its reverse. */
static void free_held(void)
{
	for (size_t stride = 0; stride < 7; stride++)
		for (size_t i = stride; i < holding; i += 7)
			free(held[i].p);
	holding = 0;
}

/* An object of n bytes needs no more than the largest power of two in n. */
static size_t fundamental(size_t n)
{
	size_t alignment = 1;

	while (alignment < 16 && alignment * 2 <= n)
		alignment *= 2;
	return alignment;
}

static int hold_aligned(const char *entry, void *p, size_t n)
{
	REQUIRE(p, "%s gave NULL for %zu bytes", entry, n);
	REQUIRE((uintptr_t)p % fundamental(n) == 0, "%s(%zu) gave %p", entry, n,
		p);
	hold(p, n);
	return 1;
}

static int blocks_fit_any_object(void)
{
	for (int round = 0; round < 2; round++) {
		for (size_t n = 1; n <= 1500; n++) {
			if (!hold_aligned("malloc", malloc(n), n) ||
				!hold_aligned("calloc", calloc(n, 1), n) ||
				!hold_aligned(
					"realloc", realloc(malloc(1), n), n))
				return 0;
		}
		for (size_t n = 1600; n < 9 * MIB; n = n * 3 / 2 + 7)
			if (!hold_aligned("malloc", malloc(n), n))
				return 0;
		if (!held_are_intact())
			return 0;
		free_held();
	}
	return 1;
}

enum form { POSIX_MEMALIGN, ALIGNED_ALLOC, MEMALIGN, FORMS };

static void *aligned(enum form form, size_t alignment, size_t n)
{
	void *p = NULL;

	switch (form) {
	case POSIX_MEMALIGN:
		return posix_memalign(&p, alignment, n) ? NULL : p;
	case ALIGNED_ALLOC:
		return aligned_alloc(alignment, n);
	default:
		return memalign(alignment, n);
	}
}

static int hold_form(enum form form, size_t alignment, size_t n)
{
	void *p;

	if (form == POSIX_MEMALIGN && alignment < sizeof(void *))
		return 1;
	p = aligned(form, alignment, n);
	REQUIRE(p, "form %d: alignment %zu, %zu bytes: NULL", form, alignment,
		n);
	REQUIRE((uintptr_t)p % alignment == 0,
		"form %d: alignment %zu, %zu bytes: %p", form, alignment, n, p);
	REQUIRE(malloc_usable_size(p) >= n,
		"form %d: alignment %zu, %zu bytes: usable size %zu", form,
		alignment, n, malloc_usable_size(p));
	hold(p, n);
	return 1;
}

/* Sizes below, at and above each kind of block, and the alignment itself. */
static const size_t sizes[] = {1, 7, 8, 16, 24, 48, 64, 100, 256, 512, 1000,
	1024, 1025, 4096, 5000, 16384, 32768, 40000, 65536, 100000, 1048576};

static int hold_all_sizes(size_t alignment)
{
	for (int form = 0; form < FORMS; form++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			if (alignment > 65536 && sizes[i] > 65536)
				continue;
			if (!hold_form(form, alignment, sizes[i]))
				return 0;
		}
		if (!hold_form(form, alignment, alignment) ||
			!hold_form(form, alignment, alignment - 1) ||
			!hold_form(form, alignment, alignment + 1))
			return 0;
	}
	return 1;
}

static int resize_held(void)
{
	for (size_t i = 0; i < holding; i++) {
		size_t n = held[i].n, more = i % 2 ? n * 2 + 1 : n / 2 + 1;
		size_t kept = n < more ? n : more;

		held[i].p = realloc(held[i].p, more);
		REQUIRE(held[i].p, "realloc(%zu -> %zu) gave NULL", n, more);
		REQUIRE(pattern_check(held[i].p, kept, (unsigned)i) == kept,
			"realloc(%zu -> %zu) lost what was there", n, more);
		memset(held[i].p, 0xee, more);
	}
	return 1;
}

static int alignment_is_served(size_t alignment)
{
	int fine =
		hold_all_sizes(alignment) && held_are_intact() && resize_held();

	free_held();
	return fine;
}

/* Many of one alignment at once: more than one slab of a bin is needed. */
static int many_of_each_alignment(void)
{
	for (size_t alignment = 32; alignment <= 8192; alignment *= 2) {
		for (size_t i = 0; i < 600; i++)
			if (!hold_form(i % FORMS, alignment,
				    i * 13 % (2 * alignment) + 1))
				return 0;
		if (!held_are_intact())
			return 0;
		free_held();
	}
	return 1;
}

static const size_t no_alignment[] = {0, 3, 5, 6, 7, 9, 12, 15, 17, 24, 48, 100,
	4095, 4097, 65537, SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 4095};

static int posix_memalign_says_einval(size_t alignment)
{
	char mark;
	void *p = &mark;
	int error;

	errno = 4711;
	error = posix_memalign(&p, alignment, 64);
	REQUIRE(error == EINVAL, "posix_memalign(%#zx, 64) returned %d",
		alignment, error);
	REQUIRE(p == &mark, "posix_memalign(%#zx, 64) set the pointer",
		alignment);
	REQUIRE(errno == 4711, "posix_memalign(%#zx, 64) set errno to %d",
		alignment, errno);
	return 1;
}

static int posix_memalign_checks(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_alignment); i++)
		if (!posix_memalign_says_einval(no_alignment[i]))
			return 0;
	/* powers of two, yet no multiples of a pointer's size */
	return posix_memalign_says_einval(1) && posix_memalign_says_einval(2) &&
	       posix_memalign_says_einval(4);
}

/* Libraries differ (glibc's rounds up); none may crash or give half a block. */
static int others_fail_or_serve(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_alignment); i++) {
		for (int form = ALIGNED_ALLOC; form < FORMS; form++) {
			char *p;

			errno = 0;
			p = aligned(form, no_alignment[i], 40);
			REQUIRE(p || errno == EINVAL || errno == ENOMEM,
				"form %d, alignment %#zx: NULL with errno %d",
				form, no_alignment[i], errno);
			if (p)
				memset(p, 1, 40);
			free(p);
		}
	}
	return 1;
}

static int size_need_not_be_a_multiple(void)
{
	for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
		volatile size_t n = alignment + alignment / 2 - 1;
		char *p = aligned_alloc(alignment, n);

		REQUIRE(p && (uintptr_t)p % alignment == 0,
			"aligned_alloc(%zu, %zu) gave %p", alignment, n,
			(void *)p);
		memset(p, 3, n);
		free(p);
	}
	return 1;
}

int main(int argc, char **argv)
{
	enum { LARGEST = 22 }; /* 4 MiB, above every unit of the allocator */

	(void)argc;
	under_preload(argv);
	plan(LARGEST + 1 + 5);
	ok(blocks_fit_any_object(), "every block is aligned for what fits it");
	for (int shift = 0; shift <= LARGEST; shift++)
		ok(alignment_is_served((size_t)1 << shift),
			"alignment 2^%d is served for all sizes", shift);
	ok(many_of_each_alignment(), "hundreds of blocks of an alignment");
	ok(posix_memalign_checks(), "posix_memalign says EINVAL, errno stays");
	ok(others_fail_or_serve(), "memalign and aligned_alloc do not crash");
	ok(size_need_not_be_a_multiple(), "sizes need not be multiples");
	return done();
}
