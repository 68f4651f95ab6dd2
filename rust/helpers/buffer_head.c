// SPDX-License-Identifier: GPL-2.0

/*
 * Spinlocks over the content of buffers, chosen by the buffer's address. Leaf
 * locks: nothing is taken under one, and never from an interrupt.
 */
#define BUFFER_CONTENT_LOCK_BITS 7

static struct buffer_content_lock {
	spinlock_t lock;
} ____cacheline_aligned_in_smp
buffer_content_locks[1 << BUFFER_CONTENT_LOCK_BITS] = {
	[0 ... (1 << BUFFER_CONTENT_LOCK_BITS) - 1] = {
		.lock = __SPIN_LOCK_UNLOCKED(buffer_content_locks.lock),
	},
};

static spinlock_t *buffer_content_lock_of(struct buffer_head *bh)
{
	return &buffer_content_locks[hash_ptr(bh, BUFFER_CONTENT_LOCK_BITS)].lock;
}

void rust_helper_buffer_content_lock(struct buffer_head *bh)
{
	spin_lock(buffer_content_lock_of(bh));
}

void rust_helper_buffer_content_unlock(struct buffer_head *bh)
{
	spin_unlock(buffer_content_lock_of(bh));
}

/*
 * The content lock for a writer outside of any handle. If jbd2 knows the
 * buffer, the commit thread may be about to copy or log its content: that it
 * does under b_state_lock or with BH_Shadow set, so hold the one and wait for
 * the other. The caller holds the buffer's own lock, without which no journal
 * head gets into a transaction.
 */
struct journal_head *
rust_helper_buffer_content_lock_unjournaled(struct buffer_head *bh)
{
	struct journal_head *jh;

	while ((jh = jbd2_journal_grab_journal_head(bh))) {
		spin_lock(&jh->b_state_lock);
		if (!buffer_shadow(bh))
			break;
		spin_unlock(&jh->b_state_lock);
		jbd2_journal_put_journal_head(jh);
		wait_on_bit_io(&bh->b_state, BH_Shadow, TASK_UNINTERRUPTIBLE);
	}
	spin_lock(buffer_content_lock_of(bh));
	return jh;
}

void rust_helper_buffer_content_unlock_unjournaled(struct buffer_head *bh,
						   struct journal_head *jh)
{
	spin_unlock(buffer_content_lock_of(bh));
	if (jh) {
		spin_unlock(&jh->b_state_lock);
		jbd2_journal_put_journal_head(jh);
	}
}

struct buffer_head *rust_helper_sb_find_get_block(struct super_block *sb,
						  sector_t block)
{
	return sb_find_get_block_nonatomic(sb, block);
}

/*
 * Starts to read a block that is not in memory. Never reads over the content of
 * a buffer that could not be written: that content is the newer one.
 */
void rust_helper_sb_breadahead(struct super_block *sb, sector_t block)
{
	struct buffer_head *bh;

	bh = sb_getblk_gfp(sb, block, GFP_NOWAIT | __GFP_MOVABLE);
	if (!bh)
		return;
	if (!buffer_uptodate(bh) && trylock_buffer(bh)) {
		if (!buffer_uptodate(bh) && !buffer_write_io_error(bh) &&
		    buffer_mapped(bh))
			__bh_read(bh, REQ_RAHEAD | REQ_META, false);
		else
			unlock_buffer(bh);
	}
	brelse(bh);
}

struct buffer_head *rust_helper_sb_getblk(struct super_block *sb,
					  sector_t block)
{
	return sb_getblk(sb, block);
}

void rust_helper_get_bh(struct buffer_head *bh)
{
	get_bh(bh);
}

void rust_helper_lock_buffer(struct buffer_head *bh)
{
	lock_buffer(bh);
}

void rust_helper_wait_on_buffer(struct buffer_head *bh)
{
	wait_on_buffer(bh);
}

bool rust_helper_buffer_uptodate(const struct buffer_head *bh)
{
	return buffer_uptodate(bh);
}

void rust_helper_set_buffer_uptodate(struct buffer_head *bh)
{
	set_buffer_uptodate(bh);
}

bool rust_helper_buffer_mapped(const struct buffer_head *bh)
{
	return buffer_mapped(bh);
}

bool rust_helper_buffer_write_io_error(const struct buffer_head *bh)
{
	return buffer_write_io_error(bh);
}

void rust_helper_clear_buffer_write_io_error(struct buffer_head *bh)
{
	clear_buffer_write_io_error(bh);
}

void rust_helper_clear_buffer_dirty(struct buffer_head *bh)
{
	clear_buffer_dirty(bh);
}

bool rust_helper_buffer_verified(const struct buffer_head *bh)
{
	return buffer_verified(bh);
}

void rust_helper_set_buffer_verified(struct buffer_head *bh)
{
	set_buffer_verified(bh);
}

void rust_helper_clear_buffer_verified(struct buffer_head *bh)
{
	clear_buffer_verified(bh);
}

void rust_helper_set_buffer_meta(struct buffer_head *bh)
{
	set_buffer_meta(bh);
	set_buffer_prio(bh);
}
