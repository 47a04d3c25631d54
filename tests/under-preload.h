/*
 * Starts a behaviour test on the allocator it is about.
 *
 * main() calls under_preload(argv) first.  TEST_PRELOAD names the
 * library: the program starts itself once more with it in LD_PRELOAD, so that
 * the loader's and the constructors' blocks are of that library too.  `none`
 * leaves the C library's malloc in place (what is standard must pass there as
 * well), an empty value says that no shared library was built.
 *
 * A test must never pass because the preload was quietly ignored, hence the
 * look at where malloc really came from.
 */
#ifndef HAKMEM_TESTS_UNDER_PRELOAD_H
#define HAKMEM_TESTS_UNDER_PRELOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

/* Set once the program runs on a preloaded library, not on libc's malloc. */
static int preloaded;

/* Is the malloc that this process calls the one in the file? */
static inline int malloc_is_from(const char *path)
{
	struct stat wanted, found;
	Dl_info info;
	void *entry = dlsym(RTLD_DEFAULT, "malloc");

	return entry && dladdr(entry, &info) && info.dli_fname &&
	       !stat(path, &wanted) && !stat(info.dli_fname, &found) &&
	       wanted.st_dev == found.st_dev && wanted.st_ino == found.st_ino;
}

static inline void start_again_with(const char *path, char **argv)
{
	const char *others = getenv("LD_PRELOAD");
	char list[8192];

	snprintf(list, sizeof list, "%s%s%s", path, others ? ":" : "",
		others ? others : "");
	setenv("LD_PRELOAD", list, 1);
	setenv("TEST_STARTED", path, 1);
	execv("/proc/self/exe", argv);
	bail("the program cannot start itself again: %s", argv[0]);
}

static inline void under_preload(char **argv)
{
	const char *path = getenv("TEST_PRELOAD");
	const char *started = getenv("TEST_STARTED");

	if (UNDER_SANITIZER)
		skip_all("a sanitizer brings its own malloc");
	if (!path)
		bail("TEST_PRELOAD is not set: name the library to "
		     "test, or none");
	if (!*path)
		skip_all("no shared library was built");
	if (!strcmp(path, "none"))
		return;
	if (access(path, R_OK))
		bail("the library to test cannot be read: %s", path);
	if (!started || strcmp(started, path))
		start_again_with(path, argv);
	if (!malloc_is_from(path))
		bail("malloc does not come from the library to test: %s", path);
	preloaded = 1;
}

#endif
