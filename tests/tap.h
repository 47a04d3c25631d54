/*
 * A test harness for allocators: TAP lines on standard output, each written
 * by one write(2) from a stack buffer. It never allocates, so that a crash of
 * the malloc under test leaves the report of all cases before it, and so that
 * counting blocks or resident pages between cases counts only the test's own.
 *
 *	int main(void)
 *	{
 *		plan(2);
 *		ok(1 + 1 == 2, "one and one");
 *		is_size(strlen("abc"), 3, "length of %s", "abc");
 *		return done();
 *	}
 *
 * Cases are numbered from one thread. A test that hangs is killed by SIGALRM.
 * Usable from C11 and C++.
 */
#ifndef TAP_H
#define TAP_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after which a hanging test is killed. */
#ifndef TAP_TIMEOUT
#define TAP_TIMEOUT 300
#endif

#define TAP_UNUSED __attribute__((unused))
#define TAP_FORMAT(n) __attribute__((unused, format(printf, n, n + 1)))

static struct {
	unsigned planned;
	unsigned run;
	unsigned failed;
} tap_counts;

TAP_UNUSED static void tap_write(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, text, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(99);
		text += n;
		length -= (size_t)n;
	}
}

/* One line: prefix, formatted text with line breaks blanked, newline. */
TAP_UNUSED static void tap_vline(const char *prefix, const char *format,
	va_list args)
{
	char line[1024];
	int saved = errno;
	size_t at = (size_t)snprintf(line, sizeof line, "%s", prefix);

	vsnprintf(line + at, sizeof line - at - 1, format, args);
	for (char *c = line; *c; c++)
		if (*c == '\n')
			*c = ' ';
	at = strlen(line);
	line[at++] = '\n';
	tap_write(STDOUT_FILENO, line, at);
	errno = saved;
}

TAP_FORMAT(2) static void tap_line(const char *prefix, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tap_vline(prefix, format, args);
	va_end(args);
}

/* The number of cases to come; call it first. */
TAP_UNUSED static void plan(unsigned cases)
{
	alarm(TAP_TIMEOUT);
	tap_counts.planned = cases;
	tap_line("", "1..%u", cases);
}

/* What main returns. A wrong number of cases is a failure of its own. */
TAP_UNUSED static int done(void)
{
	if (tap_counts.run != tap_counts.planned)
		tap_line("# ", "%u cases were planned and %u ran",
			tap_counts.planned, tap_counts.run);
	return tap_counts.failed || tap_counts.run != tap_counts.planned;
}

/* Instead of plan: leave out the whole program. */
__attribute__((unused, noreturn, format(printf, 1, 2)))
static void skip_all(const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	tap_vline("1..0 # SKIP ", reason, args);
	va_end(args);
	exit(0);
}

/* Something outside of what is tested makes going on pointless. */
__attribute__((unused, noreturn, format(printf, 1, 2)))
static void bail(const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	tap_vline("Bail out! ", reason, args);
	va_end(args);
	_exit(99);
}

TAP_FORMAT(1) static void diag(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tap_vline("# ", format, args);
	va_end(args);
}

TAP_UNUSED static int tap_case(int passed, const char *format, va_list args)
{
	char prefix[32];

	tap_counts.run++;
	if (!passed)
		tap_counts.failed++;
	snprintf(prefix, sizeof prefix, "%s %u - ", passed ? "ok" : "not ok",
		tap_counts.run);
	tap_vline(prefix, format, args);
	return passed;
}

/* One case. Returns whether it passed. */
TAP_FORMAT(2) static int ok(int passed, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	tap_case(passed, name, args);
	va_end(args);
	return passed;
}

/* Comparisons say what they got and what they wanted. */
TAP_FORMAT(3)
static int is_int(long long got, long long want, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	tap_case(got == want, name, args);
	va_end(args);
	if (got != want)
		diag("got %lld, want %lld", got, want);
	return got == want;
}

TAP_FORMAT(3) static int is_size(size_t got, size_t want, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	tap_case(got == want, name, args);
	va_end(args);
	if (got != want)
		diag("got %zu, want %zu", got, want);
	return got == want;
}

TAP_FORMAT(3)
static int is_ptr(const void *got, const void *want, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	tap_case(got == want, name, args);
	va_end(args);
	if (got != want)
		diag("got %p, want %p", got, want);
	return got == want;
}

TAP_FORMAT(3)
static int is_str(const char *got, const char *want, const char *name, ...)
{
	int same = got && want ? strcmp(got, want) == 0 : got == want;
	va_list args;

	va_start(args, name);
	tap_case(same, name, args);
	va_end(args);
	if (!same)
		diag("got '%s', want '%s'", got ? got : "(null)",
			want ? want : "(null)");
	return same;
}

/* Count cases as left out. */
TAP_UNUSED static void skip(unsigned cases, const char *reason)
{
	while (cases--)
		tap_line("", "ok %u # SKIP %s", ++tap_counts.run, reason);
}

/* --- Children: for what ends a process ---------------------------------- */

TAP_UNUSED static void tap_child_start(void (*fn)(void), int in, int out)
{
	struct rlimit no_core = {0, 0};

	close(in);
	if (dup2(out, STDERR_FILENO) < 0)
		_exit(99);
	close(out);
	setrlimit(RLIMIT_CORE, &no_core);
	alarm(TAP_TIMEOUT);
	fn();
	_exit(0);
}

/* Read until end of file, keeping what fits, and end it with a NUL. */
TAP_UNUSED static void tap_drain(int fd, char *text, size_t room)
{
	char rest[256];
	size_t used = 0;

	for (;;) {
		int full = used + 1 >= room;
		ssize_t n = full ? read(fd, rest, sizeof rest)
				 : read(fd, text + used, room - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (!full)
			used += (size_t)n;
	}
	if (room > 0)
		text[used] = '\0';
}

/* An emulator tells the child's fatal signal on the child's standard error:
 * that is no word of the child's. */
TAP_UNUSED static void tap_drop_emulator(char *text)
{
	char *line = strstr(text, "qemu: uncaught target signal");

	if (line && (line == text || line[-1] == '\n'))
		*line = '\0';
}

/*
 * Run fn in a child and wait for it. *status is as waitpid gives it (0 if fn
 * returned), errors receives what the child wrote to standard error, cut to
 * room - 1 bytes. Returns the signal that ended the child, or 0. The child
 * must print no case.
 */
TAP_UNUSED static int tap_child(void (*fn)(void), int *status, char *errors,
	size_t room)
{
	int ends[2];
	pid_t child;

	if (pipe(ends) != 0)
		bail("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		bail("fork: %s", strerror(errno));
	if (child == 0)
		tap_child_start(fn, ends[0], ends[1]);
	close(ends[1]);
	tap_drain(ends[0], errors, room);
	if (room > 0)
		tap_drop_emulator(errors);
	close(ends[0]);
	while (waitpid(child, status, 0) < 0)
		if (errno != EINTR)
			bail("waitpid: %s", strerror(errno));
	return WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
}

#endif
