/*
 * A trial: the sides that are compared with all their runs, wherever those
 * come from (the plan runs them, a replay reads them). Here is the one place
 * where runs become series for the judge.
 *
 * Where runs were interleaved, run i of every side is from block i; a side
 * that failed has fewer, and then only the blocks that both sides of a pair
 * finished are compared.
 */
#include <config.h>

#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

struct side *hak_trial_add_side(struct trial *t)
{
	t->side = hak_lab_grow(t->side, t->sides + 1, sizeof *t->side);
	memset(&t->side[t->sides], 0, sizeof *t->side);
	return &t->side[t->sides++];
}

struct side *hak_trial_find_side(const struct trial *t, const char *name)
{
	for (size_t i = 0; i < t->sides; i++)
		if (strcmp(t->side[i].name, name) == 0)
			return &t->side[i];
	return NULL;
}

void hak_trial_set_reference(struct trial *t, const struct side *s)
{
	size_t index = (size_t)(s - t->side);
	struct side reference = *s;

	memmove(t->side + 1, t->side, index * sizeof *t->side);
	t->side[0] = reference;
}

bool hak_trial_lower_is_better(const struct trial *t, enum metric metric)
{
	if (metric == METRIC_PATTERN)
		return t->value_lower;
	return hak_metric_info[metric].lower_is_better;
}

const char *hak_trial_title(const struct trial *t, enum metric metric)
{
	if (metric == METRIC_PATTERN && t->value_title)
		return t->value_title;
	return hak_metric_info[metric].title;
}

bool hak_trial_series(
	const struct side *s, enum metric metric, struct series *out)
{
	double *value = hak_lab_alloc(s->runs, sizeof *value);

	out->value = value;
	out->count = s->runs;
	for (size_t i = 0; i < s->runs; i++) {
		value[i] = s->run[i].value[metric];
		if (isnan(value[i]))
			out->count = 0;
	}
	if (out->count)
		return true;
	free(value);
	out->value = NULL;
	return false;
}

static bool judge_pair(const struct judge_rule *rule, struct series reference,
	struct series candidate, struct judgement *out)
{
	size_t common = reference.count < candidate.count ? reference.count
							  : candidate.count;

	if (rule->blocks)
		reference.count = candidate.count = common;
	if (common < 2)
		return false;
	hak_judge_compare(rule, &reference, &candidate, out);
	return true;
}

static bool judge_pairs(const struct trial *t, enum metric metric,
	const struct judge_rule *rule, struct judgement *out)
{
	struct series reference, s;
	bool any = false;

	if (!hak_trial_series(&t->side[0], metric, &reference))
		return false;
	for (size_t i = 1; i < t->sides; i++) {
		if (!hak_trial_series(&t->side[i], metric, &s))
			continue;
		any |= judge_pair(rule, reference, s, &out[i - 1]);
		free((void *)s.value);
	}
	free((void *)reference.value);
	return any;
}

bool hak_trial_judge(
	const struct trial *t, enum metric metric, struct judgement *out)
{
	struct judge_rule rule = t->rule;
	bool any;

	memset(out, 0, (t->sides - 1) * sizeof *out);
	for (size_t i = 0; i + 1 < t->sides; i++)
		out[i].p = 1;
	rule.comparisons = (unsigned)(t->sides - 1);
	rule.lower_is_better = hak_trial_lower_is_better(t, metric);
	any = judge_pairs(t, metric, &rule, out);
	hak_judge_settle(&rule, out, t->sides - 1);
	for (size_t i = 1; i < t->sides; i++)
		if (t->side[i].failure || t->side[0].failure)
			out[i - 1].verdict = VERDICT_CRASH;
	return any;
}

static bool is_constant(const struct trial *t)
{
	for (size_t i = 0; i < t->sides; i++)
		for (size_t j = 1; j < t->side[i].runs; j++)
			if (t->side[i].run[j].value[t->metric] !=
				t->side[i].run[0].value[t->metric])
				return false;
	return t->side[0].runs > 1;
}

/* Memory and instructions may well be the same each time; those are counts. */
void hak_trial_check_variance(const struct trial *t)
{
	if (t->metric == METRIC_PATTERN && is_constant(t))
		hak_command_fail(STATUS_FAILED,
			"zero variance, which is no measurement: every run of "
			"%s gave %g",
			t->side[0].name, t->side[0].run[0].value[t->metric]);
}

void hak_trial_free(struct trial *t)
{
	for (size_t i = 0; i < t->sides; i++)
		hak_side_free(&t->side[i]);
	free(t->side);
	free(t->value_title);
}
