// SPDX-License-Identifier: GPL-2.0

/*
 * Data is not urgent as such: write-back throttling and the scheduler treat
 * flagged requests as ones that somebody waits for.
 */
void rust_helper_bio_clear_sync(struct bio *bio)
{
	bio->bi_opf &= ~REQ_SYNC;
}

/* The end function may run in interrupt context. */
void rust_helper_bio_complete_anywhere(struct bio *bio)
{
	bio_clear_flag(bio, BIO_COMPLETE_IN_TASK);
}

void rust_helper_list_del_init(struct list_head *entry)
{
	list_del_init(entry);
}

static void folio_write_part_end(struct bio *bio)
{
	complete(bio->bi_private);
}

/*
 * Writes a part of a locked folio, and waits. Not submit_bio_wait(): that makes
 * the request one that somebody waits for. The folio is made dirty again at
 * once, its own flag alone: the state of its blocks does not change.
 */
int rust_helper_folio_write_part(struct folio *folio, struct inode *inode,
				 struct writeback_control *wbc, size_t offset,
				 size_t len, sector_t sector)
{
	DECLARE_COMPLETION_ONSTACK(done);
	loff_t pos = folio_pos(folio) + offset, size = i_size_read(inode);
	struct bio_vec bvec;
	struct bio bio;
	int error;

	if (folio_clear_dirty_for_io(folio))
		folio_redirty_for_writepage(wbc, folio);
	if (pos + len > size)
		folio_zero_segment(folio, size > pos ? offset + (size - pos) : offset,
				   offset + len);
	bio_init(&bio, inode->i_sb->s_bdev, &bvec, 1, REQ_OP_WRITE);
	bio.bi_iter.bi_sector = sector;
	bio.bi_end_io = folio_write_part_end;
	bio.bi_private = &done;
	wbc_init_bio(wbc, &bio);
	bio_add_folio_nofail(&bio, folio, len, offset);
	submit_bio(&bio);
	wait_for_completion_io(&done);
	error = blk_status_to_errno(bio.bi_status);
	bio_uninit(&bio);
	return error;
}

void rust_helper_init_integrity_control(struct writeback_control *wbc,
					struct inode *inode, loff_t start,
					loff_t end)
{
	*wbc = (struct writeback_control) {
		.sync_mode = WB_SYNC_ALL,
		.nr_to_write = LONG_MAX,
		.range_start = start,
		.range_end = end,
	};
	wbc_attach_fdatawrite_inode(wbc, inode);
}

void rust_helper_release_control(struct writeback_control *wbc)
{
	wbc_detach_inode(wbc);
}

unsigned int rust_helper_memalloc_nofs_save(void)
{
	return memalloc_nofs_save();
}

void rust_helper_memalloc_nofs_restore(unsigned int flags)
{
	memalloc_nofs_restore(flags);
}
