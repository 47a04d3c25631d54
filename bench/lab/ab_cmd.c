/*
 * `hakmem ab`: sides from the command line, or from a file of recorded runs,
 * through a trial to a report and, on request, an exit status.
 */
#include <config.h>

#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "library.h"
#include "replay.h"
#include "trial_options.h"

enum {
	OPTION_A = OPTION_OWN,
	OPTION_B,
	OPTION_A_LIB,
	OPTION_B_LIB,
	OPTION_SIDE,
	OPTION_LIB,
	OPTION_REPLAY,
	OPTION_PAIRED,
	OPTION_REFERENCE,
	OPTION_GATE,
};

static const struct option long_options[] = {
	{"a", required_argument, NULL, OPTION_A},
	{"b", required_argument, NULL, OPTION_B},
	{"a-lib", required_argument, NULL, OPTION_A_LIB},
	{"b-lib", required_argument, NULL, OPTION_B_LIB},
	{"side", required_argument, NULL, OPTION_SIDE},
	{"lib", required_argument, NULL, OPTION_LIB},
	{"replay", required_argument, NULL, OPTION_REPLAY},
	{"paired", no_argument, NULL, OPTION_PAIRED},
	{"reference", required_argument, NULL, OPTION_REFERENCE},
	{"gate", no_argument, NULL, OPTION_GATE},
	{"help", no_argument, NULL, 'h'},
	TRIAL_OPTIONS,
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"Usage: hakmem ab [options] --a 'A=1 program ...' --b 'program ...'\n"
	"       hakmem ab [options] --a-lib glibc --b-lib hakmem -- program "
	"...\n"
	"       hakmem ab [options] --side NAME='...' ... [-- program ...]\n"
	"       hakmem ab [options] --replay FILE\n"
	"Compare two or more commands, settings or allocators; the first is "
	"the\n"
	"reference. See hakmem-ab(1).\n"
	"\n"
	"What is compared:\n"
	"  --a TEXT, --b TEXT   assignments and a command; without a command, "
	"the\n"
	"                       one after -- is meant\n"
	"  --a-lib LIB, --b-lib LIB   a library to preload: a path, or glibc, "
	"hakmem,\n"
	"                       mimalloc, jemalloc, tcmalloc\n"
	"  --side NAME=TEXT     one more side like --a; any number of them\n"
	"  --lib [NAME=]LIB     one more side like --a-lib\n"
	"  --replay FILE        runs recorded in columns or JSON, nothing is "
	"run\n"
	"  --paired             row i of the columns is block i\n"
	"  --reference NAME     this side is the reference [the first]\n"
	"  --gate               the exit status is the verdict: 0 GO, 1 "
	"NEUTRAL,\n"
	"                       2 INCONCLUSIVE, 3 NO-GO\n";

struct ab {
	struct trial trial;
	struct trial_options options;
	const char *replay;
	const char *reference;
	bool paired;
	bool gate;
};

/* ---- sides ---- */

/* The side of that name, made if need be: --a and --a-lib may both be given. */
static struct side *side_named(struct ab *ab, const char *name, size_t length)
{
	char *copy = hak_lab_print("%.*s", (int)length, name);
	struct side *s = hak_trial_find_side(&ab->trial, copy);

	if (s) {
		free(copy);
		return s;
	}
	s = hak_trial_add_side(&ab->trial);
	s->name = copy;
	return s;
}

static void set_command(struct side *s, const char *text)
{
	if (s->argv)
		hak_command_fail(STATUS_FAILED,
			"%s: two commands for one side: %s", s->name, text);
	hak_side_parse(s, text);
}

static void add_side(struct ab *ab, const char *text)
{
	size_t n = strcspn(text, "=");

	if (!n || !text[n])
		hak_command_fail(STATUS_FAILED,
			"bad value for --side: NAME=TEXT expected: %s", text);
	set_command(side_named(ab, text, n), text + n + 1);
}

static void set_library(struct side *s, const char *library)
{
	if (s->library)
		hak_command_fail(STATUS_FAILED,
			"%s: two libraries for one side: %s", s->name, library);
	s->library = hak_lab_copy(library);
}

static void add_library(struct ab *ab, const char *text)
{
	size_t n = strcspn(text, "=");

	set_library(side_named(ab, text, n), text[n] ? text + n + 1 : text);
}

/* A is there before B, whichever is given first: it is the reference. */
static struct side *side_b(struct ab *ab)
{
	side_named(ab, "A", 1);
	return side_named(ab, "B", 1);
}

static bool take_side(struct ab *ab, int code, const char *arg)
{
	switch (code) {
	case OPTION_A:
		set_command(side_named(ab, "A", 1), arg);
		return true;
	case OPTION_B:
		set_command(side_b(ab), arg);
		return true;
	case OPTION_A_LIB:
		set_library(side_named(ab, "A", 1), arg);
		return true;
	case OPTION_B_LIB:
		set_library(side_b(ab), arg);
		return true;
	case OPTION_SIDE:
		add_side(ab, arg);
		return true;
	case OPTION_LIB:
		add_library(ab, arg);
		return true;
	}
	return false;
}

static void take_own(struct ab *ab, int code, const char *arg)
{
	switch (code) {
	case OPTION_REPLAY:
		ab->replay = arg;
		break;
	case OPTION_PAIRED:
		ab->paired = true;
		break;
	case OPTION_REFERENCE:
		ab->reference = arg;
		break;
	case OPTION_GATE:
		ab->gate = true;
		break;
	case 'h':
		printf("%s\n%s", help, hak_trial_options_help);
		hak_command_flush();
		exit(STATUS_OK);
	}
}

static void read_command_line(struct ab *ab, int argc, char **argv)
{
	int code;

	opterr = 0;
	while ((code = getopt_long(argc, argv, "+:h", long_options, NULL)) >= 0)
		if (code == '?' || code == ':')
			hak_trial_options_refuse(code, argv);
		else if (!take_side(ab, code, optarg) &&
			 !hak_trial_options_take(&ab->options, code, optarg))
			take_own(ab, code, optarg);
}

/* ---- the two sources of runs ---- */

static void complete_sides(struct ab *ab, char **word, size_t words)
{
	for (size_t i = 0; i < ab->trial.sides; i++) {
		struct side *s = &ab->trial.side[i];

		if (s->argv && words)
			hak_command_fail(STATUS_FAILED,
				"%s: a command of its own, "
				"and one after --: %s",
				s->name, word[0]);
		if (!s->argv)
			hak_side_take_command(s, word, words);
		if (!s->argv)
			hak_command_fail(STATUS_FAILED, "no command to run: %s",
				s->name);
		hak_library_apply(s);
	}
}

static void check_sides(struct trial *t)
{
	if (t->sides < 2)
		hak_command_fail(STATUS_FAILED,
			"two sides are needed: %zu given", t->sides);
	for (size_t i = 1; i < t->sides; i++)
		if (hak_trial_find_side(t, t->side[i].name) != &t->side[i])
			hak_command_fail(STATUS_FAILED,
				"two sides of one name: %s", t->side[i].name);
}

static void choose_reference(struct ab *ab)
{
	struct side *s;

	if (!ab->reference)
		return;
	s = hak_trial_find_side(&ab->trial, ab->reference);
	if (!s)
		hak_command_fail(STATUS_FAILED,
			"no side has the name of the "
			"reference: %s",
			ab->reference);
	hak_trial_set_reference(&ab->trial, s);
}

static void check_blocks(const struct trial *t)
{
	for (size_t i = 1; i < t->sides; i++)
		if (t->rule.blocks && !t->side[i].failure &&
			!t->side[0].failure &&
			t->side[i].runs != t->side[0].runs)
			hak_command_fail(STATUS_FAILED,
				"paired runs must be equally "
				"many: %s has %zu, %s has %zu",
				t->side[0].name, t->side[0].runs,
				t->side[i].name, t->side[i].runs);
}

static void check_recorded(const struct trial *t)
{
	struct series series;

	for (size_t i = 0; i < t->sides; i++) {
		const struct side *s = &t->side[i];

		if (s->failure)
			continue;
		if (s->runs < 2)
			hak_command_fail(STATUS_FAILED,
				"%s: at least two runs are "
				"needed: %zu recorded",
				s->name, s->runs);
		if (!hak_trial_series(s, t->metric, &series))
			hak_command_fail(STATUS_FAILED,
				"%s: metric not recorded: %s", s->name,
				hak_metric_info[t->metric].name);
		free((void *)series.value);
	}
}

static void replay(struct ab *ab, int words)
{
	if (ab->trial.sides || words || ab->options.planned)
		hak_command_fail(STATUS_FAILED,
			"--replay runs nothing: no sides, command or bounds");
	hak_replay_read(&ab->trial, ab->replay);
	ab->trial.rule.blocks |= ab->paired;
	check_sides(&ab->trial);
	choose_reference(ab);
	check_blocks(&ab->trial);
	hak_trial_options_apply(&ab->options, &ab->trial);
	check_recorded(&ab->trial);
}

static void run(struct ab *ab, char **word, size_t words)
{
	if (ab->paired)
		hak_command_fail(STATUS_FAILED, "--paired is for --replay");
	check_sides(&ab->trial);
	complete_sides(ab, word, words);
	choose_reference(ab);
	hak_trial_options_apply(&ab->options, &ab->trial);
	hak_plan_run(&ab->options.plan, &ab->trial);
}

/* ---- the end ---- */

static int gate(const struct trial *t)
{
	static const int status[] = {
		[VERDICT_STRONG_GO] = STATUS_OK,
		[VERDICT_GO] = STATUS_OK,
		[VERDICT_NEUTRAL] = STATUS_NEUTRAL,
		[VERDICT_INCONCLUSIVE] = STATUS_INCONCLUSIVE,
		[VERDICT_NO_GO] = STATUS_NO_GO,
	};
	struct judgement *j = hak_lab_alloc(t->sides, sizeof *j);
	int worst = STATUS_OK;

	hak_trial_judge(t, t->metric, j);
	for (size_t i = 0; i + 1 < t->sides; i++)
		if (status[j[i].verdict] > worst)
			worst = status[j[i].verdict];
	free(j);
	return worst;
}

static int status_of(const struct ab *ab)
{
	const struct trial *t = &ab->trial;

	for (size_t i = 0; i < t->sides; i++)
		if (t->side[i].failure)
			return STATUS_SIDE_FAILED;
	if (t->interrupted)
		return STATUS_INTERRUPTED;
	return ab->gate ? gate(t) : STATUS_OK;
}

int hak_ab_main(int argc, char **argv)
{
	struct ab ab = {.paired = false};
	int status;

	hak_trial_options_init(&ab.options);
	read_command_line(&ab, argc, argv);
	if (ab.replay)
		replay(&ab, argc - optind);
	else
		run(&ab, argv + optind, (size_t)(argc - optind));
	hak_trial_check_variance(&ab.trial);
	hak_trial_options_report(&ab.options, &ab.trial);
	status = status_of(&ab);
	hak_trial_free(&ab.trial);
	free(ab.options.pattern);
	return status;
}
