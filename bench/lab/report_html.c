/*
 * The report as a page: one file that needs no network and no script, with
 * the verdicts first, then the plots, then all figures and what is needed to
 * run the trial again. It follows the reader's choice of light or dark.
 */
#include <config.h>

#include "report.h"

#include <stdlib.h>

#include "lab.h"
#include "plot.h"

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\">\n"
	"<head>\n"
	"<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, "
	"initial-scale=1\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n"
	"<title>hakmem ab</title>\n"
	"<style>\n"
	":root {\n"
	"  --page: #ffffff; --text: #1c2026; --soft: #5b6470; --line: "
	"#d9dee5;\n"
	"  --band: #eef1f5; --good: #11703a; --bad: #b3261e; --open: #7a5200;\n"
	"  --c0: #6a7380; --c1: #1f5fbf; --c2: #b8570b; --c3: #0f7b6c;\n"
	"  --c4: #8b3fa8; --c5: #b32d5e; --c6: #5d7a12; --c7: #30719e;\n"
	"}\n"
	"@media (prefers-color-scheme: dark) {\n"
	"  :root {\n"
	"    --page: #14171c; --text: #e6e9ee; --soft: #a0a9b6; --line: "
	"#333a45;\n"
	"    --band: #20262f; --good: #6fd08c; --bad: #ff8a80; --open: "
	"#f0c060;\n"
	"    --c0: #a3adba; --c1: #7fb2ff; --c2: #ffab66; --c3: #62d6c4;\n"
	"    --c4: #d49cf0; --c5: #ff92b8; --c6: #b7d65c; --c7: #8ecbf0;\n"
	"  }\n"
	"}\n"
	"body { margin: 0 auto; max-width: 54rem; padding: 1.5rem 1rem 3rem;\n"
	"  background: var(--page); color: var(--text);\n"
	"  font: 16px/1.5 system-ui, sans-serif; }\n"
	"h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; "
	"}\n"
	"h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }\n"
	"p { margin: .25rem 0; }\n"
	".soft { color: var(--soft); }\n"
	".wide { overflow-x: auto; }\n"
	"table { border-collapse: collapse; width: 100%;\n"
	"  font-variant-numeric: tabular-nums; }\n"
	"th, td { padding: .3rem .6rem; text-align: right; white-space: "
	"nowrap;\n"
	"  border-bottom: 1px solid var(--line); }\n"
	"th { color: var(--soft); font-weight: 600; }\n"
	"th:first-child, td:first-child { text-align: left; white-space: "
	"normal;\n"
	"  overflow-wrap: anywhere; min-width: 8rem; }\n"
	"code { font: .85rem/1.4 ui-monospace, monospace; overflow-wrap: "
	"anywhere; }\n"
	"dt { font-weight: 600; } dd { margin: 0 0 .5rem; }\n"
	".verdict { font-weight: 700; }\n"
	".good { color: var(--good); } .bad { color: var(--bad); }\n"
	".open { color: var(--open); }\n"
	".key::before { content: \"\"; display: inline-block; width: .7em;\n"
	"  height: .7em; border-radius: 50%; margin-right: .5em;\n"
	"  background: currentColor; }\n"
	".key span { color: var(--text); margin-right: 1em; }\n"
	"svg { width: 100%; min-width: 36rem; height: auto; display: block; }\n"
	"svg text { fill: var(--soft); font-size: 12px; }\n"
	"svg .name { fill: var(--text); text-anchor: end; font-size: 13px; }\n"
	"svg .tick, svg .none { text-anchor: middle; }\n"
	"svg .value { text-anchor: end; }\n"
	"svg .grid { stroke: var(--line); }\n"
	"svg .zero { stroke: var(--text); }\n"
	"svg .margin { fill: var(--band); }\n"
	"svg circle { fill: currentColor; stroke: var(--page); }\n"
	"svg .bar { stroke: currentColor; stroke-width: 3; }\n"
	"svg .end { stroke: currentColor; stroke-width: 2; }\n"
	"svg .median { stroke: currentColor; stroke-width: 2;\n"
	"  stroke-dasharray: 3 2; }\n"
	"svg .mean { stroke: currentColor; stroke-dasharray: 6 4; }\n"
	".s0 { color: var(--c0); } .s1 { color: var(--c1); }\n"
	".s2 { color: var(--c2); } .s3 { color: var(--c3); }\n"
	".s4 { color: var(--c4); } .s5 { color: var(--c5); }\n"
	".s6 { color: var(--c6); } .s7 { color: var(--c7); }\n"
	"</style>\n"
	"</head>\n"
	"<body>\n";

static const char *verdict_class(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_STRONG_GO:
	case VERDICT_GO:
		return "good";
	case VERDICT_NO_GO:
	case VERDICT_CRASH:
		return "bad";
	case VERDICT_INCONCLUSIVE:
		return "open";
	default:
		return "soft";
	}
}

static void put_name(FILE *f, const struct trial *t, size_t side)
{
	fprintf(f, "<span class=\"key s%zu\"><span>", side % PLOT_COLOURS);
	hak_plot_text(f, t->side[side].name);
	fputs("</span></span>", f);
}

static void put_heading(FILE *f, const struct trial *t)
{
	fputs("<h1>", f);
	hak_plot_text(f, hak_trial_title(t, t->metric));
	fputs(": ", f);
	if (t->sides == 2)
		hak_plot_text(f, t->side[1].name);
	else
		fprintf(f, "%zu sides", t->sides - 1);
	fputs(" against ", f);
	hak_plot_text(f, t->side[0].name);
	fprintf(f, "</h1>\n<p class=\"soft\">%s; ",
		hak_report_better(t, t->metric));
	if (t->rule.blocks)
		fprintf(f, "runs interleaved in blocks, %zu of warm-up",
			t->warmup);
	else
		fputs("unpaired runs", f);
	if (t->elapsed > 0)
		fprintf(f, "; %.0f s, ended by %s", t->elapsed, t->stopped_by);
	fputs("</p>\n", f);
}

static void put_figures(FILE *f, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE],
		d[REPORT_FIGURE], e[REPORT_FIGURE];

	if (!j->runs) {
		fputs("<td>-</td><td>-</td><td>-</td><td>-</td>", f);
		return;
	}
	fprintf(f, "<td>%s</td><td>%s</td><td>%s to %s</td><td>",
		hak_report_percent(j->change, true, a),
		hak_report_percent(j->change_median, true, b),
		hak_report_percent(j->low, true, c),
		hak_report_percent(j->high, true, d));
	hak_plot_text(f, hak_report_p(j->p_adjusted, e));
	fputs("</td>", f);
}

static void put_judgements(
	FILE *f, const struct trial *t, const struct judgement *j)
{
	fprintf(f,
		"<div class=\"wide\"><table>\n<tr><th>side</th>"
		"<th>verdict</th><th>mean</th><th>median</th>"
		"<th>%.4g&nbsp;%% interval</th><th>p</th></tr>\n",
		100 * (1 - t->rule.alpha / (double)(t->sides - 1)));
	for (size_t i = 1; i < t->sides; i++) {
		enum verdict verdict = j[i - 1].verdict;

		fputs("<tr><td>", f);
		put_name(f, t, i);
		fprintf(f, "</td><td class=\"verdict %s\">%s</td>",
			verdict_class(verdict),
			hak_judge_verdict_name(verdict));
		put_figures(f, &j[i - 1]);
		fputs("</tr>\n", f);
	}
	fputs("</table></div>\n", f);
}

static void put_too_few(FILE *f, const struct side *s, size_t runs)
{
	fputs("<p>", f);
	hak_plot_text(f, s->name);
	fprintf(f,
		": too few runs for a verdict: %zu, at least %d are "
		"needed.</p>\n",
		runs, JUDGE_RUNS_MIN);
}

static void put_power(FILE *f, const struct trial *t, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];

	for (size_t i = 1; i < t->sides; i++, j++) {
		if (j->runs < JUDGE_RUNS_MIN && j->verdict != VERDICT_CRASH)
			put_too_few(f, &t->side[i], j->runs);
		if (!j->runs)
			continue;
		fputs("<p class=\"soft\">", f);
		hak_plot_text(f, t->side[i].name);
		fprintf(f,
			": a change of %s needs %s runs a side, the %zu "
			"here can settle %s (alpha %g&nbsp;%% two-sided, "
			"power 80&nbsp;%%).</p>\n",
			hak_report_percent(j->change, true, a),
			hak_report_runs(j->runs_needed, b), j->runs,
			hak_report_percent(j->detectable, false, c),
			t->rule.alpha * 100);
	}
}

static void put_side(FILE *f, const struct trial *t, size_t side)
{
	char text[REPORT_FIGURE];
	struct series series;
	struct summary sum;
	double value[4];

	fputs("<tr><td>", f);
	put_name(f, t, side);
	fprintf(f, "</td><td>%zu</td>", t->side[side].runs);
	if (!hak_trial_series(&t->side[side], t->metric, &series)) {
		fputs("<td colspan=\"5\"></td></tr>\n", f);
		return;
	}
	hak_judge_summarise(&series, &sum);
	value[0] = sum.mean;
	value[1] = sum.median;
	value[2] = sum.least;
	value[3] = sum.greatest;
	for (int i = 0; i < 4; i++)
		fprintf(f, "<td>%s</td>",
			hak_metric_format(
				t->metric, value[i], text, sizeof text));
	fprintf(f, "<td>%s</td></tr>\n",
		hak_report_percent(sum.cv, false, text));
	free((void *)series.value);
}

static void put_sides(FILE *f, const struct trial *t)
{
	fputs("<div class=\"wide\"><table>\n<tr><th>side</th><th>runs</th>"
	      "<th>mean</th><th>median</th><th>least</th><th>greatest</th>"
	      "<th>CV</th></tr>\n",
		f);
	for (size_t i = 0; i < t->sides; i++)
		put_side(f, t, i);
	fputs("</table></div>\n", f);
}

static void put_other_metric(FILE *f, const struct trial *t, enum metric metric,
	const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];

	for (size_t i = 1; i < t->sides; i++, j++) {
		if (!j->runs)
			continue;
		fputs("<tr><td>", f);
		hak_plot_text(f, hak_trial_title(t, metric));
		fputs("</td><td>", f);
		hak_plot_text(f, t->side[i].name);
		fprintf(f, "</td><td>%s</td><td>%s to %s</td></tr>\n",
			hak_report_percent(j->change, true, a),
			hak_report_percent(j->low, true, b),
			hak_report_percent(j->high, true, c));
	}
}

static void put_other_metrics(
	FILE *f, const struct trial *t, struct judgement *j)
{
	bool any = false;

	for (int m = 0; m < METRIC_COUNT; m++) {
		enum metric metric = (enum metric)m;

		if (metric == t->metric || !hak_trial_judge(t, metric, j))
			continue;
		if (!any)
			fputs("<h2>Measured along the way, no verdict</h2>\n"
			      "<div class=\"wide\"><table>\n<tr><th>metric"
			      "</th><th>side</th><th>change</th>"
			      "<th>interval</th></tr>\n",
				f);
		any = true;
		put_other_metric(f, t, metric, j);
	}
	if (any)
		fputs("</table></div>\n", f);
}

static void put_command(FILE *f, const struct side *s)
{
	char *text = hak_side_text(s);

	fputs("<dt>", f);
	hak_plot_text(f, s->name);
	fputs("</dt><dd>", f);
	if (*text) {
		fputs("<code>", f);
		hak_plot_text(f, text);
		fputs("</code>", f);
	} else {
		fputs("recorded runs", f);
	}
	free(text);
	if (s->failure) {
		text = hak_side_failure_text(s);
		fprintf(f, "<br><span class=\"bad\">failed in block %zu: ",
			s->failure_block + 1);
		hak_plot_text(f, text);
		fputs("</span>", f);
		free(text);
	}
	fputs("</dd>\n", f);
}

static void put_setup(FILE *f, const struct trial *t)
{
	fputs("<h2>How it was measured</h2>\n<dl>\n", f);
	for (size_t i = 0; i < t->sides; i++)
		put_command(f, &t->side[i]);
	fprintf(f,
		"</dl>\n<p class=\"soft\">Margin %g&nbsp;%%, strong from "
		"%g&nbsp;%%, %u resamples, seed %llu.%s</p>\n",
		t->rule.margin * 100, t->rule.strong * 100, t->rule.resamples,
		(unsigned long long)t->seed,
		t->sides > 2 ? " Intervals and p are adjusted for the number "
			       "of comparisons."
			     : "");
}

void hak_report_html_lines(FILE *f, const char *title, const char *lines)
{
	fprintf(f, "<h1>%s</h1>\n<p>", title);
	for (; *lines; lines++) {
		char c[2] = {*lines, '\0'};

		if (*lines != '\n')
			hak_plot_text(f, c);
		else if (lines[1])
			fputs("</p>\n<p>", f);
	}
	fputs("</p>\n", f);
}

void hak_report_html_open(FILE *f)
{
	fputs(head, f);
}

void hak_report_html_section(FILE *f, const struct trial *t)
{
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	hak_trial_judge(t, t->metric, j);
	put_heading(f, t);
	put_judgements(f, t, j);
	put_power(f, t, j);
	fputs("<h2>Change against the reference</h2>\n<p class=\"soft\">Bar: "
	      "interval; dot: mean; dashed: median; shaded: changes that do "
	      "not matter.</p>\n",
		f);
	fputs("<div class=\"wide\">", f);
	hak_plot_intervals(f, t, j);
	fputs("</div>\n", f);
	fputs("<h2>Runs by side</h2>\n", f);
	put_sides(f, t);
	fputs("<p class=\"soft\">Line: mean; dashed: median.</p>\n", f);
	fputs("<div class=\"wide\">", f);
	hak_plot_spread(f, t);
	fputs("</div>\n", f);
	fputs("<h2>Runs in their order</h2>\n<p class=\"soft\">", f);
	for (size_t i = 0; i < t->sides; i++)
		put_name(f, t, i);
	fputs("dashed: mean of each side</p>\n", f);
	fputs("<div class=\"wide\">", f);
	hak_plot_runs(f, t);
	fputs("</div>\n", f);
	put_other_metrics(f, t, j);
	put_setup(f, t);
	free(j);
}

void hak_report_html_close(FILE *f)
{
	fputs("</body>\n</html>\n", f);
}

void hak_report_html(FILE *f, const struct trial *t)
{
	hak_report_html_open(f);
	hak_report_html_section(f, t);
	hak_report_html_close(f);
}
