/*
 * os.h: every memory system call of the library.
 *
 * Sizes and addresses are in bytes and multiples of the page size unless said
 * otherwise.  errno is kept by all of them; failure is the return value.
 */
#ifndef HAK_OS_H
#define HAK_OS_H

#include "base.h"

struct hak_lock;

/* The kernel's page size in bytes; valid after hak_os_init(). */
extern size_t hak_page_size;

void hak_os_init(size_t page_size);

/* Address space without memory, aligned; NULL when it does not fit. */
void *hak_os_reserve(size_t size, size_t align);
/* Open a reserved range for reading and writing. */
bool hak_os_commit(void *start, size_t size);
/* Nobody may touch whole pages until they are committed again. */
bool hak_os_forbid(void *start, size_t size);
/* Zeroed readable and writable memory, aligned; NULL on failure. */
void *hak_os_map(size_t size, size_t align);
/* False when the kernel keeps the range, as at the limit of mappings. */
bool hak_os_unmap(void *start, size_t size);
/* The same for ranges that nobody wants any more: what the kernel will not
 * take now loses its pages, and is offered again later.  If that cannot be
 * noted either the addresses are lost. */
void hak_os_discard(void *start, size_t size);
/* That one range more can be noted; false without memory. */
bool hak_os_promise(void);
/* Discard the range that this was promised for; none if size is 0. */
void hak_os_discard_promised(void *start, size_t size);
/* Offer again what is owed. */
void hak_os_settle(void);
extern struct hak_lock hak_owed_lock;
/* Give the pages back, keep the range; true when it reads as zero now. */
bool hak_os_purge(void *start, size_t size);
void hak_os_hugepage(void *start, size_t size, bool on);
/* Resize in place; false when the neighbourhood is taken. */
bool hak_os_grow(void *start, size_t old_size, size_t new_size);
/* Move the mapping onto a range that is replaced; the old range is gone.  When
 * these two fail, the source is as it was and the target is given back. */
bool hak_os_move(void *from, size_t old_size, void *to, size_t new_size);
/* Move the pages onto an equal range; the old range stays and reads zero. */
bool hak_os_move_pages(void *from, void *to, size_t size);
/* Tests have the calls first to last fail with ENOMEM, counted from 1; those
 * that replace a target after that is gone, if late is set.  only is the system
 * call that counts and fails, 0 for all; number the one that failed last. */
struct hak_os_inject {
	unsigned calls;
	unsigned first;
	unsigned last;
	bool late;
	long only;
	long number;
};

extern struct hak_os_inject hak_os_inject;

/* Successful calls of hak_os_purge() and their bytes; relaxed. */
size_t hak_os_purge_calls(void);
size_t hak_os_purged_bytes(void);
/* The kernel's number of this thread. */
uint32_t hak_os_thread(void);
/* Processors this process may run on; at least 1. */
unsigned hak_os_cpus(void);
/* Monotonic milliseconds. */
uint64_t hak_os_now_ms(void);

#endif
