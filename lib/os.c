/*
 * os.c: the memory system calls, and nothing else touches the kernel's maps.
 *
 * Calls go through syscall(2), not through the wrappers of the same name:
 * another preloaded library may wrap mmap() and allocate inside, before this
 * one is able to serve it.
 *
 * I1  No function changes errno.
 * I2  A range is only ever reported zero when the kernel was seen to zero a
 *     purged page at start, and said that it did so this time.
 */
#include "os.h"

#include "lock.h"
#include "probe.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Whether tests may have calls fail: in debug builds, and where tests/inject
 * compiles this file for itself. */
#ifndef HAK_OS_INJECT
#define HAK_OS_INJECT HAKMEM_DEBUG
#endif

size_t hak_page_size = 4096;

struct hak_os_inject hak_os_inject;

/* Whether MADV_DONTNEED was seen to zero a private page (emulators differ). */
static bool purge_zeroes;

/* Read relaxed. */
static size_t purge_calls;
static size_t purged_bytes;

static bool refused(long number)
{
	struct hak_os_inject *inject = &hak_os_inject;
	unsigned n;

	if (inject->only != 0 && inject->only != number)
		return false;
	n = __atomic_add_fetch(&inject->calls, 1, __ATOMIC_RELAXED);
	if (n < inject->first || n > inject->last)
		return false;
	STORE_RELAXED(&inject->number, number);
	errno = ENOMEM;
	return true;
}

#define KERNEL(number, ...)                                                    \
	(HAK_OS_INJECT && refused(number) ? -1L                                \
					  : syscall((number), __VA_ARGS__))

static void *map_anywhere(size_t size, int prot)
{
	int saved = errno;
	long p = KERNEL(SYS_mmap, NULL, size, prot,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

	errno = saved;
	return p == -1 ? NULL : (void *)p;
}

/* A range that is no whole number of pages would be refused for ever. */
bool hak_os_unmap(void *start, size_t size)
{
	int saved = errno;
	bool ok;

	ASSERT(IS_ALIGNED(((uintptr_t)start | size), hak_page_size));
	ok = KERNEL(SYS_munmap, start, size) == 0;
	errno = saved;
	return ok;
}

/*
 * Ranges that the kernel would not take back; start 0 is a free place.  A
 * process at its limit of mappings cannot give up the middle of one, so no two
 * of them touch: what has become an end can be given up.  Notes are no part of
 * what is owed: the program may have forbidden writing there, or do it still.
 *
 * I3  There are as many free places as were promised, at least.
 */
struct owed {
	uintptr_t start;
	size_t size;
};

#define OWED_PLACES ((4096 - sizeof(void *)) / sizeof(struct owed))

struct owed_page {
	struct owed_page *next;
	struct owed range[OWED_PLACES];
};

/* The first page is always there; the others stay. */
static struct owed_page owed_pages;
static size_t owed_places = OWED_PLACES;
static size_t owed_promised;
/* How many: read relaxed, by who has just given something back. */
static size_t owed_count;
/* How many were offered again before the kernel refused one. */
static size_t owed_offered;

struct hak_lock hak_owed_lock = HAK_LOCK_INIT(RANK_OWED);

static void forget(struct owed *owed)
{
	owed->start = 0;
	STORE_RELAXED(&owed_count, owed_count - 1);
}

/* Take up those that touch the range; returns a free place, if there is one. */
static struct owed *join(struct owed *range)
{
	struct owed *place = NULL;

	for (struct owed_page *page = &owed_pages; page != NULL;
	     page = page->next)
		for (size_t i = 0; i < OWED_PLACES; i++) {
			struct owed *other = &page->range[i];
			bool below = other->start + other->size == range->start;

			if (other->start != 0 &&
			    (below || range->start + range->size ==
					    other->start)) {
				if (below)
					range->start = other->start;
				range->size += other->size;
				forget(other);
			}
			if (other->start == 0 && place == NULL)
				place = other;
		}
	return place;
}

static bool add_places(void)
{
	struct owed_page *page = map_anywhere(hak_page_size,
		PROT_READ | PROT_WRITE);

	if (page == NULL)
		return false;
	page->next = owed_pages.next;
	owed_pages.next = page;
	owed_places += OWED_PLACES;
	return true;
}

/* Whether there is a place that was not promised. */
static bool has_place(void)
{
	return owed_count + owed_promised < owed_places || add_places();
}

bool hak_os_promise(void)
{
	bool ok;

	hak_lock(&hak_owed_lock);
	ok = has_place();
	owed_promised += ok;
	hak_unlock(&hak_owed_lock);
	return ok;
}

/* True when it is gone nevertheless: a neighbour that waits for its turn may
 * have become an end, which makes one of both. */
static bool note(struct owed range)
{
	size_t size = range.size;
	struct owed *place = join(&range);

	if (range.size != size && hak_os_unmap((void *)range.start, range.size))
		return true;
	if (!has_place())
		return false;
	/* All were taken: the page is a new one. */
	if (place == NULL)
		place = &owed_pages.next->range[0];
	*place = range;
	STORE_RELAXED(&owed_count, owed_count + 1);
	return false;
}

static void owe(void *start, size_t size, unsigned promised)
{
	bool gone;

	hak_os_purge(start, size);
	hak_lock(&hak_owed_lock);
	owed_promised -= promised;
	gone = note((struct owed){ (uintptr_t)start, size });
	hak_unlock(&hak_owed_lock);
	if (gone)
		hak_os_settle();
}

/* Until one is refused: each such call is in vain, and next time it is the turn
 * of those behind it. */
static bool offer_after(size_t skipped)
{
	size_t n = 0;

	for (struct owed_page *page = &owed_pages; page != NULL;
	     page = page->next)
		for (size_t i = 0; i < OWED_PLACES; i++) {
			struct owed *owed = &page->range[i];

			if (owed->start == 0 || n++ < skipped)
				continue;
			owed_offered = n;
			if (!hak_os_unmap((void *)owed->start, owed->size))
				return false;
			forget(owed);
			n--;
		}
	owed_offered = 0;
	return true;
}

void hak_os_settle(void)
{
	if (HAK_LIKELY(LOAD_RELAXED(&owed_count) == 0))
		return;
	hak_lock(&hak_owed_lock);
	if (offer_after(owed_offered) && owed_count != 0)
		offer_after(0);
	hak_unlock(&hak_owed_lock);
}

void hak_os_discard(void *start, size_t size)
{
	if (size == 0)
		return;
	if (hak_os_unmap(start, size))
		hak_os_settle();
	else
		owe(start, size, 0);
}

void hak_os_discard_promised(void *start, size_t size)
{
	if (size != 0 && !hak_os_unmap(start, size)) {
		owe(start, size, 1);
		return;
	}
	hak_lock(&hak_owed_lock);
	owed_promised--;
	hak_unlock(&hak_owed_lock);
	hak_os_settle();
}

/* Over-reserve and trim: only where the first try is not aligned by luck. */
static void *map_trimmed(size_t size, size_t align, int prot)
{
	char *p, *q;

	if (size + align < size)
		return NULL;
	p = map_anywhere(size + align, prot);
	if (p == NULL)
		return NULL;
	q = (char *)ALIGN_UP((uintptr_t)p, align);
	hak_os_discard(p, (size_t)(q - p));
	hak_os_discard(q + size, (size_t)(p + align - q));
	return q;
}

/* The kernel places mappings top down: below an aligned one of the same size
 * the next is aligned, too.  Else try the aligned address under the one it
 * chose, which needs no more room than the block, before the trimming. */
static void *map_aligned(size_t size, size_t align, int prot)
{
	char *p = map_anywhere(size, prot), *q;
	long r;
	int saved = errno;

	if (p == NULL || IS_ALIGNED(p, align))
		return p;
	hak_os_discard(p, size);
	q = (char *)ALIGN_DOWN((uintptr_t)p, align);
	r = KERNEL(SYS_mmap, q, size, prot, MAP_PRIVATE | MAP_ANONYMOUS |
		MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0L);
	errno = saved;
	if (r == (long)q)
		return q;
	if (r != -1)
		hak_os_discard((void *)r, size);
	return map_trimmed(size, align, prot);
}

void *hak_os_reserve(size_t size, size_t align)
{
	return map_aligned(size, align, PROT_NONE);
}

void *hak_os_map(size_t size, size_t align)
{
	return map_aligned(size, align, PROT_READ | PROT_WRITE);
}

static bool protect(void *start, size_t size, int rights)
{
	int saved = errno;
	bool ok = KERNEL(SYS_mprotect, start, size, rights) == 0;

	errno = saved;
	return ok;
}

bool hak_os_commit(void *start, size_t size)
{
	return protect(start, size, PROT_READ | PROT_WRITE);
}

bool hak_os_forbid(void *start, size_t size)
{
	return protect(start, size, PROT_NONE);
}

bool hak_os_purge(void *start, size_t size)
{
	int saved = errno;
	bool ok = KERNEL(SYS_madvise, start, size, MADV_DONTNEED) == 0;

	errno = saved;
	if (ok) {
		__atomic_fetch_add(&purge_calls, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&purged_bytes, size, __ATOMIC_RELAXED);
		HAK_PROBE(purge, start, size);
	}
	return ok && purge_zeroes;
}

size_t hak_os_purge_calls(void)
{
	return LOAD_RELAXED(&purge_calls);
}

size_t hak_os_purged_bytes(void)
{
	return LOAD_RELAXED(&purged_bytes);
}

uint32_t hak_os_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

void hak_os_hugepage(void *start, size_t size, bool on)
{
	int saved = errno;

	KERNEL(SYS_madvise, start, size, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	errno = saved;
}

bool hak_os_grow(void *start, size_t old_size, size_t new_size)
{
	int saved = errno;
	long p = KERNEL(SYS_mremap, start, old_size, new_size, 0, NULL);

	errno = saved;
	return p != -1;
}

/* Whether the range lies in one mapping: older kernels refuse to move more
 * only after they have unmapped the target.  Asking for one page more tells,
 * as that is the first thing they look at; where the page is granted it is
 * given back. */
static bool is_one_mapping(char *start, size_t size)
{
	int saved = errno;
	long p = KERNEL(SYS_mremap, start, size, size + hak_page_size, 0,
		NULL);
	bool one = p != -1 || errno != EFAULT;

	errno = saved;
	if (p != -1)
		hak_os_discard(start + size, hak_page_size);
	return one;
}

/* Before Linux 6.17 a call that fails late, as for want of mappings, has
 * unmapped its target already; nobody can be sure what stands there then, so
 * after a failure nobody wants it. */
static bool move_onto(void *from, size_t old_size, void *to, size_t new_size,
	int flags)
{
	int saved = errno;
	bool ok;

	if (HAK_OS_INJECT && hak_os_inject.late)
		syscall(SYS_munmap, to, new_size);
	ok = is_one_mapping(from, old_size) &&
		KERNEL(SYS_mremap, from, old_size, new_size,
			MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) != -1;
	errno = saved;
	if (!ok)
		hak_os_discard(to, new_size);
	return ok;
}

bool hak_os_move(void *from, size_t old_size, void *to, size_t new_size)
{
	return move_onto(from, old_size, to, new_size, 0);
}

bool hak_os_move_pages(void *from, void *to, size_t size)
{
	return move_onto(from, size, to, size, MREMAP_DONTUNMAP);
}

unsigned hak_os_cpus(void)
{
	uint64_t set[128] = { 0 };
	unsigned cpus = 0;
	int saved = errno;
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);

	errno = saved;
	for (size_t i = 0; i < COUNT_OF(set) && bytes > 0; i++)
		cpus += (unsigned)__builtin_popcountll(set[i]);
	return MAX(cpus, 1);
}

uint64_t hak_os_now_ms(void)
{
	struct timespec t;
	int saved = errno;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	errno = saved;
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void hak_os_init(size_t page_size)
{
	volatile char *probe;

	if (page_size != 0)
		hak_page_size = page_size;
	probe = map_anywhere(hak_page_size, PROT_READ | PROT_WRITE);
	if (probe == NULL)
		return;
	*probe = 1;
	purge_zeroes = true;
	purge_zeroes = hak_os_purge((void *)probe, hak_page_size) &&
		*probe == 0;
	purge_calls = purged_bytes = 0;
	hak_os_discard((void *)probe, hak_page_size);
}

HAK_EXPOSE(hak_note_purge_calls, purge_calls);
HAK_EXPOSE(hak_note_purged_bytes, purged_bytes);
