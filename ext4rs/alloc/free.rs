// SPDX-License-Identifier: GPL-2.0

//! Giving back blocks. Behaviour: `ext4_free_blocks`.

use super::{
    blocks::{self, Kind, Run},
    buddy::Span,
    groups::{self, Fault, Which},
    space,
};
use crate::{
    inode::Inode,
    journal::{self, Handle},
    report,
    volume::Sb,
};
use ext4rs_layout::{bitmap, Error as LayoutError};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Frees blocks of a file that nothing refers to any more, within `handle`. Nobody gets them before
/// the handle's transaction is committed (rule 12). The caller takes them off the inode's count.
///
/// Metadata, as which the blocks of directories and symlinks count, is revoked: no older content of
/// it in the log overwrites what comes to lie there. That takes one revoke for each block. Takes two
/// credits for each group that has some of the blocks. The group lock is taken; the mapping lock may
/// be held. Sleeps.
///
/// Blocks that are free already, or belong to a group whose bitmap is bad, are reported and stay as
/// they are: they are lost until e2fsck, which is no reason to keep the file.
///
/// # Errors
///
/// The volume has stopped.
pub(crate) fn free(handle: &Handle<'_>, inode: &Inode, run: Run, kind: Kind) -> Result {
    let sb = inode.super_block();
    let geo = &sb.data().geo;
    if !groups::valid_blocks(sb, run.start, run.len, false) {
        report::corrupt(
            sb,
            "free_blocks",
            Some(inode.ino()),
            Some(run.start),
            fmt!("freeing {} blocks that no file can have", run.len),
        );
        return Ok(());
    }
    let mut start = run.start;
    let mut left = run.len;
    while left > 0 {
        let (number, bit) = geo.block_group(start).ok_or(EFSCORRUPTED)?;
        let span = Span {
            start: bit,
            len: left.min(geo.blocks_in_group(number).saturating_sub(bit)),
        };
        if span.len == 0 {
            return Err(EFSCORRUPTED);
        }
        let end = start.checked_add(span.len.into()).ok_or(EFSCORRUPTED)?;
        if free_in_group(handle, sb, number, span)? && (kind == Kind::Metadata || !inode.is_reg()) {
            for block in start..end {
                handle.revoke(block)?;
            }
        }
        start = end;
        left = left.saturating_sub(span.len);
    }
    Ok(())
}

/// Frees blocks of one group. `false` if that cannot be done, which is reported then.
fn free_in_group(handle: &Handle<'_>, sb: &Sb, number: u32, span: Span) -> Result<bool> {
    let vol = sb.data();
    let group = groups::get(vol, number)?;
    let tid = handle.tid().to_raw();
    {
        let mut state = group.lock.lock();
        if state.blocks_corrupt {
            return Ok(false);
        }
        let desc = groups::desc(sb, number)?;
        let bad = LayoutError::Corrupt("freeing blocks that are free; block bitmap corrupt");
        let fault = match groups::block_bitmap(sb, number, &desc) {
            Ok(map) => {
                let in_use = map.read(|bytes| bitmap::all_set(bytes, span.start, span.end()));
                if in_use && !groups::blocks_uninit(vol, &desc) {
                    blocks::write(handle, sb, number, &desc, map, span, false)?;
                    // Or what earlier transactions freed would be held with this one.
                    state.held.release(|tid| journal::is_committed(vol, tid));
                    state.held.add(tid, span);
                    None
                } else {
                    Some(Fault::Bad(bad))
                }
            }
            Err(fault) => Some(fault),
        };
        if let Some(fault) = fault {
            groups::mark_fault(vol, group, &mut state, Which::Blocks, &fault);
            drop(state);
            groups::report_fault(sb, "free_blocks", number, desc.block_bitmap, fault)?;
            return Ok(false);
        }
        let free = desc.free_clusters.saturating_add(span.len);
        group.free.store(free, Relaxed);
        // No more than an upper bound is wanted.
        group.longest_run.store(free, Relaxed);
    }
    space::hold(vol, span.len.into(), tid);
    Ok(true)
}
