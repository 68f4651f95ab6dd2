// SPDX-License-Identifier: GPL-2.0

//! Where a file's or directory's data and attributes are, for those who ask.

use super::buffered::ReadMap;
use crate::{
    inode::Inode,
    volume::Ext4,
    xattr::{self, Place},
};
use ext4rs_vfs::iomap::{Iomap, IomapOps, Kind, ReportOps, Request};
use kernel::prelude::*;

impl ReportOps for Ext4 {
    type DataMap = ReadMap;
    type XattrMap = XattrMap;
}

/// Where a file's extended attributes are, as the bytes of a file: as ext4 tells it, one range, its
/// own space if there are any in it, else its block.
pub(crate) enum XattrMap {}

impl IomapOps<Ext4> for XattrMap {
    fn begin(inode: &Inode, request: &Request) -> Result<Iomap> {
        let block_size = inode.super_block().block_size().into();
        let (kind, len) = match xattr::place(inode)? {
            Some(Place::Body(bytes)) => (
                Kind::Inline(bytes.start),
                bytes.end.saturating_sub(bytes.start),
            ),
            Some(Place::Block(block)) => {
                (Kind::Mapped(block.saturating_mul(block_size)), block_size)
            }
            None => return Err(ENOENT),
        };
        if request.pos >= len {
            return Err(ENOENT);
        }
        Ok(Iomap::new(kind, 0, len))
    }
}
