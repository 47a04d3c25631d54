#ifndef HAK_LAB_LIBRARY_H
#define HAK_LAB_LIBRARY_H

#include "side.h"

/* An allocator that is known by name. */
struct allocator {
	const char *name;
	/* SONAMEs, the best first; none: the C library's own malloc */
	const char *soname[4];
};

extern const struct allocator hak_library_known[];
extern const size_t hak_library_known_count;

/* The path of a known allocator's library, or NULL; to be freed. */
char *hak_library_find(const struct allocator *a);
/*
 * Makes the side preload what its `library` says, a known name or a path,
 * after the loader of its program has loaded it. Ends the command otherwise.
 */
void hak_library_apply(struct side *s);

#endif
