/*
 * grow: a vector grows by realloc, each time half as large again, and every
 * page it gains is written. At full length every page is read back: a realloc
 * that lost or mixed up pages is found. An allocator that moves pages instead
 * of bytes shows here.
 */
#include "bench.h"

#define PAGE 4096

static uint64_t first = 16;
static uint64_t last = 64 << 20;
static uint64_t rounds = 4;

static uint64_t reallocs;
static uint64_t checksum;

/* A page's value follows from its index, and differs from its neighbours'. */
static uint64_t page_value(uint64_t page)
{
	return page * 167 + page / 251;
}

/* Writes the pages that begin in [from, to); from is not above any unwritten.
 */
static void write_pages(unsigned char *vector, uint64_t from, uint64_t to)
{
	uint64_t page;

	for (page = (from + PAGE - 1) / PAGE; page * PAGE < to; page++)
		bench_put(vector + page * PAGE, page_value(page));
}

static void read_pages(const unsigned char *vector, uint64_t to)
{
	uint64_t page;

	for (page = 0; page * PAGE < to; page++)
		checksum = checksum * 31 +
			   bench_verify(vector + page * PAGE, page_value(page));
}

static void grow_once(void)
{
	unsigned char *vector = bench_malloc(first);
	uint64_t size = first;
	uint64_t next;

	write_pages(vector, 0, size);
	for (; size < last; size = next) {
		next = size + size / 2;
		if (next == size)
			next++;
		if (next > last)
			next = last;
		vector = bench_realloc(vector, next);
		write_pages(vector, size, next);
		reallocs++;
	}
	read_pages(vector, size);
	free(vector);
}

static void body(unsigned index)
{
	uint64_t i;

	(void)index;
	for (i = 0; i < rounds; i++)
		grow_once();
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"first", &first, 1, UINT64_C(1) << 40, NULL, "first size"},
		{"last", &last, 2, UINT64_C(1) << 40, NULL, "last size"},
		{"rounds", &rounds, 1, 1000000, NULL, "vectors, in turn"},
		{0},
	};
	static const struct bench bench = {"grow", options};

	bench_options(&bench, argc, argv);
	if (first >= last)
		bench_refuse("first is not below last", first);
	bench_run(1, NULL, body);
	return bench_report(1, reallocs, checksum);
}
