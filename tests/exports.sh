# The libraries export what lib/libhakmem.map and tests/family.list say, with
# the version said there, debian/libhakmem1.symbols says the same of both, and
# the archives define nothing that could meet a name of the program.
. "$top_srcdir/tests/tap.sh"

command -v "${NM%% *}" >/dev/null || skip_all "nm is not installed"

# "name@@node" of each function of the map, or "name" without versions.
mapped() {
	awk -v versions="$symbol_versions" '
	/^HAKMEM_/ { node = $1 }
	/^\t[a-z_]+;$/ {
		sub(/;/, "", $1)
		print versions == "yes" ? $1 "@@" node : $1
	}' "$top_srcdir/lib/libhakmem.map"
}

family() {
	grep -v -e '^#' -e '^$' "$top_srcdir/tests/family.list"
}

# The version nodes are symbols of their own, of type A.
exported() {
	$NM -D --defined-only "$top_builddir/.libs/$1.so" |
		awk '$2 != "A" { print $3 }' | LC_ALL=C sort
}

defined() {
	$NM -g --defined-only "$top_builddir/.libs/$1.a" |
		awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u
}

same() { # got want: show lines that are in one only
	LC_ALL=C sort "$2" >"$scratch/sorted"
	diff "$scratch/sorted" "$1"
}

mapped >"$scratch/api"
{
	mapped
	family
} >"$scratch/api-and-family"
ok "the map names functions" test -s "$scratch/api"

if [ "$enable_shared" = yes ]; then
	exported libhakmem >"$scratch/exports"
	ok "libhakmem.so exports the API and nothing else" \
		same "$scratch/exports" "$scratch/api"
	exported libhakmem-preload >"$scratch/exports"
	ok "libhakmem-preload.so exports the API and the family" \
		same "$scratch/exports" "$scratch/api-and-family"
else
	skip "libhakmem.so exports the API" "built with --disable-shared"
	skip "libhakmem-preload.so exports the API" "built with --disable-shared"
fi

# A tarball has no debian/.
symbols=$top_srcdir/debian/libhakmem1.symbols

# Lines of one library; nodes of the map stand for all their functions.
packaged() { # library
	awk -v soname="$1.so.1" '
	/^[^ *]/ { inside = $1 == soname }
	inside && /^ / { print $1 }' "$symbols"
}

expected_nodes() {
	sed -n 's/^\(HAKMEM_[0-9.]*\) {$/(symver)\1/p' "$top_srcdir/lib/libhakmem.map"
}

if [ -e "$symbols" ]; then
	packaged libhakmem | LC_ALL=C sort >"$scratch/packaged"
	expected_nodes >"$scratch/api"
	ok "libhakmem1.symbols has the nodes of the map" \
		same "$scratch/packaged" "$scratch/api"
	packaged libhakmem-preload | LC_ALL=C sort >"$scratch/packaged"
	{
		expected_nodes
		family | sed 's/$/@Base/'
	} >"$scratch/api-and-family"
	ok "libhakmem1.symbols has the family for libhakmem-preload" \
		same "$scratch/packaged" "$scratch/api-and-family"
else
	skip "libhakmem1.symbols" "no debian/ here"
fi

# sys/sdt.h has one of its own, weak and hidden, where probes are compiled in.
only_ours() {
	! grep -v -e '^hak_' -e '^hakmem_' -e '^_\.stapsdt\.base$' "$1"
}

if [ "$enable_static" = yes ]; then
	defined libhakmem >"$scratch/symbols"
	ok "libhakmem.a has symbols" test -s "$scratch/symbols"
	ok "libhakmem.a defines only hak_ and hakmem_" \
		only_ours "$scratch/symbols"
	defined libhakmem-preload >"$scratch/all"
	family >"$scratch/family"
	grep -vxF -f "$scratch/family" "$scratch/all" >"$scratch/symbols"
	ok "libhakmem-preload.a defines the family" \
		test "$(grep -cxF -f "$scratch/family" "$scratch/all")" -eq \
		"$(wc -l <"$scratch/family")"
	ok "libhakmem-preload.a defines only hak_ and hakmem_ beside it" \
		only_ours "$scratch/symbols"
else
	skip "archives" "built with --disable-static"
fi
done_testing
