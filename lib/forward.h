/*
 * forward.h: one heap when both libraries are in a process.
 *
 * Ordinary look-ups of hakmem_* bind to the preload library.  Where they do
 * not (RTLD_DEEPBIND, dlsym on the other library's handle), libhakmem finds
 * the preload library's entry points through a weak reference and passes
 * every call on.
 */
#ifndef HAK_FORWARD_H
#define HAK_FORWARD_H

#include "base.h"

struct hak_entry_points {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void (*free)(void *);
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	size_t (*usable_size)(const void *);
	int (*trim)(size_t);
	void *(*heap_new)(void);
	void (*heap_destroy)(void *);
	void *(*heap_alloc)(void *, size_t, size_t);
	void *(*heap_calloc)(void *, size_t, size_t);
	void *(*heap_realloc)(void *, void *, size_t);
	int (*heap_stats)(void *, void *);
	int (*stats_get)(void *);
	int (*stats_get_bin)(unsigned, void *);
	int (*stats_print)(int, void (*)(void *, const char *), void *);
	int (*option_get)(const char *, char *, size_t);
	int (*option_set)(const char *, const char *);
};

/* The preload library's; NULL in a process without it, and in itself. */
extern const struct hak_entry_points *hak_forward;

/* Looked at on cold paths alone. */
HAK_INLINE bool hak_forwarding(void)
{
	return hak_forward != NULL;
}

#endif
