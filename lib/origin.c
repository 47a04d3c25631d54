/*
 * origin.c: walking frames, and finding the files that addresses are in.
 *
 * I1  A word is read from the stack only if it lies between the frame before
 *     and the end of the stack that the thread itself runs on: that much is
 *     mapped.  So a register that holds no frame costs a wrong line, never a
 *     fault.
 *
 * System calls alone, no lock and no allocation: this happens inside malloc,
 * which the C library calls with locks of its own held.
 */
#include "origin.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What it reads are other functions' frames: to AddressSanitizer, beyond every
 * variable. */
__attribute__((no_sanitize("address")))
struct hak_origin hak_origin_walk(struct hak_caller caller,
	struct hak_stack_range stack)
{
	struct hak_origin origin = { { caller.address } };
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t frame = (uintptr_t)caller.frame;

	if (here < stack.low || here >= stack.high)
		return origin;
	for (unsigned n = 1; n < ORIGIN_FRAMES; n++) {
		const void *const *words = (const void *const *)frame;

		if (frame <= here || frame > stack.high - 2 * sizeof *words ||
		    !IS_ALIGNED(frame, sizeof *words) ||
		    (uintptr_t)words[1] < 4096)
			break;
		origin.frame[n] = words[1];
		here = frame;
		frame = (uintptr_t)words[0];
	}
	return origin;
}

/* The first thread's stack grows, and kernels keep so much room for it. */
#define MAIN_STACK ((uintptr_t)128 * MIB)

/* A file read byte by byte, without stdio. */
struct reader {
	int fd;
	size_t at, end;
	char buffer[2048];
};

/* The next byte; -1 at the end. */
static int next(struct reader *in)
{
	if (in->at == in->end) {
		long n;

		do
			n = syscall(SYS_read, in->fd, in->buffer,
				sizeof in->buffer);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return -1;
		in->at = 0;
		in->end = (size_t)n;
	}
	return (unsigned char)in->buffer[in->at++];
}

/* Digits up to another byte, which is taken, too. */
static uintptr_t next_hex(struct reader *in)
{
	uintptr_t value = 0;

	for (;;) {
		int c = next(in);

		if (c >= '0' && c <= '9')
			value = value << 4 | (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uintptr_t)(c - 'a' + 10);
		else
			return value;
	}
}

#define NAME_BYTES 40

struct mapped {
	uintptr_t start, end, offset;
	bool readable;
	/* The last component of its file's name; empty where there is none. */
	char name[NAME_BYTES];
};

/* A line of /proc/self/maps: START-END RIGHTS OFFSET DEVICE INODE NAME. */
static bool next_mapping(struct reader *in, struct mapped *m)
{
	size_t length = 0;
	int c;

	m->start = next_hex(in);
	m->end = next_hex(in);
	m->readable = next(in) == 'r';
	while ((c = next(in)) != ' ' && c != -1)
		;
	m->offset = next_hex(in);
	while ((c = next(in)) != '\n' && c != -1) {
		if (c == '/' || c == ' ')
			length = 0;
		else if (length < NAME_BYTES - 1)
			m->name[length++] = (char)c;
	}
	m->name[length] = '\0';
	return c == '\n';
}

static bool open_map(struct reader *in)
{
	in->at = in->end = 0;
	in->fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps",
		O_RDONLY | O_CLOEXEC);
	return in->fd >= 0;
}

static bool is_stack(const struct mapped *m)
{
	return __builtin_memcmp(m->name, "[stack]", sizeof "[stack]") == 0;
}

/* A stack is known by its name, or by the thread's own data at its upper end:
 * another one, as of a coroutine, may not last as long as the thread. */
struct hak_stack_range hak_origin_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t data = (uintptr_t)hak_thread_id();
	struct hak_stack_range range = { 0, 0 };
	int saved = errno;
	struct reader in;
	struct mapped m;

	if (open_map(&in)) {
		while (next_mapping(&in, &m) && m.end <= here)
			;
		syscall(SYS_close, in.fd);
		if (here >= m.start && here < m.end && is_stack(&m))
			range = (struct hak_stack_range){ m.end - MAIN_STACK,
				m.end };
		else if (m.start <= here && here < data && data < m.end)
			range = (struct hak_stack_range){ m.start, data };
	}
	errno = saved;
	return range;
}

struct place {
	uintptr_t base;
	char name[NAME_BYTES];
};

/* Where a file's addresses count from: its first byte, or nothing, where it
 * was linked for the place it is at. */
static uintptr_t base_of(const struct mapped *m)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)m->start;

	return m->readable && header->e_type == ET_EXEC ? 0 : m->start;
}

static void find(struct reader *in, const struct hak_origin *origin,
	struct place place[ORIGIN_FRAMES])
{
	struct mapped m;
	uintptr_t base = 0;

	while (next_mapping(in, &m)) {
		if (m.offset == 0 && m.name[0] != '\0' && m.name[0] != '[')
			base = base_of(&m);
		for (unsigned i = 0; i < ORIGIN_FRAMES; i++) {
			uintptr_t at = (uintptr_t)origin->frame[i];

			if (at < m.start || at >= m.end || m.name[0] == '[')
				continue;
			place[i].base = base;
			__builtin_memcpy(place[i].name, m.name, NAME_BYTES);
		}
	}
}

void hak_origin_add(struct hak_text *text, const struct hak_origin *origin)
{
	struct place place[ORIGIN_FRAMES] = { { 0, "" } };
	struct reader in;
	int saved = errno;

	if (open_map(&in)) {
		find(&in, origin, place);
		syscall(SYS_close, in.fd);
	}
	errno = saved;
	for (unsigned i = 0; i < ORIGIN_FRAMES; i++) {
		uintptr_t at = (uintptr_t)origin->frame[i];

		if (at == 0)
			break;
		hak_text_add(text, " ");
		if (place[i].name[0] != '\0') {
			hak_text_add_foreign(text, place[i].name, NAME_BYTES);
			hak_text_add(text, "+");
		}
		/* Of the call, not of what follows it. */
		hak_text_add_hex(text, at - 1 - place[i].base);
	}
}
