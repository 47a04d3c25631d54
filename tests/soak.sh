# make soak: real programs on the library for half an hour, all at once, round
# after round: a redis server with a mixed load and background saves, a farm
# of C++ compilers, sqlite3, node, and threads of python3. What they put out
# is compared with runs without the library, or with their first round; the
# RSS of those that live all the time must not rise.
#
# SOAK_SECONDS=1800 says how long; what is not installed is left out.
. "$top_srcdir/tests/tap.sh"

preload=$TEST_PRELOAD
case $preload in
'' | none) skip_all "no shared library was built" ;;
esac
[ -r "$preload" ] || bail "the library to test cannot be read: $preload"

deadline=$(($(date +%s) + ${SOAK_SECONDS:-1800}))
export deadline LC_ALL=C TZ=UTC PYTHONMALLOC=malloc
source=$(cd "$top_srcdir" && pwd)

running() {
	[ "$(date +%s)" -lt "$deadline" ]
}

on_hakmem() {
	LD_PRELOAD=$preload "$@"
}

# Every line of NAME.log is a round: its sum, and the RSS in KiB or 0.
note() { # name sum rss
	echo "$2 $3" >>"$scratch/$1.log"
}

# --- Programs that come and go ------------------------------------------------

# Not more at once than there are processors.
compile() {
	for optimise in -O1 -O2 -O3; do
		"$@" $CXX -std=gnu++17 $optimise -S -o - \
			"$source/tests/cxx-thread-local.cpp" |
			cksum >"$scratch/farm$optimise" &
		[ $optimise != -O2 ] || wait
	done
	wait
	cat "$scratch"/farm-O? | cksum
}

farm() {
	note farm "$(compile env)" 0
	while running; do
		note farm "$(compile on_hakmem)" 0
	done
}

cat >"$scratch/job.sql" <<'END'
create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 60000)
	insert into t select x, hex(x * 7919) from c;
create index i on t(b);
delete from t where a % 3 = 0;
update t set b = b || b where a % 5 = 0;
select count(*), sum(length(b)), min(b), max(b) from t;
select substr(b, 1, 2) k, count(*) n from t group by k order by n desc, k;
select count(*) from t x join t y on x.b = y.b;
vacuum;
pragma integrity_check;
END

sql() {
	note sql "$(sqlite3 :memory: <"$scratch/job.sql" | cksum)" 0
	while running; do
		note sql "$(on_hakmem sqlite3 :memory: \
			<"$scratch/job.sql" | cksum)" 0
	done
}

# --- Programs that stay --------------------------------------------------------

cat >"$scratch/job.py" <<'END'
import hashlib, json, os, threading, time, zlib
deadline, page = int(os.environ["deadline"]), os.sysconf("SC_PAGESIZE")
handed, lock = [], threading.Lock()
def work(k, sums):
    kept = {}
    for i in range(6000):
        kept[(i * 7919 + k) % 997] = ["x" * (i % 301), i] * (i % 9)
        with lock:
            handed.append(bytearray(b"%d" % i) * (i % 40))
            if len(handed) > 400:
                handed.pop(i % 400)
    text = json.dumps(sorted(kept.items()))
    sums[k] = zlib.crc32(zlib.decompress(zlib.compress(text.encode())))
while time.time() < deadline:
    sums = {}
    threads = [threading.Thread(target=work, args=(k, sums)) for k in range(6)]
    for t in threads: t.start()
    for t in threads: t.join()
    large = [bytearray(n) for n in (1 << 16, 1 << 20, 3 << 20, 40 << 20)]
    child = os.fork()
    if child == 0:
        os._exit(sum(map(len, large)) == 0)
    status = os.waitpid(child, 0)[1]
    del large
    handed.clear()
    resident = int(open("/proc/self/statm").read().split()[1]) * page // 1024
    print("%s-%d %d" % (sorted(sums.items()) and hashlib.md5(
        repr(sorted(sums.items())).encode()).hexdigest(), status, resident),
        flush=True)
END

python() {
	on_hakmem python3 "$scratch/job.py" >>"$scratch/python.log"
	[ $? -eq 0 ] || note python failed 0
}

cat >"$scratch/job.js" <<'END'
const zlib = require("zlib"), crypto = require("crypto"), fs = require("fs");
const deadline = Number(process.env.deadline) * 1000;
while (Date.now() < deadline) {
	const all = [], buffers = [];
	for (let i = 0; i < 30000; i++)
		all.push({i, s: "x".repeat(i % 100)});
	for (let i = 0; i < 100; i++)
		buffers.push(Buffer.alloc(1000 * (i + 1), i));
	const packed = zlib.deflateSync(JSON.stringify(all));
	const hash = crypto.createHash("md5").update(zlib.inflateSync(packed));
	for (const b of buffers)
		hash.update(b);
	fs.writeSync(1, hash.digest("hex") + " " +
		Math.round(process.memoryUsage().rss / 1024) + "\n");
}
END

javascript() {
	on_hakmem node --max-old-space-size=256 "$scratch/job.js" \
		>>"$scratch/javascript.log"
	[ $? -eq 0 ] || note javascript failed 0
}

client() {
	on_hakmem redis-cli -s "$scratch/socket" "$@"
}

redis_load() {
	on_hakmem redis-benchmark -s "$scratch/socket" -q -n 4000 -c 20 \
		-r 2000 -d 300 -t set,get,incr,lpush,rpop,sadd,hset,zadd,mset \
		>/dev/null || echo failed
	client flushall
	awk 'BEGIN { for (i = 0; i < 9000; i++) {
		printf "SET key:%d %0*d\r\n", i, 10 + i % 700, i
		printf "RPUSH list:%d %d\r\nSADD set:%d %d\r\n", i % 50, i,
			i % 70, i
		if (i % 3 == 0) printf "DEL key:%d\r\n", i - 300 } }' |
		client --pipe | tail -n 1
	client bgsave
	client dbsize
	client sort list:7
	client sort set:9 desc limit 0 20
	client mget key:1 key:400 key:8999
	while running && client info persistence |
		grep -q rdb_bgsave_in_progress:1; do
		sleep 0.2
	done
	client info persistence | grep rdb_last_bgsave_status
	client flushall
}

redis() {
	env LD_PRELOAD="$preload" redis-server --port 0 --unixsocket "$scratch/socket" \
		--dir "$scratch" --save '' --daemonize no \
		>"$scratch/server.out" 2>&1 &
	server=$!
	until client ping >/dev/null 2>&1; do
		running && kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
	while running; do
		sum=$(redis_load | cksum)
		# A round that the end cut short is none.
		running || break
		note redis "$sum" "$(awk '/^VmRSS/ { print $2 }' \
			/proc/$server/status)"
	done
	client shutdown nosave
	wait $server || note redis failed 0
}

# --- All at once ----------------------------------------------------------------

jobs=
for job in farm:${CXX%% *} sql:sqlite3 python:python3 javascript:node \
	redis:redis-benchmark; do
	name=${job%%:*}
	command -v "${job#*:}" >/dev/null || {
		skip "$name" "${job#*:} is not installed"
		continue
	}
	jobs="$jobs $name"
	: >"$scratch/$name.log"
	$name 2>"$scratch/$name.err" &
done
wait

# The first third of the rounds is for growing.
is_flat() {
	awk '{ rss[NR] = $NF }
	function middle(from, to, i, n, v) {
		for (i = from; i <= to; i++) v[++n] = rss[i]
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j] < v[j - 1]; j--) {
				t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
			}
		return v[int((n + 1) / 2)]
	}
	END {
		if (NR < 6) { print NR " rounds are too few"; exit 1 }
		before = middle(int(NR / 3) + 1, int(NR * 2 / 3))
		after = middle(int(NR * 2 / 3) + 1, NR)
		print "RSS " before " KiB, then " after
		exit after > before * 1.1 + 8192
	}' "$1"
}

all_same() {
	[ "$(sed 's/ [0-9]*$//' "$1" | sort -u | wc -l)" -eq 1 ] || {
		sed 's/ [0-9]*$//' "$1" | sort | uniq -c
		return 1
	}
}

for name in $jobs; do
	log=$scratch/$name.log
	rounds=$(wc -l <"$log")
	ok "$name: all $rounds rounds put out the same" all_same "$log" ||
		diag "$(tail -n 5 "$scratch/$name.err")"
	case $name in
	farm | sql) ;;
	*)
		ok "$name: RSS stays what it is" is_flat "$log"
		diag "$(is_flat "$log")"
		;;
	esac
done
done_testing
