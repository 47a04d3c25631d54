/*
 * The end of a thread: malloc and free work in every round of key
 * destructors, in cancellation handlers and when libc frees what it kept for
 * the thread; nothing of it is left, however many threads come and go.
 */
#include "under-preload.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#include "util.h"

#define ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS

static pthread_key_t key;
static void *last_words[4096];
static unsigned said;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say_last_words(void *block)
{
	pthread_mutex_lock(&lock);
	if (said < ARRAY_SIZE(last_words))
		last_words[said++] = block;
	else
		free(block);
	pthread_mutex_unlock(&lock);
}

struct note {
	int round;
	unsigned char *text;
};

static void *make_text(int round)
{
	size_t n = 500 + (size_t)round * 1000;
	unsigned char *text = malloc(n);

	if (!text)
		bail("malloc gave NULL in destructor round %d", round);
	pattern_fill(text, 0, n, (unsigned)round);
	return text;
}

/* Sets the key anew until the last round, whose blocks stay for main. */
static void destroy(void *value)
{
	struct note *note = value;
	int round = note->round;
	size_t n = 500 + (size_t)round * 1000;

	if (pattern_check(note->text, n, (unsigned)round) != n)
		bail("the note of round %d is damaged", round);
	for (size_t i = 1; i < 3000; i = i * 3 / 2 + 1)
		free(realloc(malloc(i), i * 2));
	free(note->text);
	free(note);
	if (round + 1 < ROUNDS) {
		note = malloc(sizeof *note);
		note->round = round + 1;
		note->text = make_text(round + 1);
		pthread_setspecific(key, note);
	} else {
		say_last_words(make_text(0));
	}
}

static void *thread_with_note(void *unused)
{
	struct note *note = malloc(sizeof *note);

	note->round = 0;
	note->text = make_text(0);
	pthread_setspecific(key, note);
	return unused;
}

static void run_thread(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, arg))
		bail("no thread: %s", strerror(errno));
	pthread_join(thread, NULL);
}

/* Every note reached its last round, and what was left is whole. */
static int all_rounds_allocate(void)
{
	unsigned threads = 100;

	said = 0;
	for (unsigned i = 0; i < threads; i++)
		run_thread(thread_with_note, NULL);
	REQUIRE(said == threads, "%u of %u threads got to their last round",
		said, threads);
	while (said) {
		void *text = last_words[--said];

		REQUIRE(pattern_check(text, 500, 0) == 500,
			"a dead thread's block is damaged");
		free(text);
	}
	return 1;
}

/* How much more memory many more threads of a kind make a process use. */
static long growth(void *(*body)(void *), unsigned threads)
{
	long before;

	for (unsigned i = 0; i < 100; i++)
		run_thread(body, NULL);
	while (said)
		free(last_words[--said]);
	before = rss_kib();
	for (unsigned i = 0; i < threads; i++) {
		run_thread(body, NULL);
		while (said)
			free(last_words[--said]);
	}
	return rss_kib() - before;
}

static void *busy_thread(void *unused)
{
	void *mine[300];

	for (size_t i = 0; i < ARRAY_SIZE(mine); i++) {
		mine[i] = malloc(i * 37 % 5000);
		if (!mine[i])
			bail("malloc gave NULL in a thread");
		memset(mine[i], 1, i * 37 % 5000);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mine); i++)
		free(mine[i]);
	return unused;
}

/* Its whole traffic with the allocator is one free. */
static void *freeing_thread(void *unused)
{
	void *block = NULL;

	pthread_mutex_lock(&lock);
	if (said)
		block = last_words[--said];
	pthread_mutex_unlock(&lock);
	free(block);
	return unused;
}

/* libc keeps these texts for the thread and frees them after everything. */
static void *thread_of_libc_blocks(void *unused)
{
	if (dlopen("/nonexistent/library.so", RTLD_NOW) || !dlerror())
		bail("a library that does not exist was opened");
	if (!strstr(strerror(99999), "99999"))
		bail("strerror gave %s", strerror(99999));
	return unused;
}

static void *leaver(void *unused)
{
	void *block = malloc(4000);

	pthread_exit(block);
	return unused;
}

static void *thread_with_leaver(void *unused)
{
	pthread_t thread;
	void *block;

	pthread_create(&thread, NULL, leaver, NULL);
	pthread_join(thread, &block);
	memset(block, 1, 4000);
	free(block);
	return unused;
}

static int does_not_grow(void *(*body)(void *), unsigned threads)
{
	long kib = growth(body, threads);

	/* A huge page may come in late, once; half a page of each of 1600
	 * threads would be more than that. */
	REQUIRE(kib < (threads < 1600 ? 1024 : 3072),
		"RSS grew by %ld KiB with %u threads", kib, threads);
	return 1;
}

static int frees_only(void)
{
	for (unsigned round = 0; round < rounds(2, 50); round++) {
		unsigned n = 200;

		while (said < n)
			say_last_words(malloc(1 + said * 50));
		while (n--)
			run_thread(freeing_thread, NULL);
		REQUIRE(said == 0, "%u blocks were not taken", said);
	}
	return does_not_grow(freeing_thread, rounds(400, 30));
}

static sem_t started;

static void free_on_cancel(void *block)
{
	free(realloc(block, 20000));
	free(malloc(100));
}

static void *cancelled(void *unused)
{
	char *block = malloc(10000);

	pthread_cleanup_push(free_on_cancel, block);
	sem_post(&started);
	for (;;) {
		free(malloc(600));
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return unused;
}

static void *canceller(void *unused)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, cancelled, NULL);
	sem_wait(&started);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		bail("a cancelled thread ended otherwise");
	return unused;
}

static void *detached(void *gone)
{
	busy_thread(NULL);
	sem_post(gone);
	return NULL;
}

static int detached_threads(void)
{
	pthread_attr_t attributes;
	sem_t gone;

	sem_init(&gone, 0, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, detached, &gone))
			bail("no thread: %s", strerror(errno));
		if (i >= 8)
			sem_wait(&gone);
	}
	for (int i = 0; i < 8; i++)
		sem_wait(&gone);
	return 1;
}

/* A destructor that starts a thread, which has destructors of its own. */
static pthread_key_t starting_key;

static void start_from_destructor(void *unused)
{
	(void)unused;
	run_thread(thread_with_note, NULL);
	free(malloc(50));
}

static void *thread_that_starts_late(void *unused)
{
	pthread_setspecific(starting_key, &starting_key);
	return unused;
}

static int threads_from_destructors(void)
{
	unsigned threads = 50;

	said = 0;
	for (unsigned i = 0; i < threads; i++)
		run_thread(thread_that_starts_late, NULL);
	REQUIRE(said == threads, "%u of %u threads of destructors ended", said,
		threads);
	while (said)
		free(last_words[--said]);
	return 1;
}

/* The main thread goes first; the process ends with the last thread. */
static void *outlives_main(void *unused)
{
	sleep_ms(20);
	busy_thread(NULL);
	_exit(23);
	return unused;
}

static int main_ends_first(void *unused)
{
	pthread_t thread;
	void *block = malloc(300);

	(void)unused;
	pthread_setspecific(key, NULL);
	pthread_create(&thread, NULL, outlives_main, NULL);
	free(block);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	struct outcome o;

	(void)argc;
	under_preload(argv);
	plan(10);
	pthread_key_create(&key, destroy);
	pthread_key_create(&starting_key, start_from_destructor);
	sem_init(&started, 0, 0);
	ok(all_rounds_allocate(), "all rounds of destructors can allocate");
	ok(does_not_grow(thread_with_note, rounds(400, 60)),
		"threads that allocate in them leave nothing");
	ok(does_not_grow(busy_thread, rounds(400, 60)),
		"threads that allocate and free leave nothing");
	ok(frees_only(), "threads that only free leave nothing");
	ok(does_not_grow(thread_of_libc_blocks, rounds(400, 60)),
		"libc's own blocks of a thread are freed after its end");
	ok(does_not_grow(thread_with_leaver, rounds(400, 30)),
		"blocks outlive the thread that pthread_exit ended");
	ok(does_not_grow(canceller, rounds(1600, 30)),
		"cancelled threads leave nothing");
	ok(detached_threads(), "detached threads");
	ok(threads_from_destructors(), "threads started by destructors");
	o = in_child(main_ends_first, NULL, 10);
	ok(!o.hung && !o.signal && o.status == 23,
		"the main thread may end first");
	return done();
}
