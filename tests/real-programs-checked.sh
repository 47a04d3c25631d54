# The same programs in checked mode: they print the same, and no report.
. "$top_srcdir/tests/tap.sh"

[ "${TEST_LONG:-0}" != 0 ] || skip_all "only with TEST_LONG=1"

TEST_LONG=0 HAKMEM_CHECK=1
export TEST_LONG HAKMEM_CHECK
. "$top_srcdir/tests/real-programs.sh"
