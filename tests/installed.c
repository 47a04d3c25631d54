/*
 * What a user of the installed package may write. PRELOAD is 1 in a program
 * that is linked with libhakmem-preload, whose malloc is hakmem's.
 */
#include <hakmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 1;
}

static int use_blocks(void)
{
	char *text = (char *)hakmem_malloc(6);
	void *page = hakmem_aligned_alloc(4096, 4096);
	struct hakmem_heap *heap = hakmem_heap_new();

	if (!text || !page || !heap || !hakmem_heap_malloc(heap, 100))
		return fail("an allocation failed");
	strcpy(text, "hello");
	text = (char *)hakmem_realloc(text, 100000);
	if (!text || strcmp(text, "hello") != 0)
		return fail("realloc lost the text");
	if (hakmem_usable_size(text) < 100000 || (uintptr_t)page % 4096 != 0)
		return fail("a block is too small or not aligned");
	hakmem_heap_destroy(heap);
	hakmem_free(page);
	hakmem_free(text);
	return 0;
}

/* Blocks may cross between the two families only where malloc is hakmem's. */
static int cross(void)
{
	void *block = malloc(100);

	if (hakmem_usable_size(block) < 100)
		return fail("malloc's block is not one of hakmem");
	hakmem_free(block);
	free(hakmem_malloc(100));
	return 0;
}

int main(void)
{
	if (strcmp(hakmem_version(), HAKMEM_VERSION_STRING) != 0)
		return fail("the library and the header differ in version");
	return use_blocks() || (PRELOAD && cross());
}
