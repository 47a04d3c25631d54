#ifndef HAK_LAB_SCORECARD_CMD_H
#define HAK_LAB_SCORECARD_CMD_H

/*
 * argv[0] is anything, its options follow. find_program gives the path of a
 * workload, of at most PATH_MAX bytes, or ends the command.
 */
int hak_scorecard_main(int argc, char **argv,
	void (*find_program)(const char *name, char path[]));

#endif
