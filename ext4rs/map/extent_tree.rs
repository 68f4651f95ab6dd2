// SPDX-License-Identifier: GPL-2.0

//! The extent tree of a file: finding, inserting and converting extents.
//!
//! The root lies in the inode (`i_block`), other nodes fill blocks. All functions want the mapping
//! lock held: shared to look, exclusively to change. A change allocates every block that it needs
//! before it changes anything, so that running out of space leaves the tree as it was; after that
//! only the journal can fail, which stops the volume.
//!
//! No node is ever empty but the root of a file without extents, and the first logical block of a
//! node equals that of its index: every step of a change keeps it so.

mod growth;
mod removal;

use super::edit::{self, Edit};
use crate::{
    alloc::{self, blocks::Pool},
    inode::{self, Inode},
    journal::Handle,
    metadata::{self, Source},
    report,
    volume::Sb,
};
use core::cell::Cell;
use ext4rs_layout::{
    self as layout,
    extent::{self, Extent, Index, Node, NodeMut, LBLK_END, MAX_DEPTH},
    inode::I_BLOCK_SIZE,
    Seed,
};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::{fmt::Arguments, prelude::*};

/// Levels of a tree that are not leaves, at most.
const INNER: usize = MAX_DEPTH as usize;

/// What is at a logical block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// An extent, which holds the block.
    Extent(Extent),
    /// Nothing.
    Gap(Gap),
}

/// A range of logical blocks without extents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// Up to here (exclusive) there is no extent, from the block that was asked for on.
    pub(crate) end: u64,
    /// The extent before, or else the one after, if the same leaf has one: where new blocks are
    /// best put close to.
    pub(crate) near: Option<Extent>,
}

/// Finds what holds logical block `lblk`. The mapping lock is held.
///
/// # Errors
///
/// `EFSCORRUPTED` or `EFSBADCRC` if a node is bad, `EIO` if one cannot be read. Reported.
pub(crate) fn lookup(inode: &Inode, lblk: u32) -> Result<Found> {
    let tree = Tree::new(inode, "extent_lookup");
    let path = tree.descend(lblk)?;
    if let Some(extent) = path.left.filter(|left| left.contains(lblk)) {
        if !tree.owns(extent.start, extent.len) {
            return Err(tree.corrupt(
                &path.leaf,
                fmt!("block {} is mapped to metadata: {:?}", lblk, extent),
            ));
        }
        return Ok(Found::Extent(extent));
    }
    let end = match path.right {
        Some(right) => u64::from(right.block),
        None => path.end,
    };
    if end <= u64::from(lblk) {
        return Err(tree.corrupt(&path.leaf, fmt!("extents out of order at block {}", lblk)));
    }
    Ok(Found::Gap(Gap {
        end,
        near: path.left.or(path.right),
    }))
}

/// Adds an extent where there is a gap. It becomes one with its neighbours if it can. Blocks for
/// the tree come from `pool`. The mapping lock is held for writing; the caller dirties the inode
/// afterwards.
///
/// # Errors
///
/// `ENOSPC` and `ENOMEM` leave the tree as it was, as does `EFBIG`: the tree is as deep as it can
/// be. As [`lookup`] for bad nodes, or if there is no gap. Otherwise the volume has stopped.
pub(crate) fn insert(handle: &Handle<'_>, inode: &Inode, new: &Extent, pool: Pool) -> Result {
    let tree = Tree::new(inode, "extent_insert");
    let mut path = tree.descend(new.block)?;
    if !path.has_gap(new) {
        return Err(tree.corrupt(&path.leaf, fmt!("block {} is mapped already", new.block)));
    }
    let mut edit = path.insertion(new);
    if path.leaf.room() < edit.growth() {
        path = tree.make_room(handle, path, new.block, edit.growth(), pool)?;
        edit = path.insertion(new);
    }
    tree.apply(handle, &path, &edit)?;
    tree.settle(handle, &path, &edit)
}

/// Makes the unwritten blocks `lblk..end` written. The mapping lock is held for writing. What has no
/// extent any more because it is at or behind `file_end` was cut off meanwhile: it is passed over.
/// Blocks for the tree come from the completion pool. Tells whether the inode changed, so that the caller has
/// to dirty it.
///
/// # Errors
///
/// As [`insert`]; `EFSCORRUPTED` also if a block has no extent. Extents before the one that failed
/// may have been converted: trying again is harmless.
pub(crate) fn convert(
    handle: &Handle<'_>,
    inode: &Inode,
    lblk: u32,
    end: u32,
    file_end: u32,
) -> Result<bool> {
    let tree = Tree::new(inode, "extent_convert");
    let mut from = lblk;
    while from < end {
        let mut path = tree.descend(from)?;
        let Some(old) = path.left.filter(|left| left.contains(from)) else {
            if from >= file_end {
                break;
            }
            return Err(tree.corrupt(&path.leaf, fmt!("block {} is not mapped", from)));
        };
        let to = old.end().min(u64::from(end));
        if old.unwritten {
            let mut edit = tree.conversion(&path, from, to)?;
            if path.leaf.room() < edit.growth() {
                path = tree.make_room(handle, path, from, edit.growth(), Pool::Completion)?;
                edit = tree.conversion(&path, from, to)?;
            }
            tree.apply(handle, &path, &edit)?;
            tree.settle(handle, &path, &edit)?;
        }
        // Not beyond `end`, which is one of these.
        from = u32::try_from(to).unwrap_or(end);
    }
    Ok(tree.inode_changed.get())
}

/// Takes the blocks `from..end` out of the tree, from the last one on, and frees them: as many as
/// the handle has credits and revokes for, at least `step` of them for each extent. Tells whether
/// nothing is left to do. At first the handle has at least `step`. The mapping lock is held for
/// writing; the caller dirties the inode afterwards.
///
/// # Errors
///
/// As [`insert`].
pub(crate) fn remove(
    handle: &Handle<'_>,
    inode: &Inode,
    from: u32,
    end: u32,
    step: &Cost,
) -> Result<bool> {
    let tree = Tree::new(inode, "extent_remove");
    while handle.credits_left() >= step.credits && handle.revokes_left() >= step.revokes {
        if tree.remove_last(handle, from, end, step.blocks)?.is_none() {
            tree.merge_up(handle, || {
                Ok(handle.credits_left() >= step.credits && handle.revokes_left() >= 1)
            })?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// What one step of [`remove`] takes.
pub(crate) struct Cost {
    /// Credits.
    pub(crate) credits: u32,
    /// Revokes.
    pub(crate) revokes: u32,
    /// The blocks of the file that it frees for that, at most.
    pub(crate) blocks: u32,
}

/// A node on the way from the root to a leaf.
struct Level {
    /// The block that it fills; `None` for the root.
    buffer: Option<BufferHead>,
    /// Entries in use.
    len: u16,
    /// Places for entries.
    max: u16,
    /// In an inner node the number of the index that the way goes by; in a leaf the number of the
    /// first extent behind the block looked for.
    at: u16,
}

impl Level {
    /// Places that are free.
    fn room(&self) -> u16 {
        self.max.saturating_sub(self.len)
    }

    /// The node's block, if it fills one.
    fn block(&self) -> Option<u64> {
        self.buffer.as_ref().map(BufferHead::block)
    }
}

/// The way from the root to the leaf that holds a logical block, or would.
struct Path {
    /// The inner nodes from the root on, as many as there are.
    inner: [Option<Level>; INNER],
    leaf: Level,
    /// The logical block at which the next leaf begins.
    end: u64,
    /// The last extent of the leaf that begins at or before the block.
    left: Option<Extent>,
    /// The first extent of the leaf that begins after it.
    right: Option<Extent>,
}

impl Path {
    /// The number of inner nodes.
    fn depth(&self) -> usize {
        self.inner.iter().flatten().count()
    }

    /// The inner nodes, the leaf's parent first.
    fn upwards(&self) -> impl Iterator<Item = &Level> {
        self.inner.iter().rev().flatten()
    }

    /// How many inner nodes in a row, from the leaf's parent on, have no room.
    fn full_inner(&self) -> usize {
        self.upwards().take_while(|level| level.room() == 0).count()
    }

    /// Whether no extent overlaps `new`, whose first block the path leads to.
    fn has_gap(&self, new: &Extent) -> bool {
        let low = self.left.map_or(0, |left| left.end());
        let high = self.right.map_or(self.end, |right| right.block.into());
        low <= new.block.into() && new.end() <= high
    }

    /// How the leaf takes `new`, for which there is a gap.
    fn insertion(&self, new: &Extent) -> Edit {
        edit::insertion(self.leaf.at, self.left.as_ref(), self.right.as_ref(), new)
    }
}

/// The tree of one inode, its mapping lock held.
struct Tree<'a> {
    inode: &'a Inode,
    sb: &'a Sb,
    seed: Option<Seed>,
    /// The operation, as messages name it.
    function: &'static str,
    /// Whether the inode itself changed: the root, or the number of its blocks.
    inode_changed: Cell<bool>,
}

impl<'a> Tree<'a> {
    fn new(inode: &'a Inode, function: &'static str) -> Self {
        Self {
            inode,
            sb: inode.super_block(),
            seed: inode::checksum_seed(inode),
            function,
            inode_changed: Cell::new(false),
        }
    }

    /// Reports a tree that contradicts itself, at a node of it.
    fn corrupt(&self, level: &Level, args: Arguments<'_>) -> Error {
        let ino = Some(self.inode.ino());
        report::corrupt(self.sb, self.function, ino, level.block(), args)
    }

    /// Reports what a function of the layout crate said about the node in `block`, or the root.
    fn bad(&self, block: Option<u64>, e: layout::Error) -> Error {
        report::from_layout(self.sb, self.function, Some(self.inode.ino()), block, e)
    }

    /// Whether the file can own these blocks: they are on the volume, and none of its own.
    fn owns(&self, start: u64, count: u32) -> bool {
        let journal = u64::from(self.sb.data().disk.journal_inum);
        alloc::valid_blocks(self.sb, start, count, self.inode.ino() == journal)
    }

    /// The root's bytes.
    fn root(&self) -> [u8; I_BLOCK_SIZE] {
        self.inode.data().raw.lock().i_block
    }

    /// Looks at a node.
    fn look<R>(
        &self,
        buffer: Option<&BufferHead>,
        f: impl FnOnce(Node<'_>) -> layout::Result<R>,
    ) -> Result<R> {
        let result = match buffer {
            Some(buffer) => buffer.read(|bytes| f(Node::new(bytes)?)),
            None => Node::new(&self.root()).and_then(f),
        };
        result.map_err(|e| self.bad(buffer.map(BufferHead::block), e))
    }

    /// Changes a node, as a part of `handle`.
    fn change(
        &self,
        handle: &Handle<'_>,
        buffer: Option<&BufferHead>,
        f: impl FnOnce(&mut NodeMut<'_>) -> layout::Result<()>,
    ) -> Result {
        let result = match buffer {
            Some(buffer) => handle.modify(buffer, |bytes| {
                f(&mut NodeMut::new(bytes)?)?;
                extent::update_checksum(bytes, self.seed)
            })?,
            None => {
                self.inode_changed.set(true);
                NodeMut::new(&mut self.inode.data().raw.lock().i_block)
                    .and_then(|mut node| f(&mut node))
            }
        };
        result.map_err(|e| self.bad(buffer.map(BufferHead::block), e))
    }

    /// Reads the node that `index` names. `depth` is its own, `end` the first logical block that is
    /// not in its part of the tree.
    fn read(&self, index: Index, depth: u16, end: u64) -> Result<BufferHead> {
        let source = Source {
            function: self.function,
            what: "extent tree block",
            ino: Some(self.inode.ino()),
        };
        if !self.owns(index.leaf, 1) {
            return Err(self.bad(
                Some(index.leaf),
                layout::Error::Corrupt("extent node among the volume's own blocks"),
            ));
        }
        let geo = &self.sb.data().geo;
        let buffer = metadata::read(self.sb, source, index.leaf, |bytes| {
            extent::check_block(bytes, depth, index.block, end, geo, self.seed).map(drop)
        })?;
        // A verified block may have been verified as something else, or as a node of another tree.
        self.look(Some(&buffer), |node| fits(node, depth, index.block, end))?;
        Ok(buffer)
    }

    /// Finds the leaf of a logical block.
    fn descend(&self, lblk: u32) -> Result<Path> {
        let header =
            extent::check_root(&self.root(), &self.sb.data().geo).map_err(|e| self.bad(None, e))?;
        let mut inner = [const { None }; INNER];
        let mut end = LBLK_END;
        let mut buffer: Option<BufferHead> = None;
        // `check_root` lets no tree be deeper than there are places.
        for (place, depth) in inner.iter_mut().zip((0..header.depth).rev()) {
            let (level, child, next) = self.look(buffer.as_ref(), |node| {
                let at = node.search(lblk).unwrap_or(0);
                let child = node
                    .index(at)
                    .ok_or(layout::Error::Corrupt("inner extent node without index"))?;
                let next = node.first_block(at.saturating_add(1));
                let (len, max) = (node.len(), node.header().max);
                Ok(((len, max, at), child, next))
            })?;
            end = next.map_or(end, u64::from);
            let below = self.read(child, depth, end)?;
            let (len, max, at) = level;
            *place = Some(Level {
                buffer: buffer.replace(below),
                len,
                max,
                at,
            });
        }
        let (len, max, at, left, right) = self.look(buffer.as_ref(), |node| {
            let last = node.search(lblk);
            let at = last.map_or(0, |i| i.saturating_add(1));
            let left = last.and_then(|i| node.extent(i));
            Ok((node.len(), node.header().max, at, left, node.extent(at)))
        })?;
        Ok(Path {
            inner,
            leaf: Level {
                buffer,
                len,
                max,
                at,
            },
            end,
            left,
            right,
        })
    }

    /// How the leaf looks when `from..to`, which are in the path's unwritten left extent, are
    /// written.
    fn conversion(&self, path: &Path, from: u32, to: u64) -> Result<Edit> {
        let contradiction = || self.corrupt(&path.leaf, fmt!("extent of block {} changed", from));
        let old = path.left.ok_or_else(contradiction)?;
        let at = path.leaf.at.saturating_sub(1);
        let before = match at.checked_sub(1) {
            Some(i) => self.look(path.leaf.buffer.as_ref(), |node| Ok(node.extent(i)))?,
            None => None,
        };
        edit::conversion(at, before.as_ref(), &old, path.right.as_ref(), from, to)
            .ok_or_else(contradiction)
    }

    /// Changes the leaf at the end of `path`, which has room for it, and the indexes that lead to
    /// it if its first block is another afterwards.
    fn apply(&self, handle: &Handle<'_>, path: &Path, edit: &Edit) -> Result {
        self.change(handle, path.leaf.buffer.as_ref(), |node| {
            node.remove(edit.at, edit.at.saturating_add(edit.remove))?;
            (edit.at..)
                .zip(edit.extents())
                .try_for_each(|(at, extent)| node.insert_extent(at, extent))
        })?;
        if edit.at != 0 {
            return Ok(());
        }
        match self.look(path.leaf.buffer.as_ref(), |node| Ok(node.first_block(0)))? {
            Some(first) => self.lead(handle, path.upwards(), first),
            None => Ok(()),
        }
    }

    /// A node's first logical block is `first` now: changes the indexes that lead to it, in the
    /// nodes `above` it, its parent first.
    fn lead<'p>(
        &self,
        handle: &Handle<'_>,
        above: impl Iterator<Item = &'p Level>,
        first: u32,
    ) -> Result {
        for level in above {
            let buffer = level.buffer.as_ref();
            let missing = layout::Error::Corrupt("no such extent index");
            let index = self.look(buffer, |node| node.index(level.at).ok_or(missing))?;
            if index.block == first {
                break;
            }
            self.change(handle, buffer, |node| {
                node.set_index(
                    level.at,
                    &Index {
                        block: first,
                        ..index
                    },
                )
            })?;
            if level.at != 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Checks that a node is the one that its index describes: cheap, and done on every way down.
fn fits(node: Node<'_>, depth: u16, first: u32, end: u64) -> layout::Result<()> {
    let last = node.len().saturating_sub(1);
    let last = match node.extent(last) {
        Some(extent) => extent.end(),
        None => node.first_block(last).map_or(0, u64::from),
    };
    if node.header().depth != depth {
        return Err(layout::Error::Corrupt("unexpected eh_depth"));
    }
    if node.first_block(0).is_some_and(|block| block != first) || last > end {
        return Err(layout::Error::Corrupt(
            "extent node does not match its index",
        ));
    }
    Ok(())
}
