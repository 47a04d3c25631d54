/*
 * origin.h: who called: return addresses by frame pointers, and their names.
 *
 * No unwinder: one takes the loader's locks and may allocate.  The immediate
 * caller is always right; what stands behind it only where the program was
 * built with frame pointers, and only on the stack that the thread was
 * started on.
 */
#ifndef HAK_ORIGIN_H
#define HAK_ORIGIN_H

#include "base.h"
#include "message.h"

#define ORIGIN_FRAMES 6

struct hak_origin {
	/* Return addresses, innermost first; NULL after the last. */
	const void *frame[ORIGIN_FRAMES];
};

/* The ends of a thread's stack; 0 where they are not known. */
struct hak_stack_range {
	uintptr_t low, high;
};

/* Of this thread, from the process's map. */
struct hak_stack_range hak_origin_stack(void);

/* Where the function that says HAK_CALLER will return to, and the frame of
 * whoever called it. */
struct hak_caller {
	const void *address;
	const void *frame;
};

#if defined(__x86_64__) || defined(__aarch64__)
#define HAK_CALLER                                                             \
	(struct hak_caller)                                                    \
	{                                                                      \
		__builtin_return_address(0),                                   \
			*(const void **)__builtin_frame_address(0)             \
	}
#else
#define HAK_CALLER                                                             \
	(struct hak_caller) { __builtin_return_address(0), NULL }
#endif

/* The caller and those behind it. */
struct hak_origin hak_origin_walk(struct hak_caller caller,
	struct hak_stack_range stack);

/* " file+0xoffset" for each: what addr2line -e FILE takes.  Reads the
 * process's map: for messages alone. */
void hak_origin_add(struct hak_text *text, const struct hak_origin *origin);

#endif
