/*
 * calloc: all zero, wherever the memory comes from and whatever was in it,
 * and a large block costs no memory before it is touched.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>

#include "util.h"

/* From the smallest bin to blocks that have their own mapping. */
static const size_t sizes[] = {1, 8, 16, 24, 40, 64, 100, 200, 500, 1000, 1024,
	1500, 3000, 8000, 20000, 32768, 33000, 65536, 100000, 300000, 900000,
	1200000, 3000000, 9000000};

static int is_zero(void *p, size_t n)
{
	size_t usable, at;

	REQUIRE(p, "calloc(%zu) gave NULL", n);
	usable = malloc_usable_size(p);
	at = first_dirty(p, n);
	REQUIRE(at == n, "byte %zu of %zu (usable %zu) is not zero", at, n,
		usable);
	return 1;
}

/* Enough blocks of a size that some are reused whatever caches do. */
static size_t batch_of(size_t n)
{
	size_t count = rounds(1, 4) * MIB / (n + 16);

	return count > 600 ? 600 : count < 2 ? 2 : count;
}

static void make_dirty(size_t n)
{
	void *block[600];
	size_t count = batch_of(n);

	for (size_t i = 0; i < count; i++) {
		block[i] = malloc(n);
		if (block[i])
			memset(block[i], 0xff, malloc_usable_size(block[i]));
	}
	for (size_t i = 0; i < count; i++)
		free(block[i]);
}

static int batch_is_zero(size_t n)
{
	unsigned char *block[600];
	size_t count = batch_of(n), good = 0;

	for (size_t i = 0; i < count; i++) {
		block[i] = i % 2 ? calloc(n, 1) : calloc(1, n);
		good += is_zero(block[i], n);
		if (block[i])
			memset(block[i], 0xa5, n);
	}
	for (size_t i = 0; i < count; i++)
		free(block[i]);
	return good == count;
}

static int zero_after_reuse(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_dirty(sizes[i]);
		if (!batch_is_zero(sizes[i]) || !batch_is_zero(sizes[i]))
			return 0;
	}
	return 1;
}

/* Memory of one size comes back as another one's. */
static int zero_after_change_of_size(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_dirty(sizes[i]);
		if (!batch_is_zero(sizes[ARRAY_SIZE(sizes) - 1 - i] / 3 + 1))
			return 0;
	}
	return 1;
}

/* Purged pages read as zero, pages that only look purged do not. */
static int zero_after_trim(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_dirty(sizes[i]);
		malloc_trim(0);
		if (!batch_is_zero(sizes[i]))
			return 0;
		malloc_trim(0);
	}
	return 1;
}

/* The tail that realloc cut off is dirty, the pages it moved may be too. */
static int zero_after_realloc(void)
{
	for (size_t n = 2000; n < rounds(5, 8) * MIB; n *= 2) {
		char *p = malloc(n);

		REQUIRE(p, "malloc(%zu) gave NULL", n);
		memset(p, 0xff, n);
		p = realloc(p, n / 3);
		if (!batch_is_zero(n / 2))
			return 0;
		p = realloc(p, n * 2);
		REQUIRE(p, "realloc(%zu) gave NULL", n * 2);
		memset(p, 0xff, n * 2);
		free(p);
		if (!batch_is_zero(n * 2))
			return 0;
	}
	return 1;
}

static void *dirty_all_sizes(void *unused)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		make_dirty(sizes[i]);
	return unused;
}

/* What a thread leaves behind at its end is dirty as well. */
static int zero_after_threads(void)
{
	for (unsigned i = 0; i < rounds(1, 5); i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, dirty_all_sizes, NULL))
			return 0;
		pthread_join(thread, NULL);
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++)
			if (!batch_is_zero(sizes[j]))
				return 0;
	}
	return 1;
}

/* Fresh the first time, recycled after that. */
static int large_is_lazy(void)
{
	for (int round = 0; round < 3; round++) {
		long before = rss_kib(), with;
		unsigned char *p = calloc(MIB, 1024);

		REQUIRE(p, "calloc(1 GiB) gave NULL");
		with = rss_kib();
		REQUIRE(with - before < 32 * 1024,
			"calloc(1 GiB) number %d touched %ld MiB", round + 1,
			(with - before) / 1024);
		for (size_t at = 0; at < GIB; at += 100 * MIB) {
			REQUIRE(!p[at], "byte %zu is not zero", at);
			p[at] = 1;
		}
		free(p);
		REQUIRE(rss_kib() - before < 64 * 1024,
			"RSS is %ld KiB higher after the free",
			rss_kib() - before);
	}
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(6);
	ok(zero_after_reuse(), "reused blocks are zero");
	ok(zero_after_change_of_size(),
		"so are blocks from other sizes' memory");
	ok(zero_after_trim(), "so are blocks from trimmed memory");
	ok(zero_after_realloc(), "so are blocks from what realloc gave up");
	ok(zero_after_threads(), "so are blocks from ended threads");
	ok(large_is_lazy(), "calloc(1 GiB) touches next to nothing");
	return done();
}
