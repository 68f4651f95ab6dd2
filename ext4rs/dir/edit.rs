// SPDX-License-Identifier: GPL-2.0

//! Finding, adding, changing and removing entries.
//!
//! Where an entry goes is looked up before a handle is started ([`Dir::room`]), so that the handle
//! asks for no more than the change needs, and nothing is read from the disk under it. The
//! directory's `i_rwsem` keeps what was found true.

use super::{htree, linear, Dir};
use crate::{inode, journal::Handle, map, report};
use ext4rs_layout::{dir, htree as format};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// A block that has room for an entry which is about to be made.
pub(crate) struct Place {
    /// Which block of the directory.
    pub(super) lblk: u32,
    pub(super) buffer: BufferHead,
}

/// How a name gets its entry.
pub(crate) enum Room {
    /// A block has room for it.
    There(Place),
    /// Of a directory without index: a block is added.
    Append,
    /// The only block of a directory becomes an index and two leaves.
    Index,
    /// Of an indexed directory: the leaf is split, and with it as many blocks of the index as are
    /// full; this many blocks are added.
    Split(u32),
}

impl Room {
    /// Blocks that making the room, and then the entry, change: beside each new block the one that
    /// it was split off and the one that points to it; the directory's inode.
    pub(crate) fn credits(&self, dir: &Dir<'_>) -> u32 {
        let added = match self {
            Room::There(_) => 0,
            Room::Append => 1,
            Room::Index => 2,
            Room::Split(added) => *added,
        };
        let for_each = map::credits_map(dir.inode()).saturating_add(3);
        added
            .saturating_mul(for_each)
            .saturating_add(1 + inode::CREDITS_DIRTY)
    }
}

/// An entry that was found.
pub(crate) struct Found {
    /// The inode that it names.
    pub(crate) ino: u32,
    /// Its type, one of `FT_*`.
    pub(crate) file_type: u8,
    pub(super) place: Place,
}

impl Found {
    /// Blocks that changing or removing the entry changes: its own and the directory's inode.
    pub(crate) const CREDITS: u32 = 1 + inode::CREDITS_DIRTY;
}

impl<'a> Dir<'a> {
    /// Finds a name.
    ///
    /// # Errors
    ///
    /// `EIO`, or `EFSCORRUPTED` or `EFSBADCRC`, reported.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Found>> {
        // These two are in the first block, whatever their hashes.
        if self.is_indexed() && name != b"." && name != b".." {
            match htree::find(self, name)? {
                htree::Search::Found(found) => return Ok(Some(found)),
                htree::Search::Absent => return Ok(None),
                htree::Search::Unusable => {}
            }
        }
        linear::find(self, name)
    }

    /// Finds out how a name that the directory does not have can get an entry. Changes nothing,
    /// but for an index that cannot be used: where blocks have no checksums it is given up.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the index is full, as deep as it may be; said in the log. `EFSCORRUPTED` if the
    /// index is bad: an entry put elsewhere would not be found by it.
    pub(crate) fn room(&self, name: &[u8]) -> Result<Room> {
        if self.is_indexed() {
            if let Some(room) = htree::room(self, name)? {
                return Ok(room);
            }
            if self.fmt.checksums {
                return Err(self.corrupt(
                    "add_entry",
                    None,
                    fmt!("Directory has corrupted htree index."),
                ));
            }
            self.forget_index();
            return linear::room(self, name.len(), false);
        }
        linear::room(self, name.len(), true)
    }

    /// Makes the room that [`Dir::room`] found for the name. What was made may stay without an
    /// entry.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the volume is full or the directory cannot grow any more; `ENOMEM`. The
    /// directory is in order then.
    pub(crate) fn make_room(&self, handle: &Handle<'_>, room: Room, name: &[u8]) -> Result<Place> {
        match room {
            Room::There(place) => Ok(place),
            Room::Append => linear::append(self, handle),
            Room::Index => htree::begin(self, handle, name),
            Room::Split(_) => htree::split(self, handle, name),
        }
    }

    /// Puts an entry for an inode with this number and mode into a block that [`Dir::make_room`]
    /// gave for the name, and brings the directory's times and change counter up to date. That the
    /// directory has no entry of this name is the caller's to know.
    pub(crate) fn enter(
        &self,
        handle: &Handle<'_>,
        place: &Place,
        name: &[u8],
        ino: u32,
        mode: u16,
    ) -> Result {
        let kind = dir::file_type(mode);
        let added = handle.modify(&place.buffer, |b| {
            let at = dir::insert(b, name, ino, kind, &self.fmt)?;
            dir::update_checksum(b, &self.fmt, self.seed)?;
            Ok(at.is_some())
        })?;
        match added {
            Ok(true) => self.changed(handle),
            Ok(false) => Err(ENOSPC),
            Err(e) => Err(self.bad_entry("add_dirent_to_buf", &place.buffer, place.lblk, e)),
        }
    }

    /// Removes an entry, and brings the directory's times and change counter up to date. Blocks
    /// stay, also without entries.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not there any more.
    pub(crate) fn remove(&self, handle: &Handle<'_>, found: &Found, name: &[u8]) -> Result {
        self.change(handle, found, name, "delete_entry", |b| {
            dir::remove(b, name, found.ino, &self.fmt)
        })
    }

    /// Lets an entry name another inode, of the type `file_type`, and brings the directory's times
    /// and change counter up to date.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the entry is not there any more.
    pub(crate) fn redirect(
        &self,
        handle: &Handle<'_>,
        found: &Found,
        name: &[u8],
        ino: u32,
        file_type: u8,
    ) -> Result {
        self.change(handle, found, name, "setent", |b| {
            dir::redirect(b, name, found.ino, ino, file_type, &self.fmt)
        })
    }

    /// Changes an entry by `f`, which answers whether it is in the block. If it is not, adding
    /// another one moved it: it is looked up again.
    fn change(
        &self,
        handle: &Handle<'_>,
        found: &Found,
        name: &[u8],
        function: &str,
        f: impl Fn(&mut [u8]) -> ext4rs_layout::Result<bool>,
    ) -> Result {
        if self.change_in(handle, &found.place, function, &f)? {
            return Ok(());
        }
        let again = self.find(name)?.filter(|again| again.ino == found.ino);
        match again {
            Some(again) if self.change_in(handle, &again.place, function, &f)? => Ok(()),
            _ => Err(ENOENT),
        }
    }

    fn change_in(
        &self,
        handle: &Handle<'_>,
        place: &Place,
        function: &str,
        f: impl Fn(&mut [u8]) -> ext4rs_layout::Result<bool>,
    ) -> Result<bool> {
        let done = handle.modify(&place.buffer, |b| {
            // The only block of a directory may have become the root of an index.
            if self.is_indexed() && place.lblk == 0 {
                return Ok(false);
            }
            let done = f(b)?;
            if done {
                dir::update_checksum(b, &self.fmt, self.seed)?;
            }
            Ok(done)
        })?;
        match done {
            Ok(true) => self.changed(handle).map(|()| true),
            Ok(false) => Ok(false),
            Err(e) => Err(self.bad_entry(function, &place.buffer, place.lblk, e)),
        }
    }

    /// The directory's entries changed: its times, its change counter.
    fn changed(&self, handle: &Handle<'_>) -> Result {
        if !self.vol().disk.compat.has(ext4rs_layout::Compat::DIR_INDEX) {
            // Whoever changes the entries without knowing the index makes it wrong.
            self.forget_index();
        }
        self.inode().touch(true);
        count_change(self.inode());
        inode::mark_dirty(handle, self.inode())
    }

    /// The directory that `..` names.
    ///
    /// # Errors
    ///
    /// `EFSCORRUPTED`, reported, if the first block does not begin as one of a directory does.
    pub(crate) fn parent(&self) -> Result<u32> {
        let ino = u32::try_from(self.inode().ino()).map_err(|_| EINVAL)?;
        let first = self.first_block()?;
        first
            .read(|b| dir::parent(b, ino, &self.entry_format(0)))
            .map_err(|e| self.bad("get_first_dir_block", &first, e))
    }

    /// Lets `..` name another directory: this one was moved. Costs a credit.
    ///
    /// # Errors
    ///
    /// As [`Dir::parent`].
    pub(crate) fn set_parent(&self, handle: &Handle<'_>, parent: u32) -> Result {
        let ino = u32::try_from(self.inode().ino()).map_err(|_| EINVAL)?;
        let first = self.first_block()?;
        handle
            .modify(&first, |b| {
                dir::set_parent(b, ino, parent, &self.entry_format(0))?;
                if self.is_indexed() {
                    format::update_checksum(b, &self.fmt, self.seed)
                } else {
                    dir::update_checksum(b, &self.fmt, self.seed)
                }
            })?
            .map_err(|e| self.bad("rename_dir_finish", &first, e))
    }

    fn first_block(&self) -> Result<BufferHead> {
        self.read(0, self.want_at(0))?.ok_or(EFSCORRUPTED)
    }

    /// Whether the directory has no entries but `.` and `..`. One that cannot be read counts as not
    /// empty (`ext4_empty_dir`).
    pub(crate) fn is_empty(&self) -> bool {
        if let Err(e) = self.parent() {
            self.warn("empty_dir", e);
            return false;
        }
        let mut from = 0;
        loop {
            let lblk = match self.next_block(from) {
                Ok(Some(lblk)) => lblk,
                Ok(None) => return true,
                Err(_) => return false,
            };
            match self.block_is_empty(lblk) {
                Ok(true) => from = lblk.saturating_add(1),
                _ => return false,
            }
        }
    }

    fn block_is_empty(&self, lblk: u32) -> Result<bool> {
        self.read_ahead_in_groups(lblk)?;
        let Some(buffer) = self.read(lblk, self.want_at(lblk))? else {
            return Ok(true);
        };
        let dots = if lblk == 0 { 2 } else { 0 };
        buffer
            .read(|b| dir::is_empty(b, dots, &self.entry_format(lblk)))
            .map_err(|e| self.bad_entry("empty_dir", &buffer, lblk, e))
    }

    fn warn(&self, function: &str, e: Error) {
        let ino = self.inode().ino();
        report::warning(
            self.sb(),
            function,
            fmt!("inode #{ino}: bad directory: {e:?}"),
        );
    }
}

/// The content of the inode, or of a directory, changed: its change counter.
pub(crate) fn count_change(inode: &inode::Inode) {
    let mut raw = inode.data().raw.lock();
    raw.version = raw.version.wrapping_add(1);
}
