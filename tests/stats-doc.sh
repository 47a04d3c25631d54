# The STATISTICS section of hakmem(7) against the table: the same groups and
# fields in the same order, with the same words.
. "$top_srcdir/tests/tap.sh"

table_lines() {
	sed -nE -e 's/^HAKMEM_STATS_GROUP\((\w+), .*/\1/p' \
		-e 's/^HAKMEM_STAT\((\w+), "(.*)"\)$/\1 \2/p' \
		"$top_srcdir/lib/stats.def"
}

page_lines() {
	sed -n '/^\.Sh STATISTICS/,/^\.El/p' "$top_srcdir/man/hakmem.7" |
		awk '/^\.It Li/ { print $3 }
			/^\.It Va/ { name = $3; getline; print name " " $0 }'
}

ok "the table was read" test "$(table_lines | wc -l)" -gt 30
is "$(page_lines)" "$(table_lines)" "hakmem(7) has every statistic"
is "$(grep -c '^HAKMEM_STAT(' "$top_srcdir/lib/stats.def")" \
	"$(table_lines | grep -c ' ')" "no row was missed"

# The public structure, whose order the library itself asserts.
fields=$(sed -n '/^struct hakmem_stats {/,/^}/p' \
	"$top_srcdir/include/hakmem.h" |
	sed -nE 's/^\tsize_t (\w+); \/\* (.*) \*\/$/\1 \2/p' | tail -n +2)
is "$fields" "$(table_lines | grep ' ')" "hakmem.h has the same words"
done_testing
