// SPDX-License-Identifier: GPL-2.0

//! Bringing a file to stable storage.

use crate::{inode::Inode, journal, volume::Ext4};
use ext4rs_vfs::fs::File;
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Brings the bytes `start..end` of an open file, and what is needed to find them, to stable
/// storage; with `datasync` no more than that.
///
/// Write-back is over before the transaction is looked up: data in blocks that were unwritten ends
/// its write-back only when they are converted, so that the transaction is one that the conversion
/// is in, or a later one.
pub(super) fn fsync(file: &File<Ext4>, start: u64, end: u64, datasync: bool) -> Result {
    file.write_and_wait(start, end)?;
    sync_inode(file.inode(), datasync)
}

/// Brings all changes of an inode's metadata to stable storage; with `datasync` those that are
/// needed to find its data. What was written to the device before is stable then, too.
pub(crate) fn sync_inode(inode: &Inode, datasync: bool) -> Result {
    let sb = inode.super_block();
    if sb.is_read_only() {
        return sb.data().check_running();
    }
    let info = inode.data();
    let tid = if datasync {
        &info.datasync_tid
    } else {
        &info.sync_tid
    };
    journal::commit(sb, tid.load(Relaxed))
}
