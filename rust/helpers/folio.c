// SPDX-License-Identifier: GPL-2.0

/* bindgen does not evaluate casts. */
enum folio_tag {
	FOLIO_TAG_DIRTY = (unsigned int)PAGECACHE_TAG_DIRTY,
	FOLIO_TAG_WRITEBACK = (unsigned int)PAGECACHE_TAG_WRITEBACK,
	FOLIO_TAG_TOWRITE = (unsigned int)PAGECACHE_TAG_TOWRITE,
};

void rust_helper_cond_resched(void)
{
	cond_resched();
}

void rust_helper_folio_get(struct folio *folio)
{
	folio_get(folio);
}

void rust_helper_folio_put(struct folio *folio)
{
	folio_put(folio);
}

void rust_helper_folio_lock(struct folio *folio)
{
	folio_lock(folio);
}

unsigned long rust_helper_folio_index(const struct folio *folio)
{
	return READ_ONCE(folio->index);
}

unsigned long rust_helper_folio_nr_pages(const struct folio *folio)
{
	return folio_nr_pages(folio);
}

/* The field itself, for a comparison under the folio lock. */
struct address_space *rust_helper_folio_mapping_raw(const struct folio *folio)
{
	return folio->mapping;
}

bool rust_helper_folio_test_uptodate(const struct folio *folio)
{
	return folio_test_uptodate(folio);
}

bool rust_helper_folio_test_dirty(const struct folio *folio)
{
	return folio_test_dirty(folio);
}

bool rust_helper_folio_test_writeback(const struct folio *folio)
{
	return folio_test_writeback(folio);
}

void rust_helper_mapping_set_error(struct address_space *mapping, int error)
{
	mapping_set_error(mapping, error);
}

bool rust_helper_mapping_tagged(const struct address_space *mapping, xa_mark_t tag)
{
	return mapping_tagged(mapping, tag);
}

void rust_helper_mapping_set_folio_order_range(struct address_space *mapping,
					       unsigned int min,
					       unsigned int max)
{
	mapping_set_folio_order_range(mapping, min, max);
}

size_t rust_helper_mapping_max_folio_size(const struct address_space *mapping)
{
	return mapping_max_folio_size(mapping);
}

/* No allocation for this page cache enters a filesystem to free memory. */
void rust_helper_mapping_set_nofs(struct address_space *mapping)
{
	mapping_set_gfp_mask(mapping, mapping_gfp_mask(mapping) & ~__GFP_FS);
}

void rust_helper_filemap_invalidate_lock(struct address_space *mapping)
{
	filemap_invalidate_lock(mapping);
}

void rust_helper_filemap_invalidate_unlock(struct address_space *mapping)
{
	filemap_invalidate_unlock(mapping);
}

void rust_helper_filemap_invalidate_lock_shared(struct address_space *mapping)
{
	filemap_invalidate_lock_shared(mapping);
}

void rust_helper_filemap_invalidate_unlock_shared(struct address_space *mapping)
{
	filemap_invalidate_unlock_shared(mapping);
}

struct folio *rust_helper_find_folio(struct address_space *mapping, pgoff_t index)
{
	return filemap_get_folio(mapping, index);
}
