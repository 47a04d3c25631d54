# README.md's table of misuse against tests/misuse: what hakmem ends with a
# message is as many of its programs as the table says, and each allocator was
# run on all of them.
. "$top_srcdir/tests/tap.sh"

[ -n "$TEST_PRELOAD" ] || skip_all "no shared library was built"
[ "$TEST_PRELOAD" != none ] || skip_all "nothing is preloaded"
grep -qE '^CFLAGS = .*-fsanitize' "$top_builddir/Makefile" &&
	skip_all "instrumented"

# Lines of name, ended, at once, crashed, unseen, without the function.
rows() {
	sed -n '/^### Misuse/,/^## /p' "$top_srcdir/README.md" |
		sed -nE 's/^\| ([^|]+) \| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \|$/\1;\2;\3;\4;\5;\6/p'
}

# How many programs there are, and how many end with a message on a library.
counts() { # HAKMEM_CHECK
	LD_PRELOAD=$TEST_PRELOAD HAKMEM_CHECK=$1 \
		"$top_builddir/tests/misuse" table >"$scratch/table" || return
	awk -F '\t' '$2 ~ /^ends/ && $3 ~ /^hakmem: / { ended++ }
		END { print NR, ended }' "$scratch/table"
}

row() { # name
	rows | awk -F ';' -v name="$1" '$1 == name { print $2 }'
}

stock=$(counts 0)
programs=${stock% *}
ok "the rows were read" test "$(rows | wc -l)" -ge 9
ok "the programs were run" test "$programs" -gt 100
is "$stock" "$programs $(row hakmem)" "hakmem ends so many"
# shellcheck disable=SC2016 # as README.md has it
is "$(counts 1)" "$programs $(row 'hakmem, `HAKMEM_CHECK=1`')" \
	"and so many with HAKMEM_CHECK=1"
# One allocator hung once, as the text says.
is "$(rows | awk -F ';' -v n="$programs" '
	{ sum = $2 + $4 + $5 + $6 }
	sum != n && !(sum == n - 1 && $1 ~ /^hardened_malloc/)')" "" \
	"no allocator was left out of any"
done_testing
