# lib/README.md is true: no file includes one of a higher floor, includes
# within a floor are the ones listed, and the ranks of locks are those of
# lock.h.
. "$top_srcdir/tests/tap.sh"

lib=$top_srcdir/lib
readme=$lib/README.md
export LC_ALL=C

# "floor module" of the table of floors.
sed -n 's/^| \([0-9]\) | \([a-z0-9_ ]*\) |.*/\1 \2/p' "$readme" | awk '
	{ for (i = 2; i <= NF; i++) print $1, $i }' >"$scratch/floors"

# "module module", once, of each include of another module's header. What is
# not in the table, as config.h or the public header, is no module.
for file in "$lib"/*.[ch]; do
	module=${file##*/}
	sed -n "s/^#include \"\\([a-z0-9_]*\\)\\.[a-z]*\"\$/${module%.?} \\1/p" \
		"$file"
done | awk '$1 != $2' | sort -u >"$scratch/includes"

for file in "$lib"/*.[ch]; do
	module=${file##*/}
	echo "${module%.?}"
done | sort -u >"$scratch/modules"
is "$(cut -d ' ' -f 2 "$scratch/floors" | sort)" "$(cat "$scratch/modules")" \
	"the table has each module of lib/, once"

# "from floor to floor"
awk 'NR == FNR { floor[$2] = $1; next }
	($1 in floor) && ($2 in floor) {
		print $1, floor[$1], $2, floor[$2]
	}' "$scratch/floors" "$scratch/includes" >"$scratch/edges"
ok "includes were found" test -s "$scratch/edges"
is "$(awk '$2 < $4 { print $1 " -> " $3 }' "$scratch/edges")" "" \
	"no file includes one of a higher floor"

sed -n 's/^    \([a-z0-9_]*\) -> \([a-z0-9_ ]*\)$/\1 \2/p' "$readme" | awk '
	{ for (i = 2; i <= NF; i++) print $1 " -> " $i }' |
	sort >"$scratch/listed"
awk '$2 == $4 { print $1 " -> " $3 }' "$scratch/edges" | sort -u >"$scratch/same"
is "$(cat "$scratch/same")" "$(cat "$scratch/listed")" \
	"includes within a floor are the ones listed"

ranks=$(sed -n 's/^\tRANK_\([A-Z_]*\).*/\1/p' "$lib/lock.h" | tr '\n' ' ')
listed=$(sed -n '/^## Locks/,/^|/s/^    \([A-Z_ ]*\)$/\1/p' "$readme" |
	tr '\n' ' ')
is "$listed" "$ranks" "the ranks of locks are those of lock.h"

# Names that the text points to exist.
for name in $(grep -o '`[a-z_0-9]*`' "$readme" | tr -d '`' | sort -u); do
	ok "$name is in the code" grep -qw "$name" "$lib"/*.[ch]
done
done_testing
