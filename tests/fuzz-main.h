/*
 * The main function of a small fuzzer: one_input() is run on every file of a
 * committed corpus, and on files that a seed makes out of those; so the test
 * needs no fuzzer, and what a fuzzer found stays found.
 *
 *	fuzz-NAME			the test: tests/corpus/NAME
 *	fuzz-NAME FILE...		run files
 *	fuzz-NAME -t SECONDS		make files for so long
 *
 * Under libFuzzer, or AFL++ by CC=afl-clang-fast, one_input() is all there is.
 */
#ifndef FUZZ_MAIN_H
#define FUZZ_MAIN_H

#include "fuzz.h"

#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>

#define FUZZ_BYTES_MAX ((size_t)1 << 16)

char fuzz_where[128];

/* Whatever the bytes say, this returns; what is wrong ends the program. */
static void one_input(const uint8_t *data, size_t size);

#if FUZZ_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	one_input(data, size);
	return 0;
}

#else

static uint8_t fuzz_data[FUZZ_BYTES_MAX];

static size_t fuzz_load(const char *name)
{
	FILE *file = fopen(name, "rb");
	size_t size;

	if (file == NULL)
		bail("%s: %s", name, strerror(errno));
	size = fread(fuzz_data, 1, sizeof fuzz_data, file);
	fclose(file);
	return size;
}

/* A few bytes are changed, inserted, left out or repeated. */
static size_t fuzz_mutate(struct fuzz_input *dice, size_t size)
{
	for (unsigned n = 1 + fuzz_byte(dice) % 4; n > 0; n--) {
		size_t at = size != 0 ? fuzz_u16(dice) % size : 0;
		size_t length = 1 + fuzz_byte(dice) % 16;

		length = length < size - at ? length : size - at;
		switch (fuzz_byte(dice) % 4) {
		case 0:
			if (size != 0)
				fuzz_data[at] = fuzz_byte(dice);
			break;
		case 1:
			memmove(fuzz_data + at, fuzz_data + at + length,
				size - at - length);
			size -= length;
			break;
		case 2:
			if (size + length > sizeof fuzz_data)
				break;
			memmove(fuzz_data + at + length, fuzz_data + at,
				size - at);
			size += length;
			break;
		default:
			if (size != 0)
				fuzz_data[at] ^= (uint8_t)(1u
							   << fuzz_byte(dice) %
								      8);
		}
	}
	return size;
}

static void fuzz_run_mutants(const char *name, uint64_t seed, unsigned n)
{
	struct fuzz_input dice = fuzz_seeded(seed, SIZE_MAX);

	for (unsigned i = 0; i < n; i++) {
		size_t size = fuzz_load(name);

		fuzz_context("%s, seed %llu, mutant %u", name,
			(unsigned long long)seed, i);
		for (unsigned k = 0; k <= i % 8; k++)
			size = fuzz_mutate(&dice, size);
		one_input(fuzz_data, size);
	}
}

/* The current file, for a child: what ends it is told by its name. */
static char fuzz_file[1024];
static unsigned fuzz_mutants;

static void fuzz_run_file(void)
{
	size_t size = fuzz_load(fuzz_file);

	fuzz_context("%s", fuzz_file);
	one_input(fuzz_data, size);
	fuzz_run_mutants(fuzz_file, 1, fuzz_mutants);
}

static int fuzz_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int fuzz_is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void fuzz_case(void (*run)(void), const char *name, unsigned mutants)
{
	char errors[512];
	int status;

	tap_child(run, &status, errors, sizeof errors);
	ok(status == 0 && errors[0] == '\0', "%s%s", name,
		mutants != 0 ? " and its mutants" : "");
	if (status != 0 || errors[0] != '\0')
		diag("status %#x: %s", (unsigned)status, errors);
}

/* What a fuzzer adds to its corpus, for the test. */
struct fuzz_more {
	const char *name;
	void (*run)(void);
};

/* A case for each file of tests/corpus/NAME, with so many mutants. */
static int fuzz_test(const char *name, unsigned mutants,
	const struct fuzz_more *more)
{
	const char *top = getenv("top_srcdir");
	struct dirent **entry;
	char path[512];
	int n;

	snprintf(path, sizeof path, "%s/tests/corpus/%s", top ? top : ".",
		name);
	n = scandir(path, &entry, fuzz_is_file, fuzz_by_name);
	if (n <= 0)
		bail("no corpus: %s", path);
	plan((unsigned)n + (more != NULL));
	fuzz_mutants = mutants;
	for (int i = 0; i < n; i++) {
		snprintf(fuzz_file, sizeof fuzz_file, "%s/%s", path,
			entry[i]->d_name);
		fuzz_case(fuzz_run_file, entry[i]->d_name, mutants);
		free(entry[i]);
	}
	free(entry);
	if (more != NULL)
		fuzz_case(more->run, more->name, 0);
	return done();
}

static void fuzz_search(char **file, unsigned files, time_t seconds)
{
	time_t end = time(NULL) + seconds;
	unsigned long runs = 0;

	for (uint64_t seed = (uint64_t)time(NULL); time(NULL) < end; seed++)
		for (unsigned i = 0; i < files; i++, runs += 100)
			fuzz_run_mutants(file[i], seed, 100);
	fprintf(stderr, "%lu runs, nothing wrong\n", runs);
}

__attribute__((unused)) static int fuzz_main(
	int argc, char **argv, const char *name, unsigned mutants,
	const struct fuzz_more *more)
{
	if (argc == 1)
		return fuzz_test(name, mutants, more);
	if (strcmp(argv[1], "-t") == 0 && argc > 3) {
		fuzz_search(argv + 3, (unsigned)argc - 3, atoi(argv[2]));
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		size_t size = fuzz_load(argv[i]);

		fuzz_context("%s", argv[i]);
		one_input(fuzz_data, size);
	}
	return 0;
}

#endif
#endif
