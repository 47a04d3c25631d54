/*
 * Where hakmem's own files are, in a build tree as well as installed.
 */
#ifndef HAK_PLACE_H
#define HAK_PLACE_H

#include <limits.h>

/*
 * A file that was built together with this very program: looked for in each
 * of the directories, named as seen from this program's own; NULL ends them.
 * 1 and its path, else 0.
 */
int hak_place_find_built(
	const char *const *directories, const char *name, char file[PATH_MAX]);
/*
 * A file of an installed directory. Where this program is not in its bindir,
 * the tree was installed with DESTDIR or moved, and the directory is where it
 * is seen from there.
 */
int hak_place_find_installed(
	const char *directory, const char *name, char file[PATH_MAX]);

#endif
