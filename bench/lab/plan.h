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

/*
 * The course of one trial, for who runs several at once; the runner must be
 * open. hak_course_block() is false if the user stopped it.
 */
struct course;
struct course *hak_course_open(struct plan *p, struct trial *t);
bool hak_course_block(struct course *c);
bool hak_course_can_go_on(const struct course *c);
void hak_course_close(struct course *c);

/* The end of a line of progress; nothing where the time is not known. */
void hak_plan_show_left(double seconds);

/* Runs the sides of the trial and adds what they yield. */
void hak_plan_run(struct plan *p, struct trial *t);

#endif
