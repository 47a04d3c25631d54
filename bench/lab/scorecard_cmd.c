/*
 * `hakmem bench --scorecard`: its options. The plan's bounds are rounds and
 * time; a precision of single intervals is no bound for so many of them.
 */
#include <config.h>

#include "scorecard_cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "scorecard.h"

enum {
	OPTION_PEER = OPTION_OWN,
	OPTION_REFERENCE,
	OPTION_LIB,
	OPTION_ROW,
	OPTION_WITHOUT_HAKMEM,
};

static const struct option long_options[] = {
	{"peer", required_argument, NULL, OPTION_PEER},
	{"reference", required_argument, NULL, OPTION_REFERENCE},
	{"lib", required_argument, NULL, OPTION_LIB},
	{"row", required_argument, NULL, OPTION_ROW},
	{"without-hakmem", no_argument, NULL, OPTION_WITHOUT_HAKMEM},
	{"runs", required_argument, NULL, OPTION_RUNS},
	{"time", required_argument, NULL, OPTION_TIME},
	{"warmup", required_argument, NULL, OPTION_WARMUP},
	{"pin", required_argument, NULL, OPTION_PIN},
	{"timeout", required_argument, NULL, OPTION_TIMEOUT},
	{"seed", required_argument, NULL, OPTION_SEED},
	{"alpha", required_argument, NULL, OPTION_ALPHA},
	{"json", optional_argument, NULL, OPTION_JSON},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"Usage: hakmem bench --scorecard [options]\n"
	"Run the workloads on hakmem and on the allocators that are found\n"
	"(glibc, mimalloc, jemalloc, tcmalloc), interleaved, and print tables\n"
	"of CPU time and memory as ratios to a reference.\n"
	"\n"
	"  --peer NAME=PATH     one more allocator, or another library for a\n"
	"                       known name\n"
	"  --reference NAME     [mimalloc, else glibc]\n"
	"  --lib PATH           the hakmem to preload [hakmem's own]\n"
	"  --without-hakmem     only the others\n"
	"  --row TEXT           only rows whose name has the text; may be "
	"repeated\n"
	"  --runs N             rounds [10]\n"
	"  --time SECONDS       budget; also 5m, 1h\n"
	"  --warmup N           rounds that do not count [1]\n"
	"  --pin CPUS           only on these processors, as 0 or 0-2,5\n"
	"  --timeout SECONDS    of one run [that of --time, or none]\n"
	"  --seed N             of order, padding and intervals [random, "
	"printed]\n"
	"  --alpha PERCENT      error rate of the intervals of a row [5]\n"
	"  --json[=FILE]        all runs and figures as JSON\n"
	"  --quiet              no line of progress on a terminal\n"
	"  -h, --help           print this text\n";

static void add_word(char ***list, size_t *count, char *word)
{
	*list = hak_lab_grow(*list, *count + 1, sizeof **list);
	(*list)[(*count)++] = word;
}

static void take_option(
	struct scorecard_request *r, int code, char *const *argv)
{
	if (code == '?' || code == ':')
		hak_trial_options_refuse(code, argv);
	if (hak_trial_options_take(&r->options, code, optarg))
		return;
	switch (code) {
	case OPTION_PEER:
		add_word(&r->peer, &r->peers, optarg);
		break;
	case OPTION_REFERENCE:
		r->reference = optarg;
		break;
	case OPTION_LIB:
		r->library = optarg;
		break;
	case OPTION_ROW:
		add_word(&r->row, &r->rows, optarg);
		break;
	case OPTION_WITHOUT_HAKMEM:
		r->without_hakmem = true;
		break;
	case 'h':
		fputs(help, stdout);
		hak_command_flush();
		exit(STATUS_OK);
	}
}

int hak_scorecard_main(int argc, char **argv,
	void (*find_program)(const char *name, char path[]))
{
	struct scorecard_request r = {.find_program = find_program};
	int code, status;

	hak_trial_options_init(&r.options);
	opterr = 0;
	optind = 0; /* another list of options than before */
	while ((code = getopt_long(argc, argv, "+:h", long_options, NULL)) >= 0)
		take_option(&r, code, argv);
	if (optind < argc)
		hak_command_fail(STATUS_FAILED,
			"no argument expected (rows are chosen by --row): %s",
			argv[optind]);
	status = hak_scorecard_run(&r);
	free(r.peer);
	free(r.row);
	return status;
}
