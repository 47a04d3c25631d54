#ifndef HAK_LAB_REPLAY_H
#define HAK_LAB_REPLAY_H

#include "trial.h"

/*
 * Fills the trial with the runs recorded in a file ("-": standard input), or
 * ends the command with one line that says what is wrong with it.
 *
 *  - text: a column a side, separated by blanks, commas or semicolons; a first
 *    row of names may come before the numbers; "-" stands for no value, from
 *    some row on; "#" opens a comment. Unpaired.
 *  - JSON: a report of `hakmem ab --json` (which says itself whether its runs
 *    were interleaved), or one object that has an array of numbers a side.
 */
void hak_replay_read(struct trial *t, const char *path);

#endif
