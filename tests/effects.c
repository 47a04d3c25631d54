/*
 * Every variable does what hakmem(7) says of it: for each row of the option
 * table this program runs itself with the default and with another value, and
 * compares what the allocator did. A row without such an effect here is a
 * failure, so that there can be no knob that does nothing.
 *
 * What is compared is never the value itself: it is blocks held, slabs kept,
 * memory resident, the way a process ends and what it says.
 */
#include <config.h>

#include "hakmem.h"

#include "util.h"

#include <pthread.h>
#include <sys/stat.h>

enum { BANDS = 8, NUMBERS = BANDS, MANY = 2560, CAP = 40 };

/* The largest size of each band. */
static const size_t size_of_band[BANDS] = {8, 16, 32, 64, 128, 256, 512, 1024};

/* --- In the process that is looked at: numbers on standard output ---------- */

static void *blocks[MANY];

static void print(const long *numbers, int n)
{
	for (int i = 0; i < n; i++)
		printf("%ld ", numbers[i]);
	fflush(stdout);
}

static void print_one(long number)
{
	print(&number, 1);
}

static struct hakmem_stats stats(void)
{
	struct hakmem_stats all = {.struct_size = sizeof all};

	hakmem_stats_get(&all);
	return all;
}

static struct hakmem_bin_stats bin_of(size_t size)
{
	struct hakmem_bin_stats one = {.struct_size = sizeof one};

	for (unsigned bin = 0; hakmem_stats_get_bin(bin, &one) == 0; bin++)
		if (one.size == size)
			return one;
	return one;
}

/* Free blocks of one size that this thread holds. */
static long held(size_t size)
{
	struct hakmem_bin_stats one = bin_of(size);

	return (long)(one.front + one.depot);
}

/* One block of each band: the rest of the refill stays. */
static void refills(void)
{
	long n[BANDS];

	for (int band = 0; band < BANDS; band++) {
		blocks[band] = hakmem_malloc(size_of_band[band]);
		n[band] = held(size_of_band[band]) + 1;
	}
	print(n, BANDS);
}

static long most_held(size_t size, int many)
{
	long most = 0;

	for (int i = 0; i < many; i++)
		blocks[i] = hakmem_malloc(size);
	for (int i = 0; i < many; i++) {
		long now;

		hakmem_free(blocks[i]);
		now = held(size);
		most = now > most ? now : most;
	}
	return most;
}

static void caches(void)
{
	long n[BANDS];

	for (int band = 0; band < BANDS; band++)
		n[band] = most_held(size_of_band[band], 600);
	print(n, BANDS);
}

static void ring_of_l2(void)
{
	print_one(most_held(2048, 200));
}

static void ring_of_l25(void)
{
	print_one(most_held(40960, 100));
}

static void all_caches(void)
{
	struct hakmem_stats all;

	for (int band = 3; band < BANDS; band++) {
		for (int i = 0; i < MANY; i++)
			blocks[i] = hakmem_malloc(size_of_band[band]);
		for (int i = 0; i < MANY; i++)
			hakmem_free(blocks[i]);
	}
	all = stats();
	print_one((long)(all.front_bytes + all.depot_bytes));
}

/* Slabs with one free block each. */
static void warm_slabs(void)
{
	for (int i = 0; i < MANY; i++)
		blocks[i] = hakmem_malloc(1024);
	hakmem_trim(0);
	for (int i = 0; i < MANY; i += 64)
		hakmem_free(blocks[i]);
	hakmem_trim(0);
	print_one((long)bin_of(1024).warm);
}

static void slabs_mapped(void)
{
	blocks[0] = hakmem_malloc(64);
	print_one((long)stats().mappings);
}

/* Empty memory that is resident after a peak of 48 MiB. */
static void retained(void)
{
	for (int i = 0; i < 48; i++)
		memset(blocks[i] = hakmem_malloc(MIB + 1), 1, MIB);
	for (int i = 0; i < 48; i++)
		hakmem_free(blocks[i]);
	print_one((long)(stats().retained_bytes / MIB));
}

static void mib_granted(void)
{
	long n = 0;

	while (n < 64 && (blocks[n] = hakmem_malloc(MIB)) != NULL)
		n++;
	print_one(n);
}

static void *free_all(void *unused)
{
	for (int i = 0; i < MANY; i++)
		hakmem_free(blocks[i]);
	return unused;
}

/* Full magazines that still wait between threads when nobody has called for
 * a while. */
static void queued(void)
{
	pthread_t other;

	for (int i = 0; i < MANY; i++)
		blocks[i] = hakmem_malloc(64);
	if (pthread_create(&other, NULL, free_all, NULL))
		exit(90);
	pthread_join(other, NULL);
	for (int i = 0; i < 40 && stats().spill_magazines != 0; i++)
		sleep_ms(50);
	print_one((long)stats().spill_magazines);
}

/* Whether huge pages are asked for where the block is. */
static long is_advised(void *block)
{
	unsigned long from = 0, to = 0, at = (unsigned long)block;
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512];
	long yes = 0;

	while (maps && fgets(line, sizeof line, maps)) {
		sscanf(line, "%lx-%lx ", &from, &to);
		if (from <= at && at < to && !strncmp(line, "VmFlags:", 8))
			yes = strstr(line, " hg") != NULL;
	}
	return yes;
}

/* A small block, and a large one. */
static void huge_pages(void)
{
	long n[2];
	char *large;

	blocks[0] = hakmem_malloc(64);
	n[0] = is_advised(blocks[0]);
	large = hakmem_malloc(6 * MIB);
	n[1] = is_advised(large + 3 * MIB);
	print(n, 2);
}

static void free_no_block(void)
{
	static char no_block[64];

	hakmem_free(no_block + 16);
	print_one(1);
}

static void overflow(void)
{
	/* Read back, so that the compiler cannot know its size. */
	char *volatile block = hakmem_malloc(100);

	block[100] = 1;
	hakmem_free(block);
	print_one(1);
}

/* KiB that stay in use although all was freed. */
static void held_back(void)
{
	size_t before = stats().live_bytes;

	for (int i = 0; i < 8000; i++)
		hakmem_free(hakmem_malloc(1000));
	print_one((long)(stats().live_bytes - before) / 1024);
}

static void allocate(void)
{
	blocks[0] = hakmem_malloc(64);
	print_one(1);
}

static char json[1 << 18];

static void add_text(void *unused, const char *text)
{
	(void)unused;
	if (strlen(json) + strlen(text) < sizeof json)
		strcat(json, text);
}

/* The first figures of all groups of counters; -1 where one does not count. */
static void counted(void)
{
	static const char *const name[] = {"unified_cache", "class", "free",
		"refill", "diagnostics"};
	long n[ARRAY_SIZE(name)];
	const char *all;

	for (int i = 0; i < 100; i++)
		blocks[i] = hakmem_malloc(64);
	for (int i = 0; i < 100; i++)
		hakmem_free(blocks[i]);
	hakmem_free(NULL);
	hakmem_stats_print(HAKMEM_STATS_JSON, add_text, NULL);
	all = strstr(json, "\"counters\":{");
	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		char key[64];
		const char *group;

		snprintf(key, sizeof key, "\"%s\":{", name[i]);
		group = all ? strstr(all, key) : NULL;
		n[i] = group ? strtol(strchr(group, ':') + 1 +
				      strcspn(strchr(group, ':') + 1, ":") + 1,
				       NULL, 10)
			     : -1;
	}
	print(n, ARRAY_SIZE(name));
}

/* --- Runs ------------------------------------------------------------------ */

struct seen {
	long n[NUMBERS];
	int count;	/* of numbers */
	int signal;	/* that ended it, or 0 */
	char text[32768]; /* on standard error */
	char file[32768]; /* of HAKMEM_STATS_FILE */
};

/* One of them is what a child of this one shall do. */
static const struct measure {
	const char *name;
	void (*run)(void);
} measures[] = {
	{"refills", refills},
	{"caches", caches},
	{"ring_of_l2", ring_of_l2},
	{"ring_of_l25", ring_of_l25},
	{"all_caches", all_caches},
	{"warm_slabs", warm_slabs},
	{"slabs_mapped", slabs_mapped},
	{"retained", retained},
	{"mib_granted", mib_granted},
	{"queued", queued},
	{"huge_pages", huge_pages},
	{"free_no_block", free_no_block},
	{"overflow", overflow},
	{"held_back", held_back},
	{"allocate", allocate},
	{"counted", counted},
};

static char directory[] = "/tmp/hakmem-effects-XXXXXX";

static const char *in_directory(const char *name)
{
	static char path[3][128];
	static int next;
	char *to = path[next++ % 3];

	snprintf(to, sizeof *path, "%s/%s", directory, name);
	return to;
}

static void read_file(const char *name, char *text, size_t room)
{
	int fd = open(in_directory(name), O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, room - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void redirect(int fd, const char *name)
{
	int file = open(in_directory(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (file < 0 || dup2(file, fd) < 0)
		_exit(98);
	close(file);
}

/* In the child: the variables of this run and no others of hakmem. */
static void start(const char *measure, const char *settings)
{
	static char copy[512];
	struct rlimit no_core = {0, 0};
	extern char **environ;

	for (char **entry = environ; *entry;)
		if (!strncmp(*entry, "HAKMEM_", 7)) {
			snprintf(copy, sizeof copy, "%.*s",
				(int)strcspn(*entry, "="), *entry);
			unsetenv(copy);
		} else {
			entry++;
		}
	setenv("HAKMEM_NO_SUCH", "1", 1);
	snprintf(copy, sizeof copy, "%s", settings);
	for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
		putenv(at);
	if (!strcmp(measure, "in_file")) {
		static char file[256];

		snprintf(file, sizeof file, "HAKMEM_STATS_FILE=%s",
			in_directory("statistics.%p"));
		putenv(file);
		measure = "allocate";
	}
	redirect(1, "out");
	redirect(2, "err");
	setrlimit(RLIMIT_CORE, &no_core);
	execl("/proc/self/exe", "effects", measure, (char *)NULL);
	_exit(99);
}

static struct seen look(const char *measure, const char *settings)
{
	struct seen s = {.count = 0};
	char out[512], file[64], *at = out, *end;
	pid_t child = fork();
	int status;

	if (child == 0)
		start(measure, settings);
	if (child < 0 || waitpid(child, &status, 0) != child)
		bail("no child: %s", strerror(errno));
	read_file("out", out, sizeof out);
	read_file("err", s.text, sizeof s.text);
	snprintf(file, sizeof file, "statistics.%d", (int)child);
	read_file(file, s.file, sizeof s.file);
	unlink(in_directory(file));
	while (s.count < NUMBERS) {
		s.n[s.count] = strtol(at, &end, 10);
		if (end == at)
			break;
		s.count++;
		at = end;
	}
	s.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return s;
}

/* --- What is expected ------------------------------------------------------- */

/* Judges: 1, 0, or SKIPPED. `which` is of the effect's row. */
enum { SKIPPED = -1 };
typedef int judge(const struct seen *was, const struct seen *is, int which);

static int all_of(const long *n, int from, int to, long value)
{
	for (int i = from; i < to; i++)
		if (n[i] != value)
			return 0;
	return 1;
}

/* Refills of 5 in the bands from..to, and of 16 elsewhere. */
static int refills_are(const struct seen *was, const struct seen *is, int from,
	int to)
{
	return all_of(was->n, 0, BANDS, 16) && all_of(is->n, 0, from, 16) &&
		all_of(is->n, from, to, 5) && all_of(is->n, to, BANDS, 16);
}

static int every_band(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return refills_are(was, is, 0, BANDS);
}

static int half_of_bands(
	const struct seen *was, const struct seen *is, int which)
{
	return refills_are(was, is, which * 4, which * 4 + 4);
}

static int one_band(const struct seen *was, const struct seen *is, int which)
{
	return refills_are(was, is, which, which + 1);
}

static int more_specific_wins(
	const struct seen *was, const struct seen *is, int which)
{
	(void)was, (void)which;
	return is->n[0] == 5 && is->n[1] == 9 && is->n[2] == 7 &&
		all_of(is->n, 4, BANDS, 3);
}

static int one_cap(const struct seen *was, const struct seen *is, int which)
{
	for (int i = 0; i < BANDS; i++)
		if (i != which && is->n[i] != was->n[i])
			return 0;
	return is->n[which] == CAP && was->n[which] > CAP;
}

/* 1 where one is what the build has room for. */
static int ring_of_one(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return is->n[0] == 1 && (was->n[0] > 1 || POOL_L2_RING_CAP == 1);
}

static int now_none(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->n[0] > 0 && is->n[0] == 0;
}

static int now_some(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->n[0] == 0 && is->n[0] > 0;
}

static int three(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->n[0] != 3 && is->n[0] == 3;
}

static int fewer(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return is->n[0] < was->n[0] / 2;
}

static int nothing_went(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->n[0] < 30 && is->n[0] >= 40;
}

static int advice(const struct seen *was, const struct seen *is, int which)
{
	if (was->n[1] == 0)
		return SKIPPED; /* a system without huge pages */
	return was->n[0] == 0 && is->n[0] == which && is->n[1] == which;
}

static int only_told(const struct seen *was, const struct seen *is, int which)
{
	int told = strstr(is->text, "invalid pointer") != NULL;

	return was->signal == SIGABRT && is->signal == 0 && is->count == 1 &&
		told == which;
}

static int printed(const struct seen *was, const struct seen *is, int which)
{
	static const char *const sign[] = {"\n  live_bytes ",
		"\"schema\":\"hakmem-stats-1\""};

	return was->text[0] == '\0' && strstr(is->text, sign[which]);
}

static int in_the_file(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->file[0] == '\0' && is->text[0] == '\0' &&
		strstr(is->file, "\n  live_bytes ");
}

/* A group of counters; what is not built in is refused. */
static int counts(const struct seen *was, const struct seen *is, int which)
{
	static const int compiled[] = {
		HAKMEM_TINY_UNIFIED_CACHE_MEASURE_COMPILED,
		HAKMEM_TINY_CLASS_STATS_COMPILED, HAKMEM_FREE_STATS_COMPILED,
		HAKMEM_REFILL_STATS_COMPILED, HAKMEM_DIAG_COMPILED};

	for (int i = 0; i < 5; i++)
		if (was->n[i] != -1 || (i != which && is->n[i] != -1))
			return 0;
	if (!compiled[which])
		return is->n[which] == -1 &&
			strstr(is->text, "not built in") != NULL;
	/* hits; allocations; pushes; tries of the depot; frees of nothing */
	return which == 4 ? is->n[4] == 1 : is->n[which] > 0;
}

static int overflow_told(
	const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->signal == 0 && is->signal == SIGABRT &&
		strstr(is->text, "hakmem: free: write past the end: ");
}

static int about_one_mib(
	const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->n[0] == 0 && is->n[0] > 700 && is->n[0] <= 1024;
}

static int unknown_told(const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->text[0] == '\0' && is->signal == 0 &&
		strstr(is->text, "unknown variable: HAKMEM_NO_SUCH");
}

static int unknown_fatal(
	const struct seen *was, const struct seen *is, int which)
{
	(void)which;
	return was->signal == 0 && is->signal == SIGABRT;
}

static const struct effect {
	const char *name;     /* the variable whose effect it is */
	const char *settings; /* a value of it, and of others */
	const char *measure;
	judge *is_seen;
	int which;
} effects[] = {
	{"HAKMEM_WARM_POOL_SIZE", "HAKMEM_WARM_POOL_SIZE=3", "warm_slabs",
		three, 0},
	{"HAKMEM_CACHE", "HAKMEM_CACHE=64K", "all_caches", fewer, 0},
#define CAP_OF(band)                                                           \
	{"HAKMEM_TINY_UNIFIED_C" #band, "HAKMEM_TINY_UNIFIED_C" #band "=40",   \
		"caches", one_cap, band}
	CAP_OF(0), CAP_OF(1), CAP_OF(2), CAP_OF(3), CAP_OF(4), CAP_OF(5),
	CAP_OF(6), CAP_OF(7),
	{"HAKMEM_TINY_REFILL_COUNT", "HAKMEM_TINY_REFILL_COUNT=5", "refills",
		every_band, 0},
	{"HAKMEM_TINY_REFILL_COUNT_HOT", "HAKMEM_TINY_REFILL_COUNT_HOT=5",
		"refills", half_of_bands, 0},
	{"HAKMEM_TINY_REFILL_COUNT_MID", "HAKMEM_TINY_REFILL_COUNT_MID=5",
		"refills", half_of_bands, 1},
#define REFILL_OF(band)                                                        \
	{"HAKMEM_TINY_REFILL_COUNT_C" #band,                                   \
		"HAKMEM_TINY_REFILL_COUNT_C" #band "=5", "refills", one_band,  \
		band}
	REFILL_OF(0), REFILL_OF(1), REFILL_OF(2), REFILL_OF(3), REFILL_OF(4),
	REFILL_OF(5), REFILL_OF(6), REFILL_OF(7),
	{"HAKMEM_TINY_REFILL_COUNT_C1",
		"HAKMEM_TINY_REFILL_COUNT=3 HAKMEM_TINY_REFILL_COUNT_HOT=7"
		" HAKMEM_TINY_REFILL_COUNT_C0=5 HAKMEM_TINY_REFILL_COUNT_C1=9",
		"refills", more_specific_wins, 0},
	{"HAKMEM_TINY_USE_SUPERSLAB", "HAKMEM_TINY_USE_SUPERSLAB=0",
		"slabs_mapped", now_some, 0},
	{"HAKMEM_L2_RING_CAP", "HAKMEM_L2_RING_CAP=1", "ring_of_l2",
		ring_of_one, 0},
	{"HAKMEM_L25_RING_CAP", "HAKMEM_L25_RING_CAP=0", "ring_of_l25",
		now_none, 0},
	{"HAKMEM_BG_SPILL", "HAKMEM_BG_SPILL=1", "queued", now_none, 0},
	{"HAKMEM_PURGE_DELAY_MS", "HAKMEM_PURGE_DELAY_MS=3600000", "retained",
		nothing_went, 0},
	{"HAKMEM_RETAIN", "HAKMEM_RETAIN=0", "retained", now_none, 0},
	{"HAKMEM_RETAIN", "HAKMEM_RETAIN=1G", "retained", nothing_went, 0},
	{"HAKMEM_LIMIT", "HAKMEM_LIMIT=16M", "mib_granted", fewer, 0},
	{"HAKMEM_THP", "HAKMEM_THP=never", "huge_pages", advice, 0},
	{"HAKMEM_THP", "HAKMEM_THP=always", "huge_pages", advice, 1},
	{"HAKMEM_INVALID_FREE", "HAKMEM_INVALID_FREE=warn", "free_no_block",
		only_told, 1},
	{"HAKMEM_INVALID_FREE", "HAKMEM_INVALID_FREE=ignore", "free_no_block",
		only_told, 0},
	{"HAKMEM_CHECK", "HAKMEM_CHECK=1", "overflow", overflow_told, 0},
	{"HAKMEM_CHECK_QUARANTINE", "HAKMEM_CHECK=1 HAKMEM_CHECK_QUARANTINE=1M",
		"held_back", about_one_mib, 0},
	{"HAKMEM_STATS", "HAKMEM_STATS=1", "allocate", printed, 0},
	{"HAKMEM_STATS", "HAKMEM_STATS=json", "allocate", printed, 1},
	{"HAKMEM_STATS_FILE", "HAKMEM_STATS=1", "in_file", in_the_file, 0},
	{"HAKMEM_MEASURE_UNIFIED_CACHE", "HAKMEM_MEASURE_UNIFIED_CACHE=1",
		"counted", counts, 0},
	{"HAKMEM_MEASURE_CLASS", "HAKMEM_MEASURE_CLASS=1", "counted", counts,
		1},
	{"HAKMEM_MEASURE_FREE", "HAKMEM_MEASURE_FREE=1", "counted", counts, 2},
	{"HAKMEM_MEASURE_REFILL", "HAKMEM_MEASURE_REFILL=1", "counted", counts,
		3},
	{"HAKMEM_MEASURE_DIAG", "HAKMEM_MEASURE_DIAG=1", "counted", counts, 4},
	{"HAKMEM_VERBOSE", "HAKMEM_VERBOSE=1", "allocate", unknown_told, 0},
	{"HAKMEM_ABORT_CONF", "HAKMEM_ABORT_CONF=1", "allocate", unknown_fatal,
		0},
};

static const char *const rows[] = {
#define HAKMEM_OPTION(                                                         \
	field, name, kind, change, fallback, least, greatest, what)            \
	name,
#include "options.def"
#undef HAKMEM_OPTION
};

static void diag_numbers(const char *which, const struct seen *s)
{
	diag("%s: signal %d, %ld %ld %ld %ld %ld %ld %ld %ld, '%.100s'", which,
		s->signal, s->n[0], s->n[1], s->n[2], s->n[3], s->n[4],
		s->n[5], s->n[6], s->n[7], s->text);
}

static void test_effect(const struct effect *e)
{
	struct seen was = look(!strcmp(e->measure, "in_file") ? "allocate"
							       : e->measure,
		"");
	struct seen is = look(e->measure, e->settings);
	int found = e->is_seen(&was, &is, e->which);

	if (found == SKIPPED) {
		skip(1, "no huge pages here");
		return;
	}
	if (!ok(found, "%s: %s", e->settings, e->measure)) {
		diag_numbers("default", &was);
		diag_numbers("changed", &is);
	}
}

static int has_effect(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(effects); i++)
		if (!strcmp(effects[i].name, name))
			return 1;
	return 0;
}

static int is_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i], name))
			return 1;
	return 0;
}

/* An effect counts for a variable only if that is what was changed. */
static int is_changed(const struct effect *e)
{
	const char *at = strstr(e->settings, e->name);

	return !strcmp(e->measure, "in_file") ||
		(at && at[strlen(e->name)] == '=');
}

static void test_audit(void)
{
	int fine = 1;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ok(has_effect(rows[i]), "%s has an effect here", rows[i]);
	for (size_t i = 0; i < ARRAY_SIZE(effects); i++)
		fine &= is_row(effects[i].name) && is_changed(&effects[i]);
	ok(fine, "effects are of rows, and of what was changed");
	ok(!has_effect("HAKMEM_NO_SUCH"), "a row without one would be told");
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(measures); i++)
		if (!strcmp(argv[1], measures[i].name)) {
			measures[i].run();
			return 0;
		}
	plan(ARRAY_SIZE(rows) + ARRAY_SIZE(effects) + 2);
	if (!mkdtemp(directory))
		bail("no directory: %s", strerror(errno));
	test_audit();
	for (size_t i = 0; i < ARRAY_SIZE(effects); i++)
		test_effect(&effects[i]);
	unlink(in_directory("out"));
	unlink(in_directory("err"));
	rmdir(directory);
	return done();
}
