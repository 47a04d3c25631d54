/*
 * thrash: active false sharing. Threads allocate small blocks at the same
 * time; an allocator that serves them from one line makes them fight for it.
 */
#include "false_sharing.h"

static void body(unsigned index)
{
	write_blocks(index);
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {FALSE_SHARING_OPTIONS};
	static const struct bench bench = {"thrash", options};

	bench_options(&bench, argc, argv);
	bench_run((unsigned)threads, NULL, body);
	return false_sharing_report();
}
