/*
 * The report for a terminal: the sides, then each of them against the
 * reference, then what the runs could and could not settle, then the metrics
 * that were measured along the way. Those get an interval and no verdict: a
 * trial has one question.
 */
#include <config.h>

#include "report.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab.h"

bool hak_report_owns_output(const char *path, const char *other)
{
	return (path && strcmp(path, "-") == 0) ||
	       (other && strcmp(other, "-") == 0);
}

static _Noreturn void refuse(const char *path)
{
	hak_command_fail(STATUS_FAILED, "cannot write the report: %s: %s", path,
		strerror(errno));
}

/* It is not opened: an old report stays whole until there is a new one. */
void hak_report_check(const char *path)
{
	bool there = access(path, F_OK) == 0;
	char *copy = hak_lab_copy(path);
	struct stat s;

	if (strcmp(path, "-") != 0) {
		if (access(there ? path : dirname(copy), W_OK) != 0)
			refuse(path);
		errno = EISDIR;
		if (there && stat(path, &s) == 0 && S_ISDIR(s.st_mode))
			refuse(path);
	}
	free(copy);
}

FILE *hak_report_open(const char *path)
{
	FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

	if (!f)
		refuse(path);
	return f;
}

/* Only a close tells whether all of it is there. */
void hak_report_close(FILE *f, const char *path)
{
	if (ferror(f) || (f == stdout ? fflush(f) : fclose(f)))
		refuse(path);
}

const char *hak_report_percent(double change, bool plus, char *text)
{
	double percent = change * 100;
	int digits = fabs(percent) < 9.995 ? 2 : fabs(percent) < 99.95 ? 1 : 0;

	snprintf(text, REPORT_FIGURE, plus ? "%+.*f %%" : "%.*f %%", digits,
		percent);
	return text;
}

const char *hak_report_p(double p, char *text)
{
	if (p < 0.001)
		return strcpy(text, "< 0.001");
	snprintf(text, REPORT_FIGURE, "%.3f", p);
	return text;
}

const char *hak_report_runs(double runs, char *text)
{
	if (isinf(runs))
		return strcpy(text, "no number of");
	if (runs > 1e6)
		return strcpy(text, "more than a million");
	snprintf(text, REPORT_FIGURE, "%.0f", fmax(runs, 2));
	return text;
}

const char *hak_report_better(const struct trial *t, enum metric metric)
{
	return hak_trial_lower_is_better(t, metric) ? "lower is better"
						    : "higher is better";
}

/* in characters, of UTF-8 */
static int width_of(const char *name)
{
	int width = 0;

	for (; *name; name++)
		width += ((unsigned char)*name & 0xc0) != 0x80;
	return width;
}

static int name_width(const struct trial *t)
{
	int width = width_of("side");

	for (size_t i = 0; i < t->sides; i++)
		if (width_of(t->side[i].name) > width)
			width = width_of(t->side[i].name);
	return width;
}

/* printf pads to a number of bytes */
static int name_padding(const struct trial *t, const char *name)
{
	return name_width(t) - width_of(name);
}

static void print_name(FILE *f, const struct trial *t, const char *name)
{
	fprintf(f, "%s%*s", name, name_padding(t, name), "");
}

static void print_heading(FILE *f, const struct trial *t)
{
	fprintf(f, "%s, %s; ", hak_trial_title(t, t->metric),
		hak_report_better(t, t->metric));
	if (t->rule.blocks)
		fprintf(f, "interleaved in blocks, %zu of warm-up", t->warmup);
	else
		fputs("unpaired", f);
	if (t->elapsed > 0)
		fprintf(f, ", %.1f s, ended by %s", t->elapsed, t->stopped_by);
	fprintf(f, "; seed %llu\n", (unsigned long long)t->seed);
}

static void print_commands(FILE *f, const struct trial *t)
{
	for (size_t i = 0; i < t->sides; i++) {
		char *text = hak_side_text(&t->side[i]);

		if (*text)
			fprintf(f, "  %s%*s  %s\n", t->side[i].name,
				name_padding(t, t->side[i].name), "", text);
		free(text);
	}
	fputc('\n', f);
}

static void print_side(FILE *f, const struct trial *t, const struct side *s)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];
	struct series series;
	struct summary sum;

	print_name(f, t, s->name);
	fprintf(f, " %6zu", s->runs);
	if (!hak_trial_series(s, t->metric, &series))
		return;
	hak_judge_summarise(&series, &sum);
	fprintf(f, " %11s %11s %8s",
		hak_metric_format(t->metric, sum.mean, a, sizeof a),
		hak_metric_format(t->metric, sum.median, b, sizeof b),
		hak_report_percent(sum.cv, false, c));
	fprintf(f, " %11s %11s",
		hak_metric_format(t->metric, sum.least, a, sizeof a),
		hak_metric_format(t->metric, sum.greatest, b, sizeof b));
	free((void *)series.value);
}

static void print_failure(FILE *f, const struct side *s)
{
	char *text = hak_side_failure_text(s);

	fprintf(f, "  failed in block %zu: %s", s->failure_block + 1, text);
	free(text);
}

static void print_sides(FILE *f, const struct trial *t)
{
	fprintf(f, "%-*s %6s %11s %11s %8s %11s %11s\n", name_width(t), "side",
		"runs", "mean", "median", "CV", "least", "greatest");
	for (size_t i = 0; i < t->sides; i++) {
		print_side(f, t, &t->side[i]);
		if (t->side[i].failure)
			print_failure(f, &t->side[i]);
		fputc('\n', f);
	}
}

static void print_judgement(FILE *f, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE],
		d[REPORT_FIGURE], e[REPORT_FIGURE];

	if (j->runs)
		fprintf(f, " %9s %9s %9s to %8s %8s",
			hak_report_percent(j->change, true, a),
			hak_report_percent(j->change_median, true, b),
			hak_report_percent(j->low, true, c),
			hak_report_percent(j->high, true, d),
			hak_report_p(j->p_adjusted, e));
	else
		fprintf(f, " %9s %9s %21s %8s", "-", "-", "-", "-");
	fprintf(f, "  %s\n", hak_judge_verdict_name(j->verdict));
}

static void print_judgements(
	FILE *f, const struct trial *t, const struct judgement *j)
{
	char interval[REPORT_FIGURE];

	snprintf(interval, sizeof interval, "%.4g %% interval",
		100 * (1 - t->rule.alpha / (double)(t->sides - 1)));
	fprintf(f, "\nagainst %s:\n%-*s %9s %9s %21s %8s  verdict\n",
		t->side[0].name, name_width(t), "", "mean", "median", interval,
		"p");
	for (size_t i = 1; i < t->sides; i++) {
		print_name(f, t, t->side[i].name);
		print_judgement(f, &j[i - 1]);
	}
}

static void print_power(
	FILE *f, const struct side *s, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];

	if (j->runs)
		fprintf(f,
			"%s: a change of %s needs %s runs a side, "
			"the %zu here can settle %s\n",
			s->name, hak_report_percent(j->change, true, b),
			hak_report_runs(j->runs_needed, a), j->runs,
			hak_report_percent(j->detectable, false, c));
	if (j->runs < JUDGE_RUNS_MIN && j->verdict != VERDICT_CRASH)
		fprintf(f,
			"%s: too few runs for a verdict: %zu, at least %d "
			"are needed\n",
			s->name, j->runs, JUDGE_RUNS_MIN);
}

static void print_notes(
	FILE *f, const struct trial *t, const struct judgement *j)
{
	fprintf(f, "\npower (alpha %g %% two-sided, power 80 %%):\n",
		t->rule.alpha * 100);
	for (size_t i = 1; i < t->sides; i++)
		print_power(f, &t->side[i], &j[i - 1]);
	if (t->sides > 2)
		fprintf(f,
			"%zu sides are held to one reference: intervals "
			"are wider and p is adjusted (Holm) for that\n",
			t->sides - 1);
}

static void print_other_change(FILE *f, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE];

	if (j->runs)
		fprintf(f, " %9s +-%9s", hak_report_percent(j->change, true, a),
			hak_report_percent((j->high - j->low) / 2, false, b));
	else
		fprintf(f, " %21s", "-");
}

/* A column a metric; `all` has the judgements of one metric after another. */
static void print_other_table(FILE *f, const struct trial *t,
	const struct judgement *all, const bool *measured)
{
	size_t candidates = t->sides - 1;

	fprintf(f, "\nmeasured along the way, no verdict:\n%-*s", name_width(t),
		"");
	for (int m = 0; m < METRIC_COUNT; m++)
		if (measured[m])
			fprintf(f, " %21s", hak_trial_title(t, (enum metric)m));
	for (size_t i = 0; i < candidates; i++) {
		fputc('\n', f);
		print_name(f, t, t->side[i + 1].name);
		for (size_t m = 0; m < METRIC_COUNT; m++)
			if (measured[m])
				print_other_change(f, &all[m * candidates + i]);
	}
	fputc('\n', f);
}

static void print_other_metrics(FILE *f, const struct trial *t)
{
	struct judgement *all =
		hak_lab_alloc(METRIC_COUNT * (t->sides - 1), sizeof *all);
	bool measured[METRIC_COUNT], any = false;

	for (size_t m = 0; m < METRIC_COUNT; m++) {
		measured[m] = hak_trial_judge(t, (enum metric)m,
				      &all[m * (t->sides - 1)]) &&
			      m != (size_t)t->metric;
		any |= measured[m];
	}
	if (any)
		print_other_table(f, t, all, measured);
	free(all);
}

void hak_report_text(FILE *f, const struct trial *t)
{
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	hak_trial_judge(t, t->metric, j);
	print_heading(f, t);
	print_commands(f, t);
	print_sides(f, t);
	print_judgements(f, t, j);
	print_notes(f, t, j);
	print_other_metrics(f, t);
	free(j);
}
