// SPDX-License-Identifier: GPL-2.0

#include <linux/mbcache.h>

int rust_helper_mb_cache_entry_create_nofs(struct mb_cache *cache, u32 key,
					   u64 value, bool reusable)
{
	return mb_cache_entry_create(cache, GFP_NOFS, key, value, reusable);
}

void rust_helper_mb_cache_entry_put(struct mb_cache *cache,
				    struct mb_cache_entry *entry)
{
	mb_cache_entry_put(cache, entry);
}

void rust_helper_mb_cache_entry_set_reusable(struct mb_cache_entry *entry,
					     bool reusable)
{
	if (reusable)
		set_bit(MBE_REUSABLE_B, &entry->e_flags);
	else
		clear_bit(MBE_REUSABLE_B, &entry->e_flags);
}
