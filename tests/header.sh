# hakmem.h stands alone in every language it claims to serve.
. "$top_srcdir/tests/tap.sh"

include=$top_srcdir/include

compile() {
	lang=$1
	shift
	printf '#include <hakmem.h>\nint main(void) { return 0; }\n' \
		>"$scratch/t.$lang"
	"$@" -Wall -Wextra -Wpedantic -Werror -I "$include" -c \
		"$scratch/t.$lang" -o "$scratch/t.o"
}

for std in c11 gnu11 c17; do
	ok "the header compiles as $std" compile c $CC -std=$std
done
for std in c++98 c++11 c++17; do
	if [ "$have_cxx" = yes ]; then
		ok "the header compiles as $std" compile cc $CXX -std=$std
	else
		skip "the header compiles as $std" "no C++ compiler"
	fi
done
done_testing
