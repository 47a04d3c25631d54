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

/* Counts inputs, in memory that the children of main() share. */
static unsigned *judged;

static void one_input(const uint8_t *data, size_t size)
{
	/* it is nowhere: see silence() */
	static char json[] = "--json=/dev/null", html[] = "--html=/dev/stdout";
	static char ab[] = "ab", replay[] = "--replay";
	/* the fewest that are enough for 64 columns */
	static char least[] = "--resamples=1260", alpha[] = "--alpha=50";
	char path[64],
		*argv[] = {ab, replay, path, json, html, least, alpha, NULL};
	int file = memfd_create("replay", MFD_CLOEXEC);

	silence();
	if (file < 0 || write(file, data, size) != (ssize_t)size)
		fuzz_wrong("no file: %s", strerror(errno));
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	optind = 0;
	if (setjmp(refused) == 0) {
		hak_ab_main(7, argv);
		if (judged)
			++*judged;
	}
	close(file);
}

#if !FUZZ_LIBFUZZER
int main(int argc, char **argv)
{
	int status;

	judged = mmap(NULL, sizeof *judged, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (judged == MAP_FAILED)
		fuzz_wrong("no memory to share: %s", strerror(errno));
	status = fuzz_main(argc, argv, "replay", 150, NULL);
	if (*judged < 5)
		fuzz_wrong("of the corpus and its mutants %u were judged",
			*judged);
	return status;
}
#endif
