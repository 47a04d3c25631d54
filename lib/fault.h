/*
 * fault.h: a guard page that was touched, told before the process ends.
 */
#ifndef HAK_FAULT_H
#define HAK_FAULT_H

/* From now on, unless the program has a handler of SIGSEGV: its own, then or
 * later, takes the place of this one. */
void hak_fault_watch(void);

#endif
