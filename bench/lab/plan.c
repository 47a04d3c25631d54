/*
 * The plan of a trial: blocks of one run of every side, in an order that is
 * drawn anew for each block, until a bound is reached.
 *
 *  I1 A block counts as a whole or not at all, so run i of every side is from
 *     the same block. Whoever stops the trial loses the block that is under
 *     way and keeps all others.
 *  I2 No rule for stopping looks at which side is ahead, or by how much, or at
 *     p: only at numbers of runs, at time, and at the width of intervals. A
 *     trial that stops when it likes what it sees finds differences where
 *     there are none.
 *  I3 A side that fails has no further runs; without its reference, or with
 *     the reference alone, a trial has nothing to go on with.
 */
#include <config.h>

#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab.h"
#include "report.h"

/*
 * Below this the width of an interval is itself too uncertain to stop on: it
 * would be where it happens to be narrow, and p below 5 % in up to 8 % of
 * trials of equal sides instead of 5.
 */
enum { PRECISION_RUNS_MIN = 20 };

struct course {
	struct plan *plan;
	struct trial *trial;
	struct random random;
	size_t *order;	 /* a permutation of the sides */
	struct run *run; /* of the block under way, one a side */
	size_t block;	 /* from 0, warm-up included */
	double start;
	size_t next_look; /* runs at which the width is looked at */
	double width;	  /* half the widest interval; 0: not known */
};

static size_t counted(const struct course *c)
{
	return c->block > c->plan->warmup ? c->block - c->plan->warmup : 0;
}

static void note_failure(
	struct course *c, struct side *s, const struct run_end *end)
{
	char *text;

	s->failure = end->ending;
	s->failure_code = end->code;
	s->failure_block = c->block;
	s->failure_note = end->note;
	text = hak_side_failure_text(s);
	hak_command_warn("%s: %s in block %zu%s%s", s->name, text, c->block + 1,
		end->note ? ": " : "", end->note ? end->note : "");
	free(text);
}

static bool can_go_on(const struct trial *t)
{
	for (size_t i = 1; i < t->sides; i++)
		if (!t->side[i].failure)
			return !t->side[0].failure;
	return false;
}

static void check_metric(const struct trial *t, const struct run *run)
{
	if (isnan(run->value[t->metric]))
		hak_command_fail(STATUS_FAILED,
			"not measured on this machine: %s",
			hak_metric_info[t->metric].name);
}

/* false: stopped by the user, the block does not count */
static bool run_block(struct course *c)
{
	struct trial *t = c->trial;

	hak_random_shuffle(&c->random, c->order, t->sides);
	for (size_t i = 0; i < t->sides; i++) {
		struct side *s = &t->side[c->order[i]];
		struct run *run = &c->run[c->order[i]];
		struct run_end end;

		if (s->failure)
			continue;
		if (hak_runner_interrupted(&c->plan->runner))
			return false;
		end = hak_runner_run(&c->plan->runner, s, run);
		if (end.ending == END_STOPPED) {
			free(end.note);
			return false;
		}
		if (end.ending)
			note_failure(c, s, &end);
		else
			check_metric(t, run);
	}
	return true;
}

static void keep_block(struct course *c)
{
	struct trial *t = c->trial;

	if (c->block++ < c->plan->warmup)
		return;
	for (size_t i = 0; i < t->sides; i++)
		if (!t->side[i].failure)
			hak_side_add_run(&t->side[i], &c->run[i]);
}

static double widest(const struct trial *t)
{
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);
	double width = 0;

	hak_trial_judge(t, t->metric, j);
	for (size_t i = 0; i + 1 < t->sides; i++)
		if (j[i].runs)
			width = fmax(width, (j[i].high - j[i].low) / 2);
	free(j);
	return width;
}

/* Looks become rarer as runs become many: judging costs time as well. */
static void look_at_width(struct course *c)
{
	size_t runs = counted(c);

	if (runs < c->next_look)
		return;
	c->width = widest(c->trial);
	c->next_look = runs + 1 + runs / 10;
}

static double elapsed(const struct course *c)
{
	return hak_runner_now() - c->start;
}

static double block_time(const struct course *c)
{
	return c->block ? elapsed(c) / (double)c->block : 0;
}

static const char *bound_reached(const struct course *c)
{
	const struct plan *p = c->plan;
	size_t runs = counted(c);

	if (!can_go_on(c->trial))
		return "a side that failed";
	if (p->runs && runs >= p->runs)
		return "number of runs";
	/* one block more would not fit in */
	if (p->time > 0 && elapsed(c) + block_time(c) > p->time)
		return "time";
	if (p->precision > 0 && runs >= PRECISION_RUNS_MIN &&
		c->width <= p->precision)
		return "precision";
	return NULL;
}

/* Seconds until the nearest bound; the width shrinks with the root of runs. */
static double time_left(const struct course *c)
{
	const struct plan *p = c->plan;
	double left = INFINITY, runs = (double)counted(c);

	if (p->runs && c->block)
		left = (double)(p->runs + p->warmup - c->block) * block_time(c);
	if (p->time > 0)
		left = fmin(left, p->time - elapsed(c));
	if (p->precision > 0 && c->width > 0) {
		double all = runs * pow(c->width / p->precision, 2);

		left = fmin(left, fmax(all - runs, 0) * block_time(c));
	}
	return left;
}

void hak_plan_show_left(double seconds)
{
	if (isfinite(seconds))
		fprintf(stderr, ", %.0f:%02.0f left", floor(seconds / 60),
			floor(fmod(seconds, 60)));
	fflush(stderr);
}

static void show_progress(struct course *c)
{
	char width[REPORT_FIGURE];
	double left = time_left(c);

	if (c->plan->silent)
		return;
	fprintf(stderr, "\r\033[K%zu runs a side", counted(c));
	if (c->block <= c->plan->warmup)
		fprintf(stderr, " (warm-up)");
	if (c->width > 0)
		fprintf(stderr, ", interval +-%s",
			hak_report_percent(c->width, false, width));
	hak_plan_show_left(left);
}

struct course *hak_course_open(struct plan *p, struct trial *t)
{
	struct course *c = hak_lab_alloc(1, sizeof *c);

	/* one run as long as the whole trial may be is one that hangs */
	if (p->runner.timeout <= 0)
		p->runner.timeout = p->time;
	c->plan = p;
	c->trial = t;
	t->rule.blocks = true;
	t->warmup = p->warmup;
	hak_random_seed(&c->random, t->seed, RANDOM_ORDER);
	c->order = hak_lab_alloc(t->sides, sizeof *c->order);
	c->run = hak_lab_alloc(t->sides, sizeof *c->run);
	for (size_t i = 0; i < t->sides; i++)
		c->order[i] = i;
	c->start = hak_runner_now();
	c->next_look = JUDGE_RUNS_MIN;
	return c;
}

bool hak_course_block(struct course *c)
{
	if (!run_block(c))
		return false;
	keep_block(c);
	return true;
}

bool hak_course_can_go_on(const struct course *c)
{
	return can_go_on(c->trial);
}

void hak_course_close(struct course *c)
{
	c->trial->elapsed = elapsed(c);
	free(c->order);
	free(c->run);
	free(c);
}

static const char *run_course(struct course *c)
{
	const struct plan *p = c->plan;
	const char *bound = NULL;

	while (!bound) {
		show_progress(c);
		if (!hak_course_block(c))
			return "the user";
		/* shown on a terminal even where it does not decide */
		if (p->precision > 0 || !p->silent)
			look_at_width(c);
		bound = bound_reached(c);
	}
	return bound;
}

void hak_plan_run(struct plan *p, struct trial *t)
{
	struct course *c;

	p->silent |= !isatty(STDERR_FILENO);
	hak_runner_open(&p->runner, t->seed);
	c = hak_course_open(p, t);
	t->stopped_by = run_course(c);
	t->interrupted = p->runner.stopped;
	hak_course_close(c);
	hak_runner_close(&p->runner);
	if (!p->silent)
		fputs("\r\033[K", stderr);
}
