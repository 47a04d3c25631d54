# hakmem ab: reports, exit statuses, how sides are run, and what it says to bad
# input. The sides are tiny shell commands; the judge has a test of its own.
. "$top_srcdir/tests/tap.sh"

hakmem=$top_builddir/hakmem
recorded=$top_srcdir/tests/ab-recorded.txt
unset HAKMEM_WARM_POOL_SIZE

ab() {
	"$hakmem" ab --seed 7 --resamples 1000 "$@"
}

# status and output of a run, in $status, $scratch/out and $scratch/err
try() {
	ab "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
}

has() {
	cat "$scratch/out" "$scratch/err"
	grep -q -e "$1" "$scratch/out"
}

# refused STATUS MESSAGE ARGUMENT...: one line, of that form, and no report
refused() {
	want=$1 message=$2
	shift 2
	try "$@"
	cat "$scratch/err"
	echo "status $status"
	[ "$status" -eq "$want" ] && [ ! -s "$scratch/out" ] &&
		[ "$(wc -l <"$scratch/err")" -eq 1 ] &&
		grep -q "^hakmem: ab: .*$message" "$scratch/err"
}

json() {
	python3 -c "import json, sys
r = json.load(open('$scratch/out'))
sys.exit(not ($1))"
}

# two columns of 12 values, the second $1 times the first
columns() {
	awk -v factor="$1" -v noise="$2" 'BEGIN { for (i = 0; i < 12; i++) {
		a = 1000 + noise * ((i * 7) % 12); b = 1000 + noise * ((i * 5) % 12)
		print a, b * factor } }' >"$scratch/columns"
}

# --- recorded runs ----------------------------------------------------------

try --replay "$recorded"
is "$status" 0 "recorded runs are judged"
ok "mean and median" has 'compiled-out  *+0\.74 %  *+1\.14 %'
ok "an interval" has ' -1\.[4-7]. % to  *+[23]\.[0-9]. %  *0\.5[0-9]*  '
ok "a verdict" has 'INCONCLUSIVE$'
ok "runs needed" has 'needs 2[012][0-9] runs a side, the 10 here'
try --replay "$recorded" --reference compiled-out
ok "the other side as reference" has 'compiled-in  *-0\.74 %  *-1\.13 %'
ok "standard input" sh -c "'$hakmem' ab --replay - <'$recorded' | grep -q 0.74"
try --replay "$recorded" --better lower
ok "lower is better" has '^printed value, lower is better; unpaired'
try --replay "$recorded" --paired
ok "rows as blocks" has 'interleaved in blocks'
printf '{"old": [1,2,3,4,5,6e0], "new": [2,3,4,5,6,7.5]}' >"$scratch/plain"
try --replay "$scratch/plain"
ok "a plain JSON object" has '^new  *6 '

gate() {
	columns "$1" "$2"
	try --gate --replay "$scratch/columns"
	is "$status" "$3" "--gate: $4 is status $3"
}

gate 1.02 1 0 GO
gate 1.10 1 0 "STRONG GO"
gate 1.00 0.1 1 NEUTRAL
gate 1.01 30 2 INCONCLUSIVE
gate 0.90 1 3 NO-GO
try --replay "$scratch/columns"
is "$status" 0 "without --gate the verdict is no status"

try --replay "$recorded" --json
if command -v python3 >/dev/null; then
	ok "JSON is valid" json 'r["format"] == "hakmem-ab-1"'
	ok "JSON has the figures" json 'abs(r["comparisons"][0]["change"]
		- 0.00742) < 1e-5 and len(r["sides"][0]["samples"]["pattern"]) == 10'
else
	skip "JSON is valid" "no python3"
	skip "JSON has the figures" "no python3"
fi
cp "$scratch/out" "$scratch/report"
ab --replay "$recorded" >"$scratch/first"
ab --replay "$scratch/report" >"$scratch/second"
ok "a JSON report is judged again alike" cmp "$scratch/first" "$scratch/second"

try --replay "$recorded" --html "$scratch/page.html"
is "$status" 0 "an HTML page"
ok "the table is printed all the same" has INCONCLUSIVE
page_is_self_contained() {
	! grep -iE '<script|<link|<img|@import|url\(|https?:|src=' \
		"$scratch/page.html"
}
ok "the page needs nothing else" page_is_self_contained
ok "the page is for light and dark" grep -q 'prefers-color-scheme: dark' \
	"$scratch/page.html"
is "$(grep -c '<svg' "$scratch/page.html")" 3 "the page has three plots"
page_is_balanced() {
	python3 -c "import html.parser, sys
class P(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attrs):
        if tag not in ('meta', 'br'): self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())
p = P(); p.feed(open('$scratch/page.html').read()); sys.exit(bool(p.open))"
}
if command -v python3 >/dev/null; then
	ok "the page's tags are balanced" page_is_balanced
else
	skip "the page's tags are balanced" "no python3"
fi

"$hakmem" ab --replay "$recorded" --seed 7 --json --alpha 0.01 \
	--reference compiled-out >"$scratch/out"
ok "a small alpha has resamples enough" has '"resamples": 100000,'
if [ -w /dev/full ]; then
	"$hakmem" ab --help >/dev/full 2>"$scratch/err"
	is "$?" 125 "help that cannot be written is a failure"
else
	skip "help that cannot be written is a failure" "no /dev/full"
fi

awk 'BEGIN { OFMT = "%.17g"; print "zwölf_äöü_ab_lang_und_länger \377x"
	for (i = 0; i < 12; i++) print 1 / 9 + i * 7 % 12, 4 + i * 5 % 12 / 9 }' \
	>"$scratch/names"
try --replay "$scratch/names" --html "$scratch/names.html" \
	--json="$scratch/names.json"
if command -v python3 >/dev/null; then
	ok "names that are no UTF-8: JSON is valid" python3 -c "import json
r = json.load(open('$scratch/names.json', encoding='utf-8'))
assert r['sides'][1]['name'] == '\ufffdx', r['sides'][1]['name']
assert r['sides'][0]['samples']['pattern'][1] == 1 / 9 + 7"
	ok "a long name is cut between characters" python3 -c "import re
page = open('$scratch/names.html', 'rb').read()
name = re.search(b'class=\"name\".*>(zw.*)<', page).group(1)
print(name.decode('utf-8'))"
else
	skip "names that are no UTF-8: JSON is valid" "no python3"
	skip "a long name is cut between characters" "no python3"
fi
no_odd_zero() {
	! grep -E '>-?0\.000|>-0' "$scratch/names.html"
}
ok "an axis has a plain zero" no_odd_zero

# --- how sides are run ------------------------------------------------------

export log="$scratch/log"
try --runs 12 --warmup 2 --a 'side=A sh -c "echo \$side >>\$log"' \
	--b 'side=B sh -c "echo \$side >>\$log"'
is "$status" 0 "two sides are run"
is "$(wc -l <"$log")" 28 "12 runs and 2 of warm-up, of each"
ok "only the 12 count" has '^A  *12 '
is "$(paste - - <"$log" | sort -u | tr '\t\n' '  ')" "A B B A " \
	"both orders occur, each side once a block"
ok "CPU time is the metric, all others are measured" has 'wall time  *peak RSS'

rm "$log"
HAKMEM_CHECK=1 MALLOC_ARENA_MAX=1 GLIBC_TUNABLES=a=b try --runs 6 \
	--a 'sh -c "env >>\$log"' --b 'HAKMEM_L2_RING_CAP=9 sh -c "env >>\$log"'
is "$(grep -cE '^(HAKMEM_CHECK|MALLOC|GLIBC_T)' "$log")" 0 \
	"what tunes a malloc is taken out of the environment"
is "$(grep -c '^HAKMEM_L2_RING_CAP=9$' "$log")" 7 "what a side gives is there"
is "$(awk '/^LAB_PADDING=/ && !seen[length($0)]++' "$log" | wc -l)" 14 \
	"each run has a padding of its own length"

rm "$log"
try --runs 6 --pin 0 --a 'sh -c "nproc >>\$log"' --b 'sh -c "nproc >>\$log"'
is "$(sort -u "$log")" 1 "pinned to one processor"

number='sh -c "echo n=1,234,\$((100 + \$\$ % 900)) m"'
try --runs 6 --a "$number" --b "$number" --pattern 'n=([0-9,]+) m'
ok "a printed number, with separators" has '^A  *6  *1\.23[45] M'
ok "the pattern names the metric" has '^n=(\[0-9,\]+) m, higher is better'
try --precision 90% --a true --b true
ok "ended by precision" has 'ended by precision'
ok "not before 20 runs" has '^A  *20 '
try --time 0.6 --a 'sleep 0.05' --b 'sleep 0.05' --metric wall
ok "ended by time" has 'ended by time'
try --time 1 --warmup 1000 --a 'sleep 0.002' --b true
is "$status" 0 "a time too short for a block"
ok "is told" has '^B: too few runs for a verdict: 0, at least 6 are needed'
try --runs 3 --a true --b true --html "$scratch/few.html"
ok "too few runs are told on the page" grep -q \
	'B: too few runs for a verdict: 3, at least 6' "$scratch/few.html"
try --runs 6 --metric rss --json --a true --b true
if command -v python3 >/dev/null; then
	ok "the lab's own memory is not in the peak RSS" json \
		'max(r["sides"][0]["samples"]["rss"]) < 2.5e6'
else
	skip "the lab's own memory is not in the peak RSS" "no python3"
fi
try --runs 6 --a true --b true --side C=true
ok "three sides: adjusted for two comparisons" has '97\.5 % interval'

if script -qec true /dev/null >/dev/null 2>&1; then
	script -qec "'$hakmem' ab --runs 3 --metric wall --a true --b true" \
		"$scratch/terminal" >/dev/null 2>&1
	told=$(tr '\r' '\n' <"$scratch/terminal" | sed -n 's/^.*K\([0-9] runs\)/\1/p')
	is "$(echo "$told" | sed 's/, 0:0[0-9] left/, T/')" \
		"0 runs a side (warm-up)
0 runs a side (warm-up), T
1 runs a side, T
2 runs a side, T" "a terminal is told how far it is and how long it takes"
	try --quiet --runs 3 --a true --b true
	is "$(cat "$scratch/err")" "" "else there is no progress"
else
	skip "a terminal is told how far it is and how long it takes" "no terminal can be had"
	skip "else there is no progress" "no terminal can be had"
fi

# --- what ends it -----------------------------------------------------------

try --runs 6 --a true --b 'sh -c "echo last words >&2; kill -SEGV \$\$"'
is "$status" 124 "a crash is status 124"
is "$(cat "$scratch/err")" "hakmem: ab: B: killed by signal 11 (Segmentation\
 fault) in block 1: last words" "a crash is told in one line"
ok "a crash is no time" has '^B  *0  failed in block 1: killed by signal 11'
ok "the verdict is CRASH" has 'CRASH$'

echo 0 >"$scratch/count"
cat >"$scratch/third" <<'EOF'
read -r n <"$1/count"
echo $((n + 1)) >"$1/count"
[ "$n" -lt 8 ]
EOF
try --runs 9 --a true --b "sh $scratch/third $scratch" --gate --side C=true
is "$status" 124 "a failure after some runs is status 124, whatever the gate"
ok "the runs before it are kept" has '^B  *7  .*failed in block 9: exit status 1'
ok "the others go on" has '^C  *9 '
ok "and are judged" has '^C  .*[A-Z]$'

echo 0 >"$scratch/count"
try --runs 9 --metric wall --json --a true --b "sh $scratch/third $scratch" \
	--side C=true
cp "$scratch/out" "$scratch/failed"
try --replay "$scratch/failed"
is "$status" 124 "a recorded failure is status 124"
ok "it is told again" has '^B  *7  .*failed in block 9: exit status 1'
ok "and no verdict is made of the runs before it" has '^B  .*CRASH$'
ok "the others are judged" has '^C  .*[A-Z]$'
sed 's/"ending": "status"/"ending": "ok"/' "$scratch/failed" >"$scratch/odd"

try --runs 6 --timeout 0.2 --a true --b 'sleep 60'
is "$status" 124 "a time-out is status 124"
ok "a time-out is told" has 'failed in block 1: timed out'
try --time 0.3 --a true --b 'sleep 60'
is "$status" 124 "a run that outlasts the whole budget is a time-out too"

"$hakmem" ab --metric wall --a 'sleep 0.02' --b 'sleep 0.02' \
	--time 60 --warmup 0 >"$scratch/out" 2>"$scratch/err" &
lab=$!
sleep 0.7
kill -TERM $lab
wait $lab
is "$?" 130 "stopped by the user: status 130"
ok "what is known so far is told" has 'ended by the user'
ok "with a verdict" has '^B  .*[A-Z]$'

# asked_twice SIGNAL...: they come while the lab cannot look; an interrupt that
# the test was started to ignore, as in the background, is not ignored there
asked_twice() {
	python3 -c "import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
lab = subprocess.Popen(['$hakmem', 'ab', '--metric', 'wall', '--time', '60',
	'--a', 'sleep 0.02', '--b', 'sleep 0.02'], stdout=subprocess.PIPE)
time.sleep(0.5)
lab.send_signal(signal.SIGSTOP)
for name in sys.argv[1:]: lab.send_signal(getattr(signal, name))
lab.send_signal(signal.SIGCONT)
while 'SIGINT' in sys.argv and lab.poll() is None:
	lab.send_signal(signal.SIGINT)
	time.sleep(0.001)
sys.exit(lab.wait() != 130 or b'ended by the user' not in lab.stdout.read())" \
		"$@"
}
if command -v python3 >/dev/null; then
	ok "asked twice to stop, it still reports" asked_twice SIGTERM SIGHUP
	ok "asked by one Ctrl-C after another, too" asked_twice SIGINT
else
	skip "asked twice to stop, it still reports" "no python3"
	skip "asked by one Ctrl-C after another, too" "no python3"
fi

# --- bad input --------------------------------------------------------------

row() {
	row_name=$1
	shift
	ok "bad input: $row_name" refused "$@"
}

: >"$scratch/empty"
echo 1 >"$scratch/plainfile"
echo '1 2' >"$scratch/one"
printf '1 2\n3\n' >"$scratch/ragged"
printf '1 2\n3 x\n' >"$scratch/word"
printf '1 2\n3 -4\n' >"$scratch/negative"
printf '5 5\n5 5\n5 5\n' >"$scratch/equal"
echo '1e300 1' >"$scratch/huge"
printf 'a a\n1 2\n3 4\n' >"$scratch/twins"
printf '1 2\n3 4\n5 -\n' >"$scratch/uneven"
printf '{"a": [1,2,],"b": [1,2]}' >"$scratch/comma"
printf '{"a": [01],\n"b": [1]}' >"$scratch/zero"
printf '{"a": ["1"],"b": [1]}' >"$scratch/text"
printf '{"a": [1,2],"b": [1,2]} x' >"$scratch/rest"
printf '{"format": "hakmem-ab-1"}' >"$scratch/noreport"

row "missing program" 127 'B: program not found: /nonexistent' \
	--a true --b /nonexistent
row "not executable" 126 "B: cannot execute: $scratch/plainfile: Permission" \
	--a true --b "$scratch/plainfile"
row "no sides" 125 'two sides are needed: 0 given'
row "one side" 125 'two sides are needed: 1 given' --a true
row "no command" 125 'no command to run: B' --a true --b X=1
row "two commands" 125 'B: a command of its own, and one after --: ls' \
	--a X=1 --b true -- ls
row "a command for a shell" 125 'bad command: needs a shell' \
	--a true --b 'true | cat'
row "open quotes" 125 'bad command: unbalanced quotes' --a true --b "'x"
row "bad pattern" 125 'bad value for --pattern: .*: (' \
	--a true --b true --pattern '('
row "a pattern of two lines" 125 'it is looked for in each line by itself' \
	--a true --b true --pattern "x
y"
row "no pattern" 125 'needs a --pattern' --a true --b true --metric pattern
row "zero variance" 125 'zero variance.*every run of A gave 5' \
	--runs 6 --a 'echo v=5' --b 'echo v=5' --pattern 'v=([0-9]+)'
row "zero variance, recorded" 125 'zero variance' --replay "$scratch/equal"
row "one run" 125 'bad value for --runs: .* from 2 .*: 1' \
	--runs 1 --a true --b true
row "one run, recorded" 125 'A: at least two runs are needed: 1 recorded' \
	--replay "$scratch/one"
row "no metric" 125 'bad value for --metric: .*: speed' \
	--a true --b true --metric speed
row "--strong below --margin" 125 '--strong must be above --margin' \
	--a true --b true --margin 4
for bad in -1 0 100 nan inf x '' 5%%; do
	row "--margin '$bad'" 125 "bad value for --margin: .*: $bad" \
		--a true --b true --margin "$bad"
done
row "--alpha 0" 125 'bad value for --alpha' --a true --b true --alpha 0
row "--alpha above 50" 125 'bad value for --alpha: at most 50 % expected: 60' \
	--a true --b true --alpha 60
row "an alpha too small for any resamples" 125 \
	'--alpha is too small for 1 comparison: 1e-09%' \
	--a true --b true --alpha 1e-9
row "too few resamples for alpha" 125 \
	'--resamples must be at least 2000 for 2 comparisons at 1%: 1000' \
	--a true --b true --side C=true --alpha 1
row "--time -1" 125 'bad value for --time' --a true --b true --time -1
row "--time 5x" 125 'bad value for --time' --a true --b true --time 5x
row "--pin" 125 'bad value for --pin: .*: 0-' --a true --b true --pin 0-
row "a processor that is not there" 125 'bad value for --pin' \
	--a true --b true --pin 1023
row "unknown option" 125 'bad option: --fast' --fast
row "option without its argument" 125 'option needs an argument: --runs' --runs
row "a library that is not there" 125 'B: library not found: /nonexistent.so' \
	--a-lib glibc --b-lib /nonexistent.so -- true
row "a library without a name" 125 'B: names no library' \
	--a-lib glibc --b-lib= -- true
row "what follows -- is the command" 127 'B: program not found: A=1' \
	--a-lib glibc --b-lib hakmem -- A=1 true
row "no library at all" 125 'plainfile: cannot be preloaded' \
	--a true --b true --b-lib "$scratch/plainfile"
row "a report that cannot be written" 125 'cannot write the report: /none/x' \
	--replay "$recorded" --json=/none/x --html -
row "a report to a directory" 125 'cannot write the report: /: Is a directory' \
	--a /nonexistent --b true --html /
row "no run is lost for a report" 125 'cannot write the report: /none/x: No such' \
	--a /nonexistent --b true --json=/none/x
row "two reports to one place" 125 '--json and --html go to one place: -' \
	--a true --b true --json --html -
row "a file without an end" 125 'too large for recorded runs: /dev/zero' \
	--replay /dev/zero
row "no file" 125 'cannot open the recorded runs: /nonexistent' \
	--replay /nonexistent
row "empty file" 125 'two sides are needed: 0' --replay "$scratch/empty"
row "ragged columns" 125 'ragged:2: another number of columns' \
	--replay "$scratch/ragged"
row "a word among numbers" 125 'word:2: not a number: x' \
	--replay "$scratch/word"
row "a negative value" 125 'negative:2: not a number above zero, .*: -4' \
	--replay "$scratch/negative"
row "a value whose square is too large" 125 \
	'huge:1: not a number above zero, 1e-100 to 1e100: 1e300' \
	--replay "$scratch/huge"
row "two sides of one name" 125 'two sides of one name: a' \
	--replay "$scratch/twins"
row "uneven pairs" 125 'paired runs must be equally many' --paired \
	--replay "$scratch/uneven"
row "JSON: trailing comma" 125 'comma:1: bad JSON: a value expected' \
	--replay "$scratch/comma"
row "JSON: leading zero" 125 'zero:1: bad JSON: ' --replay "$scratch/zero"
row "JSON: text" 125 'text: not a number above zero, .*: a' \
	--replay "$scratch/text"
row "JSON: more text" 125 'rest:1: bad JSON: more text' \
	--replay "$scratch/rest"
row "JSON: a failure that is none" 125 'odd: a failure that is none: B' \
	--replay "$scratch/odd"
row "JSON: no report" 125 'noreport: no such metric: missing' \
	--replay "$scratch/noreport"
row "no such reference" 125 'reference: C' --replay "$recorded" --reference C
row "replay of a command" 125 '--replay runs nothing' \
	--replay "$recorded" --a true
row "replay with a bound" 125 '--replay runs nothing' \
	--replay "$recorded" --runs 5
row "metric not recorded" 125 'metric not recorded: cpu' \
	--replay "$recorded" --metric cpu

try --runs 6 --a 'echo v=5' --b 'echo w=6' --pattern 'v=([0-9]+)'
is "$status" 124 "a pattern that matches nothing is status 124"
ok "a pattern that matches nothing is told" grep -q \
	'^hakmem: ab: B: the pattern matches nothing it printed' "$scratch/err"
try --runs 6 --a 'echo v=0' --b 'echo v=6' --pattern 'v=([0-9]+)'
ok "a printed zero is no value" grep -q \
	'^hakmem: ab: A: no number above zero,' "$scratch/err"
for bad in nan inf -5 1e308 1e-200 1,47 1234,567; do
	try --runs 6 --a "echo 'v=$bad;'" --b 'sh -c "echo v=\$\$"' --pattern 'v=([^;]*)'
	ok "a printed '$bad' is no value" grep -q \
		'^hakmem: ab: A: no number above zero,' "$scratch/err"
done
seq 1 200000 >"$scratch/long"
long="sh -c 'cat $scratch/long; echo \$\$'"
ok "many matches take no long time" timeout 10 "$hakmem" ab --runs 2 \
	--warmup 0 --pattern '([0-9]+)' --a "$long" --b "$long"
done_testing
