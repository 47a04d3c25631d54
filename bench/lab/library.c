/*
 * Which library a side preloads: known allocators by name, others by path.
 *
 * A comparison in which the loader ignores the library is worse than none, so
 * each side's library is tried in its program before the first run, by the
 * same code as for `hakmem run`. What the program starts in its turn cannot be
 * tried; the loader's complaint about it is looked for after each run.
 */
#include <config.h>

#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"
#include "preload.h"

const struct allocator hak_library_known[] = {
	{"glibc", {NULL}},
	{"hakmem", {"libhakmem-preload.so.1"}},
	{"mimalloc", {"libmimalloc.so.3", "libmimalloc.so.2"}},
	{"jemalloc", {"libjemalloc.so.2"}},
	{"tcmalloc", {"libtcmalloc_minimal.so.4"}},
};

const size_t hak_library_known_count =
	sizeof hak_library_known / sizeof *hak_library_known;

static char *file_in(const char *directory, const char *name)
{
	char *path = hak_lab_print("%s/%s", directory, name);

	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* The directory of the C library, which is that of the distribution's. */
static char *find_beside_libc(const char *soname)
{
	char *directory, *path;
	Dl_info info;

	if (!dladdr((void *)fopen, &info) || !strchr(info.dli_fname, '/'))
		return NULL;
	directory = hak_lab_print("%.*s",
		(int)(strrchr(info.dli_fname, '/') - info.dli_fname),
		info.dli_fname);
	path = file_in(directory, soname);
	free(directory);
	return path;
}

static char *find_library(const char *soname)
{
	static const char *const usual[] = {
		"/usr/local/lib", "/usr/lib64", "/usr/lib"};
	char *path = NULL;

	for (size_t i = 0; !path && i < sizeof usual / sizeof *usual; i++)
		path = file_in(usual[i], soname);
	return path ? path : find_beside_libc(soname);
}

char *hak_library_find(const struct allocator *a)
{
	char *path = NULL;

	for (size_t i = 0; !path && a->soname[i]; i++)
		path = find_library(a->soname[i]);
	return path;
}

static const struct allocator *known(const char *name)
{
	for (size_t i = 0; i < hak_library_known_count; i++)
		if (strcmp(hak_library_known[i].name, name) == 0)
			return &hak_library_known[i];
	return NULL;
}

/* What hak_preload_set() wants: a path, or NULL for hakmem's own. */
static char *resolve(const struct side *s)
{
	const struct allocator *a = known(s->library);
	char *path;

	if (a && strcmp(a->name, "hakmem") == 0)
		return NULL;
	if (!*s->library)
		hak_command_fail(
			STATUS_FAILED, "%s: names no library", s->name);
	/* a bare name would be looked up by the loader, a file is meant */
	path = a ? hak_library_find(a) : realpath(s->library, NULL);
	if (!path)
		hak_command_fail(STATUS_FAILED, "%s: library not found: %s",
			s->name, a ? a->soname[0] : s->library);
	return path;
}

static void examine(const struct side *s, struct target *target)
{
	char path[PATH_MAX];
	int error = hak_target_find(s->argv[0], path);
	const char *reason;

	if (error == ENOENT || error == ENOTDIR)
		hak_command_fail(STATUS_NOT_FOUND, "%s: program not found: %s",
			s->name, s->argv[0]);
	if (error)
		hak_command_fail(STATUS_CANNOT_RUN,
			"%s: cannot execute: %s: %s", s->name, s->argv[0],
			strerror(error));
	reason = hak_target_examine(path, target);
	if (reason)
		hak_command_fail(STATUS_FAILED,
			"%s: no library can be "
			"preloaded: %s: %s",
			s->name, path, reason);
}

void hak_library_apply(struct side *s)
{
	const struct allocator *a = s->library ? known(s->library) : NULL;
	struct target target;
	char *path, *assignment;

	if (!s->library || (a && !a->soname[0]))
		return;
	examine(s, &target);
	path = resolve(s);
	/* it works on this process's own variable, which no run inherits */
	unsetenv("LD_PRELOAD");
	hak_preload_set(&target, path);
	assignment = hak_lab_print("LD_PRELOAD=%s", getenv("LD_PRELOAD"));
	unsetenv("LD_PRELOAD");
	hak_side_assign(s, assignment);
	free(assignment);
	free(path);
}
