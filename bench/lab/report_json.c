/*
 * The report as JSON, format "hakmem-ab-1": all runs, all figures and the
 * rule, so that it can be judged again by `hakmem ab --replay`. A figure that
 * does not exist is null.
 */
#include <config.h>

#include "report.h"

#include <stdlib.h>

#include "lab.h"

static void key_number(struct json_writer *w, const char *key, double value)
{
	hak_json_key(w, key);
	hak_json_number(w, value);
}

static void key_count(struct json_writer *w, const char *key, uint64_t value)
{
	hak_json_key(w, key);
	hak_json_count(w, value);
}

static void key_string(
	struct json_writer *w, const char *key, const char *value)
{
	hak_json_key(w, key);
	hak_json_string(w, value);
}

static void put_metric(
	struct json_writer *w, const struct trial *t, enum metric metric)
{
	key_string(w, "name", hak_metric_info[metric].name);
	key_string(w, "title", hak_trial_title(t, metric));
	key_string(w, "unit", hak_metric_info[metric].unit);
	key_string(w, "better",
		hak_trial_lower_is_better(t, metric) ? "lower" : "higher");
}

static void put_rule(struct json_writer *w, const struct trial *t)
{
	hak_json_key(w, "rule");
	hak_json_open(w, '{');
	key_number(w, "alpha", t->rule.alpha);
	key_number(w, "margin", t->rule.margin);
	key_number(w, "strong", t->rule.strong);
	key_count(w, "comparisons", t->sides - 1);
	key_count(w, "resamples", t->rule.resamples);
	key_count(w, "seed", t->rule.seed);
	hak_json_close(w, '}');
}

static void put_samples(
	struct json_writer *w, const struct side *s, enum metric metric)
{
	struct series series;

	if (!hak_trial_series(s, metric, &series))
		return;
	hak_json_key(w, hak_metric_info[metric].name);
	hak_json_open(w, '[');
	for (size_t i = 0; i < series.count; i++)
		hak_json_number(w, series.value[i]);
	hak_json_close(w, ']');
	free((void *)series.value);
}

static void put_failure(struct json_writer *w, const struct side *s)
{
	char *text;

	hak_json_key(w, "failure");
	if (!s->failure) {
		hak_json_null(w);
		return;
	}
	text = hak_side_failure_text(s);
	hak_json_open(w, '{');
	key_count(w, "block", s->failure_block + 1);
	key_string(w, "what", text);
	key_string(w, "ending", hak_side_ending_name(s->failure));
	key_count(w, "code", (uint64_t)s->failure_code);
	hak_json_close(w, '}');
	free(text);
}

static void put_side(struct json_writer *w, const struct side *s)
{
	char *text = hak_side_text(s);

	hak_json_open(w, '{');
	key_string(w, "name", s->name);
	key_string(w, "command", text);
	put_failure(w, s);
	hak_json_key(w, "samples");
	hak_json_open(w, '{');
	for (int m = 0; m < METRIC_COUNT; m++)
		put_samples(w, s, (enum metric)m);
	hak_json_close(w, '}');
	hak_json_close(w, '}');
	free(text);
}

static void put_summary(
	struct json_writer *w, const char *key, const struct summary *s)
{
	hak_json_key(w, key);
	hak_json_open(w, '{');
	key_number(w, "mean", s->mean);
	key_number(w, "median", s->median);
	key_number(w, "deviation", s->deviation);
	key_number(w, "cv", s->cv);
	key_number(w, "least", s->least);
	key_number(w, "greatest", s->greatest);
	hak_json_close(w, '}');
}

static void put_figures(struct json_writer *w, const struct judgement *j)
{
	put_summary(w, "reference_summary", &j->reference);
	put_summary(w, "summary", &j->candidate);
	key_number(w, "change", j->change);
	key_number(w, "change_median", j->change_median);
	key_number(w, "low", j->low);
	key_number(w, "high", j->high);
	key_number(w, "p", j->p);
	key_number(w, "p_adjusted", j->p_adjusted);
	key_number(w, "runs_needed", j->runs_needed);
	key_number(w, "detectable", j->detectable);
}

static void put_comparison(struct json_writer *w, const struct trial *t,
	enum metric metric, size_t index, const struct judgement *j)
{
	hak_json_open(w, '{');
	key_string(w, "side", t->side[index].name);
	key_string(w, "reference", t->side[0].name);
	key_string(w, "metric", hak_metric_info[metric].name);
	key_count(w, "runs", j->runs);
	if (j->runs)
		put_figures(w, j);
	/* only the metric in question has one */
	if (metric == t->metric)
		key_string(w, "verdict", hak_judge_verdict_name(j->verdict));
	hak_json_close(w, '}');
}

static void put_comparisons(struct json_writer *w, const struct trial *t,
	const char *key, bool in_question)
{
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	hak_json_key(w, key);
	hak_json_open(w, '[');
	for (int m = 0; m < METRIC_COUNT; m++) {
		enum metric metric = (enum metric)m;
		bool judged = hak_trial_judge(t, metric, j);

		if ((metric == t->metric) != in_question ||
			(!judged && !in_question))
			continue;
		for (size_t i = 1; i < t->sides; i++)
			put_comparison(w, t, metric, i, &j[i - 1]);
	}
	hak_json_close(w, ']');
	free(j);
}

void hak_report_json_value(struct json_writer *w, const struct trial *t)
{
	hak_json_open(w, '{');
	key_string(w, "format", "hakmem-ab-1");
	hak_json_key(w, "metric");
	hak_json_open(w, '{');
	put_metric(w, t, t->metric);
	hak_json_close(w, '}');
	hak_json_key(w, "interleaved");
	hak_json_bool(w, t->rule.blocks);
	key_count(w, "warmup_blocks", t->warmup);
	key_number(w, "elapsed_s", t->elapsed);
	key_string(w, "stopped_by", t->stopped_by);
	key_count(w, "seed", t->seed);
	put_rule(w, t);
	put_comparisons(w, t, "comparisons", true);
	put_comparisons(w, t, "along_the_way", false);
	hak_json_key(w, "sides");
	hak_json_open(w, '[');
	for (size_t i = 0; i < t->sides; i++)
		put_side(w, &t->side[i]);
	hak_json_close(w, ']');
	hak_json_close(w, '}');
}

void hak_report_json(FILE *f, const struct trial *t)
{
	struct json_writer w = {.file = f};

	hak_report_json_value(&w, t);
	hak_json_end(&w);
}
