/*
 * thread_local objects whose constructors and destructors allocate: at a
 * thread's end they run when other destructors have run already, and what
 * they leave is freed by other threads.
 */
#include "under-preload.h"

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "util.h"

static std::mutex lock;
static std::vector<std::string *> left_behind;
static int damaged;

struct diary {
	std::map<int, std::string> pages;
	std::string *cover = new std::string(300, 'q');

	diary()
	{
		for (int i = 0; i < 50; i++)
			pages[i] = std::string(20 + i, 'z');
	}

	~diary()
	{
		pages.clear();
		for (int i = 0; i < 30; i++)
			pages[i] = std::string(100, 'y');

		std::lock_guard<std::mutex> guard(lock);

		damaged += cover->size() != 300;
		left_behind.push_back(cover);
		left_behind.push_back(new std::string(5000, 'd'));
	}
};

static thread_local diary own;
static thread_local diary *by_hand = new diary;

static int writes_its_diary()
{
	int fine = own.pages[3].size() == 23 && by_hand->pages[4].size() == 24;

	delete by_hand;
	return fine;
}

static int read_what_is_left()
{
	int wrong = 0;

	for (std::string *text : left_behind) {
		char want = text->size() == 300 ? 'q' : 'd';

		wrong += text->find_first_not_of(want) != std::string::npos;
		delete text;
	}
	left_behind.clear();
	return wrong;
}

static int round_of_threads()
{
	std::vector<std::thread> threads;
	int good[12] = {0};

	for (int &mine : good)
		threads.emplace_back([&mine] { mine = writes_its_diary(); });
	for (auto &thread : threads)
		thread.join();
	for (int mine : good)
		REQUIRE(mine, "a thread found its diary damaged");
	REQUIRE(left_behind.size() == 4 * ARRAY_SIZE(good),
		"%zu strings were left", left_behind.size());
	return read_what_is_left() == 0 && !damaged;
}

static int rounds_of_threads(unsigned count)
{
	while (count--)
		if (!round_of_threads())
			return 0;
	return 1;
}

/* As many threads again must not need more memory again. */
static int threads_do_not_leak()
{
	long before = rss_kib();

	if (!rounds_of_threads(rounds(60, 20)))
		return 0;
	REQUIRE(rss_kib() - before < 12 * 1024, "RSS grew by %ld KiB",
		rss_kib() - before);
	return 1;
}

int main(int, char **argv)
{
	under_preload(argv);
	plan(3);
	ok(own.pages.size() == 50, "the main thread's own object");
	ok(rounds_of_threads(30), "threads' objects are whole to the end");
	ok(threads_do_not_leak(), "their number does not show in memory");
	return done();
}
