/*
 * fork.h: a fork finds every lock free and every list whole.
 */
#ifndef HAK_FORK_H
#define HAK_FORK_H

/* Handlers for pthread_atfork: every lock, in rank order. */
void hak_fork_prepare(void);
void hak_fork_parent(void);
void hak_fork_child(void);

#endif
