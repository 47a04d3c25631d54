/*
 * counters.h: counters of the groups that configure compiled in.
 *
 * A group's macro is 0 or 1; with 0 every HAK_COUNT of it is gone from the
 * object code. Compiled in, a group counts when its HAKMEM_MEASURE_ variable
 * says so, and costs a test on cold paths otherwise. Gates that want every hit
 * have the caches closed (unified_cache.h), so no counter stands on a hit path
 * in any build.
 *
 * Counters belong to a thread's heap and are written by it alone, without
 * atomic read-modify-write; readers sum them up. Those of threads that ended
 * are kept in a sum, and threads without a heap share one set.
 */
#ifndef HAK_COUNTERS_H
#define HAK_COUNTERS_H

#include "options.h"
#include "size_class.h"

#define HAK_COMPILED_CACHE HAKMEM_TINY_UNIFIED_CACHE_MEASURE_COMPILED
#define HAK_COMPILED_CLASS HAKMEM_TINY_CLASS_STATS_COMPILED
#define HAK_COMPILED_FREE HAKMEM_FREE_STATS_COMPILED
#define HAK_COMPILED_REFILL HAKMEM_REFILL_STATS_COMPILED
#define HAK_COMPILED_DIAG HAKMEM_DIAG_COMPILED

/* 1 if any group is there. */
#define HAK_COUNTERS_COMPILED                                                  \
	(HAK_COMPILED_CACHE | HAK_COMPILED_CLASS | HAK_COMPILED_FREE |         \
		HAK_COMPILED_REFILL | HAK_COMPILED_DIAG)

/* Which: a bit each, for those who compare builds. */
#define HAK_COUNTERS_GROUPS                                                    \
	(HAK_COMPILED_CACHE | HAK_COMPILED_CLASS << 1 |                        \
		HAK_COMPILED_FREE << 2 | HAK_COMPILED_REFILL << 3 |            \
		HAK_COMPILED_DIAG << 4)

#define HAK_GATE_CACHE hak_options.measure_unified_cache
#define HAK_GATE_CLASS hak_options.measure_class
#define HAK_GATE_FREE hak_options.measure_free
#define HAK_GATE_REFILL hak_options.measure_refill
#define HAK_GATE_DIAG hak_options.measure_diag

struct hak_counters {
#define HAKMEM_COUNTER_GROUP(group, name, variable, title)
#define HAKMEM_COUNTER(group, field, what) size_t field;
#define HAKMEM_BIN_COUNTER(group, field, what) size_t field[BINS];
#include "counters.def"
#undef HAKMEM_BIN_COUNTER
#undef HAKMEM_COUNTER
#undef HAKMEM_COUNTER_GROUP
	/* Of the thread; not a counter, and the last member. */
	size_t shard;
};

#define HAK_COUNTERS (offsetof(struct hak_counters, shard) / sizeof(size_t))

/* This thread's; never NULL. Not there where no group is compiled. */
extern __thread struct hak_counters *hak_counters
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Of threads without a heap, and of those that ended. */
struct hak_counters_rest {
	struct hak_counters sum[HAK_COUNTERS_COMPILED];
	/* Goes up before and after a thread's counters move from its heap into
	 * the sum: readers without the registry's lock look at it. */
	size_t moves;
};

extern struct hak_counters_rest hak_counters_rest;

HAK_INLINE void hak_counter_add(size_t *counter, size_t n)
{
	if (HAK_UNLIKELY(hak_counters == hak_counters_rest.sum))
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
	else
		STORE_RELAXED(counter, *counter + n);
}

/* The processor's clock: cheap, steady, in ticks of its own. */
HAK_INLINE uint64_t hak_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return 0;
#endif
}

/* Since `start`, which is 0 if the gate was closed then. */
HAK_INLINE uint64_t hak_ticks_since(uint64_t start)
{
	return start != 0 ? hak_ticks() - start : 0;
}

/* A group's macro picks the form by its digit, so that one which is not
 * compiled in leaves nothing to the compiler.  With HAK_NO_COUNTERS, for
 * tests/counters-absent.sh, no group does. */
#define HAK_COUNTING(group) HAK_FORM(COUNTING, HAK_COMPILED_##group)(group)
#define HAK_COUNT(group, field, n)                                             \
	HAK_FORM(COUNT, HAK_COMPILED_##group)(group, field, n)
#define HAK_TICKS(group) HAK_FORM(TICKS, HAK_COMPILED_##group)(group)

#ifdef HAK_NO_COUNTERS
#define HAK_FORM(macro, compiled) HAK_##macro##_0
#else
#define HAK_FORM(macro, compiled) HAK_PASTE(macro, compiled)
#define HAK_PASTE(macro, compiled) HAK_##macro##_##compiled
#endif

#define HAK_COUNTING_0(group) 0
#define HAK_COUNTING_1(group) HAK_UNLIKELY(LOAD_RELAXED(&HAK_GATE_##group))
#define HAK_COUNT_0(group, field, n) ((void)sizeof(n))
#define HAK_COUNT_1(group, field, n)                                           \
	do {                                                                   \
		if (HAK_COUNTING_1(group))                                     \
			hak_counter_add(&hak_counters->field, (size_t)(n));    \
	} while (0)
#define HAK_TICKS_0(group) ((uint64_t)0)
#define HAK_TICKS_1(group) (HAK_COUNTING_1(group) ? hak_ticks() : 0)

/* Whether a gate is open that needs every hit. */
HAK_INLINE bool hak_counters_want_hits(void)
{
	return HAK_COUNTING(CACHE) || HAK_COUNTING(CLASS) ||
		HAK_COUNTING(FREE);
}

void hak_counters_add(struct hak_counters *to, const struct hak_counters *from);

/* A thread's counters at its heap's birth, when it is given another shard, and
 * at its exit, which has two halves: the heap leaves the registry in between.
 * Under the registry's lock. */
HAK_INLINE void hak_counters_begin(struct hak_counters *counters,
	unsigned shard)
{
	if (HAK_COUNTERS_COMPILED) {
		counters->shard = shard;
		hak_counters = counters;
	}
}

HAK_INLINE void hak_counters_settle(struct hak_counters *counters,
	unsigned shard)
{
	if (HAK_COUNTERS_COMPILED)
		STORE_RELAXED(&counters->shard, shard);
}

HAK_INLINE bool hak_counters_are_here(unsigned shard)
{
	return LOAD_RELAXED(&hak_counters->shard) == shard;
}

HAK_INLINE void hak_counters_end(struct hak_counters *counters)
{
	if (HAK_COUNTERS_COMPILED) {
		STORE_RELAXED(&hak_counters_rest.moves,
			hak_counters_rest.moves + 1);
		/* hakmem stat reads it before and after the rest. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		hak_counters = hak_counters_rest.sum;
		hak_counters_add(hak_counters_rest.sum, counters);
	}
}

HAK_INLINE void hak_counters_ended(void)
{
	if (HAK_COUNTERS_COMPILED)
		__atomic_store_n(&hak_counters_rest.moves,
			hak_counters_rest.moves + 1, __ATOMIC_RELEASE);
}

#endif
