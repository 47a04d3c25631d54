/*
 * A process that runs on the preload library and links or loads libhakmem as
 * well has one heap: hakmem_malloc's blocks are malloc's, however the name
 * was found: by ordinary look-up, by a handle of the other library, or from a
 * plugin that binds to what it brought along.
 */
#include "under-preload.h"

#include <pthread.h>

#include "util.h"

#include "hakmem.h"

struct api {
	void *(*malloc)(size_t n);
	void *(*calloc)(size_t count, size_t n);
	void *(*realloc)(void *p, size_t n);
	void (*free)(void *p);
	size_t (*usable_size)(const void *p);
	struct hakmem_heap *(*heap_new)(void);
	void *(*heap_malloc)(struct hakmem_heap *heap, size_t n);
	void (*heap_destroy)(struct hakmem_heap *heap);
};

static int look_up(void *handle, struct api *api)
{
	*(void **)&api->malloc = dlsym(handle, "hakmem_malloc");
	*(void **)&api->calloc = dlsym(handle, "hakmem_calloc");
	*(void **)&api->realloc = dlsym(handle, "hakmem_realloc");
	*(void **)&api->free = dlsym(handle, "hakmem_free");
	*(void **)&api->usable_size = dlsym(handle, "hakmem_usable_size");
	*(void **)&api->heap_new = dlsym(handle, "hakmem_heap_new");
	*(void **)&api->heap_malloc = dlsym(handle, "hakmem_heap_malloc");
	*(void **)&api->heap_destroy = dlsym(handle, "hakmem_heap_destroy");
	REQUIRE(api->malloc && api->calloc && api->realloc && api->free &&
			api->usable_size && api->heap_new && api->heap_malloc &&
			api->heap_destroy,
		"the API is not complete: %s", dlerror());
	return 1;
}

/* Each block is resized and freed by the other family. */
static int is_one_heap(const struct api *api)
{
	for (size_t n = 1; n < 40 * MIB; n = n * 3 / 2 + 1) {
		unsigned char *p = api->malloc(n), *q = malloc(n);
		unsigned char *r = api->calloc(1, n);

		REQUIRE(p && q && r, "no %zu bytes", n);
		REQUIRE(api->usable_size(q) >= n, "%zu bytes: usable size %zu",
			n, api->usable_size(q));
		p = realloc(p, n + 50);
		q = api->realloc(q, n + 50);
		REQUIRE(p && q, "no %zu bytes", n + 50);
		memset(p, 1, n + 50);
		memset(q, 2, n + 50);
		free(r);
		api->free(q);
		free(p);
	}
	return 1;
}

static int heap_blocks_go_to_free(const struct api *api)
{
	struct hakmem_heap *heap = api->heap_new();

	REQUIRE(heap, "no heap");
	for (size_t n = 1; n < 2 * MIB; n = n * 2 + 1) {
		unsigned char *p = api->heap_malloc(heap, n);
		unsigned char *kept = api->heap_malloc(heap, n);

		REQUIRE(p && kept, "no %zu bytes from the heap", n);
		memset(p, 1, n);
		memset(kept, 1, n);
		free(p);
	}
	api->heap_destroy(heap);
	return 1;
}

static void *in_a_thread(void *api)
{
	return is_one_heap(api) ? NULL : api;
}

static int found_by(void *handle)
{
	struct api api;
	pthread_t thread;
	void *result;

	if (!look_up(handle, &api) || !is_one_heap(&api) ||
		!heap_blocks_go_to_free(&api))
		return 0;
	pthread_create(&thread, NULL, in_a_thread, &api);
	pthread_join(thread, &result);
	return !result;
}

static int found_in_libhakmem(int mode)
{
	char path[4096], *at;
	void *handle;
	int good;

	snprintf(path, sizeof path, "%s", getenv("TEST_PRELOAD"));
	at = strstr(path, "-preload");
	REQUIRE(at, "no name of the other library in %s", path);
	memmove(at, at + 8, strlen(at + 8) + 1);
	handle = dlopen(path, RTLD_NOW | mode);
	REQUIRE(handle, "%s", dlerror());
	good = found_by(handle);
	dlclose(handle);
	return good;
}

int main(int argc, char **argv)
{
	(void)argc;
	under_preload(argv);
	if (!preloaded)
		skip_all("nothing is preloaded");
	plan(4);
	ok(found_by(RTLD_DEFAULT), "by the ordinary look-up");
	ok(found_in_libhakmem(RTLD_LOCAL), "by the other library's handle");
	ok(found_in_libhakmem(RTLD_LOCAL | RTLD_DEEPBIND),
		"by the handle of a library bound to itself");
	ok(found_by(RTLD_DEFAULT), "and by the ordinary look-up after that");
	return done();
}
