// SPDX-License-Identifier: GPL-2.0

//! The index of a large directory: a tree of hash values over its blocks of entries.
//!
//! The root is block 0, dressed as `.` and `..`; nodes are dressed as one entry that is not in
//! use. Entries of the index are a hash and the block (of the directory) of the subtree with that
//! hash and higher ones; the first entry has no hash, its place holds the counts.

use crate::bytes::{array, byte, le16, le32, put, put_le16, put_le32};
use crate::checksum::{crc32c, Seed};
use crate::dir::{self, DirFormat};
use crate::error::{check, want, Error, Result};

/// The most levels below the root: 1, and with `large_dir` 2.
pub const fn max_levels(large_dir: bool) -> u8 {
    if large_dir {
        2
    } else {
        1
    }
}

/// Where `..` is in the root.
const DOTDOT: usize = 12;
/// Where the root's own fields begin: behind `.` and `..`.
const ROOT_INFO: usize = 24;
/// Where the root has its number of levels.
const LEVELS: usize = ROOT_INFO + 6;
const ROOT_INFO_LEN: usize = 8;
const ROOT_ENTRIES: usize = 32;
const NODE_ENTRIES: usize = 8;
const ENTRY: usize = 8;
/// A reserved word and the checksum, behind the last place for an entry.
const TAIL: usize = 8;

/// The root's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Which hash; see [`crate::hash::Hasher::new`].
    pub hash_version: u8,
    /// Levels of nodes between the root and the blocks of entries.
    pub levels: u8,
}

/// The entries of a root or node.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    entries: &'a [u8],
    count: u16,
    limit: u16,
}

/// The places for entries in `len` bytes, the tail of the block's checksum among them.
fn places(len: usize, fmt: &DirFormat) -> usize {
    let tail = if fmt.checksums { TAIL } else { 0 };
    len.saturating_sub(tail) / ENTRY
}

impl<'a> Index<'a> {
    /// Takes the entries from byte `at` on. The limit must be the one that follows from the block
    /// size.
    fn new(block: &'a [u8], at: usize, fmt: &DirFormat) -> Result<Self> {
        let entries = block.get(at..).unwrap_or(&[]);
        let (limit, count) = (le16(entries, 0), le16(entries, 2));
        check(
            usize::from(limit) == places(entries.len(), fmt),
            "wrong limit in directory index",
        )?;
        check(
            count != 0 && count <= limit,
            "count beyond limit in directory index",
        )?;
        Ok(Self {
            entries,
            count,
            limit,
        })
    }

    /// Entries in use, the first (without hash) included. Not 0.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Places for entries.
    pub fn limit(&self) -> u16 {
        self.limit
    }

    fn field(&self, i: u16, at: usize) -> Option<u32> {
        let start = usize::from(i).saturating_mul(ENTRY);
        (i < self.count).then(|| le32(self.entries, start.saturating_add(at)))
    }

    /// The lowest hash of subtree `i`; 0 for the first. The lowest bit is set if names of the same
    /// hash are in the subtree before too.
    pub fn hash(&self, i: u16) -> Option<u32> {
        if i == 0 {
            Some(0)
        } else {
            self.field(i, 0)
        }
    }

    /// The directory's block that subtree `i` begins at.
    pub fn block(&self, i: u16) -> Option<u32> {
        // The high four bits are reserved.
        self.field(i, 4).map(|b| b & 0x0fff_ffff)
    }

    /// The subtree in which names with this major hash begin: the last whose hash is not above it.
    /// Names may go on in the next one if [`Index::continues`] says so.
    pub fn search(&self, major: u32) -> u16 {
        let (mut low, mut high) = (1u16, self.count);
        while low < high {
            let mid = low.midpoint(high);
            if self.hash(mid).is_some_and(|h| h <= major) {
                low = mid.saturating_add(1);
            } else {
                high = mid;
            }
        }
        low.saturating_sub(1)
    }

    /// True if subtree `i` may begin with names of hash `major` that are also in the one before.
    pub fn continues(&self, i: u16, major: u32) -> bool {
        self.hash(i)
            .is_some_and(|h| h & 1 != 0 && h & !1 == major & !1)
    }

    /// Checks all entries: hashes in order, blocks among the `blocks` of the directory and not the
    /// root.
    pub fn validate(&self, blocks: u32) -> Result<()> {
        let mut last = 0;
        for i in 0..self.count {
            let hash = self.hash(i).unwrap_or(0);
            check(hash >= last, "directory index out of order")?;
            last = hash;
            let block = self.block(i).unwrap_or(0);
            check(
                block != 0 && block < blocks,
                "directory index points outside the directory",
            )?;
        }
        Ok(())
    }
}

/// Reads an index root, block 0 of the directory. `large_dir` is the volume's feature.
///
/// The checks are those of ext4's `ext4_check_dx_root` and `dx_probe`.
pub fn root<'a>(buf: &'a [u8], large_dir: bool, fmt: &DirFormat) -> Result<(Root, Index<'a>)> {
    let block = fmt.block(buf)?;
    let mut entries = dir::entries(block, fmt)?;
    let (dot, dotdot) = (entries.next(), entries.next());
    let dot_ok = matches!(dot, Some(Ok(e)) if e.name == b"." && e.rec_len == 12);
    check(dot_ok, "invalid '.' in directory index root")?;
    let rest = block.len().saturating_sub(12);
    let dotdot_ok = matches!(dotdot, Some(Ok(e)) if e.name == b".." && e.rec_len == rest);
    check(dotdot_ok, "invalid '..' in directory index root")?;
    let info = block.get(ROOT_INFO..).unwrap_or(&[]);
    check(
        le32(info, 0) == 0 && usize::from(byte(info, 5)) == ROOT_INFO_LEN,
        "invalid directory index root",
    )?;
    check(
        byte(info, 7) & 1 == 0,
        "unimplemented flags of directory index",
    )?;
    let root = Root {
        hash_version: byte(info, 4),
        levels: byte(info, 6),
    };
    if root.levels > max_levels(large_dir) {
        return Err(Error::Corrupt("directory index too deep"));
    }
    Ok((root, Index::new(block, ROOT_ENTRIES, fmt)?))
}

/// Reads an index node below the root.
pub fn node<'a>(buf: &'a [u8], fmt: &DirFormat) -> Result<Index<'a>> {
    let block = fmt.block(buf)?;
    check(
        le32(block, 0) == 0 && fmt.rec_len(le16(block, 4)) == block.len(),
        "leaf block found instead of index block",
    )?;
    Index::new(block, NODE_ENTRIES, fmt)
}

/// The bytes where entries begin in the index block `block`, by how it is dressed.
fn entries_at(block: &[u8], fmt: &DirFormat) -> Result<usize> {
    let first = fmt.rec_len(le16(block, 4));
    if first == block.len() {
        return Ok(NODE_ENTRIES);
    }
    let second = fmt.rec_len(le16(block, 16));
    let info = block.get(ROOT_INFO..).unwrap_or(&[]);
    check(
        first == 12
            && second == block.len().saturating_sub(12)
            && le32(info, 0) == 0
            && usize::from(byte(info, 5)) == ROOT_INFO_LEN,
        "damaged directory index",
    )?;
    Ok(ROOT_ENTRIES)
}

/// The checksum of an index block and where it lies: over the entries in use, the reserved word
/// behind the last place, and a zero for itself.
fn index_checksum(block: &[u8], fmt: &DirFormat, seed: Seed) -> Result<(u32, usize)> {
    let at = entries_at(block, fmt)?;
    let index = Index::new(block, at, fmt)?;
    let end = |entries: u16| at.saturating_add(usize::from(entries).saturating_mul(ENTRY));
    let tail = end(index.limit);
    want(
        block,
        tail.saturating_add(TAIL),
        "directory buffer too short",
    )?;
    let crc = seed.checksum(block.get(..end(index.count)).unwrap_or(&[]));
    let crc = crc32c(crc, &le32(block, tail).to_le_bytes());
    Ok((crc32c(crc, &[0; 4]), tail.saturating_add(4)))
}

/// Checks the checksum of an index root or node. `seed` is the directory's.
pub fn verify(buf: &[u8], fmt: &DirFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let block = fmt.block(buf)?;
    let (crc, at) = index_checksum(block, fmt, seed)?;
    if crc != le32(block, at) {
        return Err(Error::BadChecksum("directory index checksum is wrong"));
    }
    Ok(())
}

/// Brings the checksum of an index root or node up to date.
pub fn update_checksum(buf: &mut [u8], fmt: &DirFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let block = fmt.block_mut(buf)?;
    let (crc, at) = index_checksum(block, fmt, seed)?;
    put_le32(block, at, crc);
    Ok(())
}

/// An index block that is being changed. Its checksum is left to [`update_checksum`].
struct IndexMut<'a> {
    entries: &'a mut [u8],
    count: u16,
    limit: u16,
}

impl<'a> IndexMut<'a> {
    /// An index block that there is.
    fn new(buf: &'a mut [u8], fmt: &DirFormat) -> Result<Self> {
        let block = fmt.block_mut(buf)?;
        let at = entries_at(block, fmt)?;
        let Index { count, limit, .. } = Index::new(block, at, fmt)?;
        Ok(Self {
            entries: block.get_mut(at..).unwrap_or(&mut []),
            count,
            limit,
        })
    }

    /// One whose dress is made, and which has no entries yet.
    fn empty(block: &'a mut [u8], at: usize, fmt: &DirFormat) -> Result<Self> {
        let entries = block.get_mut(at..).unwrap_or(&mut []);
        let limit = u16::try_from(places(entries.len(), fmt))
            .map_err(|_| Error::Argument("directory block too large"))?;
        let mut index = Self {
            entries,
            count: 0,
            limit,
        };
        index.set_count(0);
        Ok(index)
    }

    fn start(i: u16) -> usize {
        usize::from(i).saturating_mul(ENTRY)
    }

    /// The counts are where the first entry would have its hash.
    fn set_count(&mut self, count: u16) {
        self.count = count;
        put_le16(self.entries, 0, self.limit);
        put_le16(self.entries, 2, count);
    }

    fn set_block(&mut self, i: u16, block: u32) {
        put_le32(self.entries, Self::start(i).saturating_add(4), block);
    }

    /// Adds an entry behind entry `at`.
    fn insert(&mut self, at: u16, hash: u32, block: u32) -> Result<()> {
        let count = self.count.saturating_add(1);
        if at >= self.count || count > self.limit {
            return Err(Error::Argument("no place in directory index"));
        }
        let at = at.saturating_add(1);
        for i in (at..self.count).rev() {
            let entry: [u8; ENTRY] = array(self.entries, Self::start(i));
            put(self.entries, Self::start(i.saturating_add(1)), &entry);
        }
        put_le32(self.entries, Self::start(at), hash);
        self.set_block(at, block);
        self.set_count(count);
        Ok(())
    }
}

/// Makes the first block of a directory, whose entries have gone to block `child`, the root of an
/// index with one entry. `.` and `..` stay.
///
/// `hash_version` is the volume's default, as the superblock has it.
pub fn init_root(
    buf: &mut [u8],
    ino: u32,
    hash_version: u8,
    child: u32,
    fmt: &DirFormat,
) -> Result<()> {
    let parent = dir::parent(buf, ino, fmt)?;
    dir::init(buf, ino, parent, fmt)?;
    let block = fmt.block_mut(buf)?;
    let rest = block.len().saturating_sub(DOTDOT);
    block.get_mut(ROOT_INFO..).unwrap_or(&mut []).fill(0);
    put_le16(
        block,
        DOTDOT.saturating_add(4),
        DirFormat::stored_rec_len(rest),
    );
    let info_len = ROOT_INFO_LEN as u8;
    put(
        block,
        ROOT_INFO.saturating_add(4),
        &[hash_version, info_len],
    );
    let mut index = IndexMut::empty(block, ROOT_ENTRIES, fmt)?;
    index.set_count(1);
    index.set_block(0, child);
    Ok(())
}

/// Adds an entry to an index block, behind the entry `at`: names from `hash` on are in the subtree
/// that begins at `child`. The lowest bit of the hash says that names of it are in the subtree
/// before too.
pub fn insert(buf: &mut [u8], at: u16, hash: u32, child: u32, fmt: &DirFormat) -> Result<()> {
    IndexMut::new(buf, fmt)?.insert(at, hash, child)
}

/// Makes a node that has the entries of `from`, another block of the index, from entry `first` on,
/// and gives the hash with which it begins.
pub fn init_node(buf: &mut [u8], from: &[u8], first: u16, fmt: &DirFormat) -> Result<u32> {
    let source = Index::new(fmt.block(from)?, entries_at(from, fmt)?, fmt)?;
    let hash = source
        .hash(first)
        .ok_or(Error::Argument("no such entry in directory index"))?;
    let count = source.count.saturating_sub(first);
    let block = fmt.block_mut(buf)?;
    block.fill(0);
    let whole = DirFormat::stored_rec_len(block.len());
    put_le16(block, 4, whole);
    let mut node = IndexMut::empty(block, NODE_ENTRIES, fmt)?;
    if count > node.limit {
        return Err(Error::Argument("too many entries for a directory node"));
    }
    let entries = IndexMut::start(first)..IndexMut::start(source.count);
    put(node.entries, 0, source.entries.get(entries).unwrap_or(&[]));
    node.set_count(count);
    Ok(hash)
}

/// Takes the entries from `count` on out of an index block: they have gone to another one.
pub fn truncate(buf: &mut [u8], count: u16, fmt: &DirFormat) -> Result<()> {
    let mut index = IndexMut::new(buf, fmt)?;
    if count == 0 || count > index.count {
        return Err(Error::Argument("no such entry in directory index"));
    }
    index.set_count(count);
    Ok(())
}

/// Puts one more level below the root, whose entries have all gone to the node at `child`.
pub fn deepen(buf: &mut [u8], child: u32, fmt: &DirFormat) -> Result<()> {
    let mut index = IndexMut::new(buf, fmt)?;
    index.set_count(1);
    index.set_block(0, child);
    let levels = byte(buf, LEVELS).saturating_add(1);
    put(buf, LEVELS, &[levels]);
    Ok(())
}
