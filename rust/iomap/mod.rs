// SPDX-License-Identifier: GPL-2.0

//! File operations on top of block mappings.
//!
//! The kernel's iomap library does the work of the page cache: copying in and out, read-ahead,
//! the state of each block of a folio, zeroing. A filesystem gives it mappings, by implementing
//! [`IomapOps`] once for each way in which it maps (for reading, for buffered writing), and hands its
//! regular files over with [`AddressSpaceOps`].
//!
//! C headers: [`include/linux/iomap.h`](srctree/include/linux/iomap.h)

mod aops;
mod buffered;
mod direct;
mod fault;
mod ops;
mod report;

pub(crate) use self::aops::aops;
pub use self::aops::AddressSpaceOps;
pub use self::buffered::{truncate_page, write, zero_range, WriteOps};
pub use self::direct::read_direct;
pub(crate) use self::fault::vm_ops;
pub use self::ops::{IomapOps, Request};
pub use self::report::{bmap, ReportOps};
pub(crate) use self::report::{fiemap, llseek};

use crate::{
    bindings,
    fs::{FileSystem, INode},
    mapping::MAX_OFFSET,
};
use kernel::prelude::*;

/// What stands behind a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it reads as zeros.
    Hole,
    /// Space that is reserved and has no address yet; the data is in the page cache.
    Delalloc,
    /// Blocks that hold data, from this address on (bytes on the volume's device).
    Mapped(u64),
    /// Blocks that hold no data yet and read as zeros, from this address on (bytes).
    Unwritten(u64),
    /// Bytes among the filesystem's own metadata, from this address on (bytes). It can be told of, not
    /// read or written.
    Inline(u64),
}

/// What else is to be said about a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFlags(u16);

impl MapFlags {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The space was reserved or allocated by this very call: parts of a block that are not
    /// written are zeroed, and what is not written is given back in [`IomapOps::end`].
    pub const NEW: Self = Self(bindings::IOMAP_F_NEW as u16);
    /// The inode's metadata that reading the data back needs is not on disk yet.
    pub const DIRTY: Self = Self(bindings::IOMAP_F_DIRTY as u16);
    /// The mapping is made of several extents that lie next to each other.
    pub const MERGED: Self = Self(bindings::IOMAP_F_MERGED as u16);
    /// Set by iomap before [`IomapOps::end`]: the operation changed the file's size.
    pub const SIZE_CHANGED: Self = Self(bindings::IOMAP_F_SIZE_CHANGED as u16);
    /// Set by iomap before [`IomapOps::end`]: the mapping was found out of date.
    pub const STALE: Self = Self(bindings::IOMAP_F_STALE as u16);

    /// Whether all of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for MapFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One mapping: a range of a file and what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iomap {
    /// What stands behind the range.
    pub kind: Kind,
    /// Where the range begins in the file, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: u64,
    /// What else is to be said.
    pub flags: MapFlags,
    /// The state of the file's mappings when this one was looked up, for [`WriteOps::is_valid`].
    pub cookie: u64,
}

impl Iomap {
    /// A mapping without flags and with cookie 0.
    pub fn new(kind: Kind, offset: u64, len: u64) -> Self {
        Self {
            kind,
            offset,
            len,
            flags: MapFlags::NONE,
            cookie: 0,
        }
    }

    /// Where the range ends in the file, in bytes.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether the byte at `pos` lies in the range.
    pub fn covers(&self, pos: u64) -> bool {
        self.offset <= pos && pos < self.end()
    }

    /// Writes the mapping for C to read. `pos` is the byte that the mapping was asked for.
    ///
    /// # Errors
    ///
    /// `EIO` if the mapping does not cover `pos` or does not lie within a file's greatest size:
    /// iomap computes with it unchecked, so that such a one must not get there.
    pub(crate) fn fill<T: FileSystem>(
        &self,
        inode: &INode<T>,
        pos: u64,
        out: &mut bindings::iomap,
    ) -> Result {
        let end = self.offset.checked_add(self.len).ok_or(EIO)?;
        if !self.covers(pos) || end > MAX_OFFSET {
            return Err(EIO);
        }
        let (kind, addr) = match self.kind {
            Kind::Hole => (bindings::IOMAP_HOLE, NULL_ADDR),
            Kind::Delalloc => (bindings::IOMAP_DELALLOC, NULL_ADDR),
            Kind::Mapped(addr) => (bindings::IOMAP_MAPPED, addr),
            Kind::Unwritten(addr) => (bindings::IOMAP_UNWRITTEN, addr),
            Kind::Inline(addr) => (bindings::IOMAP_INLINE, addr),
        };
        out.addr = addr;
        out.offset = self.offset as bindings::loff_t;
        out.length = self.len;
        out.type_ = kind as u16;
        out.flags = self.flags.0;
        // SAFETY: The superblock lives as long as its inode, and so does its device.
        out.bdev = unsafe { (*inode.super_block().as_ptr()).s_bdev };
        out.validity_cookie = self.cookie;
        Ok(())
    }

    /// Reads a mapping back that [`Iomap::fill`] wrote.
    pub(crate) fn read(map: &bindings::iomap) -> Self {
        let kind = match u32::from(map.type_) {
            bindings::IOMAP_DELALLOC => Kind::Delalloc,
            bindings::IOMAP_MAPPED => Kind::Mapped(map.addr),
            bindings::IOMAP_UNWRITTEN => Kind::Unwritten(map.addr),
            bindings::IOMAP_INLINE => Kind::Inline(map.addr),
            _ => Kind::Hole,
        };
        Self {
            kind,
            offset: u64::try_from(map.offset).unwrap_or(0),
            len: map.length,
            flags: MapFlags(map.flags),
            cookie: map.validity_cookie,
        }
    }
}

/// The address of a mapping that has none.
pub(crate) const NULL_ADDR: u64 = u64::MAX;
