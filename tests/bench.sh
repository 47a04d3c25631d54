# Each workload at a tiny size: the result line, the same checksum on another
# allocator, a damaged block found, wrong options refused.
. "$top_srcdir/tests/tap.sh"

bench=$top_builddir/bench
preload=$top_builddir/.libs/libhakmem-preload.so

tiny() {
	case $1 in
	random_mixed) echo --ops=20000 ;;
	pair) echo --ops=20000 ;;
	batch) echo --ops=20000 --order=random ;;
	small_mt) echo --ops=20000 --threads=3 ;;
	mid_large_mt) echo --ops=4000 ;;
	large_mt) echo --ops=200 ;;
	prodcons) echo --ops=20000 --pairs=2 --ring=64 ;;
	larson) echo --threads=3 --blocks=100 --generations=3 --ops=2000 ;;
	churn) echo --generations=20 ;;
	grow) echo --last=1M --rounds=2 ;;
	frag) echo --live=1M ;;
	idle) echo --take=1M --threads=3 --pause=10 ;;
	scratch) echo --iterations=20 --writes=1000 ;;
	thrash) echo --iterations=20 --writes=1000 ;;
	startup) echo --processes=3 ;;
	*) bail "no tiny size for workload $1" ;;
	esac
}

run() {
	"$bench/$1" $(tiny "$1")
}

checksum() {
	sed -n 's/.*	checksum=\([0-9a-f]*\).*/\1/p'
}

# One line, in which each common field stands once and no figure is zero.
result_line() {
	run "$1" >"$scratch/line" 2>"$scratch/err" || return 1
	cat "$scratch/line" "$scratch/err"
	[ ! -s "$scratch/err" ] && awk -F '\t' -v name="$1" '
		$1 != name || $2 !~ /^threads=[1-9][0-9]*$/ ||
		$3 !~ /^ops=[1-9][0-9]*$/ ||
		$4 !~ /^ns_per_op=[0-9]+\.[0-9]+$/ || $4 !~ /[1-9]/ ||
		$5 !~ /^ops_per_s=[1-9][0-9]*$/ ||
		$6 !~ /^cpu_s=[0-9]+\.[0-9]+$/ || $6 !~ /[1-9]/ ||
		$7 !~ /^peak_rss_kb=[1-9][0-9]*$/ ||
		$8 !~ /^checksum=[0-9a-f]+$/ || $8 !~ /[1-9a-f]/ { bad = 1 }
		END { exit bad || NR != 1 }' "$scratch/line"
}

refused() {
	"$bench/$1" "$2" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/err"
	[ $status -eq 2 ] && [ ! -s "$scratch/out" ] &&
		[ "$(wc -l <"$scratch/err")" -eq 1 ] &&
		grep -q "^hakmem: $1: .*$2\$" "$scratch/err"
}

damage_found() {
	LD_PRELOAD=$scratch/broken.so run "$1" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/out" "$scratch/err"
	[ $status -eq 1 ] && [ ! -s "$scratch/out" ] &&
		grep -q "^hakmem: $1: " "$scratch/err"
}

# An allocator that gives each block out twice and whose realloc loses the
# second half.
cat >"$scratch/broken.c" <<'EOF'
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define SIZE (512 << 20)

static _Alignas(4096) char arena[SIZE];
static atomic_size_t used;
static _Thread_local void *again;

void *calloc(size_t n, size_t size)
{
	size_t bytes = (n * size + 15) / 16 * 16;
	size_t at = atomic_fetch_add(&used, bytes);

	return at + bytes <= SIZE ? arena + at : NULL;
}

/* Rounded up, so that a larger block may follow a smaller one in its place. */
void *malloc(size_t size)
{
	void *block = again;

	again = NULL;
	if (!block)
		again = block = calloc(1, size < 8192 ? 8192 : size + 4096);
	return block;
}

void *realloc(void *old, size_t size)
{
	char *block = calloc(1, size);

	if (old && block)
		memcpy(block, old, size / 3);
	return block;
}

void free(void *block)
{
	(void)block;
}
EOF
broken_works() {
	$CC -O1 -fno-builtin -shared -fPIC -o "$scratch/broken.so" \
		"$scratch/broken.c"
}

names=$(sed -n 's/^HAKMEM_WORKLOAD(\([a-z_]*\),.*/\1/p' \
	"$top_srcdir/bench/workloads.def")
ok "an allocator that loses blocks compiles" broken_works

for name in $names; do
	ok "$name prints its result line" result_line "$name"
	want=$(checksum <"$scratch/line")
	is "$(run "$name" | checksum)" "$want" "$name is repeatable"
	if [ -f "$preload" ]; then
		is "$(LD_PRELOAD=$preload run "$name" | checksum)" "$want" \
			"$name on hakmem has the same checksum"
	else
		skip "$name on hakmem" "no shared library was built"
	fi
	ok "$name explains its options" \
		sh -c '"$0" --help | grep -q "^Usage: $1 "' "$bench/$name" "$name"
	ok "$name refuses an unknown option" refused "$name" --frobs=1
	ok "$name refuses an argument" refused "$name" 17
done

for name in $names; do
	# A thread of thrash has one block at a time: whether the other's is
	# written in between is chance.
	[ "$name" = thrash ] ||
		ok "$name finds a damaged block" damage_found "$name"
done

for bad in --ops --ops= --ops=x --ops=-1 --ops=1T --ops=0 \
	--ops=99999999999999999999 --size=2G; do
	ok "pair refuses $bad" refused pair "$bad"
done
ok "batch refuses an order that it does not know" refused batch --order=lilo
is "$("$bench/random_mixed" --min=9 --max=8 2>&1; echo $?)" \
	"hakmem: random_mixed: min is above max: 9
2" "bounds that exclude each other are refused"
is "$("$bench/batch" --n=1K --ops=1 | cut -f 3)" "ops=1024" \
	"numbers may have a suffix"

# The command.
hakmem=$top_builddir/hakmem

gives() {
	want=$1
	shift
	"$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/out" "$scratch/err"
	[ $status -eq "$want" ]
}

one_error() {
	gives "$@" && [ ! -s "$scratch/out" ] &&
		[ "$(wc -l <"$scratch/err")" -eq 1 ]
}

row() {
	gives 0 "$hakmem" bench --table --lib=none frag --live=1M &&
		grep -q '^workload  *threads  *ns/op ' "$scratch/out" &&
		grep -Eq '^frag  *1  *[0-9]+\.[0-9]+  *[0-9]+ ' "$scratch/out" &&
		grep -q '^  *empty_kb=[0-9]' "$scratch/out"
}

is "$("$hakmem" bench --list | awk '{ printf "%s ", $1 }')" \
	"$(printf '%s ' $names)" "hakmem bench --list names the workloads"
is "$("$hakmem" bench --lib=none pair --ops=5 batch --n=10 --ops=20 pair \
	--ops=7 | cut -f 1,3)" \
	"$(printf 'pair\tops=5\nbatch\tops=20\npair\tops=7')" \
	"hakmem bench gives each workload the options after it"
ok "hakmem bench prints a table" row
ok "hakmem bench passes on a workload's failure" \
	one_error 1 "$hakmem" bench --lib="$scratch/broken.so" pair --ops=20
ok "hakmem bench passes on that an option is wrong" \
	one_error 2 "$hakmem" bench --lib=none pair --size=x
ok "hakmem bench refuses an unknown workload before it runs any" \
	one_error 125 "$hakmem" bench --lib=none pair --ops=5 triple
ok "hakmem bench refuses an unknown option" \
	one_error 125 "$hakmem" bench --pair
ok "hakmem bench refuses a library that is not there" \
	one_error 125 "$hakmem" bench --lib="$scratch/absent.so" pair
ok "hakmem bench refuses a library without a name" \
	one_error 125 "$hakmem" bench --lib= pair
ok "hakmem bench refuses an unknown variable" \
	one_error 125 "$hakmem" bench HAKMEM_FROBS=1 pair

# README.md has the means of the scorecard that bench/README.md shows in full,
# for the allocators that both name, rounded.
means() {
	cat "$top_srcdir/bench/README.md" "$top_srcdir/README.md" | awk -F '|' '
		{ gsub(/ /, "") }
		/^\|\|mimalloc\|hakmem\|/ {
			for (i = 3; i <= 9; i++)
				name[i] = $i
		}
		/^\|geometricmean\|/ {
			n++
			for (i = 3; i <= 9; i++)
				full[n, name[i]] = $i + 0
		}
		/^\|\|hakmem\|mimalloc[0-9.]+\|/ {
			for (i = 3; i < NF; i++) {
				short[i] = $i
				sub(/[0-9.(].*/, "", short[i])
			}
		}
		/^\|CPUtime\|/ { row = 1 }
		/^\|memory\|/ { row = 2 }
		/^\|(CPUtime|memory)\|/ {
			for (i = 3; i < NF; i++) {
				off = $i - full[row, short[i]]
				compared++
				if (off > 0.0051 || off < -0.0051)
					print short[i], $i, full[row, short[i]]
			}
		}
		END { print compared, "compared" }'
}
is "$(means)" "10 compared" "README.md has the means of bench/README.md"
rows=$(grep -c '^HAKMEM_ROW(' "$top_srcdir/bench/scorecard.def")
is "$(grep -oE '(the|of) [0-9]+ rows' \
	"$top_srcdir/README.md" "$top_srcdir/bench/README.md" |
	grep -v " $rows rows\$")" "" "and the number of its rows"

done_testing
