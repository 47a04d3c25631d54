/*
 * scratch: passive false sharing. The main thread allocates a block for each
 * thread, next to each other; each thread frees the one it was given and then
 * works with blocks of its own. An allocator that gives the freed neighbours
 * out again to the threads that freed them puts two threads on one line.
 */
#include "false_sharing.h"

static void *handed[BENCH_MAX_THREADS];

static void body(unsigned index)
{
	checksums[index] = bench_verify(handed[index], index);
	free(handed[index]);
	write_blocks(index);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {FALSE_SHARING_OPTIONS};
	static const struct bench bench = {"scratch", options};
	uint64_t i;

	bench_options(&bench, argc, argv);
	for (i = 0; i < threads; i++) {
		handed[i] = bench_malloc(size);
		bench_put(handed[i], i);
	}
	bench_run((unsigned)threads, NULL, body);
	return false_sharing_report();
}
