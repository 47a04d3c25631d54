# hakmem sweep and the scorecard. The swept command is a script that is faster
# with two settings, which do not add, and slower with a third.
. "$top_srcdir/tests/tap.sh"

hakmem=$top_builddir/hakmem

cat >"$scratch/program" <<'EOF'
read -r n <"$1"
echo $((n + 1)) >"$1"
speed=$((100000 + n * 7919 % 600))
both=${HAKMEM_TINY_UNIFIED_C5-}/${HAKMEM_TINY_UNIFIED_C6-}
case ${HAKMEM_WARM_POOL_SIZE-}:$both in
24:256/256) speed=$((speed + 5000)) ;;
24:*) speed=$((speed + 5000)) ;;
*:256/256) speed=$((speed + 4000)) ;;
esac
[ "${HAKMEM_TINY_REFILL_COUNT-}" != 8 ] || speed=$((speed - 5000))
echo "speed=$speed"
EOF

sweep() {
	echo 0 >"$scratch/count"
	"$hakmem" sweep --seed 3 --resamples 1000 --runs 8 --warmup 0 \
		--lib none --pattern 'speed=([0-9]+)' "$@" \
		-- sh "$scratch/program" "$scratch/count" \
		>"$scratch/out" 2>"$scratch/err"
	status=$?
}

has() {
	cat "$scratch/out" "$scratch/err"
	grep -q -e "$1" "$scratch/out"
}

refused() {
	message=$1
	shift
	"$hakmem" sweep "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	cat "$scratch/err"
	[ "$status" -eq 125 ] && [ ! -s "$scratch/out" ] &&
		[ "$(wc -l <"$scratch/err")" -eq 1 ] &&
		grep -q "^hakmem: sweep: $message" "$scratch/err"
}

sweep --gate --json="$scratch/json" --html "$scratch/page.html" \
	HAKMEM_WARM_POOL_SIZE=12,24 HAKMEM_TINY_REFILL_COUNT=8 \
	HAKMEM_TINY_UNIFIED_C5+HAKMEM_TINY_UNIFIED_C6=256
is "$status" 0 "a setting is found"
ok "four settings are held to the default" has '98\.75 % interval'
ok "the best ones are confirmed, and all of them together" has \
	'^all of these  .*GO$'
ok "the setting that loses is not" has '^TINY_REFILL_COUNT=8  .*NO-GO$'
ok "the changes do not add" has '^the changes do not add: .* -3\.'
ok "the best setting is recommended alone" has \
	'^best setting: HAKMEM_WARM_POOL_SIZE=24: speed +[45]'
ok "with the line to use" has \
	"^use: hakmem run HAKMEM_WARM_POOL_SIZE=24 -- sh $scratch/program"
ok "the page has both trials" test "$(grep -c '<svg' "$scratch/page.html")" = 6
if command -v python3 >/dev/null; then
	ok "JSON is valid and says the same" python3 -c "import json, sys
r = json.load(open('$scratch/json'))
sys.exit(r['recommendation']['settings'] != 'HAKMEM_WARM_POOL_SIZE=24')"
else
	skip "JSON is valid and says the same" "no python3"
fi

sweep --gate HAKMEM_TINY_REFILL_COUNT=8
is "$status" 1 "--gate: no setting helps"
ok "which is said" has '^no setting helps: keep the default'
ok "nothing is confirmed then" test "$(grep -c '^== ' "$scratch/out")" = 2

row() {
	row_name=$1
	shift
	ok "bad input: $row_name" refused "$@"
}

row "unknown variable" 'unknown variable: HAKMEM_WARM_POOL (the nearest' \
	HAKMEM_WARM_POOL=1 -- true
row "unknown variable, linked" 'unknown variable: HAKMEM_TINY_UNIFIED_C9' \
	HAKMEM_TINY_UNIFIED_C7+HAKMEM_TINY_UNIFIED_C9=128 -- true
row "bad value" "HAKMEM_WARM_POOL_SIZE: bad value 'x'" \
	HAKMEM_WARM_POOL_SIZE=1,x -- true
row "no value" "HAKMEM_WARM_POOL_SIZE: bad value ''" \
	HAKMEM_WARM_POOL_SIZE= -- true
row "one value twice" 'one value twice: HAKMEM_WARM_POOL_SIZE=1' \
	HAKMEM_WARM_POOL_SIZE=1,2,1 -- true
row "one variable twice" 'one variable twice: HAKMEM_WARM_POOL_SIZE' \
	HAKMEM_WARM_POOL_SIZE=1 HAKMEM_WARM_POOL_SIZE=2 -- true
row "no variable" 'no variable to sweep' -- true
row "options after variables" 'options come before variables: --json' \
	HAKMEM_WARM_POOL_SIZE=1 --json -- true
row "no command" 'no command to run' HAKMEM_WARM_POOL_SIZE=1
"$hakmem" sweep --runs 2 HAKMEM_WARM_POOL_SIZE=1 -- /nonexistent 2>/dev/null
is "$?" 127 "missing program"
"$hakmem" sweep --runs 6 --lib none HAKMEM_WARM_POOL_SIZE=1 -- false \
	>"$scratch/out" 2>/dev/null
is "$?" 124 "a program that fails"
ok "is no conclusion" has '^no conclusion'

cat >"$scratch/late" <<'EOS'
read -r n <"$1"
echo $((n + 1)) >"$1"
[ "${HAKMEM_WARM_POOL_SIZE-}" = 24 ] || [ "$n" -lt 13 ] || exit 1
echo "speed=$((1000 + n + 100 * ${HAKMEM_WARM_POOL_SIZE-0}))"
EOS
echo 0 >"$scratch/count"
"$hakmem" sweep --runs 6 --warmup 0 --lib none --pattern 'speed=([0-9]+)' \
	HAKMEM_WARM_POOL_SIZE=24 -- sh "$scratch/late" "$scratch/count" \
	>"$scratch/out" 2>/dev/null
is "$?" 124 "a program that fails only in the confirmation"
ok "had been confirmed until then" has '^== confirmation'
"$hakmem" sweep --time 1 --warmup 1000 --gate --lib none \
	HAKMEM_WARM_POOL_SIZE=1,2 -- sleep 0.002 >"$scratch/out" 2>/dev/null
is "$?" 2 "a time that is over before a block counts settles nothing"
ok "which is said" has '^no conclusion: the time was over'

# --- scorecard --------------------------------------------------------------

card() {
	"$hakmem" bench --scorecard --runs 2 --warmup 0 --seed 5 "$@" \
		>"$scratch/out" 2>"$scratch/err"
	status=$?
}

if [ "${enable_shared-yes}" = yes ]; then
	card --row 'pair of 16' --reference glibc --peer \
		"again=$top_builddir/.libs/libhakmem-preload.so.1"
	is "$status" 0 "a row of the scorecard"
	ok "its time, to the reference" has \
		'^| pair of 16 KiB  *|  *[0-9.]* m*s |  *[0-9.]* +-[0-9.]* |'
	ok "its memory" has '^| pair of 16 KiB  *|  *[0-9.]* .iB |'
	ok "geometric means" has '^| geometric mean  *|  *1 |  *[0-9.]* +-'
	ok "the best peer" has '^hakmem against the best peer of each row: [0-9]'
else
	for name in row time memory mean best; do
		skip "scorecard: $name" "no shared library"
	done
fi
if script -qec true /dev/null >/dev/null 2>&1; then
	script -qec "'$hakmem' bench --scorecard --row 'pair of 16' --runs 2 \
		--without-hakmem --reference glibc --peer again=glibc" \
		"$scratch/terminal" >/dev/null 2>&1
	ok "a terminal is told how long it takes" grep -q \
		'round 2, row 1 of 1, 0:[0-9][0-9] left' "$scratch/terminal"
else
	skip "a terminal is told how long it takes" "no terminal can be had"
fi
card --row nonesuch
is "$status:$(cat "$scratch/err")" "125:hakmem: bench: no such row: nonesuch" \
	"no such row"
card --peer x
is "$status:$(cat "$scratch/err")" \
	"125:hakmem: bench: bad value for --peer: NAME=PATH expected: x" "bad peer"
card --reference x
is "$status:$(cat "$scratch/err")" "125:hakmem: bench: no such reference: x" \
	"no such reference"
done_testing
