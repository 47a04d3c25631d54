/* invalid.h: what happens to a pointer that cannot be freed. */
#ifndef HAK_INVALID_H
#define HAK_INVALID_H

#include <stdbool.h>

/* Abort, warn or do nothing, as HAKMEM_INVALID_FREE says; no lock is held. */
void hak_invalid_block(const char *function, const char *what,
	const void *block);

/* The same in two steps, with room for further lines between them: whether
 * the first one was printed, and what follows the last. */
bool hak_invalid_begin(const char *function, const char *what,
	const void *block);
void hak_invalid_end(void);

#endif
