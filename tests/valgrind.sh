# make valgrind: programs on the hakmem_* API under memcheck, to which the
# allocator is a program that maps memory and hands parts of it on. valgrind
# puts a malloc of its own in the place of every other, so that the preload
# library cannot be watched, and need not be: its code is the same.
#
# helgrind and drd see threads only where there are none of our locks: they
# know neither atomics nor futexes, and report the first load of any of those.
# The races are ThreadSanitizer's to find (.ci/run), which does know them; here
# the two run the programs of one thread.
. "$top_srcdir/tests/tap.sh"

command -v valgrind >/dev/null || skip_all "valgrind is not installed"
grep -qE '^CFLAGS = .*-fsanitize' "$top_builddir/Makefile" &&
	skip_all "instrumented"

TEST_SHORT=1
export TEST_SHORT

is_clean() { # tool program
	"$top_builddir/libtool" --mode=execute valgrind --tool="$1" --quiet \
		--error-exitcode=99 --log-file="$scratch/log" \
		"$top_builddir/tests/$2" >"$scratch/out" 2>&1
	status=$?
	head -n 40 "$scratch/log"
	[ $status -eq 0 ] || grep '^not ok' -A 2 "$scratch/out"
	return $status
}

is_watched() {
	"$top_builddir/libtool" --mode=execute valgrind -v \
		--log-file="$scratch/log" "$top_builddir/tests/api" \
		>/dev/null 2>&1
	grep -q 'Reading syms from .*tests/.*api' "$scratch/log"
}
ok "the programs are watched, not the shell that starts them" is_watched

for program in api message option-set known-zero threads-stress-api fuzz-ops; do
	ok "memcheck: $program" is_clean memcheck $program
done
for tool in helgrind drd; do
	for program in api message; do
		ok "$tool: $program" is_clean $tool $program
	done
done
done_testing
