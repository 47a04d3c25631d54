/*
 * The model of fuzz-ops: blocks, their patterns, and single calls.
 *
 * All of a small block is filled, of a large one its ends and some pages. Each
 * call is checked for what it promises; whatever is wrong ends the program.
 */
#include <config.h>

#include "fuzz-actor.h"

#include "hakmem.h"
#include "tap.h"

#define WHOLE ((size_t)64 << 10)
#define ODD_ERRNO 4711
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* ThreadSanitizer lets go of a thread in the last round of destructors. */
#if defined __SANITIZE_THREAD__
#define LATE_ROUNDS 2
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define LATE_ROUNDS 2
#endif
#endif
#ifndef LATE_ROUNDS
#define LATE_ROUNDS 4
#endif

unsigned long calls_made;

/* --- Patterns ------------------------------------------------------------ */

static uint64_t word_at(uint64_t pattern, size_t i)
{
	return (pattern + i) * 0x9e3779b97f4a7c15u | 1;
}

/* Call visit for the places of a block that are filled: all of a small one,
 * of a large one its ends and the first word of some pages. */
static void each_word(const struct slot *slot, size_t bytes,
	void (*visit)(const struct slot *, size_t word))
{
	size_t words = bytes / 8, step;

	if (bytes <= WHOLE) {
		for (size_t i = 0; i < words; i++)
			visit(slot, i);
		return;
	}
	step = bytes <= ((size_t)1 << 20) ? 512 : words / 64 & ~(size_t)511;
	for (size_t i = 0; i < words; i += step)
		visit(slot, i);
	if (bytes == slot->usable)
		visit(slot, words - 1);
}

static void write_word(const struct slot *slot, size_t i)
{
	uint64_t word = word_at(slot->pattern, i);

	memcpy(slot->block + i * 8, &word, 8);
}

static void check_word(const struct slot *slot, size_t i)
{
	uint64_t want = word_at(slot->pattern, i), word;

	memcpy(&word, slot->block + i * 8, 8);
	if (word != want)
		fuzz_wrong(
			"block %p of %zu (usable %zu): word %zu is %#llx, not "
			"%#llx",
			(void *)slot->block, slot->size, slot->usable, i,
			(unsigned long long)word, (unsigned long long)want);
}

void fill(struct actor *actor, struct slot *slot)
{
	slot->pattern = ++actor->patterns << 20;
	each_word(slot, slot->usable, write_word);
}

/* The first bytes are as they were filled when the block had `usable`. */
void check_prefix(const struct slot *slot, size_t bytes)
{
	if (bytes <= WHOLE && slot->usable <= WHOLE) {
		each_word(slot, bytes, check_word);
	} else {
		size_t words = slot->usable / 8, step = 512;

		if (slot->usable > (size_t)1 << 20)
			step = words / 64 & ~(size_t)511;
		else if (slot->usable <= WHOLE)
			step = 1;
		for (size_t i = 0; i < MIN(words, bytes / 8); i += step)
			check_word(slot, i);
	}
}

void check_block(const struct slot *slot)
{
	size_t usable = hakmem_usable_size(slot->block);

	if (usable != slot->usable)
		fuzz_wrong("block %p of %zu: usable size was %zu and is %zu",
			(void *)slot->block, slot->size, slot->usable, usable);
	each_word(slot, slot->usable, check_word);
}

static void check_zero(const unsigned char *block, size_t size, bool whole)
{
	size_t step = whole || size <= WHOLE * 4 ? 1 : 4096;

	for (size_t i = 0; i < size; i += step)
		if (block[i] != 0)
			fuzz_wrong("calloc of %zu: byte %zu is %#x", size, i,
				block[i]);
}

/* --- The table of blocks ------------------------------------------------- */

static size_t place_of(const struct actor *actor, const unsigned char *block)
{
	size_t low = 0, high = actor->live;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (actor->sorted[middle]->block < block)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void check_overlap(const struct slot *lower, const struct slot *upper)
{
	if (lower->block + lower->usable > upper->block)
		fuzz_wrong("blocks overlap: %p of %zu and %p",
			(void *)lower->block, lower->usable,
			(void *)upper->block);
}

void table_add(struct actor *actor, struct slot *slot)
{
	size_t at;

	actor->live_bytes += slot->usable;
	if (!actor->alone)
		return;
	at = place_of(actor, slot->block);
	if (at > 0)
		check_overlap(actor->sorted[at - 1], slot);
	if (at < actor->live)
		check_overlap(slot, actor->sorted[at]);
	memmove(actor->sorted + at + 1, actor->sorted + at,
		(actor->live - at) * sizeof *actor->sorted);
	actor->sorted[at] = slot;
	actor->live++;
}

void table_remove(struct actor *actor, struct slot *slot)
{
	size_t at;

	actor->live_bytes -= slot->usable;
	if (!actor->alone)
		return;
	at = place_of(actor, slot->block);
	if (at == actor->live || actor->sorted[at] != slot)
		fuzz_wrong("the model has lost %p", (void *)slot->block);
	actor->live--;
	memmove(actor->sorted + at, actor->sorted + at + 1,
		(actor->live - at) * sizeof *actor->sorted);
}

/* --- Threads of an actor ------------------------------------------------- */

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	pthread_mutex_lock(&w->mutex);
	while (!w->quit) {
		if (w->call != NULL) {
			w->call->run(w->actor, w->call);
			w->call = NULL;
			pthread_cond_signal(&w->changed);
		}
		pthread_cond_wait(&w->changed, &w->mutex);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

void worker_start(struct worker *w)
{
	w->quit = false;
	w->call = NULL;
	w->alive = pthread_create(&w->thread, NULL, worker_main, w) == 0;
}

void worker_stop(struct worker *w)
{
	pthread_mutex_lock(&w->mutex);
	w->quit = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->mutex);
	pthread_join(w->thread, NULL);
	w->alive = false;
}

void worker_call(struct worker *w, struct call *call)
{
	pthread_mutex_lock(&w->mutex);
	w->call = call;
	pthread_cond_signal(&w->changed);
	while (w->call != NULL)
		pthread_cond_wait(&w->changed, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
}

void make_call(struct actor *actor, struct call *call)
{
	unsigned where = fuzz_byte(&actor->input) % 16;
	struct worker *w = &actor->worker[where % WORKERS];

	__atomic_fetch_add(&calls_made, 1, __ATOMIC_RELAXED);
	if (where < 2 * WORKERS && w->alive)
		worker_call(w, call);
	else
		call->run(actor, call);
}

void actor_start(struct actor *actor)
{
	for (size_t i = 0; i < WORKERS; i++) {
		struct worker *w = &actor->worker[i];

		w->actor = actor;
		pthread_mutex_init(&w->mutex, NULL);
		pthread_cond_init(&w->changed, NULL);
	}
}

/* --- Calls --------------------------------------------------------------- */

bool too_large(const struct call *call)
{
	size_t bytes;

	return __builtin_mul_overflow(call->count, call->size, &bytes) ||
	       bytes > PTRDIFF_MAX;
}

/* What every allocation promises. */
static void check_result(const struct call *call, const char *name)
{
	unsigned char *block = call->result;
	size_t bytes = call->size * call->count;

	if (too_large(call)) {
		if (block != NULL || errno != ENOMEM)
			fuzz_wrong("%s of %zu * %zu: %p, errno %d", name,
				call->count, call->size, (void *)block, errno);
		return;
	}
	if (block == NULL)
		fuzz_wrong("%s of %zu failed, errno %d", name, bytes, errno);
	if (errno != ODD_ERRNO)
		fuzz_wrong("%s of %zu set errno to %d", name, bytes, errno);
	if ((uintptr_t)block % call->align != 0)
		fuzz_wrong("%s of %zu: %p is not aligned to %zu", name, bytes,
			(void *)block, call->align);
	if (hakmem_usable_size(block) < bytes)
		fuzz_wrong("%s of %zu: usable size %zu", name, bytes,
			hakmem_usable_size(block));
}

void run_malloc(struct actor *actor, struct call *call)
{
	(void)actor;
	call->align = call->size > 8 ? 16 : 8;
	errno = ODD_ERRNO;
	call->result = call->heap != NULL
			       ? hakmem_heap_malloc(call->heap, call->size)
			       : hakmem_malloc(call->size);
	check_result(call, "malloc");
	if (call->result != NULL &&
		hakmem_usable_size(call->result) !=
			hakmem_good_size(call->size))
		fuzz_wrong("good_size(%zu) is %zu, usable size %zu", call->size,
			hakmem_good_size(call->size),
			hakmem_usable_size(call->result));
}

void run_calloc(struct actor *actor, struct call *call)
{
	(void)actor;
	call->align = call->size * call->count > 8 ? 16 : 8;
	errno = ODD_ERRNO;
	call->result = call->heap != NULL
			       ? hakmem_heap_calloc(
					 call->heap, call->count, call->size)
			       : hakmem_calloc(call->count, call->size);
	check_result(call, "calloc");
	if (call->result != NULL)
		check_zero(call->result, call->size * call->count,
			call->how % 16 == 0);
}

void run_aligned(struct actor *actor, struct call *call)
{
	(void)actor;
	errno = ODD_ERRNO;
	if (call->heap != NULL)
		call->result = hakmem_heap_aligned_alloc(
			call->heap, call->align, call->size);
	else if (call->how % 2 != 0 || call->align < sizeof(void *))
		call->result = hakmem_aligned_alloc(call->align, call->size);
	else if (hakmem_posix_memalign(
			 &call->result, call->align, call->size) != 0)
		call->result = NULL, errno = ENOMEM;
	check_result(call, "aligned_alloc");
}

void run_realloc(struct actor *actor, struct call *call)
{
	(void)actor;
	call->align = call->size * call->count > 8 ? 16 : 8;
	errno = ODD_ERRNO;
	if (call->heap != NULL)
		call->result = hakmem_heap_realloc(call->heap,
			call->slot->block, call->size * call->count);
	else if (call->count != 1)
		call->result = hakmem_reallocarray(
			call->slot->block, call->count, call->size);
	else
		call->result = hakmem_realloc(call->slot->block, call->size);
	if (call->slot->block != NULL && call->size * call->count == 0 &&
		!too_large(call)) {
		if (call->result != NULL || errno != ODD_ERRNO)
			fuzz_wrong("realloc to 0: %p, errno %d", call->result,
				errno);
		return;
	}
	check_result(call, "realloc");
}

/* With what is known of it: an aligned block wants its alignment, too. */
static void free_told(const struct slot *slot)
{
	if (slot->align > 16)
		hakmem_free_aligned_sized(slot->block, slot->align, slot->size);
	else
		hakmem_free_sized(slot->block, slot->size);
}

void run_free(struct actor *actor, struct call *call)
{
	(void)actor;
	errno = ODD_ERRNO;
	if (call->how % 4 == 0)
		free_told(call->slot);
	else
		hakmem_free(call->slot->block);
	if (errno != ODD_ERRNO)
		fuzz_wrong(
			"free of %zu set errno to %d", call->slot->size, errno);
}

void run_trim(struct actor *actor, struct call *call)
{
	(void)actor;
	hakmem_trim(call->size);
}

/* Rounds of a destructor that runs when the thread's heap is gone. */
struct late {
	void *block;
	unsigned rounds;
};

static pthread_key_t late_key;

static void late_destructor(void *arg)
{
	struct late *late = arg;
	size_t size = 24 + 700 * (size_t)late->rounds;

	hakmem_free(late->block);
	late->block = hakmem_malloc(size);
	if (late->block == NULL)
		fuzz_wrong("no memory in a late destructor");
	memset(late->block, 0x5a, size);
	if (late->rounds-- > 0) {
		pthread_setspecific(late_key, late);
		return;
	}
	hakmem_free(late->block);
	hakmem_free(late);
}

void run_late(struct actor *actor, struct call *call)
{
	struct late *late;

	(void)actor;
	if (pthread_getspecific(late_key) != NULL)
		return;
	late = hakmem_malloc(sizeof *late);
	late->rounds = call->how % LATE_ROUNDS;
	late->block = hakmem_malloc(call->how * 100);
	pthread_setspecific(late_key, late);
}

void calls_begin(void)
{
	pthread_key_create(&late_key, late_destructor);
}
