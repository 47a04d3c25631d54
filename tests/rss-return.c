/*
 * Memory comes back: when a program has freed what it took, its RSS falls,
 * without a call that only this allocator knows, and (the idle part) without
 * any call at all.
 *
 * The bound for an idle process is live + max(16 MiB, live / 8) + 4 MiB, 2 s
 * after its last free, where live is in whole pages.  It is a promise of this allocator only; on others
 * those cases are left out.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "util.h"

int hakmem_option_set(const char *, const char *) __attribute__((weak));

/* Pointers are kept in a mapping of their own, touched before all counting. */
enum { MOST = 1000000, PAGE = 4096 };
static void *block[MOST];
static size_t taken;
static uint32_t state;
static long start; /* RSS before the first block, pointers included */

/* A range of sizes and how much of it is taken at first. */
struct load {
	const char *name;
	size_t least, most, total;
};

static const struct load loads[] = {
	{"16 to 1024 bytes", 16, 1024, 40 << 20},
	{"48 bytes", 48, 48, 32 << 20},
	{"1 to 32 KiB", 1025, 32768, 40 << 20},
	{"32 KiB to 1 MiB", 32769, 1 << 20, 40 << 20},
	{"1 to 8 MiB", (1 << 20) + 1, 8 << 20, 40 << 20},
	{"16 bytes to 2 MiB", 16, 2 << 20, 40 << 20},
};

static size_t size_in(const struct load *load)
{
	uint32_t range = (uint32_t)(load->most - load->least + 1);

	return load->least + below(&state, range);
}

/* Returns the bytes that were taken, all of them touched. */
static size_t take(const struct load *load, size_t total)
{
	size_t sum = 0;

	while (sum < total && taken < MOST) {
		size_t n = size_in(load);

		block[taken] = malloc(n);
		if (!block[taken])
			bail("malloc(%zu) gave NULL", n);
		memset(block[taken++], 1, n);
		sum += n;
	}
	return sum;
}

static void shuffle(void)
{
	for (size_t i = taken; i > 1; i--) {
		size_t other = below(&state, (uint32_t)i);
		void *p = block[i - 1];

		block[i - 1] = block[other];
		block[other] = p;
	}
}

/* From the end of the table; keep as many as `left`. */
static void give_back(size_t left)
{
	while (taken > left)
		free(block[--taken]);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* Pages that hold a byte of what is live: no allocator that leaves blocks
 * where they are can do with fewer. */
static long live_kib(void)
{
	size_t pages = 0, most = 0, bytes;
	uintptr_t *page;

	for (size_t i = 0; i < taken; i++)
		most += malloc_usable_size(block[i]) / PAGE + 2;
	bytes = most * sizeof *page + 1;
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		bail("no memory to count pages");
	for (size_t i = 0; i < taken; i++) {
		uintptr_t at = (uintptr_t)block[i], end = at +
			malloc_usable_size(block[i]);

		for (at /= PAGE; at * PAGE < end; at++)
			page[pages++] = at;
	}
	qsort(page, pages, sizeof *page, by_address);
	most = pages;
	pages = 0;
	for (size_t i = 0; i < most; i++)
		pages += i == 0 || page[i] != page[i - 1];
	munmap(page, bytes);
	return (long)(pages * (PAGE / 1024));
}

static long rss_over_start(void)
{
	return rss_kib() - start;
}

static int falls_below(long bound, double limit, int active)
{
	double deadline = wall_seconds() + limit;

	while (rss_over_start() > bound && wall_seconds() < deadline) {
		for (int i = 0; active && i < 3000; i++)
			free(malloc(below(&state, 2000)));
		sleep_ms(10);
	}
	return rss_over_start() <= bound;
}

/* What every allocator should do: first in, first out, and some activity. */
static int returns_while_active(size_t least, size_t most)
{
	struct load load = {NULL, least, most, 96 << 20};
	long peak;

	take(&load, load.total);
	peak = rss_over_start();
	for (size_t i = 0; i < taken; i++)
		free(block[i]);
	taken = 0;
	REQUIRE(falls_below(peak / 4, 8, 1),
		"RSS %ld KiB of %ld is held 8 s after the last free",
		rss_over_start(), peak);
	return 1;
}

static int idles_within_bound(const struct load *load, int random, int keep)
{
	long live, bound;

	take(load, load->total);
	if (random)
		shuffle();
	give_back(keep ? taken / 8 : 0);
	live = live_kib();
	bound = live + (live / 8 > 16384 ? live / 8 : 16384) + 4096;
	REQUIRE(falls_below(bound, 2, 0),
		"RSS %ld KiB with %ld KiB live, 2 s after the last free",
		rss_over_start(), live);
	give_back(0);
	return 1;
}

static char *volatile large;
static size_t large_size = 2 * MIB, large_touched = 1;

static void take_and_free_large(void)
{
	large = malloc(large_size);
	if (!large)
		bail("no memory for a large block");
	memset(large, 1, large_touched);
	free(large);
}

/* HAKMEM_RETAIN in KiB; 0 is auto. */
static long retain;

static long bound_of(long live)
{
	long least = retain ? retain : 16384;

	return live + (!retain && live / 8 > least ? live / 8 : least) + 4096;
}

/* The program may stop after any free: the bound holds all the way down, also
 * where large blocks come and go in between, one for so many MiB freed. */
static int holds_all_the_way(size_t size, size_t every)
{
	const struct load load = {NULL, size, size, 192 << 20};
	long live, bound, rss;
	int fine = 1;

	take(&load, load.total);
	shuffle();
	for (size_t mib = 1; fine && taken > MIB / size; mib++) {
		give_back(taken - MIB / size);
		if (every && mib % every == 0)
			take_and_free_large();
		live = (long)(taken * size / KIB);
		bound = bound_of(live);
		rss = rss_over_start();
		fine = rss <= bound;
		if (!fine)
			diag("RSS %ld KiB with %ld KiB live, %zu MiB freed",
				rss, live, mib);
	}
	give_back(0);
	return fine;
}

enum { THREADS = 24 };
static pthread_barrier_t freed, done_looking;

/* Takes and frees 4 MiB in sizes of all kinds, then waits for good. */
static void *once_active(void *seed)
{
	void *mine[512];
	uint32_t own = (uint32_t)(uintptr_t)seed;
	size_t sum = 0, n = 0;

	while (n < ARRAY_SIZE(mine) && sum < 4 * MIB) {
		size_t size = n % 16 ? below(&own, 1024) : below(&own, 150000);

		mine[n] = malloc(size);
		memset(mine[n++], 1, size);
		sum += size;
	}
	while (n)
		free(mine[--n]);
	pthread_barrier_wait(&freed);
	pthread_barrier_wait(&done_looking);
	return NULL;
}

static int idle_threads_hold_little(void)
{
	pthread_t thread[THREADS];
	int fine;

	pthread_barrier_init(&freed, NULL, THREADS + 1);
	pthread_barrier_init(&done_looking, NULL, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(
			    &thread[i], NULL, once_active, (void *)(i + 1)))
			bail("no thread: %s", strerror(errno));
	pthread_barrier_wait(&freed);
	/* They allocate and free to the end, side by side: 4 MiB more for what
	 * a program that churns is spared the purging of. */
	fine = falls_below((20 + 4) * 1024 + THREADS * 32, 2, 0);
	if (!fine)
		diag("RSS %ld KiB in %d idle threads", rss_over_start(),
			THREADS);
	pthread_barrier_wait(&done_looking);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return fine;
}

static void *free_half(void *unused)
{
	size_t left = taken / 2;

	give_back(left);
	return unused;
}

/* Freed by threads that never allocated and have ended since. */
static int freed_by_others(const struct load *load)
{
	take(load, load->total);
	shuffle();
	while (taken) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, free_half, NULL))
			bail("no thread: %s", strerror(errno));
		pthread_join(thread, NULL);
		if (taken == 1)
			give_back(0);
	}
	REQUIRE(falls_below(20 * 1024 + 1024, 2, 0), "RSS %ld KiB",
		rss_over_start());
	return 1;
}

static void idle_cases(const struct load *load)
{
	ok(idles_within_bound(load, 0, 0), "%s: idle after frees in order",
		load->name);
	ok(idles_within_bound(load, 1, 0), "%s: idle after random frees",
		load->name);
	ok(idles_within_bound(load, 0, 1), "%s: idle, an eighth stays",
		load->name);
	ok(freed_by_others(load), "%s: freed by other threads", load->name);
}

/* Here few blocks, such as caches and queues hold, pin many pages. */
static int new_process(void *seed)
{
	static const struct load load = {NULL, 100, 1000, 128 << 20};

	state = *(uint32_t *)seed;
	start = rss_kib();
	return !idles_within_bound(&load, 1, 0);
}

/* A bound that was set is one, whatever the program has done before and takes
 * again and again. */
static int process_with_bound(void *seed)
{
	int fine = 1;

	state = *(uint32_t *)seed;
	start = rss_kib();
	retain = 8 * 1024;
	if (!hakmem_option_set || hakmem_option_set("HAKMEM_RETAIN", "8M"))
		return 2;
	for (; large_size <= 8 * MIB; large_size *= 2) {
		large_touched = large_size;
		for (size_t size = 8 * KIB; size <= MIB; size *= 8)
			fine &= holds_all_the_way(size, 1) &&
				holds_all_the_way(size, 5);
	}
	return !fine;
}

static int new_processes(uint32_t n)
{
	int good = 1;

	for (uint32_t seed = state; seed != state + n; seed++)
		good &= child_succeeds(new_process, &seed, 60, "idle");
	return good;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(ARRAY_SIZE(loads) * 4 + 8);
	state = test_seed();
	memset(block, 1, sizeof block);
	start = rss_kib();
	if (preloaded) {
		ok(new_processes(12),
			"128 MiB of 100 to 1000 bytes: idle after random frees");
		ok(child_succeeds(process_with_bound, &state, 60, "bound"),
			"HAKMEM_RETAIN=8M: stopped anywhere");
	} else {
		skip(2, "a promise of hakmem's only");
	}
	ok(returns_while_active(4 * MIB, 4 * MIB), "4 MiB: RSS falls");
	ok(returns_while_active(32, 370), "32 to 370 bytes: RSS falls");
	if (!preloaded) {
		skip(ARRAY_SIZE(loads) * 4 + 4, "a promise of hakmem's only");
		return done();
	}
	ok(holds_all_the_way(8 * KIB, 0), "random frees, stopped anywhere");
	ok(holds_all_the_way(8 * KIB, 1), "the same beside a large block a MiB");
	ok(holds_all_the_way(8 * KIB, 24), "the same beside a large block in 24 MiB");
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		idle_cases(&loads[i]);
	ok(idle_threads_hold_little(), "%d idle threads hold little", THREADS);
	return done();
}
