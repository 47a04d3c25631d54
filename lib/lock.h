/*
 * lock.h: a futex mutex of one word, with a rank.
 *
 * A waiter sleeps instead of spinning, so a preempted holder costs others
 * nothing.  Locks are taken in rising rank; debug builds check that for every
 * thread.  Two locks of one rank are held at once by fork alone, which takes
 * them in index order (hak_fork_*).
 *
 * While a thread is between fork's prepare and parent handlers it holds every
 * lock; the handlers of other libraries may allocate then, so that thread
 * passes through locks it already holds.
 */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "base.h"

/* Zero is the rank of the many locks that stand in zeroed memory. */
enum hak_rank {
	RANK_INIT = -7,
	RANK_QUARANTINE,
	RANK_REGISTRY,
	RANK_HEAP,
	RANK_LOCKED_HEAPS,
	RANK_LOCKED_HEAP,
	RANK_RECORDS,
	RANK_SHARD_BIN = 0,
	RANK_MAGAZINES,
	RANK_ARENA,
	RANK_HUGE,
	RANK_META,
	RANK_PAGE_MAP,
	RANK_OWED
};

struct hak_lock {
	/* 0 free, 1 held, 2 held and somebody may sleep; atomic. */
	uint32_t word;
	/* enum hak_rank; constant. */
	int32_t rank;
};

#define HAK_LOCK_INIT(r) { 0, (r) }

void hak_lock_slow(struct hak_lock *lock);
void hak_unlock_slow(struct hak_lock *lock);
void hak_lock_check_rank(const struct hak_lock *lock);
void hak_lock_note_release(const struct hak_lock *lock);

/* The thread that holds all locks across a fork (its tls address), or NULL. */
extern void *hak_lock_fork_owner;
bool hak_lock_is_forking(void);
/* Around the handlers: after the first lock, when all are held, at the end. */
void hak_lock_fork_prepare(void);
void hak_lock_fork_begin(void);
void hak_lock_fork_end(void);

/* Forget holders and sleepers: only in a fork's child, which has one thread. */
HAK_INLINE void hak_lock_reset(struct hak_lock *lock)
{
	STORE_RELAXED(&lock->word, 0);
}

HAK_INLINE bool hak_try_lock(struct hak_lock *lock)
{
	uint32_t expected = 0;

	/* Acquire: pairs with the release in hak_unlock(). */
	if (!__atomic_compare_exchange_n(&lock->word, &expected, 1, false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	if (HAKMEM_DEBUG)
		hak_lock_check_rank(lock);
	return true;
}

HAK_INLINE void hak_lock(struct hak_lock *lock)
{
	if (HAK_UNLIKELY(!hak_try_lock(lock)))
		hak_lock_slow(lock);
}

/* For readers that would rather see unsteady figures than wait for a holder
 * that may be this very thread, in a signal handler; whether it was taken. */
bool hak_lock_patiently(struct hak_lock *lock);

HAK_INLINE void hak_unlock(struct hak_lock *lock)
{
	if (HAK_UNLIKELY(LOAD_RELAXED(&hak_lock_fork_owner) != NULL) &&
	    hak_lock_is_forking())
		return;
	if (HAKMEM_DEBUG)
		hak_lock_note_release(lock);
	/* Release: pairs with the acquire of the next holder. */
	if (HAK_UNLIKELY(__atomic_exchange_n(&lock->word, 0,
			__ATOMIC_RELEASE) == 2))
		hak_unlock_slow(lock);
}

#endif
