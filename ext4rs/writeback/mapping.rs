// SPDX-License-Identifier: GPL-2.0

//! Step 1 by itself: a run of blocks that wait for allocation gets its place on disk.
//!
//! Write-back calls it for the folios that it meets; with `nodelalloc` the write call does, when it
//! has copied (rule 2). No folio is locked and no bio is open.

use super::cap;
use crate::{
    alloc,
    file::position,
    inode::Inode,
    journal::{self, Handle, Kind},
    map::{self, Extent, Fresh},
};
use core::ops::Range;
use kernel::prelude::*;

/// Allocates the first run of waiting blocks in `from..end`, or a part of it, as
/// [`map::map_delalloc_run`] does, and counts it. What is written from the beginning is attached to
/// the handle's transaction.
pub(super) fn map_run(
    handle: &Handle<'_>,
    inode: &Inode,
    from: u32,
    end: u32,
    fresh: Fresh,
) -> Result<Option<Extent>> {
    let vol = inode.super_block().data();
    let mapped = map::map_delalloc_run(handle, inode, from, end, cap(vol), fresh)?;
    if let Some(run) = &mapped {
        if fresh == Fresh::Ordered {
            let bytes = u64::from(run.len) << vol.geo.block_bits;
            handle.ranged_write(inode, position(inode, run.lblk), bytes)?;
        }
        let counters = &vol.writeback.counters;
        counters.runs_mapped.add(1);
        counters.blocks_mapped.add(run.len.into());
    }
    Ok(mapped)
}

/// As [`map_run`], in a handle of its own, that reserves nothing.
pub(super) fn map_written(
    inode: &Inode,
    from: u32,
    end: u32,
    fresh: Fresh,
) -> Result<Option<Extent>> {
    let handle = journal::start(
        inode.super_block(),
        map::credits_map(inode),
        Kind::WritePage,
    )?;
    let mapped = map_run(&handle, inode, from, end, fresh)?;
    handle.stop()?;
    Ok(mapped)
}

/// Allocates all waiting blocks in `blocks`, for a write that does not leave this to write-back
/// (`nodelalloc`). Blocks that cannot be had now go on waiting; their space is reserved.
///
/// # Errors
///
/// Those that stop the volume.
pub(crate) fn map_now(inode: &Inode, blocks: Range<u32>) -> Result {
    let sb = inode.super_block();
    let fresh = sb.data().options.lock().fresh();
    let mut from = blocks.start;
    while from < blocks.end {
        let mapped = match map_written(inode, from, blocks.end, fresh) {
            // The handle has stopped, and nothing is locked that a commit waits for.
            Err(e) if e == ENOSPC && alloc::commit_freed(sb) => {
                map_written(inode, from, blocks.end, fresh)
            }
            mapped => mapped,
        };
        match mapped {
            Ok(Some(run)) => from = run.lblk.saturating_add(run.len),
            Ok(None) => break,
            Err(e) if e == ENOSPC || e == ENOMEM => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
