// SPDX-License-Identifier: GPL-2.0

//! Entries, block by block: searching, listing, and finding room for one more.

use super::{
    edit::{Found, Place, Room},
    htree, Dir, Want,
};
use crate::{journal::Handle, report};
use ext4rs_layout::dir;
use ext4rs_vfs::{
    buffer_head::BufferHead,
    fs::{DirEmitter, EntryType},
};
use kernel::prelude::*;

/// Looks for a name in all blocks of the directory.
pub(super) fn find(dir: &Dir<'_>, name: &[u8]) -> Result<Option<Found>> {
    let mut from = 0;
    while let Some(lblk) = dir.next_block(from)? {
        dir.read_ahead_in_groups(lblk)?;
        if let Some(buffer) = dir.read(lblk, Want::Any)? {
            if let Some(found) = find_in_block(dir, buffer, lblk, name)? {
                return Ok(Some(found));
            }
        }
        from = lblk.saturating_add(1);
    }
    Ok(None)
}

/// Looks for a name in block `lblk`. All entries before it are checked.
pub(super) fn find_in_block(
    dir: &Dir<'_>,
    buffer: BufferHead,
    lblk: u32,
    name: &[u8],
) -> Result<Option<Found>> {
    let fmt = dir.entry_format(lblk);
    let found = buffer
        .read(|b| dir::find(b, name, &fmt).map(|entry| entry.map(|e| (e.ino, e.file_type))))
        .map_err(|e| dir.bad_entry("search_dir", &buffer, lblk, e))?;
    Ok(found.map(|(ino, file_type)| Found {
        ino,
        file_type,
        place: Place { lblk, buffer },
    }))
}

/// Block `lblk`, if it has room for one more name of `len` bytes.
pub(super) fn with_room(
    dir: &Dir<'_>,
    buffer: BufferHead,
    lblk: u32,
    len: usize,
) -> Result<Option<Place>> {
    match buffer.read(|b| dir::has_room(b, len, &dir.fmt)) {
        Ok(true) => Ok(Some(Place { lblk, buffer })),
        Ok(false) => Ok(None),
        Err(e) => Err(dir.bad_entry("find_dest_de", &buffer, lblk, e)),
    }
}

/// Finds a block of a directory without index that has room for a name of `len` bytes. If none has,
/// the directory grows by a block; or gets an index, if it has but one block, `may_index`, and the
/// volume has indexes.
///
/// The last block is tried first, and the others only when it is full: each block is then gone
/// through once for a whole block of new entries, where ext4 does it for each new entry.
pub(super) fn room(dir: &Dir<'_>, len: usize, may_index: bool) -> Result<Room> {
    let last = dir.blocks().checked_sub(1);
    let with_room_at = |lblk| match dir.read(lblk, Want::Any)? {
        Some(buffer) => with_room(dir, buffer, lblk, len),
        None => Ok(None),
    };
    if let Some(last) = last {
        if let Some(place) = with_room_at(last)? {
            return Ok(Room::There(place));
        }
    }
    let mut from = 0;
    while let Some(lblk) = dir.next_block(from)? {
        if Some(lblk) == last {
            break;
        }
        dir.read_ahead_in_groups(lblk)?;
        if let Some(place) = with_room_at(lblk)? {
            return Ok(Room::There(place));
        }
        from = lblk.saturating_add(1);
    }
    Ok(if may_index && htree::can_begin(dir) {
        Room::Index
    } else {
        Room::Append
    })
}

/// Adds a block without entries.
pub(super) fn append(dir: &Dir<'_>, handle: &Handle<'_>) -> Result<Place> {
    let lblk = dir.blocks();
    let buffer = dir.append(handle, |b| {
        dir::init_empty(b, &dir.fmt)?;
        dir::update_checksum(b, &dir.fmt, dir.seed)
    })?;
    Ok(Place { lblk, buffer })
}

/// Lists the entries from the emitter's position on. A position is a byte of the directory.
///
/// A block that is bad is reported, and answered with an error once all that comes before it has
/// been delivered; the position is behind the block then, so that a reader can go on.
pub(super) fn iterate(dir: &Dir<'_>, out: &mut DirEmitter<'_>) -> Result {
    let bits = dir.vol().geo.block_bits;
    let mut listing = Listing {
        dir,
        block: KVVec::new(),
        any: false,
    };
    let mut first = true;
    while out.pos() < dir.inode().size() {
        let Ok(from) = u32::try_from(out.pos() >> bits) else {
            return Ok(());
        };
        let Some(lblk) = dir.next_block(from)? else {
            listing.skip_hole(out, from, dir.inode().size());
            return Ok(());
        };
        let start = u64::from(lblk) << bits;
        if lblk != from {
            listing.skip_hole(out, from, start);
        }
        if first {
            dir.read_ahead(lblk)?;
        } else {
            dir.read_ahead_in_groups(lblk)?;
        }
        first = false;
        let next = start.saturating_add(1 << bits);
        match listing.block(lblk, start, next, out) {
            Ok(true) => out.set_pos(next),
            Ok(false) => return Ok(()),
            Err(_) if listing.any => return Ok(()),
            Err(e) => {
                out.set_pos(next);
                return Err(e);
            }
        }
    }
    Ok(())
}

/// One call of [`iterate`].
struct Listing<'d, 'a> {
    dir: &'d Dir<'a>,
    /// A copy of the block that is being listed: the reader's memory may have to be paged in
    /// while entries are copied there.
    block: KVVec<u8>,
    /// An entry has been delivered.
    any: bool,
}

impl Listing<'_, '_> {
    /// Lists the entries of block `lblk`, whose bytes are those from `start` to `next` of the
    /// directory, that are at or behind the position. False if the reader has no more room.
    fn block(
        &mut self,
        lblk: u32,
        start: u64,
        next: u64,
        out: &mut DirEmitter<'_>,
    ) -> Result<bool> {
        let dir = self.dir;
        let Some(buffer) = dir.read(lblk, dir.want_at(lblk))? else {
            return Ok(true);
        };
        self.copy(&buffer)?;
        if lblk != 0 && dir.is_indexed() && dir::is_index_block(&self.block, lblk, &dir.fmt) {
            return Ok(true);
        }
        // Entries before the position may have changed since it was given out, so it need not be
        // one where an entry begins: the block is gone through from its start.
        let fmt = dir.entry_format(lblk);
        let bad = |e| dir.bad_entry("readdir", &buffer, lblk, e);
        for entry in dir::entries(&self.block, &fmt).map_err(bad)? {
            let entry = entry.map_err(bad)?;
            let at = start.saturating_add(entry.offset as u64);
            if at < out.pos() {
                continue;
            }
            // What the reader is told of as the place of this entry.
            out.set_pos(at);
            if entry.ino != 0 {
                if !out.emit(entry.name, entry.ino.into(), entry_type(entry.file_type)) {
                    return Ok(false);
                }
                self.any = true;
            }
            out.set_pos(at.saturating_add(entry.rec_len as u64).min(next));
        }
        Ok(true)
    }

    /// Takes a copy of a block.
    fn copy(&mut self, buffer: &BufferHead) -> Result {
        if self.block.is_empty() {
            self.block.resize(buffer.size(), 0, GFP_KERNEL)?;
        }
        buffer.read(|b| {
            for (to, from) in self.block.iter_mut().zip(b) {
                *to = *from;
            }
        });
        Ok(())
    }

    /// Moves the position over a hole that begins at block `from` and ends at byte `end`.
    fn skip_hole(&self, out: &mut DirEmitter<'_>, from: u32, end: u64) {
        let ino = self.dir.inode().ino();
        report::warning(
            self.dir.sb(),
            "readdir",
            fmt!("inode #{ino}: directory contains a hole at block {from}"),
        );
        out.set_pos(end);
    }
}

/// The type of an entry, as the VFS has it.
pub(super) fn entry_type(file_type: u8) -> EntryType {
    match file_type {
        dir::FT_REG => EntryType::Reg,
        dir::FT_DIR => EntryType::Dir,
        dir::FT_CHAR => EntryType::Chr,
        dir::FT_BLOCK => EntryType::Blk,
        dir::FT_FIFO => EntryType::Fifo,
        dir::FT_SOCK => EntryType::Sock,
        dir::FT_LINK => EntryType::Lnk,
        _ => EntryType::Unknown,
    }
}
