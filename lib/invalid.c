/*
 * invalid.c: the one place that decides about misuse.
 *
 * The default ends the process: a program that frees what it does not own has
 * lost track of its memory.  With "warn" and "ignore" the block is left alone.
 */
#include "invalid.h"

#include "base.h"
#include "message.h"
#include "options.h"

#include <stdlib.h>

void hak_invalid_block(const char *function, const char *what,
	const void *block)
{
	int policy = LOAD_RELAXED(&hak_options.invalid_free);

	if (policy == HAK_INVALID_FREE_ABORT)
		hak_fatal_ptr(function, what, block);
	if (policy == HAK_INVALID_FREE_WARN)
		hak_warn_ptr(function, what, block);
}

bool hak_invalid_begin(const char *function, const char *what,
	const void *block)
{
	int policy = LOAD_RELAXED(&hak_options.invalid_free);

	if (policy == HAK_INVALID_FREE_WARN)
		return hak_warn_ptr(function, what, block);
	if (policy == HAK_INVALID_FREE_ABORT)
		hak_say_ptr(function, what, block);
	return policy == HAK_INVALID_FREE_ABORT;
}

void hak_invalid_end(void)
{
	if (LOAD_RELAXED(&hak_options.invalid_free) == HAK_INVALID_FREE_ABORT)
		abort();
}

_Noreturn void hak_assert_failed(const char *function, const char *condition)
{
	hak_fatal_text(function, "assertion failed", condition);
}
