# Without a group of counters nothing of it is in the object code: it equals, to
# the instruction, that of sources whose counter macros are empty. Skipped for
# builds that have one.
. "$top_srcdir/tests/tap.sh"

[ "$OBJDUMP" != : ] || skip_all "needs objdump"
grep -qE '^#define HAKMEM_(TINY_UNIFIED_CACHE_MEASURE|TINY_CLASS_STATS|FREE_STATS|REFILL_STATS|DIAG)_COMPILED 1$' \
	"$top_builddir/config.h" && skip_all "counters are compiled in"

# code FILE OUT FLAGS...
code() {
	source=$1 out=$2
	shift 2
	$CC -std=gnu11 -D_GNU_SOURCE -O2 -w -fPIC -fvisibility=hidden \
		-ftls-model=initial-exec "-I$top_builddir" \
		"-I$top_srcdir/include" "-I$top_srcdir/lib" "$@" \
		-c "$source" -o "$scratch/object.o" || return 1
	$OBJDUMP -d -r "$scratch/object.o" | grep -v 'file format' >"$out"
	$OBJDUMP -t "$scratch/object.o" | grep hak_counter >>"$out"
	true
}

same() {
	code "$1" "$scratch/stock" && code "$1" "$scratch/empty" \
		-DHAK_NO_COUNTERS && cmp "$scratch/stock" "$scratch/empty"
}

files=$(cd "$top_srcdir/lib" && grep -lE '\<HAK_(COUNT|COUNTING|TICKS)\(' -- *.c)
ok "files with counters were found" test -n "$files"
for file in $files; do
	ok "$file is the same without them" same "$top_srcdir/lib/$file"
	ok "$file names no counters" \
		test -z "$(grep 'hak_counter' "$scratch/stock")"
done

# The test itself: one that is compiled in must show.
sed 's/^#define HAKMEM_DIAG_COMPILED 0/#define HAKMEM_DIAG_COMPILED 1/' \
	"$top_builddir/config.h" >"$scratch/config.h"
compiled() {
	code "$top_srcdir/lib/alloc.c" "$scratch/with" &&
		grep -q hak_counters "$scratch/with"
}
stock=$top_builddir
top_builddir=$scratch
ok "a group that is compiled in would be seen" compiled

# With every group compiled in, calls that a thread's stack serves, or passes on,
# run the same instructions: those stand in the entry points.
sed 's/^\(#define HAKMEM_[A-Z_]*_COMPILED\) 0/\1 1/' "$stock/config.h" \
	>"$scratch/config.h"
is "$(grep -c '^#define HAKMEM_[A-Z_]*_COMPILED 1' "$scratch/config.h")" 5 \
	"all groups are compiled in"

# Names of targets instead of their addresses.
entry_points() { # out
	code "$top_srcdir/lib/api.c" "$scratch/all" || return
	for function in hakmem_malloc hakmem_free hakmem_realloc; do
		sed -n "/<$function>:/,/^\$/p" "$scratch/all" |
			sed -E 's/^ *[0-9a-f]+://; s/^[0-9a-f]+ //'
	done >"$1"
	[ -s "$1" ]
}
same_entry_points() {
	entry_points "$scratch/with" && top_builddir=$stock &&
		entry_points "$scratch/without" &&
		cmp "$scratch/with" "$scratch/without"
}
ok "malloc and free are the same with all of them" same_entry_points
ok "and are not empty" test "$(grep -c ret "$scratch/without")" -ge 2
done_testing
