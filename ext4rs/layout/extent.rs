// SPDX-License-Identifier: GPL-2.0

//! Extent tree nodes: a header of 12 bytes, entries of 12 bytes, and in nodes that fill a block a
//! checksum after the last place for an entry.
//!
//! [`check_root`] and [`check_block`] judge a node that was read. [`Node`] looks at one,
//! [`NodeMut`] edits one; both only insist on what makes every access safe, so that they may be
//! made anew for each access at little cost.

use crate::bytes::{high32, join32, le16, le32, low16, low32, put, put_le16, put_le32};
use crate::checksum::Seed;
use crate::error::{check, Error, Result};
use crate::geometry::Geometry;

/// `eh_magic`.
pub const MAGIC: u16 = 0xf30a;
/// The deepest tree: levels of nodes below the root.
pub const MAX_DEPTH: u16 = 5;
/// Places for entries in the root, which is in the inode.
pub const ROOT_MAX: u16 = 4;
/// The longest written extent, in blocks.
pub const MAX_WRITTEN: u32 = 32768;
/// The longest unwritten extent, in blocks.
pub const MAX_UNWRITTEN: u32 = 32767;
/// The first logical block that a file cannot have.
pub const LBLK_END: u64 = 0xffff_ffff;

const HEADER: usize = 12;
const ENTRY: usize = 12;
/// Physical block numbers have 48 bits.
const PBLK_MAX: u64 = (1 << 48) - 1;

/// A node's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Entries in use.
    pub entries: u16,
    /// Places for entries.
    pub max: u16,
    /// Levels below this node; 0 in a leaf.
    pub depth: u16,
    /// A number that the kernel does not use.
    pub generation: u32,
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First logical block.
    pub block: u32,
    /// Blocks.
    pub len: u32,
    /// Allocated and not yet written: reads as zeros.
    pub unwritten: bool,
    /// First physical block.
    pub start: u64,
}

/// An entry of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// First logical block of the subtree.
    pub block: u32,
    /// Physical block of the subtree's node.
    pub leaf: u64,
}

impl Extent {
    /// The logical block after the last.
    pub fn end(&self) -> u64 {
        u64::from(self.block).saturating_add(u64::from(self.len))
    }

    /// True if the extent holds logical block `block`.
    pub fn contains(&self, block: u32) -> bool {
        block >= self.block && u64::from(block) < self.end()
    }

    /// The physical block of logical block `block`, if the extent holds it.
    pub fn map(&self, block: u32) -> Option<u64> {
        let off = block
            .checked_sub(self.block)
            .filter(|&off| off < self.len)?;
        self.start.checked_add(u64::from(off))
    }

    /// The most blocks that an extent of this kind can have.
    pub fn max_len(unwritten: bool) -> u32 {
        if unwritten {
            MAX_UNWRITTEN
        } else {
            MAX_WRITTEN
        }
    }

    /// This extent and `next` as one, if `next` continues it logically and physically, is of the
    /// same kind, and the sum can be stored.
    pub fn merged(&self, next: &Extent) -> Option<Extent> {
        let len = self.len.checked_add(next.len)?;
        let fits = self.unwritten == next.unwritten
            && len <= Self::max_len(self.unwritten)
            && self.end() == u64::from(next.block)
            && self.start.checked_add(u64::from(self.len)) == Some(next.start);
        fits.then_some(Extent { len, ..*self })
    }

    /// The blocks from logical block `from` up to `to` (exclusive) of this extent; `None` if they
    /// are not a part of it or none at all.
    pub fn part(&self, from: u32, to: u64) -> Option<Extent> {
        let len = to.checked_sub(u64::from(from)).filter(|&n| n > 0)?;
        if to > self.end() {
            return None;
        }
        Some(Extent {
            block: from,
            len: u32::try_from(len).ok()?,
            unwritten: self.unwritten,
            start: self.map(from)?,
        })
    }

    fn read(raw: &[u8]) -> Self {
        let stored = u32::from(le16(raw, 4));
        // 32768 itself is the longest written extent.
        let unwritten = stored > MAX_WRITTEN;
        Self {
            block: le32(raw, 0),
            len: if unwritten {
                stored & MAX_UNWRITTEN
            } else {
                stored
            },
            unwritten,
            start: join32(u32::from(le16(raw, 6)), le32(raw, 8)),
        }
    }

    fn write(&self) -> Result<[u8; ENTRY]> {
        if self.len == 0 || self.len > Self::max_len(self.unwritten) || self.end() > LBLK_END {
            return Err(Error::Argument("extent length out of range"));
        }
        if self.start > PBLK_MAX {
            return Err(Error::Argument("physical block out of range"));
        }
        let mut raw = [0; ENTRY];
        let flag = if self.unwritten { MAX_WRITTEN } else { 0 };
        put_le32(&mut raw, 0, self.block);
        put_le16(&mut raw, 4, low16(self.len | flag));
        put_le16(&mut raw, 6, low16(high32(self.start)));
        put_le32(&mut raw, 8, low32(self.start));
        Ok(raw)
    }
}

impl Index {
    fn read(raw: &[u8]) -> Self {
        Self {
            block: le32(raw, 0),
            leaf: join32(u32::from(le16(raw, 8)), le32(raw, 4)),
        }
    }

    fn write(&self) -> Result<[u8; ENTRY]> {
        if self.leaf > PBLK_MAX {
            return Err(Error::Argument("physical block out of range"));
        }
        let mut raw = [0; ENTRY];
        put_le32(&mut raw, 0, self.block);
        put_le32(&mut raw, 4, low32(self.leaf));
        put_le16(&mut raw, 8, low16(high32(self.leaf)));
        Ok(raw)
    }
}

/// Places for entries in a node of `len` bytes: the root (60 bytes, 4 places) or a block.
pub fn capacity(len: usize) -> u16 {
    let places = len.saturating_sub(HEADER) / ENTRY;
    u16::try_from(places).unwrap_or(u16::MAX)
}

fn entry_at(i: u16) -> usize {
    HEADER.saturating_add(usize::from(i).saturating_mul(ENTRY))
}

/// Reads a header. Fails if the magic is missing or the counts do not fit `buf`: what is needed
/// for entries to be accessed safely.
fn header(buf: &[u8]) -> Result<Header> {
    check(
        buf.len() >= HEADER && le16(buf, 0) == MAGIC,
        "invalid extent magic",
    )?;
    let h = Header {
        entries: le16(buf, 2),
        max: le16(buf, 4),
        depth: le16(buf, 6),
        generation: le32(buf, 8),
    };
    check(h.max != 0, "invalid eh_max")?;
    check(h.max <= capacity(buf.len()), "too large eh_max")?;
    check(h.entries <= h.max, "invalid eh_entries")?;
    Ok(h)
}

/// A node to look at.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    buf: &'a [u8],
    header: Header,
}

impl<'a> Node<'a> {
    /// Takes the node that fills `buf`: the 60 bytes of `i_block` or a whole block.
    pub fn new(buf: &'a [u8]) -> Result<Self> {
        Ok(Self {
            buf,
            header: header(buf)?,
        })
    }

    /// The header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Entries in use.
    pub fn len(&self) -> u16 {
        self.header.entries
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.header.entries == 0
    }

    /// True if there is no room for another entry.
    pub fn is_full(&self) -> bool {
        self.header.entries >= self.header.max
    }

    /// True if entries are extents, not indexes.
    pub fn is_leaf(&self) -> bool {
        self.header.depth == 0
    }

    fn raw(&self, i: u16) -> Option<&'a [u8]> {
        if i >= self.header.entries {
            return None;
        }
        self.buf.get(entry_at(i)..)?.get(..ENTRY)
    }

    /// Extent number `i`; `None` beyond the last, or if this is no leaf.
    pub fn extent(&self, i: u16) -> Option<Extent> {
        self.raw(i).filter(|_| self.is_leaf()).map(Extent::read)
    }

    /// Index number `i`; `None` beyond the last, or if this is a leaf.
    pub fn index(&self, i: u16) -> Option<Index> {
        self.raw(i).filter(|_| !self.is_leaf()).map(Index::read)
    }

    /// First logical block of entry `i`, of either kind.
    pub fn first_block(&self, i: u16) -> Option<u32> {
        self.raw(i).map(|raw| le32(raw, 0))
    }

    /// The last entry that begins at or before logical block `block`: the one that holds it, if
    /// any does. `None` if all begin after it.
    pub fn search(&self, block: u32) -> Option<u16> {
        let (mut low, mut high) = (0u16, self.header.entries);
        while low < high {
            let mid = low.midpoint(high);
            if self.first_block(mid).is_some_and(|b| b <= block) {
                low = mid.saturating_add(1);
            } else {
                high = mid;
            }
        }
        low.checked_sub(1)
    }

    /// All extents of a leaf, in order.
    pub fn extents(self) -> impl Iterator<Item = Extent> + 'a {
        (0..self.header.entries).map_while(move |i| self.extent(i))
    }

    /// All indexes of an inner node, in order.
    pub fn indexes(self) -> impl Iterator<Item = Index> + 'a {
        (0..self.header.entries).map_while(move |i| self.index(i))
    }

    /// Checks the entries: sorted, not overlapping, from `first` (if given, the first entry begins
    /// there) to below `end`, and their physical blocks on the volume.
    fn check_entries(&self, first: Option<u32>, end: u64, geo: &Geometry) -> Result<()> {
        if let (Some(want), Some(got)) = (first, self.first_block(0)) {
            check(want == got, "first entry does not match its index")?;
        }
        let mut cur = 0u64;
        for i in 0..self.header.entries {
            let (block, next, start, count) = match (self.extent(i), self.index(i)) {
                (Some(e), _) => (e.block, e.end(), e.start, e.len),
                (_, Some(x)) => (x.block, u64::from(x.block).saturating_add(1), x.leaf, 1),
                _ => return Err(Error::Corrupt("invalid eh_entries")),
            };
            check(count != 0, "extent of length zero")?;
            check(u64::from(block) >= cur, "overlapping extents")?;
            check(next <= end, "extent beyond its limit")?;
            check(
                geo.valid_blocks(start, u64::from(count)),
                "extent outside the volume",
            )?;
            cur = next;
        }
        Ok(())
    }
}

/// Checks the root of a tree, `i_block`. Whether the blocks are in use by something else is not
/// asked.
pub fn check_root(i_block: &[u8], geo: &Geometry) -> Result<Header> {
    let buf = i_block.get(..crate::inode::I_BLOCK_SIZE);
    let node = Node::new(buf.ok_or(Error::Argument("i_block too short"))?)?;
    check(node.header.depth <= MAX_DEPTH, "too large eh_depth")?;
    check(
        node.is_leaf() || !node.is_empty(),
        "eh_entries is 0 but eh_depth is > 0",
    )?;
    node.check_entries(None, LBLK_END, geo)?;
    Ok(node.header)
}

/// Checks a node below the root, which fills `buf`.
///
/// `depth` is the parent's less one, `first` the parent entry's logical block, and `end` the
/// logical block at which the parent's next entry begins (or the parent's own end, [`LBLK_END`]
/// at the root). `seed` is the inode's.
pub fn check_block(
    buf: &[u8],
    depth: u16,
    first: u32,
    end: u64,
    geo: &Geometry,
    seed: Option<Seed>,
) -> Result<Header> {
    let node = Node::new(buf)?;
    check(node.header.depth == depth, "unexpected eh_depth")?;
    check(
        node.is_leaf() || !node.is_empty(),
        "eh_entries is 0 but eh_depth is > 0",
    )?;
    verify(buf, seed)?;
    node.check_entries(Some(first), end, geo)?;
    Ok(node.header)
}

/// Checks the checksum of a node that fills a block. `seed` is the inode's.
pub fn verify(buf: &[u8], seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let tail = entry_at(header(buf)?.max);
    let data = buf
        .get(..tail)
        .filter(|_| buf.len() >= tail.saturating_add(4));
    let data = data.ok_or(Error::Corrupt("no room for the extent checksum"))?;
    if seed.checksum(data) != le32(buf, tail) {
        return Err(Error::BadChecksum("extent block checksum is wrong"));
    }
    Ok(())
}

/// Brings the checksum of a node that fills a block up to date. `seed` is the inode's.
pub fn update_checksum(buf: &mut [u8], seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let tail = entry_at(header(buf)?.max);
    let data = buf
        .get(..tail)
        .filter(|_| buf.len() >= tail.saturating_add(4));
    let crc = seed.checksum(data.ok_or(Error::Corrupt("no room for the extent checksum"))?);
    put_le32(buf, tail, crc);
    Ok(())
}

/// A node to edit. Entries stay sorted and never overlap: an edit that would break that fails
/// with [`Error::Argument`] and changes nothing.
#[derive(Debug)]
pub struct NodeMut<'a> {
    buf: &'a mut [u8],
    header: Header,
}

impl<'a> NodeMut<'a> {
    /// Takes the node that fills `buf`: the 60 bytes of `i_block` or a whole block.
    pub fn new(buf: &'a mut [u8]) -> Result<Self> {
        let header = header(buf)?;
        Ok(Self { buf, header })
    }

    /// Makes an empty node of all of `buf`, which is zeroed first.
    pub fn format(buf: &'a mut [u8], depth: u16) -> Result<Self> {
        let header = Header {
            entries: 0,
            max: capacity(buf.len()),
            depth,
            generation: 0,
        };
        if header.max == 0 || depth > MAX_DEPTH {
            return Err(Error::Argument("no room for an extent node"));
        }
        buf.fill(0);
        let mut node = Self { buf, header };
        node.write_header();
        Ok(node)
    }

    fn write_header(&mut self) {
        put_le16(self.buf, 0, MAGIC);
        put_le16(self.buf, 2, self.header.entries);
        put_le16(self.buf, 4, self.header.max);
        put_le16(self.buf, 6, self.header.depth);
        put_le32(self.buf, 8, self.header.generation);
    }

    /// The node to look at.
    pub fn as_node(&self) -> Node<'_> {
        Node {
            buf: self.buf,
            header: self.header,
        }
    }

    /// Fails unless an entry of the blocks `block..end` fits between its neighbours `before` and
    /// `after` (numbers of entries, if there are such).
    fn check_between(&self, before: Option<u16>, after: u16, block: u32, end: u64) -> Result<()> {
        let node = self.as_node();
        let low = before.and_then(|i| match node.extent(i) {
            Some(e) => Some(e.end()),
            None => node.index(i).map(|x| u64::from(x.block).saturating_add(1)),
        });
        let high = node.first_block(after).map(u64::from);
        if low.is_some_and(|l| u64::from(block) < l) || high.is_some_and(|h| end > h) {
            return Err(Error::Argument("entry out of order"));
        }
        Ok(())
    }

    fn check_kind(&self, leaf: bool) -> Result<()> {
        if self.as_node().is_leaf() != leaf {
            return Err(Error::Argument("wrong kind of extent entry"));
        }
        Ok(())
    }

    fn set_raw(&mut self, i: u16, raw: &[u8; ENTRY], end: u64) -> Result<()> {
        if i >= self.header.entries {
            return Err(Error::Argument("no such extent entry"));
        }
        self.check_between(i.checked_sub(1), i.saturating_add(1), le32(raw, 0), end)?;
        put(self.buf, entry_at(i), raw);
        Ok(())
    }

    fn insert_raw(&mut self, i: u16, raw: &[u8; ENTRY], end: u64) -> Result<()> {
        if i > self.header.entries || self.header.entries >= self.header.max {
            return Err(Error::Argument("no room for an extent entry"));
        }
        self.check_between(i.checked_sub(1), i, le32(raw, 0), end)?;
        self.open_gap(i);
        put(self.buf, entry_at(i), raw);
        self.header.entries = self.header.entries.saturating_add(1);
        self.write_header();
        Ok(())
    }

    /// Moves the entries from `i` on one place up.
    fn open_gap(&mut self, i: u16) {
        let end = entry_at(self.header.entries.saturating_add(1));
        if let Some(bytes) = self.buf.get_mut(entry_at(i)..end) {
            if let Some(count) = bytes.len().checked_sub(ENTRY) {
                bytes.copy_within(..count, ENTRY);
            }
        }
    }

    /// Moves the entries from `to` on down to `from`, and zeroes the places that become free.
    fn close_gap(&mut self, from: u16, to: u16) {
        let gap = entry_at(to).saturating_sub(entry_at(from));
        let end = entry_at(self.header.entries);
        if let Some(bytes) = self.buf.get_mut(entry_at(from)..end) {
            if let Some(count) = bytes.len().checked_sub(gap) {
                bytes.copy_within(gap.., 0);
                bytes.iter_mut().skip(count).for_each(|b| *b = 0);
            }
        }
    }

    /// Replaces extent `i`.
    pub fn set_extent(&mut self, i: u16, e: &Extent) -> Result<()> {
        self.check_kind(true)?;
        self.set_raw(i, &e.write()?, e.end())
    }

    /// Replaces index `i`.
    pub fn set_index(&mut self, i: u16, x: &Index) -> Result<()> {
        self.check_kind(false)?;
        self.set_raw(i, &x.write()?, u64::from(x.block).saturating_add(1))
    }

    /// Puts an extent in before entry `i` (or at the end).
    pub fn insert_extent(&mut self, i: u16, e: &Extent) -> Result<()> {
        self.check_kind(true)?;
        self.insert_raw(i, &e.write()?, e.end())
    }

    /// Puts an index in before entry `i` (or at the end).
    pub fn insert_index(&mut self, i: u16, x: &Index) -> Result<()> {
        self.check_kind(false)?;
        self.insert_raw(i, &x.write()?, u64::from(x.block).saturating_add(1))
    }

    /// Takes out the entries `from..to`.
    pub fn remove(&mut self, from: u16, to: u16) -> Result<()> {
        let old = self.header.entries;
        if from > to || to > old {
            return Err(Error::Argument("no such extent entries"));
        }
        self.close_gap(from, to);
        self.header.entries = old.saturating_sub(to.saturating_sub(from));
        self.write_header();
        Ok(())
    }

    /// Moves the entries `at..` to the end of `dst`, a node of the same depth whose entries all
    /// come before them (an empty one, most often).
    pub fn split_into(&mut self, at: u16, dst: &mut NodeMut<'_>) -> Result<()> {
        let count = self.header.entries.checked_sub(at);
        let count = count.ok_or(Error::Argument("no such extent entries"))?;
        dst.append(self.as_node(), at, count)?;
        self.remove(at, self.header.entries)
    }

    /// Makes this an empty node's twin of `src` (of any capacity): same depth, same entries. How a
    /// tree grows: the root's entries move into a new block.
    pub fn copy_from(&mut self, src: Node<'_>) -> Result<()> {
        if self.header.entries != 0 {
            return Err(Error::Argument("node is not empty"));
        }
        let old = self.header.depth;
        self.header.depth = src.header.depth;
        if let Err(e) = self.append(src, 0, src.header.entries) {
            self.header.depth = old;
            return Err(e);
        }
        Ok(())
    }

    fn append(&mut self, src: Node<'_>, at: u16, count: u16) -> Result<()> {
        let total = self
            .header
            .entries
            .checked_add(count)
            .filter(|&n| n <= self.header.max);
        let total = total.ok_or(Error::Argument("no room for the extent entries"))?;
        if src.header.depth != self.header.depth {
            return Err(Error::Argument("nodes of different depth"));
        }
        if let Some(first) = src.first_block(at) {
            let last = self.header.entries.checked_sub(1);
            self.check_between(last, self.header.entries, first, u64::from(first))?;
        }
        let (from, to) = (entry_at(at), entry_at(at.saturating_add(count)));
        let bytes = src
            .buf
            .get(from..to)
            .ok_or(Error::Argument("no such extent entries"))?;
        put(self.buf, entry_at(self.header.entries), bytes);
        self.header.entries = total;
        self.write_header();
        Ok(())
    }
}
