/*
 * The part of bench.h that is not on any workload's measured path. State is
 * static: a workload is one process. The clock's start is the earliest start
 * of a body and its end the latest end of one, both taken by the threads
 * themselves, so that a main thread woken late does not shorten the run.
 *
 * Output is formatted into arrays on the stack and written with write(2):
 * stdio would allocate a buffer and count as the allocator's memory.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_NOTES 32

static const struct bench *this_bench;

static uint64_t started_ns;
static uint64_t stopped_ns;
static double started_cpu;
static double stopped_cpu;

static int count_children;
static uint64_t children_peak_kb;

static struct note {
	const char *key;
	uint64_t value;
} notes[MAX_NOTES];
static unsigned note_count;

static const struct {
	const char *name;
	const char *summary;
} workloads[] = {
#define HAKMEM_WORKLOAD(name, summary) {#name, summary},
#include "workloads.def"
#undef HAKMEM_WORKLOAD
};

static void put(int fd, const char *format, ...)
{
	char line[1024];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	if (write(fd, line, (size_t)length) != length)
		_exit(1);
}

void bench_refuse(const char *what, uint64_t value)
{
	put(2, "hakmem: %s: %s: %" PRIu64 "\n", this_bench->name, what, value);
	exit(2);
}

void bench_fail(const char *what, uint64_t value)
{
	put(2, "hakmem: %s: %s: %" PRIu64 "\n", this_bench->name, what, value);
	_exit(1);
}

/* -- options -- */

static _Noreturn void wrong(const char *what, const char *value)
{
	put(2, "hakmem: %s: %s: %s\n", this_bench->name, what, value);
	exit(2);
}

static void help_option(const struct bench_option *o)
{
	const char *const *word;

	if (!o->words) {
		put(1,
			"  --%s=N\n      %s (default %" PRIu64 ", %" PRIu64
			" to %" PRIu64 ")\n",
			o->name, o->help, *o->value, o->least, o->greatest);
		return;
	}
	put(1, "  --%s=", o->name);
	for (word = o->words; *word; word++)
		put(1, "%s%s", word == o->words ? "" : "|", *word);
	put(1, "\n      %s (default %s)\n", o->help, o->words[*o->value]);
}

static _Noreturn void help(void)
{
	const struct bench_option *o;
	size_t i;

	put(1, "Usage: %s [--OPTION=VALUE ...]\n", this_bench->name);
	for (i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
		if (!strcmp(workloads[i].name, this_bench->name))
			put(1, "%s\n\n", workloads[i].summary);
	for (o = this_bench->options; o->name; o++)
		help_option(o);
	put(1, "  --help\n      this text\n"
	       "A number may end in K, M or G (1024, 1024^2, 1024^3).\n");
	exit(0);
}

static int parse_number(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno)
		return 0;
	if (*end && (suffix = strchr(suffixes, *end))) {
		unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);

		if (*value > UINT64_MAX >> shift)
			return 0;
		*value <<= shift;
		end++;
	}
	return !*end;
}

static int parse_word(
	const char *const *words, const char *text, uint64_t *value)
{
	for (*value = 0; words[*value]; ++*value)
		if (!strcmp(words[*value], text))
			return 1;
	return 0;
}

static void set_option(
	const struct bench_option *o, const char *argument, const char *text)
{
	uint64_t value;

	if (o->words ? !parse_word(o->words, text, &value)
		     : !parse_number(text, &value))
		wrong("bad value", argument);
	if (!o->words && (value < o->least || value > o->greatest))
		wrong("value out of range", argument);
	*o->value = value;
}

static const struct bench_option *find_option(const char *name, size_t length)
{
	const struct bench_option *o;

	for (o = this_bench->options; o->name; o++)
		if (strlen(o->name) == length && !memcmp(o->name, name, length))
			return o;
	return NULL;
}

void bench_options(const struct bench *bench, int argc, char **argv)
{
	int i;

	this_bench = bench;
	for (i = 1; i < argc; i++) {
		const struct bench_option *o = NULL;
		const char *equals = strchr(argv[i], '=');

		if (!strcmp(argv[i], "--help"))
			help();
		if (!strncmp(argv[i], "--", 2))
			o = find_option(argv[i] + 2,
				equals ? (size_t)(equals - argv[i]) - 2
				       : strlen(argv[i]) - 2);
		if (!o)
			wrong("unknown option", argv[i]);
		if (!equals)
			wrong("option without =VALUE", argv[i]);
		set_option(o, argv[i], equals + 1);
	}
}

/* -- memory -- */

void *bench_map(size_t size)
{
	void *memory = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		bench_fail("cannot map bytes of bookkeeping", size);
	return memory;
}

static uint64_t read_field(const char *path, const char *before)
{
	char text[4096];
	const char *at;
	ssize_t length;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		bench_fail("cannot open /proc, error", (uint64_t)errno);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		bench_fail("cannot read /proc, error", (uint64_t)errno);
	text[length] = '\0';
	at = strstr(text, before);
	return at ? strtoull(at + strlen(before), NULL, 10) : 0;
}

uint64_t bench_rss_kb(void)
{
	return read_field("/proc/self/status", "VmRSS:");
}

/*
 * Not ru_maxrss: that one starts at the size of the process that called exec,
 * and a measuring script is often larger than what it measures.
 */
uint64_t bench_peak_rss_kb(void)
{
	return read_field("/proc/self/status", "VmHWM:");
}

/* -- clock and threads -- */

uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double usage_s(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double cpu_s(void)
{
	return usage_s(RUSAGE_SELF) +
	       (count_children ? usage_s(RUSAGE_CHILDREN) : 0);
}

void bench_clock_start(void)
{
	started_cpu = cpu_s();
	started_ns = bench_now_ns();
}

void bench_clock_stop(void)
{
	stopped_ns = bench_now_ns();
	stopped_cpu = cpu_s();
}

static struct {
	pthread_barrier_t barrier;
	void (*prepare)(unsigned index);
	void (*body)(unsigned index);
} job;

static struct worker {
	pthread_t thread;
	unsigned index;
	uint64_t started_ns;
	uint64_t stopped_ns;
} workers[BENCH_MAX_THREADS];

static void *work(void *argument)
{
	struct worker *w = argument;

	if (job.prepare)
		job.prepare(w->index);
	/* all others wait while one of them takes the CPU time so far */
	if (pthread_barrier_wait(&job.barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		started_cpu = cpu_s();
	pthread_barrier_wait(&job.barrier);
	w->started_ns = bench_now_ns();
	job.body(w->index);
	w->stopped_ns = bench_now_ns();
	return NULL;
}

static void take_times(unsigned threads)
{
	unsigned i;

	stopped_cpu = cpu_s();
	started_ns = UINT64_MAX;
	stopped_ns = 0;
	for (i = 0; i < threads; i++) {
		if (workers[i].started_ns < started_ns)
			started_ns = workers[i].started_ns;
		if (workers[i].stopped_ns > stopped_ns)
			stopped_ns = workers[i].stopped_ns;
	}
}

void bench_run(unsigned threads, void (*prepare)(unsigned index),
	void (*body)(unsigned index))
{
	unsigned i;

	job.prepare = prepare;
	job.body = body;
	pthread_barrier_init(&job.barrier, NULL, threads);
	for (i = 0; i < threads; i++)
		workers[i].index = i;
	if (threads == 1)
		work(&workers[0]);
	for (i = 0; threads > 1 && i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			bench_fail("cannot start thread", i);
	for (i = 0; threads > 1 && i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&job.barrier);
	take_times(threads);
}

/* -- result -- */

void bench_note(const char *key, uint64_t value)
{
	if (note_count == MAX_NOTES)
		bench_fail("too many notes", note_count);
	notes[note_count].key = key;
	notes[note_count++].value = value;
}

void bench_count_children(uint64_t peak_kb)
{
	count_children = 1;
	if (peak_kb > children_peak_kb)
		children_peak_kb = peak_kb;
}

int bench_report(unsigned threads, uint64_t ops, uint64_t checksum)
{
	char line[2048];
	size_t length;
	unsigned i;
	double ns = (double)(stopped_ns - started_ns);

	if (ns < 1)
		ns = 1;
	length = (size_t)snprintf(line, sizeof(line),
		"%s\tthreads=%u\tops=%" PRIu64 "\tns_per_op=%.3f"
		"\tops_per_s=%.0f\tcpu_s=%.6f\tpeak_rss_kb=%" PRIu64
		"\tchecksum=%016" PRIx64,
		this_bench->name, threads, ops, ns / (double)ops,
		(double)ops * 1e9 / ns, stopped_cpu - started_cpu,
		count_children ? children_peak_kb : bench_peak_rss_kb(),
		checksum);
	for (i = 0; i < note_count; i++)
		length += (size_t)snprintf(line + length, sizeof(line) - length,
			"\t%s=%" PRIu64, notes[i].key, notes[i].value);
	line[length++] = '\n';
	if (write(1, line, length) != (ssize_t)length) {
		put(2, "hakmem: %s: cannot write the result: %s\n",
			this_bench->name, strerror(errno));
		return 1;
	}
	return 0;
}
