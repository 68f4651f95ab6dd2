// SPDX-License-Identifier: GPL-2.0

//! Indexed directories: from the hash of a name to the blocks that can hold it.
//!
//! A leaf that is full is split in two, and so is each full block of the index above it; from the
//! root the index grows by a level. Blocks are never joined again: as in ext4, one without entries
//! stays.

use super::{
    edit::{Found, Place, Room},
    linear, Dir, Want,
};
use crate::{inode, journal::Handle, metadata, report};
use ext4rs_layout::{
    dir as format_dir,
    hash::Hasher,
    htree::{self as format, Index},
    split::{self, Cut, Hashed},
    Compat, Incompat,
};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// The most blocks of the index on the way to a leaf: the root, and with `large_dir` two nodes.
const MAX_FRAMES: usize = format::max_levels(true) as usize + 1;

/// The answer of a search.
pub(super) enum Search {
    /// The name's entry.
    Found(Found),
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
    /// How names are hashed here.
    hasher: Hasher,
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
        if let Some(found) = linear::find_in_block(dir, leaf, path.leaf, name)? {
            return Ok(Search::Found(found));
        }
        if !path.advance(dir)? {
            return Ok(Search::Absent);
        }
    }
}

/// Finds out how a name gets its entry: there is room in the leaf that it belongs into, or the leaf
/// has to be split. `None` if the index cannot be used; said in the log.
///
/// # Errors
///
/// `ENOSPC` if the leaf and all blocks of the index above it are full, and the index is as deep as
/// it may be; said in the log.
pub(super) fn room(dir: &Dir<'_>, name: &[u8]) -> Result<Option<Room>> {
    let Some(path) = probe(dir, name)? else {
        return Ok(None);
    };
    let leaf = leaf_block(dir, path.leaf)?;
    if let Some(place) = linear::with_room(dir, leaf, path.leaf, name.len())? {
        return Ok(Some(Room::There(place)));
    }
    // Each full block above the leaf is split; a full root goes down by a level instead.
    let full = path.full_frames(dir)?;
    if full == path.len && path.len >= max_frames(dir) {
        index_full(dir, path.len);
        return Err(ENOSPC);
    }
    let added = u32::try_from(full)?.saturating_add(1);
    Ok(Some(Room::Split(added)))
}

/// Says that the index is full, in ext4's words.
fn index_full(dir: &Dir<'_>, levels: usize) {
    let ino = dir.inode().ino();
    report::warning(
        dir.sb(),
        "dx_add_entry",
        fmt!("Directory (ino: {ino}) index full, reach max htree level :{levels}"),
    );
    if !has_large_dir(dir) {
        report::warning(
            dir.sb(),
            "dx_add_entry",
            fmt!("Large directory feature is not enabled on this filesystem"),
        );
    }
}

/// Splits the leaf that a name belongs into, and first what is full above it; gives the half that
/// the name now belongs into. The handle has the credits of [`room`]'s answer.
///
/// # Errors
///
/// `ENOSPC` if the volume is full or the directory cannot grow any more; `ENOMEM`. What was split
/// before that is in order.
pub(super) fn split(dir: &Dir<'_>, handle: &Handle<'_>, name: &[u8]) -> Result<Place> {
    // Every pass but the last makes room in one block of the index.
    for _ in 0..=MAX_FRAMES {
        let path = probe(dir, name)?.ok_or(EFSCORRUPTED)?;
        let full = path.full_frames(dir)?;
        if full == 0 {
            return split_leaf(dir, handle, &path);
        }
        if full < path.len {
            split_node(dir, handle, &path, path.len.saturating_sub(full))?;
        } else if path.len < max_frames(dir) {
            deepen(dir, handle)?;
        } else {
            return Err(ENOSPC);
        }
    }
    Err(EFSCORRUPTED)
}

/// Shares the entries of the way's leaf with a new one.
fn split_leaf(dir: &Dir<'_>, handle: &Handle<'_>, path: &Path) -> Result<Place> {
    let leaf = leaf_block(dir, path.leaf)?;
    let frame = path.frame(path.len.saturating_sub(1))?;
    let parent = index_block(dir, frame.lblk)?;
    let halves = Halves::new(dir, &leaf, &path.hasher)?;
    let new_lblk = dir.blocks();
    let new = dir.append(handle, |b| put_entries(dir, b, &halves.high))?;
    handle
        .modify(&leaf, |b| put_entries(dir, b, &halves.low))?
        .map_err(|e| dir.bad("dx_split", &leaf, e))?;
    change_index(dir, handle, &parent, |b| {
        format::insert(b, frame.at, halves.cut.index_hash(), new_lblk, &dir.fmt)
    })?;
    let (lblk, buffer) = if halves.cut.is_high(path.hash) {
        (new_lblk, new)
    } else {
        (path.leaf, leaf)
    };
    Ok(Place { lblk, buffer })
}

/// Splits the index block of frame `at`, which is not the root; the one above it has room. The upper
/// half of its entries goes to a new node.
fn split_node(dir: &Dir<'_>, handle: &Handle<'_>, path: &Path, at: usize) -> Result {
    let frame = path.frame(at)?;
    let above = path.frame(at.checked_sub(1).ok_or(EFSCORRUPTED)?)?;
    let node = index_block(dir, frame.lblk)?;
    let parent = index_block(dir, above.lblk)?;
    let old = metadata::copy(&node)?;
    let keep = read_index(dir, frame.lblk, |index| index.count() / 2)?;
    let (new_lblk, hash) = append_node(dir, handle, &old, keep)?;
    change_index(dir, handle, &parent, |b| {
        format::insert(b, above.at, hash, new_lblk, &dir.fmt)
    })?;
    change_index(dir, handle, &node, |b| format::truncate(b, keep, &dir.fmt))
}

/// Puts a level below the root: a new node gets all of its entries.
fn deepen(dir: &Dir<'_>, handle: &Handle<'_>) -> Result {
    let root = index_block(dir, 0)?;
    let old = metadata::copy(&root)?;
    let (new_lblk, _) = append_node(dir, handle, &old, 0)?;
    change_index(dir, handle, &root, |b| {
        format::deepen(b, new_lblk, &dir.fmt)
    })
}

/// Adds a node with the entries of `old`, an index block, from entry `first` on. Gives its number
/// and the hash that it begins with.
fn append_node(dir: &Dir<'_>, handle: &Handle<'_>, old: &[u8], first: u16) -> Result<(u32, u32)> {
    let lblk = dir.blocks();
    let mut hash = 0;
    dir.append(handle, |b| {
        hash = format::init_node(b, old, first, &dir.fmt)?;
        format::update_checksum(b, &dir.fmt, dir.seed)
    })?;
    Ok((lblk, hash))
}

/// Changes a block of the index, and its checksum.
fn change_index(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    buffer: &BufferHead,
    f: impl FnOnce(&mut [u8]) -> ext4rs_layout::Result<()>,
) -> Result {
    handle
        .modify(buffer, |b| {
            f(b)?;
            format::update_checksum(b, &dir.fmt, dir.seed)
        })?
        .map_err(|e| dir.bad("dx_insert_block", buffer, e))
}

/// Whether the directory can get an index when its only block is full.
pub(super) fn can_begin(dir: &Dir<'_>) -> bool {
    let disk = &dir.vol().disk;
    dir.blocks() == 1
        && disk.compat.has(Compat::DIR_INDEX)
        && new_hasher(dir, disk.def_hash_version).is_ok()
}

/// Makes the only block of a directory the root of an index over a new leaf, which gets its entries
/// and is then split; gives the half that the name belongs into.
///
/// # Errors
///
/// `ENOSPC` if the volume is full, `ENOMEM`: the directory may have an index of one full leaf then.
/// `EFSCORRUPTED`, reported, if the block does not begin as it has to.
pub(super) fn begin(dir: &Dir<'_>, handle: &Handle<'_>, name: &[u8]) -> Result<Place> {
    let ino = u32::try_from(dir.inode().ino()).map_err(|_| EINVAL)?;
    let version = dir.vol().disk.def_hash_version;
    let first = dir.read(0, Want::Any)?.ok_or(EFSCORRUPTED)?;
    let old = metadata::copy(&first)?;
    let mut entries = KVec::from_elem(0, old.len(), GFP_KERNEL)?;
    split::without_dots(&old, ino, &mut entries, &dir.fmt)
        .map_err(|e| dir.bad("make_indexed_dir", &first, e))?;
    let lblk = dir.blocks();
    dir.append(handle, |b| put_entries(dir, b, &entries))?;
    dir.set_indexed();
    change_index(dir, handle, &first, |b| {
        format::init_root(b, ino, version, lblk, &dir.fmt)
    })?;
    inode::mark_dirty(handle, dir.inode())?;
    split(dir, handle, name)
}

/// Writes a block of entries that was made in memory into its place.
fn put_entries(dir: &Dir<'_>, b: &mut [u8], made: &[u8]) -> ext4rs_layout::Result<()> {
    for (to, from) in b.iter_mut().zip(made) {
        *to = *from;
    }
    format_dir::update_checksum(b, &dir.fmt, dir.seed)
}

/// What becomes of a block of entries that is split.
struct Halves {
    low: KVec<u8>,
    high: KVec<u8>,
    cut: Cut,
}

impl Halves {
    /// Shares out the entries of a block, which is not changed.
    fn new(dir: &Dir<'_>, buffer: &BufferHead, hasher: &Hasher) -> Result<Self> {
        let size = buffer.size();
        let old = metadata::copy(buffer)?;
        let mut low = KVec::from_elem(0, size, GFP_KERNEL)?;
        let mut high = KVec::from_elem(0, size, GFP_KERNEL)?;
        let most = split::max_entries(size);
        let mut scratch = KVVec::from_elem(Hashed::default(), most, GFP_KERNEL)?;
        let cut = split::split(&old, hasher, &mut scratch, &mut low, &mut high, &dir.fmt)
            .map_err(|e| dir.bad("dx_split", buffer, e))?;
        Ok(Self { low, high, cut })
    }
}

fn has_large_dir(dir: &Dir<'_>) -> bool {
    dir.vol().disk.incompat.has(Incompat::LARGEDIR)
}

/// The most blocks of the index on the way to a leaf that the volume allows.
fn max_frames(dir: &Dir<'_>) -> usize {
    usize::from(format::max_levels(has_large_dir(dir))).saturating_add(1)
}

/// What hashes names by version `version`.
pub(super) fn new_hasher(dir: &Dir<'_>, version: u8) -> ext4rs_layout::Result<Hasher> {
    let disk = &dir.vol().disk;
    Hasher::new(version, disk.hash_unsigned(), disk.hash_seed)
}

/// The leaves of an index from that on in which names of a hash begin.
pub(super) struct Leaves(Path);

/// The leaves of an index in which names from the hash `major` on are. `None` if the index cannot
/// be used.
pub(super) fn leaves_from(dir: &Dir<'_>, major: u32) -> Result<Option<Leaves>> {
    Ok(probe_for(dir, |_| major)?.map(Leaves))
}

impl Leaves {
    /// The block of the leaf.
    pub(super) fn leaf(&self) -> u32 {
        self.0.leaf
    }

    /// How names are hashed here.
    pub(super) fn hasher(&self) -> &Hasher {
        &self.0.hasher
    }

    /// Goes to the next leaf and gives the hash that it begins with; its lowest bit says that the
    /// leaf before has names of it too. `None` at the end.
    pub(super) fn next(&mut self, dir: &Dir<'_>) -> Result<Option<u32>> {
        self.0.next_leaf(dir, |_, _| true)
    }
}

/// Reads a block that the index says is one of entries.
fn leaf_block(dir: &Dir<'_>, lblk: u32) -> Result<BufferHead> {
    dir.read(lblk, Want::Leaf)?.ok_or(EFSCORRUPTED)
}

/// Reads a block of the index.
fn index_block(dir: &Dir<'_>, lblk: u32) -> Result<BufferHead> {
    dir.read(lblk, Want::Index)?.ok_or(EFSCORRUPTED)
}

/// Goes from the root to the leaf in which names of this one's hash begin. `None` if the index is of
/// a kind that cannot be used, or damaged in a way that leaves the blocks of entries readable.
fn probe(dir: &Dir<'_>, name: &[u8]) -> Result<Option<Path>> {
    probe_for(dir, |hasher| hasher.hash(name).major)
}

/// As [`probe`], for a hash that `hash_of` gives.
fn probe_for(dir: &Dir<'_>, hash_of: impl FnOnce(&Hasher) -> u32) -> Result<Option<Path>> {
    let large_dir = has_large_dir(dir);
    let first = index_block(dir, 0)?.read(|b| {
        let (root, index) = format::root(b, large_dir, &dir.fmt)?;
        let hasher = new_hasher(dir, root.hash_version)?;
        let hash = hash_of(&hasher);
        let step = follow(&index, index.search(hash));
        Ok((root.levels, hasher, hash, step))
    });
    let (levels, hasher, hash, (at, child)) = match first {
        Ok(first) => first,
        Err(e) => return Ok(unusable(dir, e)),
    };
    let mut path = Path::new(hasher, hash, at, child);
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
    fn new(hasher: Hasher, hash: u32, at: u16, child: u32) -> Self {
        Self {
            hasher,
            hash,
            frames: [Frame { lblk: 0, at }; MAX_FRAMES],
            len: 1,
            leaf: child,
        }
    }

    /// Frame `i`, of those in use.
    fn frame(&self, i: usize) -> Result<Frame> {
        let used = self.frames.get(..self.len).unwrap_or(&[]);
        used.get(i).copied().ok_or(EFSCORRUPTED)
    }

    /// How many blocks of the index above the leaf, from the lowest one up, have no room for one
    /// more entry.
    fn full_frames(&self, dir: &Dir<'_>) -> Result<usize> {
        let used = self.frames.get(..self.len).unwrap_or(&[]);
        let mut full = 0usize;
        for frame in used.iter().rev() {
            if !read_index(dir, frame.lblk, |index| index.count() >= index.limit())? {
                break;
            }
            full = full.saturating_add(1);
        }
        Ok(full)
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
        let hash = self.hash;
        let next = self.next_leaf(dir, |index, at| index.continues(at, hash))?;
        Ok(next.is_some())
    }

    /// Goes to the next leaf, if there is one and `wanted` says so of the entry, in the lowest block
    /// of the index that both ways have, that leads there. Gives the entry's hash. The way need not
    /// be of use after the answer `None`.
    fn next_leaf(
        &mut self,
        dir: &Dir<'_>,
        wanted: impl Fn(&Index<'_>, u16) -> bool,
    ) -> Result<Option<u32>> {
        let levels = self.len;
        // Up to a block that has a next entry.
        let hash = loop {
            let Some(frame) = self.len.checked_sub(1).and_then(|i| self.frames.get(i)) else {
                return Ok(None);
            };
            let (lblk, at) = (frame.lblk, frame.at.saturating_add(1));
            let next = read_index(dir, lblk, |index| {
                let hash = index.hash(at)?;
                Some((hash, wanted(index, at).then(|| follow(index, at).1)))
            })?;
            self.len = self.len.saturating_sub(1);
            match next {
                Some((hash, Some(child))) => {
                    self.descend(dir, lblk, at, child)?;
                    break hash;
                }
                Some((_, None)) => return Ok(None),
                None => {}
            }
        };
        // And down again along the first entries.
        while self.len < levels {
            let lblk = self.leaf;
            let (at, child) = read_index(dir, lblk, |index| follow(index, 0))?;
            self.descend(dir, lblk, at, child)?;
        }
        Ok(Some(hash))
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
