# Real programs print the same under the preload library as without it.
# TEST_LONG=1 gives each of them several times the work.
. "$top_srcdir/tests/tap.sh"

preload=$TEST_PRELOAD
case $preload in
'') skip_all "no shared library was built" ;;
none) skip_all "nothing is preloaded" ;;
esac
[ -r "$preload" ] || bail "the library to test cannot be read: $preload"

factor=1
[ "${TEST_LONG:-0}" = 0 ] || factor=10

export LC_ALL=C TZ=UTC PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME="$scratch"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2000-01-01T00:00:00Z'
export GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'

# In a subshell: the directory and the environment stay as they are. The
# shells of a job run on the library as well.
run_with() {
	(
		cd "$1" || exit 1
		[ "$2" = none ] || export LD_PRELOAD="$2"
		export factor
		shift 2
		"$@" 2>&1
		echo "exit status $?"
	) >"$1.out"
}

# same NAME PROGRAM COMMAND...: both runs, each in an empty directory.
same() {
	name=$1
	if ! command -v "$2" >/dev/null 2>&1; then
		skip "$name" "$2 is not installed"
		return
	fi
	shift 2
	rm -rf "$scratch/without" "$scratch/with"
	mkdir "$scratch/without" "$scratch/with"
	run_with "$scratch/without" none "$@"
	run_with "$scratch/with" "$preload" "$@"
	if ! grep -q '^exit status 0$' "$scratch/without.out"; then
		fail "$name"
		diag "without the library: $(tail -n 3 "$scratch/without.out")"
	elif ! ok "$name" cmp "$scratch/without.out" "$scratch/with.out"; then
		diag "with the library: $(tail -n 5 "$scratch/with.out")"
	fi
}

is_loaded() {
	LD_PRELOAD=$preload cat /proc/self/maps | grep -q libhakmem-preload
}
ok "the library is in the programs that follow" is_loaded

# --- The jobs, as files, so that both runs read the same ------------------

cat >"$scratch/job.sh" <<'END'
i=0
while [ $i -lt $((2000 * factor)) ]; do
	echo "$((i * 7919 % 1000)) $(($i % 13))"
	i=$((i + 1))
done | sort -n | uniq -c | awk '{ s += $1; t[$3] += $2 }
	END { print s, NR; for (k = 0; k < 13; k++) print k, t[k] }'
for word in one two three; do
	x=$(echo "$word" | tr a-z A-Z) && echo "$x"
done
END

cat >"$scratch/job.py" <<'END'
import hashlib, json, os, re, subprocess, threading, zlib
factor = int(os.environ["factor"])
sums = []
def work(k):
    for _ in range(factor):
        d = {str(i): [i] * (i % 50) for i in range(3000)}
        s = json.dumps(d)
        assert json.loads(s) == d
    sums.append(zlib.crc32(zlib.decompress(zlib.compress(s.encode()))))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
if child == 0:
    x = [bytearray(100000) for _ in range(50)]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
said = subprocess.run(["/bin/echo", "hi"], capture_output=True).stdout
big = bytearray(30_000_000)
del big
words = re.findall("a+", "ab" * 30000 + "aa" * 30000)
tree = {}
for i in range(60000 * factor):
    tree.setdefault(i * 7919 % 10007, []).append("x" * (i % 97))
digest = hashlib.sha256(repr(sorted(tree.items())[:500]).encode()).hexdigest()
print(len(set(sums)), said, sum(map(len, words)), digest)
END

cat >"$scratch/job.pl" <<'END'
my (%h, @kept);
for my $i (1 .. 60000 * $ENV{factor}) {
	$h{$i % 977} .= "x" x ($i % 13);
	push @kept, [$i, "y" x ($i % 300)] if $i % 7 == 0;
}
my @s = sort { length $h{$a} <=> length $h{$b} || $a <=> $b } keys %h;
my $p = fork;
if (!$p) { my @x = (1) x 100000; exit 0 }
waitpid $p, 0;
my $text = join ",", map { $_->[1] } @kept;
$text =~ s/(y{5,9}),/<$1>/g;
print "$s[0] ", scalar(@s), " $? ", length($text), "\n";
END

cat >"$scratch/job.rb" <<'END'
factor = ENV["factor"].to_i
h = Hash.new { |all, k| all[k] = +"" }
(60000 * factor).times { |i| h[i % 977] << "x" * (i % 13) }
threads = 4.times.map do |t|
  Thread.new { (0...20000).map { |i| (i * t).to_s }.sort.last }
end
GC.start
puts threads.map(&:value).inspect, h.values.map(&:size).sum, `echo hi`
END

cat >"$scratch/job.lua" <<'END'
local factor, t = tonumber(os.getenv("factor")), {}
for i = 1, 200000 * factor do
	t[i % 4999] = (i % 7 == 0 and "" or (t[i % 4999] or "")) .. i % 10
end
collectgarbage()
local n = 0
for _, s in pairs(t) do n = n + #s end
print(n, string.rep("ab", 10000):gsub("a", "ccc"):len())
END

cat >"$scratch/job.git" <<'END'
set -e
git init -q one
cd one
for i in 1 2 3 4 5 6; do
	seq 1 $((i * 700 * factor)) >f$i
	seq $i 97 $((90000 * factor)) >g$i
	git add .
	git commit -qm "step $i"
done
git log --stat | cksum
git grep -c 777 | cksum
cd ..
git clone -q --bare one two.git
git clone -q one three
cd three
git gc -q --aggressive
git fsck --full
git rev-parse HEAD
git diff HEAD~3 | cksum
git count-objects -v | grep -v '^size'
END

cat >"$scratch/job.sql" <<'END'
create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 40000)
	insert into t select x, hex(x * 7919) from c;
create index i on t(b);
delete from t where a % 3 = 0;
update t set b = b || b where a % 5 = 0;
select count(*), sum(length(b)), min(b), max(b) from t;
select substr(b, 1, 2) k, count(*) n from t group by k order by n desc, k limit 9;
select count(*) from t x join t y on x.b = y.b;
vacuum;
pragma integrity_check;
END

cat >"$scratch/job.js" <<'END'
const factor = Number(process.env.factor), all = [], buffers = [];
for (let i = 0; i < 100000 * factor; i++)
	all.push({i, s: "x".repeat(i % 100)});
for (let i = 0; i < 200; i++)
	buffers.push(Buffer.alloc(100000, 1));
const packed = require("zlib").deflateSync(JSON.stringify(all));
console.log(JSON.stringify(all).length, buffers.length, packed.length > 1000);
END

cat >"$scratch/job.smt2" <<'END'
(declare-fun f (Int) Int)
(declare-const x Int) (declare-const y Int) (declare-const z Int)
(declare-const v (_ BitVec 24)) (declare-const w (_ BitVec 24))
(assert (and (> x 2) (< (* 3 y) (+ x 40)) (= (f x) (+ y z)) (> z (f y))))
(assert (= (bvmul v w) #x0a2f31))
(assert (bvugt v #x000100))
(assert (bvugt w #x000100))
(assert (= (bvand v #x800000) #x000000))
(check-sat)
(push) (assert (< (+ x y z) (- 0 1000))) (assert (> y x)) (check-sat) (pop)
END

cat >"$scratch/job.ps" <<'END'
/page { 0 1 60 { dup 3 mul 72 add exch 7 mul 50 add moveto
	/Times-Roman findfont 11 scalefont setfont (hakmem) show
	newpath 300 400 150 0 360 arc stroke } for showpage } def
page page page
END

# --- The programs -----------------------------------------------------------

same "sh -c 'exec ls'" ls /bin/sh -c 'exec ls -l /usr /usr/share'
same "a shell script with pipelines" awk sh "$scratch/job.sh"
same "python3 with PYTHONMALLOC=malloc" python3 python3 "$scratch/job.py"
same "perl" perl perl "$scratch/job.pl"
same "ruby" ruby ruby "$scratch/job.rb"
lua=lua
command -v lua >/dev/null 2>&1 || lua=lua5.4
same "lua" $lua $lua "$scratch/job.lua"
same "git: commit, clone, gc, fsck" git sh "$scratch/job.git"
same "sqlite3" sqlite3 sh -c "sqlite3 file.db <'$scratch/job.sql'"
same "node" node node "$scratch/job.js"
same "z3" z3 z3 "$scratch/job.smt2"
same "ghostscript" gs sh -c "gs -q -dSAFER -dBATCH -dNOPAUSE -r150 \
	-sDEVICE=ppmraw -sOutputFile=- '$scratch/job.ps' | cksum"
same "sort --parallel" sort sh -c 'seq 1 $((80000 * factor)) |
	sort -R --random-source=/bin/sh --parallel=4 -S 4M |
	sort -n --parallel=4 -S 1M | cksum'
same "tar and gzip" tar sh -c 'tar -C /usr/include -cf - linux |
	gzip -1 | gzip -dc | tar -tf - | cksum'
if [ "$have_cxx" = yes ]; then
	same "a C++ compiler, optimising" "${CXX%% *}" $CXX -std=gnu++17 \
		-O2 -S -o - -I "$(cd "$top_srcdir" && pwd)/include" \
		"$(cd "$top_srcdir" && pwd)/tests/cxx-thread-local.cpp"
else
	skip "a C++ compiler, optimising" "no C++ compiler"
fi

# --- A server and its clients -----------------------------------------------

# Both ends run on the library; what is stored in the end must be the same.
cat >"$scratch/job.redis" <<'END'
socket=$PWD/socket
redis-server --port 0 --unixsocket "$socket" --dir "$PWD" --save '' \
	--dbfilename dump.rdb --daemonize no >server.log 2>&1 &
server=$!
tries=0
until redis-cli -s "$socket" ping >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] && kill -0 $server 2>/dev/null || {
		cat server.log
		exit 1
	}
	sleep 0.1
done
redis-benchmark -s "$socket" -q -n $((1500 * factor)) -c 20 -r 1000 -d 300 \
	-t set,get,incr,lpush,rpop,sadd,hset,zadd,mset >benchmark.log 2>&1
echo "redis-benchmark: $?"
redis-cli -s "$socket" flushall
awk 'BEGIN { for (i = 0; i < 6000; i++) {
	printf "SET key:%d %0*d\r\n", i, 10 + i % 400, i
	printf "RPUSH list:%d %d\r\nSADD set:%d %d\r\n", i % 50, i, i % 70, i
	if (i % 3 == 0) printf "DEL key:%d\r\n", i - 300 } }' |
	redis-cli -s "$socket" --pipe | tail -n 1
redis-cli -s "$socket" bgsave
redis-cli -s "$socket" dbsize
redis-cli -s "$socket" sort list:7 | cksum
redis-cli -s "$socket" sort set:9 desc limit 0 20
redis-cli -s "$socket" mget key:1 key:400 key:5999 | cksum
tries=0
while redis-cli -s "$socket" info persistence |
	grep -q 'rdb_bgsave_in_progress:1'; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || break
	sleep 0.1
done
redis-cli -s "$socket" info persistence | grep rdb_last_bgsave_status
redis-cli -s "$socket" shutdown nosave
wait $server
echo "redis-server: $?"
END
if command -v redis-benchmark >/dev/null 2>&1; then
	same "redis-server and its clients" redis-server \
		sh "$scratch/job.redis"
else
	skip "redis-server and its clients" "redis is not installed"
fi

done_testing
