/*
 * arena.c: arenas, SuperSlabs and runs of granules.
 *
 * I1  A granule is free (its bit in free is set) or belongs to exactly one
 *     run, whose descriptor is that of its first granule.
 * I2  A free granule that is not dirty reads as zero and holds no page.
 * I3  A granule is handed out only from an opened SuperSlab.
 * I4  While a purge is under way without the lock, its granules are in
 *     neither set: nobody else can take them.
 *
 * Huge pages (HAKMEM_THP=auto): an arena is born without them, because the
 * kernel's setting may be "always" and a small process must not pay 2 MiB for
 * its first block.  The first arena keeps a window of small pages at its
 * head; the rest is advised as one range when somebody first needs it.  A
 * SuperSlab that is purged in part loses the advice until it is wholly free,
 * lest the kernel fill the holes again.
 *
 * Everything is under hak_arena_lock; the sums are read relaxed.
 */
#include "arena.h"

#include "due.h"
#include "limit.h"
#include "lock.h"
#include "options.h"
#include "os.h"
#include "page_map.h"
#include "probe.h"

#define ARENA_GRANULES 1024
#define WORDS (ARENA_GRANULES / 64)
#define WINDOW_GRANULES 64
/* Blocks taken from the window before all goes to the dense part. */
#define WINDOW_BUDGET 44
/* What makes bounds stale, in granules: a change of what is in use, or traffic
 * without one. */
#define JUDGE_NET (MIB / GRANULE)
#define JUDGE_GROSS (16 * MIB / GRANULE)
#define CHURN_CREDIT_MAX (12 * MIB)

struct arena {
	uintptr_t base;
	struct arena *next;
	/* Granules, and how many of them the head takes. */
	unsigned granules;
	unsigned head;
	unsigned free_count;
	/* No free run is longer than this. */
	unsigned longest;
	/* One bit a SuperSlab. */
	uint32_t opened;
	uint32_t split;
	/* Huge pages were asked for. */
	bool huge;
	uint64_t free[WORDS];
	uint64_t dirty[WORDS];
	struct slab slabs[] HAK_ALIGNED(CACHE_LINE);
};

_Static_assert(offsetof(struct arena, opened) ==
	offsetof(struct hak_arena_front, opened), "hak_arena_front");

struct hak_lock hak_arena_lock = HAK_LOCK_INIT(RANK_ARENA);

static struct arena *arenas;
static unsigned window_used;
/* Granules taken and put since the budget was last called stale. */
static unsigned moved;
/* What was in use then. */
static size_t judged_granules;
/* Dirty granules that may stay beyond the bound: it rises when such granules
 * are taken again and falls, half as fast, when any are put; a sweep ends it.  So
 * a program that churns is spared the purging and refilling of what it needs
 * again, and one that only frees is held to the bound. */
static unsigned churn_credit;

/* In granules; written under the lock. */
static size_t used_granules;
static size_t dirty_granules;
static size_t opened_superslabs;
static size_t reserved_granules;
static size_t head_granules;

static void add(size_t *sum, long n)
{
	STORE_RELAXED(sum, *sum + (size_t)n);
}

/* Bounds follow what is in use: they are stale when that has changed, or when
 * so much went to and fro that a delayed purge should have another look. */
static void note_moved(unsigned n)
{
	size_t used = used_granules, from = judged_granules;

	moved += n;
	if ((used > from ? used - from : from - used) < JUDGE_NET &&
	    moved < JUDGE_GROSS)
		return;
	moved = 0;
	judged_granules = used;
	hak_due_set(DUE_BUDGET);
}

static bool bit_get(const uint64_t *set, unsigned i)
{
	return set[i / 64] >> i % 64 & 1;
}

static uint64_t word_mask(unsigned from, unsigned to)
{
	return (to - from == 64 ? ~(uint64_t)0
				: ((uint64_t)1 << (to - from)) - 1) << from % 64;
}

/* Set or clear n bits from first; returns how many changed. */
static unsigned bits_write(uint64_t *set, unsigned first, unsigned n, bool on)
{
	unsigned changed = 0;

	for (unsigned i = first, end = first + n; i < end;) {
		unsigned stop = MIN(end, (i | 63) + 1);
		uint64_t mask = word_mask(i, stop), old = set[i / 64];

		set[i / 64] = on ? old | mask : old & ~mask;
		changed += (unsigned)__builtin_popcountll(old ^ set[i / 64]);
		i = stop;
	}
	return changed;
}

static unsigned bits_count(const uint64_t *set, unsigned first, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = first, end = first + n; i < end;) {
		unsigned stop = MIN(end, (i | 63) + 1);

		count += (unsigned)__builtin_popcountll(
			set[i / 64] & word_mask(i, stop));
		i = stop;
	}
	return count;
}

/* The next position at or after i, below end, whose bit equals on. */
static unsigned bits_next(const uint64_t *set, unsigned i, unsigned end,
	bool on)
{
	while (i < end) {
		uint64_t word = (on ? set[i / 64] : ~set[i / 64]) >> i % 64;

		if (word != 0)
			return MIN(end, i + (unsigned)__builtin_ctzll(word));
		i = (i | 63) + 1;
	}
	return end;
}

/* Where huge pages may begin: after the window, or after the head. */
static unsigned dense_from(const struct arena *arena)
{
	return arena == arenas ? WINDOW_GRANULES : SUPERSLAB_GRANULES;
}

/* First fit at or after from; granules of the arena when there is none. */
static unsigned find_run(struct arena *arena, unsigned from, unsigned n,
	unsigned align)
{
	unsigned end = arena->granules, i = from, longest = 0;

	for (;;) {
		unsigned start = bits_next(arena->free, i, end, true), stop;

		if (start == end)
			break;
		stop = bits_next(arena->free, start, end, false);
		longest = MAX(longest, stop - start);
		if (ALIGN_UP(start, align) + n <= stop)
			return (unsigned)ALIGN_UP(start, align);
		i = stop;
	}
	/* What the window and the heads have left is looked for last. */
	if (from <= dense_from(arena))
		arena->longest = longest;
	return end;
}

static void advise_dense(struct arena *arena)
{
	size_t skip = dense_from(arena);

	if (arena->huge || hak_options.thp == HAK_THP_NEVER ||
	    arena->granules <= skip)
		return;
	arena->huge = true;
	hak_os_hugepage((void *)(arena->base + skip * GRANULE),
		(arena->granules - skip) * GRANULE, true);
}

/* Open what is closed of the SuperSlabs that the run touches. */
static bool open_run(struct arena *arena, unsigned first, unsigned n)
{
	unsigned last = (first + n - 1) / SUPERSLAB_GRANULES;

	for (unsigned s = first / SUPERSLAB_GRANULES; s <= last; s++) {
		if (arena->opened >> s & 1)
			continue;
		if (!hak_os_commit((void *)(arena->base + s * SUPERSLAB),
				SUPERSLAB))
			return false;
		arena->opened |= (uint32_t)1 << s;
		add(&opened_superslabs, 1);
	}
	return true;
}

static struct arena *arena_make(unsigned granules)
{
	size_t size = granules * GRANULE;
	char *base = hak_os_reserve(size, size);
	struct arena *arena = (struct arena *)base;

	if (base == NULL)
		return NULL;
	if (hak_options.thp == HAK_THP_ALWAYS)
		hak_os_hugepage(base, size, true);
	else
		hak_os_hugepage(base, size, false);
	if (!hak_os_commit(base, SUPERSLAB) ||
	    !hak_page_map_cover((uintptr_t)base, size)) {
		hak_os_discard(base, size);
		return NULL;
	}
	arena->base = (uintptr_t)base;
	arena->granules = granules;
	arena->huge = hak_options.thp == HAK_THP_ALWAYS;
	arena->opened = 1;
	arena->head = (unsigned)((sizeof *arena +
		granules * sizeof(struct slab) + GRANULE - 1) / GRANULE);
	arena->free_count = granules - arena->head;
	arena->longest = arena->free_count;
	bits_write(arena->free, arena->head, arena->free_count, true);
	add(&opened_superslabs, 1);
	add(&reserved_granules, granules);
	add(&head_granules, arena->head);
	HAK_PROBE(arena, base, size);
	return arena;
}

/* A new arena at the end of the list, as large as the address space lets it
 * be, but not so small that the run does not fit beside the head. */
static struct arena *arena_add(unsigned need)
{
	static const unsigned sizes[] = { ARENA_GRANULES, 256, 64, 32 };
	struct arena *arena = NULL, **link = &arenas;

	for (size_t i = 0; i < COUNT_OF(sizes) && arena == NULL; i++)
		if (need + 1 + sizes[i] / 100 <= sizes[i])
			arena = arena_make(sizes[i]);
	if (arena == NULL)
		return NULL;
	while (*link != NULL)
		link = &(*link)->next;
	*link = arena;
	return arena;
}

static bool use_window(unsigned n, unsigned align, enum hak_place place)
{
	/* Slabs of several granules fill their pages: they get the half. */
	unsigned budget = n == 1 ? WINDOW_BUDGET : WINDOW_BUDGET / 2;

	return place == PLACE_SMALL && n + align <= 9 &&
		window_used + n <= budget;
}

/* First fit in the arenas that exist: in the window if the run is for it, else
 * among huge pages. */
static struct arena *find_placed(unsigned n, unsigned align,
	enum hak_place place, unsigned *at)
{
	for (struct arena *arena = arenas; arena != NULL; arena = arena->next) {
		bool window = arena == arenas && use_window(n, align, place);
		unsigned from = window ? 0 : dense_from(arena);

		if (arena->longest < n)
			continue;
		*at = find_run(arena, MIN(from, arena->granules), n, align);
		if (*at == arena->granules)
			continue;
		if (window)
			window_used += n;
		else
			advise_dense(arena);
		return arena;
	}
	return NULL;
}

/* Where the run can be had, adding an arena if need be. */
static struct arena *find_arena(unsigned n, unsigned align,
	enum hak_place place, unsigned *at)
{
	struct arena *arena = find_placed(n, align, place, at);

	if (arena == NULL && arena_add(n + align - 1) != NULL)
		arena = find_placed(n, align, place, at);
	if (arena != NULL)
		return arena;
	/* Heads and window, before the program is told that nothing is left. */
	for (arena = arenas; arena != NULL; arena = arena->next) {
		*at = find_run(arena, 0, n, align);
		if (*at < arena->granules)
			return arena;
	}
	return NULL;
}

static bool may_be_huge(const struct arena *arena, unsigned s)
{
	return arena->huge &&
		(arena != arenas || s >= WINDOW_GRANULES / SUPERSLAB_GRANULES);
}

static bool is_split(const struct arena *arena, unsigned s)
{
	return arena->split >> s & 1;
}

static bool is_wholly_free(const struct arena *arena, unsigned s)
{
	return bits_count(arena->free, s * SUPERSLAB_GRANULES,
		SUPERSLAB_GRANULES) == SUPERSLAB_GRANULES;
}

/* A SuperSlab with holes must not be filled again by the kernel. */
static void set_split(struct arena *arena, unsigned s, bool split)
{
	if (!may_be_huge(arena, s) || is_split(arena, s) == split)
		return;
	arena->split ^= (uint32_t)1 << s;
	hak_os_hugepage((void *)(arena->base + s * SUPERSLAB), SUPERSLAB,
		!split);
}

/* Take granules out of the free set; true when all of them read as zero. */
static bool claim(struct arena *arena, unsigned at, unsigned n)
{
	unsigned dirty;

	bits_write(arena->free, at, n, false);
	dirty = bits_write(arena->dirty, at, n, false);
	arena->free_count -= n;
	add(&used_granules, n);
	add(&dirty_granules, -(long)dirty);
	note_moved(n);
	churn_credit = MIN(churn_credit + dirty, CHURN_CREDIT_MAX / GRANULE);
	return dirty == 0;
}

static void release(struct arena *arena, unsigned at, unsigned n, bool dirty)
{
	bits_write(arena->free, at, n, true);
	arena->free_count += n;
	arena->longest = MAX(arena->longest, arena->free_count);
	add(&used_granules, -(long)n);
	note_moved(n);
	churn_credit -= MIN(churn_credit, (n + 1) / 2);
	if (dirty)
		add(&dirty_granules, bits_write(arena->dirty, at, n, true));
}

/* Descriptors stand in the first SuperSlab of their arena. */
static struct arena *arena_of(const struct slab *slab)
{
	return (struct arena *)ALIGN_DOWN((uintptr_t)slab, SUPERSLAB);
}

static unsigned index_of(const struct arena *arena, const struct slab *slab)
{
	return (unsigned)((slab->base - arena->base) / GRANULE);
}

struct slab *hak_arena_take(unsigned granules, unsigned align_granules,
	enum hak_place place, unsigned code, unsigned entries)
{
	struct slab *slab = NULL;
	struct arena *arena;
	unsigned at;
	size_t admitted;

	if (!hak_limit_admits(granules * GRANULE, &admitted))
		return NULL;
	hak_lock(&hak_arena_lock);
	arena = find_arena(granules, align_granules, place, &at);
	if (arena != NULL && open_run(arena, at, granules)) {
		slab = &arena->slabs[at];
		slab->zero = claim(arena, at, granules);
		slab->base = arena->base + at * GRANULE;
		slab->granules = (uint16_t)granules;
		slab->bin = (uint8_t)code;
		slab->mapped = false;
		slab->owner = NULL;
		slab->shard = 0;
		slab->span_bytes = 0;
		slab->state = SLAB_SPAN;
		hak_page_map_set(slab->base, entries, slab, code);
	}
	hak_unlock(&hak_arena_lock);
	hak_limit_settle(admitted);
	return slab;
}

static void put(struct slab *slab, bool dirty)
{
	struct arena *arena;

	hak_lock(&hak_arena_lock);
	arena = arena_of(slab);
	ASSERT(arena != NULL && slab->state != SLAB_FREE);
	slab->state = SLAB_FREE;
	hak_page_map_set(slab->base, slab->granules, NULL, CODE_NONE);
	release(arena, index_of(arena, slab), slab->granules, dirty);
	hak_unlock(&hak_arena_lock);
}

void hak_arena_put(struct slab *slab)
{
	put(slab, true);
}

void hak_arena_put_zero(struct slab *slab)
{
	put(slab, false);
}

bool hak_arena_resize(struct slab *slab, unsigned granules)
{
	struct arena *arena;
	unsigned at, old = slab->granules;
	bool ok = true;

	hak_lock(&hak_arena_lock);
	arena = arena_of(slab);
	at = index_of(arena, slab);
	if (granules < old) {
		release(arena, at + granules, old - granules, true);
	} else if (granules > old) {
		ok = at + granules <= arena->granules &&
			bits_next(arena->free, at + old, at + granules,
				false) == at + granules &&
			open_run(arena, at + old, granules - old);
		if (ok && !claim(arena, at + old, granules - old))
			slab->zero = false;
	}
	if (ok)
		slab->granules = (uint16_t)granules;
	hak_unlock(&hak_arena_lock);
	return ok;
}

/* What to purge next, the cheapest first: a wholly free SuperSlab, a run where
 * small pages are already, a run inside a huge page. */
enum purge_kind { PURGE_WHOLE, PURGE_SMALL, PURGE_SPLIT, PURGE_KINDS };

struct piece {
	struct arena *arena;
	unsigned at;
	unsigned n;
};

static enum purge_kind kind_of(const struct arena *arena, unsigned first)
{
	unsigned s = first / SUPERSLAB_GRANULES;

	if (is_wholly_free(arena, s))
		return PURGE_WHOLE;
	return may_be_huge(arena, s) && !is_split(arena, s) ? PURGE_SPLIT
							     : PURGE_SMALL;
}

/* The first run inside a huge page turns the others there into the cheaper
 * kind. */
static bool is_due(enum purge_kind is, enum purge_kind now)
{
	return is == now || (is == PURGE_SMALL && now == PURGE_SPLIT);
}

static bool find_piece(struct piece *piece, enum purge_kind kind)
{
	bool found = false;

	for (struct arena *a = arenas; a != NULL; a = a->next) {
		for (unsigned s = 0; s < a->granules; s += SUPERSLAB_GRANULES) {
			unsigned end = s + SUPERSLAB_GRANULES, at;

			at = bits_next(a->dirty, s, end, true);
			if (at == end || !is_due(kind_of(a, s), kind))
				continue;
			*piece = kind == PURGE_WHOLE
				? (struct piece){ a, s, SUPERSLAB_GRANULES }
				: (struct piece){ a, at, bits_next(a->dirty,
					at, end, false) - at };
			/* The last found is the highest: low addresses are
			 * taken again first. */
			found = true;
		}
	}
	return found;
}

/* Called and returns with the lock held; it is dropped in between (I4). */
static size_t purge_piece(const struct piece *piece, bool whole)
{
	struct arena *arena = piece->arena;
	void *start = (void *)(arena->base + piece->at * GRANULE);
	size_t size = piece->n * GRANULE;
	unsigned dirty;
	bool zero;

	bits_write(arena->free, piece->at, piece->n, false);
	dirty = bits_write(arena->dirty, piece->at, piece->n, false);
	arena->free_count -= piece->n;
	add(&dirty_granules, -(long)dirty);
	add(&used_granules, piece->n);
	set_split(arena, piece->at / SUPERSLAB_GRANULES, !whole);
	hak_unlock(&hak_arena_lock);
	zero = hak_os_purge(start, size);
	hak_lock(&hak_arena_lock);
	release(arena, piece->at, piece->n, !zero);
	return zero ? dirty * GRANULE : 0;
}

void hak_arena_note_holes(const struct slab *slab)
{
	struct arena *arena;
	unsigned at;

	hak_lock(&hak_arena_lock);
	arena = arena_of(slab);
	at = index_of(arena, slab);
	for (unsigned s = at / SUPERSLAB_GRANULES;
	     s <= (at + slab->granules - 1) / SUPERSLAB_GRANULES; s++)
		set_split(arena, s, true);
	hak_unlock(&hak_arena_lock);
}

void hak_arena_end_churn(void)
{
	hak_lock(&hak_arena_lock);
	churn_credit = 0;
	hak_unlock(&hak_arena_lock);
}

size_t hak_arena_purge(size_t keep, bool spare)
{
	size_t done = 0, bytes = 1, target;
	struct piece piece;

	if (hak_arena_dirty_bytes() <= keep)
		return 0;
	hak_lock(&hak_arena_lock);
	target = keep + (spare && keep != 0 ? churn_credit * GRANULE : 0);
	for (unsigned kind = PURGE_WHOLE; kind < PURGE_KINDS; kind++) {
		while (dirty_granules * GRANULE > target && bytes != 0 &&
		       find_piece(&piece, kind)) {
			bytes = purge_piece(&piece, kind == PURGE_WHOLE);
			done += bytes;
		}
	}
	hak_unlock(&hak_arena_lock);
	return done;
}

/* Nothing of an arena can be read once it is gone. */
static bool unmap_arena(struct arena **link)
{
	struct arena *arena = *link, *next = arena->next;
	long dirty = (long)bits_count(arena->dirty, 0, arena->granules);
	long opened = __builtin_popcount(arena->opened);
	long granules = (long)arena->granules, head = (long)arena->head;

	if (!hak_os_unmap((void *)arena->base, arena->granules * GRANULE))
		return false;
	*link = next;
	add(&dirty_granules, -dirty);
	add(&opened_superslabs, -opened);
	add(&reserved_granules, -granules);
	add(&head_granules, -head);
	return true;
}

bool hak_arena_release(bool dirty_too)
{
	struct arena **link, *arena;
	bool any = false;

	hak_lock(&hak_arena_lock);
	for (link = &arenas; (arena = *link) != NULL;) {
		if (arena->free_count != arena->granules - arena->head ||
		    arena == arenas || (!dirty_too && bits_count(arena->dirty,
			0, arena->granules) != 0)) {
			link = &arena->next;
			continue;
		}
		any |= unmap_arena(link);
		/* One that the kernel kept is as good as before. */
		if (*link == arena)
			link = &arena->next;
	}
	hak_unlock(&hak_arena_lock);
	return any;
}

size_t hak_arena_used_bytes(void)
{
	return LOAD_RELAXED(&used_granules) * GRANULE;
}

size_t hak_arena_dirty_bytes(void)
{
	return LOAD_RELAXED(&dirty_granules) * GRANULE;
}

size_t hak_arena_opened_bytes(void)
{
	return LOAD_RELAXED(&opened_superslabs) * SUPERSLAB;
}

size_t hak_arena_head_bytes(void)
{
	return LOAD_RELAXED(&head_granules) * GRANULE;
}

size_t hak_arena_reserved_bytes(void)
{
	return LOAD_RELAXED(&reserved_granules) * GRANULE;
}

bool hak_arena_at(size_t place, struct hak_arena_extent *extent)
{
	struct arena *a;

	if (!hak_lock_patiently(&hak_arena_lock))
		return false;
	for (a = arenas; a != NULL && place != 0; a = a->next)
		place--;
	if (a != NULL)
		*extent = (struct hak_arena_extent){ a->base,
			a->granules * GRANULE, a->head * GRANULE, a->opened };
	hak_unlock(&hak_arena_lock);
	return a != NULL;
}

void hak_arena_visit(bool (*visit)(struct slab *, void *), void *arg)
{
	bool go_on = true;

	hak_lock(&hak_arena_lock);
	for (struct arena *a = arenas; a != NULL && go_on; a = a->next) {
		for (unsigned i = a->head; i < a->granules && go_on;) {
			struct slab *slab = &a->slabs[i];

			if (bit_get(a->free, i)) {
				i++;
				continue;
			}
			if (slab->state == SLAB_FREE) {
				i++;	/* being purged */
				continue;
			}
			go_on = visit(slab, arg);
			i += slab->granules;
		}
	}
	hak_unlock(&hak_arena_lock);
}

HAK_EXPOSE(hak_note_arenas, arenas);
HAK_EXPOSE(hak_note_used_granules, used_granules);
HAK_EXPOSE(hak_note_dirty_granules, dirty_granules);
