/*
 * Messages of the command (see command.h): one line, one write(2), no buffer
 * of stdio in between.
 */
#include <config.h>

#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *hak_command_name;

static void say(const char *format, va_list args)
{
	char line[1024];
	int room = sizeof(line) - 1; /* one byte is the newline's */
	int n = snprintf(line, (size_t)room, "hakmem: %s%s",
		hak_command_name ? hak_command_name : "",
		hak_command_name ? ": " : "");

	n += vsnprintf(line + n, (size_t)(room - n), format, args);
	if (n > room - 1)
		n = room - 1;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* there is nobody left to tell */
}

void hak_command_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

_Noreturn void hak_command_fail(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	exit(status);
}

/* getopt has passed a long option when it is told; of a short one it is sure.
 */
_Noreturn void hak_command_bad_option(char *const *argv)
{
	if (strncmp(argv[optind - 1], "--", 2) != 0)
		hak_command_fail(STATUS_FAILED, "bad option: -%c", optopt);
	hak_command_fail(STATUS_FAILED, "bad option: %s", argv[optind - 1]);
}

void hak_command_flush(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		hak_command_fail(
			STATUS_FAILED, "standard output: %s", strerror(errno));
}
