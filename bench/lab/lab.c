/*
 * Messages and memory of the lab (see lab.h). A message is one line and one
 * write(2): "hakmem: <subcommand>: <what is wrong>: <value>".
 */
#include <config.h>

#include "lab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *hak_lab_command = "lab";

static void say(const char *form, va_list args)
{
	char line[1024];
	int n = snprintf(line, sizeof line, "hakmem: %s: ", hak_lab_command);
	int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, form, args);
	size_t length = (size_t)n + (size_t)(m > 0 ? m : 0);

	if (length > sizeof line - 2)
		length = sizeof line - 2;
	line[length] = '\n';
	if (write(STDERR_FILENO, line, length + 1) < 0)
		return; /* nobody is left to tell */
}

void hak_lab_warn(const char *form, ...)
{
	va_list args;

	va_start(args, form);
	say(form, args);
	va_end(args);
}

void hak_lab_fail(int status, const char *form, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, form);
	say(form, args);
	va_end(args);
	exit(status);
}

void *hak_lab_alloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		hak_lab_fail(
			LAB_FAILED, "out of memory: %zu bytes", count * size);
	return p;
}

void *hak_lab_grow(void *old, size_t count, size_t size)
{
	void *p = reallocarray(old, count, size);

	if (!p)
		hak_lab_fail(
			LAB_FAILED, "out of memory: %zu bytes", count * size);
	return p;
}

char *hak_lab_copy(const char *text)
{
	return hak_lab_print("%s", text);
}

char *hak_lab_print(const char *form, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, form);
	n = vasprintf(&text, form, args);
	va_end(args);
	if (n < 0)
		hak_lab_fail(LAB_FAILED, "out of memory");
	return text;
}
