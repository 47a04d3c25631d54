/*
 * For fuzzers of parts of the command: what would end the process with a line
 * goes back to one_input() instead, by longjmp(refused, 1).
 */
#ifndef FUZZ_COMMAND_H
#define FUZZ_COMMAND_H

#include "fuzz.h"

#include <setjmp.h>
#include <stdarg.h>

static jmp_buf refused;

/* Instead of that of command.c. */
void hak_command_fail(int status, const char *format, ...)
{
	char line[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n <= 0 || status != STATUS_FAILED)
		fuzz_wrong("status %d, %d bytes of a message", status, n);
	longjmp(refused, 1);
}

#endif
