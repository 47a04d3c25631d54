/*
 * What the C library lets a program ask its malloc, answered for the blocks
 * there are: mallinfo2, mallinfo, malloc_info, malloc_stats, malloc_trim and
 * mallopt.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "util.h"

enum { SMALL = 40000, LARGE = 20 };
static void *small[SMALL], *large[LARGE];

/* Else libc's own would answer, for an arena that no one uses. */
static int answered_by_one_library(void)
{
	static const char *const question[] = {"mallinfo", "mallinfo2",
		"malloc_info", "malloc_stats", "malloc_trim", "mallopt"};
	Dl_info mine, other;
	int good = 1;

	dladdr(dlsym(RTLD_DEFAULT, "malloc"), &mine);
	for (size_t i = 0; i < ARRAY_SIZE(question); i++) {
		void *entry = dlsym(RTLD_DEFAULT, question[i]);

		if (entry && dladdr(entry, &other) &&
			other.dli_fbase == mine.dli_fbase)
			continue;
		diag("%s is not of %s", question[i], mine.dli_fname);
		good = 0;
	}
	return good;
}

static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static size_t take_all(void)
{
	size_t sum = 0;

	for (int i = 0; i < SMALL; i++) {
		small[i] = malloc(100 + (size_t)i % 200);
		sum += malloc_usable_size(small[i]);
	}
	for (int i = 0; i < LARGE; i++) {
		large[i] = malloc(300000 + (size_t)i * 5000);
		sum += malloc_usable_size(large[i]);
	}
	return sum;
}

static void free_all(void)
{
	for (int i = 0; i < SMALL; i++)
		free(small[i]);
	for (int i = 0; i < LARGE; i++)
		free(large[i]);
}

static int mallinfo_moves(void)
{
	size_t before = in_use(), sum = take_all(), with = in_use(), after;

	free_all();
	after = in_use();
	diag("%zu bytes taken: %zu, %zu, %zu in use", sum, before, with, after);
	REQUIRE(with - before >= sum - 1024 && with - before < sum * 5 / 4,
		"the figure moved by %zu", with - before);
	REQUIRE(after < before + 128 * KIB, "%zu more in use at the end",
		after - before);
	return 1;
}

/* The old call has the same figures in ints. */
static int old_mallinfo_agrees(void)
{
	struct mallinfo2 now;
	struct mallinfo old;
	void *p = malloc(5 * MIB);

	now = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	old = mallinfo();
#pragma GCC diagnostic pop
	free(p);
	REQUIRE(old.uordblks == (int)now.uordblks &&
			old.fordblks == (int)now.fordblks &&
			old.hblkhd == (int)now.hblkhd &&
			old.arena == (int)now.arena,
		"in use %d, %zu; free %d, %zu", old.uordblks, now.uordblks,
		old.fordblks, now.fordblks);
	return 1;
}

static const char *skip_space(const char *at)
{
	return at + strspn(at, " \t\n");
}

static size_t name_length(const char *at)
{
	return strspn(at, "abcdefghijklmnopqrstuvwxyz"
			  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:");
}

/* name="value" as often as there is one; NULL where it is none. */
static const char *skip_attributes(const char *at)
{
	size_t length;

	while ((length = name_length(at = skip_space(at)))) {
		at += length;
		if (at[0] != '=' || at[1] != '"')
			return NULL;
		at = strpbrk(at + 2, "\"<");
		if (!at || *at != '"')
			return NULL;
		at++;
	}
	return at;
}

/*
 * Enough of XML for elements, attributes and text: one root, what is opened
 * is closed in order.  Returns the number of elements, 0 if not well-formed.
 */
static int count_elements(const char *text)
{
	const char *open[32];
	size_t length;
	int depth = 0, elements = 0;

	for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
		at++;
		if (*at == '?') {
			at = strstr(at, "?>");
			if (!at || elements)
				return 0;
			continue;
		}
		if (*at == '/') {
			length = name_length(++at);
			if (depth == 0 || !length ||
				strncmp(at, open[--depth], length) ||
				name_length(open[depth]) != length ||
				*skip_space(at + length) != '>')
				return 0;
			continue;
		}
		length = name_length(at);
		if (!length || (elements && depth == 0) || depth == 32)
			return 0;
		open[depth++] = at;
		elements++;
		at = skip_attributes(at + length);
		if (at && at[0] == '/' && at[1] == '>')
			depth--;
		else if (!at || *at != '>')
			return 0;
	}
	return depth == 0 ? elements : 0;
}

static int checker_can_fail(void)
{
	return count_elements("<a><b c=\"d\"/>text<e f=\"g\"></e></a>") == 3 &&
	       !count_elements("") && !count_elements("no element") &&
	       !count_elements("<a>") && !count_elements("</a>") &&
	       !count_elements("<a><b></a></b>") &&
	       !count_elements("<a/><b/>") && !count_elements("<a b=c/>") &&
	       !count_elements("<a b=\"c/>") && !count_elements("<ab></a>");
}

static int malloc_info_is_xml(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int result, elements;

	take_all();
	result = malloc_info(0, stream);
	fclose(stream);
	free_all();
	elements = text ? count_elements(text) : 0;
	diag("%zu bytes, %d elements", size, elements);
	REQUIRE(result == 0, "malloc_info returned %d", result);
	REQUIRE(elements > 1, "not well-formed: %s", text);
	REQUIRE(strstr(text, "<malloc"), "no element malloc: %s", text);
	free(text);
	return 1;
}

static int malloc_info_refuses_options(void)
{
	return malloc_info(1, stdout) != 0;
}

static int prints_stats(void *unused)
{
	(void)unused;
	malloc_stats();
	return 0;
}

static int stats_go_to_stderr(void)
{
	struct outcome o = in_child(prints_stats, NULL, 10);
	size_t length = strlen(o.text);

	REQUIRE(!o.signal && !o.status && !o.hung, "the child failed");
	REQUIRE(length > 20, "%zu bytes were written", length);
	return 1;
}

/* The descriptor, not the stream: that one must stay without a buffer, which
 * libc's malloc_stats would allocate with its own lock held. */
static void silence_stderr(void)
{
	int fd = open("/dev/null", O_WRONLY);

	dup2(fd, 2);
	close(fd);
}

/* Writing is where a thread may be cancelled: with no lock held, please. */
static void *cancelled_in_stats(void *unused)
{
	pthread_cancel(pthread_self());
	malloc_stats();
	pthread_testcancel();
	return unused;
}

static int stats_and_cancellation(void *unused)
{
	pthread_t thread;
	void *result;

	(void)unused;
	silence_stderr();
	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, cancelled_in_stats, NULL);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			return 2;
		free(malloc(1000));
		malloc_stats();
	}
	return 0;
}

static atomic_int stop;

static void *churns(void *unused)
{
	while (!atomic_load(&stop)) {
		for (size_t i = 1; i < 100000; i = i * 3 / 2 + 1)
			free(realloc(malloc(i), i / 2 + 1));
		sleep_ms(1);
	}
	return unused;
}

/* All of them at once, while others allocate. */
static int among_threads(void *unused)
{
	pthread_t thread[3];
	char *text;
	size_t size;

	(void)unused;
	silence_stderr();
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, churns, NULL);
	for (unsigned i = 0; i < rounds(30, 30); i++) {
		FILE *stream = open_memstream(&text, &size);

		malloc_info(0, stream);
		fclose(stream);
		if (!count_elements(text))
			return 3;
		free(text);
		if (in_use() > GIB)
			return 4;
		malloc_stats();
		malloc_trim(0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

/* Pointers to many small blocks, in a mapping of their own. */
enum { MANY = 160000 };
static void **many;

/* One block in `keep` stays, 0: none. */
static long take_and_free(size_t n, size_t keep)
{
	for (size_t i = 0; i < MANY; i++) {
		many[i] = malloc(n);
		memset(many[i], 1, n);
	}
	for (size_t i = 0; i < MANY; i++)
		if (!keep || i % keep)
			free(many[i]);
	return rss_kib();
}

static void free_kept(size_t keep)
{
	for (size_t i = 0; i < MANY; i += keep)
		free(many[i]);
}

static int trim_returns_all(void)
{
	long start = rss_kib(), freed, trimmed;

	freed = take_and_free(240, 0);
	malloc_trim(0);
	trimmed = rss_kib();
	diag("RSS %ld KiB, %ld after the frees, %ld after the trim", start,
		freed, trimmed);
	REQUIRE(trimmed - start < 4 * 1024, "%ld KiB stay", trimmed - start);
	return 1;
}

/* Survivors in one page of four: slabs that are in use have free pages. */
static int trim_purges_inside_slabs(void)
{
	size_t n = 240, keep = 4 * 4096 / 256;
	long start = rss_kib(), freed, trimmed, whole;

	whole = (long)(MANY * n / 1024);
	freed = take_and_free(n, keep);
	malloc_trim(0);
	trimmed = rss_kib();
	diag("RSS %ld KiB, %ld after the frees, %ld after the trim", start,
		freed, trimmed);
	free_kept(keep);
	REQUIRE(trimmed - start < whole / 2, "%ld of %ld KiB stay",
		trimmed - start, whole);
	return 1;
}

static int trim_tells_what_it_did(void)
{
	void *p[200];
	int first;

	for (int i = 0; i < 200; i++)
		p[i] = memset(malloc(60000), 1, 60000);
	for (int i = 0; i < 200; i++)
		free(p[i]);
	first = malloc_trim(0);
	REQUIRE(first == 1, "malloc_trim returned %d", first);
	return 1;
}

/* Programs set glibc's parameters; that must not fail or change blocks. */
static int mallopt_is_harmless(void)
{
	static const int parameter[] = {M_MMAP_THRESHOLD, M_TRIM_THRESHOLD,
		M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX, M_ARENA_TEST, M_MXFAST};
	void *p = malloc(5000);

	pattern_fill(p, 0, 5000, 1);
	for (size_t i = 0; i < ARRAY_SIZE(parameter); i++)
		(void)mallopt(parameter[i], 64 * 1024);
	REQUIRE(pattern_check(p, 5000, 1) == 5000, "a block changed");
	free(p);
	p = malloc(10 * MIB);
	REQUIRE(p, "no 10 MiB");
	free(p);
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(13);
	many = mmap(NULL, MANY * sizeof *many, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ok(answered_by_one_library(), "malloc's own library answers");
	ok(mallinfo_moves(), "mallinfo2 moves with what is allocated");
	ok(old_mallinfo_agrees(), "mallinfo has the same figures");
	ok(checker_can_fail(), "the check of XML tells good from bad");
	ok(malloc_info_is_xml(), "malloc_info writes well-formed XML");
	ok(malloc_info_refuses_options(), "malloc_info knows no options");
	ok(stats_go_to_stderr(), "malloc_stats writes to standard error");
	ok(child_succeeds(stats_and_cancellation, NULL, 30, "cancellation"),
		"a thread may be cancelled in malloc_stats");
	ok(child_succeeds(among_threads, NULL, 60, "threads"),
		"all of them while threads allocate");
	ok(trim_returns_all(), "malloc_trim returns what is free");
	ok(trim_purges_inside_slabs(), "also between blocks that stay");
	ok(trim_tells_what_it_did(), "malloc_trim says that it did");
	ok(mallopt_is_harmless(), "mallopt does no harm");
	return done();
}
