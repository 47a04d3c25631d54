/*
 * check.c: checked mode.
 *
 * I1  A block that the program has is recorded, from before it is handed out
 *     until its free was accepted: whatever else is freed is no block.
 * I2  Two frees of a block cannot both be accepted: the record is marked under
 *     the shelf's lock.
 * I3  Reports are made with no lock held: they may end in a handler of the
 *     program's that forks.  The pools are called with no shelf locked.
 */
#include "check.h"

#include "alloc.h"
#include "fault.h"
#include "guard.h"
#include "heap.h"
#include "options.h"
#include "quarantine.h"
#include "report.h"
#include "start.h"

#include <errno.h>

/* Who wants what. */
struct request {
	struct locked_heap *owner;
	size_t size, align;
	/* Room to grow in, where there is. */
	size_t spare;
	bool zero;
	struct hak_caller caller;
};

/* Who frees what, and what is claimed of it. */
struct release {
	const char *function;
	void *block;
	bool sized, aligned;
	size_t align, size;
	struct hak_caller caller;
	/* What is wrong with it was told already. */
	bool told;
};

/* What every block is aligned to, so that no claim of it is wrong. */
#define ALIGN_LEAST ((size_t)16)

bool hak_check_decide(void)
{
	if (LOAD_RELAXED(&hak_check_mode) == HAK_CHECK_UNDECIDED)
		hak_start();
	return LOAD_RELAXED(&hak_check_mode) == HAK_CHECK_ON;
}

/* --- what a pointer is --- */

/* The block need not start there. */
static bool is_in(const struct hak_record *record, uintptr_t address)
{
	return address - record->raw < record->raw_size;
}

/* Where a block of a slab would start, that is of no special alignment, but is
 * nobody's now: it has left the quarantine. */
static bool was_block(uintptr_t address)
{
	const void *p = (const void *)address;
	struct slab *slab = hak_page_map_slab(p);
	size_t size;

	if (slab == NULL || hak_page_map_is_alias(p) ||
	    hak_page_map_code(p) == CODE_NONE || slab->bin >= BINS)
		return false;
	size = hak_bins[slab->bin].size;
	return hak_guard_may_start((address - slab->base) % size, size);
}

/* Complain of a pointer that is no block; freed is what to say of one that
 * was. */
static HAK_COLD void complain(const char *function, const void *pointer,
	const char *freed, struct hak_caller caller)
{
	uintptr_t at = (uintptr_t)pointer;
	struct hak_finding finding = { .function = function,
		.what = "invalid pointer", .pointer = pointer,
		.caller = hak_heap_origin(caller) };

	finding.record = hak_records_search(is_in, at, false);
	if (finding.record.block != 0 ? finding.record.block == at &&
			finding.record.freed : was_block(at))
		finding.what = freed;
	hak_report(&finding);
}

/* --- allocation --- */

static bool pools_alloc(struct hak_record *record, size_t spare, bool *zero)
{
	size_t room = hak_guard_room(record);
	int saved = errno;
	void *raw = NULL;

	if (spare != 0 && spare <= PTRDIFF_MAX - MIN(room, PTRDIFF_MAX))
		raw = hak_pools_alloc(record->owner, room + spare,
			record->align, zero);
	if (raw == NULL)
		raw = hak_pools_alloc(record->owner, room, record->align,
			zero);
	if (raw == NULL && room <= PTRDIFF_MAX && hak_quarantine_empty())
		raw = hak_pools_alloc(record->owner, room, record->align,
			zero);
	record->raw = (uintptr_t)raw;
	if (raw == NULL)
		return false;
	errno = saved;
	record->raw_size = hak_pools_size(raw);
	return true;
}

static bool enter(const struct hak_record *record)
{
	struct hak_shelf *shelf = hak_shelf_of(record->block);
	struct hak_record *entered;

	hak_lock(&shelf->lock);
	entered = hak_record_add(shelf, record);
	if (entered != NULL)
		hak_guard_close(entered);
	hak_unlock(&shelf->lock);
	return entered != NULL;
}

static void *take(const struct request *request)
{
	struct hak_record record = { .size = request->size,
		.align = request->align, .owner = request->owner };
	bool zero;

	if (!pools_alloc(&record, request->spare, &zero))
		return NULL;
	record.made = hak_heap_origin(request->caller);
	hak_guard_new(&record, !request->zero);
	if (!enter(&record) && !(hak_quarantine_empty() && enter(&record))) {
		hak_pools_free((void *)record.raw);
		errno = ENOMEM;
		return NULL;
	}
	if (hak_guard_any())
		hak_fault_watch();
	if (request->zero && !zero)
		__builtin_memset((void *)record.block, 0, record.size);
	return (void *)record.block;
}

/* --- free --- */

/* What is wrong with the free of a live block; NULL: nothing. */
static const char *fault(const struct release *release,
	const struct hak_record *record, struct hak_finding *finding)
{
	finding->damage = hak_guard_damage(record);
	if (finding->damage != 0)
		return finding->damage >= record->block ? "write past the end"
							: "write before the start";
	if (release->aligned && (!IS_POWER_OF_TWO(release->align) ||
			MAX(release->align, ALIGN_LEAST) !=
				MAX(record->align, ALIGN_LEAST))) {
		finding->argument = "alignment";
		finding->value = release->align;
		return "wrong alignment";
	}
	if (release->sized && release->size != record->size) {
		finding->argument = "size";
		finding->value = release->size;
		return "wrong size";
	}
	return NULL;
}

/* The block is no longer the program's.  Returns what goes back to the pools
 * at once: a block of which the quarantine could not hold a few, unless its
 * guard page stays closed. */
static void *accept(struct hak_shelf *shelf, struct hak_record *record,
	const struct release *release)
{
	void *raw = (void *)record->raw;

	if (record->raw_size > hak_options.check_quarantine / 4 &&
	    hak_guard_open(record)) {
		hak_record_drop(shelf, record);
		return raw;
	}
	record->unmade = hak_heap_origin(release->caller);
	record->freed = true;
	if (release->told)
		hak_guard_around(record);
	hak_guard_freed(record);
	hak_record_push(shelf, record);
	return NULL;
}

enum outcome { ACCEPTED, NO_BLOCK, FAULTY };

static enum outcome try_release(const struct release *release, void **raw,
	struct hak_finding *finding)
{
	uintptr_t block = (uintptr_t)release->block;
	struct hak_shelf *shelf = hak_shelf_of(block);
	struct hak_record *record;
	enum outcome outcome = ACCEPTED;

	hak_lock(&shelf->lock);
	record = hak_record_find(shelf, block);
	if (record == NULL || record->freed) {
		outcome = NO_BLOCK;
	} else if (!release->told &&
		   (finding->what = fault(release, record, finding)) != NULL) {
		finding->record = *record;
		outcome = FAULTY;
	} else {
		*raw = accept(shelf, record, release);
	}
	hak_unlock(&shelf->lock);
	return outcome;
}

static void release_block(struct release *release)
{
	struct hak_finding finding = { .function = release->function,
		.pointer = release->block };
	void *raw = NULL;
	int saved = errno;
	enum outcome outcome = try_release(release, &raw, &finding);

	if (HAK_UNLIKELY(outcome == FAULTY)) {
		finding.caller = hak_heap_origin(release->caller);
		hak_report(&finding);
		release->told = true;
		outcome = try_release(release, &raw, &finding);
	}
	if (HAK_UNLIKELY(outcome == NO_BLOCK))
		complain(release->function, release->block, "double free",
			release->caller);
	if (raw != NULL)
		hak_pools_free(raw);
	hak_quarantine_trim();
	hak_pools_maintain();
	errno = saved;
}

/* --- realloc --- */

/* A copy of a live block's record; false after the complaint. */
static bool look_up(const char *function, const void *pointer,
	struct hak_caller caller, struct hak_record *copy)
{
	uintptr_t block = (uintptr_t)pointer;
	struct hak_shelf *shelf = hak_shelf_of(block);
	struct hak_record *record;
	bool live;

	hak_lock(&shelf->lock);
	record = hak_record_find(shelf, block);
	live = record != NULL && !record->freed;
	if (live)
		*copy = *record;
	hak_unlock(&shelf->lock);
	if (!live)
		complain(function, pointer, "freed block", caller);
	return live;
}

/* Whether it is worth it: large blocks that grow or shrink by and by. */
static bool stays(const struct hak_record *record, size_t size)
{
	return record->raw_size > L25_MAX && size >= record->raw_size / 4;
}

/* Another size for a block that stays; at all events if it must. */
static bool resize_in_place(const struct release *release, size_t size,
	bool must)
{
	uintptr_t block = (uintptr_t)release->block;
	struct hak_shelf *shelf = hak_shelf_of(block);
	struct hak_record *record;
	bool ok;

	hak_lock(&shelf->lock);
	record = hak_record_find(shelf, block);
	ok = record != NULL && !record->freed &&
		hak_guard_damage(record) == 0 &&
		(must || stays(record, size)) && hak_guard_resize(record, size);
	if (ok) {
		record->align = MIN(record->align, ALIGN_LEAST);
		record->made = hak_heap_origin(release->caller);
	}
	hak_unlock(&shelf->lock);
	return ok;
}

/* The block, elsewhere: so what still points to the old one is found out. */
static void *resize(const struct hak_record *old, size_t size,
	struct release *release)
{
	struct request request = { .owner = old->owner, .size = size,
		.align = 1, .caller = release->caller };
	int saved = errno;
	void *to;

	if (resize_in_place(release, size, false))
		return release->block;
	if (size > L25_MAX && size > old->size)
		request.spare = size / 2;
	to = take(&request);
	/* Without memory for a copy a block can still become shorter. */
	if (to == NULL && size <= old->size &&
	    resize_in_place(release, size, true)) {
		errno = saved;
		to = release->block;
	}
	if (to == NULL || to == release->block)
		return to;
	__builtin_memcpy(to, release->block, MIN(size, old->size));
	release_block(release);
	return to;
}

static void *reallocate(struct release *release, size_t size)
{
	struct hak_record old;

	if (!look_up(release->function, release->block, release->caller,
			&old)) {
		errno = EINVAL;
		return NULL;
	}
	if (size == 0) {
		release_block(release);
		return NULL;
	}
	return resize(&old, size, release);
}

/* --- entry points --- */

HAK_COLD void *hak_check_malloc(size_t size)
{
	struct request request = { .size = size, .align = 1,
		.caller = HAK_CALLER };

	return take(&request);
}

HAK_COLD void *hak_check_aligned_alloc(size_t align, size_t size)
{
	struct request request = { .size = size, .align = align,
		.caller = HAK_CALLER };

	return take(&request);
}

HAK_COLD void *hak_check_alloc_for(size_t size, size_t align,
	struct hak_caller caller)
{
	struct request request = { .size = size, .align = align,
		.caller = caller };

	return take(&request);
}

static void *take_zeroed(struct request *request, size_t count, size_t size)
{
	if (__builtin_mul_overflow(count, size, &request->size)) {
		errno = ENOMEM;
		return NULL;
	}
	request->align = 1;
	request->zero = true;
	return take(request);
}

HAK_COLD void *hak_check_calloc(size_t count, size_t size)
{
	struct request request = { .caller = HAK_CALLER };

	return take_zeroed(&request, count, size);
}

HAK_COLD void *hak_check_realloc(void *block, size_t size)
{
	struct release release = { .function = "realloc", .block = block,
		.caller = HAK_CALLER };
	struct request request = { .size = size, .align = 1,
		.caller = HAK_CALLER };

	return block != NULL ? reallocate(&release, size) : take(&request);
}

HAK_COLD size_t hak_check_usable_size(void *block)
{
	struct hak_record record;

	if (!look_up("usable_size", block, HAK_CALLER, &record))
		return 0;
	return record.size;
}

HAK_COLD void hak_check_free(void *block)
{
	struct release release = { .function = "free", .block = block,
		.caller = HAK_CALLER };

	if (block != NULL)
		release_block(&release);
}

HAK_COLD void hak_check_free_sized(void *block, size_t size)
{
	struct release release = { .function = "free_sized", .block = block,
		.aligned = true, .align = ALIGN_LEAST, .sized = true,
		.size = size, .caller = HAK_CALLER };

	if (block != NULL)
		release_block(&release);
}

HAK_COLD void hak_check_free_aligned_sized(void *block, size_t align,
	size_t size)
{
	struct release release = { .function = "free_aligned_sized",
		.block = block, .aligned = true, .align = align,
		.sized = true, .size = size, .caller = HAK_CALLER };

	if (block != NULL)
		release_block(&release);
}

HAK_COLD void hak_check_free_aligned(void *block, size_t align)
{
	struct release release = { .function = "delete", .block = block,
		.aligned = true, .align = align, .caller = HAK_CALLER };

	if (block != NULL)
		release_block(&release);
}

HAK_COLD void *hak_check_heap_alloc(struct locked_heap *heap, size_t size,
	size_t align)
{
	struct request request = { .owner = heap, .size = size,
		.align = align, .caller = HAK_CALLER };

	return take(&request);
}

HAK_COLD void *hak_check_heap_calloc(struct locked_heap *heap, size_t count,
	size_t size)
{
	struct request request = { .owner = heap, .caller = HAK_CALLER };

	return take_zeroed(&request, count, size);
}

HAK_COLD void *hak_check_heap_realloc(struct locked_heap *heap, void *block,
	size_t size)
{
	struct release release = { .function = "heap_realloc",
		.block = block, .caller = HAK_CALLER };
	struct request request = { .owner = heap, .size = size, .align = 1,
		.caller = HAK_CALLER };
	struct hak_finding finding = { .function = "heap_realloc",
		.what = "block of another heap", .pointer = block };

	if (block == NULL)
		return take(&request);
	if (!look_up("heap_realloc", block, release.caller, &finding.record) ||
	    finding.record.owner != heap) {
		if (finding.record.block != 0) {
			finding.caller = hak_heap_origin(release.caller);
			hak_report(&finding);
		}
		errno = EINVAL;
		return NULL;
	}
	return reallocate(&release, size);
}

/* --- all of them --- */

/* The blocks to look at: those of a heap, or all. */
struct inspection {
	const struct locked_heap *owner;
	struct hak_finding finding;
};

static bool is_damaged(struct hak_shelf *shelf, struct hak_record *record,
	void *arg)
{
	struct inspection *inspection = arg;
	struct hak_finding *finding = &inspection->finding;

	(void)shelf;
	if (record->told || (inspection->owner != NULL &&
			inspection->owner != record->owner))
		return true;
	finding->damage = record->freed ? hak_guard_written(record)
					: hak_guard_damage(record);
	finding->what = record->freed ? "write after free"
		: finding->damage >= record->block ? "write past the end"
						   : "write before the start";
	if (finding->damage == 0)
		return true;
	record->told = true;
	finding->record = *record;
	finding->pointer = (void *)record->block;
	return false;
}

/* One after another: no shelf may be locked while it is told. */
static bool tell_next(struct hak_shelf *shelf, const struct locked_heap *owner)
{
	struct inspection inspection = { .owner = owner,
		.finding = { .function = "check" } };

	/* The process may be ending in a handler that came in between. */
	if (!hak_lock_patiently(&shelf->lock))
		return false;
	hak_records_visit(shelf, is_damaged, &inspection);
	hak_unlock(&shelf->lock);
	if (inspection.finding.damage != 0)
		hak_report(&inspection.finding);
	return inspection.finding.damage != 0;
}

static void inspect(const struct locked_heap *owner)
{
	for (unsigned i = 0; i < SHELVES; i++)
		while (tell_next(&hak_shelves[i], owner))
			;
}

void hak_check_all(void)
{
	inspect(NULL);
}

void hak_check_heap_end(struct locked_heap *heap)
{
	inspect(heap);
	hak_quarantine_forget(heap);
}
