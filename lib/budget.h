/*
 * budget.h: what may lie idle: the share of each heap's caches, the bound of
 * empty memory, and the work that is put off until no lock is held.
 */
#ifndef HAK_BUDGET_H
#define HAK_BUDGET_H

#include "base.h"

/* A heap came or went: shares and bounds anew.  Under hak_registry_lock. */
void hak_budget_update(void);

/* Do what hak_due asks for.  No lock may be held. */
void hak_budget_maintain(void);
/* A LIVE option changed: derive anew what follows from it, and purge what may no
 * longer stay.  No lock may be held. */
void hak_budget_retune(void);
/* Start the background thread if it is asked for and not there (background.h). */
void hak_budget_background(void);
/* After ENOMEM: give back what can be; true when a retry may succeed. */
bool hak_budget_recover(void);
/* Empty this thread's caches, all depots and queues, and purge down to keep
 * bytes of empty memory; returns the bytes that went to the system. */
size_t hak_budget_trim(size_t keep);

/* Bytes of empty memory that may stay; relaxed. */
size_t hak_budget_retain_bytes(void);

#endif
