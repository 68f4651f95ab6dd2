// SPDX-License-Identifier: GPL-2.0

/* Handles: include/linux/jbd2.h keeps their flags in bit fields. */

static int jbd2_max_handle_credits(journal_t *journal)
{
	return journal->j_max_transaction_buffers -
	       journal->j_transaction_overhead_buffers;
}

int rust_helper_jbd2_max_handle_credits(journal_t *journal)
{
	return jbd2_max_handle_credits(journal);
}

/*
 * jbd2__journal_start() takes what current->journal_info points to for one of
 * its handles with a transaction, and warns of too large a request.
 */
handle_t *rust_helper_jbd2_handle_start(journal_t *journal, int blocks,
					 int rsv_blocks, int revokes,
					 unsigned int type)
{
	handle_t *outer = journal_current_handle();
	int total;

	if (outer) {
		if (!outer->h_transaction)
			return ERR_PTR(-EROFS);
		if (outer->h_transaction->t_journal != journal)
			return ERR_PTR(-EDEADLK);
	} else {
		total = blocks + rsv_blocks +
			DIV_ROUND_UP(revokes,
				     journal->j_revoke_records_per_block);
		if (total > jbd2_max_handle_credits(journal) ||
		    rsv_blocks > jbd2_max_handle_credits(journal) / 2)
			return ERR_PTR(-ENOSPC);
	}
	return jbd2__journal_start(journal, blocks, rsv_blocks, revokes,
				   GFP_NOFS, type, 0);
}

bool rust_helper_jbd2_handle_is_open(void)
{
	return journal_current_handle() != NULL;
}

bool rust_helper_jbd2_handle_is_aborted(handle_t *handle)
{
	return is_handle_aborted(handle);
}

void rust_helper_jbd2_handle_abort(handle_t *handle)
{
	jbd2_journal_abort_handle(handle);
}

int rust_helper_jbd2_handle_credits(handle_t *handle)
{
	return handle->h_transaction ? jbd2_handle_buffer_credits(handle) : 0;
}

int rust_helper_jbd2_handle_revokes(handle_t *handle)
{
	return handle->h_transaction ? handle->h_revoke_credits : 0;
}

tid_t rust_helper_jbd2_handle_tid(handle_t *handle)
{
	return handle->h_transaction->t_tid;
}

void rust_helper_jbd2_handle_set_sync(handle_t *handle)
{
	handle->h_sync = 1;
}

handle_t *rust_helper_jbd2_handle_take_reserved(handle_t *handle)
{
	handle_t *reserved = handle->h_rsv_handle;

	handle->h_rsv_handle = NULL;
	return reserved;
}

int rust_helper_jbd2_handle_restart(handle_t *handle, int blocks, int revokes)
{
	journal_t *journal;
	int total = blocks;

	/* jbd2 says success, and does nothing, for an aborted handle. */
	if (is_handle_aborted(handle))
		return -EROFS;
	/* An outer handle counts on its transaction. */
	if (handle->h_ref > 1)
		return -EBUSY;
	journal = handle->h_transaction->t_journal;
	total += DIV_ROUND_UP(revokes, journal->j_revoke_records_per_block);
	if (handle->h_rsv_handle)
		total += handle->h_rsv_handle->h_total_credits;
	if (total > jbd2_max_handle_credits(journal))
		return -ENOSPC;
	return jbd2__journal_restart(handle, blocks, revokes, GFP_NOFS);
}

/* Whether the buffer is one that the handle's journal may log. */
bool rust_helper_jbd2_handle_covers(handle_t *handle, struct buffer_head *bh)
{
	journal_t *journal;

	if (!handle->h_transaction)
		return true;
	journal = handle->h_transaction->t_journal;
	return READ_ONCE(bh->b_bdev) == journal->j_fs_dev &&
	       bh->b_size == journal->j_blocksize &&
	       bh != journal->j_sb_buffer;
}

/*
 * Whether a buffer that the handle has access to can become dirty. Access puts
 * the buffer on the handle's transaction, which keeps the journal head.
 */
bool rust_helper_jbd2_handle_can_dirty(handle_t *handle, struct buffer_head *bh)
{
	return is_handle_aborted(handle) ||
	       data_race(bh2jh(bh)->b_modified) ||
	       jbd2_handle_buffer_credits(handle) > 0;
}

/* Consumes the reference, whatever happens. */
int rust_helper_jbd2_handle_forget(handle_t *handle, struct buffer_head *bh)
{
	if (is_handle_aborted(handle)) {
		brelse(bh);
		return -EROFS;
	}
	return jbd2_journal_forget(handle, bh);
}

/*
 * jbd2_journal_revoke() forgets the block only if it is given the buffer, whose
 * reference it then consumes; it complains of a block that is revoked already.
 */
int rust_helper_jbd2_handle_revoke(handle_t *handle, unsigned long long block)
{
	struct buffer_head *bh;
	journal_t *journal;

	if (is_handle_aborted(handle))
		return -EROFS;
	if (handle->h_revoke_credits <= 0)
		return -ENOSPC;
	journal = handle->h_transaction->t_journal;
	bh = __find_get_block_nonatomic(journal->j_fs_dev, block,
					journal->j_blocksize);
	if (bh && buffer_revoked(bh)) {
		brelse(bh);
		return -EIO;
	}
	return jbd2_journal_revoke(handle, block, bh);
}

/* Journals. */

/* The devices whose filesystem has a journal: two would fight over buffers. */
static DEFINE_XARRAY(jbd2_claims);

/*
 * The right to load the volume's journal. Recovery writes to buffers, so nobody
 * but the mounting task may see them.
 */
int rust_helper_jbd2_claim(struct super_block *sb)
{
	if (sb->s_flags & SB_BORN)
		return -EBUSY;
	return xa_insert(&jbd2_claims, sb->s_dev, sb, GFP_KERNEL);
}

void rust_helper_jbd2_unclaim(dev_t dev)
{
	xa_erase(&jbd2_claims, dev);
}

bool rust_helper_jbd2_has_feature_fast_commit(journal_t *journal)
{
	return jbd2_has_feature_fast_commit(journal);
}

void rust_helper_jbd2_journal_set_params(journal_t *journal, bool barrier,
					 unsigned int interval_secs,
					 u32 min_batch_us, u32 max_batch_us)
{
	write_lock(&journal->j_state_lock);
	journal->j_commit_interval = (unsigned long)interval_secs * HZ;
	journal->j_min_batch_time = min_batch_us;
	journal->j_max_batch_time = max_batch_us;
	if (barrier)
		journal->j_flags |= JBD2_BARRIER;
	else
		journal->j_flags &= ~JBD2_BARRIER;
	journal->j_flags |= JBD2_CYCLE_RECORD;
	write_unlock(&journal->j_state_lock);
}

bool rust_helper_is_journal_aborted(journal_t *journal)
{
	return is_journal_aborted(journal);
}

tid_t rust_helper_jbd2_get_latest_transaction(journal_t *journal)
{
	return jbd2_get_latest_transaction(journal);
}

bool rust_helper_jbd2_tid_is_known(journal_t *journal, tid_t tid)
{
	return tid_geq(jbd2_get_latest_transaction(journal), tid);
}

/* Inodes. */

bool rust_helper_jbd2_jinode_get_dirty_range(const struct jbd2_inode *jinode,
					     loff_t *start, loff_t *end)
{
	return jbd2_jinode_get_dirty_range(jinode, start, end);
}
