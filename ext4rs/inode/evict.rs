// SPDX-License-Identifier: GPL-2.0

//! The end of an inode: in memory, and if nothing names it any more, on disk. Behaviour:
//! `ext4_evict_inode`, `ext4_free_inode`.

use super::{has_extents, mark_deleted, mark_dirty, Inode};
use crate::{
    alloc,
    journal::{self, Kind},
    map, orphan, report, xattr,
};
use ext4rs_layout::inode::I_BLOCK_SIZE;
use ext4rs_vfs::jbd2::Journal;
use kernel::prelude::*;

/// Blocks that the last step of a deletion changes: the orphans, and the inode's number.
const CREDITS_LAST: u32 = orphan::CREDITS + alloc::CREDITS_FREE_INODE + super::CREDITS_DIRTY;

/// The inode leaves memory: the last reference is gone, and with it the page cache. If it has no
/// link it is deleted. What cannot be deleted stays an orphan, for the next mount or for e2fsck.
pub(crate) fn evict(inode: &Inode) {
    inode.data().map.forget(inode);
    if inode.nlink() != 0 || inode.is_bad() {
        return;
    }
    let sb = inode.super_block();
    let result = if Journal::is_in_handle() {
        // It would be deleted in the middle of somebody's transaction, for which that has no
        // credits; and the wait for a thaw is not possible.
        Err(EDEADLK)
    } else {
        // Whoever gave up the reference need not be a writer.
        let _write = sb.start_internal_write();
        delete(inode)
    };
    if let Err(e) = result {
        if !sb.data().is_stopped() {
            report::warning(
                sb,
                "evict_inode",
                fmt!("inode #{}: not deleted: {:?}", inode.ino(), e),
            );
        }
    }
}

/// Frees what the inode has, and then itself. It is an orphan, so that this may take several
/// transactions.
///
/// From the moment its number is free, a file may be made under that number in somebody's handle,
/// which then waits until the inode is out of memory. So nothing here may wait for the journal any
/// more: the last handle is not a sync one either, as in the next mount an orphan goes in any case.
fn delete(inode: &Inode) -> Result {
    let sb = inode.super_block();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let extents = has_extents(inode);
    let credits = map::credits_remove(inode).max(CREDITS_LAST);
    let revokes = map::revokes_remove(inode);
    let mut handle = journal::start_freeing(sb, credits, revokes, Kind::Truncate)?;
    map::lower_size(inode, 0);
    if extents {
        // Writes the inode, too.
        map::remove(&mut handle, inode, 0, u32::MAX)?;
    } else {
        inode.data().raw.lock().i_block = [0; I_BLOCK_SIZE];
        mark_dirty(&handle, inode)?;
    }
    let mut released = xattr::Released::new();
    xattr::release(&mut handle, inode, &mut released)?;
    if released.is_empty() {
        handle.ensure(CREDITS_LAST, 0)?;
    } else {
        // With the last reference inodes that held values are deleted, in handles of their own.
        handle.stop()?;
        drop(released);
        handle = journal::start(sb, CREDITS_LAST, Kind::Truncate)?;
    }
    orphan::del(&handle, inode)?;
    mark_deleted(&handle, inode)?;
    // A bitmap that is bad is reported, and the inode remains in use in it.
    let freed = alloc::free_inode(&handle, sb, ino, inode.mode());
    handle.stop()?;
    freed
}
