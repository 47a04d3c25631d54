/*
 * counters.c: where the counters of threads without a heap stand, and sums.
 *
 * Sums are exact for threads that stand still; of others they are of slightly
 * different moments. hak_counters_rest is added to atomically, by whoever has
 * no counters of his own; the registry's lock keeps a thread that ends from
 * being in it and in its heap, too.
 */
#include "counters.h"

struct hak_counters_rest hak_counters_rest;

#if HAK_COUNTERS_COMPILED
__thread struct hak_counters *hak_counters
	__attribute__((tls_model("initial-exec"), visibility("hidden"))) =
	hak_counters_rest.sum;
#endif

void hak_counters_add(struct hak_counters *to, const struct hak_counters *from)
{
	size_t *sum = (size_t *)(void *)to;
	const size_t *n = (const size_t *)(const void *)from;

	for (size_t i = 0; i < HAK_COUNTERS; i++)
		__atomic_fetch_add(&sum[i], LOAD_RELAXED(&n[i]),
			__ATOMIC_RELAXED);
}
