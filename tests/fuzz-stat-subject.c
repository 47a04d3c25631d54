/*
 * What fuzz-stat reads: a process with blocks of all regions, threads, a heap
 * of its own and empty memory. It says when it is ready and sleeps.
 */
#include <config.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "hakmem.h"

static void *keep(void *arg)
{
	for (size_t size = 8; size < (size_t)80 << 20; size = size * 3 / 2)
		if (hakmem_malloc(size) == NULL)
			exit(1);
	for (unsigned i = 0; i < 3000; i++)
		hakmem_free(hakmem_malloc(i));
	if (arg != NULL)
		for (;;)
			pause();
	return NULL;
}

int main(void)
{
	struct hakmem_heap *heap = hakmem_heap_new();
	pthread_t thread;
	static char waits;

	if (heap == NULL || hakmem_heap_malloc(heap, 1000) == NULL)
		return 1;
	for (unsigned i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, keep, &waits) != 0)
			return 1;
	keep(NULL);
	hakmem_free(hakmem_malloc((size_t)4 << 20));
	if (write(STDOUT_FILENO, "r", 1) != 1)
		return 1;
	/* The fuzzer ends it, or dies. */
	for (;;)
		pause();
}
