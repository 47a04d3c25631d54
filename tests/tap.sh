# TAP for shell tests: cases are counted, the plan is printed by done_testing.
#
#	. "$top_srcdir/tests/tap.sh"
#	ok "name" command args...	passes if the command does
#	is "$got" "$want" "name"
#	skip "name" "reason"
#	done_testing
#
# $scratch is a directory of the test's own, removed when it ends.

tap_run=0
tap_failed=0
: "${top_srcdir:=.}" "${top_builddir:=.}"

scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 99' HUP INT TERM

diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

pass() {
	tap_run=$((tap_run + 1))
	echo "ok $tap_run - $1"
}

fail() {
	tap_run=$((tap_run + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_run - $1"
}

# What the command prints is shown only if it fails.
ok() {
	tap_name=$1
	shift
	if "$@" >"$scratch/tap.out" 2>&1; then
		pass "$tap_name"
	else
		fail "$tap_name"
		diag "command: $*"
		sed 's/^/# /' "$scratch/tap.out"
		return 1
	fi
}

is() {
	if [ "$1" = "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag "got: $1"
		diag "want: $2"
		return 1
	fi
}

skip() {
	tap_run=$((tap_run + 1))
	echo "ok $tap_run - $1 # SKIP $2"
}

# Before any case: leave out the whole script.
skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}

bail() {
	echo "Bail out! $*"
	exit 99
}

done_testing() {
	echo "1..$tap_run"
	[ "$tap_failed" -eq 0 ] && [ "$tap_run" -gt 0 ]
	exit
}
