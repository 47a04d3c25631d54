/*
 * start.c: page size, options, fork handlers.
 *
 * The first allocation of a process may come from the loader or from another
 * library's constructor, before libc set environ.  So the environment block
 * is found on the initial stack then, and nothing is called that another
 * library could have replaced by something that allocates.
 */
#include "start.h"

#include "budget.h"
#include "cache_limits.h"
#include "fork.h"
#include "heap.h"
#include "lock.h"
#include "options.h"
#include "os.h"
#include "records.h"
#include "stats.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

/* There where the preload library is, which starts its thread itself, when the
 * C library is up. */
extern const struct hak_entry_points hakmem_preload_entry
	__attribute__((weak));

/* The loader's note of where argc stands; absent in some static programs. */
extern void *__libc_stack_end __attribute__((weak));

static struct hak_lock start_lock = HAK_LOCK_INIT(RANK_INIT);
static bool started;
static bool handlers_set;

static char **environment(void)
{
	char **argv;
	long argc;

	if (environ != NULL)
		return environ;
	if (&__libc_stack_end == NULL || __libc_stack_end == NULL)
		return NULL;
	argc = *(long *)__libc_stack_end;
	argv = (char **)__libc_stack_end + 1;
	/* Not the layout of a program's entry: better none than a wild one. */
	if (argc < 0 || argc > 1 << 24 || argv[argc] != NULL)
		return NULL;
	return argv + argc + 1;
}

HAK_COLD void hak_start(void)
{
	/* Acquire: pairs with the release below; the options are read without
	 * a lock ever after. */
	if (__atomic_load_n(&started, __ATOMIC_ACQUIRE))
		return;
	hak_lock(&start_lock);
	if (!started) {
		hak_os_init(getauxval(AT_PAGESZ));
		hak_options_init(environment(), getauxval(AT_SECURE) != 0);
		hak_cache_limits_init();
		if (hak_counters_want_hits() || hak_options.check)
			hak_cache_close();
		STORE_RELAXED(&hak_check_mode, hak_options.check
			? HAK_CHECK_ON : HAK_CHECK_OFF);
		hak_stats_start();
		__atomic_store_n(&started, true, __ATOMIC_RELEASE);
	}
	hak_unlock(&start_lock);
}

HAK_COLD void hak_start_retune(void)
{
	hak_stats_start();
	hak_budget_retune();
	hak_budget_background();
}

HAK_COLD void hak_start_late(void)
{
	if (__atomic_exchange_n(&handlers_set, true, __ATOMIC_RELAXED))
		return;
	if (pthread_atfork(hak_fork_prepare, hak_fork_parent,
		hak_fork_child) != 0) {
		/* No memory: the next birth tries again. */
		__atomic_store_n(&handlers_set, false, __ATOMIC_RELAXED);
		return;
	}
	if (&hakmem_preload_entry == NULL)
		hak_budget_background();
}
