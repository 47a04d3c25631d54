/*
 * stats_sum.c: from copies of slabs' and threads' books to a snapshot.
 *
 * I1  Nothing behind a pointer of a copy is read: the copy may be of another
 *     process. Tops and ends of stacks are compared as numbers.
 * I2  No difference is taken that could wrap: the copies are of different
 *     moments.
 *
 * No locks, no allocation; anybody may call it.
 */
#include "stats.h"

static size_t without(size_t from, size_t less)
{
	return from > less ? from - less : 0;
}

void hak_stats_clear(struct hak_snapshot *stats, size_t room)
{
	*stats = (struct hak_snapshot){ .room = room };
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		stats->bin[bin].size = hak_bins[bin].size;
}

void hak_stats_add_bin(struct hak_snapshot *stats, unsigned bin,
	const struct bin_slabs *bs)
{
	struct hakmem_bin_stats *to = &stats->bin[bin];
	size_t listed = bs->warm.count + bs->listed.count +
		(bs->box != NULL);

	to->slabs += bs->slabs;
	to->blocks += bs->blocks;
	to->free += without(bs->blocks, bs->taken);
	to->spill += bs->spill.count * MAGAZINE_BLOCKS;
	stats->total.spill_magazines += bs->spill.count;
	to->carving += bs->box != NULL;
	to->warm += bs->warm.count;
	to->listed += bs->listed.count;
	to->full += without(bs->slabs, listed);
	stats->total.slab_purged_bytes += bs->purged;
	if (HAK_COMPILED_CLASS)
		stats->counters[0].peak[bin] += bs->peak[0];
}

void hak_stats_add_background(struct hak_snapshot *stats,
	const struct hak_background *from)
{
	struct hakmem_stats *to = &stats->total;

	to->background_threads = LOAD_RELAXED(&from->threads);
	to->background_rounds = LOAD_RELAXED(&from->rounds);
	to->background_magazines = LOAD_RELAXED(&from->magazines);
	to->background_drained_bytes = LOAD_RELAXED(&from->drained_bytes);
	to->background_purged_bytes = LOAD_RELAXED(&from->purged_bytes);
}

/* Blocks in the front of a bin: from the start of its stack to the top. */
static size_t front_of(const struct heap *heap, unsigned bin, unsigned open)
{
	void **top = LOAD_RELAXED(bin < open ? &heap->top[bin]
					     : &heap->real_top[bin]);
	size_t cap = LOAD_RELAXED(&heap->bin[bin].cap), left;

	if (LOAD_RELAXED(&heap->bin[bin].end) == NULL)
		return 0;
	left = (ALIGN_UP((uintptr_t)top, MAGAZINE_BYTES) - (uintptr_t)top) /
		sizeof *top;
	return without(cap, left);
}

static void add_cached(struct hak_snapshot *stats, const struct heap *heap,
	unsigned bin, struct hak_snapshot_heap *row)
{
	struct hakmem_bin_stats *to = &stats->bin[bin];
	size_t front = front_of(heap, bin, stats->open_bins);
	size_t depot = LOAD_RELAXED(&heap->bin[bin].depot.count);

	to->front += front;
	to->depot += depot * MAGAZINE_BLOCKS;
	if (bin < L2_FIRST)
		row->front_bytes += front * to->size;
	else
		row->ring_bytes += front * to->size;
	row->depot_bytes += depot * MAGAZINE_BLOCKS * to->size;
	row->magazines += depot +
		(LOAD_RELAXED(&heap->bin[bin].end) != NULL);
}

void hak_stats_add_heap(struct hak_snapshot *stats, const struct heap *heap)
{
	struct hak_snapshot_heap row = { .thread = heap->thread,
		.shard = LOAD_RELAXED(&heap->shard),
		.reserved_bytes = LOAD_RELAXED(&heap->reserved_bytes),
		.magazines = LOAD_RELAXED(&heap->spare.count) };

	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		add_cached(stats, heap, bin, &row);
	row.footprint_bytes = sizeof *heap + row.magazines * MAGAZINE_BYTES;
	stats->total.heaps++;
	stats->total.heap_bytes += sizeof *heap;
	if (stats->rows < stats->room)
		stats->heap[stats->rows++] = row;
}

/* The rest of a bin's blocks is the program's; sums of all bins. */
static void finish_bin(struct hak_snapshot *stats, unsigned bin)
{
	struct hakmem_bin_stats *b = &stats->bin[bin];
	struct hakmem_stats *t = &stats->total;
	size_t idle = b->front + b->depot + b->spill + b->lost + b->free;
	size_t memory = b->slabs * hak_bins[bin].granules * GRANULE;

	b->live = without(b->blocks, idle);
	t->live_blocks += b->live;
	t->slab_live_bytes += b->live * b->size;
	*(bin < L2_FIRST ? &t->front_bytes : &t->ring_bytes) +=
		b->front * b->size;
	t->depot_bytes += b->depot * b->size;
	t->spill_bytes += b->spill * b->size;
	t->lost_bytes += b->lost * b->size;
	t->free_bytes += b->free * b->size;
	t->tail_bytes += without(memory, b->blocks * b->size);
	t->slab_bytes += memory;
	t->slabs += b->slabs;
	t->slabs_carving += b->carving;
	t->slabs_warm += b->warm;
	t->slabs_listed += b->listed;
	t->slabs_full += b->full;
}

void hak_stats_finish(struct hak_snapshot *stats)
{
	struct hakmem_stats *t = &stats->total;

	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		finish_bin(stats, bin);
	t->live_blocks += t->span_blocks;
	t->live_bytes = t->slab_live_bytes + t->span_bytes +
		t->heap_object_bytes;
}
