# Shared by run and full. A part is a function that is run in a subshell with
# a log of its own; a failing part does not keep the others from running.
# With words on the command line only the parts of these names are run, on
# what others have left in build-ci/.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source_dir=$PWD
work_dir=$PWD/build-ci
only=("$@")
broken=()

wanted() { # part
	local name
	[ ${#only[@]} -gt 0 ] || return 0
	for name in "${only[@]}"; do
		[ "$name" != "$1" ] || return 0
	done
	return 1
}

need() { # package ...: install with apt-get what is not there
	local missing=() package
	for package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
			grep -q 'ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || {
		echo "ci: please install: ${missing[*]}" >&2
		exit 1
	}
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo)
	echo "ci: installing with apt-get: ${missing[*]}"
	"${root[@]}" apt-get update -q
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
		-o DPkg::Lock::Timeout=600 --no-install-recommends "${missing[@]}"
}

# What a compiler has to say of our files.
warnings() { # log
	grep -E '^[^ ]+\.(c|h|cpp|def):[0-9]+:[0-9]+: warning: ' "$1"
}

part() { # name command ...
	local name=$1 log=$work_dir/$1.log begin=$SECONDS status=0
	shift
	wanted "$name" || return 0
	echo "ci: $name: $*"
	# A subshell in a condition would ignore -e: hence the detour by $?.
	set +e
	(
		set -e
		"$@"
	) >"$log" 2>&1
	status=$?
	set -e
	if [ "$status" -eq 0 ] && ! warnings "$log"; then
		echo "ci: $name: passed in $((SECONDS - begin)) s"
		return 0
	fi
	broken+=("$name")
	grep -E '^(FAIL|ERROR|XPASS)[: ]|not ok|error:|\*\*\*' "$log" |
		tail -n 40 || true
	echo "ci: $name: FAILED, see $log; its end:"
	tail -n 15 "$log"
}

# Go to a fresh directory of that name and configure there.
configure() { # name [argument ...]
	local dir=$work_dir/$1
	shift
	rm -rf "$dir"
	mkdir -p "$dir"
	cd "$dir"
	"$source_dir/configure" "$@"
}

build() { # name [configure argument ...]
	configure "$@"
	make -j2
}

build_and_check() { # name [configure argument ...]
	build "$@"
	make -j2 check
}

# With the short form of the tests that look inside.
build_alone() { # name [configure argument ...]
	build "$1" --disable-shared "${@:2}"
	TEST_SHORT=1 make -j2 check-namespaced
}

# The tests that leave the process's malloc alone. Addresses are not
# randomised: ThreadSanitizer has a fixed idea of where things may lie.
sanitize() { # name flags
	export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
	export TSAN_OPTIONS=die_after_fork=0
	configure "$1" --disable-shared CFLAGS="-O1 -g $2" CXXFLAGS="-O1 -g $2"
	setarch -R make -j2 check-namespaced
}

# Sum Automake's summaries, print the line and exit. A part that broke
# without a failed case counts as one.
finish() {
	local passed failed skipped name
	read -r passed failed skipped < <(cat "$work_dir"/*.log | awk '
		/^# PASS: /  { passed += $3 }
		/^# (FAIL|ERROR|XPASS): / { failed += $3 }
		/^# (SKIP|XFAIL): / { skipped += $3 }
		END { print passed + 0, failed + 0, skipped + 0 }')
	for name in "${broken[@]}"; do
		echo "ci: part failed: $name"
		grep -qE '^# (FAIL|ERROR|XPASS): +[1-9]' "$work_dir/$name.log" ||
			failed=$((failed + 1))
	done
	echo "$passed passed, $failed failed, $skipped skipped"
	[ ${#broken[@]} -eq 0 ] && [ "$failed" -eq 0 ]
	exit
}

[ ${#only[@]} -gt 0 ] || rm -rf "$work_dir"
mkdir -p "$work_dir"
rm -f "$work_dir"/*.log
