/*
 * Both libraries opened late, by a program that runs on another malloc: as a
 * plugin would bring them.  They find room for their thread-local variable,
 * work, and threads that used them may end after dlclose.
 */
#include "under-preload.h"

#include <pthread.h>
#include <semaphore.h>

#include "util.h"

struct family {
	void *(*malloc)(size_t n);
	void *(*realloc)(void *p, size_t n);
	void (*free)(void *p);
};

struct visit {
	const struct family *family;
	sem_t used, may_end;
	int good;
};

static int look_up(void *handle, const char *prefix, struct family *family)
{
	char name[64];

	snprintf(name, sizeof name, "%smalloc", prefix);
	*(void **)&family->malloc = dlsym(handle, name);
	snprintf(name, sizeof name, "%srealloc", prefix);
	*(void **)&family->realloc = dlsym(handle, name);
	snprintf(name, sizeof name, "%sfree", prefix);
	*(void **)&family->free = dlsym(handle, name);
	return family->malloc && family->realloc && family->free;
}

static int family_works(const struct family *family)
{
	for (size_t n = 1; n < MIB; n = n * 3 / 2 + 1) {
		unsigned char *p = family->malloc(n);

		if (!p)
			return 0;
		pattern_fill(p, 0, n, 1);
		p = family->realloc(p, n * 2);
		if (!p || pattern_check(p, n, 1) != n)
			return 0;
		family->free(p);
	}
	return 1;
}

static void *visitor(void *arg)
{
	struct visit *visit = arg;

	visit->good = family_works(visit->family);
	sem_post(&visit->used);
	sem_wait(&visit->may_end);
	return NULL;
}

static int threads_outlive_the_handle(void *handle, const struct family *family)
{
	struct visit visit = {.family = family};
	pthread_t thread[4];

	sem_init(&visit.used, 0, 0);
	sem_init(&visit.may_end, 0, 0);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, visitor, &visit);
	for (int i = 0; i < 4; i++)
		sem_wait(&visit.used);
	dlclose(handle);
	for (int i = 0; i < 4; i++)
		sem_post(&visit.may_end);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return visit.good;
}

static int works_late(const char *path, const char *prefix, int mode)
{
	for (int i = 0; i < 3; i++) {
		struct family family;
		void *handle = dlopen(path, mode);

		REQUIRE(handle, "%s", dlerror());
		REQUIRE(look_up(handle, prefix, &family),
			"%s lacks %smalloc, %srealloc or %sfree", path, prefix,
			prefix, prefix);
		REQUIRE(family_works(&family), "%s does not work", path);
		REQUIRE(threads_outlive_the_handle(handle, &family),
			"%s does not work in threads", path);
	}
	return 1;
}

struct visit_in_child {
	const char *path, *prefix;
	int mode;
};

static int visiting_child(void *arg)
{
	const struct visit_in_child *visit = arg;

	return !works_late(visit->path, visit->prefix, visit->mode);
}

/* In a child, which starts without the library each time. */
static int child_works(const char *path, const char *prefix, int mode)
{
	struct visit_in_child visit = {path, prefix, mode};

	return child_succeeds(visiting_child, &visit, 30, path);
}

/* Copies that know nothing of each other, two of them in namespaces of their own
 * with a C library each, and threads that use all of them by turns: what those
 * libraries keep for a thread stands in one place. */
struct copies {
	struct family family[2];
	int good;
};

static void *uses_all(void *arg)
{
	struct copies *copies = arg;
	void *mine[300];

	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 300; k++)
			mine[k] = malloc(16 + (size_t)k * 7);
		if (!family_works(&copies->family[i % 2]))
			return NULL;
		for (int k = 0; k < 300; k++)
			free(mine[k]);
	}
	return copies;
}

static int two_namespaces(void *arg)
{
	static struct copies copies;
	void *handle[2], *result;
	pthread_t thread[3];

	for (int i = 0; i < 2; i++) {
		handle[i] = dlmopen(LM_ID_NEWLM, arg, RTLD_NOW | RTLD_LOCAL);
		if (!handle[i] ||
			!look_up(handle[i], "hakmem_", &copies.family[i])) {
			fprintf(stderr, "%s", dlerror());
			return 1;
		}
	}
	if (copies.family[0].malloc == copies.family[1].malloc)
		return 2;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			pthread_create(&thread[i], NULL, uses_all, &copies);
		for (int i = 0; i < 3; i++) {
			pthread_join(thread[i], &result);
			if (!result)
				return 3;
		}
	}
	dlclose(handle[0]);
	return !family_works(&copies.family[1]);
}

/* The same with a third copy, which the program's own malloc is of. */
static int start_preloaded(void *linked)
{
	setenv("LD_PRELOAD", getenv("TEST_PRELOAD"), 1);
	execl("/proc/self/exe", "dlopen-late", linked, (char *)NULL);
	return 98;
}

/* The other library stands beside the one that is preloaded elsewhere. */
static void path_of_libhakmem(char *path, size_t room, const char *preload)
{
	char *at;

	snprintf(path, room, "%s", preload);
	at = strstr(path, "-preload");
	if (at)
		memmove(at, at + 8, strlen(at + 8) + 1);
}

int main(int argc, char **argv)
{
	const char *preload = getenv("TEST_PRELOAD");
	char linked[4096];

	if (argc > 1)
		return two_namespaces(argv[1]);
	if (UNDER_SANITIZER)
		skip_all("a sanitizer brings its own malloc");
	if (!preload || !*preload || !strcmp(preload, "none"))
		skip_all("no library was named or built");
	path_of_libhakmem(linked, sizeof linked, preload);
	plan(7);
	ok(child_works(linked, "hakmem_", RTLD_NOW | RTLD_LOCAL),
		"libhakmem opened late");
	ok(child_works(linked, "hakmem_", RTLD_NOW | RTLD_DEEPBIND),
		"libhakmem opened late and bound to itself");
	ok(child_works(preload, "hakmem_", RTLD_NOW | RTLD_LOCAL),
		"the preload library opened late");
	ok(child_works(preload, "", RTLD_NOW | RTLD_LOCAL), "and its malloc");
	ok(child_works(preload, "", RTLD_NOW | RTLD_GLOBAL),
		"and visible to all");
	ok(child_succeeds(two_namespaces, linked, 30, linked),
		"two copies in namespaces of their own");
	/* An emulator preloads from the start, and cannot start another program. */
	if (getenv("TEST_STARTED"))
		skip(1, "those were beside one that was preloaded");
	else
		ok(child_succeeds(start_preloaded, linked, 30, linked),
			"and beside one that was preloaded");
	return done();
}
