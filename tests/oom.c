/*
 * At the limit of the address space, or of mappings: NULL with ENOMEM, no other
 * block hurt, and freed memory can be allocated again.  All in children, which
 * get the limit.
 */
#include "under-preload.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "util.h"

/* The table of blocks, mapped before the limit is set. */
enum { MOST = 5000000 };
static unsigned char **block;

static void limit_address_space(size_t more)
{
	struct rlimit limit;

	limit.rlim_cur = limit.rlim_max = (size_t)vsz_kib() * 1024 + more;
	if (setrlimit(RLIMIT_AS, &limit))
		bail("setrlimit: %s", strerror(errno));
}

static void map_table(void)
{
	block = mmap(NULL, MOST * sizeof *block, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (block == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
}

/* One byte a page at most, or the machine's memory would be the limit. */
static void mark(size_t i, size_t n)
{
	block[i][0] = (unsigned char)i;
	block[i][n - 1] = (unsigned char)(i >> 8);
}

static int is_marked(size_t i, size_t n)
{
	unsigned char first =
		n == 1 ? (unsigned char)(i >> 8) : (unsigned char)i;

	return block[i][0] == first &&
	       block[i][n - 1] == (unsigned char)(i >> 8);
}

static size_t fill(size_t n)
{
	size_t count = 0;

	errno = 0;
	while (count < MOST && (block[count] = malloc(n)))
		mark(count++, n);
	return count;
}

static int all_marked(size_t count, size_t n)
{
	for (size_t i = 0; i < count; i++)
		REQUIRE(!block[i] || is_marked(i, n),
			"block %zu of %zu bytes was overwritten", i, n);
	return 1;
}

/* The other entry points, too, at the very limit. */
static int others_fail_well(size_t n)
{
	unsigned char *kept = block[0];
	void *p;

	errno = 0;
	p = calloc(n, 2000);
	REQUIRE(p || errno == ENOMEM, "calloc left errno at %d", errno);
	free(p);
	errno = 0;
	p = memalign(4096, n * 2000);
	REQUIRE(p || errno == ENOMEM, "memalign left errno at %d", errno);
	free(p);
	p = NULL;
	REQUIRE(posix_memalign(&p, 65536, 400 * MIB) == ENOMEM && !p,
		"posix_memalign found 400 MiB");
	errno = 0;
	p = realloc(kept, 400 * MIB);
	REQUIRE(!p && errno == ENOMEM, "realloc to 400 MiB: %p, %d", p, errno);
	REQUIRE(is_marked(0, n), "realloc damaged what it could not move");
	return 1;
}

/* Small blocks get less room: all of it is touched. */
struct load {
	const char *name;
	size_t n, room;
};

static const struct load loads[] = {
	{"24 bytes", 24, 80 << 20},
	{"200 bytes", 200, 80 << 20},
	{"1000 bytes", 1000, 80 << 20},
	{"6000 bytes", 6000, 100 << 20},
	{"100 KB", 100000, 300 << 20},
	{"1 MiB", 1 << 20, 300 << 20},
	{"8 MiB", 8 << 20, 300 << 20},
	{"40 MiB", 40 << 20, 300 << 20},
};

static int every_other_again(size_t count, size_t n)
{
	size_t again = 0, freed = 0;

	for (size_t i = 0; i < count; i += 2, freed++) {
		free(block[i]);
		block[i] = NULL;
	}
	for (size_t i = 0; i < count && again < freed * 3 / 4; i += 2) {
		block[i] = malloc(n);
		if (!block[i])
			break;
		mark(i, n);
		again++;
	}
	REQUIRE(again >= freed * 3 / 4, "%zu freed, %zu allocated again", freed,
		again);
	return all_marked(count, n);
}

static void free_all(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(block[i]);
		block[i] = NULL;
	}
}

/* At least half of the room must have been of use. */
static int exhaust(size_t n, size_t room)
{
	size_t count = fill(n);

	REQUIRE(count < MOST && errno == ENOMEM,
		"%zu blocks of %zu bytes, errno %d", count, n, errno);
	REQUIRE(count * n >= room / 2, "only %zu blocks of %zu bytes", count,
		n);
	if (!all_marked(count, n) || !others_fail_well(n) ||
		!every_other_again(count, n))
		return 0;
	free_all(count);
	/* and what was of this size serves another one */
	for (size_t size = 1; size < room / 3; size = size * 4 + 1) {
		void *p = malloc(size);

		REQUIRE(p, "no %zu bytes after %zu blocks were freed", size,
			count);
		free(p);
	}
	return 1;
}

static int exhausting_child(void *arg)
{
	const struct load *load = arg;

	limit_address_space(load->room);
	return !exhaust(load->n, load->room);
}

/* One size after the other, in one process. */
static int changing_child(void *unused)
{
	static const size_t sizes[] = {8 << 20, 1000, 100000, 30, 1 << 20};
	size_t room = 80 * MIB;

	(void)unused;
	limit_address_space(room);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (!exhaust(sizes[i], room))
			return 1;
	return 0;
}

static pthread_barrier_t limited;

static void *fills_its_share(void *share)
{
	unsigned char **mine = share;
	void *result = NULL;
	size_t count = 0;

	pthread_barrier_wait(&limited);
	errno = 0;
	while (count < MOST / 4) {
		mine[count] = malloc(count % 9 ? 300 : 20000);
		if (!mine[count])
			break;
		mine[count][0] = (unsigned char)count;
		count++;
	}
	if (count < MOST / 4 && errno != ENOMEM)
		result = (void *)1;
	while (count--) {
		if (mine[count][0] != (unsigned char)count)
			result = (void *)2;
		free(mine[count]);
	}
	return result;
}

/* Four threads reach the limit at the same time. */
static int threads_child(void *unused)
{
	pthread_t thread[4];
	int worst = 0;

	(void)unused;
	pthread_barrier_init(&limited, NULL, 5);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, fills_its_share,
			    block + i * (MOST / 4)))
			return 9;
	limit_address_space(120 * MIB);
	pthread_barrier_wait(&limited);
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(thread[i], &result);
		worst = (int)(intptr_t)result > worst ? (int)(intptr_t)result
						      : worst;
	}
	return worst ? worst : !exhaust(1000, 80 * MIB);
}

/* realloc of a growing buffer until there is no room for it. */
static int growing_child(void *unused)
{
	unsigned char *p = NULL, *q;
	size_t n = 1;

	(void)unused;
	limit_address_space(300 * MIB);
	for (; (q = realloc(p, n)); n += n / 3 + 1) {
		p = q;
		p[n - 1] = (unsigned char)n;
		p[0] = 77;
	}
	REQUIRE(n > 100 * MIB, "the buffer stopped at %zu bytes", n);
	REQUIRE(p && p[0] == 77, "it was damaged");
	free(p);
	return malloc(50 * MIB) ? 0 : 2;
}

/* A batch system's limit, from the start of the program on. */
static int works_within(void)
{
	static void *kept[40000];

	for (int round = 0; round < 3; round++) {
		void *large;

		for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
			kept[i] = malloc(i % 500);
			REQUIRE(kept[i], "no %zu bytes", i % 500);
		}
		large = malloc(100 * MIB);
		REQUIRE(large, "no 100 MiB");
		memset(large, 1, 4 * MIB);
		free(large);
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			free(kept[i]);
	}
	return 1;
}

static const char *program;

static int starting_child(void *resource)
{
	struct rlimit limit = {512 * MIB, 512 * MIB};

	if (setrlimit(*(int *)resource, &limit))
		return 9;
	execl("/proc/self/exe", program, "works-within", (char *)NULL);
	return 8;
}

/* --- At the limit of mappings ------------------------------------------------ */

enum { HUGE_BLOCKS = 8, SIZES_MAX = 64 };

static unsigned long mappings_most(void)
{
	unsigned long most = 0;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

	if (file && fscanf(file, "%lu", &most) != 1)
		most = 0;
	if (file)
		fclose(file);
	return most;
}

/* Every second page of a range gets rights of its own until no more may. */
static void *use_up_mappings(size_t *bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), most = mappings_most(), i;
	char *range;

	*bytes = (most + 2) * 2 * page;
	range = mmap(NULL, *bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return NULL;
	for (i = 0; i < most; i++)
		if (mprotect(range + 2 * i * page, page, PROT_READ))
			break;
	return i < most && errno == ENOMEM ? range : NULL;
}

/* Blocks of all sizes: good ones, or NULL with ENOMEM. */
static int some_of_each(int all)
{
	size_t n = 1, i, got = 0;

	for (i = 0; i < SIZES_MAX && n < 70 * MIB; i++, n = n * 3 / 2 + 1) {
		errno = 0;
		block[i] = malloc(n);
		REQUIRE(block[i] || errno == ENOMEM, "%zu bytes: errno %d", n,
			errno);
		REQUIRE(block[i] || !all, "no %zu bytes", n);
		if (block[i])
			mark(i, n), got++;
	}
	n = 1;
	for (size_t k = 0; k < i; k++, n = n * 3 / 2 + 1) {
		REQUIRE(!block[k] || is_marked(k, n), "%zu bytes are damaged",
			n);
		free(block[k]);
	}
	return all || got > 0;
}

static int at_the_limit(void)
{
	static unsigned char *huge[HUGE_BLOCKS];
	size_t size = 40 * MIB, bytes;
	void *range;
	int good;

	for (size_t i = 0; i < HUGE_BLOCKS; i++) {
		huge[i] = malloc(size);
		REQUIRE(huge[i], "no huge block");
		huge[i][0] = huge[i][size - 1] = (unsigned char)(i + 1);
	}
	range = use_up_mappings(&bytes);
	REQUIRE(range, "the limit of mappings cannot be reached");
	good = some_of_each(0);
	for (size_t i = 0; i < HUGE_BLOCKS; i++) {
		size_t to = i % 2 ? size / 2 : size * 2;
		unsigned char *p = realloc(huge[i], to);

		huge[i] = p ? p : huge[i];
		good &= huge[i][0] == i + 1;
		if (i % 3 == 0) {
			free(huge[i]);
			huge[i] = NULL;
		}
	}
	malloc_trim(0);
	good &= some_of_each(0);
	munmap(range, bytes);
	for (size_t i = 0; i < HUGE_BLOCKS; i++)
		free(huge[i]);
	return good;
}

/* What the kernel does not take of the middle, as that would make two mappings
 * of one, goes when it has become an end. */
static int goes_back_at_the_limit(const unsigned char order[9], int trim)
{
	void *huge[11], *range;
	const long goes = 8 * 40 << 10;
	size_t bytes;
	long before;

	for (size_t i = 0; i < ARRAY_SIZE(huge); i++) {
		huge[i] = malloc(40 * MIB);
		REQUIRE(huge[i], "no huge block");
		memset(huge[i], 1, 4096);
	}
	range = use_up_mappings(&bytes);
	REQUIRE(range, "the limit of mappings cannot be reached");
	before = vsz_kib();
	for (size_t i = 0; i < 9; i++)
		free(huge[order[i]]);
	if (trim)
		malloc_trim(0);
	REQUIRE(vsz_kib() <= before - goes, "%ld KiB have gone, not %ld",
		before - vsz_kib(), goes);
	return 1;
}

/* From the inside to the ends; the first, owed for longest, is none. */
static int outwards_child(void *unused)
{
	static const unsigned char order[] = {1, 6, 7, 5, 8, 4, 9, 3, 10};

	(void)unused;
	return !goes_back_at_the_limit(order, 1);
}

/* The second is an end once the third is gone, and it was not its turn then:
 * the next is the middle still, and goes with it. */
static int inwards_child(void *unused)
{
	static const unsigned char order[] = {2, 9, 10, 8, 7, 6, 5, 4, 3};

	(void)unused;
	return !goes_back_at_the_limit(order, 0);
}

static int mappings_child(void *unused)
{
	long before;

	(void)unused;
	if (!some_of_each(1))
		return 1;
	malloc_trim(0);
	before = vsz_kib();
	if (!at_the_limit() || !some_of_each(1))
		return 1;
	malloc_trim(0);
	/* An arena may have been added; a huge block would be more.  Of others
	 * nothing of the kind is known. */
	if (!preloaded || vsz_kib() <= before + (72 << 10))
		return 0;
	diag("%ld KiB of address space are left behind", vsz_kib() - before);
	return 1;
}

int main(int argc, char **argv)
{
	int address_space = RLIMIT_AS, data = RLIMIT_DATA;

	under_preload(argv);
	program = argv[0];
	if (argc > 1)
		return !works_within();
	plan(ARRAY_SIZE(loads) + 8);
	map_table();
	for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
		ok(child_succeeds(exhausting_child, (void *)&loads[i], 60,
			   loads[i].name),
			"%s until there is no more", loads[i].name);
	ok(child_succeeds(changing_child, NULL, 100, "all sizes"),
		"one size after the other in one process");
	ok(child_succeeds(threads_child, NULL, 60, "threads"),
		"four threads reach the limit at once");
	ok(child_succeeds(growing_child, NULL, 60, "growing"),
		"a growing buffer");
	ok(child_succeeds(starting_child, &address_space, 30, "RLIMIT_AS"),
		"a program starts and works under ulimit -v 524288");
	ok(child_succeeds(starting_child, &data, 30, "RLIMIT_DATA"),
		"and under ulimit -d 524288");
	if (mappings_most() == 0 || mappings_most() > 300000) {
		skip(3, "the limit of mappings is not known, or too far away");
		return done();
	}
	ok(child_succeeds(mappings_child, NULL, 60, "mappings"),
		"at the limit of mappings, and when it is gone");
	if (!preloaded) {
		skip(2, "of others nothing of the kind is known");
		return done();
	}
	ok(child_succeeds(outwards_child, NULL, 60, "outwards"),
		"what could not be given back goes at the limit still");
	ok(child_succeeds(inwards_child, NULL, 60, "inwards"),
		"and without anything else that goes");
	return done();
}
