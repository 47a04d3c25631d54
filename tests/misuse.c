/*
 * What the stock build catches when a program frees what it must not: each
 * misuse in a child of its own, which has to die of SIGABRT with one exact
 * line, at once or, where the caches stand in between, at the latest when
 * they are flushed.
 *
 * The table says what is promised; catching sooner is not a failure.  What
 * has gone back to the system is no block any more, so that a second free of
 * it is one of an invalid pointer.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "util.h"

enum when { AT_ONCE, AT_FLUSH };

/* Exit status of a child that got away with it. */
enum { NOT_CAUGHT = 7 };

struct misuse {
	const char *name;
	void (*act)(size_t n);
	size_t n; /* size of the block that is misused, where there is one */
	enum when when;
	const char *function, *what;
};

/* Where the child leaves the pointer that the message should name. */
static void **named;

/* Read back from there, so that the compiler cannot know what is freed. */
static void *names(void *p)
{
	*named = p;
	return *(void *volatile *)named;
}

static unsigned char *block(size_t n)
{
	unsigned char *p = malloc(n);

	if (!p)
		_exit(98);
	memset(p, 1, n);
	return p;
}

static void free_twice(size_t n)
{
	void *p = block(n);

	free(p);
	free(names(p));
}

static void free_twice_with_one_between(size_t n)
{
	void *p = block(n), *q = block(n);

	free(p);
	free(q);
	free(names(p));
}

static void free_twice_with_many_between(size_t n)
{
	void *p = block(n), *others[300];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = block(n);
	free(p);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		free(others[i]);
	free(names(p));
}

/* The first free has reached the bitmaps before the second one comes. */
static void free_twice_after_flush(size_t n)
{
	void *p = block(n), *keeps_the_slab = block(n);

	free(p);
	malloc_trim(0);
	free(names(p));
	(void)keeps_the_slab;
}

static void *free_in_thread(void *p)
{
	free(p);
	return NULL;
}

static void free_in_two_threads(size_t n)
{
	void *p = block(n);
	pthread_t thread;

	free(names(p));
	pthread_create(&thread, NULL, free_in_thread, p);
	pthread_join(thread, NULL);
}

static void free_after_thread(size_t n)
{
	void *p = block(n), *keeps_the_slab = block(n);
	pthread_t thread;

	pthread_create(&thread, NULL, free_in_thread, p);
	pthread_join(thread, NULL);
	free(names(p));
	(void)keeps_the_slab;
}

static void free_interior(size_t n)
{
	free(names(block(n) + (n > 32 ? 16 : n / 2)));
}

static void free_odd_address(size_t n)
{
	free(names(block(n) + 1));
}

/* The middle is in another page, and in large blocks in another granule. */
static void free_middle(size_t n)
{
	free(names(block(n) + n / 2 / 4096 * 4096));
}

/* Every block of a slab's size in a row: behind the last is its tail. */
static void free_tail_of_slab(size_t n)
{
	enum { GRANULE = 65536 };
	size_t room = malloc_usable_size(block(n));
	uintptr_t in_slab = (uintptr_t)block(n);
	uintptr_t base = in_slab & ~(uintptr_t)(GRANULE - 1);
	uintptr_t tail = base + GRANULE / room * room;

	free(names((void *)tail));
}

static void free_stack(size_t n)
{
	long on_stack[64] = {0};

	(void)n;
	free(names(on_stack + 2));
}

static void free_static(size_t n)
{
	static long in_data[64];

	(void)n;
	free(names(in_data + 2));
}

static void free_own_mapping(size_t n)
{
	free(names(mmap(NULL, n, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void free_unmapped(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p, n);
	free(names(p));
}

/* Any number for a pointer: n is the number. */
static void free_number(size_t n)
{
	free(names((void *)n));
}

/* Bits that no pointer of this process has, over those of a block. */
static void free_alias(size_t n)
{
	free(names((void *)((uintptr_t)block(n) | (uintptr_t)1 << 55)));
}

static void free_block_of_other_malloc(size_t n)
{
	void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	void *(*other)(size_t);

	if (!libc)
		_exit(98);
	*(void **)&other = dlsym(libc, "malloc");
	free(names(other(n)));
}

static void realloc_stack(size_t n)
{
	long on_stack[64] = {0};

	names(realloc(names(on_stack + 2), n));
}

static void realloc_interior(size_t n)
{
	names(realloc(names(block(n) + 16), n * 2));
}

static void realloc_number(size_t n)
{
	names(realloc(names((void *)n), 100));
}

static void realloc_freed(size_t n)
{
	void *p = names(block(n));

	free(p);
	names(realloc(names(p), n * 2));
}

static void usable_size_of_freed(size_t n)
{
	void *p = names(block(n));

	free(p);
	(void)malloc_usable_size(names(p));
}

static void usable_size_of_stack(size_t n)
{
	long on_stack[64] = {0};

	(void)n;
	(void)malloc_usable_size(names(on_stack + 2));
}

static void usable_size_of_interior(size_t n)
{
	(void)malloc_usable_size(names(block(n) + 16));
}

#define DOUBLE "free", "double free"
#define INVALID "free", "invalid pointer"
#define KB *1024

static const struct misuse misuses[] = {
	{"free twice, tiny", free_twice, 48, AT_ONCE, DOUBLE},
	{"free twice, 8 bytes", free_twice, 8, AT_ONCE, DOUBLE},
	{"free twice, 1 KiB", free_twice, 1 KB, AT_ONCE, DOUBLE},
	{"free twice, L2", free_twice, 3000, AT_ONCE, DOUBLE},
	{"free twice, L2.5", free_twice, 100 KB, AT_ONCE, DOUBLE},
	{"free twice, large", free_twice, 2048 KB, AT_ONCE, INVALID},
	{"free twice, huge", free_twice, 40960 KB, AT_ONCE, INVALID},

	{"one between, tiny", free_twice_with_one_between, 48, AT_FLUSH,
		DOUBLE},
	{"one between, L2", free_twice_with_one_between, 3000, AT_FLUSH,
		DOUBLE},
	{"one between, L2.5", free_twice_with_one_between, 100 KB, AT_ONCE,
		DOUBLE},
	{"one between, large", free_twice_with_one_between, 2048 KB, AT_ONCE,
		INVALID},
	{"many between, tiny", free_twice_with_many_between, 48, AT_FLUSH,
		DOUBLE},
	{"many between, L2", free_twice_with_many_between, 3000, AT_FLUSH,
		DOUBLE},

	{"after a flush, tiny", free_twice_after_flush, 48, AT_FLUSH, DOUBLE},
	{"after a flush, L2", free_twice_after_flush, 3000, AT_FLUSH, DOUBLE},
	{"after a flush, L2.5", free_twice_after_flush, 100 KB, AT_ONCE,
		DOUBLE},
	{"two threads, tiny", free_in_two_threads, 48, AT_FLUSH, DOUBLE},
	{"two threads, L2", free_in_two_threads, 3000, AT_FLUSH, DOUBLE},
	{"two threads, L2.5", free_in_two_threads, 100 KB, AT_ONCE, DOUBLE},
	{"after a thread, tiny", free_after_thread, 48, AT_FLUSH, DOUBLE},
	{"after a thread, L2", free_after_thread, 3000, AT_FLUSH, DOUBLE},

	{"interior, 16 bytes", free_interior, 16, AT_FLUSH, INVALID},
	{"interior, 48 bytes", free_interior, 48, AT_FLUSH, INVALID},
	{"interior, 1 KiB", free_interior, 1 KB, AT_FLUSH, INVALID},
	{"interior, L2", free_interior, 3000, AT_FLUSH, INVALID},
	{"interior, L2.5", free_interior, 100 KB, AT_ONCE, INVALID},
	{"interior, large", free_interior, 2048 KB, AT_ONCE, INVALID},
	{"interior, huge", free_interior, 40960 KB, AT_ONCE, INVALID},
	{"odd address, tiny", free_odd_address, 48, AT_FLUSH, INVALID},
	{"odd address, L2", free_odd_address, 3000, AT_FLUSH, INVALID},
	{"odd address, L2.5", free_odd_address, 100 KB, AT_ONCE, INVALID},
	{"middle, L2", free_middle, 30000, AT_FLUSH, INVALID},
	{"middle, L2.5", free_middle, 800 KB, AT_ONCE, INVALID},
	{"middle, large", free_middle, 2048 KB, AT_ONCE, INVALID},
	{"middle, huge", free_middle, 40960 KB, AT_ONCE, INVALID},
	{"tail of a slab, 48 bytes", free_tail_of_slab, 48, AT_FLUSH, INVALID},
	{"tail of a slab, 80 bytes", free_tail_of_slab, 80, AT_FLUSH, INVALID},
	{"tail of a slab, 96 bytes", free_tail_of_slab, 96, AT_FLUSH, INVALID},
	{"tail of a slab, 112 bytes", free_tail_of_slab, 112, AT_FLUSH,
		INVALID},
	{"tail of a slab, 896 bytes", free_tail_of_slab, 896, AT_FLUSH,
		INVALID},

	{"stack", free_stack, 0, AT_ONCE, INVALID},
	{"static data", free_static, 0, AT_ONCE, INVALID},
	{"a mapping of the program's", free_own_mapping, 64 KB, AT_ONCE,
		INVALID},
	{"no longer mapped", free_unmapped, 2048 KB, AT_ONCE, INVALID},
	{"the number 16", free_number, 16, AT_ONCE, INVALID},
	{"the largest number", free_number, ~(size_t)0, AT_ONCE, INVALID},
	{"no canonical address", free_number, (size_t)1 << 47, AT_ONCE,
		INVALID},
	{"an alias of a block", free_alias, 48, AT_FLUSH, INVALID},
	{"an alias of a large block", free_alias, 2048 KB, AT_ONCE, INVALID},
	{"block of another malloc", free_block_of_other_malloc, 100, AT_ONCE,
		INVALID},

	{"realloc of the stack", realloc_stack, 100, AT_ONCE, "realloc",
		"invalid pointer"},
	{"realloc of an interior", realloc_interior, 500, AT_ONCE, "realloc",
		"invalid pointer"},
	{"realloc of a number", realloc_number, 4096, AT_ONCE, "realloc",
		"invalid pointer"},
	{"realloc after free, large", realloc_freed, 2048 KB, AT_ONCE,
		"realloc", "invalid pointer"},
	{"realloc after free, L2.5", realloc_freed, 100 KB, AT_ONCE, "realloc",
		"invalid pointer"},
	{"usable size after free, L2.5", usable_size_of_freed, 100 KB, AT_ONCE,
		"usable_size", "invalid pointer"},
	{"usable size after free, huge", usable_size_of_freed, 40960 KB,
		AT_ONCE, "usable_size", "invalid pointer"},
	{"usable size of the stack", usable_size_of_stack, 0, AT_ONCE,
		"usable_size", "invalid pointer"},
	{"usable size of an interior", usable_size_of_interior, 500, AT_ONCE,
		"usable_size", "invalid pointer"},
};

static int commit(void *arg)
{
	const struct misuse *misuse = arg;

	*named = NULL;
	misuse->act(misuse->n);
	if (misuse->when == AT_FLUSH)
		malloc_trim(0);
	return NOT_CAUGHT;
}

static int is_caught(const struct misuse *misuse)
{
	struct outcome o = in_child(commit, (void *)misuse, 20);
	char wanted[200];

	snprintf(wanted, sizeof wanted, "hakmem: %s: %s: %p\n",
		misuse->function, misuse->what, *named);
	REQUIRE(!o.hung, "the child hung");
	REQUIRE(o.signal || o.status != NOT_CAUGHT, "it was not caught");
	REQUIRE(o.signal == SIGABRT, "signal %d, status %d", o.signal,
		o.status);
	REQUIRE(!strcmp(o.text, wanted), "wanted %s, got %s", wanted, o.text);
	return 1;
}

/* What HAKMEM_INVALID_FREE changes: a program of its own, it is read once. */
static const char *program;

static int start_with_policy(void *policy)
{
	setenv("HAKMEM_INVALID_FREE", policy, 1);
	execl("/proc/self/exe", program, "frees-wildly", (char *)NULL);
	return 98;
}

/* Goes on with a heap that is whole. */
static int frees_wildly(void)
{
	static long in_data[64];

	free(names(in_data + 2));
	free(names(block(2048 KB) + 16));
	for (size_t n = 1; n < 100000; n = n * 2 + 1) {
		void *q = malloc(n);

		if (!q)
			return 3;
		memset(q, 1, n);
		free(q);
	}
	return 0;
}

static size_t lines_in(const char *text)
{
	size_t lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static int policy_is_followed(const char *policy, int signal, size_t lines)
{
	struct outcome o = in_child(start_with_policy, (void *)policy, 20);

	REQUIRE(o.signal == signal && o.status == 0, "signal %d, status %d: %s",
		o.signal, o.status, o.text);
	REQUIRE(lines_in(o.text) == lines, "%zu lines: %s", lines_in(o.text),
		o.text);
	return 1;
}

int main(int argc, char **argv)
{
	under_preload(argv);
	program = argv[0];
	named = mmap(NULL, sizeof *named, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc > 1)
		return frees_wildly();
	if (!preloaded)
		skip_all("the messages are hakmem's");
	plan(ARRAY_SIZE(misuses) + 3);
	for (size_t i = 0; i < ARRAY_SIZE(misuses); i++)
		ok(is_caught(&misuses[i]), "%s", misuses[i].name);
	ok(policy_is_followed("abort", SIGABRT, 1),
		"HAKMEM_INVALID_FREE=abort");
	ok(policy_is_followed("warn", 0, 2), "HAKMEM_INVALID_FREE=warn");
	ok(policy_is_followed("ignore", 0, 0), "HAKMEM_INVALID_FREE=ignore");
	return done();
}
