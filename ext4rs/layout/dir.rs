// SPDX-License-Identifier: GPL-2.0

//! Directory blocks: a chain of entries that fills the block, and on a volume with checksums a
//! last entry that holds one.

use crate::bytes::{byte, le16, le32, low16, put, put_le16, put_le32};
use crate::checksum::Seed;
use crate::error::{check, Error, Result};
use crate::geometry::Geometry;
use crate::inode;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// File type in an entry: not stored.
pub const FT_UNKNOWN: u8 = 0;
/// File type in an entry: regular file.
pub const FT_REG: u8 = 1;
/// File type in an entry: directory.
pub const FT_DIR: u8 = 2;
/// File type in an entry: character device.
pub const FT_CHAR: u8 = 3;
/// File type in an entry: block device.
pub const FT_BLOCK: u8 = 4;
/// File type in an entry: fifo.
pub const FT_FIFO: u8 = 5;
/// File type in an entry: socket.
pub const FT_SOCK: u8 = 6;
/// File type in an entry: symbolic link.
pub const FT_LINK: u8 = 7;
/// File type of the entry that holds the checksum.
const FT_CSUM: u8 = 0xde;

/// Bytes of an entry before its name.
const HEAD: usize = 8;
/// Bytes of the smallest entry.
pub(crate) const MIN_ENTRY: usize = 12;
/// Bytes of the entry that holds the checksum.
const TAIL: usize = MIN_ENTRY;

/// What directory blocks depend on besides their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirFormat {
    /// Bytes of a block.
    pub block_size: u32,
    /// The volume has `metadata_csum`.
    pub checksums: bool,
    /// The volume has `filetype`.
    pub filetype: bool,
    /// Inodes of the volume.
    pub inodes_count: u32,
}

impl DirFormat {
    /// The format of the directories of a volume.
    pub fn new(geo: &Geometry, checksums: bool, filetype: bool) -> Self {
        Self {
            block_size: geo.block_size,
            checksums,
            filetype,
            inodes_count: geo.inodes_count,
        }
    }

    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.block_size).unwrap_or(usize::MAX)
    }

    pub(crate) fn block<'a>(&self, buf: &'a [u8]) -> Result<&'a [u8]> {
        buf.get(..self.size())
            .ok_or(Error::Argument("directory buffer too short"))
    }

    pub(crate) fn block_mut<'a>(&self, buf: &'a mut [u8]) -> Result<&'a mut [u8]> {
        buf.get_mut(..self.size())
            .ok_or(Error::Argument("directory buffer too short"))
    }

    /// `rec_len` as it is on disk; blocks of 64 KiB have a code for their own size.
    pub(crate) fn rec_len(&self, stored: u16) -> usize {
        match stored {
            0 | 0xffff => self.size(),
            n => usize::from(n & 0xfffc) | (usize::from(n & 3) << 16),
        }
    }

    /// `rec_len` as it goes to disk. `len` is a multiple of four that is at most the block size.
    pub(crate) fn stored_rec_len(len: usize) -> u16 {
        u16::try_from(len).unwrap_or(0xffff)
    }

    /// Bytes of the block that hold entries: all but the checksum, if there is one.
    fn limit(&self, block: &[u8]) -> usize {
        if self.checksums && has_tail(block) {
            self.size().saturating_sub(TAIL)
        } else {
            self.size()
        }
    }
}

/// The bytes that an entry with a name of `len` bytes needs at least.
pub fn entry_size(len: usize) -> usize {
    len.saturating_add(HEAD).saturating_add(3) & !3
}

/// The file type that goes into the entry of an inode with this mode.
pub fn file_type(mode: u16) -> u8 {
    match mode & inode::MODE_TYPE {
        inode::MODE_REG => FT_REG,
        inode::MODE_DIR => FT_DIR,
        inode::MODE_CHAR => FT_CHAR,
        inode::MODE_BLOCK => FT_BLOCK,
        inode::MODE_FIFO => FT_FIFO,
        inode::MODE_SOCK => FT_SOCK,
        inode::MODE_LINK => FT_LINK,
        _ => FT_UNKNOWN,
    }
}

/// True if the last 12 bytes of a block are an entry that holds a checksum.
pub fn has_tail(block: &[u8]) -> bool {
    block.len().checked_sub(TAIL).is_some_and(|at| {
        le32(block, at) == 0
            && le16(block, at.saturating_add(4)) == low16(TAIL as u32)
            && byte(block, at.saturating_add(6)) == 0
            && byte(block, at.saturating_add(7)) == FT_CSUM
    })
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its first byte within the block.
    pub offset: usize,
    /// Bytes to the next entry.
    pub rec_len: usize,
    /// The inode; 0 if the entry is not in use.
    pub ino: u32,
    /// One of `FT_*`; [`FT_UNKNOWN`] on a volume without `filetype`.
    pub file_type: u8,
    /// The name; of an entry in use, not empty.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes at the entry's end that another entry could take.
    fn room(&self) -> usize {
        let used = if self.ino == 0 {
            0
        } else {
            entry_size(self.name.len())
        };
        self.rec_len.saturating_sub(used)
    }
}

/// Where the entries of a block end.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The last entry ends here, before the checksum if there is one.
    limit: usize,
    /// Or here, which is the block's end: the root of an index that was made from a block of
    /// entries still shows the entry with that block's checksum, behind and under `..`.
    over: usize,
}

/// Reads the entry at `offset`, with the checks of ext4's `ext4_check_dir_entry`, and that an
/// entry in use has a name.
fn entry_at<'a>(block: &'a [u8], offset: usize, end: End, fmt: &DirFormat) -> Result<Entry<'a>> {
    let head = block.get(offset..).filter(|h| h.len() >= HEAD);
    let head = head.ok_or(Error::Corrupt("directory entry overrun"))?;
    let rec_len = fmt.rec_len(le16(head, 4));
    let name_len = usize::from(byte(head, 6));
    let next = offset.saturating_add(rec_len);
    let last = next == end.limit || next == end.over;
    check(rec_len >= TAIL, "rec_len is smaller than minimal")?;
    check(rec_len & 3 == 0, "rec_len % 4 != 0")?;
    check(
        rec_len >= entry_size(name_len),
        "rec_len is too small for name_len",
    )?;
    check(last || next <= end.limit, "directory entry overrun")?;
    check(
        last || next <= end.limit.saturating_sub(TAIL),
        "directory entry too close to block end",
    )?;
    let ino = le32(head, 0);
    check(ino <= fmt.inodes_count, "inode out of bounds")?;
    let name = head
        .get(HEAD..)
        .and_then(|n| n.get(..name_len))
        .unwrap_or(&[]);
    check(ino == 0 || !name.is_empty(), "entry without a name")?;
    check(
        !(last && name == b"."),
        "'.' directory cannot be the last in data block",
    )?;
    Ok(Entry {
        offset,
        rec_len,
        ino,
        file_type: if fmt.filetype {
            byte(head, 7)
        } else {
            FT_UNKNOWN
        },
        name,
    })
}

/// Iterates over a block's entries, those not in use included. A damaged entry is the last item.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    block: &'a [u8],
    offset: usize,
    end: End,
    fmt: DirFormat,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.end.limit {
            return None;
        }
        let entry = entry_at(self.block, self.offset, self.end, &self.fmt);
        self.offset = match &entry {
            // At least 12, so this ends.
            Ok(e) => self.offset.saturating_add(e.rec_len),
            Err(_) => self.end.limit,
        };
        Some(entry)
    }
}

/// The entries of a block, from its start. The entry that holds the checksum is left out.
///
/// In an index block ([`crate::htree`]) the index is what lies behind the last entry's name: a
/// root reads as `.` and `..`, a node as one entry that is not in use.
pub fn entries<'a>(buf: &'a [u8], fmt: &DirFormat) -> Result<Entries<'a>> {
    let block = fmt.block(buf)?;
    let end = End {
        limit: fmt.limit(block),
        over: fmt.size(),
    };
    Ok(Entries {
        block,
        offset: 0,
        end,
        fmt: *fmt,
    })
}

/// The entries of a block that is to be changed: none may cover the checksum.
pub(crate) fn strict_entries<'a>(buf: &'a [u8], fmt: &DirFormat) -> Result<Entries<'a>> {
    let mut entries = entries(buf, fmt)?;
    entries.end.over = entries.end.limit;
    Ok(entries)
}

/// As [`strict_entries`], from the entry at `offset` on.
pub(crate) fn strict_entries_from<'a>(
    buf: &'a [u8],
    offset: usize,
    fmt: &DirFormat,
) -> Result<Entries<'a>> {
    let mut entries = strict_entries(buf, fmt)?;
    entries.offset = offset;
    Ok(entries)
}

/// The entry at `offset`, at which one begins.
pub(crate) fn entry_of<'a>(buf: &'a [u8], offset: usize, fmt: &DirFormat) -> Result<Entry<'a>> {
    let mut entries = strict_entries_from(buf, offset, fmt)?;
    entries
        .next()
        .unwrap_or(Err(Error::Corrupt("directory entry overrun")))
}

/// The first entry at or behind byte `offset`, as when reading goes on at a position that was
/// given out earlier, since when entries may have changed: `None` if there is none.
pub fn entry_from<'a>(buf: &'a [u8], offset: usize, fmt: &DirFormat) -> Result<Option<Entry<'a>>> {
    for entry in entries(buf, fmt)? {
        let entry = entry?;
        if entry.offset >= offset {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Looks for the entry in use with this name.
pub fn find<'a>(buf: &'a [u8], name: &[u8], fmt: &DirFormat) -> Result<Option<Entry<'a>>> {
    for entry in entries(buf, fmt)? {
        let entry = entry?;
        if entry.ino != 0 && entry.name == name {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Puts an entry into the first place that is large enough and gives the byte where it begins, or
/// `None` if the block is full.
///
/// That no entry of this name is there yet is the caller's to know. The checksum is left to
/// [`update_checksum`].
pub fn insert(
    buf: &mut [u8],
    name: &[u8],
    ino: u32,
    file_type: u8,
    fmt: &DirFormat,
) -> Result<Option<usize>> {
    if name.is_empty() || name.len() > NAME_MAX || ino == 0 || ino > fmt.inodes_count {
        return Err(Error::Argument("directory entry out of range"));
    }
    check(
        !fmt.checksums || has_tail(fmt.block(buf)?),
        "no room for the directory checksum",
    )?;
    let need = entry_size(name.len());
    let mut place = None;
    for entry in strict_entries(buf, fmt)? {
        let entry = entry?;
        if place.is_none() && entry.room() >= need {
            // The part before the new entry stays with the old one.
            place = Some((
                entry.offset,
                entry.rec_len.saturating_sub(entry.room()),
                entry.rec_len,
            ));
        }
    }
    let Some((offset, keep, rec_len)) = place else {
        return Ok(None);
    };
    let at = offset.saturating_add(keep);
    if keep != 0 {
        put_le16(
            buf,
            offset.saturating_add(4),
            DirFormat::stored_rec_len(keep),
        );
    }
    write(
        buf,
        at,
        rec_len.saturating_sub(keep),
        ino,
        file_type,
        name,
        fmt,
    );
    Ok(Some(at))
}

/// Removes the entry in use with this name and inode. Its bytes go to the entry before it; the first
/// entry of a block stays, as one that is not in use. False if the block has no such entry.
///
/// Nothing of the name is left in the block. The checksum is left to [`update_checksum`].
pub fn remove(buf: &mut [u8], name: &[u8], ino: u32, fmt: &DirFormat) -> Result<bool> {
    let mut before: Option<(usize, usize)> = None;
    let mut found = None;
    for entry in strict_entries(buf, fmt)? {
        let entry = entry?;
        if ino != 0 && entry.ino == ino && entry.name == name {
            found = Some((entry.offset, entry.rec_len));
            break;
        }
        before = Some((entry.offset, entry.rec_len));
    }
    let Some((offset, rec_len)) = found else {
        return Ok(false);
    };
    if let Some(entry) = buf.get_mut(offset..offset.saturating_add(rec_len)) {
        entry.fill(0);
    }
    let (at, len) = match before {
        Some((at, len)) => (at, len.saturating_add(rec_len)),
        None => (offset, rec_len),
    };
    put_le16(buf, at.saturating_add(4), DirFormat::stored_rec_len(len));
    Ok(true)
}

/// Lets the entry in use with this name and inode `old` stand for inode `new`, of the type
/// `file_type`. False if the block has no such entry. The checksum is left to [`update_checksum`].
pub fn redirect(
    buf: &mut [u8],
    name: &[u8],
    old: u32,
    new: u32,
    file_type: u8,
    fmt: &DirFormat,
) -> Result<bool> {
    if new == 0 || new > fmt.inodes_count {
        return Err(Error::Argument("directory entry out of range"));
    }
    let mut found = None;
    for entry in strict_entries(buf, fmt)? {
        let entry = entry?;
        if old != 0 && entry.ino == old && entry.name == name {
            found = Some(entry.offset);
            break;
        }
    }
    let Some(offset) = found else {
        return Ok(false);
    };
    set_inode(buf, offset, new, file_type, fmt);
    Ok(true)
}

/// Sets the inode and the type of the entry at `offset`.
fn set_inode(buf: &mut [u8], offset: usize, ino: u32, file_type: u8, fmt: &DirFormat) {
    let file_type = if fmt.filetype { file_type } else { FT_UNKNOWN };
    put_le32(buf, offset, ino);
    put(buf, offset.saturating_add(7), &[file_type]);
}

/// The entries `.` and `..` with which the first block of directory `ino` begins: where the second
/// lies, and what it names. Works for the root of an index too.
fn dots(buf: &[u8], ino: u32, fmt: &DirFormat) -> Result<(usize, u32)> {
    let mut entries = entries(buf, fmt)?;
    match entries.next() {
        Some(Ok(e)) if e.name == b"." && e.ino == ino => {}
        _ => return Err(Error::Corrupt("directory missing '.'")),
    }
    match entries.next() {
        Some(Ok(e)) if e.name == b".." && e.ino != 0 => Ok((e.offset, e.ino)),
        _ => Err(Error::Corrupt("directory missing '..'")),
    }
}

/// What `..` in the first block of directory `ino` names.
pub fn parent(buf: &[u8], ino: u32, fmt: &DirFormat) -> Result<u32> {
    dots(buf, ino, fmt).map(|(_, parent)| parent)
}

/// Lets `..` in the first block of directory `ino` name another directory. The checksum is left to
/// [`update_checksum`], or to that of the index if the block is its root.
pub fn set_parent(buf: &mut [u8], ino: u32, parent: u32, fmt: &DirFormat) -> Result<()> {
    if parent == 0 || parent > fmt.inodes_count {
        return Err(Error::Argument("directory entry out of range"));
    }
    let (offset, _) = dots(buf, ino, fmt)?;
    put_le32(buf, offset, parent);
    Ok(())
}

/// Whether no entry of the block is in use but the first `skip`.
pub fn is_empty(buf: &[u8], skip: usize, fmt: &DirFormat) -> Result<bool> {
    for entry in entries(buf, fmt)?.skip(skip) {
        if entry?.ino != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the block has room for one more name of `len` bytes. The entries before the room are
/// checked.
pub fn has_room(buf: &[u8], len: usize, fmt: &DirFormat) -> Result<bool> {
    let need = entry_size(len);
    for entry in strict_entries(buf, fmt)? {
        if entry?.room() >= need {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes an entry's fields and name.
pub(crate) fn write(
    buf: &mut [u8],
    at: usize,
    rec_len: usize,
    ino: u32,
    file_type: u8,
    name: &[u8],
    fmt: &DirFormat,
) {
    let name_len = u8::try_from(name.len()).unwrap_or(0);
    let file_type = if fmt.filetype { file_type } else { FT_UNKNOWN };
    put_le32(buf, at, ino);
    put_le16(
        buf,
        at.saturating_add(4),
        DirFormat::stored_rec_len(rec_len),
    );
    put(buf, at.saturating_add(6), &[name_len, file_type]);
    put(buf, at.saturating_add(HEAD), name);
}

/// Zeroes a block, writes the entry that holds the checksum if the volume has any, and gives the
/// number of bytes that are left for entries.
pub(crate) fn format(buf: &mut [u8], fmt: &DirFormat) -> Result<usize> {
    let block = fmt.block_mut(buf)?;
    block.fill(0);
    if !fmt.checksums {
        return Ok(block.len());
    }
    let limit = block.len().saturating_sub(TAIL);
    put_le16(block, limit.saturating_add(4), low16(TAIL as u32));
    put(block, limit.saturating_add(7), &[FT_CSUM]);
    Ok(limit)
}

/// Makes the first block of a new directory: `.` and `..`. The checksum is left to
/// [`update_checksum`].
pub fn init(buf: &mut [u8], ino: u32, parent: u32, fmt: &DirFormat) -> Result<()> {
    let limit = format(buf, fmt)?;
    let dot = entry_size(1);
    write(buf, 0, dot, ino, FT_DIR, b".", fmt);
    write(
        buf,
        dot,
        limit.saturating_sub(dot),
        parent,
        FT_DIR,
        b"..",
        fmt,
    );
    Ok(())
}

/// Makes a further block of a directory, without entries. The checksum is left to
/// [`update_checksum`].
pub fn init_empty(buf: &mut [u8], fmt: &DirFormat) -> Result<()> {
    let limit = format(buf, fmt)?;
    write(buf, 0, limit, 0, FT_UNKNOWN, b"", fmt);
    Ok(())
}

/// True if the block (number `lblk` of a directory with [`inode::FL_INDEX`]) belongs to the index:
/// the root, or a node, which reads as one entry that is not in use and fills the block.
///
/// A leaf without entries reads the same on a volume without checksums. Nothing is lost by taking
/// it for a node when entries are listed.
pub fn is_index_block(buf: &[u8], lblk: u32, fmt: &DirFormat) -> bool {
    lblk == 0 || (le32(buf, 0) == 0 && fmt.rec_len(le16(buf, 4)) == fmt.size())
}

/// The checksum of the block, and where it lies. Fails if the last entry is not one that holds a
/// checksum.
fn block_checksum(block: &[u8], seed: Seed) -> Result<(u32, usize)> {
    if !has_tail(block) {
        return Err(Error::BadChecksum("no room for the directory checksum"));
    }
    let tail = block.len().saturating_sub(TAIL);
    let crc = seed.checksum(block.get(..tail).unwrap_or(&[]));
    Ok((crc, tail.saturating_add(HEAD)))
}

/// Checks the checksum of a block of entries. `seed` is the directory's. A block whose last entry
/// is not one that holds a checksum fails too.
pub fn verify(buf: &[u8], fmt: &DirFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let block = fmt.block(buf)?;
    let (crc, at) = block_checksum(block, seed)?;
    if crc != le32(block, at) {
        return Err(Error::BadChecksum("directory block checksum is wrong"));
    }
    Ok(())
}

/// Brings the checksum of a block of entries up to date.
pub fn update_checksum(buf: &mut [u8], fmt: &DirFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let block = fmt.block_mut(buf)?;
    let (crc, at) = block_checksum(block, seed)?;
    put_le32(block, at, crc);
    Ok(())
}
