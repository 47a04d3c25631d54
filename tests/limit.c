/*
 * HAKMEM_LIMIT: allocations beyond it fail, free memory makes room below it,
 * and what a process has is never more.
 */
#include "alloc.h"
#include "forward.h"
#include "limit.h"
#include "stats.h"

#include "os.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

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
	if (large != NULL)
		memset(large, 1, 24 * MIB);
	/* What was given back comes again with the next block of its slab. */
	while (left < MOST && (blocks[left] = hak_malloc(1024)) != NULL)
		memset(blocks[left++], 1, 1024);
	ok(hak_limit_used() <= LIMIT && resident() <= LIMIT + SUPERSLAB,
		"and when these pages are taken again");
	ok(left >= n / 4, "of which there are some: %zu of %zu blocks", left,
		n);
	hak_free(large);
	empty(left);
}

/* What a program that churns is spared the purging of is no reason to exceed a
 * limit. */
static void test_churned(void)
{
	void *huge;

	for (size_t i = 0; i < 40; i++) {
		void *large = hak_malloc(12 * MIB);

		memset(large, 1, 12 * MIB);
		hak_free(large);
	}
	huge = hak_malloc(LIMIT - hak_limit_used() - 256 * KIB);
	ok(huge != NULL, "all but a little in one block");
	if (huge != NULL)
		memset(huge, 1, hak_usable_size(huge));
	ok(resident() <= LIMIT + SUPERSLAB, "is all there is: %zu KiB",
		resident() / KIB);
	hak_free(huge);
}

/* --- Several threads at the limit at once ----------------------------------- */

enum { THREADS = 8, ROUNDS = 300, SHARE = 34 };
static pthread_barrier_t barrier;
static size_t granted;

/* New threads: those that waited long wake up one after the other. */
static void *takes_a_share(void *unused)
{
	void *block;

	hak_free(hak_malloc(100));
	pthread_barrier_wait(&barrier);
	block = hak_malloc(SHARE * MIB);
	if (block != NULL)
		__atomic_fetch_add(&granted, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&barrier);
	hak_free(block);
	return unused;
}

static void share_once(void)
{
	pthread_t thread[THREADS];

	granted = 0;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, takes_a_share, NULL) != 0)
			bail("no thread");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void test_threads(void)
{
	size_t most = 0;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < ROUNDS; i++) {
		share_once();
		most = MAX(most, granted);
	}
	ok(most >= 1 && most * SHARE * MIB <= LIMIT,
		"%d threads at once are granted %zu times %d MiB", THREADS,
		most, SHARE);
}

/* What one thread was granted and has not taken yet is not there for another
 * one. */
static void test_claims(void)
{
	size_t first, second;

	ok(hak_limit_admits(30 * MIB, &first), "a claim");
	ok(!hak_limit_admits(30 * MIB, &second), "excludes a second one");
	hak_limit_settle(first);
	ok(hak_limit_admits(30 * MIB, &second), "until it is settled");
	hak_limit_settle(second);
}

/* A program that touches all it takes: what counts is what is resident, but
 * for the ends of slabs that are being carved, and their records. */
static size_t statm_resident(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%*s %lu", &pages) != 1)
		bail("/proc/self/statm cannot be read");
	fclose(file);
	return pages * hak_page_size;
}

static void count_and_resident(void)
{
	size_t used = hak_limit_used(), rss = statm_resident(), n = 0;
	uint32_t state = 1;

	/* A huge page is resident whole. */
	hak_options.thp = HAK_THP_NEVER;
	hak_options.limit = 400 * MIB;
	while (hak_limit_used() < used + 300 * MIB && n < MOST) {
		size_t size = 16 + (state >> 8) % (n % 50 == 0 ? 900000 : 3000);

		blocks[n] = hak_malloc(size);
		if (blocks[n] == NULL)
			_exit(2);
		memset(blocks[n], 1, hak_usable_size(blocks[n]));
		n++;
		state = state * 1664525 + 1013904223;
	}
	used = hak_limit_used() - used;
	rss = statm_resident() - rss;
	fprintf(stderr, "%zu KiB counted, %zu KiB resident", used / KIB,
		rss / KIB);
	if (used > rss ? used - rss > used / 100 * 3 : rss - used > rss / 100 * 3)
		_exit(3);
}

/* A sanitizer's shadow is resident as well. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { shadowed = 1 };
#else
enum { shadowed = 0 };
#endif

static void test_count(void)
{
	char errors[256];
	int status;

	if (shadowed) {
		skip(1, "a sanitizer's shadow is resident as well");
		return;
	}
	tap_child(count_and_resident, &status, errors, sizeof errors);
	is_int(status, 0, "the count is the RSS, within 3 %%: %s", errors);
}

/* --- In a container --------------------------------------------------------- */

#define CONTAINER (96 * MIB)

static const char *const controllers[][2] = {
	{"/sys/fs/cgroup", "memory.max"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
};
static char container[128];

static bool write_file(const char *name, size_t number)
{
	char path[256];
	FILE *file;
	bool ok;

	snprintf(path, sizeof path, "%s/%s", container, name);
	file = fopen(path, "w");
	if (file == NULL)
		return false;
	ok = fprintf(file, "%zu", number) > 0;
	return fclose(file) == 0 && ok;
}

static bool make_container(void)
{
	for (size_t i = 0; i < COUNT_OF(controllers); i++) {
		snprintf(container, sizeof container, "%s/hakmem-test-%d",
			controllers[i][0], (int)getpid());
		if (mkdir(container, 0755) != 0)
			continue;
		if (write_file(controllers[i][1], CONTAINER))
			return true;
		rmdir(container);
	}
	return false;
}

/* Take three times what the container holds, or as much as there is. */
static void fill_container(void)
{
	size_t n = 0;

	if (!write_file("cgroup.procs", (size_t)getpid()))
		_exit(2);
	for (; n < 3 * CONTAINER / 3000; n++) {
		blocks[n] = hak_malloc(3000);
		if (blocks[n] == NULL)
			break;
		memset(blocks[n], 1, 3000);
	}
	_exit(n * 3000 >= 3 * CONTAINER ? 3
		: n * 3000 < CONTAINER / 2 ? 4 : 0);
}

static void test_container(void)
{
	char errors[256];
	int status, killed;

	if (!make_container()) {
		skip(1, "no memory cgroup can be made here");
		return;
	}
	/* Else the case would pass whatever happens. */
	hak_options.limit = 0;
	killed = tap_child(fill_container, &status, errors, sizeof errors);
	hak_options.limit = CONTAINER - CONTAINER / 4;
	if (killed != SIGKILL)
		skip(1, "a memory cgroup has no effect here");
	else if (tap_child(fill_container, &status, errors, sizeof errors) == 0)
		is_int(status, 0, "container: NULL comes before the kernel");
	else
		ok(false, "container: killed by signal %d", WTERMSIG(status));
	rmdir(container);
}

int main(void)
{
	static const size_t sizes[] = { 32, 1000, 5000, 100000, 3000000 };

	plan(4 * COUNT_OF(sizes) + 9 + 2 + 2 + 2 + 1 + 3);
	test_count();
	hak_options.limit = LIMIT;
	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		test_size(sizes[i], 36 * MIB);
	test_growth();
	test_untouched();
	test_purged();
	test_churned();
	test_threads();
	test_claims();
	test_container();
	return done();
}
