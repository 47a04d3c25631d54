/*
 * Reading hakmem's state out of a running process, which is neither stopped
 * nor asked.
 *
 * The allocator's image carries an ELF note that says where its books are
 * (lib/note.h). Everything is copied by process_vm_readv, which fails where
 * nothing is mapped, and is checked before it is used: books are read again
 * until they fit together, lists are followed no further than they can be
 * long. What still does not fit after some tries is left out, and counted.
 */
#include <config.h>

#include "remote.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lab.h"
#include "note.h"

/* options.c of this command */
extern unsigned char hak_note_option_sources[];

enum { TRIES = 20, HEAPS_MOST = 1 << 20, ARENAS_MOST = 1 << 20 };

struct remote {
	pid_t pid;
	pid_t task; /* the thread that its memory is read by */
	int alike; /* its note has the slots that we know */
	uintptr_t slot[NOTE_SLOTS];
	int pagemap; /* -1: may not be read */
	size_t page_size;
	size_t left_out; /* parts that do not fit together */
	size_t unseen; /* bytes that may still be looked at for residence */
};

/* ---- its memory ---- */

/* Of address space; a thread that has ended has none. */
static unsigned long pages_of(pid_t task)
{
	char path[64];
	unsigned long pages = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/statm", (int)task);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages;
}

/* Any thread will do, and the first may have ended before the process: 1, or
 * 0 if the process has no memory. */
static int find_task(struct remote *remote)
{
	char path[64];
	struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	snprintf(path, sizeof path, "/proc/%d/task", (int)remote->pid);
	tasks = opendir(path);
	while (tasks && !found && (entry = readdir(tasks)))
		if (pages_of(atoi(entry->d_name)) != 0)
			found = atoi(entry->d_name);
	if (tasks)
		closedir(tasks);
	remote->task = found ? found : remote->pid;
	return found != 0;
}

static int peek_once(pid_t task, uintptr_t from, void *to, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)from, size};
	ssize_t n = process_vm_readv(task, &local, 1, &remote, 1, 0);

	if (n >= 0 && (size_t)n != size)
		errno = EFAULT;
	return n == (ssize_t)size;
}

/* 1, or 0 with errno. */
static int peek(struct remote *remote, uintptr_t from, void *to, size_t size)
{
	if (peek_once(remote->task, from, to, size))
		return 1;
	if (errno != ESRCH)
		return 0;
	if (find_task(remote))
		return peek_once(remote->task, from, to, size);
	errno = ESRCH;
	return 0;
}

static int peek_slot(struct remote *remote, enum hak_note_slot slot,
	void *to, size_t size)
{
	return peek(remote, remote->slot[slot], to, size);
}

static size_t number(struct remote *remote, enum hak_note_slot slot)
{
	size_t n = 0;

	peek_slot(remote, slot, &n, sizeof n);
	return n;
}

/* ---- the note ---- */

/* The slots of the note at `at`, if it is hakmem's: relative to themselves. One
 * of another version may have more or fewer of them. */
static int take_note(
	struct remote *remote, uintptr_t at, const char *note, size_t size)
{
	const Elf64_Nhdr *head = (const void *)note;
	size_t name = (sizeof HAK_NOTE_NAME + 3) & ~(size_t)3;
	const char *slots = note + sizeof *head + name;
	size_t count = head->n_descsz / sizeof(int64_t);

	if (head->n_namesz != sizeof HAK_NOTE_NAME || count == 0 ||
		size < sizeof *head + name + count * sizeof(int64_t) ||
		memcmp(note + sizeof *head, HAK_NOTE_NAME,
			sizeof HAK_NOTE_NAME) != 0)
		return 0;
	remote->alike = head->n_type == HAK_NOTE_TYPE && count == NOTE_SLOTS;
	for (size_t i = 0; i < MIN(count, NOTE_SLOTS); i++) {
		int64_t distance;

		memcpy(&distance, slots + i * sizeof distance,
			sizeof distance);
		remote->slot[i] = at + sizeof *head + name +
			i * sizeof distance + (uintptr_t)distance;
	}
	return 1;
}

static int find_note(struct remote *remote, uintptr_t start, size_t size)
{
	/* Rows begin at multiples of 4. */
	_Alignas(Elf64_Nhdr) char notes[4096];
	size_t at = 0;

	if (size > sizeof notes || !peek(remote, start, notes, size))
		return 0;
	while (at + sizeof(Elf64_Nhdr) <= size) {
		const Elf64_Nhdr *head = (const void *)(notes + at);

		if (take_note(remote, start + at, notes + at, size - at))
			return 1;
		at += sizeof *head + ((head->n_namesz + 3) & ~3u) +
			((head->n_descsz + 3) & ~3u);
	}
	return 0;
}

/* An image whose beginning is mapped at `start`. */
static int find_in_image(struct remote *remote, uintptr_t start)
{
	Elf64_Ehdr head;
	Elf64_Phdr row;
	uintptr_t bias = 0;

	if (!peek(remote, start, &head, sizeof head) ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_phentsize != sizeof row || head.e_phnum > 64)
		return 0;
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < head.e_phnum; i++) {
			if (!peek(remote, start + head.e_phoff +
					    (size_t)i * sizeof row,
				    &row, sizeof row))
				return 0;
			if (pass == 0 && row.p_type == PT_LOAD &&
				row.p_offset == 0)
				bias = start - row.p_vaddr;
			if (pass == 1 && row.p_type == PT_NOTE &&
				find_note(remote, bias + row.p_vaddr,
					row.p_memsz))
				return 1;
		}
	return 0;
}

/* Of two copies the one that is in use. */
static int is_used(struct remote *remote)
{
	return remote->alike && number(remote, NOTE_leaf_bytes) != 0;
}

enum found { FOUND_NONE, FOUND_UNUSED, FOUND };

static enum found search(struct remote *remote, FILE *maps)
{
	struct remote candidate = *remote;
	enum found found = FOUND_NONE;
	char line[4400];

	while (found != FOUND && fgets(line, sizeof line, maps)) {
		unsigned long start, offset;
		char mode[8];

		if (sscanf(line, "%lx-%*x %7s %lx", &start, mode, &offset) !=
				3 ||
			offset != 0 || mode[0] != 'r' || !strchr(line, '/') ||
			!find_in_image(&candidate, start))
			continue;
		found = is_used(&candidate) ? FOUND : FOUND_UNUSED;
		*remote = candidate;
	}
	return found;
}

static void check_layout(struct remote *remote)
{
	static const struct hak_layout own = HAK_LAYOUT;
	struct hak_layout layout;

	if (!peek_slot(remote, NOTE_layout, &layout, sizeof layout))
		hak_command_fail(STATUS_FAILED, "cannot read process %d: %s",
			(int)remote->pid, strerror(errno));
	layout.version[sizeof layout.version - 1] = '\0';
	if (!remote->alike || memcmp(&layout, &own, sizeof own) != 0)
		hak_command_fail(STATUS_FAILED,
			"process %d runs a hakmem of another version or"
			" configuration: %s",
			(int)remote->pid, layout.version);
}

/* Figures are divided by it. The loader maps the file as a whole before it maps
 * the library's variables, and until then other bytes stand in their place. */
static size_t page_size_of(struct remote *remote)
{
	size_t size = number(remote, NOTE_page_size);

	if (size < 4096 || size > GRANULE || (size & (size - 1)) != 0)
		hak_command_fail(STATUS_FAILED,
			"process %d has hakmem, but not loaded yet: try again",
			(int)remote->pid);
	return size;
}

struct remote *hak_remote_open(pid_t pid)
{
	struct remote *remote = hak_lab_alloc(1, sizeof *remote);
	char path[64], byte;
	FILE *maps;
	unsigned long start = 0;
	enum found found;

	remote->pid = pid;
	find_task(remote);
	snprintf(path, sizeof path, "/proc/%d/maps", (int)remote->task);
	maps = fopen(path, "re");
	if (!maps || fscanf(maps, "%lx", &start) != 1)
		hak_command_fail(STATUS_FAILED, "cannot read process %d: %s",
			(int)pid,
			!maps && errno == ENOENT ? "no such process"
			: maps && !errno	 ? "it has no memory"
						 : strerror(errno));
	if (!peek(remote, start, &byte, 1) && errno == EPERM)
		hak_command_fail(STATUS_FAILED,
			"cannot read process %d: it is not yours to trace",
			(int)pid);
	rewind(maps);
	found = search(remote, maps);
	fclose(maps);
	if (found == FOUND_NONE)
		hak_command_fail(STATUS_FAILED,
			"process %d does not run on hakmem", (int)pid);
	check_layout(remote);
	remote->page_size = page_size_of(remote);
	snprintf(path, sizeof path, "/proc/%d/pagemap", (int)remote->task);
	remote->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	return remote;
}

/* ---- the books ---- */

/* What a holder of the lock never leaves behind. */
static int fits_together(const struct bin_slabs *bs, unsigned bin)
{
	size_t per_slab = hak_bins[bin].blocks;
	size_t listed = bs->warm.count + bs->listed.count +
		(bs->box != NULL);

	return bs->slabs < (size_t)1 << 40 &&
		bs->blocks == bs->slabs * per_slab &&
		bs->taken <= bs->blocks && listed <= bs->slabs &&
		bs->spill.count < 1 << 20;
}

static int add_bin(struct remote *remote, unsigned shard, unsigned bin,
	struct hak_snapshot *to)
{
	uintptr_t at = remote->slot[NOTE_shards] +
		shard * sizeof(struct shard) + bin * sizeof(struct bin_slabs);
	struct bin_slabs copy;

	for (int i = 0; i < TRIES; i++) {
		if (!peek(remote, at, &copy, sizeof copy))
			return 0;
		if (fits_together(&copy, bin)) {
			hak_stats_add_bin(to, bin, &copy);
			return 1;
		}
	}
	remote->left_out++;
	return 1;
}

static int add_shards(struct remote *remote, struct hak_snapshot *to)
{
	unsigned count = 0;

	if (!peek_slot(remote, NOTE_shard_count, &count, sizeof count))
		return 0;
	to->total.shards = count = MIN(count, SHARDS_MAX);
	for (unsigned shard = 0; shard < count; shard++)
		for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
			if (!add_bin(remote, shard, bin, to))
				return 0;
	return 1;
}

static int is_heap(const struct heap *heap)
{
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		if (heap->bin[bin].cap >= MAGAZINE_SLOTS ||
			heap->bin[bin].depot.count > 1 << 20)
			return 0;
	return heap->shard < SHARDS_MAX;
}

/* All heaps, linked as they should be; NULL when a thread came or went while
 * they were read. */
static struct heap *read_heaps(struct remote *remote, size_t *count)
{
	struct heap *heaps = NULL;
	uintptr_t at = 0, before = 0;
	size_t n = 0;

	peek_slot(remote, NOTE_heaps, &at, sizeof at);
	while (at != 0 && n < HEAPS_MOST) {
		if ((n & (n - 1)) == 0)
			heaps = hak_lab_grow(
				heaps, n ? 2 * n : 1, sizeof *heaps);
		if (!peek(remote, at, &heaps[n], sizeof *heaps) ||
			(uintptr_t)heaps[n].prev != before ||
			!is_heap(&heaps[n])) {
			free(heaps);
			return NULL;
		}
		before = at;
		at = (uintptr_t)heaps[n++].next;
	}
	*count = n;
	return heaps ? heaps : hak_lab_alloc(1, sizeof *heaps);
}

/* Heaps and the counters of those that ended: of a thread that ends meanwhile
 * they are in both or in none, so then all is read again. */
static struct heap *take_heaps(struct remote *remote, size_t *count,
	struct hak_counters_rest *rest)
{
	struct heap *heaps = NULL;
	int settled = 0;

	for (int i = 0; i < TRIES && !settled; i++) {
		size_t before;

		free(heaps);
		peek_slot(remote, NOTE_counters_rest, rest, sizeof *rest);
		before = rest->moves;
		heaps = read_heaps(remote, count);
		peek_slot(remote, NOTE_counters_rest, rest, sizeof *rest);
		settled = heaps && before % 2 == 0 && rest->moves == before;
	}
	remote->left_out += !settled;
	if (!heaps)
		*count = 0;
	return heaps;
}

/* ---- memory ---- */

/* A process has no more pages to look at than the kernel says, whatever its
 * books say: a wrong length must not keep us for hours. */
static size_t address_space(struct remote *remote)
{
	return pages_of(remote->task) * remote->page_size;
}

static size_t resident(struct remote *remote, uintptr_t start, size_t size)
{
	uint64_t pages[4096];
	size_t look = MIN(size, remote->unseen);
	size_t bytes = 0, left = look / remote->page_size;
	off_t at = (off_t)(start / remote->page_size * sizeof *pages);

	remote->unseen -= look;
	while (left > 0) {
		size_t most = MIN(left, sizeof pages / sizeof *pages);
		ssize_t n = pread(remote->pagemap, pages,
			most * sizeof *pages, at);

		if (n <= 0)
			break;
		at += n;
		n /= (ssize_t)sizeof *pages;
		left -= (size_t)n;
		for (ssize_t i = 0; i < n; i++)
			bytes += (pages[i] >> 63) * remote->page_size;
	}
	return bytes;
}

static void add_arenas(struct remote *remote, struct hakmem_stats *to)
{
	struct hak_arena_front arena;
	uintptr_t at = 0;

	peek_slot(remote, NOTE_arenas, &at, sizeof at);
	while (at != 0 && to->arenas < ARENAS_MOST &&
		peek(remote, at, &arena, sizeof arena) &&
		arena.base == at && arena.granules <= 1024) {
		to->arenas++;
		to->arena_bytes += arena.granules * GRANULE;
		to->metadata_bytes += arena.head * GRANULE;
		to->superslabs += (size_t)__builtin_popcount(arena.opened);
		to->resident_bytes +=
			resident(remote, at, arena.granules * GRANULE);
		at = (uintptr_t)arena.next;
	}
	remote->left_out += at != 0;
}

/* Blocks and slabs with a mapping of their own. */
static size_t mappings_resident(struct remote *remote)
{
	static char chunk[GRANULE] HAK_ALIGNED(CACHE_LINE);
	const struct slab *slab = (const void *)(chunk + CACHE_LINE);
	uintptr_t at = 0;
	size_t bytes = 0;

	peek_slot(remote, NOTE_meta_chunks, &at, sizeof at);
	for (int n = 0; at != 0 && n < ARENAS_MOST; n++) {
		if (!peek(remote, at, chunk, sizeof chunk))
			break;
		for (size_t i = 0; i < HAK_META_SLABS; i++)
			if (slab[i].state != SLAB_FREE)
				bytes += resident(remote, slab[i].base,
					slab[i].granules
						? slab[i].granules * GRANULE
						: slab[i].span_bytes);
		memcpy(&at, chunk, sizeof at);
	}
	remote->left_out += at != 0;
	return bytes;
}

static void add_faults(struct remote *remote, struct hakmem_stats *to)
{
	char path[64], line[1024], *rest;
	unsigned long minor, major;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)remote->pid);
	file = fopen(path, "re");
	if (!file)
		return;
	/* after the name, which may hold anything: the 8th and 10th field */
	if (fgets(line, sizeof line, file) && (rest = strrchr(line, ')')) &&
		sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu",
			&minor, &major) == 2) {
		to->minor_faults = minor;
		to->major_faults = major;
	}
	fclose(file);
}

static void add_memory(struct remote *remote, struct hakmem_stats *to)
{
	size_t meta = number(remote, NOTE_meta_bytes) +
		number(remote, NOTE_leaf_bytes);

	remote->unseen = address_space(remote);
	add_arenas(remote, to);
	to->resident_bytes += mappings_resident(remote);
	add_faults(remote, to);
	to->retained_bytes = number(remote, NOTE_dirty_granules) * GRANULE;
	to->retain_limit_bytes = number(remote, NOTE_retain_bytes);
	to->mappings = number(remote, NOTE_mapping_count);
	to->mapping_bytes = number(remote, NOTE_mapping_bytes);
	to->active_bytes = number(remote, NOTE_used_granules) * GRANULE +
		to->mapping_bytes;
	to->mapped_bytes = to->arena_bytes + to->mapping_bytes + meta;
	to->magazine_bytes = number(remote, NOTE_magazine_chunks) * GRANULE;
	to->metadata_bytes += meta + to->magazine_bytes +
		number(remote, NOTE_heap_chunk_bytes) +
		number(remote, NOTE_records_bytes);
	to->purge_calls = number(remote, NOTE_purge_calls);
	to->purged_bytes = number(remote, NOTE_purged_bytes);
}

/* The option table of this very command takes the values of the process; a
 * string of its own stays where it is. */
static void take_options(struct remote *remote)
{
	static char file[4096];
	uintptr_t at;

	peek_slot(remote, NOTE_options, &hak_options, sizeof hak_options);
	peek_slot(remote, NOTE_option_sources, hak_note_option_sources,
		hak_option_count());
	at = (uintptr_t)hak_options.stats_file;
	hak_options.stats_file = NULL;
	if (at != 0 && peek(remote, at, file, 1)) {
		size_t n = 0;

		while (n + 1 < sizeof file && peek(remote, at + n,
				file + n, 1) && file[n] != '\0')
			n++;
		file[n] = '\0';
		hak_options.stats_file = file;
	}
}

static void add_background(
	struct remote *remote, struct hak_snapshot *to)
{
	struct hak_background copy = {0};

	peek_slot(remote, NOTE_background, &copy, sizeof copy);
	hak_stats_add_background(to, &copy);
}

/* The address space that was found at first is no more: the process ended or
 * executes another program, at whose addresses anything may stand. A file of
 * /proc that is open stays with its address space. */
static int is_gone(struct remote *remote)
{
	uint64_t page;
	off_t at = (off_t)(remote->slot[NOTE_layout] / remote->page_size *
		sizeof page);

	return remote->pagemap >= 0 &&
		pread(remote->pagemap, &page, sizeof page, at) == 0;
}

int hak_remote_has_ended(struct remote *remote)
{
	char byte;

	return !peek_slot(remote, NOTE_layout, &byte, 1) && errno == ESRCH;
}

struct hak_snapshot *hak_remote_take(struct remote *remote)
{
	size_t count, lost[BINS] = {0};
	struct hak_counters_rest rest = {.moves = 0};
	struct heap *heaps;
	struct hak_snapshot *to;

	remote->left_out = 0;
	heaps = take_heaps(remote, &count, &rest);
	to = hak_lab_alloc(1, sizeof *to + count * sizeof to->heap[0]);
	hak_stats_clear(to, count);
	to->pid = (size_t)remote->pid;
	peek_slot(remote, NOTE_open_bins, &to->open_bins,
		sizeof to->open_bins);
	take_options(remote);
	if (!add_shards(remote, to)) {
		free(heaps);
		free(to);
		return NULL;
	}
	if (HAK_COUNTERS_COMPILED)
		hak_counters_add(to->counters, rest.sum);
	for (size_t i = 0; i < count; i++) {
		hak_stats_add_heap(to, &heaps[i]);
		if (HAK_COUNTERS_COMPILED)
			hak_counters_add(to->counters, heaps[i].counters);
	}
	free(heaps);
	peek_slot(remote, NOTE_lost, lost, sizeof lost);
	for (unsigned bin = TINY_FIRST; bin < BINS; bin++)
		to->bin[bin].lost = lost[bin];
	add_background(remote, to);
	add_memory(remote, &to->total);
	to->total.heap_objects = number(remote, NOTE_locked_heaps);
	to->total.live_blocks = number(remote, NOTE_locked_blocks);
	to->total.heap_object_bytes = number(remote, NOTE_locked_bytes);
	to->total.span_blocks = number(remote, NOTE_span_blocks);
	to->total.span_bytes = number(remote, NOTE_span_bytes);
	to->total.cache_share_bytes = number(remote, NOTE_cache_share);
	to->total.tls_bytes = sizeof(struct heap *);
	to->left_out = remote->left_out;
	hak_stats_finish(to);
	if (is_gone(remote)) {
		free(to);
		return NULL;
	}
	return to;
}
