/*
 * An actor of fuzz-ops: the blocks that it believes to have, the threads that
 * run its calls, and what every call promises.
 */
#ifndef FUZZ_ACTOR_H
#define FUZZ_ACTOR_H

#include "fuzz.h"

#include <pthread.h>

#define SLOTS 1024
#define WORKERS 4
#define HEAPS 3

struct slot {
	unsigned char *block;
	size_t size;
	size_t usable;
	/* What it was asked for with; 16 at least. */
	size_t align;
	uint64_t pattern;
	struct hakmem_heap *heap;
};

struct actor;

/* One call, carried out by a thread of the actor. */
struct call {
	void (*run)(struct actor *actor, struct call *call);
	struct slot *slot;
	size_t size;
	size_t count;
	size_t align;
	struct hakmem_heap *heap;
	void *result;
	unsigned how;
};

struct worker {
	struct actor *actor;
	pthread_t thread;
	bool alive;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct call *call;
	bool quit;
};

struct actor {
	struct fuzz_input input;
	struct slot slot[SLOTS];
	struct hakmem_heap *heap[HEAPS];
	struct worker worker[WORKERS];
	/* Live blocks in address order, where no other actor takes any. */
	struct slot *sorted[SLOTS];
	size_t live;
	size_t live_bytes;
	uint64_t patterns;
	bool alone;
	bool forks;
	bool child;
};

/* Calls so far, of all actors. */
extern unsigned long calls_made;

void calls_begin(void);

/* The table of blocks: a new one that overlaps no other, and one that goes. */
void table_add(struct actor *actor, struct slot *slot);
void table_remove(struct actor *actor, struct slot *slot);

/* Give the block its pattern; see that it has kept it, and its usable size;
 * see that a block of realloc begins as the old one did. */
void fill(struct actor *actor, struct slot *slot);
void check_block(const struct slot *slot);
void check_prefix(const struct slot *slot, size_t bytes);

void actor_start(struct actor *actor);
void worker_start(struct worker *w);
void worker_stop(struct worker *w);
void worker_call(struct worker *w, struct call *call);
/* On a worker when the program says so, else here. */
void make_call(struct actor *actor, struct call *call);

/* A request that no allocator can meet. */
bool too_large(const struct call *call);

void run_malloc(struct actor *actor, struct call *call);
void run_calloc(struct actor *actor, struct call *call);
void run_aligned(struct actor *actor, struct call *call);
void run_realloc(struct actor *actor, struct call *call);
void run_free(struct actor *actor, struct call *call);
void run_trim(struct actor *actor, struct call *call);
/* Leave blocks to the destructors of the thread. */
void run_late(struct actor *actor, struct call *call);

#endif
