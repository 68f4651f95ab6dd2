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

unsigned int rust_helper_memalloc_nofs_save(void)
{
	return memalloc_nofs_save();
}

void rust_helper_memalloc_nofs_restore(unsigned int flags)
{
	memalloc_nofs_restore(flags);
}
