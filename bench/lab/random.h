/*
 * The lab's random numbers: xoshiro256** seeded through splitmix64. One
 * state a purpose, always seeded by a number that is printed, so a verdict
 * can be computed again to the last digit. Not for secrets.
 */
#ifndef HAK_LAB_RANDOM_H
#define HAK_LAB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
	uint64_t s[4];
};

static inline uint64_t hak_random_mix(uint64_t *counter)
{
	uint64_t z = (*counter += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* What a generator is for: those of one seed must not run in step. */
enum random_purpose {
	RANDOM_ORDER,
	RANDOM_PADDING,
	RANDOM_BOOTSTRAP,
	RANDOM_PERMUTATION,
	RANDOM_NOISE,
};

static inline void hak_random_seed(
	struct random *r, uint64_t seed, enum random_purpose purpose)
{
	uint64_t counter = hak_random_mix(&seed) + (uint64_t)purpose;

	for (int i = 0; i < 4; i++)
		r->s[i] = hak_random_mix(&counter);
}

static inline uint64_t hak_random_turn(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static inline uint64_t hak_random_next(struct random *r)
{
	uint64_t *s = r->s;
	uint64_t result = hak_random_turn(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = hak_random_turn(s[3], 45);
	return result;
}

/* 0 .. bound - 1; the bias is below bound / 2^32, bounds here are < 2^20 */
static inline size_t hak_random_below(struct random *r, size_t bound)
{
	return (size_t)(((hak_random_next(r) >> 32) * bound) >> 32);
}

static inline void hak_random_shuffle(
	struct random *r, size_t *order, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = hak_random_below(r, i), other = order[j];

		order[j] = order[i - 1];
		order[i - 1] = other;
	}
}

/* 0 <= x < 1 */
static inline double hak_random_unit(struct random *r)
{
	return (double)(hak_random_next(r) >> 11) * 0x1p-53;
}

#endif
