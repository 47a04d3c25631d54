/*
 * quarantine.h: checked mode's freed blocks go back to the pools.
 *
 * Each is looked at once more then.  No lock may be held.
 */
#ifndef HAK_QUARANTINE_H
#define HAK_QUARANTINE_H

#include "records.h"

/* Down to HAKMEM_CHECK_QUARANTINE. */
void hak_quarantine_trim(void);
/* All of them, for want of memory; false when that gave nothing back. */
bool hak_quarantine_empty(void);
/* Forget the blocks of a heap that is about to be destroyed, in it and out. */
void hak_quarantine_forget(const struct locked_heap *heap);

#endif
