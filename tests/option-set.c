/*
 * hakmem_option_get and hakmem_option_set: what they refuse, and that a change
 * takes effect in a process that runs, seen in what the allocator does.
 */
#include "hakmem.h"

#include "util.h"

#include <pthread.h>

enum { SIZE = 1024, SLABS = 40, PER_SLAB = 64, MANY = SLABS * PER_SLAB };

static void *blocks[MANY];

static int set(const char *name, const char *value)
{
	errno = 0;
	return hakmem_option_set(name, value) == 0 ? 0 : errno;
}

static const char *get(const char *name)
{
	static char value[128];

	return hakmem_option_get(name, value, sizeof value) == 0 ? value
								  : NULL;
}

static struct hakmem_stats stats(void)
{
	struct hakmem_stats all = {.struct_size = sizeof all};

	hakmem_stats_get(&all);
	return all;
}

/* --- The interface -------------------------------------------------------- */

static void test_get(void)
{
	char value[8] = "";

	is_str(get("HAKMEM_RETAIN"), "auto", "get: auto");
	is_str(get("HAKMEM_INVALID_FREE"), "abort", "get: a word");
	is_str(get("HAKMEM_STATS_FILE"), "none", "get: no path");
	errno = 0;
	is_int(hakmem_option_get("HAKMEM_NONE", value, sizeof value), -1,
		"get: an unknown name");
	is_int(errno, ENOENT, "get: ENOENT");
	is_int(hakmem_option_get("HAKMEM_RETAIN", value, 4), -1,
		"get: no room");
	is_int(errno, ERANGE, "get: ERANGE");
	is_str(value, "aut", "get: what fits, ended by a NUL");
	is_int(hakmem_option_get("HAKMEM_RETAIN", NULL, 0), -1,
		"get: no room at all");
	errno = EDOM;
	is_int(hakmem_option_get("HAKMEM_RETAIN", value, 5), 0,
		"get: just room enough");
	is_int(errno, EDOM, "get: success keeps errno");
}

static void test_refusals(void)
{
	is_int(set("HAKMEM_NONE", "1"), ENOENT, "set: an unknown name");
	is_int(set("HAKMEM_RETAI", "1"), ENOENT, "set: part of a name");
	is_int(set("HAKMEM_THP", "never"), EPERM, "set: not while running");
	is_str(get("HAKMEM_THP"), "auto", "set: and nothing has changed");
	is_int(set("HAKMEM_CACHE", "65535"), EINVAL, "set: below the range");
	is_int(set("HAKMEM_CACHE", "many"), EINVAL, "set: no number");
	is_int(set("HAKMEM_INVALID_FREE", ""), EINVAL, "set: nothing");
	is_str(get("HAKMEM_CACHE"), "auto", "set: and nothing has changed");
	is_int(set("HAKMEM_CACHE", "auto"), 0, "set: auto where it is one");
	errno = EDOM;
	is_int(hakmem_option_set("HAKMEM_CACHE", "auto"), 0, "set: again");
	is_int(errno, EDOM, "set: success keeps errno");
}

static void refuse_aloud(void)
{
	set("HAKMEM_NONE", "1");
	if (set("HAKMEM_VERBOSE", "1") != 0)
		tap_write(2, "no VERBOSE", 10);
	set("HAKMEM_NONE", "1");
	set("HAKMEM_THP", "never");
	set("HAKMEM_CACHE", "1");
	set("HAKMEM_VERBOSE", "0");
	set("HAKMEM_NONE", "1");
}

static void test_verbose(void)
{
	char said[512];
	int status;

	tap_child(refuse_aloud, &status, said, sizeof said);
	is_str(said,
		"hakmem: option_set: unknown variable: HAKMEM_NONE\n"
		"hakmem: option_set: cannot change while running: HAKMEM_THP\n"
		"hakmem: option_set: HAKMEM_CACHE: bad value '1'"
		" (auto or at least 64K expected)\n",
		"VERBOSE: refusals are told while it is 1");
}

/* --- Effects -------------------------------------------------------------- */

static size_t empty_bytes(void)
{
	struct hakmem_stats all = stats();

	return all.retained_bytes;
}

/* Empty memory is the most that may stay. */
static void swing(size_t bytes)
{
	void *block[64];
	size_t n = 0;

	for (; n < 64 && n * MIB < bytes; n++) {
		block[n] = hakmem_malloc(MIB + 1);
		memset(block[n], 1, MIB);
	}
	while (n > 0)
		hakmem_free(block[--n]);
}

static void test_retain(void)
{
	is_int(set("HAKMEM_RETAIN", "1G"), 0, "RETAIN=1G");
	swing(48 * MIB);
	ok(empty_bytes() >= 40 * MIB, "RETAIN: all stays (%zu)",
		empty_bytes());
	is_int(set("HAKMEM_RETAIN", "4M"), 0, "RETAIN=4M");
	ok(empty_bytes() <= 4 * MIB, "RETAIN: the rest went at once (%zu)",
		empty_bytes());
	swing(48 * MIB);
	/* what a program that churns is spared stays for a moment */
	ok(empty_bytes() <= 16 * MIB, "RETAIN: and goes from now on (%zu)",
		empty_bytes());
}

static void test_purge_delay(void)
{
	is_int(set("HAKMEM_PURGE_DELAY_MS", "3600000"), 0, "an hour's delay");
	swing(48 * MIB);
	ok(empty_bytes() >= 40 * MIB, "PURGE_DELAY_MS: nothing goes (%zu)",
		empty_bytes());
	is_int(set("HAKMEM_PURGE_DELAY_MS", "0"), 0, "no delay");
	ok(empty_bytes() <= 16 * MIB, "PURGE_DELAY_MS: it goes (%zu)",
		empty_bytes());
	is_int(set("HAKMEM_RETAIN", "auto"), 0, "RETAIN=auto");
}

static size_t cached_bytes(void)
{
	struct hakmem_stats all = stats();

	return all.front_bytes + all.depot_bytes + all.ring_bytes;
}

/* Frees of all Tiny sizes fill whatever may be filled. */
static void fill_caches(void)
{
	for (size_t size = 16; size <= 1024; size += size < 128 ? 16 : 128) {
		for (int i = 0; i < MANY; i++)
			blocks[i] = hakmem_malloc(size);
		for (int i = 0; i < MANY; i++)
			hakmem_free(blocks[i]);
	}
}

static void test_cache(void)
{
	size_t before;

	/* depots learn from one time to the next */
	for (int i = 0; i < 8; i++)
		fill_caches();
	before = cached_bytes();
	ok(before > 200 * KIB, "CACHE=auto: caches are filled (%zu)", before);
	ok(stats().depot_bytes > 64 * KIB, "CACHE=auto: so are depots (%zu)",
		stats().depot_bytes);
	is_int(set("HAKMEM_CACHE", "64K"), 0, "CACHE=64K");
	is_int((long)stats().depot_bytes, 0, "CACHE: depots go at once");
	fill_caches();
	ok(cached_bytes() < before / 2, "CACHE: they are smaller now (%zu)",
		cached_bytes());
	is_int(set("HAKMEM_CACHE", "auto"), 0, "CACHE=auto");
	fill_caches();
	ok(cached_bytes() > 200 * KIB, "CACHE: and grow again (%zu)",
		cached_bytes());
}

/* Slabs with one free block each, beyond what caches hold of them. */
static size_t warm_slabs(void)
{
	size_t warm = 0;

	for (int i = 0; i < MANY; i++)
		blocks[i] = hakmem_malloc(SIZE);
	hakmem_trim(0);
	for (int i = 0; i < MANY; i += PER_SLAB)
		hakmem_free(blocks[i]);
	hakmem_trim(0);
	for (unsigned bin = 0;; bin++) {
		struct hakmem_bin_stats one = {.struct_size = sizeof one};

		if (hakmem_stats_get_bin(bin, &one) != 0)
			break;
		if (one.size == SIZE)
			warm = one.warm;
	}
	for (int i = 0; i < MANY; i++)
		if (i % PER_SLAB != 0)
			hakmem_free(blocks[i]);
	return warm;
}

static void test_warm_pool(void)
{
	size_t warm;

	is_int(set("HAKMEM_WARM_POOL_SIZE", "30"), 0, "WARM_POOL_SIZE=30");
	warm = warm_slabs();
	ok(warm > 20 && warm <= 30, "WARM_POOL_SIZE: so many (%zu)", warm);
	is_int(set("HAKMEM_WARM_POOL_SIZE", "3"), 0, "WARM_POOL_SIZE=3");
	warm = warm_slabs();
	ok(warm <= 3, "WARM_POOL_SIZE: no more than that (%zu)", warm);
}

static void test_limit(void)
{
	size_t size = 40 * MIB;
	void *block;

	is_int(set("HAKMEM_LIMIT", "32M"), 0, "LIMIT=32M");
	errno = 0;
	block = hakmem_malloc(size);
	ok(block == NULL && errno == ENOMEM, "LIMIT: what is more fails");
	is_int(set("HAKMEM_LIMIT", "auto"), 0, "LIMIT=auto");
	block = hakmem_malloc(size);
	ok(block != NULL, "LIMIT: and is granted without");
	hakmem_free(block);
}

static void free_wrongly(void)
{
	static char no_block[64];

	set("HAKMEM_INVALID_FREE", "ignore");
	hakmem_free(no_block + 16);
	set("HAKMEM_INVALID_FREE", "warn");
	hakmem_free(no_block + 16);
	set("HAKMEM_INVALID_FREE", "abort");
	hakmem_free(no_block + 32);
}

static void test_invalid_free(void)
{
	char said[512], *line;
	int status, lines = 0;

	is_int(tap_child(free_wrongly, &status, said, sizeof said), SIGABRT,
		"INVALID_FREE: abort ends the process");
	for (line = said; (line = strstr(line, "invalid pointer")); line++)
		lines++;
	is_int(lines, 2, "INVALID_FREE: warn tells, ignore does not");
}

static void end_with_statistics(void)
{
	set("HAKMEM_STATS", "json");
	exit(0);
}

static void test_stats(void)
{
	static char said[32768];
	int status;

	tap_child(end_with_statistics, &status, said, sizeof said);
	ok(strstr(said, "\"schema\":\"hakmem-stats-1\"") != NULL,
		"STATS: printed at exit");
}

/* --- Threads -------------------------------------------------------------- */

static void *change(void *arg)
{
	static const char *const value[][2] = {
		{"HAKMEM_RETAIN", "1M"}, {"HAKMEM_RETAIN", "auto"},
		{"HAKMEM_CACHE", "64K"}, {"HAKMEM_CACHE", "auto"},
		{"HAKMEM_WARM_POOL_SIZE", "0"}, {"HAKMEM_LIMIT", "auto"},
		{"HAKMEM_WARM_POOL_SIZE", "16"}, {"HAKMEM_STATS", "0"},
		{"HAKMEM_PURGE_DELAY_MS", "1"}, {"HAKMEM_PURGE_DELAY_MS", "0"},
	};
	uint32_t state = (uint32_t)(uintptr_t)arg;
	char text[32];
	long failed = 0;

	for (int i = 0; i < 300; i++) {
		uint32_t at = below(&state, ARRAY_SIZE(value));

		failed += set(value[at][0], value[at][1]) != 0;
		failed += hakmem_option_get(value[at][0], text,
				  sizeof text) != 0;
	}
	return (void *)failed;
}

static void *churn(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg;
	void *mine[64] = {NULL};
	long wrong = 0;

	for (int i = 0; i < 60000; i++) {
		uint32_t at = below(&state, ARRAY_SIZE(mine));
		size_t n = 1 + below(&state, i % 64 ? 2000 : 200000);

		hakmem_free(mine[at]);
		mine[at] = hakmem_malloc(n);
		wrong += mine[at] == NULL;
		if (mine[at])
			memset(mine[at], 1, n < 64 ? n : 64);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mine); i++)
		hakmem_free(mine[i]);
	return (void *)wrong;
}

static void test_threads(void)
{
	pthread_t thread[4];
	long wrong = 0;

	for (long i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, i < 2 ? change : churn,
			    (void *)(i + 1)))
			bail("no thread");
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(thread[i], &result);
		wrong += (long)result;
	}
	is_int(wrong, 0, "options change while threads allocate");
}

int main(void)
{
	plan(52);
	test_get();
	test_refusals();
	test_verbose();
	test_retain();
	test_purge_delay();
	test_cache();
	test_warm_pool();
	test_limit();
	test_invalid_free();
	test_stats();
	test_threads();
	return done();
}
