/*
 * A process among others: threads that start programs by fork, vfork and
 * posix_spawn while others allocate, and very many threads one after the
 * other.
 */
#include "under-preload.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>

#include "util.h"

extern char **environ;

/* --- Programs that are started among threads ---------------------------------- */

enum { THREADS = 4, KEPT = 64 };

static atomic_int stop;

static void *churns(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg;
	unsigned char *kept[KEPT] = {NULL};

	while (!atomic_load(&stop)) {
		unsigned i = below(&state, KEPT);
		size_t n = 1 + below(&state, i % 16 ? 3000 : 300000);

		free(kept[i]);
		kept[i] = malloc(n);
		if (!kept[i])
			return NULL;
		kept[i][0] = kept[i][n - 1] = 1;
	}
	for (unsigned i = 0; i < KEPT; i++)
		free(kept[i]);
	return arg;
}

static int ended_well(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static char sh[] = "/bin/sh", dash_c[] = "-c", job[] = "x=$(echo 1) && ls / >/dev/null";
static char *const command[] = {sh, dash_c, job, NULL};

/* The child has the parent's memory until it execs; between them nothing of
 * the allocator may run but what works in a child of fork as well. */
static pid_t by_vfork(void)
{
	pid_t child = vfork();

	if (child == 0) {
		execv(sh, command);
		_exit(127);
	}
	return child;
}

static pid_t by_fork(void)
{
	pid_t child = fork();

	if (child == 0) {
		void *p = malloc(1000), *q = calloc(1, 100000);

		free(p);
		free(q);
		if (p && q)
			execv(sh, command);
		_exit(127);
	}
	return child;
}

static pid_t by_spawn(void)
{
	posix_spawn_file_actions_t actions;
	pid_t child = -1;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(
		&actions, 0, "/dev/null", O_RDONLY, 0);
	if (posix_spawn(&child, sh, &actions, NULL, command, environ))
		child = -1;
	posix_spawn_file_actions_destroy(&actions);
	return child;
}

static void *starts_programs(void *arg)
{
	static pid_t (*const way[])(void) = {by_vfork, by_fork, by_spawn};
	unsigned n = rounds(6, 40);

	for (unsigned i = 0; i < n; i++) {
		pid_t child = way[(i + (uintptr_t)arg) % 3]();

		if (child < 0 || !ended_well(child))
			return NULL;
	}
	return arg;
}

static int storm(void *unused)
{
	pthread_t worker[THREADS], starter[THREADS];
	void *result;
	int good = 1;

	(void)unused;
	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_create(&worker[i], NULL, churns, (void *)(i + 1));
		pthread_create(
			&starter[i], NULL, starts_programs, (void *)(i + 1));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(starter[i], &result);
		good &= result != NULL;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(worker[i], &result);
		good &= result != NULL;
	}
	return !good;
}

/* --- Threads without number ------------------------------------------------------ */

static void *_Atomic left_over;

/* Frees what another one left, leaves something for the next. */
static void *passes_by(void *arg)
{
	size_t n = 16 + (uintptr_t)arg * 37 % 60000;
	char *p = malloc(n), *old;

	if (!p)
		return (void *)1;
	p[0] = p[n - 1] = 1;
	old = atomic_exchange(&left_over, p);
	free(old);
	for (int i = 0; i < 20; i++)
		free(malloc(8u << i % 14));
	return NULL;
}

static int pass_by(uintptr_t from, uintptr_t to)
{
	enum { AT_ONCE = 8 };
	pthread_t thread[AT_ONCE];
	void *result;
	int good = 1;

	for (uintptr_t i = from; i < to; i += AT_ONCE) {
		for (int k = 0; k < AT_ONCE; k++)
			if (pthread_create(&thread[k], NULL, passes_by,
				    (void *)(i + (uintptr_t)k)))
				bail("no thread: %s", strerror(errno));
		for (int k = 0; k < AT_ONCE; k++) {
			pthread_join(thread[k], &result);
			good &= result == NULL;
		}
	}
	return good;
}

static void churn_of_threads(void)
{
	unsigned n = rounds(4000, 25);
	long rss;
	int good = pass_by(0, n / 5);

	rss = rss_kib();
	good &= pass_by(n / 5, n);
	ok(good, "%u threads, eight at once", n);
	rss = rss_kib() - rss;
	/* Two huge pages may come late; what threads leave adds up. */
	ok(rss < 5120, "RSS is %ld KiB higher after the last four fifths", rss);
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(3);
	ok(child_succeeds(storm, NULL, 200, "storm"),
		"threads start programs by fork, vfork and posix_spawn");
	churn_of_threads();
	return done();
}
