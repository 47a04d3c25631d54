/*
 * C++ operators: all forms of new and delete are one set and go with malloc's
 * blocks, a failure throws bad_alloc or gives NULL after the new-handler had
 * its turns, and what the C++ library allocates for itself fits in.
 */
#include "under-preload.h"

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "util.h"

static const std::size_t sizes[] = {
	0, 1, 7, 8, 16, 33, 100, 1000, 1025, 5000, 40000, 70000, 2000000};

using std::align_val_t;
using std::nothrow;

/* Every way to get a block, each with every way to give it back. */
struct plain_pair {
	const char *name;
	void *(*get)(std::size_t n);
	void (*put)(void *p, std::size_t n);
};

static const plain_pair plain[] = {
	{"new, delete", [](std::size_t n) { return ::operator new(n); },
		[](void *p, std::size_t) { ::operator delete(p); }},
	{"new, sized delete", [](std::size_t n) { return ::operator new(n); },
		[](void *p, std::size_t n) { ::operator delete(p, n); }},
	{"new[], delete[]", [](std::size_t n) { return ::operator new[](n); },
		[](void *p, std::size_t) { ::operator delete[](p); }},
	{"new[], sized delete[]",
		[](std::size_t n) { return ::operator new[](n); },
		[](void *p, std::size_t n) { ::operator delete[](p, n); }},
	{"nothrow new, nothrow delete",
		[](std::size_t n) { return ::operator new(n, nothrow); },
		[](void *p, std::size_t) { ::operator delete(p, nothrow); }},
	{"nothrow new[], nothrow delete[]",
		[](std::size_t n) { return ::operator new[](n, nothrow); },
		[](void *p, std::size_t) { ::operator delete[](p, nothrow); }},
	{"nothrow new, delete",
		[](std::size_t n) { return ::operator new(n, nothrow); },
		[](void *p, std::size_t) { ::operator delete(p); }},
	{"new, free", [](std::size_t n) { return ::operator new(n); },
		[](void *p, std::size_t) { std::free(p); }},
};

struct aligned_pair {
	const char *name;
	void *(*get)(std::size_t n, align_val_t a);
	void (*put)(void *p, std::size_t n, align_val_t a);
};

static const aligned_pair aligned[] = {
	{"new, delete",
		[](std::size_t n, align_val_t a) {
			return ::operator new(n, a);
		},
		[](void *p, std::size_t, align_val_t a) {
			::operator delete(p, a);
		}},
	{"new, sized delete",
		[](std::size_t n, align_val_t a) {
			return ::operator new(n, a);
		},
		[](void *p, std::size_t n, align_val_t a) {
			::operator delete(p, n, a);
		}},
	{"new[], delete[]",
		[](std::size_t n, align_val_t a) {
			return ::operator new[](n, a);
		},
		[](void *p, std::size_t, align_val_t a) {
			::operator delete[](p, a);
		}},
	{"new[], sized delete[]",
		[](std::size_t n, align_val_t a) {
			return ::operator new[](n, a);
		},
		[](void *p, std::size_t n, align_val_t a) {
			::operator delete[](p, n, a);
		}},
	{"nothrow new, nothrow delete",
		[](std::size_t n, align_val_t a) {
			return ::operator new(n, a, nothrow);
		},
		[](void *p, std::size_t, align_val_t a) {
			::operator delete(p, a, nothrow);
		}},
	{"nothrow new[], nothrow delete[]",
		[](std::size_t n, align_val_t a) {
			return ::operator new[](n, a, nothrow);
		},
		[](void *p, std::size_t, align_val_t a) {
			::operator delete[](p, a, nothrow);
		}},
};

static int plain_pair_works(const plain_pair &pair)
{
	for (std::size_t n : sizes)
		for (int i = 0; i < 20; i++) {
			void *p = pair.get(n), *q = pair.get(n);

			REQUIRE(p && q && p != q, "%zu bytes: %p and %p", n, p,
				q);
			REQUIRE(n < 16 || (std::uintptr_t)p % 16 == 0,
				"%zu bytes at %p", n, p);
			memset(p, 1, n);
			memset(q, 2, n);
			REQUIRE(n == 0 || *(char *)p == 1, "blocks overlap");
			pair.put(p, n);
			pair.put(q, n);
		}
	return 1;
}

static int aligned_pair_works(const aligned_pair &pair)
{
	for (std::size_t n : sizes)
		for (std::size_t a = 1; a <= 65536; a *= 2) {
			void *p = pair.get(n, align_val_t(a));

			REQUIRE(p && (std::uintptr_t)p % a == 0,
				"%zu bytes aligned to %zu: %p", n, a, p);
			memset(p, 1, n);
			pair.put(p, n, align_val_t(a));
		}
	return 1;
}

static int deleting_null_is_nothing()
{
	for (const plain_pair &pair : plain)
		pair.put(nullptr, 8);
	for (const aligned_pair &pair : aligned)
		pair.put(nullptr, 8, align_val_t(64));
	return 1;
}

/* Not constant, or the compiler would refuse what is to fail at run time. */
static volatile std::size_t impossible = SIZE_MAX / 2 + 10;

template <typename F> static int throws_bad_alloc(F get)
{
	try {
		void *p = get();

		diag("got %p", p);
	} catch (const std::bad_alloc &) {
		return 1;
	} catch (...) {
		diag("something else was thrown");
	}
	return 0;
}

static int handler_calls;

static void handler_that_gives_up()
{
	if (++handler_calls == 3)
		std::set_new_handler(nullptr);
}

struct own_error : std::bad_alloc {
};

static void handler_that_throws()
{
	throw own_error();
}

template <typename F> static int handler_has_its_turns(F get)
{
	int thrown;

	handler_calls = 0;
	std::set_new_handler(handler_that_gives_up);
	thrown = throws_bad_alloc(get);
	std::set_new_handler(nullptr);
	REQUIRE(thrown && handler_calls == 3, "the handler was called %d times",
		handler_calls);
	return 1;
}

static int handler_may_throw()
{
	int caught = 0;

	std::set_new_handler(handler_that_throws);
	try {
		(void)::operator new(impossible);
	} catch (const own_error &) {
		caught = 1;
	} catch (...) {
	}
	std::set_new_handler(nullptr);
	return caught;
}

static int nothrow_gives_null()
{
	handler_calls = 0;
	std::set_new_handler(handler_that_gives_up);
	void *p = ::operator new(impossible, nothrow);
	int calls = handler_calls;

	std::set_new_handler(nullptr);
	REQUIRE(!p && calls == 3, "%p after %d calls of the handler", p, calls);
	REQUIRE(!::operator new[](impossible, nothrow), "new[] gave a block");
	REQUIRE(!::operator new(impossible, align_val_t(64), nothrow),
		"aligned new gave a block");
	REQUIRE(!::operator new[](impossible, align_val_t(64), nothrow),
		"aligned new[] gave a block");
	return 1;
}

/* nothrow new must not let the handler's exception out. */
static int nothrow_swallows()
{
	void *p = nullptr;
	int let_out = 0;

	std::set_new_handler(handler_that_throws);
	try {
		p = ::operator new(impossible, nothrow);
	} catch (...) {
		let_out = 1;
	}
	std::set_new_handler(nullptr);
	return !p && !let_out;
}

struct alignas(256) aligned_object {
	char text[256];
};

static int aligned_objects()
{
	std::vector<std::unique_ptr<aligned_object>> all;

	for (int i = 0; i < 300; i++) {
		all.emplace_back(new aligned_object);
		REQUIRE((std::uintptr_t)all.back().get() % 256 == 0,
			"an object at %p", (void *)all.back().get());
	}
	return 1;
}

/* stable_sort takes its buffer by nothrow new and returns it by delete. */
static int library_algorithms()
{
	std::vector<std::string> words;
	uint32_t state = 5;

	for (int i = 0; i < 20000; i++)
		words.push_back(std::string(below(&state, 40), 'a') +
				std::to_string(rnd(&state)));
	std::stable_sort(words.begin(), words.end());
	std::inplace_merge(words.begin(), words.begin() + 10000, words.end());
	REQUIRE(std::is_sorted(words.begin(), words.end()), "not sorted");

	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&words, t] {
			std::map<std::string, int> m;
			std::ostringstream out;

			for (std::size_t i = t; i < words.size(); i += 4)
				m[words[i]] = (int)i;
			for (auto &entry : m)
				out << entry.first;
			if (out.str().empty())
				std::abort();
		});
	for (auto &thread : threads)
		thread.join();
	return 1;
}

static int polymorphic_memory()
{
	std::pmr::monotonic_buffer_resource grows;
	std::pmr::unsynchronized_pool_resource pools;
	std::pmr::vector<int> numbers(&grows);
	std::pmr::map<int, std::pmr::string> names(&pools);

	for (int i = 0; i < 20000; i++) {
		numbers.push_back(i);
		names[i % 500] = std::pmr::string(i % 200, 'x');
	}
	return numbers.back() == 19999 && names.size() == 500;
}

static int exceptions_cross_threads()
{
	std::string text(500, 'x');
	std::exception_ptr thrown;

	std::thread([&] {
		try {
			throw std::runtime_error(text);
		} catch (...) {
			thrown = std::current_exception();
		}
	}).join();
	try {
		std::rethrow_exception(thrown);
	} catch (const std::runtime_error &e) {
		return text == e.what();
	}
	return 0;
}

int main(int, char **argv)
{
	under_preload(argv);
	plan(ARRAY_SIZE(plain) + ARRAY_SIZE(aligned) + 14);
	for (const plain_pair &pair : plain)
		ok(plain_pair_works(pair), "%s", pair.name);
	for (const aligned_pair &pair : aligned)
		ok(aligned_pair_works(pair), "aligned: %s", pair.name);
	ok(deleting_null_is_nothing(), "deleting NULL does nothing");
	ok(throws_bad_alloc([] { return ::operator new(impossible); }),
		"new throws bad_alloc");
	ok(throws_bad_alloc([] { return ::operator new[](impossible); }),
		"new[] throws bad_alloc");
	ok(throws_bad_alloc(
		   [] { return ::operator new(impossible, align_val_t(64)); }),
		"aligned new throws bad_alloc");
	ok(throws_bad_alloc([] {
		return ::operator new[](impossible, align_val_t(64));
	}),
		"aligned new[] throws bad_alloc");
	ok(handler_has_its_turns([] { return ::operator new(impossible); }),
		"new calls the handler until there is none");
	ok(handler_has_its_turns([] {
		return ::operator new[](impossible, align_val_t(128));
	}),
		"so does aligned new[]");
	ok(handler_may_throw(), "the handler's own exception comes through");
	ok(nothrow_gives_null(), "nothrow new gives NULL after the handler");
	ok(nothrow_swallows(), "nothrow new lets no exception out");
	ok(aligned_objects(), "over-aligned objects are aligned");
	ok(library_algorithms(), "the library's own buffers, in threads too");
	ok(polymorphic_memory(), "polymorphic memory resources");
	ok(exceptions_cross_threads(), "exceptions outlive their thread");
	return done();
}
