# The libraries keep the ABI that lib/libhakmem.abi records: what is there is
# not taken away or changed. What was added is told and passes; functions of
# the preload library beside the API are held by exports.sh.
. "$top_srcdir/tests/tap.sh"

recorded=$top_srcdir/lib/libhakmem.abi

[ "$enable_shared" = yes ] || skip_all "no shared library was built"
[ "$symbol_versions" = yes ] || skip_all "built with --disable-symbol-versions"
command -v abidiff >/dev/null || skip_all "abidiff is not installed"

differences() { # recorded library [option...]
	was=$1
	is=$top_builddir/.libs/$2.so
	shift 2
	abidiff --no-architecture --ignore-soname --fail-no-debug-info \
		"$@" "$was" "$is" 2>&1
}

differences "$recorded" libhakmem | grep -qi 'no debug info' &&
	skip_all "built without debug information"

# Fields at the end of a structure with struct_size, and names at the end of
# an enumeration, break nothing. What abidiff says beside that does, so that
# what it says in words not foreseen here is a break, too.
breaks() { # recorded library
	differences "$1" "$2" --no-added-syms | grep -vE \
		-e '^$' \
		-e '^Functions changes summary: 0 Removed, [0-9]+ Changed' \
		-e '^Variables changes summary: 0 Removed, 0 Changed' \
		-e 'functions? with some indirect sub-type changes?:$' \
		-e '^  \[C\] .* has some indirect sub-type changes:$' \
		-e '^    parameter [0-9]+ of type .* has sub-type changes:$' \
		-e "^      in pointed to type 'struct hakmem_([a-z]*_)?stats' at " \
		-e '^ +type size changed from [0-9]+ to [0-9]+ \(in bits\)$' \
		-e '^ +[0-9]+ data member insertions?:$' \
		-e "^ +'size_t [a-z_]+', at offset [0-9]+ \(in bits\)" \
		-e '^ +type size hasn.t changed$' \
		-e '^ +[0-9]+ enumerator insertions?:$' \
		-e "^ +'hakmem_[a-z_]+::HAKMEM_[A-Z0-9_]+' value '[0-9]+'" \
		-e '^ +impacted enumerators? at '
}

keeps() { # recorded library
	! breaks "$1" "$2"
}

ok "something is recorded" grep -q "function-decl name='hakmem_malloc'" \
	"$recorded"
for library in libhakmem libhakmem-preload; do
	ok "$library has all that was recorded, unchanged" \
		keeps "$recorded" $library ||
		diag "if it was never released: make abi-record"
done

differences "$recorded" libhakmem >"$scratch/added"
[ -s "$scratch/added" ] && diag "since the record:" &&
	sed 's/^/# /' "$scratch/added"

# Can it tell? Records of a past that differs from the present.
past() { # sed-script
	sed "$1" "$recorded" >"$scratch/past.abi"
	! cmp -s "$recorded" "$scratch/past.abi"
}

broken() { # sed-script
	past "$1" && breaks "$scratch/past.abi" libhakmem
}

grown() { # sed-script
	past "$1" && keeps "$scratch/past.abi" libhakmem &&
		[ -n "$(differences "$scratch/past.abi" libhakmem)" ]
}

fields="/class-decl name='hakmem_heap_stats'/,/<.class-decl>/"
offset='layout-offset-in-bits='
last=$(sed -n "$fields s/.* $offset'\([0-9]*\)'.*/\1/p" "$recorded" | tail -n 1)
ok "a function that went is a break" broken 's/hakmem_trim/hakmem_shrink/g'
ok "a parameter of another type is a break" broken \
	"/function-decl name='hakmem_trim'/,/<return/s/\(<parameter type-id='\)[0-9a-f]*/\195e97e5e/"
ok "a field that was moved is a break" broken \
	"s/'live_blocks'/'x'/; s/'live_bytes'/'live_blocks'/; s/'x'/'live_bytes'/"
ok "a value that was changed is a break" broken \
	"s/\('HAKMEM_STATS_JSON' value='\)1/\17/"
ok "a function that was added is none" grown \
	"/elf-symbol name='hakmem_trim'/d; /function-decl name='hakmem_trim'/,/<.function-decl>/d"
ok "a field at the end of a structure is none" grown \
	"$fields{s/size-in-bits='[0-9]*'/size-in-bits='$last'/; /$offset'$last'/,/<.data-member>/d}"
ok "a name at the end of an enumeration is none" grown \
	"/enumerator name='HAKMEM_STATS_JSON'/d"
done_testing
