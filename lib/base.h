/* base.h: attributes, arithmetic and assertions; included by every file. */
#ifndef HAK_BASE_H
#define HAK_BASE_H

#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HAK_INLINE static inline __attribute__((always_inline))
/* Not on a hit, but frequent: kept out of line, optimised as usual. */
#define HAK_NOINLINE __attribute__((noinline))
/* Rare: out of line, away from the code that runs. */
#define HAK_COLD __attribute__((noinline, cold))
/* Begins with a hit path: in two cache lines, not three. */
#define HAK_HIT __attribute__((aligned(64)))
#define HAK_EXPORT __attribute__((visibility("default")))
#define HAK_ALIGNED(n) __attribute__((aligned(n)))

#define CACHE_LINE 64

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define ALIGN_UP(n, a) (((n) + ((a) - 1)) & ~((uintptr_t)(a) - 1))
#define ALIGN_DOWN(n, a) ((n) & ~((uintptr_t)(a) - 1))
#define IS_ALIGNED(n, a) (((uintptr_t)(n) & ((uintptr_t)(a) - 1)) == 0)
#define IS_POWER_OF_TWO(n) ((n) != 0 && ((n) & ((n) - 1)) == 0)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ASSERT states what only a bug of ours can break: checked in debug builds.
 * What a caller can break is diagnosed in every build, by message.h. */
#define ASSERT(cond)                                                           \
	do {                                                                   \
		if (HAKMEM_DEBUG && HAK_UNLIKELY(!(cond)))                     \
			hak_assert_failed(__func__, #cond);                    \
	} while (0)

/* Gives a static variable a second name, for note.def. */
#define HAK_EXPOSE(name, variable)                                             \
	extern __typeof__(variable) name                                       \
		__attribute__((alias(#variable), visibility("hidden"), used))

/* Tells threads apart without a system call and without static TLS. */
HAK_INLINE void *hak_thread_id(void)
{
#if defined(__x86_64__)
	void *id;

	__asm__("mov %%fs:0, %0" : "=r"(id));
	return id;
#else
	return __builtin_thread_pointer();
#endif
}

_Noreturn void hak_assert_failed(const char *function, const char *condition);

/* Relaxed accesses to data that others only read for statistics, or whose
 * order is made by a lock or by the program's own hand-off of a pointer. */
#define LOAD_RELAXED(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define STORE_RELAXED(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

#endif
