/*
 * A library whose constructor starts threads that allocate, and forks, before
 * main and, by the order of loading, perhaps before the allocator's own
 * constructor.  The process ends with status 50 if that goes wrong.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, started;

static void *allocates(void *unused)
{
	while (!atomic_load(&stop)) {
		for (size_t n = 1; n < 200000; n = n * 5 / 4 + 1)
			free(malloc(n));
		atomic_fetch_add(&started, 1);
	}
	return unused;
}

static int child_works(void *inherited)
{
	for (size_t n = 1; n < 2000000; n = n * 3 / 2 + 1) {
		char *p = malloc(n);

		if (!p)
			return 1;
		memset(p, 1, n);
		free(p);
	}
	free(inherited);
	return 0;
}

/* The child's deadline is an alarm: a lock that no one holds is never
 * released. */
static int fork_works(void)
{
	void *kept = malloc(3000);
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		signal(SIGALRM, SIG_DFL);
		alarm(60);
		_exit(child_works(kept));
	}
	free(kept);
	waitpid(child, &status, 0);
	return status == 0;
}

__attribute__((constructor)) static void early(void)
{
	struct timespec moment = {0, 1000000};
	pthread_t thread[2];
	int good = 1;

	unsetenv("LD_PRELOAD"); /* or each program of the test would do it */
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, allocates, NULL))
			_exit(50);
	while (!atomic_load(&started))
		nanosleep(&moment, NULL);
	for (int i = 0; i < 10; i++)
		good = good && fork_works();
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	if (!good)
		_exit(50);
}
