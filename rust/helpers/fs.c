// SPDX-License-Identifier: GPL-2.0

#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/pagemap.h>
#include <linux/part_stat.h>
#include <linux/posix_acl.h>
#include <linux/ratelimit.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

/* include/linux/fs.h: inodes */

loff_t rust_helper_i_size_read(const struct inode *inode)
{
	return i_size_read(inode);
}

void rust_helper_i_size_write(struct inode *inode, loff_t size)
{
	i_size_write(inode, size);
}

uid_t rust_helper_i_uid_read(const struct inode *inode)
{
	return i_uid_read(inode);
}

gid_t rust_helper_i_gid_read(const struct inode *inode)
{
	return i_gid_read(inode);
}

void rust_helper_i_uid_write(struct inode *inode, uid_t uid)
{
	i_uid_write(inode, uid);
}

void rust_helper_i_gid_write(struct inode *inode, gid_t gid)
{
	i_gid_write(inode, gid);
}

struct timespec64 rust_helper_inode_get_ctime(const struct inode *inode)
{
	return inode_get_ctime(inode);
}

void rust_helper_inode_lock(struct inode *inode)
{
	inode_lock(inode);
}

int rust_helper_inode_trylock(struct inode *inode)
{
	return inode_trylock(inode);
}

void rust_helper_inode_unlock(struct inode *inode)
{
	inode_unlock(inode);
}

void rust_helper_inode_lock_shared(struct inode *inode)
{
	inode_lock_shared(inode);
}

void rust_helper_inode_unlock_shared(struct inode *inode)
{
	inode_unlock_shared(inode);
}

struct dentry *rust_helper_file_dentry_of(const struct file *file)
{
	return file->f_path.dentry;
}

/* An inode that nobody has a reference to may be on its way out. */
void rust_helper_inode_hold(struct inode *inode)
{
	BUG_ON(!atomic_inc_not_zero(&inode->i_count));
}

bool rust_helper_inode_is_new(struct inode *inode)
{
	return inode_state_read_once(inode) & I_NEW;
}

bool rust_helper_inode_is_sync(const struct inode *inode)
{
	return IS_SYNC(inode) || (S_ISDIR(inode->i_mode) && IS_DIRSYNC(inode));
}

void rust_helper_mark_inode_dirty(struct inode *inode)
{
	mark_inode_dirty(inode);
}

struct inode *rust_helper_alloc_inode_sb(struct super_block *sb,
					 struct kmem_cache *cache, gfp_t gfp)
{
	return alloc_inode_sb(sb, cache, gfp);
}

/* include/linux/slab.h */

struct kmem_cache *rust_helper_kmem_cache_create_unmerged(const char *name,
							  unsigned int size,
							  struct kmem_cache_args *args)
{
	return kmem_cache_create(name, size, args,
				 SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT |
				 SLAB_NO_MERGE);
}

/* include/linux/fs.h: superblocks */

void rust_helper_sb_start_intwrite(struct super_block *sb)
{
	sb_start_intwrite(sb);
}

void rust_helper_sb_end_intwrite(struct super_block *sb)
{
	sb_end_intwrite(sb);
}

void rust_helper_sb_set_rdonly(struct super_block *sb)
{
	/* Pairs with the read barriers of those who look at SB_RDONLY. */
	smp_wmb();
	sb->s_flags |= SB_RDONLY;
}

void rust_helper_super_set_uuid(struct super_block *sb, const u8 *uuid,
				unsigned int len)
{
	super_set_uuid(sb, uuid, len);
}

void rust_helper_super_set_sysfs_name_bdev(struct super_block *sb)
{
	super_set_sysfs_name_bdev(sb);
}

bool rust_helper_bdev_read_only(struct block_device *bdev)
{
	return bdev_read_only(bdev);
}

loff_t rust_helper_bdev_nr_bytes(struct block_device *bdev)
{
	return bdev_nr_bytes(bdev);
}

/* include/linux/fs_context.h */

unsigned int rust_helper_fs_parameter_type(const struct fs_parameter *param)
{
	return param->type;
}

/* include/linux/fs.h: files */

char *rust_helper_file_mount_point(const struct file *file, char *buf, int len)
{
	struct path path = {
		.mnt = file->f_path.mnt,
		.dentry = file->f_path.mnt->mnt_root,
	};

	return d_path(&path, buf, len);
}

bool rust_helper_file_is_writable(const struct file *file)
{
	return file->f_mode & FMODE_WRITE;
}

bool rust_helper_file_owner_or_capable(struct file *file)
{
	return inode_owner_or_capable(file_mnt_idmap(file), file_inode(file));
}

/* The address that a 32-bit program passed in a register. */
unsigned long rust_helper_compat_address(unsigned long arg)
{
	return (unsigned long)compat_ptr(arg);
}

bool rust_helper_current_is_killed(void)
{
	cond_resched();
	return fatal_signal_pending(current);
}

bool rust_helper_file_has_short_positions(const struct file *file)
{
	if (file->f_mode & FMODE_32BITHASH)
		return true;
	return !(file->f_mode & FMODE_64BITHASH) && in_compat_syscall();
}

bool rust_helper_iocb_is_nowait(const struct kiocb *iocb)
{
	return iocb->ki_flags & IOCB_NOWAIT;
}

bool rust_helper_iocb_is_direct(const struct kiocb *iocb)
{
	return iocb->ki_flags & IOCB_DIRECT;
}

bool rust_helper_iocb_is_dsync(const struct kiocb *iocb)
{
	return iocb_is_dsync(iocb);
}

ssize_t rust_helper_generic_write_sync(struct kiocb *iocb, ssize_t count)
{
	return generic_write_sync(iocb, count);
}

void rust_helper_file_accessed(struct file *file)
{
	file_accessed(file);
}

void rust_helper_set_delayed_call(struct delayed_call *call,
				  void (*fn)(void *), void *arg)
{
	set_delayed_call(call, fn, arg);
}

/* include/linux/dcache.h */

bool rust_helper_dir_emit(struct dir_context *ctx, const char *name, int len,
			  u64 ino, unsigned int type)
{
	return dir_emit(ctx, name, len, ino, type);
}

u32 rust_helper_qstr_len(const struct qstr *name)
{
	return name->len;
}

/* include/linux/posix_acl.h */

void rust_helper_posix_acl_release(struct posix_acl *acl)
{
	posix_acl_release(acl);
}

struct posix_acl *rust_helper_posix_acl_dup(struct posix_acl *acl)
{
	return posix_acl_dup(acl);
}

/* include/linux/ratelimit.h */

void rust_helper_ratelimit_state_init_seconds(struct ratelimit_state *rs,
					      int seconds, int burst)
{
	ratelimit_state_init(rs, seconds * HZ, burst);
}

/* include/linux/part_stat.h */

u64 rust_helper_bdev_sectors_written(struct block_device *bdev)
{
	return part_stat_read(bdev, sectors[STAT_WRITE]);
}
