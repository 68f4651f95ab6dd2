// SPDX-License-Identifier: GPL-2.0

//! Cutting a file short. Behaviour: `ext4_setattr`, `ext4_truncate`.
//!
//! The size is lowered in one handle, in which the file becomes an orphan; then the folios behind
//! its end go, which waits for their write-back; then what is left of its last block is zeroed, on
//! the disk, too; then, in as many transactions as that takes, its blocks go. If the machine stops
//! between, the next mount goes on with the last two steps. Nothing is written or waited for before,
//! but data of blocks that a transaction made written (UNSENT): it may commit without the cut. What
//! else is cut off need not reach the disk, and what stays does not depend on it.

use super::{has_extents, mark_dirty, Inode};
use crate::{
    file::{self, position},
    journal::{self, Handle, Kind},
    map, orphan,
};
use ext4rs_vfs::mapping::MAX_OFFSET;
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Blocks that the end of a truncation changes.
const CREDITS_END: u32 = orphan::CREDITS + super::CREDITS_DIRTY;

/// Makes a regular file shorter: `size` bytes, which is less than it has. The caller holds `i_rwsem`.
/// `change` changes what else changes with the size, in the same handle, before the inode is written.
///
/// # Errors
///
/// If the size has not changed nothing has. Otherwise the file is an orphan, and blocks behind its
/// end may be left to the next mount.
pub(super) fn shorten(inode: &Inode, size: u64, change: impl FnOnce()) -> Result {
    inode.wait_direct_io();
    let _lock = inode.mapping().invalidate_lock();
    let behind = file::blocks_over(inode, 0, size)?.end;
    let handle = loop {
        let handle = journal::start(inode.super_block(), CREDITS_END, Kind::Inode)?;
        // A commit under way has these blocks, and the size over them, without this handle's change:
        // their data goes out before the folios are dropped (rule 10). Nobody adds any meanwhile but
        // write-back, of what is dirty already.
        if map::next_unsent(inode, behind).is_none() {
            break handle;
        }
        handle.stop()?;
        inode
            .mapping()
            .write_and_wait_range(position(inode, behind), MAX_OFFSET)?;
        if map::next_unsent(inode, behind).is_some() {
            // What could not be written is not shown to anybody: the file is cut.
            break journal::start(inode.super_block(), CREDITS_END, Kind::Inode)?;
        }
    };
    orphan::add(&handle, inode)?;
    // In this handle, so that no other transaction can have the size without the orphan.
    map::lower_size(inode, size);
    change();
    mark_dirty(&handle, inode)?;
    handle.stop()?;
    inode.mapping().truncate_pagecache(size);
    truncate(inode)
}

/// Removes what blocks the file has behind its end without becoming shorter: space that was
/// allocated ahead. The caller holds `i_rwsem`.
pub(super) fn trim(inode: &Inode) -> Result {
    let _lock = inode.mapping().invalidate_lock();
    note_emptied(inode);
    if map::has_blocks_from(inode, first_behind(inode)?)? {
        truncate(inode)?;
    }
    Ok(())
}

/// If the file is empty, what is written to it next replaces the old content, and is to be on disk
/// soon after it is complete.
fn note_emptied(inode: &Inode) {
    let asked = inode.super_block().data().options.lock().auto_da_alloc;
    if asked && inode.is_reg() && inode.size() == 0 {
        inode.data().flush_on_close.store(true, Relaxed);
    }
}

/// The first block behind the file's end.
fn first_behind(inode: &Inode) -> Result<u32> {
    Ok(file::blocks_over(inode, 0, inode.size())?.end)
}

/// Removes all blocks behind the file's end, and zeros what is behind it in its last block: on the
/// disk before the file is an orphan no more. The folios there are gone. The caller holds the invalidate_lock, and `i_rwsem` or the only reference.
///
/// # Errors
///
/// As [`map::remove`], or of writing the zeros: the file is an orphan then.
pub(crate) fn truncate(inode: &Inode) -> Result {
    if !has_extents(inode) {
        return Ok(());
    }
    if inode.is_reg() {
        file::zero_behind_end(inode)?;
        note_emptied(inode);
    }
    let sb = inode.super_block();
    let from = first_behind(inode)?;
    let credits = map::credits_remove(inode).max(CREDITS_END);
    let mut handle =
        journal::start_freeing(sb, credits, map::revokes_remove(inode), Kind::Truncate)?;
    if inode.is_sync() {
        handle.set_sync();
    }
    orphan::add(&handle, inode)?;
    map::remove(&mut handle, inode, from, u32::MAX)?;
    finish(handle, inode)
}

/// The last block is gone: the file is an orphan no more, unless it has no link.
fn finish(mut handle: Handle<'_>, inode: &Inode) -> Result {
    handle.ensure(CREDITS_END, 0)?;
    if inode.nlink() > 0 {
        orphan::del(&handle, inode)?;
    }
    mark_dirty(&handle, inode)?;
    handle.stop()
}
