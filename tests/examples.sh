# Every command line that README.md, the manual pages and the --help texts show
# is run, in displays, in running text and in usage lines, and every program is
# compiled and run.
. "$top_srcdir/tests/tap.sh"

source_dir=$(cd "$top_srcdir" && pwd)
build_dir=$(cd "$top_builddir" && pwd)
PATH=$build_dir:$PATH
PKG_CONFIG_PATH=$build_dir
LD_LIBRARY_PATH=$build_dir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH PKG_CONFIG_PATH LD_LIBRARY_PATH
[ "$enable_shared" = yes ] || skip_all "no shared library was built"
cd "$scratch" || exit 99

# What the examples suppose to be there.
for name in bench-old bench-new load-test server-test; do
	cat >$name <<'SCRIPT'
#!/bin/sh
echo "ops/s: $$ requests per second: $$"
SCRIPT
done
chmod +x bench-* *-test
echo 'print(1)' >script.py
cp "$source_dir/tests/ab-recorded.txt" runs.txt
cat >program.c <<'PROGRAM'
#include <hakmem.h>

int main(void)
{
	hakmem_free(hakmem_malloc(1));
	return 0;
}
PROGRAM

# Lines of literal displays of a page, continued lines joined.
displays() { # page
	awk '
	/^\.Bd -literal/ { inside = 1; next }
	/^\.Ed/ { inside = 0 }
	inside' "$1" | sed 's/\\e$/\\/' |
		sed -e ':a' -e '/\\$/{N;s/\\\n[ \t]*//;ba' -e '}'
}

is_command='^([A-Z_]+=[^ ]* )*hakmem [a-z-]|^(cc|man|pkg-config|configure) |^LD_PRELOAD='

# Displays, then what stands in running text: `code` and .Ql, and in README.md
# the one "man 7 hakmem" that is to be read as prose.
commands() { # file
	case $1 in
	*.md)
		sed -n 's/^    \([^ ].*\)/\1/p' "$1"
		grep -v '^    ' "$1" | tr '\n' ' ' | grep -oE '`[^`]*`' |
			tr -d '`' | grep -E "$is_command"
		grep -oE 'man [1-8] hakmem[a-z-]*' "$1"
		;;
	*)
		displays "$1" | grep -E "$is_command"
		sed -nE 's/^\.Ql (.*[^ .,]).*/\1/p' "$1" |
			grep -E "$is_command"
		;;
	esac
}

# What a display shows beside commands: C, from #include to the last brace.
unknown() { # page
	displays "$1" | awk '
		/^#include/ { inside = 1 }
		!inside && NF
		/^}/ { inside = 0 }' | grep -vE "$is_command"
}

# Minutes become a few runs, placeholders something real, and a name that needs
# arguments gets some. A status of 125 or more is a failure of hakmem, or of what
# it ran; less is a verdict.
run() { # command
	line=$(printf '%s\n' "$1" |
		sed 's/--time [0-9]*m/--runs 6/; s/python3 script/true script/
			s/PROGRAM/true/; s/example\.c/program.c/
			s/NAME=VALUE$/HAKMEM_CACHE=1M/; s/PID$/'$process'/
			s/^\(hakmem run\( [A-Z_]*=[^ ]*\)*\)$/\1 -- true/
			s/--scorecard$/--scorecard --runs 2 --warmup 0 --row pair/')
	echo "$line"
	sh -c "$line" </dev/null 2>"$scratch/run.err"
	status=$?
	cat "$scratch/run.err"
	echo "status $status"
	! grep 'ERROR: ld\.so' "$scratch/run.err" || return 1
	case $line in
	*'hakmem ab '* | *'hakmem sweep '*) [ $status -lt 125 ] ;;
	timeout\ *) [ $status -eq 124 ] ;;
	*) [ $status -eq 0 ] ;;
	esac
}

# Which programs a line needs that need not be there.
lacks() { # command
	for program in python3 pkg-config man jq; do
		case $1 in
		$program\ * | *[!a-z]$program\ *)
			command -v $program >/dev/null || {
				echo $program
				return
			}
			;;
		esac
	done
}

try() { # where command
	case $2 in
	./bootstrap* | ./configure* | make | make\ * | dpkg-buildpackage* | \
		apt\ *)
		skip "$1: $2" "builds and installs: see .ci and debian/tests"
		return
		;;
	configure\ *)
		skip "$1: $2" "see switches.sh"
		return
		;;
	hakmem\ heap | hakmem\ block\ *)
		skip "$1: $2" "is a command of gdb: see gdb.sh"
		return
		;;
	man\ *) # of what is not installed
		set -- "$1" "$(printf '%s\n' "$2" |
			sed "s|man \([1-8]\) \(.*\)|man -l $source_dir/man/\2.\1|")"
		;;
	*--watch=*) # until it is interrupted
		set -- "$1" "timeout 2 hakmem stat --watch=1 $process"
		;;
	*4711*) set -- "$1" "$(printf '%s\n' "$2" | sed "s/4711/$process/")" ;;
	*OLD*) # the same with two builds
		skip "$1: $2" "needs two builds"
		return
		;;
	cc\ *) set -- "$1" "$CC${2#cc}" ;;
	esac
	lacking=$(lacks "$2")
	if [ -n "$lacking" ]; then
		skip "$1: $2" "no $lacking here"
	else
		ok "$1: $2" run "$2"
	fi
}

# A process for the pages that look into one.
LD_PRELOAD=$build_dir/.libs/libhakmem-preload.so sleep 300 &
process=$!
trap 'kill $process 2>/dev/null; rm -rf "$scratch"' EXIT

cd "$source_dir" || exit 99
files=$(grep -L '^\.so ' README.md man/*.[1-8])
cd "$scratch" || exit 99
for file in $files; do
	commands "$source_dir/$file" | awk '!seen[$0]++' >"$scratch/commands"
	case $file in
	*_stats_get.3) ;; # has a program only
	*) ok "$file has commands" test -s "$scratch/commands" ;;
	esac
	while IFS= read -r line; do
		try "$file" "$line"
	done <"$scratch/commands"
	case $file in
	man/*) is "$(unknown "$source_dir/$file")" "" "$file shows nothing else" ;;
	esac
done

# The lines of a usage text, continued ones joined: what is optional left out,
# the rest made real.
usages() { # text
	sed -n '/^Usage: /,/^[^ U]/{/^ *$/d; /^[^ U]/d; s/^Usage: */ /; p;}' "$1" |
		sed -e ':a' -e '$!N; s/\n  *\([^h ]\)/ \1/; ta' -e 'P; D' |
		sed -e ':a' -e 's/\[[^][]*\]\(\.\.\.\)*//; ta' |
		sed "s/<subcommand>/options/; s/ command *\$/ true/
			s/NAME='[^']*' \.\.\./x=true --side y=true/
			s/NAME=VALUE,VALUE\.\.\. \.\.\./HAKMEM_CACHE=1M,2M/
			s/'A=1 program \.\.\.'/'A=1 true'/
			s/'program \.\.\.'/true/; s/ program \.\.\./ true/
			s/FILE/runs.txt/; s/PID/$process/
			s/^ *//; s/  */ /g; s/ *\$//
			s/^\(hakmem bench\)\$/\1 pair --ops=1K/
			s/^\(pair\)\$/hakmem bench \1 --ops=1K/
			s/^\(hakmem \(ab\|sweep\)\)\(.*\)/\1 --runs 6\3/
			s/--runs 6\( .*--replay\)/\1/"
}

# Usage texts name other commands in quotes.
quoted() { # text
	tr '\n' ' ' <"$1" | tr -s ' ' | grep -oE "'hakmem [^']*'" | tr -d "'"
}

try_help() { # command
	ok "$1 --help" sh -c "$1 --help >'$scratch/help'"
	usages "$scratch/help" >"$scratch/commands"
	ok "$1 --help has usage lines" test -s "$scratch/commands"
	quoted "$scratch/help" >>"$scratch/commands"
	while IFS= read -r line; do
		try "$1 --help" "$line"
	done <"$scratch/commands"
}

try_help hakmem
hakmem --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$scratch/subcommands"
ok "subcommands were found" grep -qx run "$scratch/subcommands"
while read -r sub; do
	try_help "hakmem $sub"
done <"$scratch/subcommands"
try_help "hakmem bench --scorecard"
try_help "hakmem bench pair"

# Whole programs in the pages of functions.
build_and_run() { # file
	# shellcheck disable=SC2086 # flags
	$CC -Wall -Wextra -I"$source_dir/include" "$1" -o "$1.program" \
		-L"$build_dir/.libs" -lhakmem -Wl,-rpath,"$build_dir/.libs" &&
		"./$1.program"
}
for page in "$source_dir"/man/*.3; do
	grep -q '^\.so ' "$page" && continue
	name=${page##*/}
	rm -f "$scratch"/*.3.*.c
	displays "$page" | sed 's/\\e/\\/g' | awk -v name="$name" '
		/^#include/ && !inside { inside = 1; n++ }
		inside { print >(name "." n ".c") }
		/^}/ { inside = 0 }'
	ok "$name has programs" test -s "$name.1.c"
	for file in "$name".*.c; do
		ok "$file compiles and runs" build_and_run "$file"
	done
done
done_testing
