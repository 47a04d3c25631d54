/*
 * `hakmem sweep`: variables and values from the command line, checked against
 * the option table before anything runs, and what the sweep concluded.
 */
#include <config.h>

#include "command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "options.h"
#include "report.h"
#include "setting.h"
#include "sweep.h"

enum {
	OPTION_LIB = OPTION_OWN,
	OPTION_GATE,
	VALUES_MAX = 64,
};

static const struct option long_options[] = {
	{"lib", required_argument, NULL, OPTION_LIB},
	{"gate", no_argument, NULL, OPTION_GATE},
	{"help", no_argument, NULL, 'h'},
	TRIAL_OPTIONS,
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"Usage: hakmem sweep [options] NAME=VALUE,VALUE... ... -- program ...\n"
	"Try settings of hakmem on a command and say which one helps, if any.\n"
	"NAME+NAME=VALUE,... sets several variables together. See\n"
	"hakmem-sweep(1); 'hakmem options' lists the variables.\n"
	"\n"
	"  --lib LIB            the hakmem to preload, a path; none: the "
	"program\n"
	"                       is linked to it [hakmem's own]\n"
	"  --gate               the exit status is 0 only if a setting helps, "
	"1 if\n"
	"                       none does, 2 if it is not settled\n";

/* ---- the command line ---- */

static char **split(char *text, const char *separator, size_t *count)
{
	char **word = hak_lab_alloc(VALUES_MAX, sizeof *word);
	char *rest = text, *w;

	*count = 0;
	while ((w = strsep(&rest, separator))) {
		if (*count == VALUES_MAX)
			hak_command_fail(STATUS_FAILED,
				"more than %d in one row: %s", VALUES_MAX, w);
		word[(*count)++] = hak_lab_copy(w);
	}
	return word;
}

/* Says what is wrong with a name or value, and ends. */
static void check(const char *name, const char *value)
{
	char *setting = hak_lab_print("%s=%s", name, value);

	if (!hak_setting_check(setting))
		exit(STATUS_FAILED);
	free(setting);
}

static bool is_swept(const struct sweep *s, const char *name)
{
	for (size_t v = 0; v < s->variables; v++)
		for (size_t i = 0; i < s->variable[v].names; i++)
			if (strcmp(s->variable[v].name[i], name) == 0)
				return true;
	return false;
}

static void check_values(const struct variable *v)
{
	for (size_t i = 0; i < v->values; i++) {
		for (size_t n = 0; n < v->names; n++)
			check(v->name[n], v->value[i]);
		for (size_t j = 0; j < i; j++)
			if (strcmp(v->value[i], v->value[j]) == 0)
				hak_command_fail(STATUS_FAILED,
					"one value twice: %s=%s", v->name[0],
					v->value[i]);
	}
}

static void take_variable(struct sweep *s, char *text)
{
	char *values = strchr(text, '=');
	struct variable v;

	*values++ = '\0';
	v.name = split(text, "+", &v.names);
	v.value = split(values, ",", &v.values);
	check_values(&v);
	for (size_t n = 0; n < v.names; n++)
		if (is_swept(s, v.name[n]))
			hak_command_fail(STATUS_FAILED,
				"one variable twice: %s", v.name[n]);
	s->variable = hak_lab_grow(
		s->variable, s->variables + 1, sizeof *s->variable);
	s->variable[s->variables++] = v;
}

static void take_option(
	struct sweep *s, int code, bool *gate, char *const *argv)
{
	if (code == '?' || code == ':')
		hak_trial_options_refuse(code, argv);
	if (hak_trial_options_take(&s->options, code, optarg))
		return;
	switch (code) {
	case OPTION_LIB:
		s->library = strcmp(optarg, "none") == 0 ? NULL : optarg;
		break;
	case OPTION_GATE:
		*gate = true;
		break;
	case 'h':
		printf("%s\n%s", help, hak_trial_options_help);
		hak_command_flush();
		exit(STATUS_OK);
	}
}

static void read_command_line(
	struct sweep *s, int argc, char **argv, bool *gate)
{
	int code;

	opterr = 0;
	while ((code = getopt_long(argc, argv, "+:h", long_options, NULL)) >= 0)
		take_option(s, code, gate, argv);
	/* getopt has passed a "--" that came before any variable */
	while (optind < argc && strchr(argv[optind], '=') &&
		strcmp(argv[optind - 1], "--") != 0)
		take_variable(s, argv[optind++]);
	if (optind < argc && strcmp(argv[optind], "--") == 0)
		optind++;
	else if (optind < argc && argv[optind][0] == '-')
		hak_command_fail(STATUS_FAILED,
			"options come before variables: %s", argv[optind]);
	if (!s->variables)
		hak_command_fail(STATUS_FAILED,
			"no variable to sweep (NAME=VALUE,VALUE expected)");
	if (optind == argc)
		hak_command_fail(STATUS_FAILED, "no command to run");
	s->word = argv + optind;
	s->words = (size_t)(argc - optind);
}

/* ---- the conclusion in words ---- */

static char *command_of(const struct sweep *s, const char *settings)
{
	struct side side = {.name = NULL};
	char *command, *line;

	hak_side_take_command(&side, s->word, s->words);
	command = hak_side_text(&side);
	line = hak_lab_print("hakmem run %s -- %s", settings, command);
	free(command);
	hak_side_free(&side);
	return line;
}

static void print_change(FILE *f, const struct judgement *j)
{
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];

	fprintf(f, "%s (%s to %s)", hak_report_percent(j->change, true, a),
		hak_report_percent(j->low, true, b),
		hak_report_percent(j->high, true, c));
}

static void print_memory(FILE *f, const struct trial *t, size_t side)
{
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);

	if (t->metric != METRIC_RSS && hak_trial_judge(t, METRIC_RSS, j)) {
		fprintf(f, "; peak RSS ");
		print_change(f, &j[side - 1]);
	}
	fputc('\n', f);
	free(j);
}

static void print_interaction(FILE *f, const struct sweep *s)
{
	const struct interaction *i = &s->interaction;
	char a[REPORT_FIGURE], b[REPORT_FIGURE], c[REPORT_FIGURE];
	bool differs = i->low > 0 || i->high < 0;

	/* where nothing is proven there is nothing to add up */
	if (isnan(i->difference) || (!differs && s->result != SWEEP_FOUND))
		return;
	fprintf(f,
		"%s: all together are %s (%s to %s) from what the single "
		"changes make one on top of the other\n",
		differs ? "the changes do not add"
			: "no sign that the changes do not add",
		hak_report_percent(expm1(i->difference), true, a),
		hak_report_percent(expm1(i->low), true, b),
		hak_report_percent(expm1(i->high), true, c));
}

static void print_found(FILE *f, const struct sweep *s)
{
	const struct trial *t = &s->confirmation;
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);
	char *settings = hak_sweep_settings(s, s->best);
	char *command = command_of(s, settings);

	hak_trial_judge(t, t->metric, j);
	fprintf(f, "best setting: %s: %s ", settings,
		hak_trial_title(t, t->metric));
	print_change(f, &j[s->best - 1]);
	print_memory(f, t, s->best);
	fprintf(f, "use: %s\n", command);
	free(command);
	free(settings);
	free(j);
}

static const char *other_result(const struct sweep *s)
{
	switch (s->result) {
	case SWEEP_NOTHING:
		return "no setting helps: keep the default";
	case SWEEP_INCONCLUSIVE:
		return "no setting is proven to help, and not all are ruled "
		       "out: keep the default, or give it more runs";
	case SWEEP_UNMEASURED:
		return "no conclusion: the time was over before a block of "
		       "runs counted";
	case SWEEP_STOPPED:
		return "no conclusion: the sweep was stopped";
	default:
		return "no conclusion: the default failed";
	}
}

static void print_conclusion(FILE *f, const struct sweep *s)
{
	print_interaction(f, s);
	if (s->result == SWEEP_FOUND)
		print_found(f, s);
	else
		fprintf(f, "%s\n", other_result(s));
}

static void report_text(FILE *f, const struct sweep *s)
{
	fputs("== screening ==\n", f);
	hak_report_text(f, &s->screening);
	if (s->singles) {
		fputs("\n== confirmation, on fresh runs ==\n", f);
		hak_report_text(f, &s->confirmation);
	}
	fputs("\n== conclusion ==\n", f);
	print_conclusion(f, s);
}

/* ---- and for machines ---- */

static void put_recommendation(struct json_writer *w, const struct sweep *s)
{
	char *settings, *command;

	hak_json_key(w, "recommendation");
	if (s->result != SWEEP_FOUND) {
		hak_json_null(w);
		return;
	}
	settings = hak_sweep_settings(s, s->best);
	command = command_of(s, settings);
	hak_json_open(w, '{');
	hak_json_key(w, "side");
	hak_json_string(w, s->confirmation.side[s->best].name);
	hak_json_key(w, "settings");
	hak_json_string(w, settings);
	hak_json_key(w, "command");
	hak_json_string(w, command);
	hak_json_close(w, '}');
	free(command);
	free(settings);
}

static void put_interaction(struct json_writer *w, const struct interaction *i)
{
	hak_json_key(w, "interaction");
	if (isnan(i->difference)) {
		hak_json_null(w);
		return;
	}
	hak_json_open(w, '{');
	hak_json_key(w, "change");
	hak_json_number(w, expm1(i->difference));
	hak_json_key(w, "low");
	hak_json_number(w, expm1(i->low));
	hak_json_key(w, "high");
	hak_json_number(w, expm1(i->high));
	hak_json_close(w, '}');
}

static void report_json(FILE *f, const struct sweep *s)
{
	static const char *const name[] = {
		[SWEEP_FOUND] = "found",
		[SWEEP_NOTHING] = "nothing",
		[SWEEP_INCONCLUSIVE] = "inconclusive",
		[SWEEP_UNMEASURED] = "unmeasured",
		[SWEEP_FAILED] = "failed",
		[SWEEP_STOPPED] = "stopped",
	};
	struct json_writer w = {.file = f};

	hak_json_open(&w, '{');
	hak_json_key(&w, "format");
	hak_json_string(&w, "hakmem-sweep-1");
	hak_json_key(&w, "result");
	hak_json_string(&w, name[s->result]);
	put_recommendation(&w, s);
	put_interaction(&w, &s->interaction);
	hak_json_key(&w, "screening");
	hak_report_json_value(&w, &s->screening);
	hak_json_key(&w, "confirmation");
	if (s->singles)
		hak_report_json_value(&w, &s->confirmation);
	else
		hak_json_null(&w);
	hak_json_close(&w, '}');
	hak_json_end(&w);
}

static void put_conclusion(FILE *f, const struct sweep *s)
{
	char *lines = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&lines, &size);

	if (!memory)
		hak_command_fail(STATUS_FAILED, "out of memory");
	print_conclusion(memory, s);
	fclose(memory);
	hak_report_html_lines(f, "Conclusion of the sweep", lines);
	free(lines);
}

static void report_html(FILE *f, const struct sweep *s)
{
	hak_report_html_open(f);
	put_conclusion(f, s);
	if (s->singles) {
		fputs("<hr>\n<p class=\"soft\">Confirmation, on fresh "
		      "runs</p>\n",
			f);
		hak_report_html_section(f, &s->confirmation);
	}
	fputs("<hr>\n<p class=\"soft\">Screening</p>\n", f);
	hak_report_html_section(f, &s->screening);
	hak_report_html_close(f);
}

static void report(const struct sweep *s)
{
	FILE *f;

	if (!hak_report_owns_output(s->options.json, s->options.html))
		report_text(stdout, s);
	if (s->options.json) {
		f = hak_report_open(s->options.json);
		report_json(f, s);
		hak_report_close(f, s->options.json);
	}
	if (s->options.html) {
		f = hak_report_open(s->options.html);
		report_html(f, s);
		hak_report_close(f, s->options.html);
	}
	hak_command_flush();
}

static int status_of(const struct sweep *s, bool gate)
{
	if (s->result == SWEEP_FAILED)
		return STATUS_SIDE_FAILED;
	if (s->result == SWEEP_STOPPED)
		return STATUS_INTERRUPTED;
	if (!gate || s->result == SWEEP_FOUND)
		return STATUS_OK;
	return s->result == SWEEP_NOTHING ? STATUS_NEUTRAL
					  : STATUS_INCONCLUSIVE;
}

int hak_sweep_main(int argc, char **argv)
{
	struct sweep s = {.library = "hakmem"};
	bool gate = false;
	int status;

	hak_trial_options_init(&s.options);
	read_command_line(&s, argc, argv, &gate);
	hak_sweep_run(&s);
	report(&s);
	status = status_of(&s, gate);
	hak_sweep_free(&s);
	return status;
}
