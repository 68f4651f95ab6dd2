// SPDX-License-Identifier: GPL-2.0

//! The space behind an inode's fields. What is in it changes only under the inode's attribute lock;
//! who writes the inode's fields leaves it as it is.

use super::bad;
use crate::{
    inode::{self, Inode},
    journal::Handle,
};
use core::ops::Range;
use ext4rs_layout::{
    inode as disk,
    xattr::{self as format, Rules},
};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// The space of one inode.
pub(super) struct Body {
    /// The block of the inode table.
    buffer: BufferHead,
    /// Where the inode is in it.
    offset: usize,
}

impl Body {
    /// The inode's space; `None` if it has none.
    pub(super) fn new(inode: &Inode) -> Result<Option<Self>> {
        if inode.data().raw.lock().extra_isize == 0 {
            return Ok(None);
        }
        let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
        let (buffer, offset) = inode::table_block(inode.super_block(), ino)?;
        let body = Self { buffer, offset };
        Ok((body.len(inode)? > 0).then_some(body))
    }

    /// Runs `f` on the space, under a spinlock.
    fn look<R>(
        &self,
        inode: &Inode,
        f: impl FnOnce(&[u8]) -> ext4rs_layout::Result<R>,
    ) -> Result<R> {
        let inode_format = &inode.super_block().data().inode_format;
        self.buffer
            .read(|b| {
                disk::xattr_region(b.get(self.offset..).unwrap_or(&[]), inode_format)
                    .and_then(|region| f(region.unwrap_or(&[])))
            })
            .map_err(|e| bad(inode, "xattr_ibody_get", None, e))
    }

    fn len(&self, inode: &Inode) -> Result<usize> {
        self.look(inode, |region| Ok(region.len()))
    }

    /// Where the space is on the device, in bytes.
    pub(super) fn bytes(&self, inode: &Inode) -> Result<Range<u64>> {
        let vol = inode.super_block().data();
        let end = self
            .offset
            .checked_add(vol.inode_format.inode_size as usize);
        let end = end.ok_or(EFSCORRUPTED)? as u64;
        let start = end.saturating_sub(self.len(inode)? as u64);
        let block = self.buffer.block() << vol.geo.block_bits;
        Ok(block.saturating_add(start)..block.saturating_add(end))
    }

    /// A copy, if there are attributes.
    pub(super) fn copy_list(&self, inode: &Inode, rules: &Rules) -> Result<Option<KVec<u8>>> {
        // Most inodes have none: then nothing needs to be copied.
        if self.look(inode, |region| Ok(format::ibody(region, rules)?.is_none()))? {
            return Ok(None);
        }
        self.copy(inode).map(Some)
    }

    /// A copy.
    pub(super) fn copy(&self, inode: &Inode) -> Result<KVec<u8>> {
        let mut copy = KVec::from_elem(0u8, self.len(inode)?, GFP_KERNEL)?;
        self.look(inode, |region| {
            for (to, from) in copy.iter_mut().zip(region) {
                *to = *from;
            }
            Ok(())
        })?;
        Ok(copy)
    }

    /// Puts a changed copy in the place of what is there. The inode's checksum is then wrong until
    /// [`inode::mark_dirty`] in the same handle, whose credits this shares.
    pub(super) fn store(&self, handle: &Handle<'_>, inode: &Inode, bytes: &[u8]) -> Result {
        let inode_format = &inode.super_block().data().inode_format;
        handle
            .modify(&self.buffer, |b| {
                let raw = b.get_mut(self.offset..).unwrap_or(&mut []);
                let region = disk::xattr_region_mut(raw, inode_format)?.unwrap_or(&mut []);
                for (to, from) in region.iter_mut().zip(bytes) {
                    *to = *from;
                }
                Ok(())
            })?
            .map_err(|e| bad(inode, "xattr_ibody_set", None, e))
    }
}
