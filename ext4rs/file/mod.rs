// SPDX-License-Identifier: GPL-2.0

//! Regular files: reading, writing, and bringing them to stable storage.

pub(crate) mod buffered;
mod fsync;
pub(crate) mod ioctl;
mod ops;
mod report;

pub(crate) use self::buffered::{grow, zero_behind_end};
pub(crate) use self::fsync::sync_inode;

use crate::{
    inode::Inode,
    map::{Extent, Kind},
};
use core::ops::Range;
use ext4rs_vfs::iomap::{self, Iomap};
use kernel::prelude::*;

/// The logical blocks that the bytes `start..end` lie in, as far as block numbers go.
///
/// # Errors
///
/// `EFBIG` if `start` is beyond that.
pub(crate) fn blocks_over(inode: &Inode, start: u64, end: u64) -> Result<Range<u32>> {
    let geo = &inode.super_block().data().geo;
    let first = u32::try_from(start >> geo.block_bits).map_err(|_| EFBIG)?;
    let rest = u64::from(geo.block_size).saturating_sub(1);
    let last = end.saturating_add(rest) >> geo.block_bits;
    Ok(first..u32::try_from(last).unwrap_or(u32::MAX))
}

/// Where a logical block begins in the file, in bytes.
pub(crate) fn position(inode: &Inode, lblk: u32) -> u64 {
    u64::from(lblk) << inode.super_block().data().geo.block_bits
}

/// A mapping as iomap takes it, with its sequence number for a cookie.
pub(crate) fn to_iomap(inode: &Inode, extent: &Extent) -> Iomap {
    let bits = inode.super_block().data().geo.block_bits;
    let kind = match extent.kind {
        Kind::Hole => iomap::Kind::Hole,
        Kind::Delalloc => iomap::Kind::Delalloc,
        Kind::Written(block) => iomap::Kind::Mapped(block << bits),
        Kind::Unwritten(block) => iomap::Kind::Unwritten(block << bits),
    };
    Iomap {
        cookie: extent.seq.into(),
        ..Iomap::new(
            kind,
            position(inode, extent.lblk),
            u64::from(extent.len) << bits,
        )
    }
}
