// SPDX-License-Identifier: GPL-2.0

//! The ordered flush: before a transaction commits, the data of the blocks that it makes written is
//! on its way (rule 4).
//!
//! jbd2's commit thread runs this. Nothing is allocated here and no handle of any kind is started. It
//! goes by the UNSENT blocks, not by dirty folios: a write fault maps before it dirties, and holds
//! the folio lock meanwhile.

use super::writepages::Pass;
use crate::{
    file::{blocks_over, position},
    inode::Inode,
    map::{self, Kind},
    volume::Ext4,
};
use core::ops::Range;
use ext4rs_vfs::{
    folio::{LockedFolio, PAGE_SHIFT},
    jbd2::OrderedData,
    plug::with_plug,
    writeback::Control,
};
use kernel::prelude::*;

impl OrderedData for Ext4 {
    fn ordered_flush(inode: &Inode, start: u64, end: u64) -> Result {
        let blocks = blocks_over(inode, start, end.saturating_add(1))?;
        if !is_unsent(inode, &blocks) {
            return Ok(());
        }
        inode
            .super_block()
            .data()
            .writeback
            .counters
            .ordered_flushes
            .add(1);
        Control::with_integrity(inode, start, end, |control| {
            with_plug(|| {
                let mut pass = Pass::new(inode, control);
                let result = flush(&mut pass, inode, blocks);
                pass.finish(result)
            })
        })
    }
}

/// Whether any of the blocks is UNSENT.
fn is_unsent(inode: &Inode, blocks: &Range<u32>) -> bool {
    map::next_unsent(inode, blocks.start).is_some_and(|run| run.start < blocks.end)
}

/// Sends the UNSENT blocks among `blocks`, in the order of the file. Goes on after an error, and
/// gives the first one.
fn flush(pass: &mut Pass<'_>, inode: &Inode, blocks: Range<u32>) -> Result {
    let mut at = blocks.start;
    let mut first = Ok(());
    while let Some(run) = map::next_unsent(inode, at) {
        at = run.start.max(at);
        if at >= blocks.end {
            break;
        }
        let pos = position(inode, at);
        let next = match inode.mapping().folio(pos >> PAGE_SHIFT) {
            Some(folio) => {
                let locked = folio.lock();
                let end = locked.end();
                if let Err(e) = flush_folio(pass, inode, locked) {
                    first = first.and(Err(e));
                }
                end
            }
            // It was cut off meanwhile.
            None => ((pos >> PAGE_SHIFT).saturating_add(1)) << PAGE_SHIFT,
        };
        at = blocks_over(inode, 0, next)?.end.max(at.saturating_add(1));
    }
    first
}

/// Sends a folio, or what is UNSENT of it if another part of it must wait for its place on disk or
/// for a conversion.
fn flush_folio(pass: &mut Pass<'_>, inode: &Inode, folio: LockedFolio<'_>) -> Result {
    if !folio.belongs_to(inode.mapping()) || !folio.is_dirty() {
        return Ok(());
    }
    if pass.is_wholly_written(&folio)? {
        return pass.send(folio).map(drop);
    }
    pass.close_window()?;
    write_unsent(pass, inode, &folio)
}

/// Writes exactly the UNSENT blocks of a locked folio, and waits for them. The folio stays dirty. No
/// bio is open.
pub(super) fn write_unsent(pass: &mut Pass<'_>, inode: &Inode, folio: &LockedFolio<'_>) -> Result {
    let blocks = super::submit::blocks_in_file(inode, folio)?;
    let mut at = blocks.start;
    let mut partial = false;
    while let Some(run) = map::next_unsent(inode, at) {
        at = run.start.max(at);
        if at >= blocks.end {
            break;
        }
        let len = run.end.min(blocks.end).saturating_sub(at);
        let extent = map::lookup(inode, at, len)?;
        let Kind::Written(block) = extent.kind else {
            return Err(EFSCORRUPTED);
        };
        let bits = inode.super_block().data().geo.block_bits;
        let bytes = u64::from(extent.len) << bits;
        pass.write_part(folio, position(inode, at), bytes, block << bits)?;
        map::sent(inode, at, extent.len);
        at = at.saturating_add(extent.len);
        partial = true;
    }
    if partial {
        inode
            .super_block()
            .data()
            .writeback
            .counters
            .ordered_partial
            .add(1);
    }
    Ok(())
}
