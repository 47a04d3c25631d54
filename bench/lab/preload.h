/*
 * The library to preload: where it is, and whether a program's loader takes
 * it.
 */
#ifndef HAK_PRELOAD_H
#define HAK_PRELOAD_H

#include "target.h"

/*
 * Puts the library first into LD_PRELOAD, after having seen the target's own
 * loader load it. `library` is a path, a name for the loader to find, or NULL
 * for hakmem's own. Ends the process, saying why, if it cannot be done.
 */
void hak_preload_set(const struct target *target, const char *library);

#endif
