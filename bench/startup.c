/*
 * startup: small processes, one after the other, each started from this same
 * program with the same environment: it allocates a few blocks of mixed sizes,
 * looks at them, and exits without freeing them, as small tools do. Shows what
 * an allocator costs before it has done any work. CPU time is that of the
 * children and of starting them; the peak is the largest of any child.
 */
#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static uint64_t processes = 300;
static uint64_t blocks = 200;
static uint64_t max = 2048;
static uint64_t seed = 1;
static uint64_t child; /* set in the children alone */

/* What a child writes to its standard output, a pipe. */
struct answer {
	uint64_t peak_kb;
	uint64_t checksum;
};

static uint64_t checksum;

static int be_child(void)
{
	uint32_t random = bench_thread_seed(seed, 0);
	void **block = bench_malloc(blocks * sizeof(*block));
	struct answer answer = {0};
	uint64_t i;

	for (i = 0; i < blocks; i++) {
		uint32_t r = bench_xorshift32(&random);

		block[i] = bench_malloc(1 + bench_scale(r, (uint32_t)max));
		bench_put(block[i], i);
	}
	for (i = 0; i < blocks; i++)
		answer.checksum =
			answer.checksum * 31 + bench_verify(block[i], i);
	answer.peak_kb = bench_peak_rss_kb();
	return write(1, &answer, sizeof(answer)) != sizeof(answer);
}

static void read_answer(int fd)
{
	struct answer answer;

	if (read(fd, &answer, sizeof(answer)) != sizeof(answer))
		bench_fail("no answer from a process, error", (uint64_t)errno);
	bench_count_children(answer.peak_kb);
	checksum += answer.checksum;
}

static void run_child(char **argv)
{
	posix_spawn_file_actions_t actions;
	int fds[2];
	int status, error;
	pid_t pid;

	if (pipe(fds))
		bench_fail("cannot make a pipe, error", (uint64_t)errno);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_addclose(&actions, fds[0]);
	posix_spawn_file_actions_addclose(&actions, fds[1]);
	error = posix_spawn(
		&pid, "/proc/self/exe", &actions, NULL, argv, environ);
	if (error)
		bench_fail("cannot start a process, error", (uint64_t)error);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	read_answer(fds[0]);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || status)
		bench_fail("a process failed, status", (uint64_t)status);
}

static void run_children(int argc, char **argv)
{
	char **child_argv = bench_map(((size_t)argc + 2) * sizeof(*child_argv));
	static char child_option[] = "--child=1";
	uint64_t i;
	int a;

	for (a = 0; a < argc; a++)
		child_argv[a] = argv[a];
	child_argv[argc] = child_option;
	bench_count_children(0);
	bench_clock_start();
	for (i = 0; i < processes; i++)
		run_child(child_argv);
	bench_clock_stop();
}

int main(int argc, char **argv)
{
	static const struct bench_option options[] = {
		{"processes", &processes, 1, 10000000, NULL, "processes"},
		{"blocks", &blocks, 1, 1 << 24, NULL, "blocks of a process"},
		{"max", &max, 1, 1 << 30, NULL, "largest block"},
		{"seed", &seed, 1, UINT32_MAX, NULL, "seed of the generator"},
		{"child", &child, 0, 1, NULL,
			"be one of the processes: answer in binary and exit"},
		{0},
	};
	static const struct bench bench = {"startup", options};

	bench_options(&bench, argc, argv);
	if (child)
		return be_child();
	run_children(argc, argv);
	return bench_report(1, processes, checksum);
}
