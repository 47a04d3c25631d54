/*
 * What the fuzzers share: a string of bytes that is a program, and one way to
 * say what is wrong. Bytes come from a file or a fuzzer, or are drawn from a
 * seed; after the last one all are 0.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef FUZZ_LIBFUZZER
#define FUZZ_LIBFUZZER 0
#endif

struct fuzz_input {
	const uint8_t *data;
	size_t left;
	uint64_t seed;
};

/* Defined by the fuzzer. */
extern char fuzz_where[128];

/* Named in the report of what goes wrong. */
__attribute__((unused, format(printf, 1, 2))) static void fuzz_context(
	const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(fuzz_where, 128, format, args);
	va_end(args);
}

/* The allocator broke its word. */
__attribute__((unused, noreturn, format(printf, 1, 2))) static void fuzz_wrong(
	const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s%s", fuzz_where, fuzz_where[0] ? ": " : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

__attribute__((unused)) static struct fuzz_input fuzz_bytes(
	const uint8_t *data, size_t size)
{
	return (struct fuzz_input){data, size, 0};
}

/* length bytes drawn from the seed. */
__attribute__((unused)) static struct fuzz_input fuzz_seeded(
	uint64_t seed, size_t length)
{
	return (struct fuzz_input){
		NULL, length, seed * 0x9e3779b97f4a7c15u + 1};
}

__attribute__((unused)) static bool fuzz_more(const struct fuzz_input *in)
{
	return in->left != 0;
}

__attribute__((unused)) static uint8_t fuzz_byte(struct fuzz_input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	if (in->data != NULL)
		return *in->data++;
	/* A 64-bit linear congruence: its high bits are good enough. */
	in->seed = in->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint8_t)(in->seed >> 56);
}

__attribute__((unused)) static unsigned fuzz_u16(struct fuzz_input *in)
{
	unsigned high = fuzz_byte(in);

	return high << 8 | fuzz_byte(in);
}

__attribute__((unused)) static unsigned fuzz_u24(struct fuzz_input *in)
{
	unsigned high = fuzz_u16(in);

	return high << 8 | fuzz_byte(in);
}

#endif
