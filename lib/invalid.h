/* invalid.h: what happens to a pointer that cannot be freed. */
#ifndef HAK_INVALID_H
#define HAK_INVALID_H

/* Abort, warn or do nothing, as HAKMEM_INVALID_FREE says; no lock is held. */
void hak_invalid_block(const char *function, const char *what,
	const void *block);

#endif
