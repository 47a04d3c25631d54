# The ENVIRONMENT section of hakmem(7) against the option table: the same
# variables in the same order, each with its kind, default and range, and with
# its cost and when to change it. hakmem(3) names every variable.
. "$top_srcdir/tests/tap.sh"

page=$top_srcdir/man/hakmem.7
table=$top_srcdir/lib/options.def
tab=$(printf '\t')

# Names of rows whose default or bound was configured otherwise than it is in
# configure.ac: the page cannot have those.
other_build() {
	awk -v RS='\n' '
		FILENAME ~ /config\.h$/ && $1 == "#define" { built[$2] = $3 }
		FILENAME ~ /configure\.ac$/ &&
		sub(/^m4_define\(\[hakmem_/, "") {
			split($0, part, /[][(), ]+/)
			name = toupper(part[1])
			macro = "POOL_" name
			if (name == "WARM_POOL_SIZE")
				macro = "HAKMEM_WARM_POOL_DEFAULT"
			if (macro in built && built[macro] != part[2])
				print "HAKMEM_" name
		}' "$top_builddir/config.h" "$top_srcdir/configure.ac"
}

# "name<tab>Kind; default D; accepted RANGE." or "RANGE; live." of each row, as
# the page has it.
table_lines() {
	env -i "$top_builddir/hakmem" options >"$scratch/options"
	awk '
		BEGIN {
			of["BOOL"] = "Boolean"; of["COUNT"] = "Count"
			of["SIZE"] = "Size"; of["MS"] = "Ms"
			of["PATH"] = "Path"; of["ENUM"] = "Word"
		}
		/^HAKMEM_OPTION\(/ {
			split($0, part, /[(," ]+/)
			kind[part[3]] = of[part[4]]
		}
		FILENAME ~ /options$/ && FNR > 1 {
			range = $4
			for (i = 5; i < NF - 1; i++)
				range = range " " $i
			if ($(NF - 1) == "live")
				range = range "; live"
			sub(/0, not built in/, "0 or 1", range)
			printf "%s\t%s; default %s; accepted %s.\n", $1,
				kind[$1], $3, range
		}' "$table" "$scratch/options"
}

# The same of each name of an .It Ev; then "<tab>Cost<tab>When", as the item
# has them.
page_lines() {
	sed -n '/^\.Sh ENVIRONMENT/,/^\.Sh TUNING/p' "$page" | awk '
		function item(   i) {
			for (i = 1; i <= n; i++)
				printf "%s\t%s\t%s\t%s\n", names[i], what,
					cost, when
			n = 0
		}
		/^\.(It|El)/ { item(); cost = when = "" }
		/^\.It Ev/ {
			gsub(/ ,/, "")
			for (i = 3; i <= NF; i++)
				names[++n] = $i
			getline what
		}
		/^\.Em Cost :/ { cost = "Cost" }
		/^\.Em When :/ { when = "When" }'
}

page_lines >"$scratch/page"
table_lines >"$scratch/table"
is "$(cut -f 1 "$scratch/page")" "$(cut -f 1 "$scratch/table")" \
	"hakmem(7) has every variable of the table, in its order, and no other"
other=$(other_build | tr '\n' ' ')
while IFS=$tab read -r name want; do
	IFS=$tab read -r name_there what cost when <<LINE
$(grep "^$name$tab" "$scratch/page")
LINE
	case " $other" in
	*" $name "*)
		skip "$name has its kind, default and range" \
			"configured otherwise"
		;;
	*)
		is "$what" "$want" "$name has its kind, default and range"
		;;
	esac
	is "$cost $when" "Cost When" \
		"$name: what it costs and when to change it"
done <"$scratch/table"

names=$(grep -c '^HAKMEM_OPTION(' "$table")
is "$(grep -c . "$scratch/table")" "$names" "no row of the table was missed"

# The table of pools: bounds in bytes, and what a ring may hold.
constant() { # macro
	sed -nE "s/^#define $1 \\(?(\\(size_t\\))?([0-9]+) \\* [KM]IB\\)?\$/\\2/p" \
		"$top_srcdir"/lib/*.[ch]
}
pool_row() { # pool text
	grep -qE "^\\.It $1 Ta .*$2" "$page"
}
tiny=$(($(constant TINY_MAX) * 1024)) l2=$(($(constant L2_MAX) * 1024))
ok "Tiny ends at $tiny" pool_row Tiny "\"0 to $tiny\""
ok "L2 ends at $l2" pool_row L2 "\"$((tiny + 1)) to $l2\""
ok "L2.5 ends at its bound" pool_row 'L2\.5' \
	"\"$((l2 + 1)) to $(constant L25_MAX) MiB\""
ok "large ends at its bound" pool_row large "to $(constant LARGE_MAX) MiB"
ok "a ring of L2 has its bytes" pool_row L2 " or $(constant RING_BYTES) KiB\""
ok "a ring of L2.5 has its bytes" pool_row 'L2\.5' \
	" or $(constant L25_RING_BYTES) KiB\""

# No name without a row: neither in a page, where the header's own are the only
# others, nor as a string in the code. An environment that is read elsewhere
# would be a variable that nobody can list.
sed -nE 's/^HAKMEM_OPTION\(\w+, "(\w+)".*/\1/p' "$table" >"$scratch/rows"
grep -ohE '\<HAKMEM_[A-Z0-9_]+' "$top_srcdir/include/hakmem.h" |
	sort -u >"$scratch/public"
unknown_in() { # file with names
	sort -u "$1" | grep -vxF -f "$scratch/rows" | grep -vxF 'HAKMEM_'
}
for page in "$top_srcdir"/man/*.[1-8] "$top_srcdir/README.md"; do
	grep -ohE '\<HAKMEM_[A-Z0-9_]+' "$page" | grep -vxF -f "$scratch/public" |
		grep -vE '^HAKMEM_[A-Z]+_GET$' >"$scratch/names"
	is "$(unknown_in "$scratch/names")" "" \
		"${page##*/} names no variable that is not there"
done
# Of shorthands, hakmem run has those whose row is there.
grep -hvE '^	\{"[a-z-]+", "[^"]*", "HAKMEM_' "$top_srcdir"/lib/*.[ch] \
	"$top_srcdir"/bench/*.[ch] "$top_srcdir"/bench/lab/*.[ch] |
	grep -oE '"[^"]*\<HAKMEM_[A-Z0-9_]+' |
	grep -oE '\<HAKMEM_[A-Z0-9_]+' | grep -vxF HAKMEM_VERSION_STRING \
	>"$scratch/names"
is "$(unknown_in "$scratch/names")" "" \
	"the code names no variable that is not there"
echo HAKMEM_NO_SUCH >"$scratch/names"
is "$(unknown_in "$scratch/names")" HAKMEM_NO_SUCH "one would be told"
is "$(grep -hE '\<(secure_)?getenv *\(' "$top_srcdir"/lib/*.[ch] |
	grep -v '^ \*')" "" \
	"the library reads the environment in one place"

# hakmem(3) only names them.
sed -n '/^\.Sh ENVIRONMENT/,/^\.Sh [^E]/p' "$top_srcdir/man/hakmem.3" |
	sed -n 's/^\.Ev \(HAKMEM_[A-Z0-9_]*\).*/\1/p' >"$scratch/named"
is "$(cat "$scratch/named")" "$(cut -f 1 "$scratch/table")" \
	"hakmem(3) names every variable"

# Figures of the code that the page states: "(16 * KIB)" is "16 KiB" there.
text=$(sed 's/^\.[A-Z][a-z] //' "$top_srcdir/man/hakmem.7" | tr '\n' ' ')
states() { # file macro what is before it
	figure=$(sed -nE "s/^#define $2 \(?([0-9]+)( \* ([KM])IB)?\)?\$/\1 \3/p" \
		"$lib/$1" | sed -E 's/ $//; s/([KM])$/\1iB/')
	[ -n "$figure" ] || bail "$1 does not define $2"
	case $text in
	*"$3 $figure"*) pass "hakmem(7) has $2: $3 $figure" ;;
	*) fail "hakmem(7) has $2: $3 $figure" ;;
	esac
}
lib=$top_srcdir/lib
states budget.c SHARE_LEAST 'an equal share, of at least'
states budget.c SHARE_LEAST 'divided by their number, but at least'
states budget.c CACHE_LEAST 'that share in any case. Auto is'
states budget.c RETAIN_LEAST 'free memory of arenas count in. Auto is'
states budget.c SPARE_MOST 'or an eighth of it, at most'
states cache_limits.c BATCH_FIRST 'Auto begins with'
states cache_limits.c BATCH_MAX 'doubles up to'
states cache_limits.c RING_BYTES 'L2 bin that a thread may cache, of at most'
states cache_limits.c L25_RING_BYTES \
	'L2.5 bin that a thread may cache, of at most'
states arena.c CHURN_CREDIT_MAX 'again and again may keep up to'
states bin_slabs.c MAPPINGS_MAX Beyond
states guard.c GUARD_LEAST 'At least'
states guard.c GUARD_MOST 'writes are seen up to'
states guard.c FILL_MOST 'both for at most'
states guard.c PAGES_MOST 'process has 65530: beyond'
done_testing
