# The manual pages: clean for mandoc and groff, complete for the exported
# functions, the messages of the library and the command, and the options of
# the command. tests/options-doc.sh has the variables.
. "$top_srcdir/tests/tap.sh"

man=$top_srcdir/man
lib=$top_srcdir/lib
lab=$top_srcdir/bench/lab

have() {
	command -v "$1" >/dev/null 2>&1
}

# Either prints what it has to complain of and may still exit with 0.
quiet() {
	"$@" >"$scratch/quiet" 2>&1
	cat "$scratch/quiet"
	[ ! -s "$scratch/quiet" ]
}

is_alias() {
	grep -q '^\.so ' "$1"
}

version=$(sed -n 's/^AC_INIT(\[hakmem\], \[\([^]]*\)\].*/\1/p' \
	"$top_srcdir/configure.ac")
# Lines that a terminal of 80 columns would break; bold letters are struck twice.
too_long() {
	"$@" >"$scratch/rendered" &&
		sed "s/.$(printf '\b')//g" "$scratch/rendered" |
		awk 'length > 80'
}

for page in "$man"/*.[1-8]; do
	name=${page##*/}
	is_alias "$page" && continue
	ok "$name: is of this version" grep -qx ".Os \"hakmem $version\"" "$page"
	if have mandoc; then
		ok "$name: mandoc has no warning" \
			quiet mandoc -Tlint -Wwarning "$page"
		is "$(too_long mandoc -Tascii -Owidth=80 "$page" 2>&1)" "" \
			"$name: mandoc needs 80 columns"
	else
		skip "$name: mandoc has no warning" "no mandoc here"
	fi
	if have groff; then
		ok "$name: groff has no warning" \
			quiet groff -mdoc -ww -z -Tutf8 "$page"
		is "$(too_long groff -mdoc -rLL=80n -Tascii -P-cbou "$page" 2>&1)" "" \
			"$name: groff needs 80 columns"
	else
		skip "$name: groff has no warning" "no groff here"
	fi
done

# --- functions ---------------------------------------------------------------

functions=$(sed -n 's/^\t\(hakmem_[a-z0-9_]*\);$/\1/p' "$lib/libhakmem.map" |
	sort)
documented=$(sed -n 's/^\.Fn \(hakmem_[a-z0-9_]*\) .*/\1/p' "$man"/*.3 |
	sort -u)
ok "functions were found" test -n "$functions"
missing=$(printf '%s\n' "$documented" >"$scratch/documented" &&
	printf '%s\n' "$functions" | grep -vxF -f "$scratch/documented")
is "$missing" "" "a page has each exported function"

family=$(sed -n 's/^\([a-z][a-z0-9_]*\)$/\1/p' "$top_srcdir/tests/family.list" |
	grep -v '^hakmem_')
for f in $family; do
	ok "hakmem(3) has $f" grep -qE "^\.Fn $f( |\$)" "$man/hakmem.3"
done

# The page of a function: one of its own or an alias of the page that has it.
page_of() {
	page=$man/$1.3
	[ -e "$page" ] || page=$top_builddir/man/$1.3
	if is_alias "$page"; then
		page=$man/$(sed -n 's/^\.so man3\/\(.*\)$/\1/p' "$page")
	fi
	grep -q "^\\.Fn $1 " "$page"
}
for f in $functions; do
	ok "man $f finds it" page_of "$f"
done
for alias in "$top_builddir"/man/*.3; do
	name=${alias##*/}
	is_alias "$alias" || continue
	ok "alias ${name%.3} is an exported function" \
		grep -q "^	${name%.3};" "$lib/libhakmem.map"
done

# --- messages ----------------------------------------------------------------

# One statement a line, comments gone.
statements() {
	sed 's/^[[:space:]]*\*.*//; s/\/\*.*\*\///' "$@" | tr '\n\t' '  ' |
		sed 's/[;{}]/&\n/g'
}

# Texts of calls that warn or end the process, and of variables that hold what
# is wrong.
library_messages() {
	{
		statements "$lib"/*.c |
			grep -E 'hak_(warn|fatal)[a-z_]*\(|complain\(|hak_invalid_block\(' |
			sed -nE 's/.*(hak_[a-z_]*|complain)\([^,]*, *("[^"]*").*/\2/p'
		statements "$lib"/*.c |
			grep -E '(wrong|what|return|finding)\>.*"' |
			grep -oE '"[a-z]+( [a-z]+)+"' |
			grep -Ev '"(auto|none|at least|any size|a file name) *"'
	} | tr -d '"' | sort -u
}

page_messages() {
	sed -n '/^\.Sh DIAGNOSTICS/,/^\.Sh [^D]/p' "$man/hakmem.7" |
		grep '^\.It Li "hakmem: '
}

library_messages >"$scratch/library"
page_messages >"$scratch/items"
ok "messages were found" grep -qx 'double free' "$scratch/library"
while read -r message; do
	ok "hakmem(7) has: $message" grep -qF "$message" "$scratch/items"
done <"$scratch/library"
# "hakmem: FUNCTION: WHAT[...]": the page has none that the code has not.
sed -E 's/^\.It Li "hakmem: ([a-zA-Z_]*): (NAME: )?([^:,'\'']*[a-z]).*/\3/' \
	"$scratch/items" >"$scratch/whats"
while read -r message; do
	ok "the library has: $message" \
		grep -qF "\"$message" "$lib"/*.c "$lib"/*.h
done <"$scratch/whats"

# The fixed parts of the command's messages; a part of a letter or two, as the
# space between two values, has nothing to look for.
command_messages() {
	{
		statements "$lab"/main.c "$lab"/command.c "$lab"/run.c \
			"$lab"/options_cmd.c "$lab"/bench_cmd.c \
			"$lab"/setting.c "$lab"/preload.c "$lab"/place.c |
			grep -E 'hak_command_(fail|warn)\(' |
			sed 's/.*hak_command_[a-z]*(//' | sed 's/" *"//g'
		statements "$lab"/target.c |
			grep -E 'return [^()]*"|\? "[^()]*: "'
	} | grep -oE '"[^"]*"' | tr -d '"' |
		sed -E 's/%[-.*0-9]*[a-z]/\n/g' |
		sed -E 's/^[ :(]*//; s/[ :)-]*$//' | grep -E '^[^/]*[a-z]{3}' | sort -u
}
sed -n '/^\.Sh DIAGNOSTICS/,/^\.Sh [^D]/p' "$man/hakmem.1" >"$scratch/command"
command_messages >"$scratch/parts"
ok "messages of the command were found" \
	grep -q '^statically linked' "$scratch/parts"
while read -r message; do
	ok "hakmem(1) has: $message" grep -qF -e "$message" "$scratch/command"
done <"$scratch/parts"

# --- options -----------------------------------------------------------------

hakmem=$top_builddir/hakmem

# A subcommand has a page of its own or stands in hakmem(1).
page_of_subcommand() {
	if [ -e "$man/hakmem-$1.1" ]; then
		echo "$man/hakmem-$1.1"
	else
		echo "$man/hakmem.1"
	fi
}

# In mdoc "--stats" is "Fl Fl stats".
has_option() {
	grep -qE "Fl Fl $2( |\$)" "$(page_of_subcommand "$1")"
}

options_in_page() { # subcommand [argument]
	for option in $("$hakmem" "$@" --help |
		sed -nE '/^ +(-[a-z], )?--[a-z]/p' |
		grep -oE '(^|[ ,])--[a-z-]+' | sed 's/^[ ,]*--//' |
		sort -u); do
		ok "the page of hakmem $* has --$option" \
			has_option "$1" "$option"
	done
}

"$hakmem" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$scratch/subcommands"
ok "subcommands were found" grep -qx run "$scratch/subcommands"
while read -r sub; do
	ok "hakmem(1) has $sub" grep -qE "^\\.Cm $sub( |\$)" "$man/hakmem.1"
	options_in_page "$sub"
done <"$scratch/subcommands"
options_in_page bench --scorecard
done_testing
