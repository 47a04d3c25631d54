#ifndef HAK_LAB_PLAN_H
#define HAK_LAB_PLAN_H

#include "runner.h"
#include "trial.h"

/* When to stop; the first bound that is reached counts, 0 is no bound. */
struct plan {
	size_t runs;	  /* a side */
	double time;	  /* s, of the whole trial */
	double precision; /* half width of every interval */
	size_t warmup;	  /* blocks */
	bool silent;	  /* no line of progress even on a terminal */
	struct runner runner;
};

/* Runs the sides of the trial and adds what they yield. */
void hak_plan_run(struct plan *p, struct trial *t);

#endif
