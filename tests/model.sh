# The Spin models of tests/model: each is right as it stands and found wrong
# with every bug that it names; and each function that it models is there.
# TEST_LONG=1 takes the larger state spaces and all the bugs, not the first.
. "$top_srcdir/tests/tap.sh"

models=$top_srcdir/tests/model

# "name() in lib/file.c": a definition begins a line there, or its last words
# do after a return type on the same line.
functions() {
	tr '\n\t' '  ' <"$1" | sed 's/ \* / /g; s/  */ /g' |
		grep -o '[a-z_]*() in lib/[a-z_]*\.[ch]' | sort -u
}

is_there() { # name file
	grep -qE "^[a-zA-Z].*[ *]$1\(" "$top_srcdir/$2"
}

for model in "$models"/*.pml "$models"/common.h; do
	functions "$model" >"$scratch/functions"
	ok "$(basename "$model") names functions" [ -s "$scratch/functions" ]
	while read -r name _ file; do
		ok "$(basename "$model"): $name in $file" \
			is_there "${name%()}" "$file"
	done <"$scratch/functions"
done

if ! command -v spin >/dev/null; then
	skip "the models" "spin is not installed"
	done_testing
fi

long=0
[ "${TEST_LONG:-0}" = 0 ] || long=1

# The number of errors; the log stays in $scratch/out.
errors() { # model bug
	rm -rf "$scratch/pan"
	mkdir "$scratch/pan"
	(
		cd "$scratch/pan" &&
			spin -DBUG="$2" -DLONG=$long -a "$1" &&
			${CC:-cc} -O1 -w -DSAFETY -o pan pan.c &&
			./pan -m100000
	) >"$scratch/out" 2>&1
	sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$scratch/out"
}

# Only a search that was not cut short has found everything there is.
is_right() {
	[ "$(errors "$1" 0)" = 0 ] &&
		! grep -E 'not completed|too small' \
			"$scratch/out"
}

is_wrong() {
	found=$(errors "$1" "$2")
	[ -n "$found" ] && [ "$found" != 0 ] || {
		cat "$scratch/out"
		return 1
	}
}

models=$(cd "$models" && pwd)
for model in "$models"/*.pml; do
	name=$(basename "$model" .pml)
	ok "$name is right" is_right "$model"
	diag "$(grep 'states, stored' "$scratch/out")"
	bugs=$(sed -n 's/^ \* BUG \([0-9]*\): .*/\1/p' "$model")
	[ $long = 1 ] || bugs=$(echo "$bugs" | head -n 1)
	for bug in $bugs; do
		what=$(sed -n "s/^ \* BUG $bug: //p" "$model")
		ok "$name is wrong where $what" is_wrong "$model" "$bug"
	done
done
done_testing
