/*
 * glibc's own functions for statistics and tuning, under the preload library:
 * that they are hakmem's, and what a program may rely on.
 */
#include "hakmem.h"

#include "tap.h"

#include <malloc.h>
#include <pthread.h>

enum { BLOCKS = 500 };

static void *blocks[BLOCKS];

static struct hakmem_stats now(void)
{
	struct hakmem_stats stats = { .struct_size = sizeof stats };

	hakmem_stats_get(&stats);
	return stats;
}

/* Blocks of one size in waves: a thread's depot keeps some of them. */
static void fill_depot(void)
{
	static void *many[3000];

	for (int wave = 0; wave < 5; wave++) {
		for (int i = 0; i < 3000; i++)
			many[i] = malloc(64);
		for (int i = 0; i < 3000; i++)
			free(many[i]);
	}
}

static void free_in_bins(size_t *cached, size_t *rest)
{
	struct hakmem_bin_stats bin = { .struct_size = sizeof bin };

	*cached = *rest = 0;
	for (unsigned n = 0; hakmem_stats_get_bin(n, &bin) == 0; n++) {
		*cached += bin.front + bin.depot + bin.spill;
		*rest += bin.free;
	}
}

static void test_mallinfo2(void)
{
	struct mallinfo2 before = mallinfo2(), after;
	size_t total = 0, cached, rest;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(160 * (size_t)i + 1);
		total += malloc_usable_size(blocks[i]);
	}
	after = mallinfo2();
	is_size(after.uordblks - before.uordblks, total,
		"mallinfo2: uordblks moves with what is taken");
	ok(after.arena >= after.uordblks, "mallinfo2: arena holds it");
	is_size(after.fordblks, after.arena - after.uordblks,
		"mallinfo2: fordblks is the rest");
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	after = mallinfo2();
	is_size(after.uordblks, before.uordblks, "mallinfo2: all given back");
	fill_depot();
	after = mallinfo2();
	ok(now().depot_bytes > 0, "mallinfo2: full magazines wait");
	free_in_bins(&cached, &rest);
	ok(cached > 0 && rest > 0, "mallinfo2: there are free blocks");
	is_size(after.smblks, cached, "mallinfo2: free blocks in caches");
	is_size(after.ordblks, rest, "mallinfo2: free blocks elsewhere");
	ok(after.fsmblks >= 8 * after.smblks, "mallinfo2: and their bytes");
	blocks[0] = malloc(40 << 20);
	after = mallinfo2();
	is_size(after.hblks - before.hblks, 1, "mallinfo2: a mapping");
	is_size(after.hblkhd - before.hblkhd, 40 << 20,
		"mallinfo2: and its bytes");
	is_size(after.uordblks, before.uordblks,
		"mallinfo2: which uordblks leaves out");
	free(blocks[0]);
	is_size(mallinfo2().keepcost, now().retained_bytes,
		"mallinfo2: keepcost is what is retained");
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void test_mallinfo(void)
{
	struct mallinfo narrow;
	void *huge;

	blocks[0] = malloc(1000);
	narrow = mallinfo();
	is_size((size_t)narrow.uordblks, mallinfo2().uordblks,
		"mallinfo: the same in an int");
	free(blocks[0]);
	huge = malloc((size_t)3 << 30);
	if (huge == NULL)
		skip(1, "no 3 GB of address space");
	else
		is_int(mallinfo().hblkhd, __INT_MAX__,
			"mallinfo: the most that an int holds");
	free(huge);
}

static void test_malloc_info(void)
{
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);

	is_int(malloc_info(1, to), EINVAL, "malloc_info: no options");
	is_int(malloc_info(0, to), 0, "malloc_info: writes");
	fclose(to);
	ok(strncmp(text, "<malloc version=\"1\">\n", 21) == 0 &&
		strcmp(text + length - 10, "</malloc>\n") == 0,
		"malloc_info: from beginning to end");
	free(text);
	to = fopen("/dev/full", "w");
	if (to == NULL) {
		skip(1, "no /dev/full");
		return;
	}
	setvbuf(to, NULL, _IONBF, 0);
	ok(malloc_info(0, to) != 0, "malloc_info: tells a failed write");
	fclose(to);
}

static void print_stats(void)
{
	malloc_stats();
}

/* Deferred cancellation must not strike inside: locks may be held there. */
static void *cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	malloc_stats();
	*(int *)arg = 1;
	pthread_testcancel();
	*(int *)arg = 2;
	return NULL;
}

static int came_through;

static void cancel_in_stats(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, cancelled, &came_through);
	pthread_join(thread, NULL);
	free(malloc(100));
	_exit(came_through);
}

static void test_malloc_stats(void)
{
	static char text[32768];
	int status;

	is_int(tap_child(print_stats, &status, text, sizeof text), 0,
		"malloc_stats: prints");
	ok(strstr(text, "live_bytes") != NULL && text[strlen(text) - 1] == '\n',
		"malloc_stats: on standard error");
	tap_child(cancel_in_stats, &status, text, sizeof text);
	is_int(WEXITSTATUS(status), 1,
		"malloc_stats: is no cancellation point");
}

static void append(void *to, const char *text)
{
	strcat(to, text);
}

static void test_mallopt(void)
{
	size_t limit = now().retain_limit_bytes;
	static char text[32768];

	is_int(mallopt(M_TRIM_THRESHOLD, 256 << 20), 1, "mallopt: retain");
	hakmem_stats_print(HAKMEM_STATS_TEXT, append, text);
	ok(strstr(text, "\n  HAKMEM_RETAIN=256M\n") != NULL,
		"mallopt: statistics show what it changed");
	/* The bound is worked out anew when memory moves. */
	for (int i = 0; i < 100; i++)
		blocks[i] = malloc(1 << 20);
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	ok(limit < 64 << 20 && now().retain_limit_bytes > 128 << 20,
		"mallopt: the bound has moved");
	is_int(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1,
		"mallopt: takes what glibc knows");
	is_int(mallopt(-1000, 1), 0, "mallopt: refuses what it does not");
}

static void test_trim(void)
{
	static void *many[10000];

	for (int i = 0; i < 10000; i++)
		many[i] = memset(malloc(2000), 1, 2000);
	for (int i = 0; i < 10000; i++)
		free(many[i]);
	is_int(malloc_trim(0), 1, "malloc_trim: gives back");
	is_size(now().retained_bytes, 0, "malloc_trim: everything");
}

int main(void)
{
	plan(29);
	test_mallinfo2();
	test_mallinfo();
	test_malloc_info();
	test_malloc_stats();
	test_mallopt();
	test_trim();
	return done();
}
