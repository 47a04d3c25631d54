# Statistics at exit: how a process may end, where they go, and that the JSON
# is JSON and says the same as the text. Also malloc_info's XML.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "needs the preload library"
command -v python3 >/dev/null || skip_all "needs python3"

library=$top_builddir/.libs/libhakmem-preload.so.1
[ -e "$library" ] || bail "no $library"
library=$(cd "$(dirname "$library")" && pwd)/libhakmem-preload.so.1

# on NAME=VALUE... command args: with the library and these variables
on() {
	env LD_PRELOAD="$library" "$@"
}

# Members, sums and types; the process is the one expected, if given.
is_statistics() {
	python3 - "$@" <<'PYTHON'
import json, sys
stats = json.load(open(sys.argv[1]))
assert stats["schema"] == "hakmem-stats-1", stats["schema"]
if len(sys.argv) > 2:
    assert stats["pid"] == int(sys.argv[2]), stats["pid"]
slabs = stats["slabs"]
assert slabs["slab_bytes"] == sum(slabs[name] for name in (
    "slab_live_bytes", "front_bytes", "ring_bytes", "depot_bytes",
    "spill_bytes", "lost_bytes", "free_bytes", "tail_bytes"))
assert slabs["slabs"] == sum(b["slabs"] for b in stats["bins"])
for b in stats["bins"]:
    assert b["blocks"] == sum(b[name] for name in (
        "live", "front", "depot", "spill", "lost", "free")), b
assert stats["program"]["live_bytes"] >= slabs["slab_live_bytes"]
threads, heaps = stats["threads"], stats["heaps"]
assert threads["heaps"] == len(heaps) > 0
assert threads["tls_bytes"] == 8
for name in ("front_bytes", "ring_bytes", "depot_bytes"):
    assert slabs[name] == sum(h[name] for h in heaps), name
for h in heaps:
    assert h["footprint_bytes"] == 1024 * h["magazines"] + \
        threads["heap_bytes"] // threads["heaps"], h
    assert h["magazines"] > 0 or h["front_bytes"] + h["ring_bytes"] == 0, h
assert stats["memory"]["resident_bytes"] <= stats["memory"]["mapped_bytes"]
assert stats["options"]["HAKMEM_STATS"] == "json"
PYTHON
}

# --- Where they go -----------------------------------------------------------

on HAKMEM_STATS=1 true >"$scratch/out" 2>"$scratch/text"
is "$(cat "$scratch/out")" "" "standard output is the program's"
ok "text: a title" grep -q '^hakmem .*: statistics of process [0-9]*$' \
	"$scratch/text"
ok "text: live bytes" grep -q '^  live_bytes  *[0-9]' "$scratch/text"
ok "text: the variable that was set" grep -qx '  HAKMEM_STATS=1' \
	"$scratch/text"

on HAKMEM_STATS=json true 2>"$scratch/json"
ok "JSON: valid and right" is_statistics "$scratch/json"

on true 2>"$scratch/none"
is "$(cat "$scratch/none")" "" "nothing without the variable"

on HAKMEM_STATS=json HAKMEM_STATS_FILE="$scratch/f.%p" true 2>"$scratch/err"
is "$(cat "$scratch/err")" "" "a file: nothing on standard error"
set -- "$scratch"/f.*
ok "a file: named by the process" is_statistics "$1" "${1##*f.}"

# A name longer than what a line is built in; letters that JSON escapes.
long=$(printf '%0200d' 1)
mkdir -p "$scratch/$long/$long/$long"
on HAKMEM_STATS=1 HAKMEM_STATS_FILE="$scratch/$long/$long/$long/f" true
ok "a long name: its line is whole" \
	grep -qxF "  HAKMEM_STATS_FILE=$scratch/$long/$long/$long/f" \
	"$scratch/$long/$long/$long/f"
odd=$scratch/$(printf 'a"b\\c\td\377')
on HAKMEM_STATS=json HAKMEM_STATS_FILE="$odd" true
ok "an odd name: JSON all the same" is_statistics "$odd"

on HAKMEM_STATS=1 HAKMEM_STATS_FILE=/nonexistent/f true 2>"$scratch/err"
is "$?" 0 "a file that cannot be written: the status is kept"
is "$(cat "$scratch/err")" \
	"hakmem: stats: cannot write: /nonexistent/f" "and one line says so"

on HAKMEM_STATS=1 sh -c 'exit 7' 2>/dev/null
is "$?" 7 "the program's status is kept"

on HAKMEM_STATS=json sort /dev/null 2>"$scratch/json"
ok "a program that closes standard error" is_statistics "$scratch/json"

# The number of the copy of standard error may be another file's by then.
on HAKMEM_STATS=1 python3 -c '
import os, sys
own = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for fd in range(200, 256):
    try: os.close(fd)
    except OSError: pass
os.dup2(own, 200)
' "$scratch/own" 2>"$scratch/text"
is "$(cat "$scratch/own")" "" "no file of the program is written to"
ok "but standard error" grep -q live_bytes "$scratch/text"

# --- How a process ends ------------------------------------------------------

cat >"$scratch/ends.c" <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *arg)
{
	free(malloc(100));
	exit(3);
	return arg;
}

static void handler(int signal)
{
	exit(signal);
}

int main(int argc, char **argv)
{
	pthread_t id;
	pid_t child;
	int status;

	free(malloc(argc > 1 ? 2000 : 1000)); /* stays in a ring */
	switch (argv[1][0]) {
	case 't':
		pthread_create(&id, NULL, thread, NULL);
		pause();
		break;
	case 's':
		signal(SIGTERM, handler);
		raise(SIGTERM);
		break;
	case 'm': /* inside malloc, most of the time */
		signal(SIGALRM, handler);
		ualarm(20000, 0);
		for (;;) {
			void *all[300];

			for (int i = 0; i < 300; i++)
				all[i] = malloc(16 << i % 10);
			for (int i = 0; i < 300; i++)
				free(all[i]);
		}
	case 'f':
		child = fork();
		if (child == 0)
			exit(4);
		waitpid(child, &status, 0);
		return WEXITSTATUS(status);
	}
	return 0;
}
C
if ${CC:-cc} -pthread -o "$scratch/ends" "$scratch/ends.c"; then
	on HAKMEM_STATS=json "$scratch/ends" thread 2>"$scratch/json"
	is "$?" 3 "exit in a thread: status"
	ok "exit in a thread" is_statistics "$scratch/json"
	on HAKMEM_STATS=json "$scratch/ends" signal 2>"$scratch/json"
	is "$?" 15 "exit in a handler: status"
	ok "exit in a handler" is_statistics "$scratch/json"
	on HAKMEM_STATS=1 timeout 20 "$scratch/ends" malloc \
		2>"$scratch/text"
	is "$?" 14 "exit in a handler amid malloc: status"
	ok "exit in a handler amid malloc" grep -q live_bytes "$scratch/text"
	on HAKMEM_STATS=json HAKMEM_STATS_FILE="$scratch/p.%p" \
		"$scratch/ends" fork
	is "$?" 4 "parent and child: status"
	set -- "$scratch"/p.*
	is "$#" 2 "parent and child: a file each"
	ok "one of them" is_statistics "$1" "${1##*p.}"
	ok "the other" is_statistics "$2" "${2##*p.}"
else
	bail "no program could be built"
fi

# --- A real program's account, and glibc's form ------------------------------

# sys.getallocatedblocks knows nothing of malloc when pymalloc is off; what
# python holds in objects of 1 MiB must show to the byte, as they are.
cat >"$scratch/account.py" <<'PYTHON'
import ctypes, json, os, sys
library = ctypes.CDLL(None)
chunks = []
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
def live():
    del chunks[:]
    library.hakmem_stats_print(1, WRITE(lambda _, text: chunks.append(text)),
        None)
    return json.loads(b"".join(chunks))["program"]
before = live()
kept = [bytearray(1 << 20) for _ in range(40)]
after = live()
grown = after["live_bytes"] - before["live_bytes"]
least = 40 << 20
assert least <= grown <= least * 5 // 4 + (1 << 20), grown
del kept
left = live()["live_bytes"] - before["live_bytes"]
assert abs(left) < 1 << 20, left
PYTHON
ok "python3: what it takes and gives back" \
	on python3 "$scratch/account.py"

# Small objects and large ones, by what Python says of their sizes; the rest is
# what the interpreter keeps for itself meanwhile.
cat >"$scratch/objects.py" <<'PYTHON'
import ctypes, json, random
library = ctypes.CDLL(None)
good_size = library.hakmem_good_size
good_size.restype, good_size.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
chunks = []
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
write = WRITE(lambda _, text: chunks.append(text))
def live():
    del chunks[:]
    library.hakmem_stats_print(1, write, None)
    return json.loads(b"".join(chunks))["program"]["live_bytes"]
COUNT = 5000
kept = [None] * COUNT
sizes = [random.randrange(1, random.choice((100, 2000, 60000)))
    for _ in range(COUNT)]
def account(sizes):
    head = good_size(bytearray(0).__sizeof__())
    return sum(good_size(n + 1) + head for n in sizes)
live()
before = live()
for i, n in enumerate(sizes):
    kept[i] = bytearray(n)
error = live() - before - account(sizes)
assert abs(error) < 32768, error
for i in range(0, COUNT, 2):
    kept[i] = None
error = live() - before - account(sizes[1::2])
assert abs(error) < 32768, error
PYTHON
ok "python3: live bytes are those of its objects" \
	on PYTHONMALLOC=malloc python3 "$scratch/objects.py"

cat >"$scratch/info.py" <<'PYTHON'
import ctypes, sys, xml.etree.ElementTree as tree
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
to = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
assert library.malloc_info(0, to) == 0
library.fclose(to)
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "malloc" and root.get("version") == "1"
heap = root.find("heap")
assert sum(int(s.get("total")) for s in heap.iter("size")) == sum(
    int(t.get("size")) for t in heap.findall("total"))
assert int(root.find("system").get("size")) > 0
PYTHON
ok "malloc_info: well-formed, and the sizes add up" \
	on python3 "$scratch/info.py" "$scratch/info.xml"

# Slabs with a mapping of their own are the heap's, not blocks of mmap.
cat >"$scratch/mapped.c" <<'C'
#include <malloc.h>
#include <stdlib.h>

static void *volatile blocks[20000];

int main(void)
{
	struct mallinfo2 before = mallinfo2(), after;

	for (int i = 0; i < 20000; i++)
		blocks[i] = malloc(64);
	after = mallinfo2();
	if (after.uordblks - before.uordblks != 20000 * 64)
		return 2;
	if (after.hblks != before.hblks || after.hblkhd != before.hblkhd ||
		after.arena < after.uordblks)
		return 3;
	for (int i = 0; i < 20000; i++)
		free(blocks[i]);
	after = mallinfo2();
	if (after.uordblks != before.uordblks)
		return 4;
	return malloc_trim(0) == 1 && malloc_trim(0) == 0 ? 0 : 5;
}
C
${CC:-cc} -o "$scratch/mapped" "$scratch/mapped.c" ||
	bail "no program could be built"
ok "mallinfo2 and malloc_trim: slabs in mappings" \
	on HAKMEM_TINY_USE_SUPERSLAB=0 "$scratch/mapped"
ok "mallinfo2 and malloc_trim: slabs in arenas" on "$scratch/mapped"

# --- By the command ----------------------------------------------------------

hakmem=$top_builddir/hakmem
"$hakmem" run --lib="$library" --stats=json --stats-file="$scratch/run.%p" \
	-- true
set -- "$scratch"/run.*
ok "hakmem run --stats=json --stats-file" is_statistics "$1" "${1##*run.}"
"$hakmem" run --lib="$library" --stats -- true 2>"$scratch/text"
ok "hakmem run --stats" grep -q live_bytes "$scratch/text"
done_testing
