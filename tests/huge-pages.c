/*
 * Huge pages are asked for where memory is dense, and not where pages were
 * given back: the kernel would fill such holes again, behind the program's
 * back. Where all has become free they are asked for again.
 */
#include "under-preload.h"

#include "util.h"

enum { SIZE = 8192, BLOCKS = 16384, MOST = 128 * 1024 };
static char *block[BLOCKS];
static unsigned taken;
static uint32_t state;

/* KiB that are resident where huge pages are asked for. */
static long advised_kib(void)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	long rss = 0, sum = 0;
	char line[512];

	while (maps && fgets(line, sizeof line, maps)) {
		sscanf(line, "Rss: %ld", &rss);
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " hg"))
			sum += rss;
	}
	if (maps)
		fclose(maps);
	return sum;
}

static void take(unsigned most)
{
	while (taken < most) {
		block[taken] = malloc(SIZE);
		if (!block[taken])
			bail("no memory");
		memset(block[taken++], 1, SIZE);
	}
}

static void give_back_at_random(unsigned left)
{
	while (taken > left) {
		unsigned i = below(&state, taken);

		free(block[i]);
		block[i] = block[--taken];
	}
}

int main(int argc, char **argv)
{
	long kib;

	(void)argc;
	under_preload(argv);
	plan(3);
	state = test_seed();
	if (!preloaded) {
		skip(3, "a promise of hakmem's only");
		return done();
	}
	take(BLOCKS);
	kib = advised_kib();
	if (!kib) {
		skip(3, "the kernel has no huge pages");
		return done();
	}
	ok(kib > MOST / 4 * 3, "%ld KiB of %d are advised", kib, MOST);
	give_back_at_random(BLOCKS / 8);
	kib = advised_kib();
	ok(kib < MOST / 16, "an eighth stays, scattered: %ld KiB are", kib);
	give_back_at_random(0);
	take(BLOCKS / 2);
	kib = advised_kib();
	ok(kib > MOST / 32, "half is taken again: %ld KiB are", kib);
	return done();
}
