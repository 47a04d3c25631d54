/*
 * hakmem, the command: one binary whose first argument says what it does. It
 * knows the option table but not the allocator, so that it works (and helps)
 * where the library does not.
 *
 * A subcommand is a row of the table here and a function with the form of
 * main(). Standard output belongs to what was asked for; all else goes to
 * standard error. A failure of hakmem's own ends with 125, so that it cannot
 * be taken for the status of the command it was to run.
 */
#include <config.h>

#include "command.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subcommand {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *what;
};

/* The shell's completion is made from these lines: a row is one line. */
static const struct subcommand subcommands[] = {
	{"run", hak_run_main, "run a command on hakmem's malloc"},
	{"stat", hak_stat_main, "print the statistics of a running process"},
	{"bench", hak_bench_main, "run workloads and print what they took"},
	{"options", hak_options_main, "list the variables that tune hakmem"},
	{"ab", hak_ab_main, "compare commands, settings or allocators"},
	{"sweep", hak_sweep_main, "find settings that help a command"},
};
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(*subcommands) };

static void print_help(FILE *out)
{
	fputs("Usage: hakmem <subcommand> [argument]...\n"
	      "Runs programs on the hakmem allocator, tunes and measures it.\n"
	      "\n"
	      "Subcommands, each with a --help of its own:\n",
		out);
	for (int i = 0; i < SUBCOMMANDS; i++)
		fprintf(out, "  %-10s %s\n", subcommands[i].name,
			subcommands[i].what);
	fputs("\n"
	      "Options:\n"
	      "  -h, --help      print this text\n"
	      "  -V, --version   print the version\n"
	      "\n"
	      "Exit status: 125 if hakmem itself fails; that of the command\n"
	      "which it runs, 126 if that cannot be run, 127 if not found.\n"
	      "\n"
	      "Report bugs to <" PACKAGE_BUGREPORT ">.\n",
		out);
}

static const struct subcommand *find(const char *name)
{
	for (int i = 0; i < SUBCOMMANDS; i++)
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	hak_command_fail(STATUS_FAILED,
		"unknown subcommand: %s ('hakmem --help' lists them)", name);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	const struct subcommand *subcommand;
	int option;

	opterr = 0;
	option = getopt_long(argc, argv, "+hV", options, NULL);
	if (option == 'h')
		print_help(stdout);
	else if (option == 'V')
		puts("hakmem " PACKAGE_VERSION);
	else if (option != -1)
		hak_command_bad_option(argv);
	else if (optind == argc)
		print_help(stderr);
	if (option != -1 || optind == argc) {
		hak_command_flush();
		return option != -1 ? EXIT_SUCCESS : STATUS_FAILED;
	}
	subcommand = find(argv[optind]);
	argv += optind;
	argc -= optind;
	optind = 0; /* getopt starts anew */
	hak_command_name = subcommand->name;
	return subcommand->main(argc, argv);
}
