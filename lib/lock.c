/*
 * lock.c: the slow half of the mutex, the fork owner, the rank checks.
 *
 * I1  A lock's word is 2 whenever a thread may sleep on it, so an unlock that
 *     finds 1 need not enter the kernel.
 * I2  In debug builds a thread's set of held ranks has no rank at or above
 *     the one it takes next (fork excepted).
 */
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void *hak_lock_fork_owner;

/* The thread that takes many locks of one rank, in index order, or NULL. */
static void *unranked;

#if HAKMEM_DEBUG
/* Bit r: this thread holds a lock of rank r. */
static __thread uint32_t held_ranks;
#else
static uint32_t held_ranks;
#endif

bool hak_lock_is_forking(void)
{
	return LOAD_RELAXED(&hak_lock_fork_owner) == hak_thread_id();
}

void hak_lock_fork_prepare(void)
{
	STORE_RELAXED(&unranked, hak_thread_id());
}

void hak_lock_fork_begin(void)
{
	STORE_RELAXED(&hak_lock_fork_owner, hak_thread_id());
}

void hak_lock_fork_end(void)
{
	STORE_RELAXED(&hak_lock_fork_owner, NULL);
	STORE_RELAXED(&unranked, NULL);
	held_ranks = 0;
}

static void futex(uint32_t *word, int op, uint32_t value)
{
	int saved = errno;

	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
	errno = saved;
}

HAK_COLD void hak_lock_slow(struct hak_lock *lock)
{
	if (LOAD_RELAXED(&hak_lock_fork_owner) != NULL &&
	    hak_lock_is_forking())
		return;
	/* Critical sections are a few hundred instructions: a holder that
	 * runs is gone soon, one that does not is worth sleeping for. */
	for (int i = 0; i < 40; i++) {
		if (LOAD_RELAXED(&lock->word) == 0 && hak_try_lock(lock))
			return;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	/* Acquire: pairs with the release in hak_unlock(). */
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
		futex(&lock->word, FUTEX_WAIT, 2);
	if (HAKMEM_DEBUG)
		hak_lock_check_rank(lock);
}

/* No waiting, so no order of ranks to keep. */
static bool try_unranked(struct hak_lock *lock)
{
	uint32_t expected = 0;

	/* Acquire: pairs with the release in hak_unlock(). */
	return __atomic_compare_exchange_n(&lock->word, &expected, 1, false,
		__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

bool hak_lock_patiently(struct hak_lock *lock)
{
	int saved = errno;
	bool taken = try_unranked(lock);

	for (int i = 0; i < 100 && !taken; i++) {
		syscall(SYS_sched_yield);
		taken = try_unranked(lock);
	}
	errno = saved;
	return taken;
}

HAK_COLD void hak_unlock_slow(struct hak_lock *lock)
{
	futex(&lock->word, FUTEX_WAKE, 1);
}

void hak_lock_check_rank(const struct hak_lock *lock)
{
	int place = lock->rank - RANK_INIT;

	if (LOAD_RELAXED(&unranked) != hak_thread_id())
		ASSERT(held_ranks >> place == 0);
	held_ranks |= (uint32_t)1 << place;
}

void hak_lock_note_release(const struct hak_lock *lock)
{
	held_ranks &= ~((uint32_t)1 << (lock->rank - RANK_INIT));
}
