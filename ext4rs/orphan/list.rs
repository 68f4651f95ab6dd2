// SPDX-License-Identifier: GPL-2.0

//! The list of orphans: the superblock names the newest (`s_last_orphan`), each inode the one before
//! it, in its `i_dtime`.
//!
//! The superblock's part goes through the journal; what else changes in the superblock is written
//! past it ([`crate::super_block`]). An inode leaves the list from anywhere, so that its neighbours
//! are kept in memory, by number: they need not be in memory themselves.

use super::bad;
use crate::{inode, journal::Handle, report, volume::Sb};
use ext4rs_layout::{SuperBlock as DiskSuper, SuperBlockMut};
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
};

/// The neighbours of an inode in the list, 0 where there is none.
#[derive(Clone, Copy)]
struct Links {
    /// The inode that names it; 0: the superblock does.
    prev: u32,
    /// The inode that it names.
    next: u32,
}

/// The list, as far as this mount has made or taken it over.
#[derive(Default)]
pub(super) struct List {
    /// What the superblock names.
    head: u32,
    /// The inodes that this mount has put in or taken over. Those of an older life come behind.
    known: RBTree<u32, Links>,
}

impl List {
    /// Finds where the list begins. It is not followed.
    pub(super) fn load(sb: &Sb) -> Result<Self> {
        let vol = sb.data();
        let offset = vol.geo.sb_offset();
        let disk = vol
            .super_block
            .read(|block| DiskSuper::decode(block.get(offset..).unwrap_or(&[])))
            .map_err(|e| report::from_layout(sb, "orphan_list", None, None, e))?;
        Ok(Self {
            head: disk.last_orphan,
            known: RBTree::new(),
        })
    }

    /// Whether it has no inode.
    pub(super) fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// The first inode, 0 if there is none.
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Takes over the first inode, which an older life of the volume has put in.
    pub(super) fn adopt_head(&mut self, next: u32) -> Result {
        let links = Links { prev: 0, next };
        let node = RBTreeNode::new(self.head, links, GFP_KERNEL)?;
        self.known.insert(node);
        Ok(())
    }

    /// The list is bad from its first inode on: what is left of it is forgotten.
    pub(super) fn cut(&mut self) {
        self.head = 0;
    }

    /// Puts the inode in front. Changes the superblock and the inode.
    pub(super) fn add(&mut self, handle: &Handle<'_>, sb: &Sb, ino: u32) -> Result {
        let links = Links {
            prev: 0,
            next: self.head,
        };
        let node = RBTreeNode::new(ino, links, GFP_KERNEL)?;
        inode::set_dtime(handle, sb, ino, self.head)?;
        set_head(handle, sb, ino)?;
        if let Some(old) = self.known.get_mut(&self.head) {
            old.prev = ino;
        }
        self.known.insert(node);
        self.head = ino;
        Ok(())
    }

    /// Takes the inode out. Changes the superblock or the inode before it, and itself.
    pub(super) fn del(&mut self, handle: &Handle<'_>, sb: &Sb, ino: u32) -> Result {
        let Some(&Links { prev, next }) = self.known.get(&ino) else {
            return Ok(());
        };
        if prev == 0 {
            set_head(handle, sb, next)?;
            self.head = next;
        } else {
            inode::set_dtime(handle, sb, prev, next)?;
        }
        inode::set_dtime(handle, sb, ino, 0)?;
        if let Some(links) = self.known.get_mut(&prev) {
            links.next = next;
        }
        if let Some(links) = self.known.get_mut(&next) {
            links.prev = prev;
        }
        self.known.remove(&ino);
        Ok(())
    }
}

/// Sets what the superblock names, in the transaction.
fn set_head(handle: &Handle<'_>, sb: &Sb, ino: u32) -> Result {
    let vol = sb.data();
    let offset = vol.geo.sb_offset();
    let done = handle.modify(&vol.super_block, |block| {
        let bytes = block.get_mut(offset..).unwrap_or(&mut []);
        let mut disk = SuperBlockMut::new(bytes)?;
        disk.set_last_orphan(ino);
        disk.update_checksum();
        Ok(())
    })?;
    done.map_err(|e| bad(sb, vol.super_block.block(), e))
}
