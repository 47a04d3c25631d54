/* calloc of memory that was used before: what the allocator takes to be zero
 * and does not clear must be zero, by whatever way it came back. */
#include <config.h>

#include "hakmem.h"
#include "tap.h"

#define BIG ((size_t)3 << 20)

/* Whether blocks of calloc, as many as empty the free memory that the case
 * before left, read as zero. */
static int calloc_is_zero(size_t size)
{
	unsigned char *block[24];
	int zero = 1;

	for (size_t i = 0; i < 24; i++) {
		block[i] = hakmem_calloc(1, size);
		for (size_t at = 0; at < size; at++)
			zero &= block[i][at] == 0;
	}
	for (size_t i = 0; i < 24; i++)
		hakmem_free(block[i]);
	return zero;
}

static void dirty(unsigned char *block, size_t size)
{
	memset(block, 0xa5, size);
	/* As far as the compiler knows, somebody reads it. */
	__asm__ volatile("" : : "r"(block) : "memory");
}

static void heap_block_freed(size_t size)
{
	struct hakmem_heap *heap = hakmem_heap_new();
	void *block = hakmem_heap_malloc(heap, size);

	dirty(block, size);
	hakmem_free(block);
	hakmem_heap_destroy(heap);
}

static void heap_destroyed(size_t size)
{
	struct hakmem_heap *heap = hakmem_heap_new();

	for (size_t i = 0; i < 16; i++)
		dirty(hakmem_heap_malloc(heap, size), size);
	hakmem_heap_destroy(heap);
}

static void cached_block_freed(size_t size)
{
	unsigned char *block = hakmem_malloc(size);

	dirty(block, size);
	hakmem_free(block);
	hakmem_trim(SIZE_MAX / 2);
}

/* Shorter, then so long that its pages move: what it had before is behind. */
static void shrunk_and_moved(size_t size)
{
	unsigned char *block = hakmem_malloc(BIG), *wall;

	wall = hakmem_malloc(BIG);
	dirty(block, BIG);
	block = hakmem_realloc(block, BIG - 40000);
	block = hakmem_realloc(block, 5 * BIG);
	(void)size;
	hakmem_free(wall);
	hakmem_free(block);
}

static const struct {
	const char *name;
	void (*use)(size_t size);
} ways[] = {
	{"freed in a heap", heap_block_freed},
	{"freed", cached_block_freed},
	{"of a destroyed heap", heap_destroyed},
	{"shrunk, then moved", shrunk_and_moved},
};

int main(void)
{
	static const size_t sizes[] = {
		100, 9000, 40960, 196608, 507904, BIG - 70000, BIG};
	const size_t n = sizeof sizes / sizeof sizes[0];

	plan(4 * (unsigned)n);
	for (size_t way = 0; way < 4; way++) {
		for (size_t i = 0; i < n; i++) {
			ways[way].use(sizes[i]);
			ok(calloc_is_zero(sizes[i]), "%s: %zu bytes",
				ways[way].name, sizes[i]);
		}
	}
	return done();
}
