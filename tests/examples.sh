# Every command line that README.md, the manual pages and the --help texts show
# is run, and every program is compiled and run.
. "$top_srcdir/tests/tap.sh"

source_dir=$(cd "$top_srcdir" && pwd)
build_dir=$(cd "$top_builddir" && pwd)
PATH=$build_dir:$PATH
PKG_CONFIG_PATH=$build_dir
LD_LIBRARY_PATH=$build_dir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH PKG_CONFIG_PATH
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

commands() { # file
	case $1 in
	*.md) sed -n 's/^    \([^ ].*\)/\1/p' "$1" ;;
	*) displays "$1" | grep -E '^(HAKMEM_[A-Z_]*=[^ ]* )?hakmem |^cc ' ;;
	esac
}

# Minutes become a few runs. A status of 125 or more is a failure of hakmem, or of
# what it ran; less is a verdict.
run() { # command
	line=$(printf '%s\n' "$1" |
		sed 's/--time [0-9]*m/--runs 6/; s/python3 script/true script/
			s/PROGRAM/true/; s/example\.c/program.c/')
	echo "$line"
	sh -c "$line" </dev/null
	status=$?
	echo "status $status"
	case $line in
	*'hakmem ab '* | *'hakmem sweep '*) [ $status -lt 125 ] ;;
	*) [ $status -eq 0 ] ;;
	esac
}

# Which programs a line needs that need not be there.
lacks() { # command
	for program in python3 pkg-config; do
		case $1 in
		*$program*)
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
	*--watch=*)
		skip "$1: $2" "runs until it is interrupted: see stat.sh"
		return
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

for file in README.md man/hakmem.1 man/hakmem-ab.1 man/hakmem-sweep.1 \
	man/hakmem-stat.1 man/hakmem.3 man/hakmem.7; do
	[ -e "$source_dir/$file" ] || continue
	commands "$source_dir/$file" >"$scratch/commands"
	ok "$file has commands" test -s "$scratch/commands"
	while IFS= read -r line; do
		try "$file" "$line"
	done <"$scratch/commands"
done

# Usage texts name other commands in quotes.
hakmem --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$scratch/subcommands"
ok "subcommands were found" grep -qx run "$scratch/subcommands"
while read -r sub; do
	try "hakmem --help" "hakmem $sub --help"
	hakmem "$sub" --help | tr '\n' ' ' | tr -s ' ' |
		grep -o "'hakmem [^']*'" | tr -d "'" >"$scratch/commands"
	while IFS= read -r line; do
		try "hakmem $sub --help" "$line"
	done <"$scratch/commands"
done <"$scratch/subcommands"

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
