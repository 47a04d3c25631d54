/*
 * What every file of the lab may use: messages by command.h, memory that is
 * there or ends the command, and the exit statuses beside those of command.h.
 */
#ifndef HAK_LAB_LAB_H
#define HAK_LAB_LAB_H

#include <stdbool.h>
#include <stddef.h>

#include "command.h"

enum {
	STATUS_OK = 0,
	/* --gate: the verdict is the status, the best one being 0 */
	STATUS_NEUTRAL = 1,
	STATUS_INCONCLUSIVE = 2,
	STATUS_NO_GO = 3,
	STATUS_SIDE_FAILED = 124, /* crashed, timed out or ended in failure */
	STATUS_INTERRUPTED = 130,
};

void *hak_lab_alloc(size_t count, size_t size); /* zeroed */
void *hak_lab_grow(void *old, size_t count, size_t size);
void hak_lab_free_words(char **word, size_t count);
char *hak_lab_copy(const char *text);
char *hak_lab_print(const char *form, ...)
	__attribute__((format(printf, 1, 2)));

#endif
