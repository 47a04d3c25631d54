/*
 * page_map.c: leaves of the page map.
 *
 * I1  A root entry changes once, from 0 to its leaf; leaves are never freed.
 * I2  A leaf is zero where nothing of ours stands.
 *
 * The lock here only keeps two threads from making the same leaf.
 */
#include "page_map.h"

#include "lock.h"
#include "os.h"

struct page_map hak_page_map;

struct hak_lock hak_page_map_lock = HAK_LOCK_INIT(RANK_PAGE_MAP);

static size_t leaf_bytes;

static bool cover_leaf(uintptr_t address)
{
	intptr_t *root = &hak_page_map.root[(uint16_t)(address >> 32)];
	struct page_leaf *leaf;

	if (LOAD_RELAXED(root) != 0)
		return true;
	leaf = hak_os_map(ALIGN_UP(sizeof *leaf, GRANULE), GRANULE);
	if (leaf == NULL)
		return false;
	STORE_RELAXED(root, (intptr_t)leaf - (intptr_t)&hak_page_map.zero);
	STORE_RELAXED(&leaf_bytes, leaf_bytes + sizeof *leaf);
	return true;
}

size_t hak_page_map_bytes(void)
{
	return LOAD_RELAXED(&leaf_bytes);
}

bool hak_page_map_cover(uintptr_t start, size_t size)
{
	uintptr_t last = start + size - 1;
	bool ok = true;

	if (last >> 48 != 0)
		return false;
	hak_lock(&hak_page_map_lock);
	for (uintptr_t leaf = start >> 32; ok && leaf <= last >> 32; leaf++)
		ok = cover_leaf(leaf << 32);
	hak_unlock(&hak_page_map_lock);
	return ok;
}

void hak_page_map_set(uintptr_t start, size_t granules, struct slab *slab,
	unsigned code)
{
	for (size_t i = 0; i < granules; i++) {
		uintptr_t at = start + i * GRANULE;
		struct page_leaf *leaf = hak_page_leaf((void *)at);
		uint16_t entry = (uint16_t)(at >> GRANULE_SHIFT);

		ASSERT(leaf != &hak_page_map.zero);
		STORE_RELAXED(&leaf->slab[entry], slab);
		STORE_RELAXED(&leaf->code[entry], (uint8_t)code);
	}
}

HAK_EXPOSE(hak_note_leaf_bytes, leaf_bytes);
