// SPDX-License-Identifier: GPL-2.0

//! Listing a directory in the order of the hashes of its names.
//!
//! A position is a hash: it means the same however the entries are moved while blocks are split,
//! so each entry that stays is delivered exactly once. Directories with an index are listed so, and
//! those of one block that would get one next; others block by block ([`linear::iterate`]). What
//! positions are, and where `.` and `..` are, is as in ext4 (`ext4_dx_readdir`).

use super::{htree, linear, Dir, Want};
use crate::{
    inode::Inode,
    metadata,
    volume::{Ext4, Volume},
};
use core::pin::Pin;
use ext4rs_layout::{
    dir::{self as format, Entry},
    hash::{Hash, Hasher},
    inode::FL_INDEX,
    sort::sort_by_key,
    Compat,
};
use ext4rs_vfs::fs::{is_killed, DirEmitter, File};
use kernel::{new_mutex, prelude::*, sync::Mutex};

/// The hash at which `..` is found in an indexed directory; `.` is at 0.
const DOTDOT_HASH: u32 = 2;

/// What is kept of one open directory.
///
/// Lock order: `i_rwsem` of the directory, this, mmap_lock: it is held while entries are copied to
/// the reader.
#[pin_data]
pub(crate) struct OpenDirectory {
    #[pin]
    cursor: Mutex<Cursor>,
}

impl OpenDirectory {
    /// Of a directory that is just opened.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            cursor <- new_mutex!(Cursor::default(), "ext4rs_open_directory"),
        }? Error)
    }
}

/// How far an open directory was listed.
#[derive(Default)]
struct Cursor {
    /// The position that the last call left; another one means that the reader has moved it.
    pos: Option<u64>,
    /// The hash to go on from when the batch is used up, or not good any more; `None` at the end.
    from: Option<Hash>,
    /// Entries that were read, and are delivered one after the other.
    batch: Batch,
    /// The next of them.
    next: usize,
    /// The entry before the next one has been delivered, and has the same hash: a position does not
    /// tell the two apart.
    in_chain: bool,
    /// The directory's change counter when they were read.
    version: u64,
}

/// Entries in the order of their hashes.
#[derive(Default)]
struct Batch {
    items: KVVec<Item>,
    /// Their names, one behind the other.
    names: KVVec<u8>,
}

/// An entry of a [`Batch`].
#[derive(Clone, Copy)]
struct Item {
    hash: Hash,
    /// Where the name begins; orders entries of one hash.
    name: usize,
    len: usize,
    ino: u32,
    file_type: u8,
}

impl Batch {
    fn clear(&mut self) {
        self.items.clear();
        self.names.clear();
    }

    fn add(&mut self, hash: Hash, entry: &Entry<'_>) -> Result {
        let item = Item {
            hash,
            name: self.names.len(),
            len: entry.name.len(),
            ino: entry.ino,
            file_type: entry.file_type,
        };
        self.names.extend_from_slice(entry.name, GFP_KERNEL)?;
        Ok(self.items.push(item, GFP_KERNEL)?)
    }

    fn sort(&mut self) {
        sort_by_key(&mut self.items, |item| (item.hash, item.name));
    }

    fn name(&self, item: &Item) -> &[u8] {
        let end = item.name.saturating_add(item.len);
        self.names.get(item.name..end).unwrap_or(&[])
    }
}

/// How positions are made of hashes, for one open directory.
#[derive(Clone, Copy)]
struct Positions {
    /// They must fit into 31 bits: the minor hash is left out.
    short: bool,
}

impl Positions {
    fn of(file: &File<Ext4>) -> Self {
        Self {
            short: file.has_short_positions(),
        }
    }

    fn end(self) -> u64 {
        if self.short {
            u64::from(u32::MAX >> 1)
        } else {
            u64::MAX >> 1
        }
    }

    fn at(self, hash: Hash) -> u64 {
        let major = u64::from(hash.major >> 1);
        if self.short {
            major
        } else {
            (major << 32) | u64::from(hash.minor)
        }
    }

    fn hash(self, pos: u64) -> Hash {
        // Positions that are too large can only come from the reader.
        let low = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        if self.short {
            Hash {
                major: low(pos) << 1,
                minor: 0,
            }
        } else {
            Hash {
                major: low(pos >> 32) << 1,
                minor: low(pos),
            }
        }
    }
}

/// Whether the directory is listed by hash.
fn is_by_hash(inode: &Inode, vol: &Volume) -> bool {
    let one_block = inode.size() >> vol.geo.block_bits == 1;
    vol.disk.compat.has(Compat::DIR_INDEX)
        && (one_block || inode.data().raw.lock().flags & FL_INDEX != 0)
}

/// The end of the directory as its positions have it, if that is not its size.
pub(super) fn end_position(inode: &Inode, file: &File<Ext4>) -> Option<u64> {
    is_by_hash(inode, inode.super_block().data()).then(|| Positions::of(file).end())
}

/// Lists the entries from the emitter's position on.
///
/// # Errors
///
/// `EIO`, or `EFSCORRUPTED` or `EFSBADCRC`, reported, if a block cannot be read; of a block with a
/// bad entry, also reported, the rest is left out.
pub(super) fn iterate(
    dir: &Dir<'_>,
    file: &File<Ext4>,
    open: Pin<&OpenDirectory>,
    out: &mut DirEmitter<'_>,
) -> Result {
    if !is_by_hash(dir.inode(), dir.vol()) {
        return linear::iterate(dir, out);
    }
    let positions = Positions::of(file);
    if out.pos() == positions.end() {
        return Ok(());
    }
    let mut cursor = open.cursor.lock();
    if cursor.pos != Some(out.pos()) {
        cursor.seek(positions.hash(out.pos()));
    }
    let usable = cursor.deliver(dir, positions, out);
    cursor.pos = Some(out.pos());
    drop(cursor);
    match usable {
        Ok(true) => Ok(()),
        // Whatever was delivered is delivered again: positions are bytes from here on.
        Ok(false) => linear::iterate(dir, out),
        Err(e) => Err(e),
    }
}

impl Cursor {
    /// Goes to a hash.
    fn seek(&mut self, from: Hash) {
        self.batch.clear();
        self.next = 0;
        self.in_chain = false;
        self.from = Some(from);
    }

    /// Delivers entries until the reader has no more room, or all are delivered. False if the index
    /// cannot be used.
    fn deliver(
        &mut self,
        dir: &Dir<'_>,
        positions: Positions,
        out: &mut DirEmitter<'_>,
    ) -> Result<bool> {
        let version = dir.inode().data().raw.lock().version;
        loop {
            while let Some(item) = self.batch.items.get(self.next).copied() {
                if self.version != version && !self.in_chain {
                    self.seek(item.hash);
                    break;
                }
                out.set_pos(positions.at(item.hash));
                let name = self.batch.name(&item);
                if !out.emit(name, item.ino.into(), linear::entry_type(item.file_type)) {
                    return Ok(true);
                }
                self.next = self.next.saturating_add(1);
                let next = self.batch.items.get(self.next);
                self.in_chain = next.is_some_and(|next| next.hash == item.hash);
            }
            let Some(from) = self.from else {
                out.set_pos(positions.end());
                return Ok(true);
            };
            out.set_pos(positions.at(from));
            self.seek(from);
            match self.fill(dir, from) {
                Ok(true) => self.version = version,
                other => {
                    self.seek(from);
                    return other;
                }
            }
        }
    }

    /// Reads the entries from a hash on: those of one leaf, and of the following ones as long as
    /// they go on with a hash that the one before ends with. False if the index cannot be used.
    fn fill(&mut self, dir: &Dir<'_>, from: Hash) -> Result<bool> {
        let batch = &mut self.batch;
        if !dir.is_indexed() {
            let Ok(hasher) = htree::new_hasher(dir, dir.vol().disk.def_hash_version) else {
                return Ok(false);
            };
            add_block(dir, 0, Want::Any, &hasher, from, batch)?;
            batch.sort();
            self.from = None;
            return Ok(true);
        }
        let Some(mut leaves) = htree::leaves_from(dir, from.major)? else {
            return Ok(false);
        };
        add_dots(dir, from, batch)?;
        self.from = loop {
            if is_killed() {
                return Err(EINTR);
            }
            add_block(dir, leaves.leaf(), Want::Leaf, leaves.hasher(), from, batch)?;
            match leaves.next(dir)? {
                None => break None,
                Some(major) if major & 1 == 0 && !batch.items.is_empty() => {
                    break Some(Hash { major, minor: 0 })
                }
                Some(_) => {}
            }
        };
        batch.sort();
        Ok(true)
    }
}

/// Adds `.` and `..` of an indexed directory, if they are at or behind `from`.
fn add_dots(dir: &Dir<'_>, from: Hash, batch: &mut Batch) -> Result {
    let dotdot = Hash {
        major: DOTDOT_HASH,
        minor: 0,
    };
    if from > dotdot {
        return Ok(());
    }
    let root = dir.read(0, Want::Index)?.ok_or(EFSCORRUPTED)?;
    let block = metadata::copy(&root)?;
    let bad = |e| dir.bad_entry("readdir", &root, 0, e);
    let places = [Hash { major: 0, minor: 0 }, dotdot];
    let entries = format::entries(&block, &dir.entry_format(0)).map_err(bad)?;
    for (hash, entry) in places.into_iter().zip(entries) {
        if hash >= from {
            batch.add(hash, &entry.map_err(bad)?)?;
        }
    }
    Ok(())
}

/// Adds the entries of block `lblk` that are at or behind `from`.
fn add_block(
    dir: &Dir<'_>,
    lblk: u32,
    want: Want,
    hasher: &Hasher,
    from: Hash,
    batch: &mut Batch,
) -> Result {
    let Some(buffer) = dir.read(lblk, want)? else {
        return Ok(());
    };
    let block = metadata::copy(&buffer)?;
    let bad = |e| dir.bad_entry("readdir", &buffer, lblk, e);
    for entry in format::entries(&block, &dir.entry_format(lblk)).map_err(bad)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => {
                bad(e);
                break;
            }
        };
        let hash = hasher.hash(entry.name);
        if entry.ino != 0 && hash >= from {
            batch.add(hash, &entry)?;
        }
    }
    Ok(())
}
