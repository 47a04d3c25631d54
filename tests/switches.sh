# Every switch of configure.ac is in README.md's table with its default, is in
# the summary that configure prints, and refuses what it does not know.
. "$top_srcdir/tests/tap.sh"

configure_ac=$top_srcdir/configure.ac
readme=$top_srcdir/README.md

# README's line of a switch, which is named as a user would have to type it, and
# whose default is therefore "no" where it says yes or no.
in_readme() {
	grep -q "^| \`$1\` | $2 | " "$readme"
}

in_summary() {
	sed -n '/^AS_ECHO/,$p' "$configure_ac" | grep -q "^  --$1  *\\$"
}

# Ends before anything is looked for. The message has to be one line.
refuses() {
	(cd "$scratch" && "$absolute/configure" "$1" >out 2>err) &&
		echo "configure $1 passed" && return 1
	sed 's/^configure: error: //' "$scratch/err" >"$scratch/message"
	cat "$scratch/message"
	[ "$(wc -l <"$scratch/message")" -eq 1 ] &&
		grep -q "^bad value .* for $2: .* expected$" "$scratch/message"
}

absolute=$(cd "$top_srcdir" && pwd)

# "name default" of yes-or-no switches.
bools=$(sed -n 's/^HAKMEM_ARG_BOOL(\[\(.*\)\], \[\(.*\)\],$/\1 \2/p' \
	"$configure_ac")
while read -r name default; do
	case $default in
	yes) typed=--disable-$name ;;
	*) typed=--enable-$name ;;
	esac
	ok "README.md has $typed" in_readme "$typed" no
	ok "the summary has --enable-$name" in_summary "enable-$name"
	ok "--enable-$name=maybe is refused" \
		refuses "--enable-$name=maybe" "--enable-$name"
done <<LIST
$bools
LIST

# "name default least greatest" of those with a number. Starting configure
# takes a second, and all of them are checked by one macro: forms that are no
# number are tried with the first.
odd='yes 08 4x'
counts=$(sed -n 's/^HAKMEM_ARG_COUNT(\[\(.*\)\], \(.*\), \[\(.*\)\], \[\(.*\)\],$/\1 \2 \3 \4/p' \
	"$configure_ac")
while read -r name variable least greatest; do
	default=$(sed -n "s/^m4_define(\[$variable\], \[\(.*\)\])$/\1/p" \
		"$configure_ac")
	ok "README.md has --with-$name=N, default $default" \
		in_readme "--with-$name=N" "$default"
	ok "the summary has --with-$name" in_summary "with-$name"
	for value in $odd $((least - 1)) $((greatest + 1)); do
		ok "--with-$name='$value' is refused" \
			refuses "--with-$name=$value" "--with-$name"
	done
	odd=
done <<LIST
$counts
LIST

# The lists above are read from the text of configure.ac: none may be missed.
written=$(grep -cE '^[[:space:]]*(AC_ARG_(ENABLE|WITH)|HAKMEM_ARG_(BOOL|COUNT))\(' \
	"$configure_ac")
read_here=$(printf '%s\n' "$bools" "$counts" | grep -c .)
is "$written" "$read_here" "no switch is defined in another way"
rows=$(grep -cE '^\| `--(en|dis)able-|^\| `--with(out)?-' "$readme")
is "$rows" "$read_here" "README.md has no switch that configure does not have"
done_testing
