# The STATISTICS section of hakmem(7) against the table: the same groups and
# fields in the same order, with the same words.
. "$top_srcdir/tests/tap.sh"

table_lines() {
	sed -nE -e 's/^HAKMEM_STATS_GROUP\((\w+), .*/\1/p' \
		-e 's/^HAKMEM_STAT\((\w+), "(.*)"\)$/\1 \2/p' \
		"$top_srcdir/lib/stats.def"
}

page_lines() {
	sed -n '/^\.Sh STATISTICS/,/^\.Ss/p' "$top_srcdir/man/hakmem.7" |
		awk '/^\.It Li/ { print $3 }
			/^\.It Va/ { name = $3; getline; print name " " $0 }'
}

ok "the table was read" test "$(table_lines | wc -l)" -gt 30
is "$(page_lines)" "$(table_lines)" "hakmem(7) has every statistic"
is "$(grep -c '^HAKMEM_STAT(' "$top_srcdir/lib/stats.def")" \
	"$(table_lines | grep -c ' ')" "no row was missed"

# A group is an item of the outer list, its names are a list within it.
misplaced() {
	sed -n '/^\.Sh STATISTICS/,/^\.Ss JSON/p' "$top_srcdir/man/hakmem.7" |
		awk '/^\.Bl/ { depth++ }
			/^\.El/ { depth-- }
			/^\.It Li/ && depth != 1 || /^\.It Va/ && depth != 2'
}
is "$(misplaced)" "" "groups and names are on levels of their own"

# The counters, which the page has in the same form.
counter_lines() {
	tr '\n' ' ' <"$top_srcdir/lib/counters.def" | sed 's/HAKMEM_/\n&/g' |
		sed -nE 's/^HAKMEM_(COUNTER_GROUP|COUNTER|BIN_COUNTER)\(([A-Z]+), *(\w+),.*"(.*)"\).*/\1 \3 \4/p' |
		sed -E -e 's/^COUNTER_GROUP (\w+) .*/\1/' -e 's/^(BIN_)?COUNTER //'
}

counter_page() {
	sed -n '/^\.Ss Counters/,/^\.Ss JSON/p' "$top_srcdir/man/hakmem.7" |
		awk '/^\.It Li/ { print $3 }
			/^\.It Va/ { name = $3; getline; print name " " $0 }'
}
is "$(counter_page)" "$(counter_lines)" "hakmem(7) has every counter"
is "$(grep -cE '^HAKMEM_(COUNTER|BIN_COUNTER)\(' \
	"$top_srcdir/lib/counters.def")" "$(counter_lines | grep -c ' ')" \
	"no counter was missed"

# The public structure, whose order the library itself asserts.
fields=$(sed -n '/^struct hakmem_stats {/,/^}/p' \
	"$top_srcdir/include/hakmem.h" |
	sed -nE 's/^\tsize_t (\w+); \/\* (.*) \*\/$/\1 \2/p' | tail -n +2)
is "$fields" "$(table_lines | grep ' ')" "hakmem.h has the same words"
done_testing
