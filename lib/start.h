/* start.h: what must have run before the first block is handed out. */
#ifndef HAK_START_H
#define HAK_START_H

#include "base.h"

/* Read page size and options; any number of calls, any thread, any time from
 * the loader's first allocation on. */
void hak_start(void);

/* After an option was changed in a running process: make it take effect. */
void hak_start_retune(void);

/* Once a thread has its heap: fork handlers. */
void hak_start_late(void);

#endif
