/*
 * The system calls that the library makes are the ones that hakmem(7) lists:
 * with all others forbidden, a program allocates, resizes and frees blocks of
 * every region, in two threads that get into each other's way, and trims.
 */
#include <config.h>

#include "hakmem.h"
#include "tap.h"
#include "util.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* As in hakmem(7), SYSTEM CALLS. */
static const int of_the_library[] = {
	SYS_mmap,
	SYS_munmap,
	SYS_mprotect,
	SYS_madvise,
	SYS_mremap,
	SYS_futex,
	SYS_gettid,
	SYS_sched_getaffinity,
};

/* The same with HAKMEM_CHECK, but for the map, which the threads here have read
 * before; without it, none. */
static const int when_checked[] = {
	SYS_rt_sigaction,
	SYS_sched_yield,
};
static int checked;

/* What ends the program and its threads, and joins them. */
static const int of_the_test[] = {
	SYS_exit,
	SYS_exit_group,
	SYS_rt_sigprocmask,
	SYS_write,
};

#define ALLOW(number, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), (n), 0)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define CALLS                                                                  \
	(COUNT(of_the_library) + COUNT(of_the_test) + COUNT(when_checked))

static int call_of(size_t i)
{
	if (i < COUNT(of_the_library))
		return of_the_library[i];
	i -= COUNT(of_the_library);
	if (i < COUNT(of_the_test))
		return of_the_test[i];
	return checked ? when_checked[i - COUNT(of_the_test)] : of_the_test[0];
}

/* For all threads of the process. */
static void forbid_others(void)
{
	struct sock_filter code[CALLS + 3];
	struct sock_fprog program = {CALLS + 3, code};

	code[0] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < CALLS; i++)
		code[1 + i] = (struct sock_filter)ALLOW(
			(unsigned)call_of(i), (unsigned char)(CALLS - i));
	code[CALLS + 1] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[CALLS + 2] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		_exit(77);
}

static pthread_barrier_t start;

static void read_map(void)
{
	if (checked)
		hakmem_free(hakmem_malloc(1));
}

static void *use(void *arg)
{
	static const size_t sizes[] = {16, 300, 5000, 70000, 3 << 20, 40 << 20};
	void *blocks[200];

	/* Once when the thread is set up, once when the filter is. */
	if (arg != NULL) {
		read_map();
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&start);
	}
	for (size_t i = 0; i < 6; i++) {
		void *p = hakmem_calloc(1, sizes[i]);

		p = hakmem_realloc(p, sizes[i] * 3);
		p = hakmem_realloc(p, sizes[i] / 2);
		hakmem_free(p);
		hakmem_free(hakmem_aligned_alloc(8192, sizes[i]));
	}
	for (size_t round = 0; round < 500; round++) {
		for (size_t i = 0; i < 200; i++)
			blocks[i] = hakmem_malloc(24 + 40 * (i + round));
		for (size_t i = 0; i < 200; i++)
			hakmem_free(blocks[i]);
	}
	hakmem_trim(0);
	return NULL;
}

static void allowed(void)
{
	pthread_t other;

	pthread_barrier_init(&start, NULL, 2);
	if (pthread_create(&other, NULL, use, &start) != 0)
		_exit(78);
	pthread_barrier_wait(&start);
	read_map();
	forbid_others();
	pthread_barrier_wait(&start);
	use(NULL);
	pthread_join(other, NULL);
	_exit(0);
}

/* The options are read when the program starts. */
static void allowed_checked(void)
{
	setenv("HAKMEM_CHECK", "1", 1);
	execl("/proc/self/exe", "seccomp", "checked", (char *)NULL);
	_exit(79);
}

static void forbidden(void)
{
	forbid_others();
	syscall(SYS_getppid);
	_exit(0);
}

int main(int argc, char **argv)
{
	char errors[256];
	int status;

	if (WATCHED)
		skip_all("a sanitizer makes calls of its own");
	(void)argv;
	checked = argc > 1;
	if (checked)
		allowed();
	plan(3);
	tap_child(forbidden, &status, errors, sizeof errors);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		skip(3, "no seccomp here");
		return done();
	}
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS,
		"another call ends the program");
	tap_child(allowed, &status, errors, sizeof errors);
	ok(status == 0, "the library makes no call but those listed");
	diag("status %#x %s", (unsigned)status, errors);
	tap_child(allowed_checked, &status, errors, sizeof errors);
	ok(status == 0, "nor with HAKMEM_CHECK");
	diag("status %#x %s", (unsigned)status, errors);
	return done();
}
