// SPDX-License-Identifier: GPL-2.0

//! How an extent tree grows: full nodes are split, and a full root moves into a block.

use super::{Path, Tree, INNER};
use crate::{
    alloc::blocks::{self, Kind, Pool, Request, Run},
    journal::Handle,
};
use core::iter::once;
use ext4rs_layout::{
    self as layout,
    extent::{self, Index, Node, NodeMut},
    inode::I_BLOCK_SIZE,
};
use kernel::prelude::*;

/// The most blocks that one change adds to a tree: one for each level but the root, and one for a
/// root that moves.
const BLOCKS: usize = INNER + 1;

/// Blocks allocated for a tree and not part of it yet.
struct Fresh {
    blocks: [Option<u64>; BLOCKS],
    /// Where they come from.
    pool: Pool,
}

impl Fresh {
    fn take(&mut self) -> Option<u64> {
        self.blocks.iter_mut().find_map(Option::take)
    }
}

impl Tree<'_> {
    /// Makes room for `count` more extents in the leaf of `lblk`, where `path` leads. The result is
    /// the way to the leaf as it is then. Blocks come from `pool`, all of them before anything
    /// changes.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENOMEM` and `EFBIG` leave the tree as it was; otherwise the volume has stopped.
    pub(super) fn make_room(
        &self,
        handle: &Handle<'_>,
        mut path: Path,
        lblk: u32,
        count: u16,
        pool: Pool,
    ) -> Result<Path> {
        let full = path.full_inner();
        if full == path.depth() && full >= INNER {
            return Err(EFBIG);
        }
        // One for the leaf and one for each full node above it. If the root is among them, it is
        // not split: its block is the one that takes over its content.
        let need = full.saturating_add(1);
        let mut copy = KVec::from_elem(0u8, self.block_size(), GFP_KERNEL)?;
        let mut fresh = self.allocate(handle, &path, need, pool)?;
        while path.leaf.room() < count {
            // The topmost of the full nodes in a row: what is above it has room.
            let full = path.full_inner();
            let step = match fresh.take() {
                Some(block) if full == path.depth() => self.add_root(handle, block),
                Some(block) => self.split(handle, &path, full, block, &mut copy),
                None => Err(self.corrupt(&path.leaf, fmt!("extent node cannot be split"))),
            };
            if let Err(e) = step.and_then(|()| {
                path = self.descend(lblk)?;
                Ok(())
            }) {
                self.give_back(handle, fresh);
                return Err(e);
            }
        }
        self.give_back(handle, fresh);
        Ok(path)
    }

    fn block_size(&self) -> usize {
        usize::try_from(self.sb.data().geo.block_size).unwrap_or(0)
    }

    /// Allocates `count` blocks for the tree, or none.
    fn allocate(
        &self,
        handle: &Handle<'_>,
        path: &Path,
        count: usize,
        pool: Pool,
    ) -> Result<Fresh> {
        let mut fresh = Fresh {
            blocks: [None; BLOCKS],
            pool,
        };
        let request = Request {
            // Nodes that lie together are read together.
            goal: match path.leaf.block() {
                Some(block) => block,
                None => blocks::metadata_goal(self.inode),
            },
            want: 1,
            kind: Kind::Metadata,
            from: pool,
        };
        for place in fresh.blocks.iter_mut().take(count) {
            match blocks::allocate(handle, self.inode, &request) {
                Ok(run) => *place = Some(run.start),
                Err(e) => {
                    self.give_back(handle, fresh);
                    return Err(e);
                }
            }
        }
        Ok(fresh)
    }

    /// Frees blocks that did not become part of the tree.
    fn give_back(&self, handle: &Handle<'_>, mut fresh: Fresh) {
        while let Some(start) = fresh.take() {
            // If even that fails the volume has stopped, and the blocks are lost until e2fsck.
            let _ = blocks::undo(handle, self.sb, Run { start, len: 1 }, fresh.pool);
        }
    }

    /// Makes a node of `depth` in `block`; `fill` puts entries into it.
    fn make_node(
        &self,
        handle: &Handle<'_>,
        block: u64,
        depth: u16,
        fill: impl FnOnce(&mut NodeMut<'_>) -> layout::Result<()>,
    ) -> Result {
        let (_, result) = handle.create(block, |bytes| {
            fill(&mut NodeMut::format(bytes, depth)?)?;
            extent::update_checksum(bytes, self.seed)
        })?;
        result.map_err(|e| self.bad(Some(block), e))?;
        self.inode.add_bytes(self.sb.data().geo.block_size.into());
        self.inode_changed.set(true);
        Ok(())
    }

    /// Moves the root's entries into a new node, which becomes the root's only child.
    fn add_root(&self, handle: &Handle<'_>, block: u64) -> Result {
        let bytes = self.root();
        let old = Node::new(&bytes).map_err(|e| self.bad(None, e))?;
        let depth = old.header().depth;
        let first = old.first_block(0).unwrap_or(0);
        self.make_node(handle, block, depth, |node| node.copy_from(old))?;
        let mut bytes = [0; I_BLOCK_SIZE];
        NodeMut::format(&mut bytes, depth.saturating_add(1))
            .and_then(|mut root| {
                let index = Index {
                    block: first,
                    leaf: block,
                };
                root.insert_index(0, &index)
            })
            .map_err(|e| self.bad(None, e))?;
        self.inode.data().raw.lock().i_block = bytes;
        Ok(())
    }

    /// Splits a node of `path`, `above` levels above the leaf, whose parent has room for another
    /// index. Its last entries move into a new node in `block`. `copy` is memory for a node.
    fn split(
        &self,
        handle: &Handle<'_>,
        path: &Path,
        above: usize,
        block: u64,
        copy: &mut [u8],
    ) -> Result {
        // `Init` has a method of that name too.
        let mut upwards = Iterator::chain(once(&path.leaf), path.upwards()).skip(above);
        let (Some(old), Some(parent)) = (upwards.next(), upwards.next()) else {
            return Err(self.corrupt(&path.leaf, fmt!("extent node without parent")));
        };
        let Some(buffer) = &old.buffer else {
            return Err(self.corrupt(old, fmt!("extent node without block")));
        };
        let Some(keep) = split_point(old.len, old.at, above == 0) else {
            return Err(self.corrupt(old, fmt!("extent node cannot be split")));
        };

        buffer.read(|bytes| copy.copy_from_slice(bytes));
        let mut rest = NodeMut::new(copy).map_err(|e| self.bad(old.block(), e))?;
        let depth = rest.as_node().header().depth;
        let first = rest.as_node().first_block(keep).unwrap_or(0);
        self.make_node(handle, block, depth, |node| rest.split_into(keep, node))?;
        self.change(handle, parent.buffer.as_ref(), |node| {
            let index = Index {
                block: first,
                leaf: block,
            };
            node.insert_index(parent.at.saturating_add(1), &index)
        })?;
        self.change(handle, Some(buffer), |node| node.remove(keep, old.len))
    }
}

/// How many of a node's `len` entries stay when it is split because of a new one behind entry `at`
/// (in a leaf: before it). `None` if it has too few.
///
/// Where a file grows at its end only the last entry moves, so that nodes fill up; otherwise half
/// of them do.
fn split_point(len: u16, at: u16, leaf: bool) -> Option<u16> {
    let before = if leaf { at } else { at.saturating_add(1) };
    let keep = if before >= len {
        len.saturating_sub(1)
    } else {
        len / 2
    };
    (keep > 0).then_some(keep)
}
