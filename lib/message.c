/*
 * What hakmem has to say to a person: warnings and last words.
 *
 * It may be said from inside malloc, in a signal handler or in the child of a
 * fork, so nothing here allocates, takes a lock or uses stdio; a line is
 * built on the stack and goes out in one write.
 *
 * I1  errno is the same after every function as before it.
 * I2  A line ends in a newline even if the text before it was cut.
 * I3  The only state is the count of warnings.
 *
 * Anybody may call it, at any time.
 */
#include "message.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	FOREIGN_BYTES = 160, /* most of a text we did not write ourselves */
	WARNINGS = 16,	     /* a process */
};

static atomic_uint warnings; /* relaxed: a few more or less do no harm */

void hak_text_init(struct hak_text *text, char *buffer, size_t bytes)
{
	*text = (struct hak_text){.buffer = buffer, .capacity = bytes};
	buffer[0] = '\0';
}

static void add_char(struct hak_text *text, char c)
{
	if (text->length + 1 >= text->capacity) {
		text->cut = 1;
		return;
	}
	text->buffer[text->length++] = c;
	text->buffer[text->length] = '\0';
}

void hak_text_add(struct hak_text *text, const char *string)
{
	while (*string)
		add_char(text, *string++);
}

/* Bytes above 126 stay: they are letters in the user's language. */
static int is_control(char c)
{
	unsigned char byte = (unsigned char)c;

	return byte < ' ' || byte == 127;
}

void hak_text_add_bytes(struct hak_text *text, const char *bytes, size_t length)
{
	for (; length; length--, bytes++)
		add_char(text, is_control(*bytes) ? '?' : *bytes);
}

void hak_text_add_foreign(
	struct hak_text *text, const char *string, size_t most)
{
	size_t length = strnlen(string, most);

	hak_text_add_bytes(text, string, length);
	if (length == most && string[most])
		hak_text_add(text, "...");
}

static void add_digits(
	struct hak_text *text, unsigned long value, unsigned int base)
{
	char digits[24];
	size_t n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (n)
		add_char(text, digits[--n]);
}

void hak_text_add_number(struct hak_text *text, unsigned long value)
{
	add_digits(text, value, 10);
}

void hak_text_add_hex(struct hak_text *text, unsigned long value)
{
	hak_text_add(text, "0x");
	add_digits(text, value, 16);
}

void hak_text_add_size(struct hak_text *text, size_t bytes)
{
	const char *suffix = "\0KMG";

	while (bytes && bytes % 1024 == 0 && *suffix != 'G') {
		bytes /= 1024;
		suffix++;
	}
	hak_text_add_number(text, bytes);
	if (*suffix)
		add_char(text, *suffix);
}

/* syscall(2), because write(2) is a cancellation point. */
int hak_text_write(const struct hak_text *text, int fd)
{
	int saved_errno = errno, status = 0;
	size_t done = 0;

	while (done < text->length && status == 0) {
		long n = syscall(SYS_write, fd, text->buffer + done,
			text->length - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			status = -1;
	}
	errno = saved_errno;
	return status;
}

void hak_line_begin(struct hak_text *text, char *buffer, const char *function,
	const char *what)
{
	/* one byte is kept back for the newline */
	hak_text_init(text, buffer, HAK_LINE_BYTES - 1);
	hak_text_add(text, "hakmem: ");
	hak_text_add(text, function);
	hak_text_add(text, ": ");
	hak_text_add(text, what);
}

void hak_line_end(struct hak_text *text)
{
	text->capacity++;
	add_char(text, '\n');
	hak_text_write(text, STDERR_FILENO);
}

static int may_warn(void)
{
	unsigned int before;

	if (atomic_load_explicit(&warnings, memory_order_relaxed) > WARNINGS)
		return 0;
	before = atomic_fetch_add_explicit(&warnings, 1, memory_order_relaxed);
	if (before == WARNINGS) {
		char buffer[HAK_LINE_BYTES];
		struct hak_text text;

		hak_line_begin(&text, buffer, "warn",
			"further messages are suppressed");
		hak_line_end(&text);
	}
	return before < WARNINGS;
}

static void say(const char *function, const char *what)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text text;

	hak_line_begin(&text, buffer, function, what);
	hak_line_end(&text);
}

void hak_say_ptr(const char *function, const char *what, const void *pointer)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text text;

	hak_line_begin(&text, buffer, function, what);
	hak_text_add(&text, ": ");
	hak_text_add_hex(&text, (uintptr_t)pointer);
	hak_line_end(&text);
}

static void say_num(const char *function, const char *what, unsigned long value)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text text;

	hak_line_begin(&text, buffer, function, what);
	hak_text_add(&text, ": ");
	hak_text_add_number(&text, value);
	hak_line_end(&text);
}

static void say_text(const char *function, const char *what, const char *value)
{
	char buffer[HAK_LINE_BYTES];
	struct hak_text text;

	hak_line_begin(&text, buffer, function, what);
	hak_text_add(&text, ": ");
	hak_text_add_foreign(&text, value, FOREIGN_BYTES);
	hak_line_end(&text);
}

void hak_warn(const char *function, const char *what)
{
	if (may_warn())
		say(function, what);
}

int hak_warn_ptr(const char *function, const char *what, const void *pointer)
{
	if (!may_warn())
		return 0;
	hak_say_ptr(function, what, pointer);
	return 1;
}

void hak_warn_num(const char *function, const char *what, unsigned long value)
{
	if (may_warn())
		say_num(function, what, value);
}

void hak_warn_text(const char *function, const char *what, const char *text)
{
	if (may_warn())
		say_text(function, what, text);
}

_Noreturn void hak_fatal(const char *function, const char *what)
{
	say(function, what);
	abort();
}

_Noreturn void hak_fatal_ptr(
	const char *function, const char *what, const void *pointer)
{
	hak_say_ptr(function, what, pointer);
	abort();
}

_Noreturn void hak_fatal_text(
	const char *function, const char *what, const char *text)
{
	say_text(function, what, text);
	abort();
}
