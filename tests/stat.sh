# hakmem stat: a process read from outside, at rest to the byte, and busy
# without garbage; and what it says where it cannot.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "needs the preload library"
command -v python3 >/dev/null || skip_all "needs python3"

hakmem=$top_builddir/hakmem
library=$(cd "$top_builddir/.libs" && pwd)/libhakmem-preload.so.1
[ -e "$library" ] || bail "no $library"

stat_of() {
	"$hakmem" stat "$@"
}

# --- At rest: the same as the process itself says ----------------------------

cat >"$scratch/rest.py" <<'PYTHON'
import ctypes, json, os, sys, threading
library = ctypes.CDLL(None)
def work():
    for _ in range(20000):
        bytes(1000)
ended = threading.Thread(target=work)
ended.start()
ended.join()
kept = [bytearray(1000 * i) for i in range(200)] + [bytearray(50 << 20)]
kept[-1][:] = b"x" * len(kept[-1])
chunks = []
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
write = WRITE(lambda _, text: chunks.append(text))
to = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
library.hakmem_stats_print(1, write, None)
os.write(to, b"".join(chunks))
os.close(to)
os.rename(sys.argv[1], sys.argv[1] + ".done")
sys.stdin.read()
PYTHON
mkfifo "$scratch/fifo"
# What is not compiled in cannot be asked for.
counting=
! "$hakmem" options HAKMEM_MEASURE_CLASS=1 >/dev/null 2>&1 ||
	counting=HAKMEM_MEASURE_CLASS=1
# shellcheck disable=SC2086 # a word or none
env LD_PRELOAD="$library" HAKMEM_RETAIN=20M $counting python3 "$scratch/rest.py" \
	"$scratch/inside" <"$scratch/fifo" &
process=$!
exec 9>"$scratch/fifo"
tries=0
while [ ! -e "$scratch/inside.done" ] && [ "$tries" -lt 200 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
ok "JSON" stat_of --json "$process"
stat_of --json "$process" >"$scratch/outside"
agree() {
	python3 - "$scratch/inside.done" "$scratch/outside" <<'PYTHON'
import json, sys
inside, outside = (json.load(open(name)) for name in sys.argv[1:])
assert outside["pid"] == inside["pid"]
assert outside["options"] == inside["options"]
assert outside["options"]["HAKMEM_RETAIN"] == "20M"
assert len(outside["heaps"]) == len(inside["heaps"]) == 1
near = 256 << 10  # what printing took and gave back meanwhile
for group in ("program", "slabs", "memory", "threads"):
    for name, value in inside[group].items():
        if name.endswith("_bytes"):
            assert abs(outside[group][name] - value) <= near, (
                name, value, outside[group][name])
for name in ("mappings", "arenas", "superslabs", "span_blocks"):
    group = "program" if name == "span_blocks" else "memory"
    assert outside[group][name] == inside[group][name], name
assert outside["memory"]["resident_bytes"] >= 50 << 20
if "class" in inside.get("counters", ()):
    counted = [all["counters"]["class"] for all in (inside, outside)]
    assert counted[0]["allocs"] > 20000, counted[0]["allocs"]
    for name in ("allocs", "frees", "peak"):
        assert abs(counted[1][name] - counted[0][name]) < 2000, name
slabs = outside["slabs"]
assert slabs["slab_bytes"] == sum(slabs[name] for name in (
    "slab_live_bytes", "front_bytes", "ring_bytes", "depot_bytes",
    "spill_bytes", "lost_bytes", "free_bytes", "tail_bytes"))
PYTHON
}
ok "from outside as from inside" agree
stat_of "$process" >"$scratch/text"
ok "text" grep -q "^hakmem .*: statistics of process $process\$" \
	"$scratch/text"
# Without the end of the fifo, or the process would wait for it.
"$hakmem" stat --watch=0.05 "$process" >"$scratch/watch" 9>&- &
watcher=$!
sleep 0.5
exec 9>&-
wait "$process"
ok "--watch ends with the process" wait "$watcher"
ok "--watch prints again and again" \
	test "$(grep -c 'live_bytes' "$scratch/watch")" -gt 4

# --- Busy: threads come and go, it forks, and nothing is garbage --------------

cat >"$scratch/busy.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *arg)
{
	void *kept[100] = {0};

	for (unsigned i = 0, r = 1; i < 200000; i++) {
		r = r * 1664525 + 1013904223;
		free(kept[r % 100]);
		kept[r % 100] = malloc(r >> 18);
	}
	for (int i = 0; i < 100; i++)
		free(kept[i]);
	return arg;
}

static void *stays(void *arg)
{
	void *volatile block = malloc(100);

	free(block);
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t other;

	pthread_create(&other, NULL, stays, NULL);
	if (argc > 1) { /* a child, which knows nothing of that thread's cache */
		usleep(200000);
		if (fork() == 0) {
			free(malloc(100));
			printf("%d\n", (int)getpid());
			fflush(stdout);
		}
		pause();
	}
	for (;;) {
		pthread_t id[3];

		for (int i = 0; i < 3; i++)
			pthread_create(&id[i], NULL, thread, NULL);
		if (fork() == 0)
			_exit(0);
		for (int i = 0; i < 3; i++)
			pthread_join(id[i], NULL);
		wait(NULL);
	}
}
C
${CC:-cc} -O1 -pthread -o "$scratch/busy" "$scratch/busy.c" ||
	bail "no program could be built"
LD_PRELOAD=$library "$scratch/busy" &
process=$!
sleep 0.5
n=0
while [ "$n" -lt 40 ]; do
	stat_of --json "$process" >"$scratch/json.$n" || break
	n=$((n + 1))
done
is "$n" 40 "a busy process: read 40 times"
timeout 3 "$hakmem" stat --watch=0.5 "$process" >"$scratch/watch"
kill "$process"
wait "$process" 2>/dev/null
# Page faults only rise, and nothing else is that steady.
rates() {
	python3 - "$scratch/watch" <<'PYTHON'
import sys
rows = [line.split()[1:] for line in open(sys.argv[1])
    if line.startswith("  minor_faults ")]
assert len(rows) > 2 and len(rows[0]) == 1, rows
for (before, *_), (now, rate) in zip(rows, rows[1:]):
    change = (int(now) - int(before)) / 0.5
    assert change / 3 < int(rate) <= change * 1.02 + 1, (before, now, rate)
PYTHON
}
ok "--watch: changes a second" rates
sane() {
	python3 - "$scratch"/json.* <<'PYTHON'
import json, sys
seen = 0
for name in sys.argv[1:]:
    stats = json.load(open(name))
    for b in stats["bins"]:
        held = sum(b[k] for k in ("live", "front", "depot", "spill", "lost",
            "free"))
        # caches that were read later may hold more than was taken
        assert b["blocks"] <= held <= b["blocks"] + 127 * 64, b
        assert b["carving"] + b["warm"] + b["listed"] + b["full"] == \
            b["slabs"], b
    assert stats["program"]["live_bytes"] < 64 << 20
    assert stats["memory"]["resident_bytes"] <= 256 << 20
    assert len(stats["heaps"]) <= 8, len(stats["heaps"])
    assert all(0 < h["thread"] < 1 << 23 for h in stats["heaps"])
    seen += len(stats["heaps"])
# main, the one that stays, and of the others who happened to be there
assert seen * 2 > (len(sys.argv) - 1) * 3, seen
PYTHON
}
ok "and nothing is garbage" sane

# Until something was written to the file, ten seconds at most.
wait_for() {
	tries=0
	while [ ! -s "$1" ] && [ "$tries" -lt 100 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# --- The child of a fork ------------------------------------------------------

LD_PRELOAD=$library "$scratch/busy" child >"$scratch/child" &
process=$!
wait_for "$scratch/child"
child=$(cat "$scratch/child")
lost_in() {
	stat_of --json "$1" | python3 -c '
import json, sys
print(json.load(sys.stdin)["slabs"]["lost_bytes"])'
}
is "$(lost_in "$process")" 0 "a process that forked lost nothing"
ok "its child lost what another thread cached" \
	test "$(lost_in "$child")" -ge 100
kill "$child" "$process"
wait "$process" 2>/dev/null

# --- Where it cannot ----------------------------------------------------------

refuses() {
	want=$1
	shift
	"$hakmem" stat "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/err"
	[ "$status" -eq 125 ] && [ ! -s "$scratch/out" ] &&
		[ "$(cat "$scratch/err")" = "hakmem: stat: $want" ]
}
sleep 100 &
other=$!
ok "a process without hakmem" \
	refuses "process $other does not run on hakmem" "$other"
kill "$other"
ok "no such process" \
	refuses "cannot read process 99999999: no such process" 99999999
ok "no number" refuses "not the number of a process: x" x
ok "nothing" refuses \
	"one process expected ('hakmem stat --help' tells more)"
ok "a bad interval" refuses \
	"--watch: bad value '0' (0.01 to 86400 expected)" --watch=0 1

# --- Books that do not fit together -------------------------------------------

# What stands behind a slot of the note is overwritten, in a process that does
# not wake up to see it.
spoil() { # process slot bytes
	python3 - "$library" "$@" <<'PYTHON'
import re, struct, sys
library, process, slot, size = sys.argv[1], *map(int, sys.argv[2:])
with open(library, "rb") as file:
    note = re.search(rb"\x07\0\0\0.{8}hakmem\0\0", file.read(), re.DOTALL)
with open(f"/proc/{process}/maps") as maps:
    start = next(int(line.split("-")[0], 16) for line in maps
        if library in line)
with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
    at = start + note.end() + 8 * slot
    memory.seek(at)
    at += struct.unpack("<q", memory.read(8))[0]
    memory.seek(at)
    memory.write(b"\xff" * size)
PYTHON
}
left_out() {
	stat_of --json "$1" | python3 -c '
import json, sys
print(json.load(sys.stdin)["left_out"])'
}
LD_PRELOAD=$library sleep 100 &
other=$!
sleep 0.3
is "$(left_out "$other")" 0 "nothing is left out"
ok "and no line says so" test "$(stat_of "$other" | grep -c ^incomplete)" = 0
if spoil "$other" 1 2048; then # the first shard's books
	line=$(stat_of "$other" | grep ^incomplete:)
	is "${line%:*}" \
		"incomplete: parts left out since they do not fit together" \
		"books in disorder: a line"
	is "$(left_out "$other")" "${line##*: }" "and a number in JSON"
	ok "of all of them" test "${line##*: }" -gt 1
	timeout 1 "$hakmem" stat --watch=10 "$other" >"$scratch/watch"
	ok "and a line in a table" grep -qx "$line" "$scratch/watch"
	spoil "$other" 5 8 # the page size
	ok "a library that is not all mapped yet" refuses \
		"process $other has hakmem, but not loaded yet: try again" \
		"$other"
else
	skip "books in disorder" "the memory of a process cannot be written"
fi
kill -9 "$other"

# --- Threads that end before the process ----------------------------------------

# The main thread first, then the second, when it is told to, and the third.
cat >"$scratch/outlived.py" <<'PYTHON'
import ctypes, os, sys, threading
def until_told():
    sys.stdin.buffer.raw.read(1)
def longest():
    second.join()
    until_told()
    os._exit(0)
second = threading.Thread(target=until_told)
second.start()
threading.Thread(target=longest).start()
ctypes.CDLL(None).pthread_exit(None)
PYTHON
LD_PRELOAD=$library python3 "$scratch/outlived.py" <"$scratch/fifo" &
process=$!
exec 9>"$scratch/fifo"
# Whether so many of its threads live.
threads_are() {
	tries=0
	while [ "$(cat "/proc/$process"/task/*/stat 2>/dev/null |
		sed 's/.*) //' | grep -c '^[RSD]')" != "$1" ] ||
		[ -s "/proc/$process/maps" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || return
		sleep 0.1
	done
}
ok "a process whose main thread has ended" threads_are 2
ok "has statistics" stat_of "$process"
is "$(stat_of --json "$process" | python3 -c '
import json, sys
all = json.load(sys.stdin)
print(all["pid"], all["left_out"], all["memory"]["resident_bytes"] > 1 << 20)')" \
	"$process 0 True" "all of them"
rm "$scratch/watch"
"$hakmem" stat --watch=0.05 "$process" >"$scratch/watch" 2>"$scratch/err" 9>&- &
watcher=$!
wait_for "$scratch/watch"
printf 1 >&9
ok "and when another thread ends" threads_are 1
: >"$scratch/watch"
wait_for "$scratch/watch"
ok "it is watched on" test -s "$scratch/watch"
printf 1 >&9
exec 9>&-
wait "$watcher"
is "$?:$(cat "$scratch/err")" "0:" "to its end"

# --- Another program in the same process --------------------------------------

LD_PRELOAD=$library sh -c 'read -r _ && exec sleep 100' <"$scratch/fifo" &
other=$!
exec 9>"$scratch/fifo"
sleep 0.3
rm "$scratch/watch"
"$hakmem" stat --watch=0.05 "$other" >"$scratch/watch" 2>"$scratch/err" 9>&- &
watcher=$!
wait_for "$scratch/watch"
echo >&9
exec 9>&-
wait "$watcher"
is "$?:$(cat "$scratch/err")" \
	"125:hakmem: stat: process $other runs another program now" \
	"--watch ends when the process executes another program"
ok "having watched the first" grep -q live_bytes "$scratch/watch"
kill "$other"

# --- Other hakmems -------------------------------------------------------------

# Copies of the library: of another version, and with another number of slots in
# the note.
other_library() { # name version
	LD_PRELOAD=$scratch/other.so sleep 100 &
	other=$!
	sleep 0.3
	ok "$1" refuses "process $other runs a hakmem of another version or configuration: $2" "$other"
	kill "$other"
}
sed 's/1\.0\.0/9.9.9/g' "$library" >"$scratch/other.so"
other_library "another version" 9.9.9
python3 - "$library" "$scratch/other.so" <<'PYTHON' || bail "no note"
import re, struct, sys
image = open(sys.argv[1], "rb").read()
note = re.search(rb"\x07\0\0\0(....)(....)hakmem\0", image, re.DOTALL)
fewer = struct.pack("<I", struct.unpack("<I", note[1])[0] - 8)
open(sys.argv[2], "wb").write(
    image[:note.start(1)] + fewer + image[note.end(1):])
PYTHON
other_library "another note" "$("$hakmem" --version | cut -d ' ' -f 2)"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	sleep 100 &
	other=$!
	chmod 755 "$scratch"
	setpriv --reuid=65534 --clear-groups "$hakmem" stat "$other" \
		2>"$scratch/err"
	is "$?" 125 "a process of another user: status"
	ok "and a line that says so" \
		grep -qE "^hakmem: stat: cannot read process $other: (it is not yours to trace|Permission denied)\$" \
		"$scratch/err"
	kill "$other"
else
	skip "a process of another user" "not root"
fi
done_testing
