// SPDX-License-Identifier: GPL-2.0

//! Indexed directories: from the hash of a name to the blocks that can hold it.
//!
//! The index is read here, and entries are put into leaves that have room. It is never changed: a
//! leaf that is full is refused.

use super::{linear, Dir, Place, Want};
use crate::report;
use ext4rs_layout::{
    hash::Hasher,
    htree::{self as format, Index},
    Incompat,
};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// The most blocks of the index on the way to a leaf: the root, and with `large_dir` two nodes.
const MAX_FRAMES: usize = format::max_levels(true) as usize + 1;

/// The answer of a search.
pub(super) enum Search {
    /// The name's inode number.
    Found(u32),
    /// The name is not there.
    Absent,
    /// The index cannot be used; said in the log.
    Unusable,
}

/// A block of the index and the entry that is followed there.
#[derive(Clone, Copy)]
struct Frame {
    lblk: u32,
    at: u16,
}

/// The way from the root to a leaf.
struct Path {
    /// The hash that is looked for.
    hash: u32,
    /// The blocks of the index on the way; those in use are the first [`Path::len`].
    frames: [Frame; MAX_FRAMES],
    len: usize,
    /// Where the last of them leads.
    leaf: u32,
}

/// Looks for a name.
pub(super) fn find(dir: &Dir<'_>, name: &[u8]) -> Result<Search> {
    let Some(mut path) = probe(dir, name)? else {
        return Ok(Search::Unusable);
    };
    loop {
        let leaf = leaf_block(dir, path.leaf)?;
        if let Some(ino) = linear::find_in_block(dir, &leaf, path.leaf, name)? {
            return Ok(Search::Found(ino));
        }
        if !path.advance(dir)? {
            return Ok(Search::Absent);
        }
    }
}

/// Finds the leaf that a name belongs into.
///
/// # Errors
///
/// `ENOSPC` if the leaf has no room: splitting it is not supported. `EFSCORRUPTED` if the index is
/// bad: an entry put elsewhere would not be found by it.
pub(super) fn reserve(dir: &Dir<'_>, name: &[u8]) -> Result<Place> {
    let Some(path) = probe(dir, name)? else {
        return Err(dir.corrupt(
            "add_entry",
            None,
            fmt!("Directory has corrupted htree index."),
        ));
    };
    let leaf = leaf_block(dir, path.leaf)?;
    if let Some(place) = linear::with_room(dir, leaf, path.leaf, name.len())? {
        return Ok(place);
    }
    let ino = dir.inode().ino();
    report::warning(
        dir.sb(),
        "dx_add_entry",
        fmt!("inode #{ino}: leaf of directory index is full; splitting it is not supported"),
    );
    Err(ENOSPC)
}

/// Reads a block that the index says is one of entries.
fn leaf_block(dir: &Dir<'_>, lblk: u32) -> Result<BufferHead> {
    dir.read(lblk, Want::Leaf)?.ok_or(EFSCORRUPTED)
}

/// Reads a block of the index.
fn index_block(dir: &Dir<'_>, lblk: u32) -> Result<BufferHead> {
    dir.read(lblk, Want::Index)?.ok_or(EFSCORRUPTED)
}

/// Goes from the root to the leaf in which names of this hash begin. `None` if the index is of a
/// kind that cannot be used, or damaged in a way that leaves the blocks of entries readable.
fn probe(dir: &Dir<'_>, name: &[u8]) -> Result<Option<Path>> {
    let disk = &dir.vol().disk;
    let large_dir = disk.incompat.has(Incompat::LARGEDIR);
    let first = index_block(dir, 0)?.read(|b| {
        let (root, index) = format::root(b, large_dir, &dir.fmt)?;
        let hasher = Hasher::new(root.hash_version, disk.hash_unsigned(), disk.hash_seed)?;
        let hash = hasher.hash(name).major;
        Ok((root.levels, hash, follow(&index, index.search(hash))))
    });
    let (levels, hash, (at, child)) = match first {
        Ok(first) => first,
        Err(e) => return Ok(unusable(dir, e)),
    };
    let mut path = Path::new(hash, at, child);
    for _ in 0..levels {
        let lblk = path.leaf;
        let step = index_block(dir, lblk)?
            .read(|b| format::node(b, &dir.fmt).map(|index| follow(&index, index.search(hash))));
        match step {
            Ok((at, child)) => path.descend(dir, lblk, at, child)?,
            Err(e) => return Ok(unusable(dir, e)),
        }
    }
    Ok(Some(path))
}

/// An entry of the index, and the block that it leads to. Block 0, the root, stands for none.
fn follow(index: &Index<'_>, at: u16) -> (u16, u32) {
    (at, index.block(at).unwrap_or(0))
}

/// Says that the index cannot be used.
fn unusable(dir: &Dir<'_>, e: ext4rs_layout::Error) -> Option<Path> {
    let ino = dir.inode().ino();
    report::warning(
        dir.sb(),
        "dx_probe",
        fmt!(
            "inode #{ino}: {}: Corrupt directory, running e2fsck is recommended",
            e.as_str()
        ),
    );
    None
}

impl Path {
    /// A way that has only left the root.
    fn new(hash: u32, at: u16, child: u32) -> Self {
        Self {
            hash,
            frames: [Frame { lblk: 0, at }; MAX_FRAMES],
            len: 1,
            leaf: child,
        }
    }

    /// Goes one block down: block `lblk`, at whose entry `at` it goes on to `child`.
    fn descend(&mut self, dir: &Dir<'_>, lblk: u32, at: u16, child: u32) -> Result {
        let above = self.frames.get(..self.len).unwrap_or(&[]);
        if above.iter().any(|frame| frame.lblk == child) || child == lblk {
            return Err(dir.corrupt(
                "dx_probe",
                None,
                fmt!("tree cycle: block {lblk} of directory index points back to block {child}"),
            ));
        }
        let frame = self.frames.get_mut(self.len).ok_or(EFSCORRUPTED)?;
        *frame = Frame { lblk, at };
        self.len = self.len.saturating_add(1);
        self.leaf = child;
        Ok(())
    }

    /// Goes to the next leaf, if names of the hash go on there. The way need not be of use after
    /// the answer false.
    fn advance(&mut self, dir: &Dir<'_>) -> Result<bool> {
        let levels = self.len;
        // Up to a block that has a next entry.
        loop {
            let Some(frame) = self.len.checked_sub(1).and_then(|i| self.frames.get(i)) else {
                return Ok(false);
            };
            let (lblk, at) = (frame.lblk, frame.at.saturating_add(1));
            let (more, child) = read_index(dir, lblk, |index| {
                (
                    at < index.count(),
                    index.continues(at, self.hash).then(|| follow(index, at).1),
                )
            })?;
            self.len = self.len.saturating_sub(1);
            if more {
                let Some(child) = child else {
                    return Ok(false);
                };
                self.descend(dir, lblk, at, child)?;
                break;
            }
        }
        // And down again along the first entries.
        while self.len < levels {
            let lblk = self.leaf;
            let (at, child) = read_index(dir, lblk, |index| follow(index, 0))?;
            self.descend(dir, lblk, at, child)?;
        }
        Ok(true)
    }
}

/// Looks at a block of the index, the root or a node.
fn read_index<R>(dir: &Dir<'_>, lblk: u32, f: impl FnOnce(&Index<'_>) -> R) -> Result<R> {
    let large_dir = dir.vol().disk.incompat.has(Incompat::LARGEDIR);
    let buffer = index_block(dir, lblk)?;
    buffer
        .read(|b| {
            let index = if lblk == 0 {
                format::root(b, large_dir, &dir.fmt)?.1
            } else {
                format::node(b, &dir.fmt)?
            };
            Ok(f(&index))
        })
        .map_err(|e| dir.bad("htree_next_block", &buffer, e))
}
