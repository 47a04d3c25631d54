/*
 * A few blocks of each size, scattered over all of what was once allocated,
 * pin memory: of their pages, but not of their slabs.  And when they are
 * freed as well, they are few enough to stay in a thread's cache for good,
 * where they must not pin anything.
 */
#include "under-preload.h"

#include <malloc.h>
#include <sys/mman.h>

#include "util.h"

enum { SURVIVORS = 127, BINS = 8 };

static const size_t size[BINS] = {24, 48, 96, 256, 640, 1000, 1500, 6000};
static const size_t each = 12 << 20; /* bytes taken of each size */

static void *survivor[BINS][SURVIVORS];
static void **block;
static uint32_t state;
static long start;

static long rss_over_start(void)
{
	return rss_kib() - start;
}

/* Random blocks change places with the first ones, which are kept. */
static void pick_survivors(int bin, size_t count)
{
	for (size_t i = 0; i < SURVIVORS; i++) {
		size_t other = i + below(&state, (uint32_t)(count - i));
		void *p = block[other];

		block[other] = block[i];
		survivor[bin][i] = p;
	}
}

static void leave_survivors(int bin)
{
	size_t n = size[bin], count = each / n;

	for (size_t i = 0; i < count; i++) {
		block[i] = malloc(n);
		if (!block[i])
			bail("malloc(%zu) gave NULL", n);
		memset(block[i], bin + 1, n);
	}
	pick_survivors(bin, count);
	for (size_t i = SURVIVORS; i < count; i++)
		free(block[i]);
}

static int survivors_are_whole(void)
{
	for (int bin = 0; bin < BINS; bin++)
		for (size_t i = 0; i < SURVIVORS; i++) {
			unsigned char *p = survivor[bin][i];

			for (size_t at = 0; at < size[bin]; at++)
				REQUIRE(p[at] == bin + 1,
					"byte %zu of a block of %zu changed",
					at, size[bin]);
		}
	return 1;
}

/* Pages that survivors lie in, were each alone in its pages. */
static long pinned_kib(void)
{
	long page = sysconf(_SC_PAGESIZE) / 1024, sum = 0;

	for (int bin = 0; bin < BINS; bin++) {
		long pages = (long)(size[bin] / 1024) / page + 1;

		sum += SURVIVORS * (pages + (pages > 1)) * page;
	}
	return sum;
}

static int falls_to(long bound, const char *when)
{
	double deadline = wall_seconds() + 2;

	while (rss_over_start() > bound && wall_seconds() < deadline)
		sleep_ms(10);
	diag("%s: RSS %ld KiB, allowed %ld", when, rss_over_start(), bound);
	return rss_over_start() <= bound;
}

int main(int argc, char **argv)
{
	size_t most = each / size[0];

	(void)argc;
	under_preload(argv);
	if (!preloaded)
		skip_all("a promise of hakmem's only");
	plan(5);
	state = test_seed();
	block = mmap(NULL, most * sizeof *block, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	start = rss_kib();
	for (int bin = 0; bin < BINS; bin++)
		leave_survivors(bin);
	ok(falls_to(pinned_kib() + 20 * 1024, "random survivors"),
		"survivors pin their pages and no more");
	malloc_trim(0);
	ok(falls_to(pinned_kib() + 4 * 1024, "after malloc_trim"),
		"a trim gives back all but these pages");
	ok(survivors_are_whole(), "survivors are whole");
	for (int bin = 0; bin < BINS; bin++)
		for (size_t i = 0; i < SURVIVORS; i++)
			free(survivor[bin][i]);
	ok(falls_to(20 * 1024, "after the last free"),
		"blocks in a cache pin nothing much");
	malloc_trim(0);
	ok(falls_to(3 * 1024, "after malloc_trim"), "nor after a trim");
	return done();
}
