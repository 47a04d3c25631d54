/*
 * hakmem bench: workloads, one after the other, each in a process of its own
 * with a library preloaded. A workload's result is one line of fields; in a
 * pipe that line is passed on as it is, on a terminal it becomes a row.
 *
 * What a workload's options mean is the workload's own matter: they follow
 * its name and are handed over unread.
 */
#include <config.h>

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "preload.h"
#include "scorecard_cmd.h"
#include "setting.h"
#include "target.h"

static const struct workload {
	const char *name;
	const char *what;
} workloads[] = {
#define HAKMEM_WORKLOAD(name, what) {#name, what},
#include "../workloads.def"
#undef HAKMEM_WORKLOAD
};
enum { WORKLOADS = sizeof(workloads) / sizeof(*workloads) };

/* What the command line asks for. */
static struct {
	const char *library; /* NULL: hakmem's own */
	int is_table;
} request;

static void print_help(void)
{
	fputs("Usage: hakmem bench [option]... [NAME=VALUE]..."
	      "\n                    [workload [--OPTION=VALUE]...]...\n"
	      "Runs workloads on hakmem's malloc, or on another, and prints "
	      "what"
	      " each took; all\n"
	      "of them if none is named. Options after a workload are its own:"
	      " 'hakmem bench\n"
	      "pair --help' tells which. A NAME=VALUE sets a variable that "
	      "tunes"
	      " hakmem.\n"
	      "\n"
	      "Options:\n"
	      "      --list           print the workloads\n"
	      "      --scorecard      compare with other allocators on all "
	      "workloads; has\n"
	      "                       options of its own, and a --help\n"
	      "      --lib=PATH       preload this library instead of hakmem's"
	      " own; 'none'\n"
	      "                       preloads nothing\n"
	      "      --table          print a table, as on a terminal\n"
	      "      --raw            print lines of tab-separated fields, as "
	      "in"
	      " a pipe\n"
	      "  -h, --help           print this text\n"
	      "\n"
	      "Exit status: 0, that of the first workload that fails (1 if a"
	      " block was damaged\n"
	      "or refused, 2 for a wrong option), or 125 if hakmem fails.\n",
		stdout);
}

static void print_list(void)
{
	for (int i = 0; i < WORKLOADS; i++)
		printf("%-14s %s\n", workloads[i].name, workloads[i].what);
}

static const struct workload *find_workload(const char *name)
{
	for (int i = 0; i < WORKLOADS; i++)
		if (strcmp(workloads[i].name, name) == 0)
			return &workloads[i];
	hak_command_fail(STATUS_FAILED,
		"unknown workload: %s ('hakmem bench --list' lists them)",
		name);
}

static void find_program(const char *name, char path[PATH_MAX])
{
	static const char *const built[] = {"/bench", "/../bench", NULL};

	if (!hak_place_find_built(built, name, path) &&
		!hak_place_find_installed(PKGLIBEXECDIR, name, path))
		hak_command_fail(STATUS_FAILED, "%s: not found in %s", name,
			PKGLIBEXECDIR);
}

/* -- results -- */

static void print_header(void)
{
	printf("%-14s %7s %12s %12s %9s %9s\n", "workload", "threads", "ns/op",
		"ops/s", "CPU s", "peak MiB");
}

/* The value of a field, 0 if the line has no such. */
static double field(const char *line, const char *key)
{
	size_t length = strlen(key);

	while ((line = strchr(line, '\t'))) {
		line++;
		if (strncmp(line, key, length) == 0 && line[length] == '=')
			return strtod(line + length + 1, NULL);
	}
	return 0;
}

static void print_row(const char *line)
{
	const char *last = strstr(line, "\tchecksum=");
	const char *notes = last ? strchr(last + 1, '\t') : NULL;

	printf("%-14.*s %7.0f %12.2f %12.0f %9.3f %9.1f\n",
		(int)strcspn(line, "\t"), line, field(line, "threads"),
		field(line, "ns_per_op"), field(line, "ops_per_s"),
		field(line, "cpu_s"), field(line, "peak_rss_kb") / 1024);
	for (; notes; notes = strchr(notes + 1, '\t'))
		printf("%16s%.*s\n", "", (int)strcspn(notes + 1, "\t\n"),
			notes + 1);
}

static void print_results(int from)
{
	FILE *stream = fdopen(from, "r");
	char *line = NULL;
	size_t room = 0;

	if (!stream)
		hak_command_fail(STATUS_FAILED, "out of memory");
	while (getline(&line, &room, stream) > 0) {
		if (request.is_table && strstr(line, "\tns_per_op="))
			print_row(line);
		else
			fputs(line, stdout);
	}
	free(line);
	fclose(stream);
	hak_command_flush();
}

/* -- running -- */

/* In a child: becomes the workload. */
static _Noreturn void become(const char *path, char **argv, int out)
{
	struct target target;
	const char *reason = hak_target_examine(path, &target);

	if (reason)
		hak_command_fail(STATUS_FAILED, "%s: %s", path, reason);
	if (request.library && strcmp(request.library, "none") == 0)
		unsetenv("LD_PRELOAD");
	else
		hak_preload_set(&target, request.library);
	if (dup2(out, STDOUT_FILENO) >= 0)
		execv(path, argv);
	hak_command_fail(STATUS_FAILED, "%s: %s", path, strerror(errno));
}

static int wait_for(pid_t child, const char *name)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			hak_command_fail(
				STATUS_FAILED, "%s: %s", name, strerror(errno));
	if (WIFSIGNALED(status))
		hak_command_fail(STATUS_FAILED, "%s: killed by signal: %d",
			name, WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* argv is the workload's, its name included. Its exit status. */
static int run(char **argv)
{
	char path[PATH_MAX];
	int ends[2];
	pid_t child;

	find_program(argv[0], path);
	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0)
		hak_command_fail(STATUS_FAILED, "cannot start %s: %s", path,
			strerror(errno));
	if (child == 0)
		become(path, argv, ends[1]);
	close(ends[1]);
	print_results(ends[0]);
	return wait_for(child, argv[0]);
}

static int run_all(void)
{
	int status = 0;

	for (int i = 0; i < WORKLOADS && status == 0; i++)
		status = run((char *[]){(char *)workloads[i].name, NULL});
	return status;
}

/* Each name and the options up to the next name are one workload's. */
static int run_named(char **argv)
{
	int status = 0;

	for (char **a = argv; *a; a++)
		if (**a != '-')
			find_workload(*a);
	while (*argv && status == 0) {
		char **next = argv + 1, *saved;

		while (*next && **next == '-')
			next++;
		saved = *next;
		*next = NULL;
		status = run(argv);
		*next = saved;
		argv = next;
	}
	return status;
}

/* The index of the first argument that is no option. */
static int take_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"list", no_argument, NULL, 'l'},
		{"lib", required_argument, NULL, 'L'},
		{"table", no_argument, NULL, 't'},
		{"raw", no_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	request.is_table = isatty(STDOUT_FILENO);
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		if (option == 'l' || option == 'h') {
			option == 'l' ? print_list() : print_help();
			hak_command_flush();
			exit(EXIT_SUCCESS);
		} else if (option == 'L') {
			if (!*optarg)
				hak_command_fail(STATUS_FAILED,
					"--lib names no library");
			request.library = optarg;
		} else if (option == 't' || option == 'r') {
			request.is_table = option == 't';
		} else if (option == ':') {
			hak_command_fail(STATUS_FAILED,
				"option needs an argument: %s",
				argv[optind - 1]);
		} else {
			hak_command_bad_option(argv);
		}
	}
	return optind;
}

int hak_bench_main(int argc, char **argv)
{
	int settings = 0;

	if (argc > 1 && strcmp(argv[1], "--scorecard") == 0)
		return hak_scorecard_main(argc - 1, argv + 1, find_program);
	argv += take_options(argc, argv);
	while (argv[settings] && hak_setting_is(argv[settings]))
		settings++;
	hak_setting_apply(argv, settings);
	argv += settings;
	if (request.is_table) {
		print_header();
		hak_command_flush();
	}
	return *argv ? run_named(argv) : run_all();
}
