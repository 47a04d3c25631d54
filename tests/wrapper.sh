# The command hakmem: what it prints, what it refuses, and that hakmem run
# either runs the command on the preloaded library or says why it cannot.

. "$top_srcdir/tests/tap.sh"

here=$(cd "$top_builddir" && pwd)
hakmem=$here/hakmem
soname=libhakmem-preload.so.1

for name in $(env | sed -n 's/^\(HAKMEM_[A-Za-z0-9_]*\)=.*/\1/p'); do
	unset "$name"
done

# run_it words...: runs them, leaving $status, $out and $err
run_it() {
	"$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	out=$(cat "$scratch/out")
	err=$(cat "$scratch/err")
}

# refuses status message words...: hakmem fails with the status and message.
# $with is an environment variable for it.
with=A=1
refuses() {
	want_status=$1
	want=$2
	shift 2
	run_it env "$with" "$hakmem" "$@"
	is "$status:$out:$err" "$want_status::hakmem: $want" "refused: $*"
}

is "$("$hakmem" --version)" "hakmem $(sed -n \
	's/^#define HAKMEM_VERSION_STRING "\(.*\)"/\1/p' \
	"$top_srcdir/include/hakmem.h")" "--version is that of hakmem.h"
is "$("$hakmem" -V)" "$("$hakmem" --version)" "-V"
run_it "$hakmem" --help
is "$status:$err" "0:" "--help"
ok "--help lists run" grep -q '^  run  *[a-z]' "$scratch/out"
subcommands=$(sed -n '/^Subcommands/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' \
	"$scratch/out")
for name in $subcommands; do
	run_it "$hakmem" "$name" --help
	is "$status:$err:$(sed -n '1s/\( [a-z]*\) .*/\1/p' "$scratch/out")" \
		"0::Usage: hakmem" "$name --help"
	ok "$name --help is about $name" \
		grep -q "^Usage: hakmem $name" "$scratch/out"
	is "$(awk 'length > 80' "$scratch/out")" "" \
		"$name --help fits a terminal"
done
run_it "$hakmem"
is "$status:$out" "125:" "without arguments: usage on standard error"
refuses 125 "unknown subcommand: rnu ('hakmem --help' lists them)" rnu
refuses 125 'bad option: --wrong' --wrong
refuses 125 'run: bad option: --wrong' run --wrong true
refuses 125 'run: bad option: -w' run -w true
refuses 125 'options: bad option: --wrong' options --wrong
if [ -w /dev/full ]; then
	for words in --help --version 'run --help' options; do
		"$hakmem" $words >/dev/full 2>"$scratch/err"
		is "$?:$(sed 's/.*: //' "$scratch/err")" \
			"125:No space left on device" \
			"$words: output that is lost is told"
	done
fi

# --- Settings ---------------------------------------------------------------

refuses 125 'run: unknown variable: HAKMEM_TPH (the nearest is HAKMEM_THP)' \
	run HAKMEM_TPH=never touch "$scratch/ran"
refuses 125 'run: unknown variable: HAKMEM_thp (the nearest is HAKMEM_THP)' \
	run HAKMEM_thp=never touch "$scratch/ran"
refuses 125 'run: unknown variable: HAKEM_STATS (the nearest is HAKMEM_STATS)' \
	run HAKEM_STATS=1 touch "$scratch/ran"
refuses 125 'run: not a variable of hakmem: LC_ALL' \
	run LC_ALL=C touch "$scratch/ran"
refuses 125 "run: HAKMEM_THP: bad value 'x' (auto, always or never expected)" \
	run HAKMEM_THP=x touch "$scratch/ran"
refuses 125 "run: HAKMEM_STATS: bad value 'xml' (0, 1 or json expected)" \
	run --stats=xml touch "$scratch/ran"
with=HAKMEM_STATS_FILE=$(printf '%04096d' 0)
refuses 125 "run: HAKMEM_STATS_FILE: bad value '$(printf '%064d' 0)' (a file name expected)" \
	run touch "$scratch/ran"
with=HAKMEM_WRONG=1
refuses 125 \
	"run: unknown variable: HAKMEM_WRONG (the nearest is $("$hakmem" \
	options HAKMEM_WRONG=1 2>&1 | sed 's/.*is \(.*\))/\1/'))" \
	run touch "$scratch/ran"
with=HAKMEM_CACHE=1
refuses 125 \
	"run: HAKMEM_CACHE: bad value '1' (auto or at least 64K expected)" \
	run touch "$scratch/ran"
with=A=1
ok "a refused command is not run" test ! -e "$scratch/ran"
run_it "$hakmem" run HAKMEM_THP=x HAKMEM_TPH=y true
is "$(grep -c . "$scratch/err")" 2 "each bad setting is told"

# --- options ----------------------------------------------------------------

run_it "$hakmem" options
is "$status:$err" "0:" "options"
is "$(sed 1d "$scratch/out" | sed 's/ .*//')" \
	"$(sed -n 's/^HAKMEM_OPTION([a-z0-9_]*, "\([A-Z0-9_]*\)".*/\1/p' \
	"$top_srcdir/lib/options.def")" "options lists every row, in order"
is "$(sed 1d "$scratch/out" | grep -vc ' default$')" 0 \
	"options: all are defaults"
is "$(HAKMEM_RETAIN=3M "$hakmem" options HAKMEM_THP=never |
	grep -v ' default$' | tr -s ' ')" \
"variable value default accepted live source
HAKMEM_RETAIN 3M auto auto or any size live environ
HAKMEM_THP never auto auto, always or never - argument" \
	"options tells where a value comes from"
is "$(HAKMEM_THP=x "$hakmem" options HAKMEM_THP=always | grep THP |
	tr -s ' ')" "HAKMEM_THP always auto auto, always or never - argument" \
	"options: an argument stands before the environment"
is "$("$hakmem" options -d | grep -A1 HAKMEM_VERBOSE | tail -n 1)" \
	"    tell of unknown HAKMEM_ variables and refused changes" "options -d describes"
refuses 125 'options: not NAME=VALUE: THP' options THP
refuses 125 "options: HAKMEM_VERBOSE: bad value '2' (0 or 1 expected)" \
	options HAKMEM_VERBOSE=2
is "$("$hakmem" options | awk 'length > 80')" "" "options fits a terminal"

# --- The completion ---------------------------------------------------------

# complete_it words...: the completions of the last one
complete_it() {
	PATH=$here:$PATH bash -c '
		source "$0"
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_hakmem hakmem "${COMP_WORDS[COMP_CWORD]}"
		printf "%s\n" "${COMPREPLY[@]}"
	' "$here/bench/lab/completion/hakmem" "$@" 2>&1
}
if command -v bash >/dev/null; then
	is "$(complete_it hakmem '')" "$subcommands
--help
--version" "completion: subcommands"
	is "$(complete_it hakmem run HAKMEM_TH)" "HAKMEM_THP=" \
		"completion: a variable"
	is "$(complete_it hakmem options '' | sed 's/=$//')" \
		"$("$hakmem" options | sed '1d;s/ .*//')" \
		"completion: all variables"
	is "$(complete_it hakmem run HAKMEM_THP = '')" "auto
always
never" "completion: words"
	is "$(complete_it hakmem run HAKMEM_THP =)" "auto
always
never" "completion: words, from the = on"
	is "$(complete_it hakmem options HAKMEM_VERBOSE = 1)" 1 \
		"completion: a boolean"
	is "$(complete_it hakmem run --stats = '')" json \
		"completion: the argument of an option"
	is "$(complete_it hakmem run --l)" --lib "completion: an option"
	is "$(complete_it hakmem ab --a)" "--a
--a-lib
--alpha" "completion: options that share a line of --help"
	is "$(complete_it hakmem bench pa)" pair "completion: a workload"
	is "$(complete_it hakmem stat HAKMEM_TH)$(complete_it hakmem ab HAKMEM_TH)" \
		"" "completion: no variable where none is accepted"
	for words in 'run --stats-file' 'run --lib' 'bench --lib' \
		'ab --replay' 'sweep --html' 'sweep --runs'; do
		# shellcheck disable=SC2086 # words
		complete_it hakmem $words ''
	done >"$scratch/arguments"
	is "$(sort -u "$scratch/arguments" | head -n 3)" "" \
		"completion: a file, or nothing, after an option with an argument"
	complete_it hakmem stat '' >"$scratch/processes"
	ok "completion: a process" grep -qx $$ "$scratch/processes"
	is "$(complete_it hakmem run --lib /x HAKMEM_THP = never hakmem |
		sort -u)" hakmem "completion: the command"
	is "$(complete_it hakmem run -- true HAKMEM_TH)" "" \
		"completion: nothing of ours after the command"
else
	skip "completion" "bash is not installed"
fi

# --- run --------------------------------------------------------------------

refuses 125 "run: no command ('hakmem run --help' tells more)" run
refuses 125 "run: no command ('hakmem run --help' tells more)" run --
refuses 127 'run: no-such-command: No such file or directory' \
	run no-such-command
refuses 127 "run: $scratch/none: No such file or directory" \
	run "$scratch/none"
refuses 127 "run: $scratch/out/x: Not a directory" run "$scratch/out/x"
refuses 126 "run: $scratch: Permission denied" run "$scratch"
echo 'echo a script' >"$scratch/text"
refuses 126 "run: $scratch/text: Permission denied" run "$scratch/text"
refuses 127 'run: A=1: No such file or directory' run -- A=1
refuses 125 'run: option needs an argument: --lib' run --lib
refuses 125 'run: --lib names no library' run --lib= true

if [ "${enable_shared-yes}" != yes ]; then
	skip "run" "no shared library was built"
	done_testing
fi

run_it "$hakmem" run -- printf '%s.' a 'b  c' '' -- --stats HAKMEM_THP=x
is "$status:$out:$err" "0:a.b  c..--.--stats.HAKMEM_THP=x.:" \
	"arguments are the command's own"
is "$(echo in | "$hakmem" run cat)" in "standard input is the command's"
for want in 0 1 7 125 255; do
	"$hakmem" run sh -c "exit $want"
	is $? $want "exit status $want"
done
("$hakmem" run sh -c 'kill -KILL $$') 2>/dev/null
is $? 137 "a signal"
is "$("$hakmem" run sh -c 'echo $PPID')" $$ "run becomes the command"
"$hakmem" run sh -c 'echo x >>"$0"' "$scratch/once"
is "$(cat "$scratch/once")" x "the command is run once"

ok "the library is in the process" sh -c \
	"'$hakmem' run cat /proc/self/maps | grep -q '$soname'"
echo_preload='printf "%s\n" "$LD_PRELOAD"'
built=$(readlink -f "$here/.libs/$soname")
is "$("$hakmem" run sh -c "$echo_preload")" "$built" \
	"from the build tree: its library"
is "$(cd / && "$hakmem" run sh -c "$echo_preload")" "$built" \
	"from another directory"
ln -s "$hakmem" "$scratch/link"
is "$("$scratch/link" run sh -c "$echo_preload")" "$built" \
	"through a link"
is "$(LD_PRELOAD='libc.so.6 libm.so.6' "$hakmem" run sh -c "$echo_preload")" \
	"$built:libc.so.6:libm.so.6" "LD_PRELOAD is kept, behind"
is "$(LD_PRELOAD='' "$hakmem" run sh -c "$echo_preload")" "$built" \
	"an empty LD_PRELOAD"
is "$("$hakmem" run "$hakmem" run sh -c "$echo_preload")" "$built" \
	"run in run"
is "$(LD_DEBUG=all LD_DEBUG_OUTPUT=$scratch/debug LD_BIND_NOW=1 LD_WARN=1 \
	LD_VERBOSE=1 "$hakmem" run sh -c "$echo_preload")" "$built" \
	"variables of the loader do not disturb"

show='echo "$HAKMEM_THP,$HAKMEM_CACHE,$HAKMEM_STATS"'
# the statistics that a library prints at its end are of no interest here
show_settings() {
	env "$with" "$hakmem" run "$@" sh -c "$show" 2>/dev/null
}
is "$(show_settings HAKMEM_THP=never HAKMEM_CACHE=1M)" "never,1M," \
	"settings"
is "$(with=HAKMEM_THP=always && show_settings HAKMEM_THP=never --)" \
	"never,," "a setting stands before the environment"
is "$(with=HAKMEM_THP=x && show_settings HAKMEM_THP=never --)" \
	"never,," "even before a bad one"
is "$(show_settings HAKMEM_THP=never HAKMEM_THP=auto)" "auto,," \
	"of two settings the last"
is "$(show_settings --stats HAKMEM_THP=never --)" "never,,1" \
	"--stats"
is "$(show_settings HAKMEM_THP=never --stats=json HAKMEM_CACHE=2M --)" \
	"never,2M,json" "--stats=json, among settings"
is "$(with=HAKMEM_STATS=json && show_settings)" ",,json" "the environment"
stats_file=$scratch/stats.%p
is "$(show_settings --stats-file="$stats_file")" ",,1" \
	"--stats-file brings --stats"
is "$(with=HAKMEM_STATS=json && show_settings --stats-file="$stats_file")" \
	",,json" "unless the environment chooses a form"
is "$(show_settings --stats=json --stats-file="$stats_file")" ",,json" \
	"or an argument does"

# --- Scripts and PATH -------------------------------------------------------

mkdir "$scratch/first" "$scratch/second"
printf '#!/bin/sh\n%s\n' "$echo_preload" >"$scratch/second/script"
chmod +x "$scratch/second/script" "$scratch/text"
is "$("$hakmem" run "$scratch/second/script")" "$built" "a script"
printf '#! %s -x\n' "$scratch/second/script" >"$scratch/first/nested"
chmod +x "$scratch/first/nested"
is "$("$hakmem" run "$scratch/first/nested")" "$built" "a script's script"
is "$("$hakmem" run "$scratch/text")" "a script" "a script without #!"
touch "$scratch/first/script"
mkdir "$scratch/first/printf"
is "$(PATH=$scratch/first:$scratch/second:$PATH "$hakmem" run script)" \
	"$built" "PATH: a file that may not be run is passed by"
is "$(PATH=$scratch/first:$PATH "$hakmem" run printf x)" x \
	"PATH: so is a directory"
is "$(cd "$scratch/second" && PATH=:/bin:/usr/bin "$hakmem" run script)" \
	"$built" "PATH: an empty entry is the working directory"
run_it env PATH="$scratch/first" "$hakmem" run script
is "$status:$err" "126:hakmem: run: script: Permission denied" \
	"PATH: only a file that may not be run"
is "$(env -u PATH "$hakmem" run printf x)" x "without PATH"
printf '#!/no/interpreter\n' >"$scratch/first/orphan"
chmod +x "$scratch/first/orphan"
refuses 125 'run: /no/interpreter: asked for by a script, and not there' \
	run "$scratch/first/orphan"

# --- Where it cannot work ---------------------------------------------------

echo 'int main(void) { return 0; }' >"$scratch/nothing.c"
# build name flags...: makes $scratch/name of nothing.c
build() {
	name=$1
	shift
	$CC "$@" -o "$scratch/$name" "$scratch/nothing.c" \
		>"$scratch/cc.log" 2>&1
}
# cannot name reason
cannot() {
	refuses 125 "run: $scratch/$1: $2" run "$scratch/$1"
}
# patch name offset byte: a copy of true with an octal byte in its header
patch() {
	cp "$scratch/dynamic" "$scratch/$1"
	printf "\\$3" | dd of="$scratch/$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
if build dynamic; then
	ok "a program of ours" "$hakmem" run "$scratch/dynamic"
	patch narrow 4 1
	cannot narrow 'a 32-bit program, hakmem is for 64-bit ones'
	patch swapped 5 "$(od -An -to1 -j5 -N1 "$scratch/dynamic" |
		tr 12 21 | tr -d ' 0')"
	cannot swapped 'a program for another architecture'
	patch foreign 18 377
	cannot foreign 'a program for another architecture'
	printf '#!%s\n' "$scratch/foreign" >"$scratch/script"
	chmod +x "$scratch/script"
	refuses 125 "run: $scratch/foreign: a program for another architecture" \
		run "$scratch/script"
	head -c 100 "$scratch/dynamic" >"$scratch/damaged"
	chmod +x "$scratch/damaged"
	cannot damaged 'a damaged ELF file'
else
	skip "other architectures" "cannot build a program"
fi
for flag in -static -static-pie; do
	if build "${flag#-}" $flag; then
		cannot "${flag#-}" \
			'statically linked, its malloc cannot be replaced'
	else
		skip "$flag" "cannot build such a program"
	fi
done
loader=
for name in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do
	[ ! -x "$name" ] || loader=$name
done
if [ -n "$loader" ]; then
	refuses 125 "run: $loader: a dynamic loader, name the program itself" \
		run -- "$loader" /bin/true
else
	skip "a dynamic loader" "not where it is expected"
fi
if build musl -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1; then
	cannot musl 'linked with musl, hakmem needs glibc'
	build other -Wl,--dynamic-linker=/lib/ld-uClibc.so.1
	cannot other 'linked with another C library, hakmem needs glibc'
	build gone -Wl,--dynamic-linker=/no/ld-linux-none.so.2
	cannot gone 'its dynamic loader is not installed'
else
	skip "other C libraries" "cannot build such a program"
fi
cat >"$scratch/own.c" <<'C'
#include <stddef.h>
void *malloc(size_t n) { return n ? NULL : NULL; }
int main(void) { return malloc(1) != NULL; }
C
if $CC -o "$scratch/own" "$scratch/own.c" >"$scratch/cc.log" 2>&1; then
	cannot own 'has a malloc of its own, which comes first'
else
	skip "a malloc in the program" "cannot build such a program"
fi

# A program of another user, run by root, has other privileges; so has one of
# root's, run by others.
if [ -x "$scratch/dynamic" ] && [ "$(id -u)" -eq 0 ] &&
	cp "$scratch/dynamic" "$scratch/setid" &&
	chown 65534:65534 "$scratch/setid" && chmod u+s "$scratch/setid"; then
	cannot setid 'set-id, the loader ignores LD_PRELOAD for it'
	chmod u-s,g+s "$scratch/setid"
	cannot setid 'set-id, the loader ignores LD_PRELOAD for it'
	chown 0:0 "$scratch/setid"
	chmod u+s "$scratch/setid"
	ok "set-id to who one is already" "$hakmem" run "$scratch/setid"
	if chmod g-s "$scratch/setid" && chmod 711 "$scratch" &&
		command -v setpriv >/dev/null; then
		run_it setpriv --reuid 65534 --clear-groups \
			"$hakmem" run "$scratch/setid"
		if [ "$status" -eq 127 ]; then
			skip "a set-id program" "others may not run hakmem"
		else
			is "$status" 125 "a program of root's, run by others"
		fi
	fi
else
	skip "set-id programs" "not root"
fi

# --- --lib ------------------------------------------------------------------

is "$("$hakmem" run --lib="$here/.libs/$soname" sh -c "$echo_preload")" \
	"$built" "--lib=PATH"
is "$(cd "$here/.libs" && "$hakmem" run --lib "./$soname" \
	sh -c "$echo_preload")" "$built" "--lib, a path from here"
is "$("$hakmem" run --lib=libm.so.6 sh -c "$echo_preload")" libm.so.6 \
	"--lib, a name for the loader"
refuses 125 "run: $scratch/none.so: No such file or directory" \
	run --lib="$scratch/none.so" true
cat=$(command -v cat)
refuses 125 "run: libnone.so: cannot be preloaded into $cat: \
cannot open shared object file" run --lib=libnone.so cat
refuses 125 "run: $scratch/nothing.c: cannot be preloaded into $cat: \
file too short" \
	run --lib="$scratch/nothing.c" cat
mkdir "$scratch/a place"
cp "$built" "$scratch/a place/lib.so"
refuses 125 "run: $scratch/a place/lib.so: a path with a space or colon \
cannot be preloaded" run --lib="$scratch/a place/lib.so" true
if [ -x "$scratch/narrow" ]; then
	refuses 125 "run: $scratch/narrow: cannot be preloaded into $cat: \
wrong ELF class: ELFCLASS32" run --lib="$scratch/narrow" cat
fi

# --- Installed --------------------------------------------------------------

# the directories that configure was given
for name in prefix exec_prefix bindir libdir; do
	eval "$name=\"$(sed -n "s/^$name = //p" "$top_builddir/Makefile")\""
done
stage=$scratch/stage
mkdir -p "$stage$bindir" "$stage$libdir" "$scratch/alone/bin"
cp "$hakmem" "$stage$bindir"
cp "$hakmem" "$scratch/alone/bin"
cp "$built" "$stage$libdir/$soname"
is "$("$stage$bindir/hakmem" run sh -c "$echo_preload")" \
	"$stage$libdir/$soname" "moved: the library that moved with it"
is "$(LD_LIBRARY_PATH=$stage$libdir "$stage$bindir/hakmem" run \
	sh -c "$echo_preload")" "$soname" \
	"the bare name, where the loader finds our library by it"
mkdir "$scratch/stray"
cp "$built" "$scratch/stray/$soname"
is "$(LD_LIBRARY_PATH=$scratch/stray "$stage$bindir/hakmem" run \
	sh -c "$echo_preload")" "$stage$libdir/$soname" \
	"not the bare name, where that finds another"
is "$(LD_LIBRARY_PATH=$scratch/stray "$scratch/alone/bin/hakmem" run \
	sh -c "$echo_preload" 2>&1)" \
	"$([ -e "$libdir/$soname" ] && echo "$libdir/")$soname" \
	"the bare name, where nothing else is known"
if [ -e "$libdir/$soname" ]; then
	skip "no library" "one is installed in $libdir"
else
	run_it "$scratch/alone/bin/hakmem" run touch "$scratch/ran"
	is "$status:${err##*: }" "125:cannot open shared object file" \
		"no library: refused"
	ok "no library: the command is not run" test ! -e "$scratch/ran"
fi

done_testing
