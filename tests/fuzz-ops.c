/*
 * Random programs of allocator calls, checked by a shadow model.
 *
 * A program is a string of bytes: from a file, from libFuzzer or AFL++, or
 * drawn from a seed. An actor runs it over a table of slots. For each block
 * the table knows address, sizes, alignment, heap and the pattern that fills
 * it, so that a lost byte, an overlap, a block that is not zero, a usable size
 * that changed or a realloc that forgot its prefix shows when it happens or
 * when the pattern is next looked at.
 *
 * An actor owns threads that run single calls for it: blocks are freed by
 * other threads than those that got them, threads come and go, their late
 * destructors allocate; and still a program gives the same calls each time.
 * For true concurrency several actors run at once and exchange blocks.
 *
 * When all is freed, the allocator's own sums must say so: a block that a
 * cache, queue or bitmap lost would be missing.
 *
 *	fuzz-ops			the test: fixed seeds, some settings, and
 *					the programs of tests/corpus/ops
 *	fuzz-ops [-s SEED] [-t SECONDS] [-n ACTORS] [-k SHARDS] [-f]
 *					search from SEED on; -f: with forks
 *	fuzz-ops FILE...		run programs from files
 */
#include <config.h>

#include "fuzz-actor.h"

#include "arena.h"
#include "hakmem.h"
#include "heap.h"
#include "locked_heap.h"
#include "mapping.h"
#include "records.h"
#include "shard.h"
#include "span.h"
#include "tap.h"

#include <dirent.h>
#include <time.h>

#define CELLS 16
#define LIVE_MAX ((size_t)160 << 20)

/* Blocks on their way from one actor to another. */
static struct cell {
	pthread_mutex_t mutex;
	struct slot slot;
} cells[CELLS];

/* Shared by all actors, and so destroyed by none. */
static struct hakmem_heap *common_heap;

char fuzz_where[128];

/* --- Steps of a program -------------------------------------------------- */

static struct slot *any_slot(struct actor *actor)
{
	return &actor->slot[fuzz_u16(&actor->input) % SLOTS];
}

/* The sizes at which something changes, and those between. */
static size_t any_size(struct fuzz_input *in)
{
	static const size_t edges[] = {
		0, 8, 16, 1024, 32 << 10, 64 << 10, 1 << 20, 2 << 20, 32 << 20};
	unsigned kind = fuzz_byte(in) % 32;

	if (kind < 12)
		return fuzz_u16(in) % 1025;
	if (kind < 16)
		return fuzz_byte(in) % 65;
	if (kind < 20)
		return hak_bins[1 + fuzz_byte(in) % (BINS - 1)].size +
		       fuzz_byte(in) % 3 - 1;
	if (kind < 24)
		return 1025 + fuzz_u16(in) % (31 << 10);
	if (kind < 27)
		return ((size_t)32 << 10) + fuzz_u24(in) % (1 << 20);
	if (kind == 27)
		return edges[fuzz_byte(in) % COUNT_OF(edges)] +
		       fuzz_byte(in) % 3 - 1;
	if (kind == 28)
		return ((size_t)1 << 20) + fuzz_u24(in) % (6 << 20);
	if (kind == 29)
		return (size_t)(1 + fuzz_byte(in)) * 4096;
	if (kind == 30)
		return fuzz_byte(in) % 4 != 0
			       ? fuzz_u16(in)
			       : ((size_t)32 << 20) + fuzz_u24(in);
	return fuzz_byte(in) % 2 != 0 ? SIZE_MAX - fuzz_u16(in)
				      : (size_t)PTRDIFF_MAX + fuzz_u16(in);
}

static bool affordable(const struct actor *actor, const struct call *call)
{
	return too_large(call) ||
	       actor->live_bytes + call->size * call->count <= LIVE_MAX;
}

/* A new block is the slot's from now on. */
static void adopt(struct actor *actor, struct slot *slot, struct call *call)
{
	if (call->result == NULL)
		return;
	slot->block = call->result;
	slot->size = call->size * call->count;
	slot->usable = hakmem_usable_size(slot->block);
	slot->align = MAX(call->align, 16);
	slot->heap = call->heap;
	table_add(actor, slot);
	fill(actor, slot);
}

static void drop(struct actor *actor, struct slot *slot)
{
	struct call call = {.run = run_free, .slot = slot};

	if (slot->block == NULL)
		return;
	check_block(slot);
	call.how = fuzz_byte(&actor->input);
	table_remove(actor, slot);
	make_call(actor, &call);
	*slot = (struct slot){.block = NULL};
}

static struct hakmem_heap *any_heap(struct actor *actor)
{
	unsigned n = fuzz_byte(&actor->input) % (8 * HEAPS);

	if (n == HEAPS)
		return common_heap;
	return n < HEAPS ? actor->heap[n] : NULL;
}

static void step_alloc(
	struct actor *actor, void (*run)(struct actor *, struct call *))
{
	struct slot *slot = any_slot(actor);
	struct call call = {.run = run, .count = 1, .align = 16};

	call.size = any_size(&actor->input);
	call.how = fuzz_byte(&actor->input);
	call.heap = any_heap(actor);
	if (run == run_calloc && call.how % 2 != 0)
		call.count = 1 + fuzz_byte(&actor->input) % 8;
	if (run == run_aligned)
		call.align = (size_t)1 << call.how % (call.how > 240 ? 25 : 14);
	if (slot->block != NULL)
		drop(actor, slot);
	if (!affordable(actor, &call))
		return;
	make_call(actor, &call);
	adopt(actor, slot, &call);
}

static void step_realloc(struct actor *actor)
{
	struct slot *slot = any_slot(actor), old = *slot;
	struct call call = {.run = run_realloc, .slot = &old, .count = 1};
	unsigned how = fuzz_byte(&actor->input);

	call.size = any_size(&actor->input);
	/* Small steps, too: in place, or just out of it. */
	if (how % 4 == 0)
		call.size = old.usable + how - 128;
	call.heap = old.block != NULL ? old.heap : NULL;
	if (how % 8 == 1 && call.heap == NULL)
		call.count = how % 5;
	if (!affordable(actor, &call))
		return;
	if (old.block != NULL) {
		check_block(slot);
		table_remove(actor, slot);
	}
	make_call(actor, &call);
	if (call.result == NULL && too_large(&call)) {
		if (old.block != NULL)
			table_add(actor, slot);
		return;
	}
	slot->block = NULL;
	if (call.result == NULL)
		return;
	if (old.block != NULL) {
		struct slot moved = old;

		moved.block = call.result;
		check_prefix(&moved, MIN(old.usable, call.size * call.count));
	}
	adopt(actor, slot, &call);
}

/* Many of one size, as real programs have them. */
static void step_burst(struct actor *actor)
{
	unsigned n = fuzz_byte(&actor->input);
	size_t first = fuzz_u16(&actor->input) % SLOTS;
	struct call call = {.run = run_malloc, .count = 1};

	call.size = any_size(&actor->input);
	for (unsigned i = 0; i < n && call.size <= 32 << 10; i++) {
		struct slot *slot = &actor->slot[(first + i) % SLOTS];

		if (slot->block != NULL)
			drop(actor, slot);
		if (!affordable(actor, &call))
			return;
		make_call(actor, &call);
		adopt(actor, slot, &call);
	}
}

static void step_burst_free(struct actor *actor)
{
	unsigned n = fuzz_byte(&actor->input), how = fuzz_byte(&actor->input);
	size_t first = fuzz_u16(&actor->input) % SLOTS;

	for (unsigned i = 0; i < n; i++) {
		unsigned k = how % 2 != 0 ? n - 1 - i : i;

		if (how < 128 || k % 8 != 0)
			drop(actor, &actor->slot[(first + k) % SLOTS]);
	}
}

static void step_trim(struct actor *actor)
{
	struct call call = {.run = run_trim};

	call.size = (size_t)fuzz_u16(&actor->input) << 10;
	make_call(actor, &call);
}

static void step_thread(struct actor *actor)
{
	unsigned how = fuzz_byte(&actor->input);
	struct worker *w = &actor->worker[how % WORKERS];
	struct call late = {.run = run_late, .how = how};

	if (!w->alive) {
		worker_start(w);
	} else if (how & 64) {
		worker_call(w, &late);
		worker_stop(w);
	} else {
		worker_stop(w);
	}
}

static size_t blocks_of(
	const struct actor *actor, const struct hakmem_heap *heap)
{
	size_t n = 0;

	for (size_t i = 0; i < SLOTS; i++)
		n += actor->slot[i].block != NULL &&
		     actor->slot[i].heap == heap;
	return n;
}

static void heap_end(struct actor *actor, struct hakmem_heap **heap)
{
	struct hakmem_heap_stats stats = {.struct_size = sizeof stats};

	hakmem_heap_stats(*heap, &stats);
	if (stats.live_blocks != blocks_of(actor, *heap))
		fuzz_wrong("heap: %zu live blocks, %zu expected",
			(size_t)stats.live_blocks, blocks_of(actor, *heap));
	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &actor->slot[i];

		if (slot->block == NULL || slot->heap != *heap)
			continue;
		check_block(slot);
		table_remove(actor, slot);
		slot->block = NULL;
	}
	hakmem_heap_destroy(*heap);
	*heap = NULL;
}

static void step_heap(struct actor *actor)
{
	struct hakmem_heap **heap =
		&actor->heap[fuzz_byte(&actor->input) % HEAPS];

	if (*heap != NULL)
		heap_end(actor, heap);
	else
		*heap = hakmem_heap_new();
}

/* Give a block to whoever comes by next, and take what is there. */
static void step_exchange(struct actor *actor)
{
	struct slot *slot = any_slot(actor), had;
	struct cell *cell = &cells[fuzz_byte(&actor->input) % CELLS];

	if (actor->child || (slot->heap != NULL && slot->heap != common_heap))
		return;
	if (slot->block != NULL)
		table_remove(actor, slot);
	pthread_mutex_lock(&cell->mutex);
	had = cell->slot;
	cell->slot = *slot;
	pthread_mutex_unlock(&cell->mutex);
	*slot = had;
	if (had.block != NULL) {
		check_block(slot);
		table_add(actor, slot);
	}
}

static void step(struct actor *actor);

static void drop_all(struct actor *actor)
{
	for (size_t i = 0; i < HEAPS; i++)
		if (actor->heap[i] != NULL)
			heap_end(actor, &actor->heap[i]);
	for (size_t i = 0; i < SLOTS; i++)
		drop(actor, &actor->slot[i]);
}

/* A child has one thread, all the blocks, and must get on with them. */
static void step_fork(struct actor *actor)
{
	int status;
	pid_t child;

	if (!actor->forks || actor->child || fuzz_byte(&actor->input) % 16 != 0)
		return;
	child = fork();
	if (child == 0) {
		alarm(60);
		actor->child = true;
		for (size_t i = 0; i < WORKERS; i++)
			actor->worker[i].alive = false;
		actor_start(actor);
		for (unsigned i = 0; i < 200; i++)
			step(actor);
		for (size_t i = 0; i < WORKERS; i++)
			if (actor->worker[i].alive)
				worker_stop(&actor->worker[i]);
		drop_all(actor);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		fuzz_wrong("fork: %s", strerror(errno));
	if (status != 0)
		fuzz_wrong("a child ended with status %#x", (unsigned)status);
}

static void step(struct actor *actor)
{
	unsigned op = fuzz_byte(&actor->input);

	if (op < 80)
		step_alloc(actor, run_malloc);
	else if (op < 100)
		step_alloc(actor, run_calloc);
	else if (op < 115)
		step_alloc(actor, run_aligned);
	else if (op < 150)
		step_realloc(actor);
	else if (op < 210)
		drop(actor, any_slot(actor));
	else if (op < 216)
		step_burst(actor);
	else if (op < 222)
		step_burst_free(actor);
	else if (op < 242)
		step_exchange(actor);
	else if (op < 248)
		step_thread(actor);
	else if (op < 251)
		step_heap(actor);
	else if (op < 253)
		step_trim(actor);
	else
		step_fork(actor);
}

/* --- Runs ---------------------------------------------------------------- */

static void actor_end(struct actor *actor)
{
	drop_all(actor);
	for (size_t i = 0; i < WORKERS; i++)
		if (actor->worker[i].alive)
			worker_stop(&actor->worker[i]);
	if (actor->live_bytes != 0)
		fuzz_wrong("the model holds %zu bytes at the end",
			actor->live_bytes);
}

static void empty_cells(void)
{
	for (size_t i = 0; i < CELLS; i++) {
		hakmem_free(cells[i].slot.block);
		cells[i].slot.block = NULL;
	}
}

/* Nothing is out: whatever the allocator still counts, it has lost. */
static void check_balance(void)
{
	size_t taken, used;

	hakmem_heap_destroy(common_heap);
	common_heap = NULL;
	hakmem_trim(0);
	taken = hak_shard_taken_bytes();
	if (taken != 0)
		fuzz_wrong("%zu bytes of blocks are lost", taken);
	if (hak_span_live_bytes() != 0 || hak_locked_heap_live_bytes() != 0)
		fuzz_wrong("%zu bytes of spans and %zu of heaps are lost",
			hak_span_live_bytes(), hak_locked_heap_live_bytes());
	if (hak_mapping_count() > 8)
		fuzz_wrong("%zu mappings are left", hak_mapping_count());
	used = hak_arena_used_bytes() - hak_magazine_pool_bytes() -
	       hak_records_bytes();
	if (used > 64 * GRANULE)
		fuzz_wrong("%zu bytes of granules are lost", used);
	if (hak_arena_dirty_bytes() != 0)
		fuzz_wrong("%zu bytes are not purged", hak_arena_dirty_bytes());
}

static void begin(void)
{
	static bool begun;

	if (!begun) {
		begun = true;
		calls_begin();
		for (size_t i = 0; i < CELLS; i++)
			pthread_mutex_init(&cells[i].mutex, NULL);
	}
	common_heap = hakmem_heap_new();
}

static struct actor first_actor;

/* One program, alone. */
static void run_program(const struct fuzz_input *input, bool forks)
{
	struct actor *actor = &first_actor;

	begin();
	memset(actor, 0, sizeof *actor);
	actor->input = *input;
	actor->alone = true;
	actor->forks = forks;
	actor_start(actor);
	while (fuzz_more(&actor->input))
		step(actor);
	actor_end(actor);
	empty_cells();
	check_balance();
}

static void *actor_main(void *arg)
{
	struct actor *actor = arg;

	actor_start(actor);
	while (fuzz_more(&actor->input))
		step(actor);
	actor_end(actor);
	return NULL;
}

#define ACTORS_MAX 8

static void run_actors(uint64_t seed, unsigned n, size_t length, bool forks)
{
	static struct actor actors[ACTORS_MAX];
	pthread_t threads[ACTORS_MAX];

	begin();
	memset(actors, 0, sizeof actors);
	for (unsigned i = 0; i < n; i++) {
		actors[i].input = fuzz_seeded(seed * ACTORS_MAX + i, length);
		actors[i].forks = forks;
		actors[i].patterns = (uint64_t)i << 36;
		if (pthread_create(&threads[i], NULL, actor_main, &actors[i]) !=
			0)
			fuzz_wrong("pthread_create failed");
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	empty_cells();
	check_balance();
}

#if FUZZ_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = fuzz_bytes(data, size);

	run_program(&input, false);
	return 0;
}

#else

static void search(uint64_t seed, unsigned seconds, unsigned actors, bool forks)
{
	time_t end = time(NULL) + (time_t)seconds;
	uint64_t first = seed;

	for (; time(NULL) < end; seed++) {
		struct fuzz_input input = fuzz_seeded(seed, 60000);

		fuzz_context("seed %llu", (unsigned long long)seed);
		if (actors > 1)
			run_actors(seed, actors, 30000, forks);
		else
			run_program(&input, forks);
	}
	printf("%llu programs, %lu calls, nothing wrong\n",
		(unsigned long long)(seed - first), calls_made);
}

static void replay(const char *name)
{
	static uint8_t data[1 << 20];
	FILE *file = fopen(name, "rb");
	struct fuzz_input input;

	if (file == NULL) {
		fprintf(stderr, "fuzz-ops: %s: %s\n", name, strerror(errno));
		exit(2);
	}
	input = fuzz_bytes(data, fread(data, 1, sizeof data, file));
	fclose(file);
	fuzz_context("%s", name);
	run_program(&input, false);
}

static int from_arguments(int argc, char **argv)
{
	unsigned seconds = 10, actors = 1, shards = 0;
	unsigned long long seed = 1;
	bool forks = false;
	int c;

	while ((c = getopt(argc, argv, "s:t:n:k:f")) != -1) {
		switch (c) {
		case 's':
			seed = strtoull(optarg, NULL, 10);
			break;
		case 't':
			seconds = (unsigned)atoi(optarg);
			break;
		case 'n':
			actors = (unsigned)atoi(optarg);
			break;
		case 'k':
			shards = (unsigned)atoi(optarg);
			break;
		case 'f':
			forks = true;
			break;
		default:
			return 2;
		}
	}
	if (actors < 1 || actors > ACTORS_MAX || shards > SHARDS_MAX) {
		fprintf(stderr, "fuzz-ops: 1 to %d actors, at most %d shards\n",
			ACTORS_MAX, SHARDS_MAX);
		return 2;
	}
	if (shards != 0)
		hak_shard_force(shards);
	if (optind == argc)
		search(seed, seconds, actors, forks);
	for (; optind < argc; optind++)
		replay(argv[optind]);
	return 0;
}

/* --- The test ------------------------------------------------------------ */

/* ThreadSanitizer loses count of threads in a child of a process that has
 * some, and ends it. */
#ifdef __SANITIZE_THREAD__
enum { can_fork = 0 };
#else
enum { can_fork = 1 };
#endif

struct setting {
	const char *name;
	const char *option, *value;
	unsigned actors;
	unsigned shards;
	unsigned forks;
};

static const struct setting settings[] = {
	{"defaults", NULL, NULL, 1, 0, 1},
	{"four shards", NULL, NULL, 1, 4, 0},
	{"actors", NULL, NULL, 3, 0, 1},
	{"actors, four shards", NULL, NULL, 3, 4, 0},
	{"slabs one by one", "HAKMEM_TINY_USE_SUPERSLAB", "0", 1, 0, 0},
	{"nothing retained", "HAKMEM_RETAIN", "0", 2, 2, 0},
	{"small caches", "HAKMEM_CACHE", "64k", 2, 0, 0},
	{"no warm slabs", "HAKMEM_WARM_POOL_SIZE", "1", 1, 0, 0},
	{"no huge pages", "HAKMEM_THP", "never", 1, 0, 0},
	{"checked", "HAKMEM_CHECK", "1", 2, 0, 1},
};

static const struct setting *current;

static void run_setting(void)
{
	const struct setting *s = current;

	fuzz_context("%s", s->name);
	/* What waits there would be missing from the balance. */
	setenv("HAKMEM_CHECK_QUARANTINE", "0", 1);
	if (s->option != NULL)
		setenv(s->option, s->value, 1);
	if (s->shards != 0)
		hak_shard_force(s->shards);
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct fuzz_input input = fuzz_seeded(seed, 8000);

		if (s->actors > 1)
			run_actors(seed, s->actors, 4000,
				s->forks && can_fork);
		else
			run_program(&input, s->forks && can_fork);
	}
}

/* What fuzzers found worth keeping. */
static char corpus_file[1024];

static void run_corpus_file(void)
{
	replay(corpus_file);
}

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void run_corpus(const char *path, struct dirent **entry, int n)
{
	char errors[512];
	int status;

	for (int i = 0; i < n; i++) {
		snprintf(corpus_file, sizeof corpus_file, "%s/%s", path,
			entry[i]->d_name);
		tap_child(run_corpus_file, &status, errors, sizeof errors);
		ok(status == 0 && errors[0] == '\0', "%s", entry[i]->d_name);
		if (errors[0] != '\0')
			diag("%s", errors);
	}
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_srcdir");
	struct dirent **entry;
	char errors[512], path[512];
	int status, files;

	if (argc > 1)
		return from_arguments(argc, argv);
	snprintf(path, sizeof path, "%s/tests/corpus/ops", top ? top : ".");
	files = scandir(path, &entry, is_file, alphasort);
	if (files <= 0)
		bail("no corpus: %s", path);
	plan(COUNT_OF(settings) + (unsigned)files);
	for (size_t i = 0; i < COUNT_OF(settings); i++) {
		current = &settings[i];
		tap_child(run_setting, &status, errors, sizeof errors);
		ok(status == 0 && errors[0] == '\0', "%s", current->name);
		if (errors[0] != '\0')
			diag("%s", errors);
	}
	run_corpus(path, entry, files);
	return done();
}

#endif
