/* limit.h: HAKMEM_LIMIT: how much memory a process may have from hakmem. */
#ifndef HAK_LIMIT_H
#define HAK_LIMIT_H

#include "base.h"

/* Whether so many bytes more may be handed out.  Retained memory gives way,
 * so that a limit is not eaten up by what waits for reuse.  Until it is settled
 * the claim counts, so that two threads are not both granted what is there but
 * once.  No lock of rank RANK_ARENA or above may be held. */
bool hak_limit_admits(size_t bytes, size_t *claim);
/* The bytes of a claim are counted by now, or were not taken. */
void hak_limit_settle(size_t claim);

/* What counts against the limit: granules and mappings handed out, less what
 * was purged inside them, with all metadata. */
size_t hak_limit_used(void);

#endif
