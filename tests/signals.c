/*
 * Signals may interrupt the allocator anywhere, as long as their handlers do
 * not allocate: neither contents nor counts suffer, and no call fails because
 * a system call of the allocator's was interrupted.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "util.h"

static atomic_ulong ticks;
static atomic_int stop;

static void on_tick(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
}

static void handle(int number, int flags)
{
	struct sigaction action = {0};

	action.sa_handler = on_tick;
	action.sa_flags = flags;
	sigaction(number, &action, NULL);
}

static void tick_every_us(int which, long us)
{
	struct itimerval often = {{0, us}, {0, us}};

	setitimer(which, &often, NULL);
}

/* Blocks of all kinds, checked when they are freed. */
static int churn(uint32_t seed, unsigned operations)
{
	enum { SLOTS = 200 };
	static __thread struct {
		unsigned char *p;
		size_t n;
	} slot[SLOTS];
	uint32_t state = seed;
	int good = 1;

	for (unsigned i = 0; i < operations + SLOTS; i++) {
		uint32_t at =
			i < operations ? below(&state, SLOTS) : i - operations;
		size_t n = below(&state, below(&state, 64) ? 1500 : 300000);
		size_t marked = slot[at].n < 1500 ? slot[at].n : 1500;

		if (slot[at].p &&
			pattern_check(slot[at].p, marked, at) != marked)
			good = 0;
		free(slot[at].p);
		slot[at].p = NULL;
		if (i >= operations)
			continue;
		slot[at].n = n;
		slot[at].p = i % 5 ? malloc(n) : realloc(malloc(n / 2), n);
		if (slot[at].p)
			pattern_fill(slot[at].p, 0, n < 1500 ? n : 1500, at);
		else if (n)
			good = 0;
	}
	return good;
}

static int ticks_interrupt(int which, int number, int flags)
{
	unsigned long before = ticks;
	int good = 1;

	handle(number, flags);
	tick_every_us(which, 200);
	/* Longer where the machine is fast: the kernel's ticks are no shorter
	 * than it likes. */
	for (uint32_t i = 0; i < 100 && good && (i == 0 || ticks <= before + 10);
		i++)
		good = churn(7 + i, rounds(120000, 20));
	tick_every_us(which, 0);
	REQUIRE(good, "contents changed or no memory");
	REQUIRE(ticks > before + 10, "only %lu signals came", ticks - before);
	return 1;
}

static pthread_t target[3];

static void *churning_thread(void *seed)
{
	void *result = NULL;

	while (!atomic_load(&stop))
		if (!churn((uint32_t)(uintptr_t)seed, 2000))
			result = (void *)1;
	return result;
}

/* Signals to threads, and forks at the same time. */
static int threads_are_interrupted(void)
{
	unsigned long before = ticks, enough = before + 101;
	unsigned least = rounds(3000, 20);
	int good = 1;

	handle(SIGUSR1, 0);
	for (long i = 0; i < 3; i++)
		pthread_create(
			&target[i], NULL, churning_thread, (void *)(i + 1));
	/* Longer where threads are slow to run: signals that wait are one. */
	for (unsigned i = 0; i < least || (i < 100 * least && ticks < enough);
		i++) {
		pthread_kill(target[i % 3], SIGUSR1);
		if (i % 10 == 0)
			sleep_ms(1);
		if (i % 1000 == 0 && !(i = i + 1, fork()))
			_exit(churn(3, 500) ? 0 : 1);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++) {
		void *result;

		pthread_join(target[i], &result);
		good = good && !result;
	}
	for (int status; wait(&status) > 0;)
		good = good && status == 0;
	REQUIRE(good, "contents changed, no memory, or a child failed");
	REQUIRE(ticks >= enough, "only %lu signals came", ticks - before);
	return 1;
}

/* A handler on a stack of its own, as small as the system allows. */
static int on_another_stack(void)
{
	size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + 4096;
	stack_t small = {0}, none = {0};
	int good;

	small.ss_size = size;
	small.ss_sp = malloc(size);
	none.ss_flags = SS_DISABLE;
	sigaltstack(&small, NULL);
	good = ticks_interrupt(ITIMER_PROF, SIGPROF, SA_ONSTACK);
	sigaltstack(&none, NULL);
	free(small.ss_sp);
	return good;
}

/* Blocked signals stay blocked, pending ones pending. */
static int mask_is_kept(void)
{
	sigset_t mask, got, pending;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	raise(SIGUSR2);
	for (int i = 0; i < 200; i++)
		free(malloc((size_t)i * 5000));
	malloc_trim(0);
	pthread_sigmask(SIG_BLOCK, NULL, &got);
	sigpending(&pending);
	handle(SIGUSR2, 0);
	pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	return sigismember(&got, SIGUSR2) && sigismember(&pending, SIGUSR2);
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(5);
	ok(ticks_interrupt(ITIMER_PROF, SIGPROF, 0),
		"a profiling timer interrupts");
	ok(ticks_interrupt(ITIMER_VIRTUAL, SIGVTALRM, SA_RESTART),
		"so does a timer that restarts system calls");
	ok(on_another_stack(), "handlers on a small stack of their own");
	ok(threads_are_interrupted(), "threads, with forks in between");
	ok(mask_is_kept(), "the signal mask is left alone");
	return done();
}
