/*
 * Statistics derived by walking: against the program's own account, which
 * they must equal to the byte while no other thread allocates, and against
 * each other.
 */
#include "hakmem.h"

#include "tap.h"

#include <fcntl.h>
#include <pthread.h>

enum { BLOCKS = 4000 };

static void *blocks[BLOCKS];
static size_t count, bytes;

static struct hakmem_stats now(void)
{
	struct hakmem_stats stats = { .struct_size = sizeof stats };

	if (hakmem_stats_get(&stats) != 0)
		bail("hakmem_stats_get: %s", strerror(errno));
	return stats;
}

static void take(int i, size_t size)
{
	blocks[i] = hakmem_malloc(size);
	if (blocks[i] == NULL)
		bail("no memory");
	bytes += hakmem_usable_size(blocks[i]);
	count++;
}

static void give(int i)
{
	bytes -= hakmem_usable_size(blocks[i]);
	count--;
	hakmem_free(blocks[i]);
	blocks[i] = NULL;
}

static int is_exact(const struct hakmem_stats *before, const char *what)
{
	struct hakmem_stats after = now();

	is_size(after.live_bytes - before->live_bytes, bytes,
		"%s: live bytes", what);
	return is_size(after.live_blocks - before->live_blocks, count,
		"%s: live blocks", what);
}

/* Sizes of every pool, spread so that all bins are met. */
static size_t size_of(int i)
{
	static const size_t most[] = { 64, 1024, 1024, 32768, 1048576 };
	size_t n = (size_t)i * 2654435761u >> 7;

	return 1 + n % most[i % 5];
}

static void test_account(void)
{
	struct hakmem_stats before = now();

	is_exact(&before, "nothing taken");
	for (int i = 0; i < BLOCKS; i++)
		take(i, size_of(i));
	is_exact(&before, "all taken");
	for (int i = 0; i < BLOCKS; i += 2)
		give(i);
	is_exact(&before, "every second freed");
	for (int i = 0; i < BLOCKS; i += 2)
		take(i, size_of(i + 1));
	is_exact(&before, "taken again");
	for (int i = 0; i < BLOCKS; i++)
		give(i);
	is_exact(&before, "all freed");
	hakmem_trim(0);
	is_exact(&before, "trimmed");
}

static void test_spans(void)
{
	struct hakmem_stats before = now(), after;

	take(0, 5 << 20);
	take(1, 40 << 20);
	after = now();
	is_size(after.span_blocks - before.span_blocks, 2, "spans: blocks");
	is_size(after.span_bytes - before.span_bytes, 45 << 20,
		"spans: bytes");
	is_size(after.mappings - before.mappings, 1, "spans: one is mapped");
	is_size(after.mapping_bytes - before.mapping_bytes, 40 << 20,
		"spans: its bytes");
	ok(after.mapped_bytes - before.mapped_bytes >= 40 << 20,
		"spans: address space");
	ok(after.resident_bytes - before.resident_bytes < 4 << 20,
		"spans: untouched memory is not resident");
	memset(blocks[0], 1, 5 << 20);
	memset(blocks[1], 1, 40 << 20);
	after = now();
	ok(after.resident_bytes - before.resident_bytes >= 45 << 20,
		"spans: touched memory is resident");
	ok(after.minor_faults > before.minor_faults, "spans: page faults");
	give(0);
	give(1);
	is_exact(&before, "spans");
}

static void test_purge(void)
{
	struct hakmem_stats full, trimmed;

	for (int i = 0; i < BLOCKS; i++)
		take(i, 4096);
	for (int i = 0; i < BLOCKS; i++) {
		memset(blocks[i], 1, 4096);
		give(i);
	}
	full = now();
	ok(full.retained_bytes > 4 << 20, "purge: memory is retained");
	hakmem_trim(0);
	trimmed = now();
	is_size(trimmed.retained_bytes, 0, "purge: a trim leaves nothing");
	ok(trimmed.purge_calls > full.purge_calls, "purge: calls");
	ok(trimmed.purged_bytes - full.purged_bytes >= full.retained_bytes,
		"purge: bytes");
	ok(trimmed.resident_bytes + (4 << 20) < full.resident_bytes,
		"purge: they are not resident");
}

/* What a bin's fields add up to, over all bins. */
static void test_equation(void)
{
	struct hakmem_stats total = now();
	struct hakmem_bin_stats bin = { .struct_size = sizeof bin };
	size_t slabs = 0, live = 0, size = 0;
	int blocks_right = 1, slabs_right = 1, rising = 1;
	unsigned n;

	for (n = 0; hakmem_stats_get_bin(n, &bin) == 0; n++) {
		rising &= bin.size > size;
		size = bin.size;
		blocks_right &= bin.blocks == bin.live + bin.front + bin.depot +
			bin.spill + bin.lost + bin.free;
		slabs_right &= bin.slabs == bin.carving + bin.warm +
			bin.listed + bin.full;
		slabs += bin.slabs;
		live += bin.live * bin.size;
	}
	is_int(errno, EINVAL, "bins: beyond the last");
	ok(n > 40 && rising && size == 1 << 20, "bins: by size");
	ok(blocks_right, "bins: holders add up");
	ok(slabs_right, "bins: states add up");
	is_size(slabs, total.slabs, "bins: slabs of all");
	is_size(live, total.slab_live_bytes, "bins: live bytes of all");
	is_size(total.slab_bytes, total.slab_live_bytes + total.front_bytes +
		total.ring_bytes + total.depot_bytes + total.spill_bytes +
		total.lost_bytes + total.free_bytes + total.tail_bytes,
		"the memory equation");
}

static void test_versions(void)
{
	struct hakmem_stats stats = { .struct_size = 3 };
	size_t head[3] = { 2 * sizeof(size_t), 0, 12345 };

	errno = 0;
	ok(hakmem_stats_get(&stats) == -1 && errno == EINVAL,
		"a struct without a size is refused");
	take(0, 100);
	ok(hakmem_stats_get((void *)head) == 0 && head[1] != 0,
		"a small struct gets what it has room for");
	is_size(head[0], 2 * sizeof(size_t), "and keeps its size");
	is_size(head[2], 12345, "and nothing beyond");
	give(0);
}

static void test_heap(void)
{
	struct hakmem_stats before = now(), after;
	struct hakmem_heap *heap = hakmem_heap_new();
	void *small = hakmem_heap_malloc(heap, 100);
	void *large = hakmem_heap_malloc(heap, 3 << 20);

	after = now();
	is_size(after.heap_objects - before.heap_objects, 1, "heaps: one");
	is_size(after.live_blocks - before.live_blocks, 2, "heaps: blocks");
	is_size(after.live_bytes - before.live_bytes,
		hakmem_usable_size(small) + hakmem_usable_size(large),
		"heaps: bytes");
	hakmem_heap_destroy(heap);
	is_exact(&before, "heaps: destroyed");
}

static pthread_barrier_t barrier;

static void *hold(void *arg)
{
	void *held[100];

	for (int i = 0; i < 100; i++)
		held[i] = hakmem_malloc(64);
	for (int i = 0; i < 100; i++)
		hakmem_free(held[i]);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return arg;
}

/* Forked while another thread holds blocks in its caches. */
static void in_child(void)
{
	struct hakmem_stats stats = now();

	if (stats.heaps != 1)
		fprintf(stderr, "%zu heaps", stats.heaps);
	if (stats.lost_bytes < 64)
		fprintf(stderr, "%zu bytes lost", stats.lost_bytes);
	if (stats.live_bytes > 4096)
		fprintf(stderr, "%zu bytes live", stats.live_bytes);
}

static void test_threads(void)
{
	struct hakmem_stats before = now(), after;
	char errors[200];
	pthread_t thread;
	int status;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, hold, NULL);
	pthread_barrier_wait(&barrier);
	after = now();
	is_size(after.heaps - before.heaps, 1, "threads: one more");
	ok(after.heap_bytes > before.heap_bytes, "threads: memory of caches");
	ok(after.front_bytes - before.front_bytes >= 64,
		"threads: free blocks in its cache");
	is_exact(&before, "threads");
	is_int(tap_child(in_child, &status, errors, sizeof errors), 0,
		"a fork's child lives");
	is_str(errors, "", "a fork's child knows what it lost");
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	after = now();
	is_size(after.heaps, before.heaps, "threads: it ended");
	is_size(after.lost_bytes, 0, "and nothing is lost here");
	is_exact(&before, "threads: ended");
}

struct text {
	size_t length;
	size_t pieces;
	char last;
};

/* A callback may allocate. */
static void gather(void *arg, const char *piece)
{
	struct text *text = arg;
	size_t length = strlen(piece);

	hakmem_free(hakmem_malloc(length + 1));
	text->length += length;
	text->pieces++;
	text->last = piece[length - 1];
}

static void print_to_full(void)
{
	int fd = open("/dev/full", O_WRONLY);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(EIO);
	errno = 0;
	_exit(hakmem_stats_print(HAKMEM_STATS_TEXT, NULL, NULL) == -1 ? errno
								      : 1);
}

static void test_print(void)
{
	struct text text = { 0 }, json = { 0 };
	char errors[200];
	int status;

	is_int(hakmem_stats_print(HAKMEM_STATS_TEXT, gather, &text), 0,
		"print: text");
	ok(text.length > 2000 && text.pieces > 40 && text.last == '\n',
		"print: in pieces that end a line");
	is_int(hakmem_stats_print(HAKMEM_STATS_JSON, gather, &json), 0,
		"print: JSON");
	ok(json.length > 1000, "print: something came");
	errno = 0;
	ok(hakmem_stats_print((enum hakmem_stats_format)7, gather, &json) == -1
		&& errno == EINVAL, "print: no such format");
	is_int(tap_child(print_to_full, &status, errors, sizeof errors), 0,
		"print: a full device");
	is_int(WEXITSTATUS(status), EIO, "print: its error number");
}

int main(void)
{
	plan(61);
	test_account();
	test_spans();
	test_purge();
	test_equation();
	test_versions();
	test_heap();
	test_threads();
	test_print();
	return done();
}
