/*
 * Guard pages of checked mode: the page behind a block of more than 32 KiB
 * belongs to nobody while the block is recorded, and to the next block after
 * that; and what becomes of SIGSEGV, the program's and that of others.
 *
 * Whether memory may be read is asked of the kernel, which says EFAULT where a
 * program would be killed.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "util.h"

/* As the manual page has them. */
#define LEAST (32 * KIB + 1)
#define MOST_PAGES 8192

static size_t page;
static int pipe_in, pipe_out;

static int is_readable(const void *address)
{
	const void *volatile p = address;
	char byte;

	if (write(pipe_in, p, 1) != 1)
		return 0;
	return read(pipe_out, &byte, 1) == 1;
}

/* What must be the program's can be written, the page behind it, less than
 * slack bytes from the end, cannot be read. */
static int is_guarded(unsigned char *p, size_t n, size_t align, size_t slack)
{
	uintptr_t end = (uintptr_t)p + n, guard = (end + page - 1) & -page;

	REQUIRE(p != NULL, "no block of %zu bytes", n);
	REQUIRE((uintptr_t)p % align == 0, "%p: not aligned to %zu", (void *)p,
		align);
	memset(p, 0x5a, n);
	REQUIRE(malloc_usable_size(p) == n, "%zu bytes of %zu",
		malloc_usable_size(p), n);
	REQUIRE(guard - end < slack,
		"%zu bytes between the end and the page", (size_t)(guard - end));
	REQUIRE(guard == end || is_readable((void *)end),
		"the end is beyond the page");
	REQUIRE(!is_readable((void *)guard) &&
			!is_readable((void *)(guard + page - 1)),
		"%zu bytes aligned to %zu: no guard page", n, align);
	return 1;
}

static int every_size_and_alignment(void)
{
	static const size_t sizes[] = {LEAST, LEAST + 15, 40 * KIB, 40 * KIB + 1,
		100000, 128 * KIB - 1, 128 * KIB, MIB - 16, MIB, MIB + 1,
		3 * MIB + 17, 32 * MIB - 1, 32 * MIB, 40 * MIB + 5};

	for (size_t align = 16; align <= 4 * MIB; align *= 4)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			void *p = memalign(align, sizes[i]);

			REQUIRE(is_guarded(p, sizes[i], align,
					align < page ? align : page),
				"%zu bytes aligned to %zu", sizes[i], align);
			free(p);
		}
	return 1;
}

/* All memory that pages were closed in comes back usable: sizes at random, each
 * block written to its end, in place and elsewhere resized. */
static int used_again(void)
{
	uint32_t state = test_seed();
	unsigned char *blocks[40] = {NULL};
	unsigned char tags[40] = {0};

	for (unsigned i = 0; i < rounds(6000, 20); i++) {
		unsigned at = below(&state, ARRAY_SIZE(blocks));
		size_t n = LEAST + below(&state, i % 16 ? 300000 : 4000000);
		int old;

		if (below(&state, 3) == 0) {
			free(blocks[at]);
			blocks[at] = NULL;
		}
		old = blocks[at] != NULL;
		blocks[at] = realloc(blocks[at], n);
		REQUIRE(!old || (blocks[at][0] == tags[at] &&
				blocks[at][LEAST - 1] == tags[at]),
			"lost its contents");
		if (i % 64 == 0)
			REQUIRE(is_guarded(blocks[at], n, 16, page),
				"after %u", i);
		tags[at] = (unsigned char)i;
		memset(blocks[at], tags[at], n);
		if (i % 1000 == 0)
			malloc_trim(0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(blocks); i++)
		free(blocks[i]);
	return 1;
}

/* A block that grows and shrinks where it is takes its page along. */
static int resized_in_place(void)
{
	size_t n = 2 * MIB, same = 0;
	unsigned char *p = malloc(n);

	for (unsigned i = 0; i < 60; i++) {
		void *old = p;

		n += i < 30 ? 50001 : -(size_t)60007;
		p = realloc(p, n);
		same += p == old;
		REQUIRE(p != NULL, "no memory");
		REQUIRE(is_guarded(p, n, 16, page), "at %zu", n);
	}
	free(p);
	REQUIRE(same > 10, "in place only %zu times", same);
	return 1;
}

/* By less than a page at a time, so that each end is tried that there is room
 * for. */
static int grown_bit_by_bit(void)
{
	size_t n = 2 * MIB;
	unsigned char *p = malloc(n);

	for (unsigned moved = 0, steps = 0; moved < 3; steps++) {
		void *old = p;

		REQUIRE(steps < 2000, "moved only %u times", moved);
		n += page - 5;
		p = realloc(p, n);
		moved += p != old;
		REQUIRE(is_guarded(p, n, 16, page), "at %zu", n);
	}
	free(p);
	return 1;
}

/* A page is no memory until it is touched, and this one never is. */
static int needs_no_memory(void *unused)
{
	unsigned char *p, is_in_memory = 1;

	(void)unused;
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	p = malloc(40 * MIB);
	if (mincore(p + 40 * MIB, page, &is_in_memory))
		return 2;
	return is_in_memory & 1;
}

static size_t mappings(void)
{
	char buffer[4096];
	size_t lines = 0;
	ssize_t n;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += buffer[i] == '\n';
	close(fd);
	return lines;
}

/* More blocks than there may be guard pages: the program's own mappings find
 * room, and the blocks without a page have patterns. */
static int are_bounded(void *unused)
{
	enum { N = MOST_PAGES + 500 };
	static unsigned char *blocks[N];
	size_t closed = 0, n;

	(void)unused;
	for (size_t i = 0; i < N; i++) {
		blocks[i] = malloc(LEAST + 14);
		if (!blocks[i])
			return 1;
		closed += !is_readable(blocks[i] + LEAST + 15);
	}
	n = mappings();
	if (closed > MOST_PAGES || closed < MOST_PAGES - 100 ||
		n > 2 * MOST_PAGES + 500) {
		fprintf(stderr, "%zu pages, %zu mappings", closed, n);
		return 2;
	}
	for (size_t i = 0; i < N; i++)
		free(blocks[i]);
	return mappings() > n / 2 ? 3 : 0;
}

/* Volatile: the compiler must not know how far the block goes. */
static unsigned char *volatile touched;

static int touches(void *unused)
{
	(void)unused;
	touched = malloc(100 * KIB);
	touched += 100 * KIB;
	return *(volatile unsigned char *)touched;
}

static int touches_in_thread(void *unused)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL,
			(void *(*)(void *))(void (*)(void))touches, unused))
		return 98;
	pthread_join(thread, NULL);
	return 97;
}

/* The alternate stack is one on which nothing but the signal's frame fits. */
static int touches_with_small_stack(void *unused)
{
#ifdef _SC_MINSIGSTKSZ
	size_t least = (size_t)sysconf(_SC_MINSIGSTKSZ);
#else
	size_t least = MINSIGSTKSZ;
#endif
	size_t size = (least + page - 1) & -page;
	char *stack = mmap(NULL, size + 16 * page, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t alternate = {.ss_sp = stack + 16 * page, .ss_size = least};

	if (stack == MAP_FAILED || mprotect(stack, 16 * page, PROT_NONE) ||
		sigaltstack(&alternate, NULL))
		return 95;
	return touches(unused);
}

static int touches_in_grandchild(void *unused)
{
	int status;
	pid_t child;

	free(malloc(100 * KIB));
	child = fork();
	if (child == 0)
		_exit(touches(unused));
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
		return 96;
	signal(WTERMSIG(status), SIG_DFL);
	return raise(WTERMSIG(status));
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	_exit(info->si_addr == touched ? 42 : 43);
}

static void handle(void)
{
	struct sigaction act = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &act, NULL);
}

static int touches_with_handler(void *unused)
{
	handle();
	return touches(unused);
}

static int touches_with_later_handler(void *unused)
{
	free(malloc(100 * KIB));
	handle();
	return touches(unused);
}

static int reads_nothing(void *unused)
{
	volatile char *volatile nothing = NULL;

	(void)unused;
	free(malloc(100 * KIB));
	return *nothing;
}

/* No access right is missing but that to a page of the program's. */
static int reads_own_page(void *unused)
{
	volatile char *p = mmap(NULL, page, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	free(malloc(100 * KIB));
	return *p;
}

static int is_sent_one(void *unused)
{
	(void)unused;
	free(malloc(100 * KIB));
	kill(getpid(), SIGSEGV);
	return 41;
}

static int ignores(void *unused)
{
	(void)unused;
	signal(SIGSEGV, SIG_IGN);
	free(malloc(100 * KIB));
	kill(getpid(), SIGSEGV);
	return 42;
}

struct end {
	const char *name;
	int (*body)(void *);
	int signal, status;
	const char *line;
};

#define LINE "hakmem: check: access past the end: 0x"

static const struct end ends[] = {
	{"an access is told", touches, SIGABRT, 0, LINE},
	{"in a thread", touches_in_thread, SIGABRT, 0, LINE},
	{"with a small alternate stack", touches_with_small_stack, SIGABRT, 0,
		LINE},
	{"in a child", touches_in_grandchild, SIGABRT, 0, LINE},
	{"the program's handler is called", touches_with_handler, 0, 42, ""},
	{"and one that it has later", touches_with_later_handler, 0, 42, ""},
	{"a null pointer is not hakmem's business", reads_nothing, SIGSEGV, 0,
		""},
	{"nor a page of the program's", reads_own_page, SIGSEGV, 0, ""},
	{"a signal that was sent ends the process", is_sent_one, SIGSEGV, 0, ""},
	{"unless it is ignored", ignores, 0, 42, ""},
};

static int ends_so(const struct end *end)
{
	struct outcome o = in_child(end->body, NULL, 20);
	size_t length = strlen(end->line);

	REQUIRE(!o.hung && o.signal == end->signal && o.status == end->status,
		"signal %d, status %d: %s", o.signal, o.status, o.text);
	REQUIRE(length ? !strncmp(o.text, end->line, length) &&
				strstr(o.text, "accessed by: guard-page+0x") &&
				strstr(o.text, "allocated by: guard-page+0x")
		       : !*o.text, "it says: %s", o.text);
	return 1;
}

/* With the policy of one that cannot end the call: told, and then the signal. */
static int start_warned(void *program)
{
	setenv("HAKMEM_INVALID_FREE", "warn", 1);
	execl("/proc/self/exe", program, "touches", (char *)NULL);
	return 98;
}

static int ends_by_the_signal(char *program)
{
	struct outcome o = in_child(start_warned, program, 20);

	REQUIRE(o.signal == SIGSEGV, "signal %d, status %d", o.signal,
		o.status);
	REQUIRE(!strncmp(o.text, LINE, strlen(LINE)), "it says: %s", o.text);
	return 1;
}

int main(int argc, char **argv)
{
	int ends_of_pipe[2];

	setenv("HAKMEM_CHECK", "1", 1);
	under_preload(argv);
	if (!preloaded)
		skip_all("the guard pages are hakmem's");
	if (argc > 1)
		return touches(NULL);
	page = (size_t)sysconf(_SC_PAGESIZE);
	if (pipe(ends_of_pipe))
		bail("no pipe");
	pipe_out = ends_of_pipe[0];
	pipe_in = ends_of_pipe[1];
	plan(7 + (int)ARRAY_SIZE(ends));
	ok(every_size_and_alignment(), "every size and alignment");
	ok(used_again(), "the memory is used again");
	ok(resized_in_place(), "the page goes along when a block grows");
	ok(grown_bit_by_bit(), "as long as there is room for it");
	ok(child_succeeds(needs_no_memory, NULL, 20, "memory"),
		"the page needs no memory");
	ok(child_succeeds(are_bounded, NULL, 60, "bounded"),
		"no more pages than mappings allow");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		ok(ends_so(&ends[i]), "%s", ends[i].name);
	ok(ends_by_the_signal(argv[0]), "HAKMEM_INVALID_FREE=warn");
	return done();
}
