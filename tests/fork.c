/*
 * fork while other threads are inside the allocator: the child can allocate,
 * free what any thread of its parent held, start threads, fork again and
 * exit, and no one waits for a lock whose owner does not exist.
 */
#include "under-preload.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>

#include "util.h"

enum { OWNERS = 3, HELD = 500, LIMIT = 60 };

extern char **environ;

/* Blocks of threads that the children do not have. */
static unsigned char *held[OWNERS][HELD];
static pthread_barrier_t filled;
static atomic_int stop;

static size_t held_size(int i)
{
	return 16 + (size_t)(i * 131) % (i % 50 ? 3000 : 90000);
}

/* Churns after that, so that forks find it inside the allocator. */
static void *owner(void *arg)
{
	long me = (long)arg;
	uint32_t state = (uint32_t)me + 3;
	void *mine[128] = {NULL};
	unsigned turns = 0;

	for (int i = 0; i < HELD; i++) {
		held[me][i] = malloc(held_size(i));
		pattern_fill(held[me][i], 0, held_size(i), (unsigned)i);
	}
	pthread_barrier_wait(&filled);
	while (!atomic_load(&stop)) {
		uint32_t at = below(&state, 128);
		size_t n = below(&state, below(&state, 16) ? 2000 : 100000);

		free(mine[at]);
		mine[at] = malloc(n);
		if (mine[at] && n)
			memset(mine[at], 1, n < 64 ? n : 64);
		/* leave the others some of two processors */
		if (++turns % 1000 == 0)
			sleep_ms(1);
	}
	for (int i = 0; i < 128; i++)
		free(mine[i]);
	return NULL;
}

static int sizes_work(void)
{
	for (size_t n = 1; n < MIB; n = n * 3 + 3) {
		unsigned char *p = malloc(n);

		if (!p)
			return 0;
		pattern_fill(p, 0, n, 1);
		p = realloc(p, n * 2);
		if (!p || pattern_check(p, n, 1) != n)
			return 0;
		free(p);
	}
	for (size_t i = 0; i < 1000; i++)
		free(malloc(i * 3));
	return 1;
}

static int held_are_intact(void)
{
	for (int me = 0; me < OWNERS; me++)
		for (int i = 0; i < HELD; i++)
			if (pattern_check(held[me][i], held_size(i),
				    (unsigned)i) != held_size(i))
				return 0;
	return 1;
}

static void *frees_one_owners(void *arg)
{
	long me = (long)arg;

	for (int i = 0; i < HELD; i++) {
		free(held[me][i]);
		held[me][i] = malloc(64);
	}
	for (int i = 0; i < HELD; i++)
		free(held[me][i]);
	return sizes_work() ? arg : (void *)-1L;
}

static int child_allocates(void *unused)
{
	(void)unused;
	if (!held_are_intact())
		return 2;
	return sizes_work() ? 0 : 3;
}

static int child_frees_the_owners_blocks(void *unused)
{
	for (long me = 0; me < OWNERS; me++)
		if (frees_one_owners((void *)me) != (void *)me)
			return 2;
	return child_allocates(unused) == 3 ? 3 : 0;
}

static int grandchild_exits(void *unused)
{
	(void)unused;
	if (!sizes_work())
		return 2;
	exit(0); /* with the handlers of atexit */
}

/* Threads of its own, a child of its own, and a proper exit. */
static int child_becomes_a_daemon(void *unused)
{
	pthread_t thread[OWNERS];
	void *result;
	int good;

	(void)unused;
	for (long i = 0; i < OWNERS; i++)
		if (pthread_create(
			    &thread[i], NULL, frees_one_owners, (void *)i))
			return 2;
	good = child_succeeds(grandchild_exits, NULL, LIMIT, "grandchild");
	for (long i = 0; i < OWNERS; i++) {
		pthread_join(thread[i], &result);
		good = good && result == (void *)i;
	}
	exit(good ? 0 : 3);
}

static int generations_left;

static int chain_of_children(void *unused)
{
	if (!sizes_work())
		return 2;
	if (generations_left-- == 0)
		return 0;
	return child_succeeds(chain_of_children, unused, LIMIT, "chain") ? 0
									 : 3;
}

static int child_executes(void *unused)
{
	(void)unused;
	free(malloc(3000));
	execl("/bin/sh", "sh", "-c", "exec true", (char *)NULL);
	return 2;
}

static int storm(int (*child)(void *), unsigned count, const char *what)
{
	for (unsigned i = 0; i < count; i++) {
		void *mine[200];
		int good;

		for (size_t j = 0; j < 200; j++)
			mine[j] = malloc(100 + j * 37);
		good = child_succeeds(child, NULL, LIMIT, what);
		for (size_t j = 0; j < 200; j++)
			free(mine[j]);
		if (!good)
			return 0;
	}
	return 1;
}

/* Several threads of one process fork at the same time. */
static void *forking_thread(void *unused)
{
	for (int i = 0; i < 4; i++)
		if (!child_succeeds(
			    child_allocates, NULL, LIMIT, "child of a thread"))
			return (void *)1;
	return unused;
}

static int threads_fork(void)
{
	pthread_t thread[3];
	int good = 1;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, forking_thread, NULL);
	for (int i = 0; i < 3; i++) {
		void *result;

		pthread_join(thread[i], &result);
		good = good && !result;
	}
	return good;
}

static char *const exits_with_7[] = {"sh", "-c", "exit 7", NULL};

static int by_system(void)
{
	return system(exits_with_7[2]);
}

static int by_vfork(void)
{
	int status = 0;
	pid_t child = vfork();

	if (child == 0) {
		execv("/bin/sh", exits_with_7);
		_exit(99);
	}
	waitpid(child, &status, 0);
	return status;
}

static int by_posix_spawn(void)
{
	int status = 0;
	pid_t child;

	if (posix_spawn(&child, "/bin/sh", NULL, NULL, exits_with_7, environ))
		return 0;
	waitpid(child, &status, 0);
	return status;
}

static int starts_programs(int (*start)(void))
{
	for (int i = 0; i < 8; i++) {
		int status = start();

		REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 7,
			"status %#x", status);
	}
	return 1;
}

/*
 * Handlers of other code allocate too; those registered late run before the
 * allocator's own in the parent and after it in the child, early ones the
 * other way round.
 */
static __thread void *from_prepare; /* several threads fork */
static int parent_calls, child_calls;

static void on_prepare(void)
{
	from_prepare = malloc(700);
	memset(from_prepare, 5, 700);
	free(malloc(70000));
}

static void on_parent(void)
{
	free(from_prepare);
	free(malloc(200));
	parent_calls++;
}

static void on_child(void)
{
	free(from_prepare);
	free(realloc(malloc(200), 90000));
	child_calls++;
}

static int child_saw_handlers(void *unused)
{
	(void)unused;
	return child_calls == 1 && sizes_work() ? 0 : 2;
}

static int handlers_allocate(void)
{
	int before = parent_calls;

	if (!storm(child_saw_handlers, 10, "child with handlers"))
		return 0;
	REQUIRE(parent_calls == before + 10, "%d calls in the parent",
		parent_calls - before);
	return 1;
}

/* Registered before main and, by luck of link order, before most others. */
__attribute__((constructor(101))) static void register_early(void)
{
	pthread_atfork(on_prepare, on_parent, on_child);
}

static void *writes_a_lot(void *unused)
{
	FILE *sink = fopen("/dev/null", "w");

	while (sink && !atomic_load(&stop)) {
		char *text = NULL;

		if (asprintf(&text, "%*d", 3000, 1) > 0)
			fputs(text, sink);
		free(text);
		fflush(NULL);
		sleep_ms(1);
	}
	if (sink)
		fclose(sink);
	return unused;
}

static int child_uses_stdio(void *unused)
{
	FILE *sink = fopen("/dev/null", "w");

	(void)unused;
	if (!sink || fprintf(sink, "%s\n", "hello") < 0 || fclose(sink))
		return 2;
	return sizes_work() ? 0 : 3;
}

/* Every child of every storm also ran the handlers above. */
static void fork_cases(void)
{
	ok(storm(child_allocates, rounds(12, 30), "child"),
		"children of a busy process allocate");
	ok(storm(child_frees_the_owners_blocks, rounds(4, 30), "child"),
		"they free the blocks of threads that they do not have");
	ok(storm(child_becomes_a_daemon, rounds(3, 30), "daemon"),
		"they have threads and children of their own, and exit");
	generations_left = 8;
	ok(storm(chain_of_children, 1, "chain"), "a chain of children");
	ok(storm(child_executes, rounds(5, 30), "exec"), "they exec");
	ok(threads_fork(), "several threads fork at once");
	ok(starts_programs(by_system) && starts_programs(by_vfork) &&
			starts_programs(by_posix_spawn),
		"system, vfork and posix_spawn");
	ok(storm(child_uses_stdio, rounds(5, 30), "stdio"),
		"children use stdio while the parent's threads did");
}

static void from_atexit(void)
{
	free(malloc(12345));
}

int main(int argc, char **argv)
{
	pthread_t thread[OWNERS + 1];

	(void)argc;
	under_preload(argv);
	plan(10);
	atexit(from_atexit);
	pthread_barrier_init(&filled, NULL, OWNERS + 1);
	for (long i = 0; i < OWNERS; i++)
		pthread_create(&thread[i], NULL, owner, (void *)i);
	pthread_barrier_wait(&filled);
	pthread_create(&thread[OWNERS], NULL, writes_a_lot, NULL);
	ok(handlers_allocate(), "handlers registered early may allocate");
	fork_cases();
	atomic_store(&stop, 1);
	for (int i = 0; i <= OWNERS; i++)
		pthread_join(thread[i], NULL);
	ok(held_are_intact(), "the parent's own blocks are whole");
	return done();
}
