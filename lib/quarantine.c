/*
 * quarantine.c: how blocks leave it.
 *
 * I1  Blocks leave under hak_quarantine_lock alone, one after another; who
 *     destroys a heap holds it, so none of the heap's is on its way to the
 *     pools then.
 * I2  A report is made with no lock held.
 * I3  A block whose guard page the kernel will not open stays.
 *
 * Whoever holds the lock may come here again, through what the C library calls
 * when a heap is born: it never waits for itself.
 */
#include "quarantine.h"

#include "alloc.h"
#include "guard.h"
#include "options.h"
#include "report.h"

/* The end of a freed block's record: what goes back to the pools, or NULL when
 * it has to stay. */
static void *forget(struct hak_shelf *shelf, struct hak_record *record,
	bool told)
{
	void *raw = NULL;

	hak_lock(&shelf->lock);
	if (hak_guard_open(record)) {
		raw = (void *)record->raw;
		hak_record_drop(shelf, record);
	} else {
		record->told = told;
		hak_record_push(shelf, record);
	}
	hak_unlock(&shelf->lock);
	return raw;
}

/* The oldest block of a shelf goes back to its pool; false: none did. */
static bool let_out(struct hak_shelf *shelf, struct hak_finding *finding)
{
	struct hak_record *record;
	bool told;
	void *raw;

	hak_lock(&shelf->lock);
	record = hak_record_pop(shelf);
	told = record != NULL && record->told;
	hak_unlock(&shelf->lock);
	if (record == NULL)
		return false;
	/* Nobody else takes it up: it is freed and on no list. */
	if (!told)
		finding->damage = hak_guard_written(record);
	if (finding->damage != 0) {
		finding->record = *record;
		finding->pointer = (void *)record->block;
	}
	raw = forget(shelf, record, told || finding->damage != 0);
	if (raw != NULL)
		hak_pools_free(raw);
	return raw != NULL;
}

/* Down to so many bytes, from all shelves in turn, or to the first block that
 * was written; whether any went. */
static bool drain(size_t bytes, struct hak_finding *finding)
{
	static unsigned turn;
	bool any = false;

	for (unsigned empty = 0; empty < SHELVES && finding->damage == 0 &&
	     hak_records_quarantined() > bytes;) {
		if (let_out(&hak_shelves[turn++ % SHELVES], finding)) {
			any = true;
			empty = 0;
		} else {
			empty++;
		}
	}
	return any;
}

/* The thread that lets blocks out; relaxed: only itself finds itself here. */
static void *at_the_door;

/* If another thread is at it, it does this one's work as well, but for a while
 * only: it may be slower than all others together. */
static bool open_door(size_t bytes)
{
	if (LOAD_RELAXED(&at_the_door) == hak_thread_id())
		return false;
	if (!hak_try_lock(&hak_quarantine_lock)) {
		if (hak_records_quarantined() / 2 <= bytes)
			return false;
		hak_lock(&hak_quarantine_lock);
	}
	STORE_RELAXED(&at_the_door, hak_thread_id());
	return true;
}

static bool let_out_to(size_t bytes)
{
	struct hak_finding finding;
	bool any = false;

	do {
		finding = (struct hak_finding){ .function = "check",
			.what = "write after free" };
		if (!open_door(bytes))
			break;
		any |= drain(bytes, &finding);
		STORE_RELAXED(&at_the_door, NULL);
		hak_unlock(&hak_quarantine_lock);
		if (finding.damage != 0)
			hak_report(&finding);
	} while (finding.damage != 0);
	return any;
}

bool hak_quarantine_empty(void)
{
	return let_out_to(0);
}

void hak_quarantine_trim(void)
{
	if (hak_records_quarantined() > hak_options.check_quarantine)
		let_out_to(hak_options.check_quarantine);
}

void hak_quarantine_forget(const struct locked_heap *heap)
{
	hak_lock(&hak_quarantine_lock);
	for (unsigned i = 0; i < SHELVES; i++) {
		hak_lock(&hak_shelves[i].lock);
		hak_records_drop_owner(&hak_shelves[i], heap);
		hak_unlock(&hak_shelves[i].lock);
	}
	hak_unlock(&hak_quarantine_lock);
}
