/*
 * frag: a heap is filled, thinned and filled again with other sizes, and the
 * resident memory is taken after each phase. The blocks that stay are random,
 * so what is freed is scattered: an allocator that only gives back whole runs
 * keeps nearly all of it.
 *
 * fill   blocks of min to max bytes until live bytes of them exist
 * half   a random half of them freed
 * refill blocks of three times the size, which fit no hole, up to live again
 * thin   all freed but a random one in keep
 * empty  everything freed
 *
 * Every byte of a block is written; first and last byte are looked at when it
 * is freed. Fields of the result: start_kb, then NAME_kb for each phase, all
 * of them VmRSS; live_thin_kb, the bytes asked for that survive thin.
 */
#include "bench.h"

#include <string.h>
#include <time.h>

static uint64_t live = 64 << 20;
static uint64_t min = 16;
static uint64_t max = 1024;
static uint64_t keep = 32;
static uint64_t settle_ms;
static uint64_t seed = 1;

static struct entry {
	unsigned char *block; /* NULL once freed */
	size_t size;
} * entries;
static uint64_t entry_count;
static uint64_t entry_max;

static uint64_t live_bytes;
static uint64_t ops;
static uint64_t checksum;
static uint32_t random_state;

static void fill_up(uint64_t factor)
{
	uint32_t range = (uint32_t)(max - min + 1);

	while (live_bytes < live && entry_count < entry_max) {
		struct entry *e = &entries[entry_count++];
		uint32_t r = bench_xorshift32(&random_state);

		e->size = (min + bench_scale(r, range)) * factor;
		e->block = bench_malloc(e->size);
		memset(e->block, (int)(e->size & 0xff), e->size);
		live_bytes += e->size;
		ops++;
	}
}

static void drop(struct entry *e)
{
	checksum = checksum * 31 + bench_verify(e->block, e->size);
	bench_verify(e->block + e->size - 1, e->size);
	free(e->block);
	e->block = NULL;
	live_bytes -= e->size;
	ops++;
}

/* Keeps a random one in n of the blocks; n = 0 keeps none. */
static void thin_out(uint32_t n)
{
	uint64_t i;

	for (i = 0; i < entry_count; i++)
		if (entries[i].block &&
			(!n || bench_scale(bench_xorshift32(&random_state), n)))
			drop(&entries[i]);
}

static void note_rss(const char *key)
{
	struct timespec pause = {
		.tv_sec = (time_t)(settle_ms / 1000),
		.tv_nsec = (long)(settle_ms % 1000) * 1000000,
	};

	if (settle_ms)
		nanosleep(&pause, NULL);
	bench_note(key, bench_rss_kb());
}

static void body(unsigned index)
{
	(void)index;
	note_rss("start_kb");
	fill_up(1);
	note_rss("fill_kb");
	thin_out(2);
	note_rss("half_kb");
	fill_up(3);
	note_rss("refill_kb");
	thin_out((uint32_t)keep);
	note_rss("thin_kb");
	bench_note("live_thin_kb", live_bytes >> 10);
	thin_out(0);
	note_rss("empty_kb");
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"live", &live, 1, UINT64_C(1) << 40, NULL,
			"bytes to fill up to"},
		{"min", &min, 1, 1 << 28, NULL, "smallest block of fill"},
		{"max", &max, 1, 1 << 28, NULL, "largest block of fill"},
		{"keep", &keep, 2, 1 << 20, NULL,
			"thin leaves one block in so many"},
		{"settle", &settle_ms, 0, 600000, NULL,
			"milliseconds to wait before resident memory is taken"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{0},
	};
	static const struct bench bench = {"frag", options};

	bench_options(&bench, argc, argv);
	if (min > max)
		bench_refuse("min is above max", min);
	random_state = bench_thread_seed(seed, 0);
	/* fill and refill together: twice as many as the mean suggests */
	entry_max = live / ((min + max + 1) / 2) * 2 + 1024;
	entries = bench_map(entry_max * sizeof(*entries));
	bench_run(1, NULL, body);
	return bench_report(1, ops, checksum);
}
