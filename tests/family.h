/*
 * One source, three families: FAMILY(malloc) is malloc, for a program that
 * runs under the preload library, or hakmem_malloc where NAMESPACED is 1, for
 * one that is linked with libhakmem and keeps its own malloc, so that
 * sanitizers can watch it, or the inside's hak_malloc where SHARDS is the
 * number of shards to spread threads over.
 */
#ifndef HAKMEM_TESTS_FAMILY_H
#define HAKMEM_TESTS_FAMILY_H

#ifndef NAMESPACED
#define NAMESPACED 0
#endif

#ifndef SHARDS
#define SHARDS 0
#endif

#if SHARDS
#include "alloc.h"
#include "forward.h"
#include "budget.h"
#include "shard.h"
const struct hak_entry_points *hak_forward;
#define FAMILY(name) hak_##name
#define family_usable_size(p) hak_usable_size(p)
#define family_trim(pad) hak_budget_trim(pad)
#define family_start(argv) ((void)(argv), hak_shard_force(SHARDS))
enum { preloaded = 0 };
#elif NAMESPACED
#include "hakmem.h"
#define FAMILY(name) hakmem_##name
#define family_usable_size(p) hakmem_usable_size(p)
#define family_trim(pad) hakmem_trim(pad)
#define family_start(argv) ((void)(argv))
enum { preloaded = 0 };
#else
#include "under-preload.h"
#include <malloc.h>
#define FAMILY(name) name
#define family_usable_size(p) malloc_usable_size(p)
#define family_trim(pad) malloc_trim(pad)
#define family_start(argv) under_preload(argv)
#endif

#endif
