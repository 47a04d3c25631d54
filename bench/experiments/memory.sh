#!/bin/sh
# Resident memory of hakmem and of the allocators found here, in MiB: what is
# held after all was freed, while threads come and go, and when blocks survive
# scattered. Each figure is the median of several runs, all allocators in turn.
#
#	memory.sh [--runs=5] [--peer=NAME=LIBRARY]...
set -eu
hakmem=.libs/libhakmem-preload.so
[ -r $hakmem ] && [ -x bench/idle ] || {
	echo "memory: run it where hakmem was built: no $hakmem here" >&2
	exit 1
}
runs=5
names='hakmem glibc'
lib_hakmem=$PWD/$hakmem
lib_glibc=

peer() { # name library
	case $1 in
	'' | *[!a-z0-9_]*) echo "memory: bad name of a peer: $1" >&2 && exit 2 ;;
	esac
	[ -r "$2" ] || { echo "memory: cannot read $2" >&2 && exit 2; }
	names="$names $1"
	eval "lib_$1=\$2"
}

for option; do
	case $option in
	--runs=[1-9] | --runs=[1-9][0-9]) runs=${option#*=} ;;
	--peer=*=*)
		option=${option#*=}
		peer "${option%%=*}" "${option#*=}"
		;;
	*) echo "memory: unknown option: $option" >&2 && exit 2 ;;
	esac
done
for found in mimalloc=libmimalloc.so.2 jemalloc=libjemalloc.so.2 \
	tcmalloc=libtcmalloc_minimal.so.4; do
	name=${found%%=*}
	case " $names " in *" $name "*) continue ;; esac
	path=$(ldconfig -p | awk -v so="${found#*=}" '$1 == so { print $NF; exit }')
	[ -z "$path" ] || peer "$name" "$path"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# label, field of the result line, workload with its options
cat >"$scratch/rows" <<'END'
200 MiB of all sizes freed, idle|idle_kb|idle
200 MiB of 16 to 1024 bytes freed, idle|idle_kb|idle --max=1024
200 MiB of 64 KiB to 1 MiB freed, idle|idle_kb|idle --min=64K --max=1M
32 threads took 8 MiB one by one, idle|idle_kb|idle --threads=32 --take=256M --turns=in-turn
500 threads took 1 MiB each, idle|idle_kb|idle --threads=500 --take=500M
one allocates, one frees: peak|peak_rss_kb|prodcons --ops=2M
filled with 64 MiB|fill_kb|frag
a random half freed|half_kb|frag
filled with larger blocks|refill_kb|frag
all but one in 32 freed|thin_kb|frag
everything freed|empty_kb|frag
larson, 8 threads: peak|peak_rss_kb|larson --threads=8 --generations=4
larson, 32 threads: peak|peak_rss_kb|larson --threads=32 --generations=4
END

# Each different command once for each allocator and run.
cut -d '|' -f 3 "$scratch/rows" | uniq >"$scratch/commands"
run=0
while [ $run -lt "$runs" ]; do
	while read -r command; do
		for name in $names; do
			eval "lib=\$lib_$name"
			# shellcheck disable=SC2086 # a list of words
			line=$(LD_PRELOAD=$lib bench/$command) || exit 1
			echo "$name|$command|$line" >>"$scratch/runs"
		done
	done <"$scratch/commands"
	run=$((run + 1))
done

# Of the program's own memory before the first block nothing is counted.
median() { # name field command
	awk -F '[|\t]' -v name="$1" -v field="$2" -v command="$3" '
		$1 == name && $2 == command {
			for (i = 3; i <= NF; i++)
				if (split($i, pair, "=") == 2)
					kb[pair[1]] = pair[2]
			print kb[field] - kb["start_kb"]
		}' "$scratch/runs" | sort -n |
		awk '{ v[NR] = $1 } END { printf "%.1f", v[int((NR + 1) / 2)] / 1024 }'
}

printf '%-42s' 'MiB resident'
printf ' %9s' $names
echo
while IFS='|' read -r label field command; do
	printf '%-42s' "$label"
	for name in $names; do
		printf ' %9s' "$(median "$name" "$field" "$command")"
	done
	echo
done <"$scratch/rows"
