/*
 * background.h: HAKMEM_BG_SPILL: one thread that works in rounds while there
 * is something to do, and sleeps otherwise.
 *
 * What a round is, budget.c says.  The thread has no heap and never allocates.
 */
#ifndef HAK_BACKGROUND_H
#define HAK_BACKGROUND_H

#include "base.h"

/* Written by the thread alone; read relaxed. */
struct hak_background {
	/* 1 from the start of the thread to its end. */
	size_t threads;
	size_t rounds;
	/* Full magazines taken from spill queues, and their blocks in bytes. */
	size_t magazines;
	size_t drained_bytes;
	size_t purged_bytes;
};

extern struct hak_background hak_background;

/* A round of work; returns the milliseconds after which time alone makes another
 * one needed, 0 if it does not. */
typedef uint64_t hak_background_round(void);

/* Between rounds while there is work: what a round returns then. */
#define HAK_BACKGROUND_MS 100

/* Start the thread if HAKMEM_BG_SPILL asks for one and this process has none.
 * Calls pthread_create: not from inside malloc, where libc's locks may be held. */
void hak_background_start(hak_background_round *round);

/* There is work, or HAKMEM_BG_SPILL changed.  No lock may be held. */
void hak_background_wake(void);

/* No further round: the process ends.  Nobody waits for the thread. */
void hak_background_end(void);

/* A thread got its caches, or gives them up.  The main thread may end before
 * the process, which then ends with its last thread: that must not be ours. */
void hak_background_note_birth(uint32_t thread);
void hak_background_note_exit(uint32_t thread);

/* In a fork's child: the thread is not there; whether its main thread, the one
 * that forked, has caches. */
void hak_background_fork_child(bool cached);

/* Whether the thread sleeps until it is woken.  Who makes work under a lock
 * that a round takes asks while he holds it, and wakes it after. */
extern bool hak_background_asleep;

#endif
