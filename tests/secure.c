/*
 * A program that runs with somebody else's rights takes no word from the
 * environment. The test makes a set-uid copy of itself and one that is not,
 * and asks both what HAKMEM_WARM_POOL_SIZE is.
 */
#include <config.h>

#include "hakmem.h"
#include "options.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>

/* Statuses of the copies: the value, as far as a status goes, and this. */
enum { IS_SECURE = 64, GIVEN = 7 };

static char path[64];

static int copy_self(void)
{
	char buffer[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t n = 0;

	while (from >= 0 && to >= 0 &&
		(n = read(from, buffer, sizeof buffer)) > 0)
		if (write(to, buffer, (size_t)n) != n)
			return 0;
	return from >= 0 && to >= 0 && n == 0 && close(to) == 0 &&
	       close(from) == 0;
}

static void start_copy(void)
{
	execl(path, path, "tell", (char *)NULL);
	_exit(99);
}

static int status_of_copy(void)
{
	char errors[256];
	int status;

	tap_child(start_copy, &status, errors, sizeof errors);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As the copy: the first allocation reads the options. */
static int tell(void)
{
	hakmem_free(hakmem_malloc(1));
	return hak_options.warm_pool_size % IS_SECURE +
	       (getauxval(AT_SECURE) != 0 ? IS_SECURE : 0);
}

int main(int argc, char **argv)
{
	int status;

	if (argc > 1 && strcmp(argv[1], "tell") == 0)
		return tell();
	if (geteuid() != 0)
		skip_all("only root can make a set-uid program of another");
	snprintf(path, sizeof path, "/tmp/hakmem-secure-%d", (int)getpid());
	if (!copy_self()) {
		unlink(path);
		skip_all("no copy can be made: %s", strerror(errno));
	}
	plan(2);
	setenv("HAKMEM_WARM_POOL_SIZE", "7", 1);
	is_int(status_of_copy(), GIVEN, "a plain copy reads the environment");
	/* An id that is nobody's. */
	if (chown(path, 54321, (gid_t)-1) != 0 || chmod(path, 04755) != 0 ||
		(status = status_of_copy()) < IS_SECURE || status == 99)
		skip(1, "the set-uid bit has no effect here");
	else
		is_int(status, IS_SECURE + HAKMEM_WARM_POOL_DEFAULT % IS_SECURE,
			"a set-uid copy does not");
	unlink(path);
	return done();
}
