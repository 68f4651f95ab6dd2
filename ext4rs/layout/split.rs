// SPDX-License-Identifier: GPL-2.0

//! Sharing out the entries of a full directory block over two, by the hashes of their names.
//!
//! Where the cut is, and in which order entries lie afterwards, is as ext4's `do_split` has it.

use crate::bytes::put_le16;
use crate::dir::{self, DirFormat, Entry};
use crate::error::{check, Error, Result};
use crate::hash::Hasher;
use crate::sort::sort_by_key;

/// An entry in use, by the hash of its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed {
    hash: u32,
    offset: usize,
    rec_len: usize,
}

/// How many [`Hashed`] entries a block of `block_size` bytes can have at most.
pub const fn max_entries(block_size: usize) -> usize {
    block_size / dir::MIN_ENTRY
}

/// The result of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The lowest hash of the block that got the higher ones.
    pub hash: u32,
    /// The other block has names of that hash too.
    pub continued: bool,
}

impl Cut {
    /// The hash as the index has it for the block of higher hashes.
    pub fn index_hash(self) -> u32 {
        self.hash | u32::from(self.continued)
    }

    /// Whether a name of this hash goes into the block of higher hashes.
    pub fn is_high(self, hash: u32) -> bool {
        hash >= self.hash
    }
}

/// Shares out the entries of `block`: names of low hashes to `low`, in the order in which they are,
/// and those of high ones to `high`, in the order of their hashes. Both are made from nothing;
/// their checksums are left to [`dir::update_checksum`].
///
/// `scratch` has room for [`max_entries`].
pub fn split(
    block: &[u8],
    hasher: &Hasher,
    scratch: &mut [Hashed],
    low: &mut [u8],
    high: &mut [u8],
    fmt: &DirFormat,
) -> Result<Cut> {
    let mut count = 0usize;
    for entry in dir::strict_entries(block, fmt)? {
        let entry = entry?;
        if entry.ino != 0 {
            let slot = scratch.get_mut(count);
            *slot.ok_or(Error::Argument("too few places for entries"))? = Hashed {
                hash: hasher.hash(entry.name).major,
                offset: entry.offset,
                rec_len: entry.rec_len,
            };
            count = count.saturating_add(1);
        }
    }
    let all = scratch.get_mut(..count).unwrap_or(&mut []);
    sort_by_key(all, |e| (e.hash, e.offset));
    let at = cut_at(all, fmt.size());
    let (Some(last), Some(first)) = (
        at.checked_sub(1).and_then(|i| all.get(i)).copied(),
        all.get(at).copied(),
    ) else {
        return Err(Error::Corrupt("bad indexed directory"));
    };
    let mut to = Packer::new(high, fmt)?;
    for hashed in all.get(at..).unwrap_or(&[]) {
        to.copy(&dir::entry_of(block, hashed.offset, fmt)?)?;
    }
    to.finish();
    let kept = all.get_mut(..at).unwrap_or(&mut []);
    sort_by_key(kept, |e| e.offset);
    let mut to = Packer::new(low, fmt)?;
    for hashed in kept.iter() {
        to.copy(&dir::entry_of(block, hashed.offset, fmt)?)?;
    }
    to.finish();
    Ok(Cut {
        hash: first.hash,
        continued: first.hash == last.hash,
    })
}

/// The number of entries that stay: neither block is to be over half full.
fn cut_at(all: &[Hashed], block_size: usize) -> usize {
    let mut size = 0usize;
    for (i, entry) in all.iter().enumerate().rev() {
        // Is more than half of this entry in the other half of the block?
        if size.saturating_add(entry.rec_len / 2) > block_size / 2 {
            return i.saturating_add(1);
        }
        size = size.saturating_add(entry.rec_len);
    }
    // All of them are less than half a block: each gets half of them.
    all.len() / 2
}

/// Writes entries one behind the other into a new block.
struct Packer<'a> {
    block: &'a mut [u8],
    /// Where the entries may go up to.
    limit: usize,
    /// The last entry written.
    last: usize,
    /// Where the next one goes.
    next: usize,
    fmt: DirFormat,
}

impl<'a> Packer<'a> {
    fn new(block: &'a mut [u8], fmt: &DirFormat) -> Result<Self> {
        let limit = dir::format(block, fmt)?;
        Ok(Self {
            block,
            limit,
            last: 0,
            next: 0,
            fmt: *fmt,
        })
    }

    /// Adds an entry. All of a block fit into another one, unless that block is damaged.
    fn copy(&mut self, entry: &Entry<'_>) -> Result<()> {
        let size = dir::entry_size(entry.name.len());
        let end = self.next.saturating_add(size);
        check(end <= self.limit, "too many entries for a directory block")?;
        check(entry.name != b".", "'.' in a further block")?;
        dir::write(
            self.block,
            self.next,
            size,
            entry.ino,
            entry.file_type,
            entry.name,
            &self.fmt,
        );
        self.last = self.next;
        self.next = end;
        Ok(())
    }

    /// Gives the rest of the block to the last entry.
    fn finish(self) {
        let rest = self.limit.saturating_sub(self.last);
        let at = self.last.saturating_add(4);
        put_le16(self.block, at, DirFormat::stored_rec_len(rest));
    }
}

/// Puts all entries of the first block of directory `ino`, but for `.` and `..`, into `to`, which is
/// made from nothing. What is free between them stays there, as in ext4: where a block is cut
/// depends on it. The checksum is left to [`dir::update_checksum`].
pub fn without_dots(block: &[u8], ino: u32, to: &mut [u8], fmt: &DirFormat) -> Result<()> {
    dir::parent(block, ino, fmt)?;
    let limit = dir::format(to, fmt)?;
    let (mut last, mut next) = (0usize, 0usize);
    for entry in dir::strict_entries(block, fmt)?.skip(2) {
        let entry = entry?;
        check(entry.name != b".", "'.' in a further block")?;
        let name = if entry.ino == 0 { b"" } else { entry.name };
        dir::write(
            to,
            next,
            entry.rec_len,
            entry.ino,
            entry.file_type,
            name,
            fmt,
        );
        last = next;
        next = next.saturating_add(entry.rec_len);
    }
    // The last entry gets the space of the two that are not here.
    let rest = DirFormat::stored_rec_len(limit.saturating_sub(last));
    put_le16(to, last.saturating_add(4), rest);
    Ok(())
}
