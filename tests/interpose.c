/*
 * One allocator in the process: what libc allocates for the caller can be
 * freed and resized, every entry point of the family is the preloaded one's,
 * and all of them accept each other's blocks.
 */
#include "under-preload.h"

#include <dirent.h>
#include <glob.h>
#include <iconv.h>
#include <ifaddrs.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <pwd.h>
#include <regex.h>
#include <wchar.h>
#include <wordexp.h>

#include "util.h"

/* Resize and free a string that libc allocated. */
static int resizes(char *text, const char *from)
{
	size_t length;

	REQUIRE(text, "%s gave NULL", from);
	length = strlen(text);
	REQUIRE(malloc_usable_size(text) > length, "%s: usable size %zu", from,
		malloc_usable_size(text));
	text = realloc(text, length + 5000);
	REQUIRE(text && strlen(text) == length, "%s: realloc lost the text",
		from);
	memset(text + length, 'x', 5000);
	free(text);
	return 1;
}

static int strings(void)
{
	char *text = NULL;

	REQUIRE(asprintf(&text, "%d-%s-%5000d", 1, "x", 3) == 5004, "asprintf");
	free(wcsdup(L"wide"));
	return resizes(text, "asprintf") &&
	       resizes(strdup("hello"), "strdup") &&
	       resizes(strndup("hello world", 5), "strndup");
}

static int paths(void)
{
	return resizes(realpath("/proc/self", NULL), "realpath") &&
	       resizes(getcwd(NULL, 0), "getcwd") &&
	       resizes(get_current_dir_name(), "get_current_dir_name") &&
	       resizes(canonicalize_file_name("/"), "canonicalize_file_name");
}

/* getline and getdelim resize blocks of ours. */
static int lines(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	size_t room = 3;
	char *line = malloc(room);
	int count = 0;

	REQUIRE(file, "no /proc/self/status");
	while (getline(&line, &room, file) > 0)
		count++;
	REQUIRE(count > 5, "%d lines", count);
	rewind(file);
	free(line);
	line = NULL;
	room = 0;
	REQUIRE(getdelim(&line, &room, 0, file) > 100, "getdelim");
	fclose(file);
	return resizes(line, "getdelim");
}

static int memory_stream(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	REQUIRE(stream, "open_memstream");
	for (int i = 0; i < 3000; i++)
		fprintf(stream, "%d ", i);
	fclose(stream);
	REQUIRE(size > 10000, "%zu bytes were written", size);
	return resizes(text, "open_memstream");
}

static int directories(void)
{
	struct dirent **entry;
	glob_t found = {0};
	int count = scandir("/proc/self", &entry, NULL, alphasort);

	REQUIRE(count > 3, "scandir found %d entries", count);
	while (count--)
		free(entry[count]);
	free(entry);
	REQUIRE(!glob("/proc/self/*", 0, NULL, &found) && found.gl_pathc > 3,
		"glob found %zu entries", found.gl_pathc);
	globfree(&found);
	return 1;
}

static int patterns(void)
{
	wordexp_t words;
	regex_t expression;

	REQUIRE(!regcomp(&expression, "(a|b)*c{2,5}[[:alpha:]]+", REG_EXTENDED),
		"regcomp");
	REQUIRE(!regexec(&expression, "ababccxyz", 0, NULL, 0), "regexec");
	regfree(&expression);
	REQUIRE(!wordexp("a b c", &words, WRDE_NOCMD) && words.we_wordc == 3,
		"wordexp");
	wordfree(&words);
	return 1;
}

static int names_and_addresses(void)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *address = NULL;
	struct ifaddrs *interfaces = NULL;

	REQUIRE(!getaddrinfo("127.0.0.1", "80", &hints, &address),
		"getaddrinfo");
	freeaddrinfo(address);
	if (!getifaddrs(&interfaces))
		freeifaddrs(interfaces);
	REQUIRE(getpwuid(0), "getpwuid");
	return 1;
}

static int environment_and_locale(void)
{
	iconv_t converter = iconv_open("UTF-16", "UTF-8");
	char name[32];

	if (converter != (iconv_t)-1)
		iconv_close(converter);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "TEST_VARIABLE_%d", i);
		setenv(name, "long enough to need a block of its own", 1);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "TEST_VARIABLE_%d", i);
		REQUIRE(getenv(name), "%s is lost", name);
		unsetenv(name);
	}
	return setlocale(LC_ALL, "C.UTF-8") != NULL && setlocale(LC_ALL, "C");
}

static int by_value(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* qsort takes memory for arrays of some size. */
static int sorting(void)
{
	enum { COUNT = 5000 };
	char **text = malloc(COUNT * sizeof *text);

	for (int i = 0; i < COUNT; i++) {
		text[i] = malloc(20);
		snprintf(text[i], 20, "%d", i * 7919 % COUNT);
	}
	qsort(text, COUNT, sizeof *text, by_value);
	for (int i = 1; i < COUNT; i++)
		REQUIRE(strcmp(text[i - 1], text[i]) < 0, "not sorted at %d",
			i);
	for (int i = 0; i < COUNT; i++)
		free(text[i]);
	free(text);
	return 1;
}

static int pipes(void)
{
	char line[16] = "";
	FILE *pipe = popen("echo hello", "r");

	REQUIRE(pipe && fgets(line, sizeof line, pipe), "popen");
	pclose(pipe);
	return !strcmp(line, "hello\n");
}

/*
 * The family, as the manual of libc's "Replacing malloc" has it, what libc
 * exports beside, C23's, and the C++ operators.
 */
static const char *const family[] = {"malloc", "calloc", "realloc", "free",
	"aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc",
	"malloc_usable_size", "reallocarray", "cfree", "free_sized",
	"free_aligned_sized", "malloc_trim", "__libc_malloc", "__libc_calloc",
	"__libc_realloc", "__libc_free", "__libc_memalign", "__libc_valloc",
	"__libc_pvalloc", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t",
	"_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
	"_ZnwmSt11align_val_tRKSt9nothrow_t",
	"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdlPv", "_ZdaPv", "_ZdlPvm",
	"_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
	"_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
	"_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
	"_ZdlPvSt11align_val_tRKSt9nothrow_t",
	"_ZdaPvSt11align_val_tRKSt9nothrow_t"};

static int all_from_one_library(void)
{
	Dl_info mine, other;
	int missing = 0;

	dladdr(dlsym(RTLD_DEFAULT, "malloc"), &mine);
	for (size_t i = 0; i < ARRAY_SIZE(family); i++) {
		void *entry = dlsym(RTLD_DEFAULT, family[i]);

		if (entry && dladdr(entry, &other) &&
			other.dli_fbase == mine.dli_fbase)
			continue;
		diag("%s is not of %s", family[i], mine.dli_fname);
		missing++;
	}
	return !missing;
}

/* A block of any of them is good for free, realloc and the usable size. */
static int is_ordinary(const char *from, unsigned char *p, size_t n)
{
	REQUIRE(p, "%s gave NULL for %zu bytes", from, n);
	REQUIRE(malloc_usable_size(p) >= n, "%s: usable size %zu < %zu", from,
		malloc_usable_size(p), n);
	pattern_fill(p, 0, n, 1);
	p = realloc(p, n * 2 + 100);
	REQUIRE(p && pattern_check(p, n, 1) == n, "%s: realloc lost %zu bytes",
		from, n);
	free(p);
	return 1;
}

static void *by_posix_memalign(size_t n)
{
	void *p = NULL;

	return posix_memalign(&p, 256, n) ? NULL : p;
}

static int blocks_are_of_one_kind(void)
{
	for (size_t n = 1; n < 40000; n = n * 9 / 8 + 1)
		if (!is_ordinary("malloc", malloc(n), n) ||
			!is_ordinary("calloc", calloc(1, n), n) ||
			!is_ordinary("memalign", memalign(128, n), n) ||
			!is_ordinary(
				"aligned_alloc", aligned_alloc(64, n), n) ||
			!is_ordinary(
				"reallocarray", reallocarray(NULL, n, 1), n) ||
			!is_ordinary("valloc", valloc(n), n) ||
			!is_ordinary("pvalloc", pvalloc(n), n) ||
			!is_ordinary("posix_memalign", by_posix_memalign(n), n))
			return 0;
	return 1;
}

typedef void *one_size(size_t);
typedef void *two_sizes(size_t, size_t);
typedef void one_pointer(void *);

/* The names behind the names, which old programs and hooks call. */
static int other_names_agree(void)
{
	one_size *get = (one_size *)dlsym(RTLD_DEFAULT, "__libc_malloc");
	two_sizes *zeroed = (two_sizes *)dlsym(RTLD_DEFAULT, "__libc_calloc");
	two_sizes *aligned =
		(two_sizes *)dlsym(RTLD_DEFAULT, "__libc_memalign");
	one_pointer *put = (one_pointer *)dlsym(RTLD_DEFAULT, "__libc_free");

	REQUIRE(get && zeroed && aligned && put, "names are missing");
	put(malloc(100));
	put(calloc(100, 100));
	return is_ordinary("__libc_malloc", get(77), 77) &&
	       is_ordinary("__libc_calloc", zeroed(7, 11), 77) &&
	       is_ordinary("__libc_memalign", aligned(256, 77), 77);
}

/* C23: what libc does not have yet, the preloaded library does. */
static int sized_frees(void)
{
	void (*sized)(void *, size_t);
	void (*aligned_sized)(void *, size_t, size_t);

	*(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
	if (!sized || !aligned_sized)
		return !preloaded;
	for (size_t n = 0; n < 3 * MIB; n = n * 2 + 1) {
		void *p = malloc(n);

		sized(p, n);
		sized(calloc(1, n), n);
		p = malloc(7);
		sized(realloc(p, n + 1), n + 1);
		for (size_t a = 1; a <= 65536; a *= 4)
			aligned_sized(aligned_alloc(a, n), a, n);
	}
	sized(NULL, 8);
	aligned_sized(NULL, 64, 8);
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(14);
	ok(strings(), "strings: asprintf, strdup, strndup, wcsdup");
	ok(paths(), "paths: realpath, getcwd and their like");
	ok(lines(), "lines: getline and getdelim");
	ok(memory_stream(), "open_memstream");
	ok(directories(), "scandir and glob");
	ok(patterns(), "regcomp and wordexp");
	ok(names_and_addresses(), "getaddrinfo, getifaddrs, getpwuid");
	ok(environment_and_locale(), "the environment and locales");
	ok(sorting(), "qsort");
	ok(pipes(), "popen");
	if (preloaded)
		ok(all_from_one_library(),
			"the whole family is of one library");
	else
		skip(1, "nothing is preloaded");
	ok(blocks_are_of_one_kind(), "blocks are of one kind");
	ok(other_names_agree(), "so are those of the __libc_ names");
	ok(sized_frees(), "free_sized and free_aligned_sized");
	return done();
}
