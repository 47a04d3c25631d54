/*
 * SVG plots (see plot.h). Every mark has a <title>, which a browser shows as
 * its tooltip, so no figure is in the picture alone and no side is told by its
 * colour alone.
 */
#include <config.h>

#include "plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "report.h"

enum {
	WIDTH = 760,
	LEFT = 190, /* room for names */
	RIGHT = 740,
	ROW = 34,
	TOP = 12,
	RUNS_HEIGHT = 260,
	RUNS_LEFT = 80,
	NAME_SHOWN = 20, /* characters */
};

/* Values low..high are drawn from pixel `from` to pixel `to`. */
struct axis {
	double low, high;
	double from, to;
	double step;
};

static double place(const struct axis *a, double value)
{
	return a->from +
	       (value - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* 1, 2 or 5 times a power of ten, about a sixth of the range */
static double nice_step(double range)
{
	double raw = range / 6, power = pow(10, floor(log10(raw)));
	double factor = raw / power;

	return power * (factor < 1.5	      ? 1
			       : factor < 3.5 ? 2
			       : factor < 7.5 ? 5
					      : 10);
}

static void include(struct axis *a, double value)
{
	a->low = fmin(a->low, value);
	a->high = fmax(a->high, value);
}

static struct axis empty_axis(double from, double to)
{
	return (struct axis){INFINITY, -INFINITY, from, to, 0};
}

/* Some air at both ends, and a range even where all values are one. */
static void finish_axis(struct axis *a)
{
	double air = (a->high - a->low) * 0.06;

	if (air <= 0)
		air = fabs(a->high) > 0 ? fabs(a->high) * 0.05 : 1;
	a->low -= air;
	a->high += air;
	a->step = nice_step(a->high - a->low);
}

void hak_plot_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '&':
			fputs("&amp;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		default:
			fputc(*text, f);
		}
	}
}

static void open_svg(FILE *f, int height, const char *label)
{
	fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
		WIDTH, height);
	hak_plot_text(f, label);
	fputs("\">\n", f);
}

static void put_line(
	FILE *f, const char *class, double x1, double y1, double x2, double y2)
{
	fprintf(f,
		"<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
		"y2=\"%.1f\"/>\n",
		class, x1, y1, x2, y2);
}

static void put_label(
	FILE *f, const char *class, double x, double y, const char *text)
{
	fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	hak_plot_text(f, text);
	fputs("</text>\n", f);
}

static bool continues_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* A long name loses its middle: what tells it from others is at its ends. */
static void put_name(FILE *f, const char *name, double y)
{
	size_t head = NAME_SHOWN / 2 - 2, tail = strlen(name) - NAME_SHOWN / 2;
	char text[NAME_SHOWN + 4];

	if (strlen(name) <= NAME_SHOWN) {
		put_label(f, "name", LEFT - 12, y + 4, name);
		return;
	}
	while (head && continues_character(name[head]))
		head--;
	while (continues_character(name[tail]))
		tail++;
	snprintf(text, sizeof text, "%.*s...%s", (int)head, name, name + tail);
	put_label(f, "name", LEFT - 12, y + 4, text);
}

static const char *tick_text(const struct trial *t, bool change, double value,
	char text[REPORT_FIGURE])
{
	if (value == 0)
		return "0";
	if (change)
		return hak_report_percent(value, true, text);
	return hak_metric_format(t->metric, value, text, REPORT_FIGURE);
}

/* Grid and figures under a plot whose values go from left to right. */
static void put_x_axis(FILE *f, const struct trial *t, bool change,
	const struct axis *a, double bottom)
{
	char text[REPORT_FIGURE];

	for (double n = ceil(a->low / a->step); n * a->step <= a->high; n++) {
		double v = n * a->step, x = place(a, v);

		put_line(f, n == 0 && change ? "zero" : "grid", x, TOP, x,
			bottom);
		put_label(f, "tick", x, bottom + 16,
			tick_text(t, change, v, text));
	}
}

/* ---- changes ---- */

static void put_interval(FILE *f, const struct side *s, size_t index,
	const struct judgement *j, const struct axis *a, double y)
{
	char mean[REPORT_FIGURE], median[REPORT_FIGURE], low[REPORT_FIGURE],
		high[REPORT_FIGURE];
	double from = place(a, j->low), to = place(a, j->high);

	fprintf(f, "<g class=\"s%zu\"><title>", index % PLOT_COLOURS);
	hak_plot_text(f, s->name);
	fprintf(f, ": mean %s, median %s, interval %s to %s, %s</title>\n",
		hak_report_percent(j->change, true, mean),
		hak_report_percent(j->change_median, true, median),
		hak_report_percent(j->low, true, low),
		hak_report_percent(j->high, true, high),
		hak_judge_verdict_name(j->verdict));
	put_line(f, "bar", from, y, to, y);
	put_line(f, "end", from, y - 6, from, y + 6);
	put_line(f, "end", to, y - 6, to, y + 6);
	put_line(f, "median", place(a, j->change_median), y - 9,
		place(a, j->change_median), y + 9);
	fprintf(f, "<circle r=\"5\" cx=\"%.1f\" cy=\"%.1f\"/></g>\n",
		place(a, j->change), y);
}

static struct axis changes_axis(
	const struct trial *t, const struct judgement *j)
{
	struct axis a = empty_axis(LEFT, RIGHT);

	include(&a, -t->rule.margin);
	include(&a, t->rule.margin);
	for (size_t i = 0; i + 1 < t->sides; i++) {
		if (!j[i].runs)
			continue;
		include(&a, j[i].low);
		include(&a, j[i].high);
		include(&a, j[i].change_median);
	}
	finish_axis(&a);
	return a;
}

void hak_plot_intervals(
	FILE *f, const struct trial *t, const struct judgement *j)
{
	struct axis a = changes_axis(t, j);
	int bottom = TOP + (int)(t->sides - 1) * ROW;

	open_svg(f, bottom + 26, "Changes against the reference");
	fprintf(f,
		"<rect class=\"margin\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
		"height=\"%d\"><title>changes that do not matter</title>"
		"</rect>\n",
		place(&a, -t->rule.margin), TOP,
		place(&a, t->rule.margin) - place(&a, -t->rule.margin),
		bottom - TOP);
	put_x_axis(f, t, true, &a, bottom);
	for (size_t i = 1; i < t->sides; i++) {
		double y = TOP + ((double)i - 0.5) * ROW;

		put_name(f, t->side[i].name, y);
		if (j[i - 1].runs)
			put_interval(f, &t->side[i], i, &j[i - 1], &a, y);
		else
			put_label(f, "none", (LEFT + RIGHT) / 2.0, y + 4,
				hak_judge_verdict_name(j[i - 1].verdict));
	}
	fputs("</svg>\n", f);
}

/* ---- runs ---- */

static struct axis values_axis(const struct trial *t, double from, double to)
{
	struct axis a = empty_axis(from, to);

	for (size_t i = 0; i < t->sides; i++)
		for (size_t r = 0; r < t->side[i].runs; r++)
			include(&a, t->side[i].run[r].value[t->metric]);
	if (!isfinite(a.low))
		a.low = a.high = 0;
	finish_axis(&a);
	return a;
}

static void put_run(FILE *f, const struct trial *t, size_t side, size_t run,
	double x, double y)
{
	char text[REPORT_FIGURE];

	fprintf(f, "<circle r=\"%s\" cx=\"%.1f\" cy=\"%.1f\"><title>",
		t->side[side].runs > 60 ? "2.5" : "3.5", x, y);
	hak_plot_text(f, t->side[side].name);
	fprintf(f, ", run %zu: %s</title></circle>\n", run + 1,
		hak_metric_format(t->metric,
			t->side[side].run[run].value[t->metric], text,
			sizeof text));
}

static void put_y_axis(FILE *f, const struct trial *t, const struct axis *a)
{
	char text[REPORT_FIGURE];

	for (double n = ceil(a->low / a->step); n * a->step <= a->high; n++) {
		double v = n * a->step, y = place(a, v);

		put_line(f, "grid", RUNS_LEFT, y, RIGHT, y);
		put_label(f, "value", RUNS_LEFT - 8, y + 4,
			tick_text(t, false, v, text));
	}
}

static size_t most_runs(const struct trial *t)
{
	size_t most = 1;

	for (size_t i = 0; i < t->sides; i++)
		if (t->side[i].runs > most)
			most = t->side[i].runs;
	return most;
}

static void put_side_runs(FILE *f, const struct trial *t, size_t side,
	const struct axis *x, const struct axis *y)
{
	struct series series;
	struct summary sum;

	if (!hak_trial_series(&t->side[side], t->metric, &series))
		return;
	hak_judge_summarise(&series, &sum);
	fprintf(f, "<g class=\"s%zu\">\n", side % PLOT_COLOURS);
	put_line(f, "mean", RUNS_LEFT, place(y, sum.mean), RIGHT,
		place(y, sum.mean));
	for (size_t r = 0; r < series.count; r++)
		put_run(f, t, side, r, place(x, (double)r + 1),
			place(y, series.value[r]));
	fputs("</g>\n", f);
	free((void *)series.value);
}

void hak_plot_runs(FILE *f, const struct trial *t)
{
	struct axis y = values_axis(t, RUNS_HEIGHT, TOP);
	struct axis x = {0, (double)most_runs(t) + 1, RUNS_LEFT, RIGHT, 0};
	double step = fmax(1, nice_step(x.high));

	open_svg(f, RUNS_HEIGHT + 40, "Runs in their order");
	put_y_axis(f, t, &y);
	for (double r = step; r < x.high; r += step) {
		char text[REPORT_FIGURE];

		snprintf(text, sizeof text, "%.0f", r);
		put_label(f, "tick", place(&x, r), RUNS_HEIGHT + 16, text);
	}
	put_label(f, "tick", (RUNS_LEFT + RIGHT) / 2.0, RUNS_HEIGHT + 34,
		t->rule.blocks ? "block" : "run");
	for (size_t i = 0; i < t->sides; i++)
		put_side_runs(f, t, i, &x, &y);
	fputs("</svg>\n", f);
}

/* ---- spread ---- */

/* Runs of one value must not hide each other: they go up and down in turn. */
static double aside(size_t run)
{
	static const int offset[] = {0, -5, 5, -9, 9, -2, 2, -7, 7};

	return offset[run % (sizeof offset / sizeof *offset)];
}

static void put_side_spread(FILE *f, const struct trial *t, size_t side,
	const struct axis *x, double y)
{
	struct series series;
	struct summary sum;

	if (!hak_trial_series(&t->side[side], t->metric, &series))
		return;
	hak_judge_summarise(&series, &sum);
	fprintf(f, "<g class=\"s%zu\">\n", side % PLOT_COLOURS);
	for (size_t r = 0; r < series.count; r++)
		put_run(f, t, side, r, place(x, series.value[r]), y + aside(r));
	put_line(f, "end", place(x, sum.mean), y - 14, place(x, sum.mean),
		y + 14);
	put_line(f, "median", place(x, sum.median), y - 14,
		place(x, sum.median), y + 14);
	fputs("</g>\n", f);
	free((void *)series.value);
}

void hak_plot_spread(FILE *f, const struct trial *t)
{
	struct axis x = values_axis(t, LEFT, RIGHT);
	int bottom = TOP + (int)t->sides * ROW;

	open_svg(f, bottom + 26, "Runs by side");
	put_x_axis(f, t, false, &x, bottom);
	for (size_t i = 0; i < t->sides; i++) {
		double y = TOP + ((double)i + 0.5) * ROW;

		put_name(f, t->side[i].name, y);
		put_side_spread(f, t, i, &x, y);
	}
	fputs("</svg>\n", f);
}
