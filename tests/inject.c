/*
 * The kernel refuses: a program in which the n-th memory system call fails,
 * for n = 1, 2, 3, ... until none does; then one in which all calls from the
 * n-th on fail for a while; then one in which they fail to its end, all of them
 * or those of one kind.
 *
 * Whatever fails, a call gives a good block or NULL with ENOMEM, blocks keep
 * their contents, no lock stays held, and once memory is there again all is
 * as before: nothing lost, no address space left behind.
 *
 * Built twice: with CHECKED for HAKMEM_CHECK=1, where freed blocks first wait
 * in the quarantine and records take memory that may not be there.
 */
#include <config.h>

#include "arena.h"
#include "hakmem.h"
#include "heap.h"
#include "locked_heap.h"
#include "mapping.h"
#include "options.h"
#include "os.h"
#include "quarantine.h"
#include "records.h"
#include "shard.h"
#include "span.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#ifndef CHECKED
#define CHECKED 0
#endif

#define BLOCKS 64
#define POINTS_MAX 2000
#define ENDLESS UINT32_MAX

struct block {
	unsigned char *at;
	size_t size;
	unsigned char fill;
};

static struct block blocks[BLOCKS];
static unsigned fills;

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(
	const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (call %u of %u, system call %ld)\n",
		hak_os_inject.first, hak_os_inject.calls, hak_os_inject.number);
	abort();
}

/* Ends and some bytes between. */
static size_t step_of(size_t size)
{
	return size <= 65536 ? 1 : size / 97;
}

static void write_block(struct block *b)
{
	b->fill = (unsigned char)(1 + ++fills % 255);
	for (size_t i = 0; i < b->size; i += step_of(b->size))
		b->at[i] = b->fill;
}

static void check_bytes(
	const unsigned char *at, size_t size, size_t had, unsigned fill)
{
	for (size_t i = 0; i < size; i += step_of(had))
		if (at[i] != fill)
			wrong("byte %zu of %zu is %#x, not %#x", i, had, at[i],
				fill);
}

static bool got(void *at)
{
	if (at == NULL && errno != ENOMEM)
		wrong("NULL with errno %d", errno);
	return at != NULL;
}

static void put(struct block *b)
{
	check_bytes(b->at, b->at != NULL ? b->size : 0, b->size, b->fill);
	hakmem_free(b->at);
	b->at = NULL;
}

static void take(struct block *b, size_t size, unsigned way)
{
	put(b);
	b->size = size;
	errno = 0;
	b->at = way == 0   ? hakmem_malloc(size)
		: way == 1 ? hakmem_calloc(1, size)
			   : hakmem_aligned_alloc((size_t)1 << way, size);
	if (!got(b->at))
		return;
	if (way == 1)
		for (size_t i = 0; i<size; i += size> 65536 ? 509 : 1)
			if (b->at[i] != 0)
				wrong("calloc of %zu: byte %zu is %#x", size, i,
					b->at[i]);
	write_block(b);
}

static void resize(struct block *b, size_t size)
{
	unsigned char *at;

	if (b->at == NULL)
		return;
	errno = 0;
	at = hakmem_realloc(b->at, size);
	if (!got(at)) {
		check_bytes(b->at, b->size, b->size, b->fill);
		return;
	}
	check_bytes(at, size < b->size ? size : b->size, b->size, b->fill);
	b->at = at;
	b->size = size;
	write_block(b);
}

static void *in_thread(void *arg)
{
	for (unsigned i = 0; i < 8; i++)
		take(&blocks[i], 100 + 1000 * i, 0);
	(void)arg;
	return NULL;
}

static void use_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

static void use_heap(void)
{
	struct hakmem_heap *heap = hakmem_heap_new();
	static const size_t sizes[] = {48, 5000, 100000, 3 << 20, 40 << 20};

	if (!got(heap))
		return;
	for (size_t i = 0; i < 5; i++) {
		struct block b = {
			hakmem_heap_malloc(heap, sizes[i]), sizes[i], 0};
		unsigned char *at;

		if (!got(b.at))
			continue;
		write_block(&b);
		at = hakmem_heap_realloc(heap, b.at, 2 * b.size);
		check_bytes(got(at) ? at : b.at, b.size, b.size, b.fill);
		if (i % 2 == 0)
			hakmem_free(at != NULL ? at : b.at);
		if (got(at = hakmem_heap_calloc(heap, 1, sizes[i])))
			check_bytes(at, sizes[i], sizes[i], 0);
	}
	hakmem_heap_destroy(heap);
}

/* All kinds of blocks, all ways to and from the system. */
static void program(void)
{
	static const size_t sizes[] = {8, 64, 700, 1024, 3000, 20000, 40000,
		150000, 600000, 1 << 20, 2 << 20, 5 << 20, 33 << 20};

	for (unsigned i = 0; i < 13; i++)
		take(&blocks[i], sizes[i], i % 2);
	use_thread();
	use_heap();
	for (unsigned i = 0; i < 13; i++)
		take(&blocks[16 + i], sizes[i], 12 + i);
	for (unsigned i = 0; i < BLOCKS; i++)
		take(&blocks[i], 3000 + 400 * i, 0);
	hakmem_trim(0);
	for (unsigned i = 0; i < BLOCKS; i += 2)
		put(&blocks[i]);
	/* Growth through all regions, and back. */
	take(&blocks[0], 1000, 0);
	for (size_t size = 3000; size < (size_t)90 << 20; size = size * 5 / 2)
		resize(&blocks[0], size);
	for (size_t size = (size_t)70 << 20; size > 1000; size /= 3)
		resize(&blocks[0], size);
	for (unsigned i = 1; i < BLOCKS; i += 4)
		take(&blocks[i], (size_t)1500000 + 4096 * i, 1);
	for (unsigned i = 1; i < BLOCKS; i += 4)
		resize(&blocks[i], (size_t)4 << 20);
	for (unsigned i = 0; i < BLOCKS; i++)
		put(&blocks[i]);
	for (unsigned i = 0; i < 13; i++)
		take(&blocks[i], sizes[i], 1);
}

/* Address space, but for arenas: those that are smaller because a large one
 * was refused stay, and more of them are needed; and but for descriptors and
 * the page map, which grow with it. */
static size_t pages_mapped(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%lu", &pages) != 1)
		bail("/proc/self/statm cannot be read");
	fclose(file);
	return pages - (hak_arena_reserved_bytes() + hak_mapping_meta_bytes() +
			hak_page_map_bytes()) / hak_page_size;
}

static void *all_locks(void *arg)
{
	struct hakmem_heap *heap = hakmem_heap_new();

	for (unsigned i = 0; i < 13; i++)
		take(&blocks[i], (size_t)1 << (2 * i + 2), 0);
	for (unsigned i = 0; i < 13; i++)
		put(&blocks[i]);
	hakmem_free(hakmem_heap_malloc(heap, 100));
	hakmem_heap_destroy(heap);
	hakmem_trim(0);
	return arg;
}

/* Freed blocks that are still looked at are not lost; nor is one forgotten. */
static void empty_quarantine(void)
{
	bool waits = CHECKED && hak_options.check_quarantine != 0;

	if (waits != (hak_records_quarantined() != 0))
		wrong("%zu bytes in quarantine", hak_records_quarantined());
	hak_quarantine_empty();
	if (hak_records_quarantined() != 0)
		wrong("%zu bytes stay in quarantine",
			hak_records_quarantined());
}

/* Memory is there again. */
static void check_end(void)
{
	pthread_t thread;
	size_t lost;

	for (unsigned i = 0; i < BLOCKS; i++)
		put(&blocks[i]);
	if (pthread_create(&thread, NULL, all_locks, NULL) != 0)
		bail("no thread");
	pthread_join(thread, NULL);
	empty_quarantine();
	hakmem_trim(0);
	lost = hak_shard_taken_bytes() + hak_span_live_bytes() +
	       hak_locked_heap_live_bytes();
	if (lost != 0)
		wrong("%zu bytes of blocks are lost", lost);
	lost = hak_arena_used_bytes() - hak_magazine_pool_bytes() -
	       hak_records_bytes();
	if (lost > 16 * GRANULE)
		wrong("%zu bytes of granules are lost", lost);
}

/* Where the child of a run leaves how far it came. */
static struct report {
	unsigned calls;
	size_t pages;
} * report;

static unsigned first, length, stride = 19;
static bool late;
static long only;
static size_t pages_without;

/* A run that hangs is ended after 60 ticks, not after 60 seconds: a process
 * that was stopped meanwhile, on a machine that others use, has seen one. */
static void tick(int signal)
{
	static volatile sig_atomic_t ticks;

	(void)signal;
	if (++ticks == 60)
		abort();
}

static void refuse(void)
{
	hak_os_inject.first = first;
	hak_os_inject.last = length == ENDLESS ? UINT32_MAX : first + length - 1;
	hak_os_inject.late = late;
	hak_os_inject.only = only;
}

/* Nothing fails from here on. */
static void relent(void)
{
	hak_os_inject.first = hak_os_inject.last = UINT32_MAX;
	hak_os_inject.late = false;
	hak_os_inject.only = 0;
}

static void run_with(void (*steps)(void))
{
	static const struct itimerval second = {{1, 0}, {1, 0}};
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};

	alarm(0);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &second, NULL);
	steps();
	report->calls = hak_os_inject.calls;
	relent();
	check_end();
	report->pages = pages_mapped();
	if (pages_without != 0 &&
		report->pages > pages_without + 1024)
		wrong("%zu pages of address space are left behind",
			report->pages - pages_without);
}

static void steps_refused(void)
{
	refuse();
	program();
}

static void run(void)
{
	run_with(steps_refused);
}

/* More ranges than anybody reckons with that the kernel will not take. */
enum { MANY = 600 };

/* Read-only, as a program may make them: who frees a block does not write it,
 * but in checked mode. */
static void take_many(void **many)
{
	for (unsigned i = 0; i < MANY; i++) {
		got(many[i] = hakmem_malloc((size_t)33 << 20));
		if (!CHECKED && many[i] && mprotect(many[i], 4096, PROT_READ))
			bail("mprotect failed");
	}
}

static void free_many(void **many)
{
	/* Every second one first: none lies beside another. */
	for (unsigned i = 0; i < 2 * MANY; i += 2)
		hakmem_free(many[i < MANY ? i : i - MANY + 1]);
}

static void steps_many_refused(void)
{
	static void *many[MANY];

	take_many(many);
	refuse();
	free_many(many);
	take_many(many);
	free_many(many);
}

static void run_many(void)
{
	run_with(steps_many_refused);
}

static unsigned run_all(const char *name)
{
	char errors[256];
	int status;

	for (first = 1; first < POINTS_MAX; first += stride) {
		memset(report, 0, sizeof *report);
		tap_child(run, &status, errors, sizeof errors);
		if (status != 0) {
			diag("%s %u: %s, status %#x", name, first, errors,
				(unsigned)status);
			return 0;
		}
		if (report->calls < first)
			return report->calls;
	}
	return 0;
}

/* From some call on the kernel refuses until the program is over. */
static void refuse_for_good(void)
{
	static const struct {
		const char *name;
		long number;
	} kinds[] = {{"mmap", SYS_mmap}, {"munmap", SYS_munmap},
		{"mprotect", SYS_mprotect}, {"madvise", SYS_madvise},
		{"mremap", SYS_mremap}, {"any call", 0}};

	length = ENDLESS;
	for (size_t i = 0; i < 6; i++) {
		unsigned n;

		only = kinds[i].number;
		n = run_all(kinds[i].name);
		ok(n > 0, "%s fails for good, of %u", kinds[i].name, n);
	}
	only = 0;
}

/* The room of thousands of blocks is owed, and given back in the end. */
static void refuse_many(const char *name, long number)
{
	char errors[256];
	int status;

	first = 1;
	length = ENDLESS;
	only = number;
	tap_child(run_many, &status, errors, sizeof errors);
	ok(status == 0, "%s fails for good, %d mappings are freed", name, MANY);
	diag("%s", errors);
	only = 0;
}

/* "inject all": from each call on, not from some. */
int main(int argc, char **argv)
{
	static const unsigned lengths[] = {1, 3, 40};
	unsigned points = 0;
	char errors[256];
	int status;

	plan(13);
	if (CHECKED)
		setenv("HAKMEM_CHECK", "1", 1);
	else
		unsetenv("HAKMEM_CHECK");
	if (argc > 1 && strcmp(argv[1], "all") == 0) {
		stride = 1;
		alarm(0);
	}
	report = (struct report *)hak_os_map(4096, 4096);
	/* Shared with the children. */
	if (syscall(SYS_mmap, report, 4096L, 3L, 0x31L, -1L, 0L) == -1)
		bail("no shared page");
	first = UINT32_MAX;
	tap_child(run, &status, errors, sizeof errors);
	ok(status == 0, "no call fails");
	diag("%u calls %s", report->calls, errors);
	pages_without = report->pages;
	for (size_t i = 0; i < 3; i++) {
		unsigned n;

		length = lengths[i];
		n = run_all("call");
		ok(n > 20, "%u calls in a row fail, of %u", length, n);
		points += n / stride;
	}
	length = 1;
	late = true;
	ok(run_all("late") > 20, "a failed move has unmapped its target");
	late = false;
	refuse_for_good();
	/* They are many, and each is touched. */
	setenv("HAKMEM_THP", "never", 1);
	refuse_many("munmap", SYS_munmap);
	refuse_many("any call", 0);
	diag("%u points", points);
	return done();
}
