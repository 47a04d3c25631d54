#ifndef HAK_LAB_TRIAL_H
#define HAK_LAB_TRIAL_H

#include "judge.h"
#include "side.h"

/* Sides, their runs, and what is needed to judge and report them. */
struct trial {
	struct side *side; /* [0] is the reference */
	size_t sides;
	enum metric metric; /* the one that gets the verdict */
	char *value_title;  /* of METRIC_PATTERN; NULL: the default one */
	bool value_lower;   /* of METRIC_PATTERN: lower is better */
	struct judge_rule rule;
	uint64_t seed;		/* of order, padding and judge */
	size_t warmup;		/* blocks that were not counted */
	double elapsed;		/* s; 0 for recorded runs */
	const char *stopped_by; /* "time", ..., for a reader; "" if recorded */
	bool interrupted;	/* by the user */
};

struct side *hak_trial_add_side(struct trial *t);
struct side *hak_trial_find_side(const struct trial *t, const char *name);
/* Makes the side the reference; the others keep their order. */
void hak_trial_set_reference(struct trial *t, const struct side *s);
bool hak_trial_lower_is_better(const struct trial *t, enum metric metric);
const char *hak_trial_title(const struct trial *t, enum metric metric);
/* The values of one metric; false if the side has none. To be freed. */
bool hak_trial_series(
	const struct side *s, enum metric metric, struct series *out);
/*
 * Judges every side but the reference: out[i] belongs to side[i + 1]. A side
 * that failed, or every side if the reference did, gets VERDICT_CRASH, with
 * figures only where runs[i] > 0. False if no pair has two runs.
 */
bool hak_trial_judge(
	const struct trial *t, enum metric metric, struct judgement *out);
/*
 * Ends the command if every run printed, or was recorded with, one and the
 * same value: what does not vary at all is not a measurement.
 */
void hak_trial_check_variance(const struct trial *t);
void hak_trial_free(struct trial *t);

#endif
