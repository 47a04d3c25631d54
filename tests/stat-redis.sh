# hakmem stat on a server under load: clients come and go, it forks to save, and
# none of a hundred readings is garbage. Left out where redis is missing.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "needs the preload library"
for program in python3 redis-server redis-benchmark redis-cli; do
	command -v $program >/dev/null || skip_all "$program is not installed"
done

library=$(cd "$top_builddir/.libs" && pwd)/libhakmem-preload.so.1
[ -e "$library" ] || bail "no $library"
socket=$scratch/socket

LD_PRELOAD=$library MALLOC_ARENA_MAX=1 redis-server --port 0 \
	--unixsocket "$socket" --dir "$scratch" --save '' --daemonize no \
	--io-threads 2 >"$scratch/log" 2>&1 &
server=$!
load=
trap 'kill $load $server 2>/dev/null; wait; rm -rf "$scratch"' EXIT
tries=0
until redis-cli -s "$socket" ping >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 200 ] || bail "redis does not answer: $(cat "$scratch/log")"
	sleep 0.1
done

# Connections are made anew for each run.
(
	while :; do
		redis-benchmark -s "$socket" -q -n 20000 -c 30 -r 10000 -d 200 \
			-t set,get,lpush,lpop,sadd,hset
	done
) >/dev/null 2>&1 &
load=$!

read_often() {
	n=0
	while [ "$n" -lt 100 ]; do
		[ $((n % 20)) -ne 0 ] ||
			redis-cli -s "$socket" bgsave >/dev/null 2>&1
		"$top_builddir/hakmem" stat --json "$server" \
			>"$scratch/json.$n" || return
		n=$((n + 1))
	done
}
ok "a hundred readings" read_often
saves=$(grep -c 'Background saving started' "$scratch/log")
ok "it forked meanwhile" test "$saves" -gt 0

sane() {
	python3 - "$scratch"/json.* <<'PYTHON'
import json, sys
grown = 0
for name in sys.argv[1:]:
    stats = json.load(open(name))
    slabs, memory = stats["slabs"], stats["memory"]
    for b in stats["bins"]:
        held = sum(b[k] for k in ("live", "front", "depot", "spill", "lost",
            "free"))
        # caches that were read later may hold more than was taken
        assert b["blocks"] <= held <= b["blocks"] + 127 * 64, b
        assert b["carving"] + b["warm"] + b["listed"] + b["full"] == \
            b["slabs"], b
    assert slabs["slabs"] == sum(b["slabs"] for b in stats["bins"])
    assert 1 << 20 < stats["program"]["live_bytes"] < 1 << 30
    assert memory["resident_bytes"] <= memory["mapped_bytes"] < 4 << 30
    assert memory["active_bytes"] <= memory["mapped_bytes"]
    assert 1 <= len(stats["heaps"]) <= 16, len(stats["heaps"])
    assert len(stats["heaps"]) == stats["threads"]["heaps"]
    assert all(0 < h["thread"] < 1 << 23 for h in stats["heaps"])
    # of a child there is nothing in it
    assert memory["purge_calls"] < 1 << 32
assert len(sys.argv) == 101
PYTHON
}
ok "none of them is garbage" sane
ok "the server is well" \
	test "$(redis-cli -s "$socket" ping)" = PONG
done_testing
