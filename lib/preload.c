/*
 * preload.c: the whole malloc family and the C++ operators.
 *
 * The names are glibc's ("Replacing malloc" in its manual, and what it still
 * exports beside), at the base version: a definition with a version of its own
 * would not answer references to malloc@GLIBC_2.2.5.
 *
 * The operators throw and honour the new-handler although this is C: the
 * runtime's own functions are looked up when an allocation has failed.
 */
#define HAK_IS_PRELOAD 1
#include "api.c"
#include "mallinfo.c"

#include "os.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

/* gcc wants an alias to have the attributes of what it stands for. */
#if defined __has_attribute && __has_attribute(copy)
#define ALIAS(name) HAK_EXPORT __attribute__((alias(#name), copy(name)))
#else
#define ALIAS(name) HAK_EXPORT __attribute__((alias(#name)))
#endif

const struct hak_entry_points *hak_forward;

static void *entry_heap_new(void)
{
	return hakmem_heap_new();
}

static void entry_heap_destroy(void *heap)
{
	hakmem_heap_destroy(heap);
}

static void *entry_heap_alloc(void *heap, size_t size, size_t align)
{
	return hak_heap_alloc(heap, size, align);
}

static void *entry_heap_calloc(void *heap, size_t count, size_t size)
{
	return hak_heap_calloc(heap, count, size);
}

static void *entry_heap_realloc(void *heap, void *block, size_t size)
{
	return hak_heap_realloc(heap, block, size);
}

static int entry_heap_stats(void *heap, void *stats)
{
	return hakmem_heap_stats(heap, stats);
}

static int entry_stats_get(void *stats)
{
	return hakmem_stats_get(stats);
}

static int entry_stats_get_bin(unsigned bin, void *stats)
{
	return hakmem_stats_get_bin(bin, stats);
}

static int entry_stats_print(int format,
	void (*write)(void *, const char *), void *arg)
{
	return hakmem_stats_print((enum hakmem_stats_format)format, write,
		arg);
}

HAK_EXPORT const struct hak_entry_points hakmem_preload_entry = {
	hakmem_malloc, hakmem_calloc, hakmem_realloc, hakmem_aligned_alloc,
	hakmem_free, hakmem_free_sized, hakmem_free_aligned_sized,
	hakmem_usable_size, hakmem_trim, entry_heap_new,
	entry_heap_destroy, entry_heap_alloc, entry_heap_calloc,
	entry_heap_realloc, entry_heap_stats, entry_stats_get,
	entry_stats_get_bin, entry_stats_print, hakmem_option_get,
	hakmem_option_set,
};

/* Before any other library's constructor may start a thread or fork. */
__attribute__((constructor)) static void preload_start(void)
{
	hak_heap_for_malloc();
	hak_budget_background();
}

void *malloc(size_t size) ALIAS(hakmem_malloc);
void *calloc(size_t count, size_t size) ALIAS(hakmem_calloc);
void *realloc(void *block, size_t size) ALIAS(hakmem_realloc);
void free(void *block) ALIAS(hakmem_free);
void cfree(void *block) ALIAS(hakmem_free);
void free_sized(void *block, size_t size) ALIAS(hakmem_free_sized);
void free_aligned_sized(void *block, size_t alignment, size_t size)
	ALIAS(hakmem_free_aligned_sized);
int posix_memalign(void **block, size_t alignment, size_t size)
	ALIAS(hakmem_posix_memalign);
void *reallocarray(void *block, size_t count, size_t size)
	ALIAS(hakmem_reallocarray);

HAK_EXPORT size_t malloc_usable_size(void *block)
{
	return hak_usable_size(block);
}

HAK_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return hakmem_aligned_alloc(alignment, size);
}

HAK_EXPORT void *memalign(size_t alignment, size_t size)
{
	return hakmem_aligned_alloc(alignment, size);
}

HAK_EXPORT void *valloc(size_t size)
{
	hak_start();
	return hak_aligned_alloc(hak_page_size, size);
}

HAK_EXPORT void *pvalloc(size_t size)
{
	size_t bytes;

	hak_start();
	bytes = ALIGN_UP(size, hak_page_size);
	if (bytes < size) {
		errno = ENOMEM;
		return NULL;
	}
	return hak_aligned_alloc(hak_page_size, bytes);
}

HAK_EXPORT int malloc_trim(size_t pad)
{
	return hakmem_trim(pad);
}

void *__libc_malloc(size_t size) ALIAS(hakmem_malloc);
void *__libc_calloc(size_t count, size_t size) ALIAS(hakmem_calloc);
void *__libc_realloc(void *block, size_t size) ALIAS(hakmem_realloc);
void __libc_free(void *block) ALIAS(hakmem_free);
void *__libc_memalign(size_t alignment, size_t size) ALIAS(memalign);
void *__libc_valloc(size_t size) ALIAS(valloc);
void *__libc_pvalloc(size_t size) ALIAS(pvalloc);

/* C++: the names are mangled, no header declares them.  Weak references serve programs that link a C++ runtime, also a static
 * one; the rest is for plugins that bring it along. */
typedef void handler_function(void);

extern handler_function *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));
extern void *dlopen(const char *, int) __attribute__((weak));
extern void *dlsym(void *restrict, const char *restrict)
	__attribute__((weak));

static void *cxx_runtime(const char *symbol)
{
	static const char *const names[] = { "libstdc++.so.6", "libc++.so.1" };
	void *found = NULL;

	if (dlopen == NULL || dlsym == NULL)
		return NULL;
	for (size_t i = 0; i < COUNT_OF(names) && found == NULL; i++) {
		void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);

		if (library != NULL)
			found = dlsym(library, symbol);
	}
	return found;
}

static handler_function *new_handler(void)
{
	handler_function *(*get)(void) = _ZSt15get_new_handlerv;

	if (get == NULL)
		get = (handler_function *(*)(void))
			cxx_runtime("_ZSt15get_new_handlerv");
	return get != NULL ? get() : NULL;
}

static void throw_bad_alloc(void)
{
	void (*thrower)(void) = _ZSt17__throw_bad_allocv;

	if (thrower == NULL)
		thrower = (void (*)(void))
			cxx_runtime("_ZSt17__throw_bad_allocv");
	if (thrower != NULL)
		thrower();
}

/* No memory: ask the new-handler for some until there is none, then throw;
 * NULL for nothrow, and where no C++ runtime is. */
static HAK_COLD void *new_failed(size_t size, size_t align, bool throws)
{
	handler_function *handler;

	while ((handler = new_handler()) != NULL) {
		void *block;

		handler();
		block = hak_aligned_alloc(align, size);
		if (block != NULL)
			return block;
	}
	if (throws)
		throw_bad_alloc();
	return NULL;
}

/*
 * The same for nothrow new, which must also catch what the handler throws.
 * That takes C++: the runtime's own operator calls the throwing one, which is
 * ours, in a try block.  A static runtime's cannot be had, since ours has its
 * name; an exception then goes as far as the caller's noexcept.
 */
static HAK_COLD void *nothrow_failed(size_t size, size_t align,
	const void *nothrow)
{
	void *(*plain)(size_t, const void *);
	void *(*aligned)(size_t, size_t, const void *);

	if (new_handler() == NULL)
		return NULL;
	*(void **)&plain = cxx_runtime("_ZnwmRKSt9nothrow_t");
	*(void **)&aligned = cxx_runtime("_ZnwmSt11align_val_tRKSt9nothrow_t");
	if (align > 1 && aligned != NULL)
		return aligned(size, align, nothrow);
	if (align == 1 && plain != NULL)
		return plain(size, nothrow);
	return new_failed(size, align, false);
}

/* nothrow is NULL for an operator that throws. */
static void *new_result(void *block, size_t size, size_t align,
	const void *nothrow)
{
	if (HAK_LIKELY(block != NULL))
		return block;
	return nothrow != NULL ? nothrow_failed(size, align, nothrow)
			       : new_failed(size, align, true);
}

/* Called last by whatever an operator calls last, so that it sees who called
 * that. */
static HAK_COLD void *new_checked(size_t size, size_t align,
	const void *nothrow)
{
	return new_result(hak_check_alloc_for(size, align, HAK_CALLER), size,
		align, nothrow);
}

static HAK_NOINLINE void *new_slow(size_t size, const void *nothrow)
{
	if (hak_checking())
		return new_checked(size, 1, nothrow);
	return new_result(size <= TINY_MAX ? hak_alloc_slow(size)
					   : hak_alloc_above(size),
		size, 1, nothrow);
}

static HAK_NOINLINE void *new_aligned(size_t size, size_t align,
	const void *nothrow)
{
	if (!IS_POWER_OF_TWO(align))
		return NULL;
	if (hak_checking())
		return new_checked(size, align, nothrow);
	return new_result(hak_aligned_alloc(align, size), size, align,
		nothrow);
}

/* A Tiny hit, or NULL. */
HAK_INLINE void *new_hit(size_t size)
{
	return HAK_LIKELY(size <= TINY_MAX) ? hak_malloc_hit(size) : NULL;
}

void *_Znwm(size_t size);
void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align,
	const void *nothrow);
void _ZdlPvRKSt9nothrow_t(void *block, const void *nothrow);
void _ZdlPvSt11align_val_t(void *block, size_t align);
void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t align);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align,
	const void *nothrow);

HAK_EXPORT HAK_HIT void *_Znwm(size_t size)
{
	void *block = new_hit(size);

	return HAK_LIKELY(block != NULL) ? block : new_slow(size, NULL);
}

HAK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow)
{
	void *block = new_hit(size);

	return HAK_LIKELY(block != NULL) ? block : new_slow(size, nothrow);
}

HAK_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
	return new_aligned(size, align, NULL);
}

HAK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align,
	const void *nothrow)
{
	return new_aligned(size, align, nothrow);
}

void *_Znam(size_t size) ALIAS(_Znwm);
void *_ZnamRKSt9nothrow_t(size_t size, const void *nothrow)
	ALIAS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_t(size_t size, size_t align)
	ALIAS(_ZnwmSt11align_val_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align,
	const void *nothrow) ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);

/* delete: only checked mode looks at size and alignment, the page map knows
 * the bin. */
HAK_EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *nothrow)
{
	(void)nothrow;
	hak_free(block);
}

HAK_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align,
	const void *nothrow)
{
	(void)nothrow;
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_aligned_slow(block, align);
}

HAK_EXPORT void _ZdlPvSt11align_val_t(void *block, size_t align)
{
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_aligned_slow(block, align);
}

/* The order of size and alignment is not C's. */
HAK_EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t align)
{
	if (HAK_UNLIKELY(!hak_free_hit(block)))
		hak_free_aligned_sized_slow(block, align, size);
}

void _ZdlPv(void *block) ALIAS(hakmem_free);
void _ZdaPv(void *block) ALIAS(hakmem_free);
void _ZdlPvm(void *block, size_t size) ALIAS(hakmem_free_sized);
void _ZdaPvm(void *block, size_t size) ALIAS(hakmem_free_sized);
void _ZdaPvSt11align_val_t(void *block, size_t align)
	ALIAS(_ZdlPvSt11align_val_t);
void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t align)
	ALIAS(_ZdlPvmSt11align_val_t);
void _ZdaPvRKSt9nothrow_t(void *block, const void *nothrow)
	ALIAS(_ZdlPvRKSt9nothrow_t);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t align,
	const void *nothrow) ALIAS(_ZdlPvSt11align_val_tRKSt9nothrow_t);
