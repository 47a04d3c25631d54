/*
 * Finds hakmem's own files: seen from this program while it runs from its
 * build tree, else under the configured directories, moved along with the
 * program if that was moved.
 */
#include <config.h>

#include "place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The directory of this program, without a slash at its end; "" if unknown. */
static void own_directory(char directory[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);
	char *slash;

	directory[n > 0 ? n : 0] = '\0';
	slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
}

/* 1 if directory/between/name is there, with its path in `file`. */
static int is_in(const char *directory, const char *between, const char *name,
	char file[PATH_MAX])
{
	int n = snprintf(file, PATH_MAX, "%s%s/%s", directory, between, name);

	return n < PATH_MAX && access(file, R_OK) == 0;
}

int hak_place_find_built(
	const char *const *directories, const char *name, char file[PATH_MAX])
{
	char own[PATH_MAX];

	own_directory(own);
	for (; *own && *directories; directories++)
		if (is_in(own, *directories, name, file))
			return 1;
	return 0;
}

/* The prefix that bindir is seen to have; 0 if this program is not in one. */
static int moved_prefix(char moved[PATH_MAX])
{
	const char *bin = &BINDIR[sizeof(PREFIX) - 1]; /* "/bin" */
	size_t length;

	own_directory(moved);
	length = strlen(moved);
	if (strcmp(moved, BINDIR) == 0 ||
		strncmp(BINDIR, PREFIX, sizeof(PREFIX) - 1) != 0 ||
		length <= strlen(bin) ||
		strcmp(moved + length - strlen(bin), bin) != 0)
		return 0;
	moved[length - strlen(bin)] = '\0';
	return 1;
}

int hak_place_find_installed(
	const char *directory, const char *name, char file[PATH_MAX])
{
	size_t prefix = sizeof(PREFIX) - 1;
	char moved[PATH_MAX];

	if (strncmp(directory, PREFIX, prefix) == 0 && moved_prefix(moved) &&
		is_in(moved, directory + prefix, name, file))
		return 1;
	return is_in(directory, "", name, file);
}
