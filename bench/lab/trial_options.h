#ifndef HAK_LAB_TRIAL_OPTIONS_H
#define HAK_LAB_TRIAL_OPTIONS_H

#include <getopt.h>

#include "plan.h"

/*
 * The options that `hakmem ab`, `hakmem sweep` and the scorecard share, with
 * codes for getopt_long beyond every character.
 */
enum trial_option_code {
	OPTION_METRIC = 256,
	OPTION_PATTERN,
	OPTION_BETTER,
	OPTION_MARGIN,
	OPTION_STRONG,
	OPTION_ALPHA,
	OPTION_RESAMPLES,
	OPTION_SEED,
	OPTION_RUNS,
	OPTION_TIME,
	OPTION_PRECISION,
	OPTION_WARMUP,
	OPTION_PIN,
	OPTION_TIMEOUT,
	OPTION_QUIET,
	OPTION_JSON,
	OPTION_HTML,
	OPTION_OWN, /* the first code for a command's own options */
};

/* Rows for a command's struct option array. */
#define TRIAL_OPTIONS                                                          \
	{"metric", required_argument, NULL, OPTION_METRIC},                    \
		{"pattern", required_argument, NULL, OPTION_PATTERN},          \
		{"better", required_argument, NULL, OPTION_BETTER},            \
		{"margin", required_argument, NULL, OPTION_MARGIN},            \
		{"strong", required_argument, NULL, OPTION_STRONG},            \
		{"alpha", required_argument, NULL, OPTION_ALPHA},              \
		{"resamples", required_argument, NULL, OPTION_RESAMPLES},      \
		{"seed", required_argument, NULL, OPTION_SEED},                \
		{"runs", required_argument, NULL, OPTION_RUNS},                \
		{"time", required_argument, NULL, OPTION_TIME},                \
		{"precision", required_argument, NULL, OPTION_PRECISION},      \
		{"warmup", required_argument, NULL, OPTION_WARMUP},            \
		{"pin", required_argument, NULL, OPTION_PIN},                  \
		{"timeout", required_argument, NULL, OPTION_TIMEOUT},          \
		{"quiet", no_argument, NULL, OPTION_QUIET},                    \
		{"json", optional_argument, NULL, OPTION_JSON},                \
	{                                                                      \
		"html", required_argument, NULL, OPTION_HTML                   \
	}

struct trial_options {
	enum metric metric; /* METRIC_COUNT: not given */
	char *pattern;	    /* NULL: not given */
	int better;	    /* 'h', 'l', or 0: not given */
	bool planned;	    /* an option that only a plan has was given */
	bool bounded;	    /* a bound was given */
	const char *json;   /* a file, "-", or NULL */
	const char *html;
	struct judge_rule rule;
	struct plan plan;
	uint64_t seed;
};

extern const char hak_trial_options_help[];

void hak_trial_options_init(struct trial_options *o);
/* true: it was one of these. Ends the command on a bad value. */
bool hak_trial_options_take(struct trial_options *o, int code, const char *arg);
/* for '?' and ':' of getopt_long */
_Noreturn void hak_trial_options_refuse(int code, char *const *argv);
/*
 * Checks what belongs together, and gives the rule as many resamples as so
 * many sides held to one reference need.
 */
void hak_trial_options_check(struct trial_options *o, size_t comparisons);
/* Checks, and moves rule, seed and metric to the trial. */
void hak_trial_options_apply(struct trial_options *o, struct trial *t);
/* The reports that were asked for; the text one if none goes to stdout. */
void hak_trial_options_report(
	const struct trial_options *o, const struct trial *t);

double hak_parse_percent(const char *option, const char *text);
double hak_parse_seconds(const char *option, const char *text);
unsigned long hak_parse_count(const char *option, const char *text,
	unsigned long least, unsigned long greatest);

#endif
