/*
 * Before main and after it: the first constructor, handlers of atexit, the
 * last destructor.  What is allocated in one is freed in another, and threads
 * come and go in between.
 *
 * The report is only complete when the last destructor ran, so the cases of
 * the destructors are judged in a child that exits.
 */
#include "under-preload.h"

#include <pthread.h>

#include "util.h"

static unsigned char *early, *kept[500], *middle;
static int in_child_process;

/* 101 is the first priority that is not the system's own. */
__attribute__((constructor(101))) static void first_constructor(void)
{
	early = malloc(1000);
	if (early)
		pattern_fill(early, 0, 1000, 1);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		kept[i] = malloc(i * 97 + 1);
		if (kept[i])
			pattern_fill(kept[i], 0, i * 97 + 1, (unsigned)i);
	}
}

static void *short_thread(void *unused)
{
	free(malloc(100));
	free(calloc(3, 30000));
	return unused;
}

static int thread_works(void)
{
	pthread_t thread;

	return !pthread_create(&thread, NULL, short_thread, NULL) &&
	       !pthread_join(thread, NULL);
}

static void at_exit(void)
{
	if (!in_child_process)
		return;
	free(middle);
	middle = malloc(300000);
	if (!middle || !thread_works())
		_exit(3);
	pattern_fill(middle, 0, 300000, 2);
}

static int early_blocks_are_whole(void)
{
	REQUIRE(early && pattern_check(early, 1000, 1) == 1000,
		"the first block is damaged");
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		REQUIRE(kept[i] && pattern_check(kept[i], i * 97 + 1,
					   (unsigned)i) == i * 97 + 1,
			"early block %zu is damaged", i);
	return 1;
}

__attribute__((destructor(101))) static void last_destructor(void)
{
	if (!in_child_process)
		return;
	if (!early_blocks_are_whole())
		_exit(4);
	early = realloc(early, 50000);
	if (!early || pattern_check(early, 1000, 1) != 1000)
		_exit(5);
	if (pattern_check(middle, 300000, 2) != 300000)
		_exit(6);
	free(early);
	free(middle);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		free(kept[i]);
	for (size_t i = 0; i < 2000; i++)
		free(malloc(i * 17));
	_exit(21);
}

static int exits(void *unused)
{
	in_child_process = 1;
	middle = calloc(1, 4096);
	exit(unused != NULL);
}

static int returns_from_thread(void *unused)
{
	in_child_process = 1;
	middle = calloc(1, 4096);
	(void)unused;
	if (!thread_works())
		return 9;
	exit(0);
}

/* 21 says that the last destructor came to its end. */
static int ends_with_21(int (*body)(void *))
{
	struct outcome o = in_child(body, NULL, 20);

	REQUIRE(!o.hung && !o.signal && o.status == 21,
		"signal %d, status %d, %s", o.signal, o.status, o.text);
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(4);
	atexit(at_exit);
	ok(early_blocks_are_whole(), "blocks of the first constructor");
	ok(ends_with_21(exits), "handlers of atexit, the last destructor");
	ok(ends_with_21(returns_from_thread), "the same after threads");
	ok(early_blocks_are_whole(),
		"the children's work changed nothing here");
	return done();
}
