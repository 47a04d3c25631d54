/*
 * The loader and the allocator: libraries come and go, the loader's messages
 * are kept for each thread and freed at its end, look-ups run in threads that
 * allocate.
 */
#include "under-preload.h"

#include <pthread.h>
#include <stdatomic.h>

#include "util.h"

static const char *const library[] = {"libm.so.6", "libresolv.so.2",
	"libanl.so.1", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1",
	"libcrypt.so.1", "libutil.so.1"};

static int open_use_close(int mode)
{
	void *handle[ARRAY_SIZE(library)];
	double (*cosine)(double);

	for (size_t i = 0; i < ARRAY_SIZE(library); i++)
		handle[i] = dlopen(library[i], mode);
	REQUIRE(handle[0], "%s", dlerror());
	*(void **)&cosine = dlsym(handle[0], "cos");
	REQUIRE(cosine && cosine(0.0) == 1.0, "libm has no cos");
	for (size_t i = ARRAY_SIZE(library); i--;)
		REQUIRE(!handle[i] || !dlclose(handle[i]), "%s", dlerror());
	return 1;
}

static int many_times(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!open_use_close(i % 2 ? RTLD_NOW : RTLD_LAZY))
			return 0;
		free(malloc(i * 100));
	}
	return 1;
}

/* The text of dlerror belongs to the thread; libc frees it after its end. */
static void *earns_errors(void *unused)
{
	for (int i = 0; i < 5; i++) {
		const char *text;

		if (dlopen("/nonexistent/library.so", RTLD_NOW))
			return (void *)1;
		text = dlerror();
		if (!text || !strstr(text, "nonexistent"))
			return (void *)2;
		if (dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere"))
			return (void *)3;
		free(malloc(200));
	}
	return unused;
}

static int errors_in_threads(void)
{
	for (unsigned i = 0; i < rounds(15, 30); i++) {
		pthread_t thread[8];

		for (int j = 0; j < 8; j++)
			pthread_create(&thread[j], NULL, earns_errors, NULL);
		for (int j = 0; j < 8; j++) {
			void *result;

			pthread_join(thread[j], &result);
			REQUIRE(!result, "step %ld failed", (long)result);
		}
	}
	return 1;
}

static atomic_int stop;

static void *allocates(void *unused)
{
	while (!atomic_load(&stop))
		for (size_t i = 0; i < 300; i++)
			free(malloc(i * 20));
	return unused;
}

static int while_threads_allocate(void)
{
	pthread_t thread[2];
	int good;

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, allocates, NULL);
	good = many_times(rounds(20, 30));
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return good;
}

/* A namespace of its own has a C library, and so a malloc, of its own. */
static int another_namespace(void)
{
	for (int i = 0; i < 3; i++) {
		void *handle = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
		void *(*get)(size_t);
		void (*put)(void *);
		void *ours = malloc(100), *theirs;

		REQUIRE(handle, "%s", dlerror());
		*(void **)&get = dlsym(handle, "malloc");
		*(void **)&put = dlsym(handle, "free");
		theirs = get(100);
		memset(theirs, 1, 100);
		put(theirs);
		free(ours);
		dlclose(handle);
	}
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	plan(4);
	ok(many_times(rounds(60, 30)), "libraries come and go");
	ok(errors_in_threads(), "the loader's messages in threads");
	ok(while_threads_allocate(), "libraries come and go among threads");
	ok(another_namespace(), "the C library in another namespace");
	return done();
}
