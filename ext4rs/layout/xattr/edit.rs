// SPDX-License-Identifier: GPL-2.0

//! Changing a list of attributes. Behaviour: `ext4_xattr_set_entry`.
//!
//! In a block the names are sorted, so that equal sets of attributes have equal lists and inodes
//! can share them; in an inode they are not. Values lie without gaps up to the end, each filled up
//! to four bytes with zeros.

use super::{
    block, entry_hash, entry_size, ibody, is_last, next, Attrs, Rules, BLOCK_HEADER, END, ENTRY,
    MAGIC,
};
use crate::bytes::{byte, le16, le32, put, put_le16, put_le32};
use crate::error::{want, Error, Result};
use core::cmp::Ordering;
use core::ops::Range;

/// Where a list of attributes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind an inode's fields.
    Body,
    /// In a block.
    Block,
}

/// A checked list of attributes that can be changed.
#[derive(Debug)]
pub struct AttrsMut<'a> {
    /// All of the inode's space, or of the block.
    buf: &'a mut [u8],
    place: Place,
}

/// Where a name is in a list, or belongs.
struct Spot {
    /// The entry, from the buffer's start.
    at: usize,
    /// It is there.
    exists: bool,
}

/// Bytes that a value of `size` bytes takes.
fn padded(size: usize) -> usize {
    size.saturating_add(3) & !3
}

/// The length of a range. Its own `len` is one of an iterator, with an assertion in it.
fn bytes_of(range: &Range<usize>) -> usize {
    range.end.saturating_sub(range.start)
}

/// Moves bytes of a buffer.
fn shift(buf: &mut [u8], from: Range<usize>, to: usize) -> Result<()> {
    // Cut to what is read and written, the moves are to an end of it: the compiler then sees that
    // they are in bounds.
    let corrupt = Error::Corrupt("attributes out of bounds");
    let count = bytes_of(&from);
    let end = from.end.max(to.saturating_add(count));
    let window = buf.get_mut(from.start.min(to)..end).ok_or(corrupt)?;
    match from.start.checked_sub(to) {
        Some(skip) if skip <= window.len() => window.copy_within(skip.., 0),
        Some(_) => return Err(corrupt),
        None => {
            let last = window.len().checked_sub(count).ok_or(corrupt)?;
            window.copy_within(..count, last);
        }
    }
    Ok(())
}

/// Clears bytes of a buffer.
fn zero(buf: &mut [u8], range: Range<usize>) {
    if let Some(bytes) = buf.get_mut(range) {
        bytes.fill(0);
    }
}

impl<'a> AttrsMut<'a> {
    /// The list in an inode's own space ([`crate::inode::xattr_region_mut`]). A space without one
    /// gets an empty one.
    pub fn ibody(region: &'a mut [u8], rules: &Rules) -> Result<Self> {
        want(region, END.saturating_add(END), "attribute space too short")?;
        if ibody(region, rules)?.is_none() {
            region.fill(0);
        }
        Ok(Self {
            buf: region,
            place: Place::Body,
        })
    }

    /// The list in a block that fills `buf`.
    pub fn block(buf: &'a mut [u8], rules: &Rules) -> Result<Self> {
        block(buf, rules)?;
        Ok(Self {
            buf,
            place: Place::Block,
        })
    }

    /// Makes `buf` a block with an empty list, of one inode.
    pub fn new_block(buf: &'a mut [u8]) -> Result<Self> {
        want(
            buf,
            BLOCK_HEADER.saturating_add(END),
            "attribute buffer too short",
        )?;
        buf.fill(0);
        put_le32(buf, 0, MAGIC);
        put_le32(buf, 4, 1);
        put_le32(buf, 8, 1);
        Ok(Self {
            buf,
            place: Place::Block,
        })
    }

    /// The attributes as they are now.
    pub fn attrs(&self) -> Attrs<'_> {
        Attrs {
            list: self.buf.get(self.list_at()..).unwrap_or(&[]),
            base: self.buf.get(self.base_at()..).unwrap_or(&[]),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        is_last(self.buf, self.list_at())
    }

    /// Sets an attribute, whether or not it is there. `false`, and no change, if it does not fit.
    /// `index` is one of `INDEX_*`, `name` is without its prefix and has no zero byte.
    ///
    /// If the old value is in an inode, that inode loses a reference, for which the caller has to
    /// see.
    pub fn set(&mut self, index: u8, name: &[u8], value: &[u8]) -> Result<bool> {
        let name_len =
            u8::try_from(name.len()).map_err(|_| Error::Argument("attribute name too long"))?;
        let Ok(value_len) = u32::try_from(value.len()) else {
            return Ok(false);
        };
        if name.contains(&0) {
            return Err(Error::Argument("zero byte in an attribute name"));
        }
        let spot = self.spot(index, name);
        let new = padded(value.len());
        let old = if spot.exists {
            self.value_at(spot.at).map_or(0, |range| bytes_of(&range))
        } else {
            0
        };
        if new == 0 || new != old {
            // What is there already makes room for itself.
            let mut need = new;
            if !spot.exists {
                need = need.saturating_add(entry_size(name.len()));
            }
            if self.room().saturating_add(old) < need {
                return Ok(false);
            }
            if spot.exists {
                self.remove_value(spot.at)?;
            } else {
                self.insert_entry(spot.at, index, name_len, name)?;
            }
            self.place_value(spot.at, new)?;
        }
        self.fill_value(spot.at, value, value_len);
        self.seal(Some((spot.at, name, value)));
        Ok(true)
    }

    /// Removes an attribute; `false` if it is not there. As for [`AttrsMut::set`] if its value is
    /// in an inode.
    pub fn remove(&mut self, index: u8, name: &[u8]) -> Result<bool> {
        let spot = self.spot(index, name);
        if !spot.exists {
            return Ok(false);
        }
        self.remove_value(spot.at)?;
        let size = entry_size(name.len());
        let end = self.list_end().saturating_add(END);
        shift(self.buf, spot.at.saturating_add(size)..end, spot.at)?;
        zero(self.buf, end.saturating_sub(size)..end);
        self.seal(None);
        Ok(true)
    }

    /// Moves a list in an inode's own space, which then begins `by` bytes later; the values stay where
    /// they are. What the list leaves is cleared. `false`, and no change, if it is in a block or there
    /// is not as much room behind it.
    pub fn move_back(mut self, by: usize) -> Result<bool> {
        if self.place != Place::Body || self.room() < by {
            return Ok(false);
        }
        let mut at = self.list_at();
        while !is_last(self.buf, at) {
            if self.value_at(at).is_some() {
                let offset = usize::from(le16(self.buf, at.saturating_add(2)));
                // Counts from the list, which comes nearer; the room lies between them.
                let offset = offset
                    .checked_sub(by)
                    .ok_or(Error::Corrupt("e_value out of bounds"))?;
                self.put_offset(at, offset)?;
            }
            at = next(self.buf, at);
        }
        let end = at.saturating_add(END);
        shift(self.buf, 0..end, by)?;
        zero(self.buf, 0..by);
        Ok(true)
    }

    /// Where the list begins in the buffer.
    fn list_at(&self) -> usize {
        match self.place {
            Place::Body => END,
            Place::Block => BLOCK_HEADER,
        }
    }

    /// Where the offsets of values count from.
    fn base_at(&self) -> usize {
        match self.place {
            Place::Body => END,
            Place::Block => 0,
        }
    }

    /// Where the word is that ends the list.
    fn list_end(&self) -> usize {
        let mut at = self.list_at();
        while !is_last(self.buf, at) {
            at = next(self.buf, at);
        }
        at
    }

    /// Where the values begin.
    fn values_at(&self) -> usize {
        let (mut at, mut first) = (self.list_at(), self.buf.len());
        while !is_last(self.buf, at) {
            if let Some(value) = self.value_at(at) {
                first = first.min(value.start);
            }
            at = next(self.buf, at);
        }
        first
    }

    /// The value of the entry at `at`, with what fills it up; `None` if there is none here.
    fn value_at(&self, at: usize) -> Option<Range<usize>> {
        let size = usize::try_from(le32(self.buf, at.saturating_add(8))).ok()?;
        if size == 0 || le32(self.buf, at.saturating_add(4)) != 0 {
            return None;
        }
        let start = self
            .base_at()
            .saturating_add(le16(self.buf, at.saturating_add(2)).into());
        Some(start..start.saturating_add(padded(size)))
    }

    /// Finds a name, or where it belongs: in a block in its order (by index, length and bytes), in
    /// an inode at the end.
    fn spot(&self, index: u8, name: &[u8]) -> Spot {
        let mut at = self.list_at();
        while !is_last(self.buf, at) {
            let len = usize::from(byte(self.buf, at));
            let other = self
                .buf
                .get(at.saturating_add(ENTRY)..)
                .and_then(|bytes| bytes.get(..len))
                .unwrap_or(&[]);
            let order = index
                .cmp(&byte(self.buf, at.saturating_add(1)))
                .then(name.len().cmp(&len))
                .then_with(|| name.cmp(other));
            if order == Ordering::Equal {
                return Spot { at, exists: true };
            }
            if order == Ordering::Less && self.place == Place::Block {
                break;
            }
            at = next(self.buf, at);
        }
        Spot { at, exists: false }
    }

    /// Bytes between the list and the values.
    fn room(&self) -> usize {
        let used = self.list_end().saturating_add(END);
        self.values_at().saturating_sub(used)
    }

    /// Takes the value of the entry at `at` out; the values before it move up.
    fn remove_value(&mut self, at: usize) -> Result<()> {
        if let Some(value) = self.value_at(at) {
            let (first, len) = (self.values_at(), bytes_of(&value));
            shift(self.buf, first..value.start, first.saturating_add(len))?;
            zero(self.buf, first..first.saturating_add(len));
            let mut other = self.list_at();
            while !is_last(self.buf, other) {
                if self.value_at(other).is_some_and(|v| v.start < value.start) {
                    let offset = usize::from(le16(self.buf, other.saturating_add(2)));
                    self.put_offset(other, offset.saturating_add(len))?;
                }
                other = next(self.buf, other);
            }
        }
        // Offset, inode and size.
        put(self.buf, at.saturating_add(2), &[0; 10]);
        Ok(())
    }

    /// Puts an entry without a value at `at`; the following ones move down.
    fn insert_entry(&mut self, at: usize, index: u8, name_len: u8, name: &[u8]) -> Result<()> {
        let end = self.list_end().saturating_add(END);
        let size = entry_size(name.len());
        shift(self.buf, at..end, at.saturating_add(size))?;
        zero(self.buf, at..at.saturating_add(size));
        put(self.buf, at, &[name_len, index]);
        put(self.buf, at.saturating_add(ENTRY), name);
        Ok(())
    }

    /// Gives the entry at `at`, which has no value, the `len` bytes before all other values.
    fn place_value(&mut self, at: usize, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let offset = self
            .values_at()
            .checked_sub(len)
            .and_then(|start| start.checked_sub(self.base_at()))
            .ok_or(Error::Corrupt("attributes out of bounds"))?;
        self.put_offset(at, offset)
    }

    fn put_offset(&mut self, at: usize, offset: usize) -> Result<()> {
        let offset = u16::try_from(offset).map_err(|_| Error::Corrupt("e_value out of bounds"))?;
        put_le16(self.buf, at.saturating_add(2), offset);
        Ok(())
    }

    /// Writes a value to where the entry at `at` says.
    fn fill_value(&mut self, at: usize, value: &[u8], len: u32) {
        put_le32(self.buf, at.saturating_add(8), len);
        if let Some(range) = self.value_at(at) {
            zero(self.buf, range.clone());
            put(self.buf, range.start, value);
        }
    }

    /// Brings hashes and magic up to date; `set` is the entry that was set, with name and value.
    fn seal(&mut self, set: Option<(usize, &[u8], &[u8])>) {
        match self.place {
            Place::Body => {
                if let Some((at, ..)) = set {
                    put_le32(self.buf, at.saturating_add(12), 0);
                }
                let magic = if self.is_empty() { 0 } else { MAGIC };
                put_le32(self.buf, 0, magic);
            }
            Place::Block => {
                if let Some((at, name, value)) = set {
                    put_le32(self.buf, at.saturating_add(12), entry_hash(name, value));
                }
                let hash = self.attrs().hash();
                put_le32(self.buf, 12, hash);
            }
        }
    }
}
