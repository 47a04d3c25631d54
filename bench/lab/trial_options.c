/*
 * The options that the commands of the lab share: read, checked against each
 * other, and turned into rule, plan and reports. A value that makes no sense
 * ends the command with one line; nothing is clamped in silence.
 */
#include <config.h>

#include "trial_options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lab.h"
#include "report.h"

enum {
	RUNS_DEFAULT = 20,
	RUNS_MAX = 100000,
	RESAMPLES_MIN = 1000,
	RESAMPLES_DEFAULT = 10000,
	RESAMPLES_MAX = 1000000,
	TAIL_RESAMPLES = 5, /* beyond an end of an interval */
};

/* Above it an interval leaves out more than it has. */
static const double ALPHA_MAX = 0.5;

const char hak_trial_options_help[] =
	"What is measured:\n"
	"  --metric cpu|wall|rss|instructions|pattern   [cpu, or pattern if "
	"given]\n"
	"  --pattern REGEX      a number the program prints: the last match, "
	"or its\n"
	"                       first (group); extended regular expression\n"
	"  --better higher|lower   of that number [higher]\n"
	"How long (default --runs 20; the first bound reached counts):\n"
	"  --runs N             runs of each side\n"
	"  --time SECONDS       budget of the whole trial; also 5m, 1h\n"
	"  --precision PERCENT  half width of the interval that is narrow "
	"enough\n"
	"How it is run:\n"
	"  --warmup N           blocks that do not count [1]\n"
	"  --pin CPUS           only on these processors, as 0 or 0-2,5\n"
	"  --timeout SECONDS    of one run [that of --time, or none]\n"
	"  --seed N             of order, padding and judge [random, printed]\n"
	"How it is judged:\n"
	"  --margin PERCENT     a smaller change does not matter [0.5]\n"
	"  --strong PERCENT     a larger one is a STRONG GO [3.0]\n"
	"  --alpha PERCENT      error rate of the whole comparison, to 50 [5]\n"
	"  --resamples N        of bootstrap and permutation test [10000, more "
	"if\n"
	"                       alpha or the number of sides asks for it]\n"
	"How it is told:\n"
	"  --json[=FILE]        the report as JSON, on standard output or to a "
	"file\n"
	"  --html FILE          the report as a page with plots\n"
	"  --quiet              no line of progress on a terminal\n"
	"  -h, --help           print this text\n";

void hak_trial_options_init(struct trial_options *o)
{
	memset(o, 0, sizeof *o);
	o->metric = METRIC_COUNT;
	o->rule = hak_judge_defaults;
	o->rule.resamples = 0; /* not given */
	o->plan.warmup = 1;
	if (getrandom(&o->seed, sizeof o->seed, 0) != sizeof o->seed)
		o->seed = 1;
	/* short enough to be typed again, and exact in any JSON reader */
	o->seed >>= 40;
}

/* ---- values ---- */

static _Noreturn void refuse(
	const char *option, const char *text, const char *expected)
{
	hak_command_fail(STATUS_FAILED, "bad value for --%s: %s expected: %s",
		option, expected, text);
}

static double read_number(
	const char *option, const char *text, const char **rest)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !isfinite(value))
		refuse(option, text, "a number");
	*rest = end + strspn(end, " ");
	return value;
}

double hak_parse_percent(const char *option, const char *text)
{
	const char *rest;
	double value = read_number(option, text, &rest);

	if ((*rest && strcmp(rest, "%") != 0) || value <= 0 || value >= 100)
		refuse(option, text, "a percentage between 0 and 100");
	return value / 100;
}

double hak_parse_seconds(const char *option, const char *text)
{
	const char *rest, *unit;
	double value = read_number(option, text, &rest);
	static const char units[] = "smh";
	static const double factor[] = {1, 60, 3600};

	unit = *rest ? strchr(units, *rest) : units;
	if (!unit || (*rest && rest[1]) || value <= 0)
		refuse(option, text, "a time above zero, as 90, 90s, 5m or 1h");
	return value * factor[unit - units];
}

unsigned long hak_parse_count(const char *option, const char *text,
	unsigned long least, unsigned long greatest)
{
	char expected[80], *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text >= '0' && *text <= '9' && !*end && value >= least &&
		value <= greatest)
		return value;
	snprintf(expected, sizeof expected, "a number from %lu to %lu", least,
		greatest);
	refuse(option, text, expected);
}

static void parse_cpus(struct runner *r, const char *text)
{
	const char *at = text;

	CPU_ZERO(&r->cpus);
	r->pinned = true;
	do {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;
		bool bad = *at < '0' || *at > '9';

		at = end;
		if (*at == '-') {
			bad |= at[1] < '0' || at[1] > '9';
			last = strtoul(at + 1, &end, 10);
			at = end;
		}
		if (bad || last < first || last >= CPU_SETSIZE ||
			(*at && *at != ','))
			refuse("pin", text, "processors as 0 or 0-2,5");
		for (; first <= last; first++)
			CPU_SET(first, &r->cpus);
	} while (*at++ == ',');
}

static void check_cpus(const struct runner *r)
{
	cpu_set_t allowed, both;

	if (!r->pinned || sched_getaffinity(0, sizeof allowed, &allowed))
		return;
	CPU_AND(&both, &allowed, &r->cpus);
	if (!CPU_EQUAL(&both, &r->cpus))
		hak_command_fail(STATUS_FAILED,
			"bad value for --pin: a processor that is not there");
}

static int parse_better(const char *text)
{
	if (strcmp(text, "higher") != 0 && strcmp(text, "lower") != 0)
		refuse("better", text, "higher or lower");
	return text[0];
}

static enum metric parse_metric(const char *text)
{
	enum metric metric = hak_metric_find(text);

	if (metric == METRIC_COUNT)
		refuse("metric", text,
			"cpu, wall, rss, instructions or pattern");
	return metric;
}

/* ---- taking options ---- */

static bool take_judging(struct trial_options *o, int code, const char *arg)
{
	switch (code) {
	case OPTION_METRIC:
		o->metric = parse_metric(arg);
		return true;
	case OPTION_BETTER:
		o->better = parse_better(arg);
		return true;
	case OPTION_MARGIN:
		o->rule.margin = hak_parse_percent("margin", arg);
		return true;
	case OPTION_STRONG:
		o->rule.strong = hak_parse_percent("strong", arg);
		return true;
	case OPTION_ALPHA:
		o->rule.alpha = hak_parse_percent("alpha", arg);
		if (o->rule.alpha > ALPHA_MAX)
			refuse("alpha", arg, "at most 50 %");
		return true;
	case OPTION_RESAMPLES:
		o->rule.resamples = (unsigned)hak_parse_count(
			"resamples", arg, RESAMPLES_MIN, RESAMPLES_MAX);
		return true;
	case OPTION_SEED:
		o->seed = hak_parse_count("seed", arg, 0, UINT32_MAX);
		return true;
	case OPTION_JSON:
		o->json = arg ? arg : "-";
		return true;
	case OPTION_HTML:
		o->html = arg;
		return true;
	}
	return false;
}

static bool take_bound(struct trial_options *o, int code, const char *arg)
{
	switch (code) {
	case OPTION_RUNS:
		o->plan.runs = hak_parse_count("runs", arg, 2, RUNS_MAX);
		return true;
	case OPTION_TIME:
		o->plan.time = hak_parse_seconds("time", arg);
		return true;
	case OPTION_PRECISION:
		o->plan.precision = hak_parse_percent("precision", arg);
		return true;
	}
	return false;
}

static bool take_running(struct trial_options *o, int code, const char *arg)
{
	switch (code) {
	case OPTION_PATTERN:
		o->pattern = hak_lab_copy(arg);
		return true;
	case OPTION_WARMUP:
		o->plan.warmup = hak_parse_count("warmup", arg, 0, 1000);
		return true;
	case OPTION_PIN:
		parse_cpus(&o->plan.runner, arg);
		return true;
	case OPTION_TIMEOUT:
		o->plan.runner.timeout = hak_parse_seconds("timeout", arg);
		return true;
	case OPTION_QUIET:
		o->plan.silent = true;
		return true;
	}
	return false;
}

bool hak_trial_options_take(struct trial_options *o, int code, const char *arg)
{
	if (take_judging(o, code, arg))
		return true;
	if (take_bound(o, code, arg)) {
		o->planned = o->bounded = true;
		return true;
	}
	if (!take_running(o, code, arg))
		return false;
	o->planned = true;
	return true;
}

void hak_trial_options_refuse(int code, char *const *argv)
{
	if (code == ':')
		hak_command_fail(STATUS_FAILED, "option needs an argument: %s",
			argv[optind - 1]);
	hak_command_bad_option(argv);
}

/* ---- putting them to use ---- */

static void compile_pattern(struct trial_options *o)
{
	struct runner *r = &o->plan.runner;
	char why[128];
	int error;

	if (!o->pattern)
		return;
	if (strchr(o->pattern, '\n'))
		hak_command_fail(STATUS_FAILED,
			"bad value for --pattern: it is looked for in each "
			"line by itself");
	error = regcomp(&r->pattern, o->pattern, REG_EXTENDED | REG_NEWLINE);
	if (error) {
		regerror(error, &r->pattern, why, sizeof why);
		hak_command_fail(STATUS_FAILED,
			"bad value for --pattern: %s: %s", why, o->pattern);
	}
	r->has_pattern = true;
}

/* "ops_per_s" of "ops_per_s=([0-9.]+)", else the pattern itself */
static char *title_of(const char *pattern)
{
	size_t n = 0;

	while (isalnum((unsigned char)pattern[n]) || pattern[n] == '_')
		n++;
	return hak_lab_print(
		"%.*s", (int)(n > 2 ? n : strlen(pattern)), pattern);
}

static void choose_metric(struct trial_options *o, struct trial *t)
{
	bool recorded = t->sides && !t->side[0].argv;

	if (o->metric != METRIC_COUNT)
		t->metric = o->metric;
	else if (!recorded)
		t->metric = o->pattern ? METRIC_PATTERN : METRIC_CPU;
	if (t->metric == METRIC_PATTERN && !recorded && !o->pattern)
		hak_command_fail(STATUS_FAILED,
			"--metric pattern needs a --pattern that finds it");
	if (t->metric != METRIC_PATTERN && o->better)
		hak_command_fail(STATUS_FAILED,
			"--better is for printed values, "
			"not for this metric: %s",
			hak_metric_info[t->metric].name);
	if (o->better)
		t->value_lower = o->better == 'l';
	if (o->pattern)
		t->value_title = title_of(o->pattern);
}

/* An interval must end among the resamples, and p be able to get there. */
static void check_resamples(struct judge_rule *rule, size_t comparisons)
{
	double least =
		ceil(2 * TAIL_RESAMPLES * (double)comparisons / rule->alpha);

	if (least > RESAMPLES_MAX)
		hak_command_fail(STATUS_FAILED,
			"--alpha is too small for %zu comparison%s: %g%%",
			comparisons, comparisons == 1 ? "" : "s",
			rule->alpha * 100);
	if (!rule->resamples)
		rule->resamples = (unsigned)fmax(least, RESAMPLES_DEFAULT);
	if (rule->resamples < least)
		hak_command_fail(STATUS_FAILED,
			"--resamples must be at least %.0f for %zu "
			"comparison%s at %g%%: %u",
			least, comparisons, comparisons == 1 ? "" : "s",
			rule->alpha * 100, rule->resamples);
}

static void check_reports(const struct trial_options *o)
{
	if (o->json && o->html && strcmp(o->json, o->html) == 0)
		hak_command_fail(STATUS_FAILED,
			"--json and --html go to one place: %s", o->json);
	if (o->json)
		hak_report_check(o->json);
	if (o->html)
		hak_report_check(o->html);
}

void hak_trial_options_check(struct trial_options *o, size_t comparisons)
{
	if (o->rule.strong <= o->rule.margin)
		hak_command_fail(STATUS_FAILED,
			"--strong must be above --margin: %g%% and %g%%",
			o->rule.strong * 100, o->rule.margin * 100);
	check_cpus(&o->plan.runner);
	check_resamples(&o->rule, comparisons);
	check_reports(o);
}

void hak_trial_options_apply(struct trial_options *o, struct trial *t)
{
	bool blocks = t->rule.blocks;

	hak_trial_options_check(o, t->sides - 1);
	choose_metric(o, t);
	compile_pattern(o);
	if (!o->bounded)
		o->plan.runs = RUNS_DEFAULT;
	t->seed = o->seed;
	t->rule = o->rule;
	t->rule.seed = o->seed;
	t->rule.blocks = blocks;
}

static void write_report(const char *path, const struct trial *t,
	void (*report)(FILE *f, const struct trial *t))
{
	FILE *f = hak_report_open(path);

	report(f, t);
	hak_report_close(f, path);
}

void hak_trial_options_report(
	const struct trial_options *o, const struct trial *t)
{
	if (!hak_report_owns_output(o->json, o->html))
		write_report("-", t, hak_report_text);
	if (o->json)
		write_report(o->json, t, hak_report_json);
	if (o->html)
		write_report(o->html, t, hak_report_html);
}
