# Debian packages: built with their tests, built again elsewhere, judged by
# lintian, installed in a fresh system and tested there. Sourced by full.

readonly suite=bookworm

# Version and time are those of debian/changelog, so that a build is the same
# wherever and whenever it is made.
source_package() { # where
	unpack "$1"
	cp -r "$source_dir/debian" .
	cp "$work_dir"/dist/hakmem-*.tar.xz \
		"../hakmem_$(dpkg-parsechangelog -S Version | sed 's/-.*//').orig.tar.xz"
}

# dpkg-gensymbols and its like warn in passing.
no_warning() { # log
	! grep -E '^(dpkg|dh)[a-z_-]*: warning' "$1"
}

deb() {
	source_package deb
	dpkg-buildpackage -us -uc 2>&1 | tee ../log
	no_warning ../log
}

# In another directory and time zone, under another locale and umask.
deb_again() {
	export TZ=Pacific/Kiritimati LC_ALL=C.UTF-8
	umask 027
	source_package deb-again/and/deeper
	DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b
	local deb
	for deb in "$work_dir"/deb/*.deb; do
		sha256sum "$deb"
		cmp "$deb" "../${deb##*/}"
	done
}

# Every tag counts; those that are known have a reason in debian/.
judge() {
	local said
	said=$(lintian --allow-root -EI --pedantic "$work_dir"/deb/*.changes)
	printf '%s\n' "$said"
	[ -z "$said" ]
}

# A release before this one, as far as dpkg can tell.
deb_older() {
	source_package deb-older
	sed -i '1s/)/~older)/' debian/changelog
	DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b
}

# What apt can fetch from: two versions of the packages.
repository() { # where
	rm -rf "$1"
	mkdir -p "$1"
	cp "$work_dir"/deb/*.deb "$work_dir"/deb-older/*.deb "$1"
	(cd "$1" && apt-ftparchive packages . >Packages)
}

fresh_root() { # where [package]
	rm -rf "$1"
	mmdebstrap --variant=minbase ${2:+--include="$2"} $suite "$1"
}

# With /proc, and nothing of it left mounted.
in_root() { # root command...
	unshare --mount --pid --fork bash -e -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		exec chroot "$root" "$@"
	' bash "$@"
}

install() {
	fresh_root "$root_dir"
	repository "$root_dir/srv/hakmem"
	echo 'deb [trusted=yes] file:/srv/hakmem ./' \
		>"$root_dir/etc/apt/sources.list.d/hakmem.list"
	cp "$source_dir/.ci/install" "$root_dir/srv/"
	in_root "$root_dir" env -i PATH="$PATH" LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive bash /srv/install
}

autopkgtests() {
	fresh_root "$root_dir" apt-utils,dpkg-dev
	unshare --mount bash -e -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		autopkgtest --apt-upgrade --no-built-binaries "$@" \
			-- chroot "$root"
	' bash "$root_dir" "$work_dir"/deb/*.deb "$work_dir"/deb/hakmem-*/
}

# What README.md promises of a system that has git and nothing else.
bare() {
	fresh_root "$root_dir" git,ca-certificates
	git clone -q --no-hardlinks "$source_dir" "$root_dir/srv/hakmem"
	in_root "$root_dir" env -i PATH="$PATH" HOME=/root \
		DEBIAN_FRONTEND=noninteractive \
		sh -e -c 'cd /srv/hakmem
			./bootstrap check || { cat build/test-suite.log; exit 1; }
			./bootstrap demo
			make -C build install
			ldconfig
			hakmem run -- grep -q libhakmem-preload /proc/self/maps
			make -C build uninstall
			test -z "$(find /usr/local -path "*hakmem*" ! -type d)"
			rm -r build
			apt-get -q -y build-dep .
			DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc -b
			apt-get -q -y install ../libhakmem_*.deb ../hakmem_*.deb \
				../libhakmem1_*.deb ../libhakmem-dev_*.deb
			hakmem run -- true'
}

packages() {
	# On a file system that may hold a system: build-ci/ is the place of
	# logs, and may be one that no other user can enter.
	root_dir=$(mktemp -d)
	chmod 755 "$root_dir"
	trap 'rm -rf --one-file-system "$root_dir"' EXIT
	part deb deb
	part deb-again deb_again
	part lintian judge
	part deb-older deb_older
	part install install
	part autopkgtest autopkgtests
	part bare bare
}
