/*
 * The system has no thread for HAKMEM_BG_SPILL: a program in which the n-th
 * creation fails, for n = 1, 2, 3, ... until none does, alone and in a row, as
 * the C library may refuse it for want of resources or for a stack too small.
 *
 * Whichever fails, the call that asked for it succeeds and leaves errno and
 * the signal mask alone, one line tells it, the option says what was asked for
 * and the statistics what is there, and the next change of an option tries
 * again.
 */
#include <config.h>

#include "hakmem.h"

#include "util.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#define LIMIT 60
#define POINTS_MAX 50
#define LINE "hakmem: background: cannot start a thread: "

typedef void *body(void *);

int __real_pthread_create(pthread_t *, const pthread_attr_t *, body *, void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, body *, void *);

/* Creations by the library; those from first to last fail. */
static struct {
	unsigned calls, first, last;
	int error;
	bool granted;
} threads;

/* Shared with the children. */
static struct report {
	unsigned calls, refusals;
} *report;

int __wrap_pthread_create(
	pthread_t *id, const pthread_attr_t *attr, body *start, void *arg)
{
	unsigned n = __atomic_add_fetch(&threads.calls, 1, __ATOMIC_SEQ_CST);

	threads.granted = n < threads.first || n > threads.last;
	return threads.granted ? __real_pthread_create(id, attr, start, arg)
			       : threads.error;
}

__attribute__((noreturn)) static void wrong(const char *what)
{
	fprintf(stderr, "%s after %u creations\n", what, threads.calls);
	_exit(1);
}

static size_t there(void)
{
	struct hakmem_stats all = {.struct_size = sizeof all};

	hakmem_stats_get(&all);
	return all.background_threads;
}

static void wait_until(size_t wanted)
{
	double deadline = wall_seconds() + LIMIT / 2;

	while (there() != wanted)
		if (wall_seconds() > deadline)
			wrong(wanted ? "no thread comes" : "it does not go");
		else
			sleep_ms(1);
}

/* How things stand before something that may start a thread. */
static struct {
	unsigned calls;
	sigset_t mask;
} before;

static void look(void)
{
	before.calls = threads.calls;
	pthread_sigmask(SIG_SETMASK, NULL, &before.mask);
	errno = 77;
}

/* After it: the thread is there unless the last creation was refused. */
static void check(void)
{
	bool refused = threads.calls != before.calls && !threads.granted;
	char value[8] = "";
	sigset_t mask;

	if (errno != 77)
		wrong("errno has changed");
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int s = 1; s < 32; s++)
		if (sigismember(&mask, s) != sigismember(&before.mask, s))
			wrong("the signal mask has changed");
	if (hakmem_option_get("HAKMEM_BG_SPILL", value, sizeof value) != 0 ||
		strcmp(value, "1") != 0)
		wrong("the option does not say what was asked for");
	report->refusals += refused;
	if (!refused)
		wait_until(1);
	sleep_ms(refused ? 5 : 0);
	if (there() != !refused)
		wrong("the statistics do not say what is there");
}

static void set(const char *name, const char *value)
{
	look();
	if (hakmem_option_set(name, value) != 0)
		wrong("an option cannot be set");
	check();
}

static void stop(void)
{
	char value[8] = "";

	if (hakmem_option_set("HAKMEM_BG_SPILL", "0") != 0 ||
		hakmem_option_get("HAKMEM_BG_SPILL", value, sizeof value) != 0 ||
		strcmp(value, "0") != 0)
		wrong("it cannot be stopped");
	wait_until(0);
}

/* All regions, and blocks that another thread frees. */
static void *blocks[600];

static void *free_all(void *unused)
{
	for (size_t i = 0; i < 600; i++) {
		size_t size = 64 << i % 16;
		unsigned char *block = blocks[i];

		if (block[0] != i % 251 || block[size - 1] != i % 251)
			wrong("a block has changed");
		hakmem_free(block);
	}
	return unused;
}

static void use_memory(void)
{
	pthread_t other;

	for (size_t i = 0; i < 600; i++) {
		size_t size = 64 << i % 16;
		unsigned char *block = hakmem_malloc(size);

		if (block == NULL)
			wrong("no memory");
		block[0] = block[size - 1] = (unsigned char)(i % 251);
		blocks[i] = block;
	}
	if (__real_pthread_create(&other, NULL, free_all, NULL) != 0)
		wrong("no thread of the program's");
	pthread_join(other, NULL);
	hakmem_trim(0);
}

static void in_fork(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (there() != 0)
			wrong("a child has a thread");
		set("HAKMEM_BG_SPILL", "1");
		use_memory();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		wrong("a child has failed");
}

static int program(void *unused)
{
	setenv("HAKMEM_BG_SPILL", "1", 1);
	look();
	hakmem_free(hakmem_malloc(100));
	check();
	use_memory();
	set("HAKMEM_BG_SPILL", "1");
	set("HAKMEM_RETAIN", "4M");
	stop();
	set("HAKMEM_BG_SPILL", "1");
	use_memory();
	if (!WATCHED)
		in_fork();
	for (int i = 0; i < 3; i++) {
		stop();
		set("HAKMEM_BG_SPILL", "1");
	}
	report->calls = threads.calls;
	threads.first = threads.last = UINT_MAX;
	set("HAKMEM_BG_SPILL", "1");
	if (there() != 1)
		wrong("nobody tries again");
	use_memory();
	(void)unused;
	return 0;
}

/* A line for each refusal, and nothing else. */
static int is_told(const char *text)
{
	char line[80];
	size_t length = (size_t)snprintf(line, sizeof line, LINE "%d\n",
		threads.error);
	unsigned lines = 0;

	while (strncmp(text, line, length) == 0) {
		text += length;
		lines++;
	}
	REQUIRE(*text == '\0' && lines == report->refusals,
		"%u refusals, %u lines and %s", report->refusals, lines, text);
	return 1;
}

/* Every n, and how many there are; 0 after a failure. */
static unsigned refuse_each(unsigned length, int error)
{
	unsigned refusals = 0;

	threads.error = error;
	for (unsigned n = 1; n < POINTS_MAX; n++) {
		struct outcome o;

		memset(report, 0, sizeof *report);
		threads.first = n;
		threads.last = length < UINT_MAX ? n + length - 1
						 : UINT_MAX - 1;
		o = in_child(program, NULL, LIMIT);
		if (o.hung || o.signal || o.status || !is_told(o.text)) {
			diag("creation %u: signal %d status %d %s", n,
				o.signal, o.status, o.text);
			return 0;
		}
		refusals += report->refusals;
		if (report->calls < n)
			return refusals >= n - 1 ? n - 1 : 0;
	}
	return 0;
}

static void *asks_again_and_again(void *unused)
{
	for (int i = 0; i < 100; i++)
		hakmem_option_set("HAKMEM_BG_SPILL", i % 2 ? "0" : "1");
	return unused;
}

/* Many who ask at once, while every creation but the last one fails. */
static int all_at_once(void *unused)
{
	pthread_t asking[4];

	threads.first = 1;
	threads.last = UINT_MAX - 1;
	for (int i = 0; i < 4; i++)
		if (__real_pthread_create(&asking[i], NULL,
			    asks_again_and_again, NULL) != 0)
			return 2;
	for (int i = 0; i < 4; i++)
		pthread_join(asking[i], NULL);
	if (there() != 0 || threads.calls == 0)
		return 3;
	threads.first = threads.last = UINT_MAX;
	set("HAKMEM_BG_SPILL", "1");
	stop();
	(void)unused;
	return 0;
}

static void *ends_later(void *unused)
{
	sleep_ms(100);
	return unused;
}

/* Nobody waits for a thread that is not there. */
static int main_ends_first(void *unused)
{
	pthread_t other;

	threads.first = 1;
	threads.last = UINT_MAX - 1;
	set("HAKMEM_BG_SPILL", "1");
	if (there() != 0 ||
		__real_pthread_create(&other, NULL, ends_later, NULL) != 0)
		return 2;
	(void)unused;
	pthread_exit(NULL);
}

int main(void)
{
	struct outcome o;
	unsigned n;

	report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		bail("no shared page");
	plan(6);
	n = refuse_each(1, EAGAIN);
	ok(n > 1, "one of %u creations fails", n);
	n = refuse_each(UINT_MAX, EAGAIN);
	ok(n > 1, "all from one of %u on fail", n);
	n = refuse_each(2, EINVAL);
	ok(n > 1, "one of %u fails with any stack", n);
	threads.error = EINVAL;
	threads.first = threads.last = 1;
	memset(report, 0, sizeof *report);
	o = in_child(program, NULL, LIMIT);
	ok(!o.hung && !o.signal && !o.status && !*o.text &&
			report->refusals == 0,
		"a stack that is too small is taken larger %s", o.text);
	threads.error = EAGAIN;
	o = in_child(all_at_once, NULL, LIMIT);
	ok(!o.hung && !o.signal && !o.status && strstr(o.text, LINE "11\n"),
		"many ask at once: signal %d status %d", o.signal, o.status);
	if (WATCHED) {
		skip(1, "a sanitizer's own thread stays");
		return done();
	}
	o = in_child(main_ends_first, NULL, LIMIT);
	ok(!o.hung && !o.signal && !o.status && !strcmp(o.text, LINE "11\n"),
		"the process ends with its last thread %s", o.text);
	return done();
}
