/*
 * The program behind a command: which file it is, which loader starts it and
 * whether that loader will preload a library.
 */
#ifndef HAK_TARGET_H
#define HAK_TARGET_H

#include <limits.h>

struct target {
	char path[PATH_MAX];   /* the ELF file; of a script, its interpreter */
	char loader[PATH_MAX]; /* the dynamic loader that path asks for */
};

/*
 * The file that execvp(3) would run. 0 and its path, else the errno value
 * that tells why there is none.
 */
int hak_target_find(const char *command, char path[PATH_MAX]);
/*
 * Looks into the file, through #! lines, and fills the target. NULL, or why
 * nothing can be preloaded into it, in the words of a message.
 */
const char *hak_target_examine(const char *path, struct target *target);

#endif
