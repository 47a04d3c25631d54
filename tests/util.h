/*
 * What the test programs share beside TAP: process figures, clocks, a seeded
 * generator, patterns in blocks and children that are expected to die.
 *
 * Nothing here allocates: the figures would count it, and the allocator under
 * test may be broken.
 */
#ifndef HAKMEM_TESTS_UTIL_H
#define HAKMEM_TESTS_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

/* Under a sanitizer, which has threads, memory and calls of its own. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define WATCHED 1
#elif defined __has_feature
#define WATCHED                                                                \
	(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define WATCHED 0
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#ifndef KIB /* the library's own, for tests of its insides */
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#endif
#define GIB ((size_t)1 << 30)

/* For functions that return 1 when all is well: say what is not, give up. */
#define REQUIRE(cond, ...)                                                     \
	do {                                                                   \
		if (!(cond)) {                                                 \
			diag(__VA_ARGS__);                                     \
			return 0;                                              \
		}                                                              \
	} while (0)

static inline int is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0");
}

/* TEST_LONG=1 makes tests longer, TEST_SHORT=1 shorter than they are. */
static inline unsigned rounds(unsigned ordinary, unsigned factor)
{
	if (is_set("TEST_LONG"))
		return ordinary * factor;
	return is_set("TEST_SHORT") ? ordinary / 4 + 1 : ordinary;
}

/* Column 0: address space, 1: resident; in KiB. */
static inline long statm_kib(int column)
{
	char text[128], *at = text;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	long pages = 0;

	if (fd >= 0)
		close(fd);
	if (n < 1)
		return 0;
	text[n] = 0;
	for (int i = 0; i <= column; i++)
		pages = strtol(at, &at, 10);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static inline long vsz_kib(void)
{
	return statm_kib(0);
}

static inline long rss_kib(void)
{
	return statm_kib(1);
}

static inline double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double wall_seconds(void)
{
	return seconds(CLOCK_MONOTONIC);
}

static inline double cpu_seconds(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* xorshift32; a state of 0 would stay 0. */
static inline uint32_t rnd(uint32_t *state)
{
	uint32_t x = *state ? *state : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

static inline uint32_t below(uint32_t *state, uint32_t bound)
{
	return (uint32_t)((uint64_t)rnd(state) * bound >> 32);
}

/* TEST_SEED repeats a run; printed, or a failure could not be. */
static inline uint32_t test_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint32_t seed =
		given ? (uint32_t)strtoul(given, NULL, 0)
		      : (uint32_t)time(NULL) * 2654435761u ^ (uint32_t)getpid();

	diag("TEST_SEED=%u", seed);
	return seed;
}

/* A pattern in which every byte depends on its place and on the block. */
static inline unsigned char pattern_byte(size_t i, unsigned tag)
{
	return (unsigned char)(i * 29 + (i >> 8) * 5 + tag * 113 + 1);
}

static inline void pattern_fill(
	void *block, size_t from, size_t to, unsigned tag)
{
	unsigned char *p = (unsigned char *)block;

	for (size_t i = from; i < to; i++)
		p[i] = pattern_byte(i, tag);
}

/* The first damaged byte, or n. */
static inline size_t pattern_check(const void *block, size_t n, unsigned tag)
{
	const unsigned char *p = (const unsigned char *)block;

	for (size_t i = 0; i < n; i++)
		if (p[i] != pattern_byte(i, tag))
			return i;
	return n;
}

/* The first byte that is not zero, or n. */
static inline size_t first_dirty(const void *block, size_t n)
{
	static const unsigned char zero[4096] = {0};
	const unsigned char *p = (const unsigned char *)block;
	size_t i = 0;

	while (n - i >= sizeof zero && !memcmp(p + i, zero, sizeof zero))
		i += sizeof zero;
	while (i < n && !p[i])
		i++;
	return i;
}

/* How a child ended, and what it wrote to fd 2. */
struct outcome {
	int signal; /* 0: it ended by itself */
	int status; /* its exit status then */
	int hung;   /* it was killed at the deadline */
	char text[1024];
};

static inline void collect_text(int fd, double deadline, struct outcome *o)
{
	struct pollfd wait_for = {fd, POLLIN, 0};
	size_t used = 0;

	for (;;) {
		double left = deadline - wall_seconds();
		char chunk[256];
		ssize_t n;

		if (left <= 0 ||
			poll(&wait_for, 1, (int)(left * 1000) + 1) <= 0)
			break;
		n = read(fd, chunk, sizeof chunk);
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && used + 1 < sizeof o->text; i++)
			o->text[used++] = chunk[i];
	}
	o->text[used] = 0;
}

/*
 * Runs a function in a child with a deadline.  Descriptors of the child's own
 * children may keep the pipe open, so the end of the child is what counts.
 */
static inline struct outcome in_child(
	int (*body)(void *), void *arg, double limit)
{
	struct outcome o = {0, 0, 0, ""};
	double deadline = wall_seconds() + limit;
	int ends[2], status = 0;
	pid_t child;

	if (pipe(ends) || (child = fork()) < 0) {
		snprintf(o.text, sizeof(o.text), "no pipe or no child");
		o.status = 99;
		return o;
	}
	if (!child) {
		struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		_exit(body(arg));
	}
	close(ends[1]);
	collect_text(ends[0], deadline, &o);
	close(ends[0]);
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (wall_seconds() > deadline) {
			o.hung = 1;
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			break;
		}
		sleep_ms(1);
	}
	o.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	return o;
}

/* For a child that must end with status 0; 1 when it did. */
static inline int child_succeeds(
	int (*body)(void *), void *arg, double limit, const char *what)
{
	struct outcome o = in_child(body, arg, limit);

	if (!o.hung && !o.signal && !o.status)
		return 1;
	diag("%s: %s signal %d status %d %s", what, o.hung ? "hung," : "",
		o.signal, o.status, o.text);
	return 0;
}

#endif
