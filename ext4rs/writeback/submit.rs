// SPDX-License-Identifier: GPL-2.0

//! Step 2: a folio that is mapped is sent.
//!
//! Everything here runs under a folio lock: no handle, no allocation of blocks.

use crate::{
    file::{blocks_over, position, to_iomap},
    inode::Inode,
    map::{self, Extent, Kind},
    volume::Ext4,
};
use core::ops::Range;
use ext4rs_vfs::{
    folio::LockedFolio,
    iomap::{self, Iomap},
    writeback::WritebackOps,
};
use kernel::prelude::*;

/// How many separate conversions the credits of one window pay for. A window that step 1 made needs
/// one. Others are over space that was unwritten before: it may be in several extents, and dirty
/// blocks in it may be apart, of which nobody knows before they are sent.
pub(super) const PIECES: u32 = 2;

/// What a folio needs before it can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Ready,
    /// The blocks from this one on wait for allocation: step 1.
    Map(u32),
    /// It has unwritten blocks, and the open window cannot pay for their conversion.
    Window,
    /// It has more unwritten blocks apart than any window can pay for, and is not up to date, so
    /// that it cannot be sent in parts: it must be read first.
    ReadIn,
}

/// The last mapping that was looked up.
#[derive(Default)]
struct Cached(Option<Extent>);

impl Cached {
    /// The mapping that covers a block, which is in a folio that is locked: as long as that is so,
    /// a mapping of its blocks that is true stays true (rule 13).
    fn at(&mut self, inode: &Inode, lblk: u32) -> Result<Extent> {
        if let Some(extent) = self.0 {
            if extent.seq == map::seq(inode) && extent.lblk <= lblk && lblk < end_of(&extent) {
                return Ok(extent);
            }
        }
        let extent = map::lookup(inode, lblk, u32::MAX.saturating_sub(lblk).max(1))?;
        self.0 = Some(extent);
        Ok(extent)
    }
}

/// The block after the last one of a mapping.
fn end_of(extent: &Extent) -> u32 {
    extent.lblk.saturating_add(extent.len)
}

/// What the open window can still pay for.
#[derive(Default)]
struct Allowance {
    /// Conversions.
    left: u32,
    /// The logical and the physical block after what was sent last in the window: what goes on
    /// there is converted with it.
    next: Option<(u32, u64)>,
    /// The most blocks that are still to be sent in it: the write-back of its first folio ends when
    /// all of it is converted.
    blocks: u32,
}

impl Allowance {
    /// Takes what the conversion of `len` blocks costs; `false` if it is not there.
    fn take(&mut self, lblk: u32, block: u64, len: u32) -> bool {
        if self.next != Some((lblk, block)) {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => return false,
            }
        }
        self.next = Some((lblk.saturating_add(len), block.saturating_add(len.into())));
        self.blocks = self.blocks.saturating_sub(len);
        true
    }
}

/// The part of the loop that looks at a locked folio, and tells iomap where its blocks go.
#[derive(Default)]
pub(super) struct Sender {
    cached: Cached,
    window: Allowance,
    left_out: bool,
}

impl Sender {
    /// A window was opened, for about `blocks` blocks.
    pub(super) fn window_opened(&mut self, blocks: u32) {
        self.window = Allowance {
            left: PIECES,
            next: None,
            blocks,
        };
    }

    /// The window was closed.
    pub(super) fn window_closed(&mut self) {
        self.window = Allowance::default();
    }

    /// Decides what a locked dirty folio needs before it is sent (rule 3).
    pub(super) fn examine(&mut self, inode: &Inode, folio: &LockedFolio<'_>) -> Result<Verdict> {
        let blocks = blocks_in_file(inode, folio)?;
        let mut lblk = blocks.start;
        // The most conversions that the folio can cost: each other block is dirty.
        let mut pieces = 0u32;
        while lblk < blocks.end {
            let extent = self.cached.at(inode, lblk)?;
            let end = end_of(&extent).min(blocks.end);
            match extent.kind {
                Kind::Delalloc => return Ok(Verdict::Map(lblk)),
                Kind::Unwritten(_) => {
                    pieces = pieces.saturating_add(end.saturating_sub(lblk).div_ceil(2));
                }
                // No data is in a hole: the folio's other blocks are dirty.
                Kind::Hole | Kind::Written(_) => {}
            }
            if end <= lblk {
                return Err(EFSCORRUPTED);
            }
            lblk = end;
        }
        if folio.is_uptodate() {
            // What cannot be paid for is left out, and all of the folio written again.
            pieces = pieces.min(1);
        }
        Ok(
            if pieces == 0 || (pieces <= self.window.left && self.window.blocks > 0) {
                Verdict::Ready
            } else if pieces <= PIECES {
                Verdict::Window
            } else {
                Verdict::ReadIn
            },
        )
    }
}

impl WritebackOps<Ext4> for Sender {
    fn map(&mut self, inode: &Inode, pos: u64, len: u64) -> Result<Iomap> {
        let dirty = blocks_over(inode, pos, pos.saturating_add(len))?;
        let extent = self.cached.at(inode, dirty.start)?;
        if let Kind::Unwritten(block) = extent.kind {
            let end = end_of(&extent).min(dirty.end);
            let blocks = end.saturating_sub(dirty.start);
            let block = block.saturating_add(dirty.start.saturating_sub(extent.lblk).into());
            if !self.window.take(dirty.start, block, blocks) {
                self.left_out = true;
                let bytes = position(inode, end).saturating_sub(pos);
                return Ok(Iomap::new(iomap::Kind::Hole, pos, bytes));
            }
        }
        if let Kind::Written(_) = extent.kind {
            // The folio is under write-back, for which a commit waits.
            let end = end_of(&extent).min(dirty.end);
            map::sent(inode, dirty.start, end.saturating_sub(dirty.start));
        }
        Ok(to_iomap(inode, &extent))
    }

    fn left_out(&mut self) -> bool {
        core::mem::take(&mut self.left_out)
    }
}

/// The blocks of a folio that lie within the file.
pub(super) fn blocks_in_file(inode: &Inode, folio: &LockedFolio<'_>) -> Result<Range<u32>> {
    let end = folio.end().min(inode.size());
    if end <= folio.pos() {
        return Ok(0..0);
    }
    blocks_over(inode, folio.pos(), end)
}
