# On x86-64 a hit of malloc is at most 15 instructions and one of free at most
# 21 and the two that tell a double free (the return counted, a landing pad for
# indirect branches not), without a call or a locked instruction: read from the
# built library.
. "$top_srcdir/tests/tap.sh"

[ "$enable_shared" = yes ] || skip_all "no shared library was built"
command -v "${OBJDUMP%% *}" >/dev/null || skip_all "no objdump here"
grep -q '^#define HAKMEM_DEBUG 1' "$top_builddir/config.h" &&
	skip_all "a debug build checks more"
grep -qE '^CFLAGS = .*-O[23]' "$top_builddir/Makefile" ||
	skip_all "not optimised"
grep -qE '^CFLAGS = .*(-fsanitize|--coverage|-pg)' "$top_builddir/Makefile" &&
	skip_all "instrumented"
$OBJDUMP -f "$top_builddir/.libs/libhakmem.so" | grep -q elf64-x86-64 ||
	skip_all "not built for x86-64"

# Sets start and stop, from "ADDRESS SIZE TYPE NAME@@VERSION".
extent() { # file function
	# shellcheck disable=SC2046 # two words
	set -- $($NM -D -S "$1" |
		sed -nE "s/^([0-9a-f]+) ([0-9a-f]+) [TW] $2(@.*)?\$/0x\1 0x\2/p")
	[ $# -eq 2 ] && start=$1 && stop=$(($1 + $2))
}

# Walks each way through the function. A way that returns without leaving it,
# calling or locking is a hit if it stores as often as a hit has to; the
# longest one counts.
hit() { # library function stores
	file=$top_builddir/.libs/$1.so
	extent "$file" "$2" || return
	$OBJDUMP -d --no-show-raw-insn "--start-address=$start" \
		"--stop-address=$stop" "$file" | awk -v stores="$3" '
	/^[ ]*[0-9a-f]+:\t/ {
		at = $1
		sub(/:$/, "", at)
		where[at] = ++n
		text = $0
		sub(/^[^\t]*\t/, "", text)
		code[n] = text
	}
	END {
		walk(1, 0, 0, "")
		if (longest)
			print longest
	}
	function walk(i, count, stored, seen,    op, to) {
		for (; i <= n; i++) {
			op = code[i]
			sub(/^bnd /, "", op)
			sub(/^notrack /, "", op)
			if (op ~ /^(endbr64|nop|data16|cs nop|xchg +%ax,%ax)/)
				continue
			count++
			if (op ~ /^(repz |rep )?ret/) {
				if (stored >= stores && count > longest)
					longest = count
				return
			}
			if (op ~ /^(call|lock)/ || op ~ /^xchg .*\(/)
				return
			if (op ~ /^mov[a-z]* +[%$][a-z0-9]+,[^%]*\(/ ||
			    op ~ /^mov[a-z]* +%[a-z0-9]+,%fs:/)
				stored++
			if (op ~ /^j/) {
				split(op, part, / +/)
				to = where[part[2]]
				if (index(seen, "," i ","))
					return
				seen = seen "," i ","
				if (op ~ /^jmp/) {
					if (!to)
						return
					i = to - 1
				} else if (to) {
					walk(to, count, stored, seen)
				}
			}
		}
	}'
}

within() { # library function stores budget
	found=$(hit "$1" "$2" "$3")
	echo "a hit has ${found:-no way without a call or a lock}"
	[ -n "$found" ] && [ "$found" -le "$4" ]
}

for function in hakmem_malloc malloc; do
	library=libhakmem
	[ $function = malloc ] && library=libhakmem-preload
	ok "$function: a hit is at most 15 instructions" \
		within $library $function 1 15
done
for function in hakmem_free free; do
	library=libhakmem
	[ $function = free ] && library=libhakmem-preload
	ok "$function: a hit is at most 23 instructions" \
		within $library $function 2 23
done
ok "a function that always calls has no hit" \
	test -z "$(hit libhakmem hakmem_heap_new 0)"
done_testing
