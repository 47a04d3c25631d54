/*
 * Every size from 0 to 1 MiB and every alignment to 4 MiB against a model of
 * the sizes that there are: what is asked for is rounded up to the next of
 * them, four to a doubling above 128 bytes, and never wastes more than that.
 *
 * The program uses the API under its own names and so runs under sanitizers.
 */
#include <pthread.h>

#include "util.h"

#include "hakmem.h"

enum { TINY_LINEAR = 128, L2_MOST = 32 << 10, L25_MOST = 1 << 20 };

static size_t page;

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* The largest power of two below n. */
static size_t power_below(size_t n)
{
	size_t power = 1;

	while (power * 2 < n)
		power *= 2;
	return power;
}

/*
 * The usable size of a block of n bytes; blocks of 8 may be of 16.  In L2.5
 * sizes are of whole pages, which is no further rounding where a quarter of
 * 32 KiB is one.
 */
static size_t model(size_t n)
{
	if (n <= 8)
		return 8;
	if (n <= TINY_LINEAR)
		return round_up(n, 16);
	if (n <= L2_MOST)
		return round_up(n, power_below(n) / 4);
	if (n <= L25_MOST)
		return round_up(round_up(n, power_below(n) / 4), page);
	return round_up(n, page);
}

static int size_is_as_modelled(unsigned char *p, size_t n)
{
	size_t usable = hakmem_usable_size(p);

	REQUIRE(p, "no %zu bytes", n);
	REQUIRE((usable == model(n) || (n <= 8 && usable == 16)) &&
			hakmem_good_size(n) == usable,
		"%zu bytes: usable %zu, good size %zu, model %zu", n, usable,
		hakmem_good_size(n), model(n));
	REQUIRE((uintptr_t)p % (n <= 8 ? 8 : 16) == 0, "%zu bytes at %p", n,
		(void *)p);
	return 1;
}

/* The last byte still says which block it is of. */
static int is_untouched(const unsigned char *p, size_t n)
{
	size_t usable = hakmem_usable_size(p);

	REQUIRE(p[0] == (unsigned char)n && p[usable - 1] == (unsigned char)n,
		"a block of %zu bytes was overwritten", n);
	return 1;
}

/* With the last 64 blocks in use, so that slabs fill and empty. */
static int all_sizes(size_t least, size_t most, size_t step)
{
	enum { KEPT = 64 };
	unsigned char *kept[KEPT] = {NULL};
	size_t size[KEPT] = {0}, at = 0;

	for (size_t n = least; n <= most; n += step) {
		unsigned char *p = hakmem_malloc(n);

		if (!size_is_as_modelled(p, n))
			return 0;
		at = (at + 1) % KEPT;
		if (kept[at] && !is_untouched(kept[at], size[at]))
			return 0;
		hakmem_free_sized(kept[at], size[at]);
		p[0] = p[hakmem_usable_size(p) - 1] = (unsigned char)n;
		kept[at] = p;
		size[at] = n;
	}
	for (int i = 0; i < KEPT; i++)
		hakmem_free(kept[i]);
	return 1;
}

/* Rounding up twice is rounding up once, more is never less, and waste is
 * bounded: a quarter of the block. */
static int good_sizes(void)
{
	size_t last = 0;

	for (size_t n = 0; n < rounds(5, 4) * MIB / 4; n++) {
		size_t good = hakmem_good_size(n);

		REQUIRE(good >= n && good >= last,
			"good size of %zu is %zu, of one less %zu", n, good,
			last);
		REQUIRE(n <= 48 || good - n <= good / 4 + 16,
			"%zu of %zu bytes are waste", good - n, good);
		REQUIRE(good == last || hakmem_good_size(good) == good,
			"good size of %zu is %zu", good,
			hakmem_good_size(good));
		last = good;
	}
	for (size_t n = MIB; n < 64 * GIB; n = n * 5 / 4 + 1)
		REQUIRE(hakmem_good_size(n) >= n &&
				hakmem_good_size(n) - n < 64 * KIB + page,
			"good size of %zu is %zu", n, hakmem_good_size(n));
	return 1;
}

static int alignment_with_sizes(size_t alignment, size_t most, size_t step)
{
	enum { KEPT = 16 };
	unsigned char *kept[KEPT] = {NULL};
	size_t size[KEPT] = {0}, at = 0;

	for (size_t n = 0; n <= most; n += step) {
		unsigned char *p = hakmem_aligned_alloc(alignment, n);
		size_t usable = hakmem_usable_size(p);

		REQUIRE(p && (uintptr_t)p % alignment == 0 && usable >= n,
			"alignment %zu, %zu bytes: %p, usable %zu", alignment,
			n, (void *)p, usable);
		at = (at + 1) % KEPT;
		if (kept[at]) {
			REQUIRE(pattern_check(kept[at], size[at],
					(unsigned)at) == size[at],
				"alignment %zu: %zu bytes were overwritten",
				alignment, size[at]);
			hakmem_free_aligned_sized(
				kept[at], alignment, size[at]);
		}
		kept[at] = p;
		size[at] = n;
		pattern_fill(p, 0, n, (unsigned)at);
	}
	for (int i = 0; i < KEPT; i++)
		hakmem_free(kept[i]);
	return 1;
}

static int alignments(void)
{
	for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
		size_t most = alignment < 16 * KIB ? 3000 : 2 * alignment;
		size_t step = alignment < 16 * KIB ? 13 : alignment / 3;

		if (!alignment_with_sizes(alignment, most, step))
			return 0;
	}
	return 1;
}

/* The smallest request of the next bin; above the bins, of a size like it. */
static size_t next_size(size_t n)
{
	return n < MIB ? hakmem_good_size(n) + 1 : n + n / 4;
}

/* The first thing a thread ever does is to allocate, or to free, n bytes. */
struct first {
	size_t n;
	unsigned char *p;
};

static void *first_allocates(void *arg)
{
	struct first *first = arg;

	first->p = hakmem_malloc(first->n);
	if (first->p)
		pattern_fill(first->p, 0, first->n, 1);
	return NULL;
}

static void *first_frees(void *arg)
{
	struct first *first = arg;

	hakmem_free(first->p);
	return NULL;
}

static void run(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, arg))
		bail("no thread: %s", strerror(errno));
	pthread_join(thread, NULL);
}

static int first_of_a_thread(void)
{
	for (size_t n = 0; n < 5 * MIB; n = next_size(n)) {
		struct first first = {n, NULL};

		run(first_allocates, &first);
		REQUIRE(first.p && pattern_check(first.p, n, 1) == n,
			"a thread's first block, of %zu bytes: %p", n,
			(void *)first.p);
		run(first_frees, &first);
	}
	return 1;
}

/* Blocks of a size never overlap, whatever the order of frees: addresses of
 * live ones are at least their size apart. */
static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static int blocks_do_not_overlap(size_t n, size_t count)
{
	static void *p[3000];
	size_t size = hakmem_good_size(n);
	uint32_t state = (uint32_t)n + 1;

	for (size_t i = 0; i < count; i++)
		p[i] = hakmem_malloc(n);
	for (size_t i = 0; i < count; i++) {
		size_t at = below(&state, (uint32_t)count);

		hakmem_free(p[at]);
		p[at] = hakmem_calloc(1, n);
	}
	qsort(p, count, sizeof *p, by_address);
	for (size_t i = 1; i < count; i++)
		REQUIRE((uintptr_t)p[i] - (uintptr_t)p[i - 1] >= size,
			"blocks of %zu bytes at %p and %p", size, p[i - 1],
			p[i]);
	for (size_t i = 0; i < count; i++)
		hakmem_free(p[i]);
	return 1;
}

static int no_overlap_of_any_size(void)
{
	for (size_t n = 1; n < 3 * MIB; n = next_size(n))
		if (!blocks_do_not_overlap(
			    n, n < 1000 ? 3000 : 2 * MIB / n + 8))
			return 0;
	return 1;
}

int main(void)
{
	plan(6);
	page = (size_t)sysconf(_SC_PAGESIZE);
	ok(all_sizes(0, MIB, 1), "every size to 1 MiB is as modelled");
	ok(all_sizes(MIB, 40 * MIB, MIB * 5 / 7 + 1), "so are sizes above");
	ok(good_sizes(), "good sizes rise, stay, and bound the waste");
	ok(alignments(), "alignments from 1 to 4 MiB");
	ok(first_of_a_thread(), "the first block of a thread, of each size");
	ok(no_overlap_of_any_size(), "blocks do not overlap");
	return done();
}
