# The probes of --enable-usdt: hakmem(7) lists what the code has, each is a note
# in both libraries where they are built in and a nop in the code, and nothing
# of it is there where they are not.
. "$top_srcdir/tests/tap.sh"

# "name: arguments" of each probe, in the code and on the page.
in_code() {
	cat "$top_srcdir"/lib/*.c |
		sed -nE 's/.*\<HAK_PROBE\((\w+), .*/\1/p' | LC_ALL=C sort -u
}

on_page() {
	sed -n '/^\.Sh PROBES/,/^\.Sh [^P]/p' "$top_srcdir/man/hakmem.7" |
		sed -nE 's/^\.It Li (\w+)( .*)?$/\1/p' | LC_ALL=C sort
}

ok "probes were found" test -n "$(in_code)"
is "$(on_page)" "$(in_code)" "hakmem(7) has every probe"

# A system without the header is told what is missing.
source_dir=$(cd "$top_srcdir" && pwd)
refused() {
	(cd "$scratch" && ac_cv_header_sys_sdt_h=no CC=$CC \
		"$source_dir/configure" --enable-usdt >out 2>err) && return 1
	cat "$scratch/err"
	grep -qx 'configure: error: --enable-usdt needs sys/sdt.h: .*' \
		"$scratch/err"
}
if [ -e "$source_dir/config.status" ]; then
	skip "without sys/sdt.h configure says so" \
		"configure refuses a source that was built in itself"
else
	ok "without sys/sdt.h configure says so" refused
fi

[ "$enable_shared" = yes ] || {
	skip "notes" "no shared library was built"
	done_testing
}
command -v readelf >/dev/null || {
	skip "notes" "readelf is not installed"
	done_testing
}

noted() { # library: "provider name", once each
	readelf -n "$top_builddir/.libs/$1.so" 2>/dev/null | awk '
		/Provider:/ { provider = $2 }
		/Name:/ && provider != "" { print provider, $2; provider = "" }
	' | LC_ALL=C sort -u
}

if ! grep -q '^#define HAKMEM_USDT 1' "$top_builddir/config.h"; then
	for library in libhakmem libhakmem-preload; do
		is "$(noted $library)" "" "$library: no probes in this build"
	done
	done_testing
fi

# All places of probes, and what the processor finds there.
places() { # library
	readelf -n "$top_builddir/.libs/$1.so" 2>/dev/null |
		sed -nE 's/.*Location: 0x0*([0-9a-f]+),.*/\1/p' | sort -u
}

are_nops() { # library
	$OBJDUMP -d --no-show-raw-insn "$top_builddir/.libs/$1.so" \
		>"$scratch/code"
	places "$1" >"$scratch/places"
	[ -s "$scratch/places" ] || return
	while read -r place; do
		grep -qE "^ *$place:	nop" "$scratch/code" && continue
		echo "no nop at $place"
		return 1
	done <"$scratch/places"
}

for library in libhakmem libhakmem-preload; do
	is "$(noted $library)" "$(in_code | sed 's/^/hakmem /')" \
		"$library: a note of each probe"
	if [ "$OBJDUMP" = : ]; then
		skip "$library: nops" "no objdump here"
	else
		ok "$library: each is a nop" are_nops $library
	fi
done
done_testing
