/*
 * The runner: one run of one side, measured from outside.
 *
 *  I1 A run has values only if the program ended by itself with status 0. A
 *     crash, a time-out or a failure is told as such and never as a time.
 *  I2 The program's environment is the user's without what tunes or replaces
 *     a malloc, plus what the side says, plus a variable of random length:
 *     where the stack starts changes the speed of some loops by several per
 *     cent, so that this luck must differ from run to run and not be the same
 *     for all runs of a side.
 *  I3 What it prints goes to memory files, not pipes: nobody has to read, and
 *     so use a processor, while it runs.
 *  I4 Nothing it started outlives the run: it is a process group of its own.
 *
 * Between fork and the word to go the child waits, so that the wall clock
 * starts at exec and a counter of instructions can be put on it. Signals are
 * blocked and waited for: there is no handler.
 */
#include <config.h>

#include "runner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

extern char **environ;

enum {
	PADDING_MAX = 4096,
	STATUS_SETUP = 255, /* of a child that never came to exec */
};

static const char PADDING_NAME[] = "LAB_PADDING=";

double hak_runner_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- signals ---- */

/* What the lab was started to ignore (nohup) does not end the trial. */
static void list_ending_signals(sigset_t *set)
{
	static const int usual[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction old;

	sigemptyset(set);
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		if (sigaction(usual[i], NULL, &old) == 0 &&
			old.sa_handler != SIG_IGN)
			sigaddset(set, usual[i]);
}

void hak_runner_open(struct runner *r, uint64_t seed)
{
	sigset_t set;

	list_ending_signals(&r->ending);
	set = r->ending;
	sigaddset(&set, SIGCHLD);
	/* ignored by whoever started us, it would never come */
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &set, &r->mask);
	hak_random_seed(&r->random, seed, RANDOM_PADDING);
	r->instructions = true;
}

void hak_runner_close(struct runner *r)
{
	/* Ctrl-C again, of impatience, must not cost the report */
	while (hak_runner_interrupted(r))
		;
	if (r->stopped)
		signal(SIGINT, SIG_IGN);
	sigprocmask(SIG_SETMASK, &r->mask, NULL);
	if (r->has_pattern)
		regfree(&r->pattern);
}

bool hak_runner_interrupted(struct runner *r)
{
	const struct timespec none = {0, 0};
	bool interrupted = sigtimedwait(&r->ending, NULL, &none) > 0;

	r->stopped |= interrupted;
	return interrupted;
}

/* ---- the environment ---- */

/* What changes a malloc: removed unless the side gives it. */
static const char *const tuning[] = {
	"HAKMEM_",
	"MALLOC_",
	"MIMALLOC_",
	"TCMALLOC_",
	"_RJEM_MALLOC_",
	"GLIBC_TUNABLES=",
	"LD_PRELOAD=",
	PADDING_NAME,
};

static bool is_tuning(const char *variable)
{
	for (size_t i = 0; i < sizeof tuning / sizeof *tuning; i++)
		if (strncmp(variable, tuning[i], strlen(tuning[i])) == 0)
			return true;
	return false;
}

static bool is_given(const struct side *s, const char *variable)
{
	char name[256];
	size_t n = strcspn(variable, "=");

	if (n >= sizeof name)
		return false;
	memcpy(name, variable, n);
	name[n] = '\0';
	return hak_side_value(s, name) != NULL;
}

static char *make_padding(struct random *random)
{
	size_t n = sizeof PADDING_NAME - 1;
	size_t extra = hak_random_below(random, PADDING_MAX);
	char *padding = hak_lab_alloc(n + extra + 1, 1);

	memcpy(padding, PADDING_NAME, n);
	memset(padding + n, 'x', extra);
	return padding;
}

/* The strings but the first are borrowed; that one is the padding. */
static char **make_environment(const struct side *s, struct random *random)
{
	size_t count = 0, n = 0;
	char **block;

	while (environ[count])
		count++;
	block = hak_lab_alloc(count + s->assignments + 2, sizeof *block);
	block[n++] = make_padding(random);
	for (size_t i = 0; i < count; i++)
		if (!is_tuning(environ[i]) && !is_given(s, environ[i]))
			block[n++] = environ[i];
	/* last one first: getenv takes the first it finds */
	for (size_t i = s->assignments; i-- > 0;)
		block[n++] = s->assignment[i];
	return block;
}

/* ---- the child ---- */

struct child {
	pid_t pid;
	int output; /* memory files */
	int errors;
	int go[2];     /* a byte: the clock runs, exec */
	int failed[2]; /* errno of an exec that failed; closed by exec */
	int counter;   /* of instructions, or -1 */
	double start;
	struct rusage usage;
	double wall;
	int status;
};

static _Noreturn void become_program(const struct runner *r,
	const struct side *s, struct child *c, char **env)
{
	int null = open("/dev/null", O_RDONLY);
	char byte;
	int error;

	setpgid(0, 0);
	if (r->pinned)
		sched_setaffinity(0, sizeof r->cpus, &r->cpus);
	dup2(null, STDIN_FILENO);
	dup2(c->output, STDOUT_FILENO);
	dup2(c->errors, STDERR_FILENO);
	close(null);
	sigprocmask(SIG_SETMASK, &r->mask, NULL);
	close(c->go[1]);
	if (read(c->go[0], &byte, 1) != 1)
		_exit(STATUS_SETUP); /* the lab is gone */
	execvpe(s->argv[0], s->argv, env);
	error = errno;
	if (write(c->failed[1], &error, sizeof error) < 0)
		_exit(STATUS_SETUP);
	_exit(STATUS_SETUP);
}

static int count_instructions(pid_t pid)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof a,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(
		SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void open_files(struct child *c)
{
	c->output = memfd_create("output", MFD_CLOEXEC);
	c->errors = memfd_create("errors", MFD_CLOEXEC);
	if (c->output < 0 || c->errors < 0 || pipe2(c->go, O_CLOEXEC) ||
		pipe2(c->failed, O_CLOEXEC))
		hak_command_fail(STATUS_FAILED, "cannot prepare a run: %s",
			strerror(errno));
}

static void start(struct runner *r, const struct side *s, struct child *c)
{
	char **env = make_environment(s, &r->random);

	open_files(c);
	fflush(NULL);
	c->pid = fork();
	if (c->pid < 0)
		hak_command_fail(
			STATUS_FAILED, "cannot fork: %s", strerror(errno));
	if (c->pid == 0)
		become_program(r, s, c, env);
	setpgid(c->pid, c->pid);
	close(c->go[0]);
	close(c->failed[1]);
	c->counter = r->instructions ? count_instructions(c->pid) : -1;
	r->instructions = c->counter >= 0;
	c->start = hak_runner_now();
	if (write(c->go[1], "", 1) != 1)
		hak_command_fail(STATUS_FAILED, "cannot start a run: %s",
			strerror(errno));
	free(env[0]);
	free(env);
}

static void check_exec(const struct side *s, const struct child *c)
{
	int error;

	if (read(c->failed[0], &error, sizeof error) != sizeof error)
		return;
	waitpid(c->pid, NULL, 0);
	if (error == ENOENT)
		hak_command_fail(STATUS_NOT_FOUND, "%s: program not found: %s",
			s->name, s->argv[0]);
	hak_command_fail(STATUS_CANNOT_RUN, "%s: cannot execute: %s: %s",
		s->name, s->argv[0], strerror(error));
}

/* ---- the end of a run ---- */

/* The next signal; SIGALRM when the time is up. */
static int next_signal(const struct runner *r, const struct child *c)
{
	double left = c->start + r->timeout - hak_runner_now();
	struct timespec wait;
	sigset_t set = r->ending;
	int signal;

	sigaddset(&set, SIGCHLD);
	if (r->timeout <= 0)
		return sigwaitinfo(&set, NULL);
	left = fmax(left, 0);
	wait.tv_sec = (time_t)left;
	wait.tv_nsec = (long)((left - floor(left)) * 1e9);
	signal = sigtimedwait(&set, NULL, &wait);
	return signal < 0 && errno == EAGAIN ? SIGALRM : signal;
}

static bool has_ended(const struct child *c)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)c->pid, &info,
		       WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == c->pid;
}

static enum ending await_end(const struct runner *r, struct child *c)
{
	enum ending ending = END_OK;

	while (!has_ended(c) && !ending) {
		int signal = next_signal(r, c);

		if (signal == SIGALRM)
			ending = END_TIMEOUT;
		else if (signal > 0 && signal != SIGCHLD)
			ending = END_STOPPED;
	}
	c->wall = hak_runner_now() - c->start;
	/* the whole group, so also what a program left behind */
	kill(-c->pid, SIGKILL);
	wait4(c->pid, &c->status, 0, &c->usage);
	return ending;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double counted_instructions(const struct child *c)
{
	uint64_t count;

	if (c->counter < 0 ||
		read(c->counter, &count, sizeof count) != sizeof count)
		return NAN;
	return (double)count;
}

static void take_usage(const struct child *c, struct run *out)
{
	out->value[METRIC_PATTERN] = NAN;
	out->value[METRIC_CPU] =
		seconds(c->usage.ru_utime) + seconds(c->usage.ru_stime);
	out->value[METRIC_WALL] = c->wall;
	out->value[METRIC_RSS] = (double)c->usage.ru_maxrss * 1024;
	out->value[METRIC_INSTRUCTIONS] = counted_instructions(c);
	for (int m = 0; m < METRIC_COUNT; m++)
		if (!(out->value[m] > 0))
			out->value[m] = NAN;
}

/* As a string: a NUL byte in it becomes a blank. */
static char *read_file(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = hak_lab_alloc((size_t)size + 1, 1);
	ssize_t n = pread(fd, text, (size_t)size, 0);

	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

/* A comma or blank that sets off a group of three digits. */
static bool is_separator(const char *text, size_t length, size_t at)
{
	size_t before = 0, after = 0;

	while (before < at && isdigit((unsigned char)text[at - before - 1]))
		before++;
	while (at + after + 1 < length &&
		isdigit((unsigned char)text[at + after + 1]))
		after++;
	return before > 0 && before <= 3 && after == 3;
}

/*
 * A whole number or a decimal one; 1,234,567 is read as one number. Any other
 * comma may be a decimal one, and is refused: 1,47 is not 147.
 */
static bool read_number(const char *text, size_t length, double *value)
{
	char digits[64], *end;
	size_t n = 0;

	while (length && text[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < length; i++) {
		if (text[i] == ' ' && n == 0)
			continue;
		if ((text[i] == ',' || text[i] == ' ') &&
			is_separator(text, length, i))
			continue;
		if (n == sizeof digits - 1)
			return false;
		digits[n++] = text[i];
	}
	digits[n] = '\0';
	*value = strtod(digits, &end);
	return n && !*end && hak_metric_is_value(*value);
}

/* Of the last match in a line, `otherwise` if there is none. */
static enum ending find_in_line(const regex_t *pattern, const char *line,
	regoff_t length, enum ending otherwise, double *value)
{
	regmatch_t m[2] = {{.rm_so = 0, .rm_eo = length}};

	while (m[0].rm_so < length &&
		regexec(pattern, line, 2, m, REG_STARTEND) == 0) {
		const regmatch_t *part = &m[pattern->re_nsub ? 1 : 0];

		if (part->rm_so >= 0)
			otherwise = read_number(line + part->rm_so,
					    (size_t)(part->rm_eo - part->rm_so),
					    value)
					    ? END_OK
					    : END_NO_NUMBER;
		m[0].rm_so = m[0].rm_eo + (m[0].rm_eo == m[0].rm_so);
		m[0].rm_eo = length;
	}
	return otherwise;
}

/*
 * The last match counts: many programs print progress first. Line by line,
 * since each call of regexec() costs what the length of its text asks for;
 * the text is cut into them.
 */
static enum ending find_value(const regex_t *pattern, char *text, double *value)
{
	enum ending ending = END_NO_MATCH;
	char *line;

	while ((line = strsep(&text, "\n")))
		ending = find_in_line(
			pattern, line, (regoff_t)strlen(line), ending, value);
	return ending;
}

static enum ending take_value(
	const regex_t *pattern, const struct child *c, double *value)
{
	char *output = read_file(c->output);
	enum ending ending = find_value(pattern, output, value);

	free(output);
	if (ending != END_NO_MATCH)
		return ending;
	output = read_file(c->errors);
	ending = find_value(pattern, output, value);
	free(output);
	return ending;
}

static enum ending take_printed(
	const struct runner *r, const struct child *c, struct run *out)
{
	enum ending ending = END_OK;

	if (r->has_pattern)
		ending =
			take_value(&r->pattern, c, &out->value[METRIC_PATTERN]);
	if (ending || !r->memory)
		return ending;
	ending = take_value(r->memory, c, &out->value[METRIC_RSS]);
	out->value[METRIC_RSS] *= 1024;
	return ending;
}

static char *last_line(const struct child *c)
{
	char *text = read_file(c->errors), *line, *copy = NULL;
	size_t n = strlen(text);

	while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
		text[--n] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (*line)
		copy = hak_lab_print("%.200s", line);
	free(text);
	return copy;
}

/* The loader goes on without a library that it cannot preload. */
static bool was_ignored(const struct side *s, const struct child *c)
{
	char *text;
	bool ignored;

	if (!hak_side_value(s, "LD_PRELOAD"))
		return false;
	text = read_file(c->errors);
	ignored = strstr(text, "from LD_PRELOAD cannot be preloaded") != NULL;
	free(text);
	return ignored;
}

static struct run_end judge_end(const struct runner *r, const struct side *s,
	const struct child *c, struct run *out)
{
	struct run_end end = {.ending = END_OK};

	if (was_ignored(s, c)) {
		end.ending = END_NOT_LOADED;
	} else if (WIFSIGNALED(c->status)) {
		end.ending = END_SIGNAL;
		end.code = WTERMSIG(c->status);
	} else if (WEXITSTATUS(c->status)) {
		end.ending = END_STATUS;
		end.code = WEXITSTATUS(c->status);
	} else {
		end.ending = take_printed(r, c, out);
	}
	return end;
}

static void close_files(struct child *c)
{
	close(c->output);
	close(c->errors);
	close(c->go[1]);
	close(c->failed[0]);
	if (c->counter >= 0)
		close(c->counter);
}

struct run_end hak_runner_run(
	struct runner *r, const struct side *s, struct run *out)
{
	struct run_end end = {.ending = END_OK};
	struct child c;

	start(r, s, &c);
	check_exec(s, &c);
	end.ending = await_end(r, &c);
	r->stopped |= end.ending == END_STOPPED;
	take_usage(&c, out);
	if (!end.ending)
		end = judge_end(r, s, &c, out);
	if (end.ending)
		end.note = last_line(&c);
	close_files(&c);
	return end;
}
