/*
 * For tests/gdb.sh: a block of each kind, one that was freed, one that never
 * was; then a signal, at which gdb looks.
 */
#include <hakmem.h>
#include <signal.h>
#include <stdlib.h>

char *tiny, *freed, *l2, *l25, *large, *huge, *foreign, *of_heap;
static char own[64];

int main(void)
{
	struct hakmem_heap *heap = hakmem_heap_new();

	tiny = hakmem_malloc(100);
	freed = hakmem_malloc(100);
	l2 = hakmem_malloc(5000);
	l25 = hakmem_malloc(100000);
	large = hakmem_malloc((size_t)2 << 20);
	huge = hakmem_malloc((size_t)64 << 20);
	of_heap = hakmem_heap_malloc(heap, 100);
	foreign = own;
	if (!tiny || !freed || !l2 || !l25 || !large || !huge || !of_heap)
		return 1;
	hakmem_free(freed);
	raise(SIGABRT);
	return 0;
}
