/*
 * unified_cache.c: refill, overflow and the byte reservation of a heap.
 *
 * I1  reserved_bytes is the sum of cap * size over attached bins, and
 *     reserved_bytes + depot_bytes stays within hak_cache_share; the sum over
 *     all heaps stays within hak_cache_budget, but for a quarter of a share
 *     that each may have in any case, because heaps of idle threads do not
 *     shrink.  Caps and depots grow only where that leaves room.  Small bins
 *     may exceed it by four blocks each; a bin that finds no room goes without
 *     a cache.  The sum is read before it is added to: heaps that grow at once
 *     may exceed the budget by one grant each.
 * I2  A depot holds full magazines only, so only bins whose front is a whole
 *     magazine have one.
 * I3  The slot below a front's start is NULL.
 *
 * Caps double on misses and on overflows: a bin that is not used costs what
 * it had at first.  A depot grows on a miss by what was given away since the
 * last one: a bin that only frees hands its magazines on at once, a bin that
 * swings keeps what it will need.
 */
#include "unified_cache.h"

#include "cache_limits.h"
#include "probe.h"
#include "shard.h"

#define SPARES_MAX 8

size_t hak_cache_budget = 8 * MIB;
size_t hak_cache_share = 8 * MIB;
size_t hak_cache_reserved;
unsigned hak_open_bins = L25_FIRST;

static size_t size_of(unsigned bin)
{
	return hak_bins[bin].size;
}

static const struct cache_limits *limits_of(unsigned bin)
{
	return &hak_cache_limits[bin];
}

static unsigned shard_of(const struct heap *heap)
{
	/* Acquire: pairs with the release in spread() (budget.c). */
	return __atomic_load_n(&heap->shard, __ATOMIC_ACQUIRE);
}

static void **start_of(const struct cached_bin *cb)
{
	return cb->end - cb->cap;
}

static bool fits(const struct heap *heap, size_t more)
{
	size_t own = heap->reserved_bytes + LOAD_RELAXED(&heap->depot_bytes) +
		more;
	size_t share = LOAD_RELAXED(&hak_cache_share);

	return own <= share / 4 ||
		(own <= share && LOAD_RELAXED(&hak_cache_reserved) + more <=
			LOAD_RELAXED(&hak_cache_budget));
}

static void add_to(size_t *sum, long bytes)
{
	STORE_RELAXED(sum, *sum + (size_t)bytes);
	__atomic_fetch_add(&hak_cache_reserved, (size_t)bytes,
		__ATOMIC_RELAXED);
}

static void reserve(struct heap *heap, long bytes)
{
	add_to(&heap->reserved_bytes, bytes);
}

static struct magazine *spare_take(struct heap *heap)
{
	struct magazine *m = hak_magazine_pop_newest(&heap->spare);

	return m != NULL ? m : hak_magazine_take();
}

static void spare_put(struct heap *heap, struct magazine *m)
{
	if (heap->spare.count < SPARES_MAX)
		hak_magazine_push(&heap->spare, m);
	else
		hak_magazine_put(m);
}

/* Give the bin its first magazine. */
static bool attach(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	unsigned cap = limits_of(bin)->cap_first;
	struct magazine *m;

	if (!fits(heap, cap * size_of(bin)))
		cap = limits_of(bin)->cap_least;
	m = cap != 0 ? spare_take(heap) : NULL;
	HAK_COUNT(DIAG, attach_failed, m == NULL);
	if (m == NULL)
		return false;
	STORE_RELAXED(&cb->end, hak_magazine_end(m));
	STORE_RELAXED(&cb->cap, (uint8_t)cap);
	cb->batch = limits_of(bin)->batch_first;
	cb->depot_max = limits_of(bin)->depot_first;
	start_of(cb)[-1] = NULL;
	STORE_RELAXED(hak_stack(heap, bin), start_of(cb));
	reserve(heap, (long)(cap * size_of(bin)));
	return true;
}

/* Another cap; the front's blocks move to its new start and must fit. */
static void set_cap(struct heap *heap, unsigned bin, unsigned cap)
{
	struct cached_bin *cb = &heap->bin[bin];
	void ***stack = hak_stack(heap, bin), **from = start_of(cb);
	size_t n = (size_t)(*stack - from);
	void **to = cb->end - cap;

	reserve(heap, ((long)cap - cb->cap) * (long)size_of(bin));
	__builtin_memmove(to, from, n * sizeof *to);
	to[-1] = NULL;
	STORE_RELAXED(&cb->cap, (uint8_t)cap);
	STORE_RELAXED(stack, to + n);
}

static bool grow(struct heap *heap, unsigned bin, unsigned want)
{
	struct cached_bin *cb = &heap->bin[bin];
	unsigned cap = MIN(want, limits_of(bin)->cap_max);

	if (cap <= cb->cap)
		return false;
	if (!fits(heap, (cap - cb->cap) * size_of(bin))) {
		HAK_COUNT(DIAG, grow_refused, 1);
		return false;
	}
	set_cap(heap, bin, cap);
	return true;
}

static struct magazine *depot_pop(struct heap *heap, unsigned bin, bool oldest)
{
	struct magazine_list *depot = &heap->bin[bin].depot;
	struct magazine *m;

	hak_lock(&heap->lock);
	m = oldest ? hak_magazine_pop_oldest(depot)
		   : hak_magazine_pop_newest(depot);
	HAK_COUNT(FREE, depot_takes, m != NULL);
	if (m != NULL)
		add_to(&heap->depot_bytes,
			-(long)(MAGAZINE_BLOCKS * size_of(bin)));
	hak_unlock(&heap->lock);
	return m;
}

static void depot_push(struct heap *heap, unsigned bin, struct magazine *m)
{
	hak_lock(&heap->lock);
	HAK_COUNT(FREE, depot_puts, 1);
	hak_magazine_push(&heap->bin[bin].depot, m);
	add_to(&heap->depot_bytes, (long)(MAGAZINE_BLOCKS * size_of(bin)));
	hak_unlock(&heap->lock);
	/* What lies there pins slabs. */
	hak_due_freed(MAGAZINE_BLOCKS * size_of(bin));
}

/* A full magazine leaves this heap: to another thread, or into bitmaps; whether
 * it went as a whole, and pins slabs as it did before. */
static bool give_away(unsigned bin, struct magazine *m)
{
	if (hak_spill_put(bin, m))
		return true;
	hak_shard_flush(bin, m->slot + 1, MAGAZINE_BLOCKS);
	hak_magazine_put(m);
	return false;
}

/* The bin whose depot holds the most bytes, or 0. */
static unsigned fattest(const struct heap *heap)
{
	unsigned found = 0;
	size_t most = 0;

	for (unsigned bin = TINY_FIRST; bin < L2_FIRST; bin++) {
		size_t bytes = LOAD_RELAXED(&heap->bin[bin].depot.count) *
			size_of(bin);

		if (bytes > most) {
			most = bytes;
			found = bin;
		}
	}
	return found;
}

/* Make room in the budget at the cost of the largest depot. */
static void evict_for(struct heap *heap, size_t bytes)
{
	while (!fits(heap, bytes)) {
		unsigned bin = fattest(heap);
		struct magazine *m = bin != 0 ? depot_pop(heap, bin, true)
					      : NULL;

		if (m == NULL)
			return;
		give_away(bin, m);
	}
}

/* A magazine of the depot, or one that another thread spilled, becomes the
 * front; the empty one is put aside. */
static void *swap_in(struct heap *heap, unsigned bin, struct magazine *full)
{
	struct cached_bin *cb = &heap->bin[bin];

	HAK_PROBE(refill, size_of(bin), MAGAZINE_BLOCKS);
	spare_put(heap, hak_magazine_of_end(cb->end));
	STORE_RELAXED(&cb->end, hak_magazine_end(full));
	STORE_RELAXED(hak_stack(heap, bin), cb->end - 1);
	return cb->end[-1];
}

static void *refill_magazine(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	struct magazine *m = NULL;
	uint64_t start = HAK_TICKS(REFILL);

	if (LOAD_RELAXED(&cb->depot.count) != 0)
		m = depot_pop(heap, bin, false);
	HAK_COUNT(REFILL, depot_blocks, m != NULL ? MAGAZINE_BLOCKS : 0);
	HAK_COUNT(REFILL, depot_cycles, hak_ticks_since(start));
	if (m == NULL) {
		start = HAK_TICKS(REFILL);
		grow(heap, bin, MAGAZINE_BLOCKS);
		if (cb->cap == MAGAZINE_BLOCKS)
			m = hak_spill_take(shard_of(heap), bin);
		HAK_COUNT(REFILL, spill_attempts, 1);
		HAK_COUNT(REFILL, spill_blocks,
			m != NULL ? MAGAZINE_BLOCKS : 0);
		HAK_COUNT(REFILL, spill_cycles, hak_ticks_since(start));
	}
	return m != NULL ? swap_in(heap, bin, m) : NULL;
}

/* A miss is the moment to learn that the depot was too small. */
static void learn(struct cached_bin *cb, unsigned bin)
{
	unsigned more = MIN(cb->credit, cb->depot_max + 1u);

	if (more == 0)
		return;
	cb->depot_max = (uint16_t)MIN(cb->depot_max + more,
		limits_of(bin)->depot_max);
	cb->credit = (uint16_t)(cb->credit - more);
}

static bool has_spill(const struct heap *heap, unsigned bin)
{
	return LOAD_RELAXED(&hak_shards[shard_of(heap)].bin[bin].spill.count) != 0;
}

void *hak_cache_refill(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	void ***stack = hak_stack(heap, bin), **start, *block;
	unsigned n;

	if (cb->end == NULL && !attach(heap, bin))
		return hak_shard_take(shard_of(heap), bin, &block, 1) != 0 ? block
									: NULL;
	if (bin < L2_FIRST) {
		HAK_COUNT(REFILL, depot_attempts, 1);
		if (LOAD_RELAXED(&cb->depot.count) != 0 ||
		    has_spill(heap, bin)) {
			block = refill_magazine(heap, bin);
			if (block != NULL)
				return block;
		}
		learn(cb, bin);
	}
	if (cb->batch > cb->cap / 2)
		grow(heap, bin, cb->cap * 2u);
	start = start_of(cb);
	n = hak_shard_take(shard_of(heap), bin, start, MIN(cb->batch, cb->cap));
	if (n == 0)
		return NULL;
	HAK_PROBE(refill, size_of(bin), n);
	if (cb->batch < limits_of(bin)->batch_max)
		cb->batch = (uint8_t)MIN(cb->batch * 2u, limits_of(bin)->batch_max);
	STORE_RELAXED(stack, start + n - 1);
	return start[n - 1];
}

/* The older half of a stack into bitmaps, in place. */
static void flush_half(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	void ***stack = hak_stack(heap, bin), **start = start_of(cb);
	size_t held = (size_t)(*stack - start), n = (held + 1) / 2;

	hak_shard_flush(bin, start, (unsigned)n);
	__builtin_memmove(start, start + n, (held - n) * sizeof *start);
	STORE_RELAXED(stack, start + held - n);
	cb->batch = limits_of(bin)->batch_first;
}

/* A full magazine is put away and an empty one takes its place. */
static bool exchange(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	struct magazine *full = hak_magazine_of_end(cb->end);
	struct magazine *empty = spare_take(heap);
	/* A magazine of the depot was counted when it came there. */
	bool told = false;

	if (empty == NULL)
		return false;
	HAK_PROBE(exchange, size_of(bin), full);
	STORE_RELAXED(&cb->end, hak_magazine_end(empty));
	STORE_RELAXED(hak_stack(heap, bin), start_of(cb));
	if (cb->depot_max != 0)
		evict_for(heap, MAGAZINE_BLOCKS * size_of(bin));
	if (cb->depot_max != 0 && fits(heap, MAGAZINE_BLOCKS * size_of(bin))) {
		depot_push(heap, bin, full);
		if (LOAD_RELAXED(&cb->depot.count) <= cb->depot_max)
			return true;
		full = depot_pop(heap, bin, true);
		told = true;
	}
	cb->batch = limits_of(bin)->batch_first;
	if (cb->credit < UINT16_MAX)
		cb->credit++;
	if (full != NULL && give_away(bin, full) && !told)
		hak_due_freed(MAGAZINE_BLOCKS * size_of(bin));
	return true;
}

/* The share became smaller since this bin's cap was granted. */
static void shrink(struct heap *heap, unsigned bin)
{
	struct cached_bin *cb = &heap->bin[bin];
	unsigned cap = MAX(cb->cap / 2, limits_of(bin)->cap_first);
	void **start = start_of(cb);
	size_t held = (size_t)(*hak_stack(heap, bin) - start);

	if (cap >= cb->cap)
		return;
	if (held >= cap) {
		size_t n = held - cap / 2;

		hak_shard_flush(bin, start, (unsigned)n);
		__builtin_memmove(start, start + n,
			(held - n) * sizeof *start);
		STORE_RELAXED(hak_stack(heap, bin), start + held - n);
	}
	set_cap(heap, bin, cap);
}

void hak_cache_overflow(struct heap *heap, unsigned bin, void *block)
{
	struct cached_bin *cb = &heap->bin[bin];
	void ***stack = hak_stack(heap, bin);

	if (cb->end == NULL && !attach(heap, bin)) {
		hak_shard_flush(bin, &block, 1);
		return;
	}
	HAK_COUNT(FREE, tls, 1);
	if (hak_push(stack, block))
		return;
	if (!fits(heap, 0)) {
		evict_for(heap, 0);
		if (!fits(heap, 0))
			shrink(heap, bin);
	} else {
		grow(heap, bin, cb->cap * 2u);
	}
	if (hak_push(stack, block))
		return;
	if (cb->cap != MAGAZINE_BLOCKS || bin >= L2_FIRST ||
	    !exchange(heap, bin))
		flush_half(heap, bin);
	hak_push(stack, block);
}

void hak_cache_flush_depots(struct heap *heap)
{
	for (unsigned bin = TINY_FIRST; bin < L2_FIRST; bin++) {
		struct magazine *m;

		while (LOAD_RELAXED(&heap->bin[bin].depot.count) != 0 &&
		       (m = depot_pop(heap, bin, true)) != NULL) {
			hak_shard_flush(bin, m->slot + 1, MAGAZINE_BLOCKS);
			hak_magazine_put(m);
		}
	}
}

static void flush_fronts(struct heap *heap)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		struct cached_bin *cb = &heap->bin[bin];
		void ***stack = hak_stack(heap, bin), **start;

		if (cb->end == NULL)
			continue;
		start = start_of(cb);
		if (*stack != start)
			hak_shard_flush(bin, start, (unsigned)(*stack - start));
		STORE_RELAXED(stack, start);
		cb->batch = limits_of(bin)->batch_first;
		cb->credit = 0;
		cb->depot_max = limits_of(bin)->depot_first;
		if (cb->cap > limits_of(bin)->cap_first)
			set_cap(heap, bin, limits_of(bin)->cap_first);
	}
}

void hak_cache_flush(struct heap *heap)
{
	flush_fronts(heap);
	hak_cache_flush_depots(heap);
}

void hak_cache_teardown(struct heap *heap)
{
	struct magazine *m;

	hak_cache_flush(heap);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++) {
		struct cached_bin *cb = &heap->bin[bin];

		if (cb->end == NULL)
			continue;
		STORE_RELAXED(hak_stack(heap, bin), HAK_CLOSED);
		hak_magazine_put(hak_magazine_of_end(cb->end));
		STORE_RELAXED(&cb->end, NULL);
		reserve(heap, -(long)(cb->cap * size_of(bin)));
	}
	while ((m = hak_magazine_pop_newest(&heap->spare)) != NULL)
		hak_magazine_put(m);
	ASSERT(heap->reserved_bytes == 0);
}

void hak_cache_close(void)
{
	hak_open_bins = 0;
}

void hak_cache_init(struct heap *heap)
{
	for (unsigned code = 0; code < CODES; code++)
		heap->top[code] = HAK_CLOSED;
	for (unsigned bin = hak_open_bins; bin < BINS; bin++)
		heap->real_top[bin] = HAK_CLOSED;
}

size_t hak_cache_held(const struct heap *heap, unsigned bin)
{
	const struct cached_bin *cb = &heap->bin[bin];
	void **top = LOAD_RELAXED(hak_stack((struct heap *)heap, bin));
	size_t n = LOAD_RELAXED(&cb->depot.count) * MAGAZINE_BLOCKS;

	if (hak_is_full(top))
		return top == HAK_CLOSED ? n : n + LOAD_RELAXED(&cb->cap);
	/* A front's start is not the thread's to publish: count back to the
	 * end of the magazine. */
	return n + LOAD_RELAXED(&cb->cap) -
		(size_t)((void **)ALIGN_UP((uintptr_t)top, MAGAZINE_BYTES) -
			top);
}

size_t hak_cache_held_bytes(const struct heap *heap)
{
	size_t bytes = 0;

	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		bytes += hak_cache_held(heap, bin) * size_of(bin);
	return bytes;
}
