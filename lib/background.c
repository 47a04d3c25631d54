/*
 * background.c: the life of the background thread.
 *
 * I1  There is at most one in a process: who sets `running` starts it, and it
 *     is cleared by the thread's last act.
 * I2  The thread sleeps for longer than HAK_BACKGROUND_MS only after a round
 *     that found nothing to do while hak_background_asleep was set.  So whoever
 *     made work after that round's look at it, under the same lock, knows that
 *     he has to wake.
 *
 * It cannot keep a process alive: glibc ends a process whose main thread left
 * by pthread_exit when the last thread ends, so this one ends when the main
 * thread does.  Threads with caches tell (note_exit); a main thread that never
 * had any is looked at now and then.
 */
#include "background.h"

#include "message.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between looks at a main thread that does not tell. */
#define WATCH_MS 1000
/* Rounds are shallow; static TLS comes out of it, too. */
#define STACK_BYTES (128 * KIB)

struct hak_background hak_background;
bool hak_background_asleep;

/* A thread is there, or is being started. */
static bool running;
/* Relaxed: a round more does no harm. */
static bool ending;
static bool main_tells;
/* Goes up with each wake. */
static uint32_t wakes;

static bool is_wanted(void)
{
	return LOAD_RELAXED(&hak_options.bg_spill) && !LOAD_RELAXED(&ending);
}

/* ms == 0: until woken. */
static void futex_wait(uint32_t seen, uint64_t ms)
{
	struct timespec t = { (time_t)(ms / 1000),
		(long)(ms % 1000) * 1000000 };

	syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen,
		ms != 0 ? &t : NULL, NULL, 0);
}

/* "PID (name) S": a thread that ended before the process is a zombie. */
static bool main_has_ended(void)
{
	char path[64], line[64], *state;
	struct hak_text text;
	ssize_t n;
	int fd;

	hak_text_init(&text, path, sizeof path);
	hak_text_add(&text, "/proc/self/task/");
	hak_text_add_number(&text, (unsigned long)syscall(SYS_getpid));
	hak_text_add(&text, "/stat");
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, line, sizeof line - 1);
	syscall(SYS_close, fd);
	line[n > 0 ? n : 0] = '\0';
	state = strrchr(line, ')');
	return state != NULL && (state[2] == 'Z' || state[2] == 'X');
}

/* For ms milliseconds, if that is not 0. */
static void sleep_until_woken(uint32_t seen, uint64_t ms)
{
	do {
		bool tells = LOAD_RELAXED(&main_tells);

		futex_wait(seen, tells ? ms : ms == 0 ? WATCH_MS
						      : MIN(ms, WATCH_MS));
		if (!tells && main_has_ended())
			hak_background_end();
	} while (ms == 0 && is_wanted() &&
		 __atomic_load_n(&wakes, __ATOMIC_SEQ_CST) == seen);
}

static bool is_busy(uint64_t ms)
{
	return ms != 0 && ms <= HAK_BACKGROUND_MS;
}

static void work(hak_background_round *round)
{
	static const struct timespec pause = { 0, HAK_BACKGROUND_MS * 1000000 };

	while (is_wanted()) {
		uint32_t seen = __atomic_load_n(&wakes, __ATOMIC_SEQ_CST);
		uint64_t ms = round();

		if (!is_busy(ms)) {
			/* SEQ_CST: with hak_background_wake(), which counts
			 * first and looks at this then. */
			__atomic_store_n(&hak_background_asleep, true,
				__ATOMIC_SEQ_CST);
			ms = round();
			if (!is_busy(ms))
				sleep_until_woken(seen, ms);
			STORE_RELAXED(&hak_background_asleep, false);
		}
		if (is_busy(ms) && is_wanted())
			syscall(SYS_nanosleep, &pause, NULL);
	}
}

static void *thread(void *arg)
{
	hak_background_round *round = (hak_background_round *)(uintptr_t)arg;

	syscall(SYS_prctl, PR_SET_NAME, "hakmem", 0, 0, 0);
	do {
		STORE_RELAXED(&hak_background.threads, 1);
		work(round);
		STORE_RELAXED(&hak_background.threads, 0);
		/* SEQ_CST: hak_background_start() sets the option first and
		 * looks at this then; one of the two sees the other. */
		__atomic_store_n(&running, false, __ATOMIC_SEQ_CST);
	} while (is_wanted() &&
		 !__atomic_exchange_n(&running, true, __ATOMIC_SEQ_CST));
	return NULL;
}

/* 0 or what pthread_create says.  Signals are the program's: none may be taken
 * by a thread that it does not know. */
static int create(hak_background_round *round)
{
	void *arg = (void *)(uintptr_t)round;
	sigset_t all, saved;
	pthread_attr_t attr;
	pthread_t id;
	int error;

	if (pthread_attr_init(&attr) != 0)
		return ENOMEM;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	error = pthread_create(&id, &attr, thread, arg);
	if (error == EINVAL) {
		/* The program's static TLS is larger than that. */
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		error = pthread_create(&id, &attr, thread, arg);
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

HAK_COLD void hak_background_start(hak_background_round *round)
{
	int saved = errno, error;

	if (!is_wanted() ||
	    __atomic_exchange_n(&running, true, __ATOMIC_SEQ_CST))
		return;
	error = create(round);
	if (error != 0) {
		__atomic_store_n(&running, false, __ATOMIC_SEQ_CST);
		hak_warn_num("background", "cannot start a thread",
			(unsigned long)error);
	}
	errno = saved;
}

HAK_COLD void hak_background_wake(void)
{
	int saved = errno;

	__atomic_fetch_add(&wakes, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&hak_background_asleep, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL,
			0);
	errno = saved;
}

void hak_background_end(void)
{
	STORE_RELAXED(&ending, true);
	hak_background_wake();
}

static bool is_main(uint32_t thread)
{
	return thread == (uint32_t)syscall(SYS_getpid);
}

void hak_background_note_birth(uint32_t thread)
{
	if (LOAD_RELAXED(&hak_options.bg_spill) && is_main(thread))
		STORE_RELAXED(&main_tells, true);
}

void hak_background_note_exit(uint32_t thread)
{
	bool runs = LOAD_RELAXED(&running);

	if (!(runs || LOAD_RELAXED(&main_tells)) || !is_main(thread))
		return;
	/* Whatever thread is started after this has to look. */
	STORE_RELAXED(&main_tells, false);
	if (runs)
		hak_background_end();
}

void hak_background_fork_child(bool cached)
{
	STORE_RELAXED(&main_tells, cached);
	STORE_RELAXED(&hak_background.threads, 0);
	STORE_RELAXED(&hak_background_asleep, false);
	STORE_RELAXED(&running, false);
	STORE_RELAXED(&ending, false);
}
