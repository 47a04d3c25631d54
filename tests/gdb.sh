# The commands for gdb, on a process and on its core file.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "no shared library was built"
command -v gdb >/dev/null || skip_all "gdb is not installed"
gdb -nx -batch -ex 'python print(1)' 2>&1 | grep -qx 1 ||
	skip_all "this gdb has no Python"
grep -qE '^CFLAGS = .*-g( |$)' "$top_builddir/Makefile" ||
	skip_all "built without debugging information"

libs=$(cd "$top_builddir/.libs" && pwd)
# shellcheck disable=SC2086 # flags
$CC -g -I"$top_srcdir/include" "$top_srcdir/tests/gdb.c" \
	-o "$scratch/program" -L"$libs" -lhakmem -Wl,-rpath,"$libs" ||
	bail "cannot build the program"

look='-ex "echo ==heap\\n" -ex "hakmem heap"'
for name in tiny freed l2 l25 large huge of_heap foreign tiny+5; do
	look="$look -ex 'echo ==$name\\n' -ex 'hakmem block $name'"
done
gdb_on() { # gdb's arguments before and after the look
	eval "gdb -nx -batch -ex 'set debuginfod enabled off' \
		-ex 'set startup-with-shell off' \
		-x '$top_srcdir/lib/hakmem-gdb.py' $1 $look $2"
}

gdb_on "-ex run" "-ex 'generate-core-file $scratch/core' $scratch/program" \
	>"$scratch/live" 2>&1
grep -qiE 'ptrace: Operation not permitted|Could not trace' "$scratch/live" &&
	skip_all "no process can be traced here"

section() { # file name
	sed -n "/^==$2\$/,/^==/p" "$1" | sed '/^==/d'
}

has() { # file section pattern
	section "$1" "$2" >"$scratch/section"
	cat "$scratch/section"
	grep -qE -- "$3" "$scratch/section"
}

look_at() { # file what
	ok "$2: threads" has "$1" heap '^[0-9]+ +0 +[0-9]+ +[0-9]+$'
	ok "$2: bins" has "$1" heap '^ +0 +8 +112 +1 +585 +[0-9]+ '
	ok "$2: arenas" has "$1" heap '^[0-9a-f]+ +1024 +[0-9]+ +[0-9]+$'
	ok "$2: Tiny" has "$1" tiny '^pool:   Tiny$'
	ok "$2: its bin" has "$1" tiny '^bin:    8, blocks of 112 bytes$'
	ok "$2: in use" has "$1" tiny '^state:  in use$'
	ok "$2: its slab" has "$1" tiny '^slab:   0x[0-9a-f]+, carving, '
	ok "$2: its shard" has "$1" tiny '^shard:  0$'
	ok "$2: freed" has "$1" freed '^state:  free, in the front of thread'
	ok "$2: L2" has "$1" l2 '^pool:   L2$'
	ok "$2: L2.5" has "$1" l25 '^pool:   L2.5$'
	ok "$2: L2.5 in use" has "$1" l25 '^state:  in use$'
	ok "$2: large" has "$1" large '^block:  0x[0-9a-f]+, 2097152 bytes$'
	ok "$2: huge" has "$1" huge '^pool:   huge$'
	ok "$2: block of a heap" has "$1" of_heap '^heap:   0x'
	ok "$2: foreign" has "$1" foreign ': no block of hakmem$'
	ok "$2: interior" has "$1" 'tiny+5' ', 5 bytes before the pointer$'
}

look_at "$scratch/live" "a process"
if [ -s "$scratch/core" ]; then
	gdb_on "" "$scratch/program $scratch/core" >"$scratch/dead" 2>&1
	look_at "$scratch/dead" "a core file"
else
	fail "gdb wrote a core file"
	tail -n 5 "$scratch/live" | sed 's/^/# /'
fi
gdb -nx -batch -ex 'set debuginfod enabled off' \
	-ex 'set startup-with-shell off' -ex 'set environment HAKMEM_CHECK 1' \
	-x "$top_srcdir/lib/hakmem-gdb.py" -ex run \
	-ex 'echo ==live\n' -ex 'hakmem block tiny+5' \
	-ex 'echo ==freed\n' -ex 'hakmem block freed' \
	-ex 'echo ==before\n' -ex 'hakmem block l2-1' \
	-ex 'echo ==page\n' -ex 'hakmem block l25+100000' \
	-ex 'echo ==huge\n' -ex 'hakmem block huge+64*1024*1024' \
	-ex 'echo ==foreign\n' -ex 'hakmem block foreign' \
	"$scratch/program" >"$scratch/checked" 2>&1
checked() { # section pattern
	ok "checked mode: $1" has "$scratch/checked" "$1" "$2"
}
checked live '^checked: 0x[0-9a-f]+, 100 bytes, in use, the pointer is in it$'
checked freed '^checked: 0x[0-9a-f]+, 100 bytes, freed, the pointer is in it$'
checked before '^checked: .*, 5000 bytes, in use, the pointer is outside it$'
checked page '^checked: .*, 100000 bytes, .*, the pointer is in its guard page$'
checked huge '^checked: .*, 67108864 bytes, .* is in its guard page$'
checked foreign ': no block of hakmem$'
says() { # name pattern gdb's arguments
	what=$1
	pattern=$2
	shift 2
	gdb -nx -batch -ex 'set debuginfod enabled off' \
		-ex 'set startup-with-shell off' \
		-x "$top_srcdir/lib/hakmem-gdb.py" "$@" >"$scratch/none" 2>&1
	ok "$what it says so" grep -q "^hakmem: $pattern" "$scratch/none"
}
says "of a pointer that is none" 'block: No symbol "nothing" in' \
	-ex 'hakmem block nothing' "$scratch/program"
says "of a function" 'block: not a pointer: main$' \
	-ex 'hakmem block main' "$scratch/program"
says "of what heap is not told" 'heap: takes no argument$' -ex 'hakmem heap 1'
says "without hakmem" 'not in this process' \
	-ex starti -ex 'hakmem heap' /bin/true
says "without a process" 'no process' -ex 'hakmem heap'
says "after the process's end" 'no process' \
	-ex "set environment LD_PRELOAD $libs/libhakmem-preload.so" -ex run \
	-ex 'hakmem block 0' /bin/true
done_testing
