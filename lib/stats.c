/*
 * stats.c: a snapshot of this process, and the statistics at exit.
 *
 * I1  No lock is held while text is handed out: a callback may allocate.
 * I2  A lock that is not to be had is done without: an exit in a signal
 *     handler may stand in the middle of an allocation of its own thread.
 *     Counts are then read as they stand; no list is walked without its lock
 *     whose members could be unmapped.
 * I3  Nothing here allocates; a snapshot with rows stands in a mapping.
 *
 * Figures of threads that allocate meanwhile are of slightly different moments:
 * a magazine on its way may be missed or seen twice.  Live blocks are what is
 * left, so they are off by as much.
 */
#include "stats.h"

#include "arena.h"
#include "budget.h"
#include "heap.h"
#include "locked_heap.h"
#include "mapping.h"
#include "message.h"
#include "note.h"
#include "options.h"
#include "os.h"
#include "page_map.h"
#include "records.h"
#include "shard.h"
#include "span.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static size_t free_of_list(const struct slab_list *list, size_t *count)
{
	size_t free = 0;

	for (struct slab *s = list->head; s != NULL; s = s->next) {
		free += s->free;
		++*count;
	}
	return free;
}

/* The memory equation of one bin of a shard, under its lock. */
static void check_bin(const struct bin_slabs *bs)
{
	size_t count = bs->box != NULL;
	size_t free = bs->box != NULL ? bs->box->free : 0;

	free += free_of_list(&bs->warm, &count);
	free += free_of_list(&bs->listed, &count);
	ASSERT(count <= bs->slabs);
	ASSERT(free == bs->blocks - bs->taken);
}

static void add_bin(struct hak_snapshot *stats, unsigned shard, unsigned bin)
{
	struct bin_slabs *bs = &hak_shards[shard].bin[bin], copy;
	/* All but the lock, which others try meanwhile. */
	size_t from = offsetof(struct bin_slabs, box);
	bool locked;

	if (LOAD_RELAXED(&bs->slabs) == 0)
		return;
	locked = hak_lock_patiently(&bs->lock);
	__builtin_memcpy((char *)&copy + from, (char *)bs + from,
		sizeof copy - from);
	if (HAKMEM_DEBUG && locked)
		check_bin(bs);
	if (locked)
		hak_unlock(&bs->lock);
	hak_stats_add_bin(stats, bin, &copy);
}

/* Heaps are never unmapped, so a walk without the lock, at worst, sees one that
 * ended and holds nothing. */
static void add_heaps(struct hak_snapshot *stats)
{
	bool locked = hak_lock_patiently(&hak_registry_lock);

	for (struct heap *h = hak_registry; h != NULL; h = h->next)
		hak_stats_add_heap(stats, h);
	if (locked)
		hak_unlock(&hak_registry_lock);
}

static bool sum_counters(struct hak_counters *sum)
{
	bool locked = hak_lock_patiently(&hak_registry_lock);
	/* Acquire: pairs with the release in hak_counters_ended(). */
	size_t moves = __atomic_load_n(&hak_counters_rest.moves,
		__ATOMIC_ACQUIRE);

	*sum = (struct hak_counters){ 0 };
	for (struct heap *h = hak_registry; h != NULL; h = h->next)
		hak_counters_add(sum, h->counters);
	hak_counters_add(sum, hak_counters_rest.sum);
	if (locked) {
		hak_unlock(&hak_registry_lock);
		return true;
	}
	/* Pairs with the fence in hak_counters_end(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return moves % 2 == 0 && moves == LOAD_RELAXED(&hak_counters_rest.moves);
}

/* Before the bins, which add their peaks.  A thread that ends meanwhile would
 * be seen twice or not at all where the lock was not to be had: it is waited
 * for, but not for ever, since it may be this very one. */
static void add_counters(struct hak_snapshot *stats)
{
	static const struct timespec pause = { 0, 1000000 };
	int saved = errno;

	for (int tries = 0; tries < 10; tries++) {
		if (sum_counters(&stats->counters[0]))
			break;
		syscall(SYS_nanosleep, &pause, NULL);
	}
	errno = saved;
}

static void add_arenas(struct hakmem_stats *total)
{
	struct hak_arena_extent extent;

	for (size_t i = 0; hak_arena_at(i, &extent); i++) {
		total->arenas++;
		total->metadata_bytes += extent.head;
	}
	total->arena_bytes = hak_arena_reserved_bytes();
	total->superslabs = hak_arena_opened_bytes() / SUPERSLAB;
	total->retained_bytes = hak_arena_dirty_bytes();
	total->retain_limit_bytes = hak_budget_retain_bytes();
}

static void add_memory(struct hakmem_stats *total)
{
	size_t meta = hak_mapping_meta_bytes() + hak_page_map_bytes();

	add_arenas(total);
	total->mappings = hak_mapping_count();
	total->mapping_bytes = hak_mapping_bytes();
	total->active_bytes = hak_arena_used_bytes() + total->mapping_bytes;
	total->mapped_bytes = total->arena_bytes + total->mapping_bytes + meta;
	total->magazine_bytes = hak_magazine_pool_bytes();
	total->metadata_bytes += meta + total->magazine_bytes +
		hak_heap_chunk_bytes() + hak_records_bytes();
	total->purge_calls = hak_os_purge_calls();
	total->purged_bytes = hak_os_purged_bytes();
}

static void add_locked_heaps(struct hakmem_stats *total)
{
	struct locked_heap_sums sums;

	total->heap_objects = hak_locked_heap_total(&sums);
	total->live_blocks = sums.slab_blocks;
	total->heap_object_bytes = sums.live_bytes - sums.span_bytes;
}

void hak_stats_take(struct hak_snapshot *stats, size_t room)
{
	struct hakmem_stats *total = &stats->total;
	unsigned shards = LOAD_RELAXED(&hak_shard_count);

	hak_stats_clear(stats, room);
	stats->pid = (size_t)syscall(SYS_getpid);
	stats->open_bins = hak_open_bins;
	if (HAK_COUNTERS_COMPILED)
		add_counters(stats);
	for (unsigned shard = 0; shard < shards; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			add_bin(stats, shard, bin);
	add_heaps(stats);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		stats->bin[bin].lost = hak_heap_lost(bin);
	hak_stats_add_background(stats, &hak_background);
	add_memory(total);
	add_locked_heaps(total);
	total->span_blocks = hak_span_live_blocks();
	total->span_bytes = hak_span_live_bytes();
	total->cache_share_bytes = LOAD_RELAXED(&hak_cache_share);
	total->tls_bytes = sizeof hak_heap;
	total->shards = shards;
	hak_stats_finish(stats);
}

/* Pages of a range that are in memory, in bytes. */
static size_t resident(uintptr_t start, size_t size)
{
	unsigned char pages[512];
	size_t step = sizeof pages * hak_page_size, bytes = 0;

	for (size_t at = 0; at < size; at += step) {
		size_t n = MIN(step, size - at);

		if (syscall(SYS_mincore, start + at, n, pages) != 0)
			continue;
		for (size_t i = 0; i < n / hak_page_size; i++)
			bytes += (pages[i] & 1) * hak_page_size;
	}
	return bytes;
}

static bool add_resident(struct slab *slab, void *sum)
{
	size_t size = slab->granules != 0 ? slab->granules * GRANULE
					  : slab->span_bytes;

	*(size_t *)sum += resident(slab->base, size);
	return true;
}

void hak_stats_take_system(struct hak_snapshot *stats)
{
	struct hakmem_stats *total = &stats->total;
	struct hak_arena_extent extent;
	struct rusage usage;
	int saved = errno;

	for (size_t i = 0; hak_arena_at(i, &extent); i++)
		for (size_t at = 0; at < extent.size; at += SUPERSLAB)
			if (extent.opened >> (at / SUPERSLAB) & 1)
				total->resident_bytes += resident(
					extent.base + at, SUPERSLAB);
	hak_mapping_visit(add_resident, &total->resident_bytes);
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		total->minor_faults = (size_t)usage.ru_minflt;
		total->major_faults = (size_t)usage.ru_majflt;
	}
	errno = saved;
}

bool hak_stats_report(bool json, void (*write)(void *arg, const char *text),
	void *arg)
{
	/* Threads may be born before the walk: they want rows, too. */
	size_t room = hak_heap_count() + 16;
	size_t bytes = sizeof(struct hak_snapshot) +
		room * sizeof(struct hak_snapshot_heap);
	struct hak_snapshot *stats;

	bytes = ALIGN_UP(bytes, hak_page_size);
	stats = hak_os_map(bytes, hak_page_size);
	if (stats == NULL)
		return false;
	hak_stats_take(stats, room);
	hak_stats_take_system(stats);
	hak_stats_print(stats, json, write, arg);
	hak_os_discard(stats, bytes);
	return true;
}

/* As much as the caller's header knows of. */
static int copy_out(void *to, size_t room, const void *from, size_t size)
{
	if (room < sizeof room) {
		errno = EINVAL;
		return -1;
	}
	__builtin_memcpy(to, from, MIN(room, size));
	*(size_t *)to = room;
	return 0;
}

int hak_stats_get(struct hakmem_stats *to)
{
	struct hak_snapshot stats;

	hak_stats_take(&stats, 0);
	hak_stats_take_system(&stats);
	return copy_out(to, to->struct_size, &stats.total, sizeof stats.total);
}

int hak_stats_get_bin(unsigned bin, struct hakmem_bin_stats *to)
{
	struct hak_snapshot stats;

	if (bin >= BINS - TINY_FIRST) {
		errno = EINVAL;
		return -1;
	}
	hak_stats_take(&stats, 0);
	return copy_out(to, to->struct_size, &stats.bin[TINY_FIRST + bin],
		sizeof stats.bin[0]);
}

/* A copy of fd 2 as it was at the start, and what it was: programs close
 * theirs before they end. */
static bool stderr_is_saved;
static int saved_stderr = -1;
static struct stat saved_identity;

void hak_stats_start(void)
{
	int fd, saved = errno;

	/* A static link takes the note along with what names it. */
	__asm__ volatile("" : : "r"(&hak_layout));
	if (LOAD_RELAXED(&hak_options.stats) == HAK_STATS_OFF ||
	    hak_options.stats_file != NULL ||
	    __atomic_exchange_n(&stderr_is_saved, true, __ATOMIC_RELAXED))
		return;
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);
	if (fd >= 0 && fstat(fd, &saved_identity) == 0)
		/* Release: pairs with the acquire in stderr_at_exit(). */
		__atomic_store_n(&saved_stderr, fd, __ATOMIC_RELEASE);
	errno = saved;
}

/* The copy, unless the program closed it and the number is another file's. */
static int stderr_at_exit(void)
{
	/* Acquire: pairs with the release in hak_stats_start(). */
	int fd = __atomic_load_n(&saved_stderr, __ATOMIC_ACQUIRE);
	struct stat now;

	if (fd < 0 || fstat(fd, &now) != 0 ||
	    now.st_dev != saved_identity.st_dev ||
	    now.st_ino != saved_identity.st_ino)
		return STDERR_FILENO;
	return fd;
}

/* HAKMEM_STATS_FILE with the process's number for %p. */
static bool expand_name(const char *name, struct hak_text *text)
{
	for (; *name != '\0'; name++) {
		if (name[0] == '%' && name[1] == 'p') {
			hak_text_add_number(text,
				(unsigned long)syscall(SYS_getpid));
			name++;
		} else {
			/* As it is: this is no text for people. */
			hak_text_add(text, (char[]){ *name, '\0' });
		}
	}
	return !text->cut;
}

static int open_file(const char *name)
{
	char path[4096];
	struct hak_text text;
	int fd = -1;

	hak_text_init(&text, path, sizeof path);
	if (expand_name(name, &text))
		fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY |
			O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0)
		hak_warn_text("stats", "cannot write", path);
	return fd;
}

struct out {
	int fd;
	bool failed;
	struct hak_text text;
	char buffer[4096];
};

static void flush(struct out *out)
{
	if (hak_text_write(&out->text, out->fd) != 0)
		out->failed = true;
	hak_text_init(&out->text, out->buffer, sizeof out->buffer);
}

static void write_out(void *arg, const char *piece)
{
	struct out *out = arg;
	size_t length = __builtin_strlen(piece);

	if (out->text.length + length >= sizeof out->buffer)
		flush(out);
	hak_text_add(&out->text, piece);
}

int hak_stats_report_to(bool json, int fd)
{
	struct out out = { .fd = fd };

	hak_text_init(&out.text, out.buffer, sizeof out.buffer);
	if (!hak_stats_report(json, write_out, &out))
		return ENOMEM;
	flush(&out);
	return out.failed ? EIO : 0;
}

void hak_stats_exit(void)
{
	const char *file = hak_options.stats_file;
	int form = LOAD_RELAXED(&hak_options.stats), saved = errno, fd;

	if (form == HAK_STATS_OFF)
		return;
	fd = file != NULL ? open_file(file) : stderr_at_exit();
	if (fd >= 0 && hak_stats_report_to(form == HAK_STATS_JSON, fd) != 0 &&
	    file != NULL)
		hak_warn_text("stats", "cannot write", file);
	if (file != NULL && fd >= 0)
		syscall(SYS_close, fd);
	errno = saved;
}
