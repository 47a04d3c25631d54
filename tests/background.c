/*
 * HAKMEM_BG_SPILL: an idle process gives back what it does not need and its
 * spill queues run empty, without a call; and the thread that does it keeps no
 * process alive, takes no signal, and is not there after a fork.
 *
 * Each case is a process of its own, so that none inherits a thread.
 */
#include "hakmem.h"

#include "util.h"

#include <pthread.h>
#include <sys/resource.h>

enum { LIMIT = 60, BLOCKS = 20000 };

static void *blocks[BLOCKS];

static int set(const char *name, const char *value)
{
	return hakmem_option_set(name, value) == 0;
}

static struct hakmem_stats stats(void)
{
	struct hakmem_stats all = {.struct_size = sizeof all};

	hakmem_stats_get(&all);
	return all;
}

/* Looking allocates nothing: the process idles. */
static int comes_true(int (*is_so)(void))
{
	double deadline = wall_seconds() + LIMIT / 2;

	while (!is_so() && wall_seconds() < deadline)
		sleep_ms(20);
	return is_so();
}

static int runs(void)
{
	return stats().background_threads == 1;
}

static int is_gone(void)
{
	return stats().background_threads == 0;
}

static int queues_are_empty(void)
{
	return stats().spill_magazines == 0;
}

/* --- What it does --------------------------------------------------------- */

static void swing(void)
{
	enum { N = 64 };
	void *large[N];

	for (int i = 0; i < N; i++) {
		large[i] = hakmem_malloc(MIB + 1);
		memset(large[i], 1, MIB);
	}
	for (int i = 0; i < N; i++)
		hakmem_free(large[i]);
}

static int little_is_retained(void)
{
	return stats().retained_bytes <= 20 * MIB;
}

static int idle_memory_goes(void *unused)
{
	long before, after;

	(void)unused;
	set("HAKMEM_PURGE_DELAY_MS", "200");
	swing();
	sleep_ms(600);
	if (little_is_retained())
		return 2; /* without the thread nothing happens */
	set("HAKMEM_BG_SPILL", "1");
	swing();
	before = rss_kib();
	if (little_is_retained() || !comes_true(little_is_retained))
		return 3;
	after = rss_kib();
	if (!WATCHED && before - after < 40 * 1024)
		return 4;
	if (stats().background_purged_bytes < 40 * MIB)
		return 5;
	/* and once more, woken from its sleep */
	sleep_ms(300);
	swing();
	return comes_true(little_is_retained) ? 0 : 6;
}

static void *free_all(void *unused)
{
	for (int i = 0; i < BLOCKS; i++)
		hakmem_free(blocks[i]);
	return unused;
}

/* Blocks that another thread frees fill the queues of their shard. */
static void fill_queues(void)
{
	pthread_t other;

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = hakmem_malloc(64);
	if (pthread_create(&other, NULL, free_all, NULL))
		_exit(90);
	pthread_join(other, NULL);
}

static int queues_run_empty(void *unused)
{
	struct hakmem_stats all;

	(void)unused;
	fill_queues();
	sleep_ms(400);
	if (queues_are_empty() || stats().spill_bytes == 0)
		return 2;
	set("HAKMEM_BG_SPILL", "1");
	if (!comes_true(queues_are_empty) || stats().spill_bytes != 0)
		return 3;
	all = stats();
	if (all.background_magazines < 2 || all.background_rounds < 2 ||
		all.background_drained_bytes !=
			all.background_magazines * 127 * 64)
		return 4;
	/* woken from its sleep by a full magazine */
	sleep_ms(300);
	fill_queues();
	if (!comes_true(queues_are_empty))
		return 5;
	return stats().background_magazines > all.background_magazines ? 0 : 6;
}

static int sleeps_when_idle(void *unused)
{
	size_t before;

	(void)unused;
	set("HAKMEM_BG_SPILL", "1");
	fill_queues();
	if (!comes_true(queues_are_empty))
		return 2;
	sleep_ms(500);
	before = stats().background_rounds;
	sleep_ms(500);
	if (stats().background_rounds != before)
		return 3;
	/* nor while memory waits for a delay that is far off */
	set("HAKMEM_PURGE_DELAY_MS", "3600000");
	swing();
	sleep_ms(500);
	before = stats().background_rounds;
	sleep_ms(500);
	if (little_is_retained() || stats().background_rounds != before)
		return 4;
	/* and a shorter delay is noticed */
	set("HAKMEM_PURGE_DELAY_MS", "0");
	return comes_true(little_is_retained) ? 0 : 5;
}

/* --- Coming and going ------------------------------------------------------ */

static int stops_and_starts(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++) {
		set("HAKMEM_BG_SPILL", "1");
		if (!comes_true(runs))
			return 2;
		set("HAKMEM_BG_SPILL", "0");
		/* every other time it is asked back before it has gone */
		if (i % 2 == 0 && !comes_true(is_gone))
			return 3;
	}
	return comes_true(is_gone) ? 0 : 4;
}

static int takes_no_second(void *unused)
{
	(void)unused;
	for (int i = 0; i < 10; i++)
		set("HAKMEM_BG_SPILL", "1");
	fill_queues();
	return comes_true(runs) && comes_true(queues_are_empty) ? 0 : 2;
}

static int child_is_without(void *unused)
{
	(void)unused;
	if (stats().background_threads != 0)
		return 2;
	swing();
	fill_queues();
	if (queues_are_empty())
		return 3;
	set("HAKMEM_BG_SPILL", "1");
	return comes_true(runs) && comes_true(queues_are_empty) ? 0 : 4;
}

static int forks(void *unused)
{
	(void)unused;
	set("HAKMEM_BG_SPILL", "1");
	for (int i = 0; i < 10; i++) {
		swing(); /* the thread is at work while others fork */
		if (!child_succeeds(child_is_without, NULL, LIMIT, "child"))
			return 2;
	}
	return runs() ? 0 : 3;
}

static int exits(void *unused)
{
	(void)unused;
	set("HAKMEM_BG_SPILL", "1");
	set("HAKMEM_RETAIN", "0");
	swing();
	exit(0);
}

static void *ends_later(void *unused)
{
	sleep_ms(200);
	return unused;
}

/* glibc ends the process, with status 0, when its last thread ends. */
static int main_ends_first(void *unused)
{
	pthread_t other;

	(void)unused;
	set("HAKMEM_BG_SPILL", "1");
	hakmem_free(hakmem_malloc(100));
	if (pthread_create(&other, NULL, ends_later, NULL))
		return 2;
	pthread_exit(NULL);
}

static void *starts_it(void *unused)
{
	set("HAKMEM_BG_SPILL", "1");
	fill_queues();
	return comes_true(runs) ? unused : (void *)1;
}

/* Run by this program's own execution: a main thread without caches. */
static int main_never_allocates(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, starts_it, NULL))
		return 2;
	pthread_join(other, NULL);
	pthread_exit(NULL);
}

static int execute(void *program)
{
	execl(program, program, "main-never-allocates", (char *)NULL);
	return 9;
}

static volatile sig_atomic_t taken;

static void take(int signal)
{
	taken = signal;
}

static int takes_no_signal(void *unused)
{
	sigset_t set_of_one, saved;

	(void)unused;
	set("HAKMEM_BG_SPILL", "1");
	signal(SIGUSR1, take);
	sigemptyset(&set_of_one);
	sigaddset(&set_of_one, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set_of_one, &saved);
	if (!comes_true(runs))
		return 2;
	kill(getpid(), SIGUSR1);
	sleep_ms(200);
	if (taken)
		return 3;
	sigprocmask(SIG_SETMASK, &saved, NULL);
	return taken ? 0 : 4;
}

static int goes_without(void *unused)
{
	struct rlimit small = {(rlim_t)vsz_kib() * 1024, RLIM_INFINITY}, saved;

	(void)unused;
	hakmem_free(hakmem_malloc(100));
	small.rlim_cur = (rlim_t)vsz_kib() * 1024;
	getrlimit(RLIMIT_AS, &saved);
	setrlimit(RLIMIT_AS, &small);
	set("HAKMEM_BG_SPILL", "1");
	setrlimit(RLIMIT_AS, &saved);
	if (!is_gone())
		return 2;
	swing();
	/* and when it is asked for again it comes */
	set("HAKMEM_BG_SPILL", "1");
	return comes_true(runs) ? 0 : 3;
}

static void test_failure(void)
{
	struct outcome o;

	if (WATCHED) {
		skip(2, "a sanitizer has memory of its own");
		return;
	}
	o = in_child(goes_without, NULL, LIMIT);
	is_int(o.signal | o.status | o.hung, 0, "without a thread all goes on");
	is_str(o.text, "hakmem: background: cannot start a thread: 11\n",
		"and one line says so");
}

static void test_fork(void)
{
	if (WATCHED)
		skip(1, "sanitizers do not like threads that fork");
	else
		ok(child_succeeds(forks, NULL, 2 * LIMIT, "forks"),
			"a fork's child goes without, and may start its own");
}

static void test_last_thread(char *program)
{
	if (WATCHED) {
		skip(2, "a sanitizer's own thread stays");
		return;
	}
	ok(child_succeeds(main_ends_first, NULL, LIMIT, "main"),
		"the process ends with its last thread");
	ok(child_succeeds(execute, program, LIMIT, "exec"),
		"also when its main thread never allocated");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return main_never_allocates();
	plan(12);
	test_failure();
	ok(child_succeeds(idle_memory_goes, NULL, LIMIT, "idle"),
		"idle memory goes with the thread, and stays without");
	ok(child_succeeds(queues_run_empty, NULL, LIMIT, "queues"),
		"queues run empty with the thread, and not without");
	ok(child_succeeds(sleeps_when_idle, NULL, LIMIT, "sleep"),
		"no rounds while there is nothing to do");
	ok(child_succeeds(stops_and_starts, NULL, 2 * LIMIT, "stop"),
		"it stops and starts as the option says");
	ok(child_succeeds(takes_no_second, NULL, LIMIT, "second"),
		"asking again is harmless");
	test_fork();
	ok(child_succeeds(exits, NULL, LIMIT, "exit"), "exit waits for nobody");
	test_last_thread(argv[0]);
	ok(child_succeeds(takes_no_signal, NULL, LIMIT, "signal"),
		"signals are for other threads");
	return done();
}
