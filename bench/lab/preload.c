/*
 * The library to preload, found and tried.
 *
 * A loader that cannot preload says so and carries on, and the program runs
 * on the wrong malloc. So each candidate is tried first: the target's loader
 * is asked for the list of what it would load, with the environment that the
 * program will have. It maps the files and runs nothing of them, takes a few
 * milliseconds, and the answer is the loader's own: a check by a program of
 * ours would not see the target's library path, architecture or namespace.
 *
 * The bare name is preferred where the loader finds our file by it, since
 * then programs of another architecture that the command starts find theirs.
 */
#include <config.h>

#include "preload.h"

#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "place.h"

static const char soname[] = "libhakmem-preload.so.1";
static const char variable[] = "LD_PRELOAD";

/* What a loader said about one candidate. */
struct answer {
	int loaded;
	char file[PATH_MAX]; /* that was loaded */
	char reason[256];    /* why it was not */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/*
 * `library` and what LD_PRELOAD holds already, less other copies of hakmem: a
 * hakmem started by another must not load two. Nobody frees it: the process is
 * about to become another.
 */
static char *preload_list(const char *library)
{
	const char *old = getenv(variable);
	char *list = malloc(strlen(library) + (old ? strlen(old) : 0) + 2);
	char *end;

	if (!list)
		hak_command_fail(STATUS_FAILED, "out of memory");
	end = stpcpy(list, library);
	for (old = old ? old : ""; *old; old += strspn(old, ": ")) {
		size_t length = strcspn(old, ": ");
		char *entry = end + 1;

		*end = ':';
		memcpy(entry, old, length);
		entry[length] = '\0';
		if (length && strcmp(base_name(entry), soname) != 0 &&
			strcmp(entry, library) != 0)
			end = entry + length;
		*end = '\0';
		old += length;
	}
	return list;
}

/* In a child: the loader lists what it loads for the target, on `out`. */
static _Noreturn void run_loader(
	const struct target *target, const char *library, int out)
{
	/* what would make the loader do or say anything else */
	static const char *const unwanted[] = {"LD_DEBUG", "LD_DEBUG_OUTPUT",
		"LD_TRACE_LOADED_OBJECTS", "LD_BIND_NOW", "LD_WARN",
		"LD_VERBOSE", "LD_SHOW_AUXV", "LD_PROFILE"};
	char *list = preload_list(library);

	for (size_t i = 0; i < sizeof(unwanted) / sizeof(*unwanted); i++)
		unsetenv(unwanted[i]);
	if (setenv(variable, list, 1) == 0 && dup2(out, STDOUT_FILENO) >= 0 &&
		dup2(out, STDERR_FILENO) >= 0)
		execl(target->loader, target->loader, "--list", target->path,
			(char *)NULL);
	_exit(STATUS_FAILED);
}

/*
 * A line of the list is "\tNAME => FILE (ADDRESS)" or "\tFILE (ADDRESS)". The
 * complaint is "ERROR: ld.so: object 'NAME' from LD_PRELOAD cannot be
 * preloaded (REASON): ignored."
 */
static void read_line(char *line, const char *library, struct answer *answer)
{
	char *arrow = strstr(line, " => ");
	char *file = arrow ? arrow + 4 : line + 1;
	char *address = strrchr(line, '(');

	if (line[0] == '\t' && address > file) {
		address[-1] = '\0';
		if (arrow)
			*arrow = '\0';
		if (strcmp(line + 1, library) == 0) {
			answer->loaded = 1;
			snprintf(
				answer->file, sizeof(answer->file), "%s", file);
		}
	} else if (address && strstr(line, library) && strstr(line, variable)) {
		address[strcspn(address, ")")] = '\0';
		snprintf(answer->reason, sizeof(answer->reason), "%s",
			address + 1);
	}
}

static void read_answer(FILE *from, const char *library, struct answer *answer)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, from) > 0)
		read_line(line, library, answer);
	free(line);
}

static struct answer try(const struct target *target, const char *library)
{
	struct answer answer = {.reason = "its loader did not load it"};
	int ends[2], status;
	FILE *from;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0)
		hak_command_fail(STATUS_FAILED, "cannot start %s: %s",
			target->loader, strerror(errno));
	if (child == 0)
		run_loader(target, library, ends[1]);
	close(ends[1]);
	from = fdopen(ends[0], "r");
	if (!from)
		hak_command_fail(STATUS_FAILED, "out of memory");
	read_answer(from, library, &answer);
	fclose(from);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_FAILED)
		snprintf(answer.reason, sizeof(answer.reason),
			"its loader %.128s cannot be run", target->loader);
	return answer;
}

static void set(const char *library)
{
	if (setenv(variable, preload_list(library), 1) != 0)
		hak_command_fail(STATUS_FAILED, "out of memory");
}

static _Noreturn void fail(const struct target *target, const char *library,
	const struct answer *answer)
{
	hak_command_fail(STATUS_FAILED, "%s: cannot be preloaded into %s: %s",
		library, target->path, answer->reason);
}

static void try_and_set(const struct target *target, const char *library)
{
	struct answer answer;

	/* LD_PRELOAD has no way to quote them */
	if (strpbrk(library, ": "))
		hak_command_fail(STATUS_FAILED,
			"%s: a path with a space or colon cannot be preloaded",
			library);
	answer = try(target, library);
	if (!answer.loaded)
		fail(target, library, &answer);
	set(library);
}

static void set_own(const struct target *target)
{
	static const char *const built[] = {
		"/.libs", "/../.libs", "/../lib/.libs", NULL};
	char file[PATH_MAX], real[PATH_MAX];
	struct answer answer;
	int installed;

	if (hak_place_find_built(built, soname, file)) {
		try_and_set(target, realpath(file, real) ? real : file);
		return;
	}
	installed = hak_place_find_installed(LIBDIR, soname, file);
	answer = try(target, soname);
	if (answer.loaded && (!installed || is_same_file(answer.file, file)))
		set(soname);
	else if (installed)
		try_and_set(target, file);
	else
		fail(target, soname, &answer);
}

void hak_preload_set(const struct target *target, const char *library)
{
	char real[PATH_MAX];

	if (!library)
		set_own(target);
	else if (!strchr(library, '/'))
		try_and_set(target, library);
	else if (realpath(library, real))
		try_and_set(target, real);
	else
		hak_command_fail(
			STATUS_FAILED, "%s: %s", library, strerror(errno));
}
