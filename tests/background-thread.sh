# HAKMEM_BG_SPILL in programs that know nothing of it: the thread comes with
# the process, what idles is given back, and every way of ending still works.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "needs the preload library"

library=$(cd "$top_builddir/.libs" && pwd)/libhakmem-preload.so.1
[ -e "$library" ] || bail "no $library"

cat >"$scratch/program.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void figures(void)
{
	char line[128];
	long threads = 0, kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof line, status)) {
		sscanf(line, "Threads: %ld", &threads);
		sscanf(line, "VmRSS: %ld", &kib);
	}
	printf("%ld %ld\n", threads, kib);
	exit(0);
}

static void *idle(void *arg)
{
	usleep(100000);
	return arg;
}

int main(int argc, char **argv)
{
	static char *block[64];
	pthread_t other;

	for (int i = 0; i < 64; i++)
		memset(block[i] = malloc((1 << 20) + 1), 1, 1 << 20);
	for (int i = 0; i < 64; i++)
		free(block[i]);
	switch (argc > 1 ? argv[1][0] : 'i') {
	case 'i':
		usleep(1500000);
		figures();
	case 'f':
		if (fork() == 0)
			figures();
		wait(NULL);
		return 0;
	case 'p':
		pthread_create(&other, NULL, idle, NULL);
		pthread_exit(NULL);
	case 'q':
		quick_exit(4);
	case '_':
		_exit(5);
	case 'a':
		abort();
	case 'e':
		execlp("sh", "sh", "-c", "exit 6", (char *)NULL);
	}
	return 3;
}
C
${CC:-cc} -pthread -o "$scratch/program" "$scratch/program.c" ||
	bail "no program could be built"

# with VALUE command...
with() {
	value=$1
	shift
	LD_PRELOAD=$library HAKMEM_BG_SPILL=$value HAKMEM_PURGE_DELAY_MS=200 \
		timeout 30 "$@"
}

threads_and_kib() {
	# shellcheck disable=SC2046 # two words
	set -- $(with "$1" "$scratch/program" "$2")
	threads=$1 kib=$2
}

threads_and_kib 0 idle
is "$threads" 1 "0: no thread behind a program's back"
ok "0: an idle process keeps what it has ($kib KiB)" test "$kib" -gt 60000
threads_and_kib 1 idle
is "$threads" 2 "1: a thread from the start"
ok "1: an idle process gives it back ($kib KiB)" test "$kib" -lt 30000
threads_and_kib 1 fork
is "$threads" 1 "the child of a fork has none"

ends() { # status argument
	with 1 "$scratch/program" "$2" >"$scratch/out" 2>&1
	status=$?
	cat "$scratch/out"
	[ "$status" -eq "$1" ]
}
ok "return from main" ends 3 return
ok "quick_exit" ends 4 quick
ok "_exit" ends 5 _exit
ok "exec" ends 6 exec
ok "abort" ends 134 abort
ok "pthread_exit of the main thread" ends 0 pthread_exit
many() {
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		with 1 true || return
	done
}
ok "twenty short processes" many
ok "a shell and its children" \
	test "$(with 1 sh -c 'echo $(seq 3 | sort -r | tr -d "\n")')" = 321
ok "statistics at exit" with 1 env HAKMEM_STATS=1 \
	HAKMEM_STATS_FILE="$scratch/stats" true
ok "have the thread" grep -qE '^  background_threads +[01] ' "$scratch/stats"

# A system that has no thread to give.
cat >"$scratch/none.c" <<'C'
#include <errno.h>
int pthread_create(void *id, const void *attr, void *(*body)(void *), void *arg)
{
	(void)id, (void)attr, (void)body, (void)arg;
	return EAGAIN;
}
C
${CC:-cc} -w -fPIC -shared -o "$scratch/none.so" "$scratch/none.c" ||
	bail "no library could be built"
is "$(LD_PRELOAD="$library $scratch/none.so" HAKMEM_BG_SPILL=1 \
	timeout 30 echo fine 2>"$scratch/err")" fine \
	"without a thread the program runs"
is "$(cat "$scratch/err")" \
	"hakmem: background: cannot start a thread: 11
hakmem: background: cannot start a thread: 11" "and one line a process says so"
done_testing
