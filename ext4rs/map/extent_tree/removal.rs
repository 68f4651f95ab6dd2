// SPDX-License-Identifier: GPL-2.0

//! How an extent tree shrinks: extents are taken out, from the end on, nodes that become empty are
//! freed, and a node whose entries fit into the root moves there. Behaviour:
//! `ext4_ext_remove_space`, `ext4_ext_try_to_merge_up`.

use super::{Level, Path, Tree};
use crate::{
    alloc::{
        self,
        blocks::{Kind, Pool, Run},
    },
    journal::Handle,
    map::edit::{self, Edit},
};
use ext4rs_layout::{
    extent::{Node, NodeMut, ROOT_MAX},
    inode::I_BLOCK_SIZE,
};
use kernel::prelude::*;

/// What it takes to free one node's block: bitmap and descriptor.
const MERGE_CREDITS: u32 = 2;

impl Tree<'_> {
    /// Takes the last extent, or the part of it, that is in `from..end` out of the tree, and frees
    /// its blocks: but not more than `max` of them, the last ones. `None` if there is no such
    /// extent.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENOMEM` and `EFBIG`, where an extent is to be cut in two, leave everything as it
    /// was, as does a bad tree. Otherwise the volume has stopped.
    pub(super) fn remove_last(
        &self,
        handle: &Handle<'_>,
        from: u32,
        end: u32,
        max: u32,
    ) -> Result<Option<Run>> {
        let Some(last) = end.checked_sub(1) else {
            return Ok(None);
        };
        let mut path = self.descend(last)?;
        let Some(old) = path.left.filter(|old| old.end() > from.into()) else {
            return Ok(None);
        };
        if !self.owns(old.start, old.len) {
            return Err(self.corrupt(
                &path.leaf,
                fmt!("block {} is mapped to metadata: {:?}", last, old),
            ));
        }
        let to = old.end().min(end.into());
        // Both are within the extent, so `low` is a block number.
        let low = u64::from(from.max(old.block)).max(to.saturating_sub(max.into()));
        let gone = u32::try_from(low).ok().and_then(|low| old.part(low, to));
        let Some(gone) = gone else {
            return Err(self.corrupt(&path.leaf, fmt!("bad extent {:?}", old)));
        };
        let at = |path: &Path| path.leaf.at.saturating_sub(1);
        let mut edit = edit::removal(at(&path), &old, gone.block, to);
        if path.leaf.room() < edit.growth() {
            path = self.make_room(handle, path, old.block, edit.growth(), Pool::Free)?;
            edit.at = at(&path);
        }
        let only = path.leaf.len == 1 && edit.extents().next().is_none();
        if only && path.leaf.buffer.is_some() {
            self.remove_leaf(handle, &path)?;
        } else {
            self.apply(handle, &path, &edit)?;
        }
        let run = Run {
            start: gone.start,
            len: gone.len,
        };
        alloc::blocks::free(handle, self.inode, run, Kind::Data)?;
        let bytes = u64::from(run.len) << self.sb.data().geo.block_bits;
        self.inode.sub_bytes(bytes);
        self.inode_changed.set(true);
        Ok(Some(run))
    }

    /// Takes the leaf at the end of `path`, which is to have no entry left, out of the tree, and all
    /// nodes above it that have nothing else.
    fn remove_leaf(&self, handle: &Handle<'_>, path: &Path) -> Result {
        self.free_node(handle, &path.leaf)?;
        let mut upwards = path.upwards();
        while let Some(level) = upwards.next() {
            if level.len > 1 {
                return self.remove_index(handle, level, upwards);
            }
            if level.buffer.is_some() {
                self.free_node(handle, level)?;
                continue;
            }
            // The root: nothing is left.
            let mut bytes = [0; I_BLOCK_SIZE];
            NodeMut::format(&mut bytes, 0).map_err(|e| self.bad(None, e))?;
            self.set_root(bytes);
        }
        Ok(())
    }

    /// Takes the index that the way goes by out of an inner node, which keeps others. `above` are
    /// the nodes above it, its parent first.
    fn remove_index<'p>(
        &self,
        handle: &Handle<'_>,
        level: &Level,
        above: impl Iterator<Item = &'p Level>,
    ) -> Result {
        self.change(handle, level.buffer.as_ref(), |node| {
            node.remove(level.at, level.at.saturating_add(1))
        })?;
        if level.at != 0 {
            return Ok(());
        }
        let first = self.look(level.buffer.as_ref(), |node| Ok(node.first_block(0)))?;
        match first {
            Some(first) => self.lead(handle, above, first),
            None => Ok(()),
        }
    }

    /// Frees a node's block.
    fn free_node(&self, handle: &Handle<'_>, level: &Level) -> Result {
        let Some(start) = level.block() else {
            return Ok(());
        };
        alloc::blocks::free(handle, self.inode, Run { start, len: 1 }, Kind::Metadata)?;
        self.inode.sub_bytes(self.sb.data().geo.block_size.into());
        self.inode_changed.set(true);
        Ok(())
    }

    /// Replaces the root.
    fn set_root(&self, bytes: [u8; I_BLOCK_SIZE]) {
        self.inode.data().raw.lock().i_block = bytes;
        self.inode_changed.set(true);
    }

    /// After `edit` of the leaf of `path`: moves the leaf into the root if it fits now and the handle
    /// gets what that takes. That is no more than good to have.
    pub(super) fn settle(&self, handle: &Handle<'_>, path: &Path, edit: &Edit) -> Result {
        let len = path.leaf.len.saturating_sub(edit.shrinkage());
        if edit.shrinkage() == 0 || path.depth() != 1 || len > ROOT_MAX {
            return Ok(());
        }
        self.merge_up(handle, || handle.extend(MERGE_CREDITS, 1))
    }

    /// Moves the only child of the root into the root, as long as that has one and its entries fit.
    /// Each time takes [`MERGE_CREDITS`] and a revoke; `pay` makes sure of them, or says no.
    pub(super) fn merge_up(&self, handle: &Handle<'_>, pay: impl Fn() -> Result<bool>) -> Result {
        loop {
            let path = self.descend(0)?;
            let child = match (path.inner.first(), path.inner.get(1)) {
                (Some(Some(root)), Some(Some(inner))) if root.len == 1 => inner,
                (Some(Some(root)), _) if root.len == 1 => &path.leaf,
                _ => return Ok(()),
            };
            if child.len > ROOT_MAX || !pay()? {
                return Ok(());
            }
            let mut bytes = [0; I_BLOCK_SIZE];
            self.look(child.buffer.as_ref(), |node: Node<'_>| {
                let depth = node.header().depth;
                NodeMut::format(&mut bytes, depth)?.copy_from(node)
            })?;
            self.set_root(bytes);
            self.free_node(handle, child)?;
        }
    }
}
