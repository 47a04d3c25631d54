/*
 * mallinfo.c: glibc's functions for statistics and tuning, included by
 * preload.c.
 *
 * They answer from the same snapshot as hakmem_stats_get. glibc's words mean:
 *   arena, "system"	granules handed out or retained
 *   uordblks		bytes in the program's hands, huge blocks apart
 *   fordblks		what is between the two
 *   smblks, fsmblks	free blocks in threads' caches, and their bytes
 *   ordblks		free blocks in bitmaps
 *   hblks, hblkhd	huge blocks; slabs with a mapping of their own are
 *			of the arena
 *   keepcost		retained bytes, which malloc_trim gives back
 */
#include "mapping.h"
#include "options.h"
#include "stats.h"

#include <malloc.h>
#include <stdio.h>

struct summary {
	size_t huge_blocks;
	size_t huge_bytes;
	size_t arena;
	size_t used;
	size_t cached_blocks;
	size_t cached_bytes;
	size_t free_blocks;
};

static bool add_huge(struct slab *slab, void *arg)
{
	struct summary *sum = arg;

	if (slab->granules == 0) {
		sum->huge_blocks++;
		sum->huge_bytes += slab->span_bytes;
	}
	return true;
}

static void summarize(const struct hak_snapshot *stats, struct summary *sum)
{
	const struct hakmem_stats *t = &stats->total;

	*sum = (struct summary){ .cached_bytes = t->front_bytes +
			t->ring_bytes + t->depot_bytes + t->spill_bytes };
	hak_mapping_visit(add_huge, sum);
	sum->arena = t->active_bytes + t->retained_bytes;
	sum->arena -= MIN(sum->arena, sum->huge_bytes);
	sum->used = t->live_bytes - MIN(t->live_bytes, sum->huge_bytes);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		const struct hakmem_bin_stats *b = &stats->bin[bin];

		sum->cached_blocks += b->front + b->depot + b->spill;
		sum->free_blocks += b->free;
	}
}

HAK_EXPORT struct mallinfo2 mallinfo2(void)
{
	struct hak_snapshot stats;
	struct summary sum;

	hak_stats_take(&stats, 0);
	summarize(&stats, &sum);
	return (struct mallinfo2){
		.arena = sum.arena,
		.ordblks = sum.free_blocks,
		.smblks = sum.cached_blocks,
		.hblks = sum.huge_blocks,
		.hblkhd = sum.huge_bytes,
		.fsmblks = sum.cached_bytes,
		.uordblks = sum.used,
		.fordblks = sum.arena - MIN(sum.arena, sum.used),
		.keepcost = stats.total.retained_bytes,
	};
}

/* The old struct has no room for more; better the most it can say than a
 * number that has wrapped. */
static int narrow(size_t n)
{
	return n < __INT_MAX__ ? (int)n : __INT_MAX__;
}

HAK_EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 wide = mallinfo2();

	return (struct mallinfo){
		.arena = narrow(wide.arena),
		.ordblks = narrow(wide.ordblks),
		.smblks = narrow(wide.smblks),
		.hblks = narrow(wide.hblks),
		.hblkhd = narrow(wide.hblkhd),
		.fsmblks = narrow(wide.fsmblks),
		.uordblks = narrow(wide.uordblks),
		.fordblks = narrow(wide.fordblks),
		.keepcost = narrow(wide.keepcost),
	};
}

HAK_EXPORT void malloc_stats(void)
{
	hak_stats_report_to(false, STDERR_FILENO);
}

static void put_element(FILE *to, const char *what, const char *type,
	size_t count, size_t size)
{
	char line[160];
	struct hak_text text;

	hak_text_init(&text, line, sizeof line);
	hak_text_add(&text, "<");
	hak_text_add(&text, what);
	hak_text_add(&text, " type=\"");
	hak_text_add(&text, type);
	if (count != SIZE_MAX) {
		hak_text_add(&text, "\" count=\"");
		hak_text_add_number(&text, count);
	}
	hak_text_add(&text, "\" size=\"");
	hak_text_add_number(&text, size);
	hak_text_add(&text, "\"/>\n");
	fputs(line, to);
}

/* Free blocks of one size. */
static void put_size(FILE *to, const struct hakmem_bin_stats *bin)
{
	size_t count = bin->front + bin->depot + bin->spill + bin->free;
	const size_t values[] = { bin->size, bin->size, count * bin->size,
		count };
	static const char *const names[] = { "<size from=\"", "\" to=\"",
		"\" total=\"", "\" count=\"" };
	char line[160];
	struct hak_text text;

	if (count == 0)
		return;
	hak_text_init(&text, line, sizeof line);
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		hak_text_add(&text, names[i]);
		hak_text_add_number(&text, values[i]);
	}
	hak_text_add(&text, "\"/>\n");
	fputs(line, to);
}

static void put_totals(FILE *to, const struct hak_snapshot *stats,
	const struct summary *sum)
{
	const struct hakmem_stats *t = &stats->total;

	put_element(to, "total", "fast", sum->cached_blocks, sum->cached_bytes);
	put_element(to, "total", "rest", sum->free_blocks, t->free_bytes);
	put_element(to, "system", "current", SIZE_MAX, sum->arena);
	put_element(to, "aspace", "total", SIZE_MAX, t->arena_bytes);
	put_element(to, "aspace", "mprotect", SIZE_MAX,
		t->superslabs * SUPERSLAB);
}

/* All threads share one set of memory: one heap, in glibc's words. */
HAK_EXPORT int malloc_info(int options, FILE *to)
{
	struct hak_snapshot stats;
	struct summary sum;

	if (options != 0)
		return EINVAL;
	hak_stats_take(&stats, 0);
	summarize(&stats, &sum);
	fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n", to);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		put_size(to, &stats.bin[bin]);
	fputs("</sizes>\n", to);
	put_totals(to, &stats, &sum);
	fputs("</heap>\n", to);
	put_totals(to, &stats, &sum);
	put_element(to, "total", "mmap", sum.huge_blocks, sum.huge_bytes);
	fputs("</malloc>\n", to);
	return ferror(to) ? EIO : 0;
}

static void set_retain(size_t bytes)
{
	char digits[24];
	struct hak_text text;

	hak_start();
	hak_text_init(&text, digits, sizeof digits);
	hak_text_add_number(&text, bytes);
	if (hak_option_change("HAKMEM_RETAIN", digits) == 0)
		hak_start_retune();
}

/*
 * M_TRIM_THRESHOLD is HAKMEM_RETAIN. The other parameters of glibc speak of
 * parts that are not here: they are taken (1), so that a program which insists
 * runs, and change nothing, as they do in glibc where its own tuning makes
 * them moot. What glibc does not know either is refused (0).
 */
HAK_EXPORT int mallopt(int parameter, int value)
{
	switch (parameter) {
	case M_TRIM_THRESHOLD:
		set_retain(value < 0 ? (size_t)PTRDIFF_MAX : (size_t)value);
		return 1;
	case M_MXFAST:
	case M_TOP_PAD:
	case M_MMAP_THRESHOLD:
	case M_MMAP_MAX:
	case M_CHECK_ACTION:
	case M_PERTURB:
	case M_ARENA_TEST:
	case M_ARENA_MAX:
		return 1;
	default:
		return 0;
	}
}
