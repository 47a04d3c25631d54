/*
 * The scorecard for a reader, as tables that are Markdown too, and as JSON.
 * Ratios are to the reference, below 1 is better for time and memory alike;
 * the figure after +- is half the interval's width.
 */
#include <config.h>

#include "scorecard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lab.h"
#include "report.h"

static const char *title_of(enum metric metric)
{
	return metric == METRIC_RSS ? "Memory" : "CPU time";
}

static const struct trial *first_trial(const struct scorecard *card)
{
	return &card->row[0].trial;
}

/* The index of hakmem, 0 if it takes no part or is the reference. */
static size_t find_hakmem(const struct scorecard *card)
{
	const struct trial *t = first_trial(card);

	for (size_t i = 1; i < t->sides; i++)
		if (strcmp(t->side[i].name, "hakmem") == 0)
			return i;
	return 0;
}

static void put_reference_cell(
	FILE *f, const struct scorecard_row *row, enum metric metric)
{
	double mean = hak_scorecard_mean(row, metric, 0);
	char text[REPORT_FIGURE];

	fprintf(f, " %13s |",
		isnan(mean)
			? "failed"
			: hak_metric_format(metric == METRIC_RSS ? METRIC_RSS
								 : METRIC_CPU,
				  mean, text, sizeof text));
}

static void put_cell(FILE *f, const struct side *s, const struct judgement *j)
{
	char text[REPORT_FIGURE] = "";

	if (s->failure)
		snprintf(text, sizeof text, "failed");
	else if (j->runs)
		snprintf(text, sizeof text, "%.2f +-%.2f", 1 + j->change,
			(j->high - j->low) / 2);
	fprintf(f, " %13s |", text);
}

static void put_best(
	FILE *f, const struct scorecard_row *row, enum metric metric, size_t us)
{
	size_t best = hak_scorecard_best_peer(row, metric);
	double mine = us ? hak_scorecard_mean(row, metric, us) : NAN;
	double theirs = hak_scorecard_mean(row, metric, best);

	fprintf(f, " %-10s |", row->trial.side[best].name);
	if (us && !isnan(mine))
		fprintf(f, " %6.2f |", mine / theirs);
	else if (us)
		fputs("        |", f);
	fputc('\n', f);
}

static void put_row(
	FILE *f, const struct scorecard_row *row, enum metric metric, size_t us)
{
	const struct trial *t = &row->trial;
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	hak_trial_judge(t, metric, j);
	fprintf(f, "| %-26s |", row->name);
	put_reference_cell(f, row, metric);
	for (size_t i = 1; i < t->sides; i++)
		put_cell(f, &t->side[i], &j[i - 1]);
	put_best(f, row, metric, us);
	free(j);
}

static void put_head(FILE *f, const struct scorecard *card, size_t us)
{
	const struct trial *t = first_trial(card);

	fprintf(f, "| %-26s |", "");
	for (size_t i = 0; i < t->sides; i++)
		fprintf(f, " %13s |", t->side[i].name);
	fprintf(f, " %-10s |", "best peer");
	if (us)
		fputs(" hakmem |", f);
	fputs("\n|----------------------------|", f);
	for (size_t i = 0; i < t->sides; i++)
		fputs("--------------:|", f);
	fputs("------------|", f);
	if (us)
		fputs("-------:|", f);
	fputc('\n', f);
}

static void put_geometric_means(
	FILE *f, const struct scorecard *card, enum metric metric, size_t us)
{
	const struct trial *t = first_trial(card);

	fprintf(f, "| %-26s | %13s |", "geometric mean", "1");
	for (size_t i = 1; i < t->sides; i++) {
		struct geometric_mean g;
		char text[REPORT_FIGURE] = "";

		hak_scorecard_geometric_mean(card, metric, i, &g);
		if (g.rows)
			snprintf(text, sizeof text, "%.3f +-%.3f", g.ratio,
				(g.high - g.low) / 2);
		fprintf(f, " %13s |", text);
	}
	fputs("            |", f);
	if (us)
		fputs("        |", f);
	fputc('\n', f);
}

static void put_best_mean(
	FILE *f, const struct scorecard *card, enum metric metric, size_t us)
{
	double sum = 0;
	size_t rows = 0;

	for (size_t i = 0; i < card->rows; i++) {
		const struct scorecard_row *row = &card->row[i];
		size_t best = hak_scorecard_best_peer(row, metric);
		double ratio = hak_scorecard_mean(row, metric, us) /
			       hak_scorecard_mean(row, metric, best);

		if (isnan(ratio))
			continue;
		sum += log(ratio);
		rows++;
	}
	if (rows)
		fprintf(f,
			"\nhakmem against the best peer of each row: "
			"%.3f (geometric mean of %zu rows)\n",
			exp(sum / (double)rows), rows);
}

static void put_table(FILE *f, const struct scorecard *card, enum metric metric)
{
	size_t us = find_hakmem(card);

	fprintf(f,
		"%s, ratio to %s (its own column is absolute), below 1 is "
		"better:\n\n",
		title_of(metric), card->reference);
	put_head(f, card, us);
	for (size_t i = 0; i < card->rows; i++)
		put_row(f, &card->row[i], metric, us);
	put_geometric_means(f, card, metric, us);
	if (us)
		put_best_mean(f, card, metric, us);
	fputc('\n', f);
}

void hak_scorecard_text(FILE *f, const struct scorecard *card)
{
	put_table(f, card, METRIC_PATTERN);
	put_table(f, card, METRIC_RSS);
	fprintf(f, "%zu rounds, %.0f s, seed %llu. Allocators:\n\n",
		card->rounds, card->elapsed, (unsigned long long)card->seed);
	for (size_t i = 0; i < first_trial(card)->sides; i++) {
		const struct side *s = &first_trial(card)->side[i];
		const char *preload = hak_side_value(s, "LD_PRELOAD");

		fprintf(f, "- %s: %s\n", s->name,
			preload ? preload : "the C library's own");
	}
}

/* ---- JSON ---- */

static void put_means(struct json_writer *w, const struct scorecard *card,
	const char *key, enum metric metric)
{
	const struct trial *t = first_trial(card);

	hak_json_key(w, key);
	hak_json_open(w, '{');
	for (size_t i = 1; i < t->sides; i++) {
		struct geometric_mean g;

		hak_scorecard_geometric_mean(card, metric, i, &g);
		hak_json_key(w, t->side[i].name);
		hak_json_open(w, '{');
		hak_json_key(w, "ratio");
		hak_json_number(w, g.ratio);
		hak_json_key(w, "low");
		hak_json_number(w, g.low);
		hak_json_key(w, "high");
		hak_json_number(w, g.high);
		hak_json_key(w, "rows");
		hak_json_count(w, g.rows);
		hak_json_close(w, '}');
	}
	hak_json_close(w, '}');
}

void hak_scorecard_json(FILE *f, const struct scorecard *card)
{
	struct json_writer w = {.file = f};

	hak_json_open(&w, '{');
	hak_json_key(&w, "format");
	hak_json_string(&w, "hakmem-scorecard-1");
	hak_json_key(&w, "reference");
	hak_json_string(&w, card->reference);
	hak_json_key(&w, "rounds");
	hak_json_count(&w, card->rounds);
	hak_json_key(&w, "elapsed_s");
	hak_json_number(&w, card->elapsed);
	hak_json_key(&w, "seed");
	hak_json_count(&w, card->seed);
	put_means(&w, card, "geometric_mean_cpu", METRIC_PATTERN);
	put_means(&w, card, "geometric_mean_memory", METRIC_RSS);
	hak_json_key(&w, "rows");
	hak_json_open(&w, '{');
	for (size_t i = 0; i < card->rows; i++) {
		hak_json_key(&w, card->row[i].name);
		hak_report_json_value(&w, &card->row[i].trial);
	}
	hak_json_close(&w, '}');
	hak_json_close(&w, '}');
	hak_json_end(&w);
}
