# A few behaviour tests once more, at the ends of the options' ranges: caches
# of next to nothing send every block through the paths that ordinary runs
# seldom take.
. "$top_srcdir/tests/tap.sh"

[ -n "$TEST_PRELOAD" ] || skip_all "no shared library was built"
[ "$TEST_PRELOAD" != none ] || skip_all "nothing is preloaded"

programs="usable-size threads-stress"
if [ "${TEST_LONG:-0}" != 0 ]; then
	programs="$programs conform-sizes conform-align conform-realloc calloc
		thread-exit fork oom producer-consumer-rss survivors"
fi

bands=
for band in 0 1 2 3 4 5 6 7; do
	bands="$bands HAKMEM_TINY_UNIFIED_C$band=1"
done

# Tests of how much memory is held, and when it is back, are not among them: the
# guards and records of a small block are a multiple of it, 16 MiB of blocks in
# quarantine pin the pages around them, and no cache works that could be looked
# at.  Below, without the quarantine, are those of them that hold.
checked="calloc conform-align conform-realloc conform-sizes ctor-dtor dlopen
	dlopen-late fork interpose known-zero one-heap signals usable-size api
	thread-refused threads-stress-api"
if [ "$have_cxx" = yes ]; then
	checked="$checked cxx-new cxx-thread-local"
fi

# Each line: assignments for one run of all programs.
settings="HAKMEM_TINY_USE_SUPERSLAB=0
HAKMEM_CACHE=64K
$bands
HAKMEM_TINY_REFILL_COUNT=1
HAKMEM_TINY_REFILL_COUNT=127 HAKMEM_WARM_POOL_SIZE=0
HAKMEM_L2_RING_CAP=1 HAKMEM_L25_RING_CAP=1
HAKMEM_THP=never HAKMEM_WARM_POOL_SIZE=1
HAKMEM_THP=always
HAKMEM_RETAIN=0
HAKMEM_TINY_USE_SUPERSLAB=0 HAKMEM_CACHE=64K HAKMEM_RETAIN=0 HAKMEM_L25_RING_CAP=0 $bands"

TEST_SHORT=1
export TEST_SHORT

run() {
	# shellcheck disable=SC2086 # assignments, one word each
	env $1 "$top_builddir/tests/$2" >"$scratch/out" 2>&1 && return
	grep -v '^ok' "$scratch/out"
	return 1
}

printf '%s\n' "$settings" >"$scratch/settings"
while read -r setting; do
	for program in $programs; do
		ok "$program with $setting" run "$setting" "$program"
	done
done <"$scratch/settings"
for program in $checked; do
	ok "$program with HAKMEM_CHECK=1" run HAKMEM_CHECK=1 "$program"
done
for program in calloc conform-realloc huge-pages inject-checked processes \
	thread-exit threads-stress; do
	ok "$program with HAKMEM_CHECK=1 and no quarantine" run \
		"HAKMEM_CHECK=1 HAKMEM_CHECK_QUARANTINE=0" "$program"
done
done_testing
