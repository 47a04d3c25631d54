/*
 * Any bytes as recorded runs: hakmem ab --replay refuses them with one line,
 * or judges and reports them.
 */
#include <config.h>

#include "fuzz-main.h"

#include <getopt.h>
#include <sys/mman.h>

#include "../bench/lab/lab.h"
#include "../bench/lab/library.h"
#include "fuzz-command.h"

const char *hak_command_name = "ab";

/* Instead of those of command.c, which end the process. */
void hak_command_warn(const char *format, ...)
{
	(void)format;
}

void hak_command_bad_option(char *const *argv)
{
	fuzz_wrong("bad option before %s", argv[optind]);
}

void hak_command_flush(void)
{
	if (fflush(stdout) != 0)
		fuzz_wrong("standard output: %s", strerror(errno));
}

/* Nothing is run here. */
void hak_library_apply(struct side *side)
{
	fuzz_wrong("%s would be run", side->name);
}

/* The report for the terminal goes nowhere. */
static void silence(void)
{
	static bool silent;
	int nowhere;

	if (silent)
		return;
	nowhere = open("/dev/null", O_WRONLY);
	if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
		fuzz_wrong("/dev/null: %s", strerror(errno));
	close(nowhere);
	silent = true;
}

static void one_input(const uint8_t *data, size_t size)
{
	static char json[] = "--json=/dev/null", html[] = "--html=/dev/null";
	static char ab[] = "ab", replay[] = "--replay";
	static char least[] = "--resamples=1000";
	char path[64], *argv[] = {ab, replay, path, json, html, least, NULL};
	int file = memfd_create("replay", MFD_CLOEXEC);

	silence();
	if (file < 0 || write(file, data, size) != (ssize_t)size)
		fuzz_wrong("no file: %s", strerror(errno));
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	optind = 0;
	if (setjmp(refused) == 0)
		hak_ab_main(6, argv);
	close(file);
}

#if !FUZZ_LIBFUZZER
int main(int argc, char **argv)
{
	return fuzz_main(argc, argv, "replay", 150, NULL);
}
#endif
