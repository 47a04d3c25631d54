# fork from the constructor of another library, which has started threads.
. "$top_srcdir/tests/tap.sh"

preload=$TEST_PRELOAD
early=$(cd "$top_builddir" && pwd)/tests/.libs/early.so

[ -n "$preload" ] || skip_all "no shared library was built"
[ "$preload" != none ] || preload=
[ -r "$early" ] || bail "no library at $early"

# The loader's order of constructors is not that of the list, so try both.
for list in "$preload:$early" "$early:$preload"; do
	for round in 1 2 3; do
		ok "round $round of ${list##*/} last" \
			env LD_PRELOAD="$list" cat /dev/null
	done
done
done_testing
