/*
 * What is caught when a program frees what it must not, or writes where it
 * must not: each misuse in a child of its own, which has to die of SIGABRT with
 * one exact line, at once or, where the caches stand in between, at the latest
 * when they are flushed.  Built twice: as it is for the stock allocator, with
 * CHECKED for HAKMEM_CHECK=1, where more lines follow.
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

enum when { AT_ONCE, AT_FLUSH, BY_SIGNAL, NEVER };

/* Exit status of a child that got away with it, and of one whose malloc has no
 * such function. */
enum { NOT_CAUGHT = 7, NOT_THERE = 8 };

struct promise {
	enum when when;
	const char *function, *what;
};

struct misuse {
	const char *name;
	void (*act)(size_t n);
	size_t n; /* size of the block that is misused, where there is one */
	struct promise stock, checked;
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

/* More than any cache or quarantine holds. */
static void free_twice_with_many_between(size_t n)
{
	void *p = block(n), *keeps_the_slab = block(n), *others[300];
	size_t many = n < 1 << 20 ? ARRAY_SIZE(others) : 20;

	for (size_t i = 0; i < many; i++)
		others[i] = malloc(n);
	free(p);
	for (size_t i = 0; i < many; i++)
		free(others[i]);
	free(names(p));
	(void)keeps_the_slab;
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

/* What else is no live block: each is freed, resized and asked for its size. */
static void *static_data(size_t n)
{
	static long in_data[64];

	(void)n;
	return in_data + 2;
}

static void *own_mapping(size_t n)
{
	return mmap(NULL, n, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *unmapped(size_t n)
{
	void *p = own_mapping(n);

	munmap(p, n);
	return p;
}

/* Any number for a pointer: n is the number. */
static void *number(size_t n)
{
	return (void *)n;
}

/* Bits that no pointer of this process has, over those of a block. */
static void *alias(size_t n)
{
	return (void *)((uintptr_t)block(n) | (uintptr_t)1 << 55);
}

static void *block_of_other_malloc(size_t n)
{
	void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	void *(*other)(size_t);

	if (!libc)
		_exit(98);
	*(void **)&other = dlsym(libc, "malloc");
	return other(n);
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

static void write_past_end(size_t n)
{
	unsigned char *p = block(n);

	p[n] ^= 1;
	free(names(p));
}

static void write_before_start(size_t n)
{
	unsigned char *p = names(block(n));

	p[-1] ^= 1;
	free(p);
}

static void write_past_end_of_resized(size_t n)
{
	unsigned char *p = realloc(block(n / 2), n);

	p[n] ^= 1;
	free(names(p));
}

/* The end of a page, where n is a multiple of 16. */
static void write_past_page(size_t n)
{
	unsigned char *end = names(block(n) + n);

	*end ^= 1;
}

static void read_past_page(size_t n)
{
	*(volatile unsigned char *)names(block(n) + n);
}

static void write_past_page_of_resized(size_t n)
{
	unsigned char *end = names((unsigned char *)realloc(block(n / 2), n) + n);

	*end ^= 1;
}

static void read_past_page_of_freed(size_t n)
{
	unsigned char *p = block(n);

	named[0] = p + n;
	free(p);
	*(volatile unsigned char *)named[0];
}

static void write_past_end_and_keep(size_t n)
{
	unsigned char *p = names(block(n));

	p[n] ^= 1;
}

static void write_after_free(size_t n)
{
	unsigned char *p = names(block(n));

	free(p);
	p[n / 2 % 60000] ^= 1;
}

static void write_past_freed(size_t n)
{
	unsigned char *p = names(block(n));

	free(p);
	p[n] ^= 1;
	for (int i = 0; i < 100000; i++)
		free(block(1000));
}

/* Not in every malloc, nor declared by every header. */
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
/* Of C++: delete with a size, with an alignment, with both. */
extern void _ZdlPvm(void *, size_t) __attribute__((weak));
extern void _ZdlPvSt11align_val_t(void *, size_t) __attribute__((weak));
extern void _ZdlPvmSt11align_val_t(void *, size_t, size_t)
	__attribute__((weak));
extern void *_Znwm(size_t) __attribute__((weak));
extern void *_ZnwmSt11align_val_t(size_t, size_t) __attribute__((weak));
/* First-class heaps: hakmem's own. */
extern void *hakmem_heap_new(void) __attribute__((weak));
extern void hakmem_heap_destroy(void *) __attribute__((weak));
extern void *hakmem_heap_malloc(void *, size_t) __attribute__((weak));
extern void *hakmem_heap_realloc(void *, void *, size_t) __attribute__((weak));

static void need(int there)
{
	if (!there)
		_exit(NOT_THERE);
}

static void free_sized_wrongly(size_t n)
{
	need(free_sized != NULL);
	free_sized(names(block(n)), n + 1);
}

static void free_sized_twice(size_t n)
{
	void *p = block(n);

	need(free_sized != NULL);
	free_sized(p, n);
	free_sized(names(p), n);
}

static void free_aligned_wrong_size(size_t n)
{
	need(free_aligned_sized != NULL);
	free_aligned_sized(names(aligned_alloc(64, n)), 64, n - 1);
}

static void free_aligned_wrong_alignment(size_t n)
{
	need(free_aligned_sized != NULL);
	free_aligned_sized(names(aligned_alloc(64, n)), 128, n);
}

static void free_aligned_by_nothing(size_t n)
{
	need(free_aligned_sized != NULL);
	free_aligned_sized(names(block(n)), 0, n);
}

static void free_largest_size(size_t n)
{
	need(free_sized != NULL);
	free_sized(names(block(n)), SIZE_MAX);
}

static void free_sized_of_aligned(size_t n)
{
	need(free_sized != NULL);
	free_sized(names(aligned_alloc(64, n)), n);
}

static void delete_wrong_size(size_t n)
{
	need(_ZdlPvm != NULL && _Znwm != NULL);
	_ZdlPvm(names(_Znwm(n)), n - 8);
}

static void delete_wrong_alignment(size_t n)
{
	need(_ZdlPvSt11align_val_t != NULL && _ZnwmSt11align_val_t != NULL);
	_ZdlPvSt11align_val_t(names(_ZnwmSt11align_val_t(n, 64)), 32);
}

static void delete_aligned_wrong_size(size_t n)
{
	need(_ZdlPvmSt11align_val_t != NULL && _ZnwmSt11align_val_t != NULL);
	_ZdlPvmSt11align_val_t(names(_ZnwmSt11align_val_t(n, 64)), n + 8, 64);
}

/* Each function that allocates: what it gave, overflown by one. */
static void past_the_end_of(unsigned char *p, size_t n)
{
	p[n] ^= 1;
	free(names(p));
}

static void past_calloc(size_t n)
{
	past_the_end_of(calloc(1, n), n);
}

static void past_aligned_alloc(size_t n)
{
	past_the_end_of(aligned_alloc(256, n), n);
}

static void past_memalign(size_t n)
{
	past_the_end_of(memalign(4096, n), n);
}

static void past_valloc(size_t n)
{
	past_the_end_of(valloc(n), n);
}

static void past_posix_memalign(size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, 32, n))
		_exit(98);
	past_the_end_of(p, n);
}

static void past_reallocarray(size_t n)
{
	past_the_end_of(reallocarray(block(8), 1, n), n);
}

static void past_new(size_t n)
{
	need(_Znwm != NULL);
	past_the_end_of(_Znwm(n), n);
}

static void past_heap_malloc(size_t n)
{
	need(hakmem_heap_malloc != NULL);
	past_the_end_of(hakmem_heap_malloc(hakmem_heap_new(), n), n);
}

static void past_heap_realloc(size_t n)
{
	void *heap;

	need(hakmem_heap_realloc != NULL);
	heap = hakmem_heap_new();
	past_the_end_of(hakmem_heap_realloc(heap, hakmem_heap_malloc(heap, 8),
			n), n);
}

static void past_heap_destroyed(size_t n)
{
	unsigned char *p;
	void *heap;

	need(hakmem_heap_malloc != NULL);
	heap = hakmem_heap_new();
	p = names(hakmem_heap_malloc(heap, n));
	p[n] ^= 1;
	hakmem_heap_destroy(heap);
}

static void free_heap_twice(size_t n)
{
	void *p, *q;

	need(hakmem_heap_malloc != NULL);
	p = hakmem_heap_new();
	q = hakmem_heap_malloc(p, n);
	hakmem_heap_malloc(p, n);
	free(q);
	free(names(q));
}

static void free_heap_interior(size_t n)
{
	need(hakmem_heap_malloc != NULL);
	free(names((char *)hakmem_heap_malloc(hakmem_heap_new(), n) + 16));
}

static void realloc_in_other_heap(size_t n)
{
	void *p;

	need(hakmem_heap_realloc != NULL);
	p = names(hakmem_heap_malloc(hakmem_heap_new(), n));
	hakmem_heap_realloc(hakmem_heap_new(), p, 2 * n);
}

static void *block_of_destroyed_heap(size_t n)
{
	void *heap, *p;

	need(hakmem_heap_malloc != NULL);
	heap = hakmem_heap_new();
	p = hakmem_heap_malloc(heap, n);
	hakmem_heap_destroy(heap);
	return p;
}

static void free_in_child_again(size_t n)
{
	void *p = block(n);
	int status;
	pid_t child;

	free(p);
	child = fork();
	if (!child)
		free(names(p));
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
}

#define ALL_CALLS(pointer)                                                     \
	static void free_##pointer(size_t n)                                   \
	{                                                                      \
		free(names(pointer(n)));                                       \
	}                                                                      \
	static void realloc_##pointer(size_t n)                                \
	{                                                                      \
		names(realloc(names(pointer(n)), 100));                        \
	}                                                                      \
	static void usable_size_of_##pointer(size_t n)                         \
	{                                                                      \
		(void)malloc_usable_size(names(pointer(n)));                   \
	}

ALL_CALLS(static_data)
ALL_CALLS(own_mapping)
ALL_CALLS(unmapped)
ALL_CALLS(number)
ALL_CALLS(alias)
ALL_CALLS(block_of_other_malloc)
ALL_CALLS(block_of_destroyed_heap)

/* Crash handlers allocate, and start a debugger. */
static void forks_and_allocates(int signal)
{
	pid_t child = fork();

	(void)signal;
	free(block(100));
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void write_after_free_with_handler(size_t n)
{
	signal(SIGABRT, forks_and_allocates);
	for (int i = 0; i < 100000; i++) {
		unsigned char *p = block(n);

		free(p);
		if (i == 5)
			names(p);
		if (i == 5)
			p[0] ^= 1;
	}
}

#define DOUBLE "free", "double free"
#define DOUBLE_SIZED "free_sized", "double free"
#define INVALID "free", "invalid pointer"
#define REALLOC "realloc", "invalid pointer"
#define REALLOC_FREED "realloc", "freed block"
#define USABLE "usable_size", "invalid pointer"
#define USABLE_FREED "usable_size", "freed block"
#define PAST "free", "write past the end"
#define BEFORE "free", "write before the start"
#define ACCESS "check", "access past the end"
#define NOTHING NEVER, "", ""
#define OTHER_HEAP "heap_realloc", "block of another heap"
#define KB *1024

/* Of each region, what is told at once in either mode. */
#define ALL_SIZES(name, act, ...)                                              \
	{name ", tiny", act, 48, {AT_ONCE, __VA_ARGS__},                       \
		{AT_ONCE, __VA_ARGS__}},                                       \
	{name ", L2", act, 3000, {AT_ONCE, __VA_ARGS__},                       \
		{AT_ONCE, __VA_ARGS__}},                                       \
	LARGER_SIZES(name, act, __VA_ARGS__)
#define LARGER_SIZES(name, act, ...)                                           \
	{name ", L2.5", act, 100 KB, {AT_ONCE, __VA_ARGS__},                   \
		{AT_ONCE, __VA_ARGS__}},                                       \
	{name ", large", act, 2048 KB, {AT_ONCE, __VA_ARGS__},                 \
		{AT_ONCE, __VA_ARGS__}},                                       \
	{name ", huge", act, 40960 KB, {AT_ONCE, __VA_ARGS__},                 \
		{AT_ONCE, __VA_ARGS__}}
#define ONE_SIZE(name, act, size, ...)                                         \
	{name, act, size, {AT_ONCE, __VA_ARGS__}, {AT_ONCE, __VA_ARGS__}}

static const struct misuse misuses[] = {
	{"free twice, tiny", free_twice, 48, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"free twice, 8 bytes", free_twice, 8, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"free twice, 1 KiB", free_twice, 1 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"free twice, L2", free_twice, 3000, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"free twice, L2.5", free_twice, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"free twice, large", free_twice, 2048 KB, {AT_ONCE, INVALID},
		{AT_ONCE, DOUBLE}},
	{"free twice, huge", free_twice, 40960 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"one between, tiny", free_twice_with_one_between, 48, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"one between, L2", free_twice_with_one_between, 3000, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"one between, L2.5", free_twice_with_one_between, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"one between, large", free_twice_with_one_between, 2048 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, DOUBLE}},
	{"one between, huge", free_twice_with_one_between, 40960 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"many between, tiny", free_twice_with_many_between, 48, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"many between, L2", free_twice_with_many_between, 3000, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"many between, L2.5", free_twice_with_many_between, 100 KB,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"many between, large", free_twice_with_many_between, 2048 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, INVALID}},
	{"many between, huge", free_twice_with_many_between, 40960 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, INVALID}},
	{"after a flush, tiny", free_twice_after_flush, 48, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a flush, L2", free_twice_after_flush, 3000, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a flush, L2.5", free_twice_after_flush, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a flush, large", free_twice_after_flush, 2048 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, DOUBLE}},
	{"after a flush, huge", free_twice_after_flush, 40960 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"two threads, tiny", free_in_two_threads, 48, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"two threads, L2", free_in_two_threads, 3000, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"two threads, L2.5", free_in_two_threads, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"two threads, large", free_in_two_threads, 2048 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, DOUBLE}},
	{"two threads, huge", free_in_two_threads, 40960 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"after a thread, tiny", free_after_thread, 48, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a thread, L2", free_after_thread, 3000, {AT_FLUSH, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a thread, L2.5", free_after_thread, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE}},
	{"after a thread, large", free_after_thread, 2048 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, DOUBLE}},
	{"after a thread, huge", free_after_thread, 40960 KB,
		{AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, 16 bytes", free_interior, 16, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, 48 bytes", free_interior, 48, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, 1 KiB", free_interior, 1 KB, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, L2", free_interior, 3000, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, L2.5", free_interior, 100 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, large", free_interior, 2048 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"interior, huge", free_interior, 40960 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"odd address, tiny", free_odd_address, 48, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"odd address, L2", free_odd_address, 3000, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"odd address, L2.5", free_odd_address, 100 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"odd address, large", free_odd_address, 2048 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"odd address, huge", free_odd_address, 40960 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"middle, L2", free_middle, 30000, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"middle, L2.5", free_middle, 800 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"middle, large", free_middle, 2048 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"middle, huge", free_middle, 40960 KB, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	{"tail of a slab, 48 bytes", free_tail_of_slab, 48, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"tail of a slab, 80 bytes", free_tail_of_slab, 80, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"tail of a slab, 96 bytes", free_tail_of_slab, 96, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"tail of a slab, 112 bytes", free_tail_of_slab, 112, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"tail of a slab, 896 bytes", free_tail_of_slab, 896, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"stack", free_stack, 0, {AT_ONCE, INVALID},
		{AT_ONCE, INVALID}},
	ONE_SIZE("static data", free_static_data, 0, INVALID),
	ONE_SIZE("a mapping of the program's", free_own_mapping, 64 KB, INVALID),
	ONE_SIZE("no longer mapped", free_unmapped, 2048 KB, INVALID),
	ONE_SIZE("the number 16", free_number, 16, INVALID),
	ONE_SIZE("the largest number", free_number, ~(size_t)0, INVALID),
	ONE_SIZE("no canonical address", free_number, (size_t)1 << 47, INVALID),
	{"an alias of a block, tiny", free_alias, 48, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	{"an alias of a block, L2", free_alias, 3000, {AT_FLUSH, INVALID},
		{AT_ONCE, INVALID}},
	LARGER_SIZES("an alias of a block", free_alias, INVALID),
	ONE_SIZE("block of another malloc", free_block_of_other_malloc, 100,
		INVALID),
	ONE_SIZE("block of another malloc, mapped", free_block_of_other_malloc,
		2048 KB, INVALID),
	{"realloc of the stack", realloc_stack, 100, {AT_ONCE, REALLOC},
		{AT_ONCE, REALLOC}},
	{"realloc of an interior, tiny", realloc_interior, 500,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	{"realloc of an interior, L2", realloc_interior, 3000,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	{"realloc of an interior, L2.5", realloc_interior, 100 KB,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	{"realloc of an interior, large", realloc_interior, 2048 KB,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	{"realloc of an interior, huge", realloc_interior, 40960 KB,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	ONE_SIZE("realloc of a number", realloc_number, 4096, REALLOC),
	ONE_SIZE("realloc of static data", realloc_static_data, 0, REALLOC),
	ONE_SIZE("realloc of a mapping", realloc_own_mapping, 64 KB, REALLOC),
	ONE_SIZE("realloc, no longer mapped", realloc_unmapped, 2048 KB, REALLOC),
	ONE_SIZE("realloc, another malloc's", realloc_block_of_other_malloc, 100,
		REALLOC),
	ONE_SIZE("realloc, another malloc's, mapped",
		realloc_block_of_other_malloc, 2048 KB, REALLOC),
	ALL_SIZES("realloc of an alias", realloc_alias, REALLOC),
	ALL_SIZES("realloc, heap destroyed", realloc_block_of_destroyed_heap,
		REALLOC),
	{"realloc after free, large", realloc_freed, 2048 KB, {AT_ONCE, REALLOC},
		{AT_ONCE, REALLOC_FREED}},
	{"realloc after free, L2.5", realloc_freed, 100 KB, {AT_ONCE, REALLOC},
		{AT_ONCE, REALLOC_FREED}},
	{"usable size after free, L2.5", usable_size_of_freed, 100 KB,
		{AT_ONCE, USABLE},
		{AT_ONCE, USABLE_FREED}},
	{"usable size of the stack", usable_size_of_stack, 0, {AT_ONCE, USABLE},
		{AT_ONCE, USABLE}},
	ONE_SIZE("usable size of a number", usable_size_of_number, 4096, USABLE),
	ONE_SIZE("usable size of static data", usable_size_of_static_data, 0,
		USABLE),
	ONE_SIZE("usable size of a mapping", usable_size_of_own_mapping, 64 KB,
		USABLE),
	ONE_SIZE("usable size, no longer mapped", usable_size_of_unmapped,
		2048 KB, USABLE),
	ONE_SIZE("usable size, another malloc's",
		usable_size_of_block_of_other_malloc, 100, USABLE),
	ONE_SIZE("usable size, another malloc's, mapped",
		usable_size_of_block_of_other_malloc, 2048 KB, USABLE),
	ALL_SIZES("usable size of an alias", usable_size_of_alias, USABLE),
	ALL_SIZES("usable size, heap destroyed",
		usable_size_of_block_of_destroyed_heap, USABLE),
	{"usable size of an interior, tiny", usable_size_of_interior, 500,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},
	{"usable size of an interior, L2", usable_size_of_interior, 3000,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},
	{"usable size of an interior, L2.5", usable_size_of_interior, 100 KB,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},
	{"usable size of an interior, large", usable_size_of_interior, 2048 KB,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},
	{"usable size of an interior, huge", usable_size_of_interior, 40960 KB,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},

	{"realloc after free, tiny", realloc_freed, 48, {NOTHING},
		{AT_ONCE, REALLOC_FREED}},
	{"realloc after free, L2", realloc_freed, 3000, {NOTHING},
		{AT_ONCE, REALLOC_FREED}},
	{"realloc after free, huge", realloc_freed, 40960 KB,
		{AT_ONCE, REALLOC}, {AT_ONCE, REALLOC}},
	{"usable size after free, tiny", usable_size_of_freed, 48, {NOTHING},
		{AT_ONCE, USABLE_FREED}},
	{"usable size after free, L2", usable_size_of_freed, 3000, {NOTHING},
		{AT_ONCE, USABLE_FREED}},
	{"usable size after free, huge", usable_size_of_freed, 40960 KB,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE}},
	{"usable size after free, large", usable_size_of_freed, 2048 KB,
		{AT_ONCE, USABLE}, {AT_ONCE, USABLE_FREED}},
	{"one byte past the end, tiny", write_past_end, 48, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte past the end, 8 bytes", write_past_end, 8, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte past the end, L2", write_past_end, 3000, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte past the end, L2.5", write_past_end, 100001, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte past the end, large", write_past_end, 2000001, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte past the end, huge", write_past_end, 40000001, {NOTHING},
		{AT_ONCE, PAST}},
	{"one byte before the start, tiny", write_before_start, 48, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"one byte before the start, 8 bytes", write_before_start, 8, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"one byte before the start, L2", write_before_start, 3000, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"one byte before the start, L2.5", write_before_start, 100001, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"one byte before the start, large", write_before_start, 2000001, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"one byte before the start, huge", write_before_start, 40000001, {NOTHING},
		{AT_ONCE, BEFORE}},
	{"past the end after realloc, tiny", write_past_end_of_resized, 48,
		{NOTHING}, {AT_ONCE, PAST}},
	{"past the end after realloc, L2", write_past_end_of_resized, 3000,
		{NOTHING}, {AT_ONCE, PAST}},
	{"past the end after realloc, L2.5", write_past_end_of_resized, 100001,
		{NOTHING}, {AT_ONCE, PAST}},
	{"past the end after realloc, large", write_past_end_of_resized, 2000001,
		{NOTHING}, {AT_ONCE, PAST}},
	{"past the end after realloc, huge", write_past_end_of_resized, 40000001,
		{NOTHING}, {AT_ONCE, PAST}},
#define AT_PAGE(function, region, n)                                           \
	{#function ", " region, function, n, {NOTHING}, {AT_ONCE, ACCESS}}
	AT_PAGE(write_past_page, "L2.5", 100 KB),
	AT_PAGE(write_past_page, "large", 2048 KB),
	AT_PAGE(write_past_page, "huge", 40960 KB),
	AT_PAGE(read_past_page, "L2.5", 100 KB),
	AT_PAGE(read_past_page, "large", 2048 KB),
	AT_PAGE(read_past_page, "huge", 40960 KB),
	AT_PAGE(write_past_page_of_resized, "L2.5", 100 KB),
	AT_PAGE(write_past_page_of_resized, "large", 2048 KB),
	AT_PAGE(write_past_page_of_resized, "huge", 40960 KB),
	AT_PAGE(read_past_page_of_freed, "L2.5", 100 KB),
	AT_PAGE(read_past_page_of_freed, "large", 2048 KB),
	{"past the end, not freed, tiny", write_past_end_and_keep, 48,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"past the end, not freed, 8 bytes", write_past_end_and_keep, 8,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"past the end, not freed, L2", write_past_end_and_keep, 3000,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"past the end, not freed, L2.5", write_past_end_and_keep, 100001,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"past the end, not freed, large", write_past_end_and_keep, 2000001,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"past the end, not freed, huge", write_past_end_and_keep, 40000001,
		{NOTHING}, {AT_FLUSH, "check", "write past the end"}},
	{"write after free, tiny", write_after_free, 48, {NOTHING},
		{AT_FLUSH, "check", "write after free"}},
	{"write after free, 8 bytes", write_after_free, 8, {NOTHING},
		{AT_FLUSH, "check", "write after free"}},
	{"write after free, L2", write_after_free, 3000, {NOTHING},
		{AT_FLUSH, "check", "write after free"}},
	{"write after free, L2.5", write_after_free, 100001, {NOTHING},
		{AT_FLUSH, "check", "write after free"}},
	{"write after free, large", write_after_free, 2000001, {NOTHING},
		{AT_FLUSH, "check", "write after free"}},
	{"write after free, huge", write_after_free, 40000001,
		{BY_SIGNAL, "", ""}, {BY_SIGNAL, "", ""}},
	{"free_sized, one too many, tiny", free_sized_wrongly, 48, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized, one too many, 8 bytes", free_sized_wrongly, 8, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized, one too many, L2", free_sized_wrongly, 3000, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized, one too many, L2.5", free_sized_wrongly, 100001, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized, one too many, large", free_sized_wrongly, 2000001, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized, one too many, huge", free_sized_wrongly, 40000001, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, tiny", free_aligned_wrong_size, 48,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, 8 bytes", free_aligned_wrong_size, 8,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, L2", free_aligned_wrong_size, 3000,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, L2.5", free_aligned_wrong_size, 100001,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, large", free_aligned_wrong_size, 2000001,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong size, huge", free_aligned_wrong_size, 40000001,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong size"}},
	{"free_aligned_sized, wrong alignment, tiny",
		free_aligned_wrong_alignment, 48, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_aligned_sized, wrong alignment, 8 bytes",
		free_aligned_wrong_alignment, 8, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_aligned_sized, wrong alignment, L2",
		free_aligned_wrong_alignment, 3000, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_aligned_sized, wrong alignment, L2.5",
		free_aligned_wrong_alignment, 100001, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_aligned_sized, wrong alignment, large",
		free_aligned_wrong_alignment, 2000001, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_aligned_sized, wrong alignment, huge",
		free_aligned_wrong_alignment, 40000001, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong alignment"}},
#define PAST_OF(function)                                                      \
	{"one past the end, " #function, past_##function, 100, {NOTHING},      \
		{AT_ONCE, PAST}}
	PAST_OF(calloc), PAST_OF(aligned_alloc), PAST_OF(memalign),
	PAST_OF(valloc), PAST_OF(posix_memalign), PAST_OF(reallocarray),
	PAST_OF(new), PAST_OF(heap_malloc), PAST_OF(heap_realloc),
	{"past the end, heap destroyed", past_heap_destroyed, 100, {NOTHING},
		{AT_ONCE, "check", "write past the end"}},
	{"free twice, heap, tiny", free_heap_twice, 48,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"free twice, heap, L2", free_heap_twice, 3000,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"free twice, heap, L2.5", free_heap_twice, 100 KB,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"free twice, heap, large", free_heap_twice, 2048 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, DOUBLE}},
	{"free twice, heap, huge", free_heap_twice, 40960 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, INVALID}},
	ALL_SIZES("interior, heap", free_heap_interior, INVALID),
	ALL_SIZES("realloc in another heap", realloc_in_other_heap, OTHER_HEAP),
	ALL_SIZES("block of a destroyed heap", free_block_of_destroyed_heap,
		INVALID),
	{"before and after fork, tiny", free_in_child_again, 48,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"before and after fork, L2", free_in_child_again, 3000,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"before and after fork, L2.5", free_in_child_again, 100 KB,
		{AT_ONCE, DOUBLE}, {AT_ONCE, DOUBLE}},
	{"before and after fork, large", free_in_child_again, 2048 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, DOUBLE}},
	{"before and after fork, huge", free_in_child_again, 40960 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, INVALID}},
	{"write past the end of a freed block", write_past_freed, 100,
		{NOTHING}, {AT_ONCE, "check", "write after free"}},
	{"write after free, with a handler", write_after_free_with_handler,
		1000, {NOTHING}, {AT_ONCE, "check", "write after free"}},
	{"free_aligned_sized, alignment 0", free_aligned_by_nothing, 100,
		{NOTHING}, {AT_ONCE, "free_aligned_sized", "wrong alignment"}},
	{"free_sized, the largest size", free_largest_size, 100, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"free_sized of an aligned block", free_sized_of_aligned, 200,
		{NOTHING}, {AT_ONCE, "free_sized", "wrong alignment"}},
	{"free_sized twice, tiny", free_sized_twice, 48, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE_SIZED}},
	{"free_sized twice, L2", free_sized_twice, 3000, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE_SIZED}},
	{"free_sized twice, L2.5", free_sized_twice, 100 KB, {AT_ONCE, DOUBLE},
		{AT_ONCE, DOUBLE_SIZED}},
	{"free_sized twice, large", free_sized_twice, 2048 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, DOUBLE_SIZED}},
	{"free_sized twice, huge", free_sized_twice, 40960 KB,
		{AT_ONCE, INVALID}, {AT_ONCE, "free_sized", "invalid pointer"}},
	{"delete with a wrong size", delete_wrong_size, 48, {NOTHING},
		{AT_ONCE, "free_sized", "wrong size"}},
	{"delete with a wrong alignment", delete_wrong_alignment, 48,
		{NOTHING}, {AT_ONCE, "delete", "wrong alignment"}},
	{"delete with alignment and wrong size", delete_aligned_wrong_size,
		48, {NOTHING},
		{AT_ONCE, "free_aligned_sized", "wrong size"}},
};

#ifndef CHECKED
#define CHECKED 0
#endif

static const struct promise *promise_of(const struct misuse *misuse)
{
	return CHECKED ? &misuse->checked : &misuse->stock;
}

static int commit(void *arg)
{
	const struct misuse *misuse = arg;

	named[0] = named[1] = NULL;
	misuse->act(misuse->n);
	named[1] = (void *)misuse;
	if (promise_of(misuse)->when != AT_ONCE)
		malloc_trim(0);
	return NOT_CAUGHT;
}

/* Below the message of a checked program stand lines that tell more; of a
 * block, where it was allocated: in this program. */
static int details_are_right(const char *text, const char *message)
{
	static const char intro[] = "hakmem: check: ";

	if (!CHECKED)
		return *text == '\0';
	if (strstr(text, intro) && strstr(text, "block: ") &&
	    !strstr(text, "allocated by: misuse-checked+0x"))
		return 0;
	if (!strstr(message, "hakmem: check:") &&
	    !strstr(text, "called by: misuse-checked+0x"))
		return 0;
	while (*text) {
		if (strncmp(text, intro, sizeof intro - 1) != 0)
			return 0;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return 1;
}

static int commit_and_go_on(void *arg)
{
	const struct misuse *misuse = arg;

	named[0] = named[1] = NULL;
	misuse->act(misuse->n);
	named[1] = (void *)misuse;
	for (size_t i = 0; i < 3000; i++) {
		void *p = malloc(misuse->n % 4096), *q = malloc(i);

		free(names(p));
		free(names(q));
	}
	malloc_trim(0);
	return 0;
}

static int is_caught(const struct misuse *misuse)
{
	const struct promise *promise = promise_of(misuse);
	struct outcome o = in_child(commit, (void *)misuse, 20);
	char wanted[200];
	size_t length;

	REQUIRE(!o.hung, "the child hung");
	REQUIRE(o.signal || o.status != NOT_CAUGHT, "it was not caught");
	if (promise->when == BY_SIGNAL) {
		REQUIRE(o.signal == SIGSEGV, "signal %d, status %d", o.signal,
			o.status);
		return 1;
	}
	length = (size_t)snprintf(wanted, sizeof wanted,
		"hakmem: %s: %s: %p\n", promise->function, promise->what,
		named[0]);
	REQUIRE(o.signal == SIGABRT, "signal %d, status %d", o.signal,
		o.status);
	REQUIRE(!strncmp(o.text, wanted, length) &&
			details_are_right(o.text + length, wanted),
		"wanted %s, got %s", wanted, o.text);
	return 1;
}

static int is_promised(const struct misuse *misuse)
{
	return promise_of(misuse)->when != NEVER;
}

/* What the malloc of this process makes of it, whichever that is: for people
 * who compare. */
static void print_outcome(const struct misuse *misuse)
{
	struct outcome o = in_child(commit_and_go_on, (void *)misuse, 20);
	const char *how = o.hung ? "hangs"
		: o.signal == SIGABRT || o.signal == SIGILL ||
				o.signal == SIGTRAP ? "ends"
		: o.signal ? "crashes"
		: o.status == NOT_THERE ? "-"
		: o.text[0] ? "warns" : "unseen";

	o.text[strcspn(o.text, "\n")] = '\0';
	printf("%s\t%s%s\t%s\n", misuse->name, how,
		!o.signal ? "" : named[1] ? " later" : " at once", o.text);
	fflush(stdout);
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
	if (CHECKED)
		write_past_end(100);
	for (size_t n = 1; n < 100000; n = n * 2 + 1) {
		void *q = malloc(n);

		if (!q)
			return 3;
		memset(q, 1, n);
		free(q);
	}
	return 0;
}

/* The first lines of messages. */
static size_t lines_in(const char *text)
{
	size_t lines = 0;

	for (; *text; text += *text == '\n') {
		lines += strncmp(text, "hakmem: check: ", 15) != 0;
		text += strcspn(text, "\n");
	}
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
	int print = argc > 1 && !strcmp(argv[1], "table"), rows = 0;

	named = mmap(NULL, 2 * sizeof *named, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; print && i < ARRAY_SIZE(misuses); i++)
		print_outcome(&misuses[i]);
	if (print)
		return 0;
	if (CHECKED)
		setenv("HAKMEM_CHECK", "1", 1);
	under_preload(argv);
	program = argv[0];
	if (argc > 1)
		return frees_wildly();
	if (!preloaded)
		skip_all("the messages are hakmem's");
	for (size_t i = 0; i < ARRAY_SIZE(misuses); i++)
		rows += is_promised(&misuses[i]);
	plan(rows + 3);
	for (size_t i = 0; i < ARRAY_SIZE(misuses); i++)
		if (is_promised(&misuses[i]))
			ok(is_caught(&misuses[i]), "%s", misuses[i].name);
	ok(policy_is_followed("abort", SIGABRT, 1),
		"HAKMEM_INVALID_FREE=abort");
	ok(policy_is_followed("warn", 0, CHECKED ? 3 : 2),
		"HAKMEM_INVALID_FREE=warn");
	ok(policy_is_followed("ignore", 0, 0), "HAKMEM_INVALID_FREE=ignore");
	return done();
}
