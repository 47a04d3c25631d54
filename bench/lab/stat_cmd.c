/*
 * hakmem stat: the statistics of a running process, from outside.
 */
#include <config.h>

#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "remote.h"

static void print_help(void)
{
	fputs("Usage: hakmem stat [option]... PID\n"
	      "Prints the statistics of a process that runs on hakmem, as"
	      " hakmem(7) explains\n"
	      "them. The process is not stopped and does nothing for it.\n"
	      "\n"
	      "Options:\n"
	      "      --json           print one JSON object\n"
	      "      --watch=SECONDS  a table that is renewed, with changes a"
	      " second, until the\n"
	      "                       process ends; with --json an object each"
	      " time\n"
	      "  -h, --help           print this text\n",
		stdout);
}

static const struct {
	const char *name;
	size_t offset; /* 0: a group */
} rows[] = {
#define HAKMEM_STATS_GROUP(name, title) {title, 0},
#define HAKMEM_STAT(field, what) {#field, offsetof(struct hakmem_stats, field)},
#include "stats.def"
#undef HAKMEM_STAT
#undef HAKMEM_STATS_GROUP
};

static void write_out(void *arg, const char *text)
{
	fputs(text, arg);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static size_t value_of(const struct hak_snapshot *s, size_t row)
{
	return *(const size_t *)((const char *)&s->total + rows[row].offset);
}

/* Every figure, and how much it changed a second. */
static void print_table(const struct hak_snapshot *now,
	const struct hak_snapshot *before, double seconds)
{
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	printf("hakmem in process %zu\n", now->pid);
	if (now->left_out)
		printf("incomplete: parts left out since they do not fit"
		       " together: %zu\n",
			now->left_out);
	printf("\n%-22s %16s %16s\n", "", "now", "a second");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (rows[i].offset == 0) {
			puts(rows[i].name);
			continue;
		}
		printf("  %-20s %16zu", rows[i].name, value_of(now, i));
		if (before && value_of(now, i) != value_of(before, i))
			printf(" %+16.0f",
				((double)value_of(now, i) -
					(double)value_of(before, i)) /
					seconds);
		putchar('\n');
	}
	putchar('\n');
}

static void wait_for(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds};

	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static void fail_if_runs(struct remote *remote, pid_t pid)
{
	if (!hak_remote_has_ended(remote))
		hak_command_fail(STATUS_FAILED,
			"process %d runs another program now", (int)pid);
}

static void watch(struct remote *remote, pid_t pid, double seconds, int json)
{
	struct hak_snapshot *now, *before = NULL;
	double at, last = 0;

	while ((now = hak_remote_take(remote))) {
		at = seconds_now();
		if (json)
			hak_stats_print(now, 1, write_out, stdout);
		else
			print_table(now, before, at - last);
		hak_command_flush();
		free(before);
		before = now;
		last = at;
		wait_for(seconds);
	}
	free(before);
	fail_if_runs(remote, pid);
}

static pid_t parse_pid(const char *text)
{
	char *end;
	long pid;

	errno = 0;
	pid = strtol(text, &end, 10);
	if (errno || end == text || *end || pid <= 0 || pid > __INT_MAX__)
		hak_command_fail(
			STATUS_FAILED, "not the number of a process: %s", text);
	return (pid_t)pid;
}

static double parse_seconds(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.01 && seconds <= 86400))
		hak_command_fail(STATUS_FAILED,
			"--watch: bad value '%s' (0.01 to 86400 expected)",
			text);
	return seconds;
}

static void print_once(struct remote *remote, pid_t pid, int json)
{
	struct hak_snapshot *now = hak_remote_take(remote);

	if (!now) {
		fail_if_runs(remote, pid);
		hak_command_fail(
			STATUS_FAILED, "process %d has ended", (int)pid);
	}
	hak_stats_print(now, json != 0, write_out, stdout);
	free(now);
}

int hak_stat_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"watch", required_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option, json = 0;
	double seconds = 0;
	struct remote *remote;
	pid_t pid;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		switch (option) {
		case 'j':
			json = 1;
			break;
		case 'w':
			seconds = parse_seconds(optarg);
			break;
		case 'h':
			print_help();
			hak_command_flush();
			return EXIT_SUCCESS;
		case ':':
			hak_command_fail(STATUS_FAILED,
				"option needs an argument: %s",
				argv[optind - 1]);
		default:
			hak_command_bad_option(argv);
		}
	if (argc - optind != 1)
		hak_command_fail(STATUS_FAILED,
			"one process expected ('hakmem stat --help' tells"
			" more)");
	pid = parse_pid(argv[optind]);
	remote = hak_remote_open(pid);
	if (seconds > 0)
		watch(remote, pid, seconds, json);
	else
		print_once(remote, pid, json);
	hak_command_flush();
	free(remote);
	return EXIT_SUCCESS;
}
