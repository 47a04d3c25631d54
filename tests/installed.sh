# Run by make installcheck: programs are compiled with what pkg-config says of
# the installed files, shared and static, and run; and where the pages link to.
. "$top_srcdir/tests/tap.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"

PKG_CONFIG_LIBDIR=$DESTDIR$pkgconfigdir
PKG_CONFIG_SYSROOT_DIR=$DESTDIR
PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS PKG_CONFIG_ALLOW_SYSTEM_LIBS

compile_and_run() { # module PRELOAD how
	flags=
	[ "$3" = shared ] || flags=--static
	flags=$(pkg-config $flags --cflags --libs "$1") || return 1
	[ "$3" = shared ] || flags="$flags -static"
	$CC -Wall -Wextra -Werror -DPRELOAD="$2" "$top_srcdir/tests/installed.c" \
		-o "$scratch/program" $flags &&
		LD_LIBRARY_PATH=$DESTDIR$libdir "$scratch/program"
}

for module in hakmem hakmem-preload; do
	preload=0
	[ $module = hakmem ] || preload=1
	is "$(pkg-config --modversion $module 2>&1)" "$VERSION" \
		"pkg-config knows the version of $module"
	for how in shared static; do
		name="a program with $module, $how"
		eval "built=\$enable_$how"
		if [ "$built" = yes ]; then
			ok "$name" compile_and_run $module $preload $how
		else
			skip "$name" "built with --disable-$how"
		fi
	done
done

# Of each page the links and pictures that are no addresses.
broken_links() {
	find "$DESTDIR$docdir" -name '*.md' | while read -r page; do
		grep -oE '\]\([^):#]+' "$page" | cut -c 3- | while read -r link; do
			[ -e "${page%/*}/$link" ] || echo "$page: $link"
		done
	done
}
ok "README.md is installed" test -s "$DESTDIR$docdir/README.md"
is "$(broken_links)" "" "installed pages link to installed files"
done_testing
