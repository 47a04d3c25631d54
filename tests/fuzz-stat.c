/*
 * hakmem stat reads a process that may change, or lie, at any moment: here a
 * child of ours that sleeps, and bytes of what is read of it are changed on
 * the way. The input says which: four bytes an edit, how many reads later,
 * where in what is read, how, and with what. Whatever it is, a snapshot that
 * can be printed comes out, or one line that says why not.
 */
#include <config.h>

#include "fuzz-main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "../bench/lab/lab.h"
#include "fuzz-command.h"
#include "stats.h"

#define process_vm_readv read_edited
#define pread pread_edited
static ssize_t read_edited(pid_t pid, const struct iovec *local,
	unsigned long locals, const struct iovec *remote,
	unsigned long remotes, unsigned long flags);
static ssize_t pread_edited(int file, void *to, size_t size, off_t at);
#include "../bench/lab/remote.c"
#undef process_vm_readv
#undef pread

const char *hak_command_name = "stat";

static struct fuzz_input edits;
static unsigned until_next, reads;

/* Values that a number may become: bounds, and what is beyond them. */
static uint64_t odd_value(unsigned how)
{
	static const uint64_t values[] = {0, 1, UINT32_MAX, SIZE_MAX,
		(uint64_t)1 << 20, (uint64_t)1 << 40, (uint64_t)1 << 63, 4095};

	return values[how % 8];
}

static void edit(unsigned char *bytes, size_t size)
{
	unsigned where = fuzz_byte(&edits), how = fuzz_byte(&edits);
	unsigned value = fuzz_byte(&edits);
	size_t at = size * where / 256;
	uint64_t odd = odd_value(value);

	if (how < 64) {
		bytes[at] = (unsigned char)value;
	} else if (how < 128) {
		bytes[at] ^= (unsigned char)(1u << value % 8);
	} else {
		at &= ~(size_t)7;
		memcpy(bytes + at, &odd, size - at < 8 ? size - at : 8);
	}
}

static void arm(void)
{
	until_next = fuzz_more(&edits) ? fuzz_byte(&edits) : UINT32_MAX;
}

static ssize_t read_edited(pid_t pid, const struct iovec *local,
	unsigned long locals, const struct iovec *remote,
	unsigned long remotes, unsigned long flags)
{
	ssize_t n = process_vm_readv(
		pid, local, locals, remote, remotes, flags);

	if (reads++ > 100000)
		fuzz_wrong("reading has no end");
	while (n > 0 && until_next == 0) {
		edit(local->iov_base, (size_t)n);
		arm();
	}
	if (until_next != UINT32_MAX && until_next > 0)
		until_next--;
	return n;
}

static ssize_t pread_edited(int file, void *to, size_t size, off_t at)
{
	if (reads++ > 100000)
		fuzz_wrong("reading has no end");
	return pread(file, to, size, at);
}

/* A process that has some of everything, and sleeps. */
static pid_t subject;

static void end_subject(void)
{
	kill(subject, SIGKILL);
}

static void start_subject(void)
{
	const char *path = getenv("FUZZ_STAT_SUBJECT");
	int ends[2];
	char byte;

	if (path == NULL || pipe(ends) != 0)
		fuzz_wrong("FUZZ_STAT_SUBJECT names no program");
	subject = fork();
	if (subject == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (subject < 0 || read(ends[0], &byte, 1) != 1)
		fuzz_wrong("%s does not run", path);
	close(ends[0]);
	atexit(end_subject);
}

static void weigh(void *arg, const char *text)
{
	*(size_t *)arg += strlen(text);
}

static void print(const struct hak_snapshot *snapshot)
{
	size_t text = 0, json = 0;

	hak_stats_print(snapshot, false, weigh, &text);
	hak_stats_print(snapshot, true, weigh, &json);
	if (text == 0 || json == 0)
		fuzz_wrong("nothing is printed");
}

static void one_input(const uint8_t *data, size_t size)
{
	struct remote *volatile remote = NULL;
	struct hak_snapshot *volatile snapshot = NULL;

	if (subject == 0)
		start_subject();
	edits = fuzz_bytes(data, size);
	reads = 0;
	arm();
	if (setjmp(refused) == 0) {
		remote = hak_remote_open(subject);
		snapshot = hak_remote_take(remote);
	}
	if (snapshot != NULL)
		print(snapshot);
	else if (size == 0)
		fuzz_wrong("an untouched process cannot be read");
	free(snapshot);
	if (remote != NULL)
		close(remote->pagemap);
	free(remote);
}

#if !FUZZ_LIBFUZZER
/* The first eight bytes of each read in turn, where the figures stand that
 * everything else is reckoned with. */
static void edit_each_read(void)
{
	for (unsigned value = 0; value <= 3; value += 3)
		for (unsigned n = 0; n < 160; n++) {
			const uint8_t edits_of[] = {(uint8_t)n, 0, 200,
				(uint8_t)value};

			fuzz_context("read %u, value %u", n, value);
			one_input(edits_of, sizeof edits_of);
		}
}

int main(int argc, char **argv)
{
	static const struct fuzz_more more = {
		"each read, edited", edit_each_read};
	const char *top = getenv("top_builddir");
	char path[512];

	snprintf(path, sizeof path, "%s/tests/fuzz-stat-subject",
		top ? top : ".");
	setenv("FUZZ_STAT_SUBJECT", path, 0);
	return fuzz_main(argc, argv, "stat", 60, &more);
}
#endif
