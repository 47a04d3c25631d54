/*
 * hakmem run: a command on hakmem's malloc.
 *
 * It becomes the command: same process, same standard files, same signals, so
 * that whatever starts hakmem run sees only the command. All that can go wrong
 * is therefore found out before.
 */
#include <config.h>

#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "preload.h"
#include "setting.h"
#include "target.h"

/*
 * Options that stand for a setting. One whose variable is not in the option
 * table does not exist.
 */
struct shorthand {
	const char *name, *argument, *variable;
	const char *value; /* without an argument; NULL: one is required */
	const char *needs; /* a variable that is 1 with it, unless it is set */
	const char *what;
};

static const struct shorthand shorthands[] = {
	{"stats", "[=json]", "HAKMEM_STATS", "1", NULL,
		"print statistics when the command ends"},
	{"stats-file", "=FILE", "HAKMEM_STATS_FILE", NULL,
		"HAKMEM_STATS",
		"print them to FILE; %p in it is the process's number"},
	{"check", "", "HAKMEM_CHECK", "1", NULL,
		"look for misuse of memory; slow"},
};
enum {
	SHORTHANDS = sizeof(shorthands) / sizeof(*shorthands),
	OPTION_LIB = SHORTHANDS,
	OPTION_HELP,
	OPTIONS,
};

static int exists(const struct shorthand *shorthand)
{
	return hak_option_find(shorthand->variable,
		       strlen(shorthand->variable)) != NULL;
}

static void print_option(
	const char *name, const char *argument, const char *what)
{
	char option[32];

	snprintf(option, sizeof(option), "--%s%s", name, argument);
	printf("      %-20s %s\n", option, what);
}

static void print_help(void)
{
	fputs("Usage: hakmem run [option]... [NAME=VALUE]... [--] command"
	      " [argument]...\n"
	      "Runs command with hakmem as its malloc, by LD_PRELOAD, and makes"
	      " sure that it\n"
	      "is loaded. A NAME=VALUE sets a variable that tunes hakmem;"
	      " 'hakmem options'\n"
	      "lists them. An unknown name or a bad value is refused.\n"
	      "\n"
	      "Options:\n",
		stdout);
	for (int i = 0; i < SHORTHANDS; i++)
		if (exists(&shorthands[i]))
			print_option(shorthands[i].name, shorthands[i].argument,
				shorthands[i].what);
	print_option("lib", "=PATH",
		"preload this library instead of hakmem's own");
	fputs("  -h, --help               print this text\n"
	      "\n"
	      "Exit status: that of command; 125 if hakmem fails, 126 if"
	      " command"
	      " cannot be\n"
	      "run, 127 if it is not found.\n",
		stdout);
}

/* "HAKMEM_STATS=json" for --stats=json. */
static char *setting_of(const struct shorthand *shorthand, const char *value)
{
	char *setting;

	if (asprintf(&setting, "%s=%s", shorthand->variable,
		    value ? value : shorthand->value) < 0)
		hak_command_fail(STATUS_FAILED, "out of memory");
	return setting;
}

static int argument_kind(const struct shorthand *shorthand)
{
	return !shorthand->value      ? required_argument
	       : *shorthand->argument ? optional_argument
				      : no_argument;
}

static void list_options(struct option options[OPTIONS + 1])
{
	int n = 0;

	for (int i = 0; i < SHORTHANDS; i++)
		if (exists(&shorthands[i]))
			options[n++] = (struct option){shorthands[i].name,
				argument_kind(&shorthands[i]), NULL, i};
	options[n++] =
		(struct option){"lib", required_argument, NULL, OPTION_LIB};
	options[n++] = (struct option){"help", no_argument, NULL, OPTION_HELP};
	options[n] = (struct option){NULL, 0, NULL, 0};
}

/*
 * Takes options and settings, in any order, up to the command. Settings are
 * gathered at the front of argv, whose length they never exceed. The index of
 * the command; *library and *count are set.
 */
static int take_arguments(
	int argc, char **argv, const char **library, int *count)
{
	struct option options[OPTIONS + 1];
	int option;

	list_options(options);
	*library = NULL;
	*count = 0;
	for (;;) {
		option = getopt_long(argc, argv, "+:h", options, NULL);
		if (option >= 0 && option < SHORTHANDS) {
			const struct shorthand *s = &shorthands[option];

			argv[(*count)++] = setting_of(s, optarg);
			/* Settings are applied later, and win. */
			if (s->needs)
				setenv(s->needs, "1", 0);
		} else if (option == OPTION_LIB) {
			if (!*optarg)
				hak_command_fail(STATUS_FAILED,
					"--lib names no library");
			*library = optarg;
		} else if (option == OPTION_HELP || option == 'h') {
			print_help();
			hak_command_flush();
			exit(EXIT_SUCCESS);
		} else if (option == ':') {
			hak_command_fail(STATUS_FAILED,
				"option needs an argument: %s",
				argv[optind - 1]);
		} else if (option != -1) {
			hak_command_bad_option(argv);
		} else if (optind < argc && hak_setting_is(argv[optind]) &&
			   strcmp(argv[optind - 1], "--") != 0) {
			argv[(*count)++] = argv[optind++];
		} else {
			return optind;
		}
	}
}

static int exec_status(int error)
{
	return error == ENOENT || error == ENOTDIR ? STATUS_NOT_FOUND
						   : STATUS_CANNOT_RUN;
}

int hak_run_main(int argc, char **argv)
{
	const char *library, *reason;
	char path[PATH_MAX];
	struct target target;
	int settings, error, first;

	first = take_arguments(argc, argv, &library, &settings);
	hak_setting_apply(argv, settings);
	if (first == argc)
		hak_command_fail(STATUS_FAILED,
			"no command ('hakmem run --help' tells more)");
	argv += first;
	error = hak_target_find(argv[0], path);
	if (error == 0) {
		reason = hak_target_examine(path, &target);
		if (reason)
			hak_command_fail(
				STATUS_FAILED, "%s: %s", target.path, reason);
		hak_preload_set(&target, library);
		execvp(argv[0], argv);
		error = errno;
	}
	hak_command_fail(
		exec_status(error), "%s: %s", argv[0], strerror(error));
}
