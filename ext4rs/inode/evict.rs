// SPDX-License-Identifier: GPL-2.0

//! The end of an inode: in memory, and if nothing names it any more, on disk. Behaviour:
//! `ext4_evict_inode`, `ext4_free_inode`.

use super::{has_extents, mark_dirty, set_dtime, Inode};
use crate::{
    alloc,
    journal::{self, Handle, Kind},
    map, metadata, orphan, report,
};
use ext4rs_layout::{inode::I_BLOCK_SIZE, xattr};
use ext4rs_vfs::{fs::now_seconds, jbd2::Journal};
use kernel::prelude::*;

/// Blocks that the last step of a deletion changes: the block of attributes, with the bitmap and the
/// descriptor of its group; the orphans; the inode's number.
const CREDITS_LAST: u32 = 3 + orphan::CREDITS + alloc::CREDITS_FREE_INODE + super::CREDITS_DIRTY;

/// Revokes of the last step: the block of attributes.
const REVOKES_LAST: u32 = 1;

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
fn delete(inode: &Inode) -> Result {
    let sb = inode.super_block();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let extents = has_extents(inode);
    let credits = map::credits_remove(inode).max(CREDITS_LAST);
    let revokes = map::revokes_remove(inode).max(REVOKES_LAST);
    let mut handle = journal::start_freeing(sb, credits, revokes, Kind::Truncate)?;
    if inode.is_sync() {
        handle.set_sync();
    }
    map::lower_size(inode, 0);
    if !extents {
        inode.data().raw.lock().i_block = [0; I_BLOCK_SIZE];
    }
    mark_dirty(&handle, inode)?;
    if extents {
        map::remove(&mut handle, inode, 0, u32::MAX)?;
    }
    handle.ensure(CREDITS_LAST, REVOKES_LAST)?;
    release_attributes(&handle, inode)?;
    orphan::del(&handle, inode)?;
    // At least 1: a deletion time of 0 is none.
    let now = u32::try_from(now_seconds()).unwrap_or(u32::MAX);
    set_dtime(&handle, sb, ino, now.max(1))?;
    mark_dirty(&handle, inode)?;
    // A bitmap that is bad is reported, and the inode remains in use in it.
    let freed = alloc::free_inode(&handle, sb, ino, inode.mode());
    handle.stop()?;
    freed
}

/// Gives up the inode's block of attributes: frees it if no other inode shares it.
fn release_attributes(handle: &Handle<'_>, inode: &Inode) -> Result {
    let block = core::mem::take(&mut inode.data().raw.lock().file_acl);
    if block == 0 {
        return Ok(());
    }
    let sb = inode.super_block();
    let seed = sb.data().seed;
    let source = metadata::Source {
        function: "release_attributes",
        what: "attribute block",
        ino: Some(inode.ino()),
    };
    let rules = xattr::Rules::new(&sb.data().disk);
    let read = metadata::read(sb, source, block, |bytes| {
        xattr::verify_block(bytes, block, seed)
    });
    // A block that cannot be read was reported; it is lost until e2fsck.
    let Ok(buffer) = read else {
        return Ok(());
    };
    let header = buffer
        .read(|bytes| xattr::block(bytes, &rules).map(|(header, _)| header))
        .map_err(|e| {
            report::from_layout(sb, "release_attributes", Some(inode.ino()), Some(block), e)
        });
    match header {
        Ok(header) if header.refcount > 1 => {
            handle
                .modify(&buffer, |bytes| {
                    xattr::set_refcount(bytes, header.refcount.saturating_sub(1), block, seed)
                })?
                .map_err(|_| EFSCORRUPTED)?;
        }
        Ok(_) => {
            drop(buffer);
            let run = alloc::blocks::Run {
                start: block,
                len: 1,
            };
            alloc::blocks::free(handle, inode, run, alloc::blocks::Kind::Metadata)?;
        }
        Err(_) => {}
    }
    inode.sub_bytes(sb.data().geo.block_size.into());
    Ok(())
}
