/*
 * Another process's hakmem: a snapshot of its statistics, taken from outside.
 */
#ifndef HAK_LAB_REMOTE_H
#define HAK_LAB_REMOTE_H

#include <sys/types.h>

#include "stats.h"

struct remote;

/* Finds hakmem in the process; ends the command, saying why, if it cannot. */
struct remote *hak_remote_open(pid_t pid);
/*
 * A snapshot with all rows, which the caller frees; NULL when the process has
 * ended or executes another program. Figures may be a moment apart; what does not fit
 * together is read again, or left out and counted. hak_options become those of the process.
 */
struct hak_snapshot *hak_remote_take(struct remote *remote);
/* Which of the two, after NULL. */
int hak_remote_has_ended(struct remote *remote);

#endif
