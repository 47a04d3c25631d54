/*
 * Messages: what a line looks like, that it is one write, that nothing of the
 * process changes by it, how many there are, and how a fatal one ends.
 */
#include "message.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "tap.h"

static char buffer[4096];
static struct hak_text text;

static const char *number(unsigned long value)
{
	hak_text_init(&text, buffer, sizeof buffer);
	hak_text_add_number(&text, value);
	return buffer;
}

static const char *hex(unsigned long value)
{
	hak_text_init(&text, buffer, sizeof buffer);
	hak_text_add_hex(&text, value);
	return buffer;
}

static const char *size(size_t value)
{
	hak_text_init(&text, buffer, sizeof buffer);
	hak_text_add_size(&text, value);
	return buffer;
}

static const char *foreign(const char *string, size_t most)
{
	hak_text_init(&text, buffer, sizeof buffer);
	hak_text_add_foreign(&text, string, most);
	return buffer;
}

static void test_builder(void)
{
	is_str(number(0), "0", "number: zero");
	is_str(number(1234567890), "1234567890", "number: every digit");
	is_str(number(ULONG_MAX), "18446744073709551615", "number: greatest");
	is_str(hex(0), "0x0", "hex: zero");
	is_str(hex(0x7f0123456789abcd), "0x7f0123456789abcd",
		"hex: every digit");
	is_str(size(0), "0", "size: zero");
	is_str(size(1023), "1023", "size: below a suffix");
	is_str(size(1024), "1K", "size: K");
	is_str(size(65537), "65537", "size: exact, not rounded");
	is_str(size(3UL << 20), "3M", "size: M");
	is_str(size(5UL << 40), "5120G", "size: G is the last suffix");
	is_str(foreign("a\tb\x1b[1mc\x7f\n", 99), "a?b?[1mc??",
		"foreign: control characters are shown as ?");
	is_str(foreign("gr\xc3\xbc\xc3\x9f"
		       "e",
		       99),
		"gr\xc3\xbc\xc3\x9f"
		"e",
		"foreign: other letters stay");
	is_str(foreign("abcdef", 6), "abcdef",
		"foreign: just as long as may be");
	is_str(foreign("abcdef", 5), "abcde...", "foreign: longer");
	is_str(foreign("", 5), "", "foreign: empty");
}

/* Every capacity: the text is cut, says so, ends in NUL and stays inside. */
static void test_cut(void)
{
	const char *whole = "ab123";
	int inside = 1, cut_right = 1, ended = 1;

	for (size_t capacity = 1; capacity <= 8; capacity++) {
		size_t fits = capacity > 5 ? 5 : capacity - 1;

		memset(buffer, '#', 16);
		hak_text_init(&text, buffer, capacity);
		hak_text_add(&text, "ab");
		hak_text_add_number(&text, 123);
		inside &= buffer[capacity] == '#';
		ended &= buffer[fits] == '\0' && text.length == fits;
		cut_right &= text.cut == (capacity < 6) &&
			     memcmp(buffer, whole, fits) == 0;
	}
	ok(inside, "builder: nothing is written beyond the buffer");
	ok(ended, "builder: the buffer always ends in NUL");
	ok(cut_right, "builder: what does not fit is left out and noted");
}

static void say_all(void)
{
	int kept = 1;

	errno = EDOM;
	hak_warn("free", "this is wrong");
	kept &= errno == EDOM;
	hak_warn_ptr("free", "double free", (void *)0x7f0000001000);
	kept &= errno == EDOM;
	hak_warn_num("start", "page size", 4096);
	kept &= errno == EDOM;
	hak_warn_text("options", "unknown variable", "HAKMEM_\n");
	kept &= errno == EDOM;
	if (!kept)
		_exit(1);
}

static void say_long(void)
{
	static char endless[2000];

	memset(endless, 'x', sizeof endless - 1);
	hak_warn("free", endless);
	hak_warn_text("free", "text", endless);
}

static void say_often(void)
{
	for (int i = 0; i < 40; i++)
		hak_warn_num("free", "number", (unsigned long)i);
}

static void say_often_then_die(void)
{
	say_often();
	hak_fatal("free", "last words");
}

static void *say_ten(void *unused)
{
	for (int i = 0; i < 10; i++)
		hak_warn_num("free", "of a thread", 12345678);
	return unused;
}

static void say_in_threads(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, say_ten, NULL) != 0)
			_exit(1);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void say_to_nobody(void)
{
	close(STDERR_FILENO);
	errno = EDOM;
	hak_warn("free", "unheard");
	_exit(errno == EDOM ? 0 : 1);
}

static void die(void)
{
	hak_fatal("free", "this is wrong");
}

static void die_ptr(void)
{
	hak_fatal_ptr("free", "double free", (void *)0x7f0000001000);
}

static void die_text(void)
{
	hak_fatal_text("options", "unknown variable", "HAKMEM_X");
}

static void die_ignoring(void)
{
	signal(SIGABRT, SIG_IGN);
	die();
}

static void come_back(int number)
{
	(void)number;
}

static void die_handling(void)
{
	signal(SIGABRT, come_back);
	die();
}

static void die_blocking(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	die();
}

static void is_said(
	void (*fn)(void), int signal, const char *said, const char *name)
{
	int status, got = tap_child(fn, &status, buffer, sizeof buffer);

	ok(got == signal && (signal || WEXITSTATUS(status) == 0),
		"%s: how the process ends", name);
	is_str(buffer, said, "%s: what is said", name);
}

static int lines(const char *string)
{
	int n = 0;

	while ((string = strchr(string, '\n'))) {
		n++;
		string++;
	}
	return n;
}

static void test_warnings(void)
{
	int status;

	is_said(say_all, 0,
		"hakmem: free: this is wrong\n"
		"hakmem: free: double free: 0x7f0000001000\n"
		"hakmem: start: page size: 4096\n"
		"hakmem: options: unknown variable: HAKMEM_?\n",
		"each kind, errno kept");

	tap_child(say_long, &status, buffer, sizeof buffer);
	is_int(lines(buffer), 2, "a long message ends in a newline");
	ok(strlen(buffer) < 640, "a long message is cut");
	ok(strstr(buffer, "x...\n") != NULL, "a long value ends in ...");

	tap_child(say_often, &status, buffer, sizeof buffer);
	is_int(lines(buffer), 17, "16 warnings and one more line");
	ok(strstr(buffer,
		   "number: 15\n"
		   "hakmem: warn: further messages are suppressed\n") != NULL,
		"the line after the 16th says that it was the last");

	tap_child(say_in_threads, &status, buffer, sizeof buffer);
	is_int(lines(buffer), 17, "8 threads: 16 warnings and one more line");
	is_said(say_to_nobody, 0, "", "standard error is closed");
}

static void test_fatal(void)
{
	const char *said = "hakmem: free: this is wrong\n";
	int status;

	is_said(die, SIGABRT, said, "fatal");
	is_said(die_ptr, SIGABRT, "hakmem: free: double free: 0x7f0000001000\n",
		"fatal, pointer");
	is_said(die_text, SIGABRT,
		"hakmem: options: unknown variable: HAKMEM_X\n", "fatal, text");
	is_said(die_ignoring, SIGABRT, said, "fatal, SIGABRT ignored");
	is_said(die_handling, SIGABRT, said, "fatal, SIGABRT handled");
	is_said(die_blocking, SIGABRT, said, "fatal, SIGABRT blocked");
	is_int(tap_child(say_often_then_die, &status, buffer, sizeof buffer),
		SIGABRT, "fatal after too many warnings: ends");
	is_int(lines(buffer), 18, "fatal after too many warnings: is said");
}

/* A seqpacket socket keeps the writes apart. */
static void test_one_write(void)
{
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t first, second;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
		bail("socketpair: %s", strerror(errno));
	dup2(ends[1], STDERR_FILENO);
	hak_warn_ptr("free", "double free", (void *)0x10);
	hak_warn("free", "this is wrong");
	dup2(saved, STDERR_FILENO);
	first = recv(ends[0], buffer, sizeof buffer, MSG_DONTWAIT);
	second = recv(ends[0], buffer, sizeof buffer, MSG_DONTWAIT);
	is_int(first, sizeof "hakmem: free: double free: 0x10\n" - 1,
		"one write holds one line");
	is_int(second, sizeof "hakmem: free: this is wrong\n" - 1,
		"so does the next");
	close(ends[0]);
	close(ends[1]);
	close(saved);
}

static void test_write_fails(void)
{
	int full = open("/dev/full", O_WRONLY);

	hak_text_init(&text, buffer, sizeof buffer);
	hak_text_add(&text, "lost");
	errno = EDOM;
	is_int(hak_text_write(&text, full), -1, "a failing write is told");
	is_int(errno, EDOM, "and keeps errno");
	is_int(hak_text_write(&text, -1), -1, "so is a bad descriptor");
	close(full);
}

int main(void)
{
	plan(48);
	test_builder();
	test_cut();
	test_warnings();
	test_fatal();
	test_one_write();
	test_write_fails();
	return done();
}
