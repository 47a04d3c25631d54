#ifndef HAK_LAB_RUNNER_H
#define HAK_LAB_RUNNER_H

#include <regex.h>
#include <sched.h>
#include <signal.h>

#include "random.h"
#include "side.h"

/* How runs are made; the same for every side of a trial. */
struct runner {
	bool pinned;
	cpu_set_t cpus;
	double timeout; /* s; 0: none */
	bool has_pattern;
	regex_t pattern;
	/* instead of the peak RSS: KiB that the program prints; or NULL */
	const regex_t *memory;
	bool instructions;    /* count them: found out by the first run */
	struct random random; /* of the padding */
	sigset_t mask;	      /* for the programs: the one from before */
	sigset_t ending;      /* signals that end the trial */
	bool stopped;	      /* one of them has come */
};

struct run_end {
	enum ending ending;
	int code;
	char *note; /* last line on its standard error, or NULL; to be freed */
};

/* Blocks the signals that end a trial; they are answered between runs. */
void hak_runner_open(struct runner *r, uint64_t seed);
void hak_runner_close(struct runner *r);
/* Ends the command if the program cannot be started at all. */
struct run_end hak_runner_run(
	struct runner *r, const struct side *s, struct run *out);
/* A signal that ends the trial has come and was not yet told. */
bool hak_runner_interrupted(struct runner *r);
double hak_runner_now(void); /* s */

#endif
