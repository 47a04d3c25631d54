/*
 * What every file of the lab may use: messages in the project's one form,
 * memory that is there or ends the command, and the exit statuses.
 */
#ifndef HAK_LAB_LAB_H
#define HAK_LAB_LAB_H

#include <stdbool.h>
#include <stddef.h>

enum lab_status {
	LAB_OK = 0,
	/* --gate: the verdict is the status, the best one being 0 */
	LAB_NEUTRAL = 1,
	LAB_INCONCLUSIVE = 2,
	LAB_NO_GO = 3,
	LAB_SIDE_FAILED = 124, /* crashed, timed out or ended in failure */
	LAB_FAILED = 125,      /* bad usage or a failure of the lab itself */
	LAB_NOT_EXECUTABLE = 126,
	LAB_NOT_FOUND = 127,
	LAB_INTERRUPTED = 130,
};

/* The subcommand that runs: the second word of every message. */
extern const char *hak_lab_command;

void hak_lab_warn(const char *form, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void hak_lab_fail(int status, const char *form, ...)
	__attribute__((format(printf, 2, 3)));

void *hak_lab_alloc(size_t count, size_t size); /* zeroed */
void *hak_lab_grow(void *old, size_t count, size_t size);
char *hak_lab_copy(const char *text);
char *hak_lab_print(const char *form, ...)
	__attribute__((format(printf, 1, 2)));

#endif
