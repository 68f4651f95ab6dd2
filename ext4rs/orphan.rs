// SPDX-License-Identifier: GPL-2.0

//! Orphans: inodes that are to be deleted or truncated, and are not yet.
//!
//! An inode is made one in the handle that takes its last link, or lowers its size, and stays one
//! until the handle that frees it, or frees the last block behind its end. If the machine stops
//! between, the next mount does what is left ([`cleanup`]). On disk an orphan has a place in the
//! orphan file (`Documentation/filesystems/ext4/orphan.rst`); if there is no such file, or no free
//! place in it, it is in a list that begins in the superblock and goes on in the `i_dtime` of
//! each inode. Behaviour: `fs/ext4/orphan.c`.
//!
//! Lock order: journal handle, the orphans' lock, a buffer's content lock.

mod cleanup;
mod file;
mod list;

pub(crate) use self::cleanup::clean;

use self::{file::OrphanFile, list::List};
use crate::{
    inode::{self, Inode},
    journal::Handle,
    report,
    volume::Sb,
};
use ext4rs_layout::Compat;
use kernel::{
    prelude::*,
    sync::atomic::{ordering::Relaxed, Atomic},
};

/// Blocks that [`add`] and [`del`] change: the superblock, the inode's in the inode table and that of
/// the inode before it in the list; or one of the orphan file.
pub(crate) const CREDITS: u32 = 3;

/// The orphans of a volume.
#[derive(Default)]
pub(crate) struct Orphans {
    file: Option<OrphanFile>,
    list: List,
}

/// Where an inode is kept as an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is none.
    Nowhere,
    /// In the list.
    List,
    /// In the orphan file, at this place of all its blocks'.
    File(u32),
}

/// An inode's [`Place`]. Changes under the orphans' lock.
pub(crate) struct OrphanState(Atomic<u32>);

impl OrphanState {
    const NOWHERE: u32 = 0;
    const LIST: u32 = 1;
    const FILE: u32 = 2;

    /// Of an inode that is no orphan.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(Self::NOWHERE))
    }

    fn get(&self) -> Place {
        match self.0.load(Relaxed) {
            Self::NOWHERE => Place::Nowhere,
            Self::LIST => Place::List,
            n => Place::File(n.saturating_sub(Self::FILE)),
        }
    }

    fn set(&self, place: Place) {
        let n = match place {
            Place::Nowhere => Self::NOWHERE,
            Place::List => Self::LIST,
            // The file has far fewer places.
            Place::File(at) => at.saturating_add(Self::FILE),
        };
        self.0.store(n, Relaxed);
    }
}

/// Finds the orphans at a mount, after the journal was replayed: reads the orphan file, and where
/// the list begins.
///
/// # Errors
///
/// `EFSCORRUPTED` or `EFSBADCRC`, reported, if the orphan file is bad; `EIO`, `ENOMEM`.
pub(crate) fn load(sb: &Sb) -> Result {
    let vol = sb.data();
    let file = if vol.disk.compat.has(Compat::ORPHAN_FILE) {
        Some(OrphanFile::load(sb)?)
    } else {
        None
    };
    let list = List::load(sb)?;
    *vol.orphans.lock() = Orphans { file, list };
    Ok(())
}

/// Whether the volume has orphans.
pub(crate) fn present(sb: &Sb) -> bool {
    !sb.data().orphans.lock().list.is_empty() || !is_file_empty(sb)
}

/// Whether the orphan file has no inode in it, or does not exist: then the volume need not be marked
/// as one with orphans there (`orphan_present`).
pub(crate) fn is_file_empty(sb: &Sb) -> bool {
    let orphans = sb.data().orphans.lock();
    orphans.file.as_ref().is_none_or(OrphanFile::is_empty)
}

/// Makes the inode an orphan, if it is none: in the handle in which it loses its last link, or its
/// size is lowered. Takes [`CREDITS`]. The caller holds the inode's `i_rwsem`, or nobody else can
/// reach it.
///
/// # Errors
///
/// `ENOMEM` changes nothing; otherwise the volume has stopped.
pub(crate) fn add(handle: &Handle<'_>, inode: &Inode) -> Result {
    let info = inode.data();
    if info.orphan.get() != Place::Nowhere || inode.is_bad() {
        return Ok(());
    }
    let sb = inode.super_block();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let mut orphans = sb.data().orphans.lock();
    let place = match &mut orphans.file {
        Some(file) => file.add(handle, ino)?,
        None => None,
    };
    let place = match place {
        Some(at) => Place::File(at),
        None => {
            orphans.list.add(handle, sb, ino)?;
            Place::List
        }
    };
    info.orphan.set(place);
    inode::note_transaction(handle, inode, false);
    Ok(())
}

/// The inode is an orphan no more, if it was one: in the handle in which it gets a link, or its last
/// blocks, or it itself, are freed. Takes [`CREDITS`]. Locks as for [`add`].
///
/// # Errors
///
/// The volume has stopped.
pub(crate) fn del(handle: &Handle<'_>, inode: &Inode) -> Result {
    let info = inode.data();
    if info.orphan.get() == Place::Nowhere {
        return Ok(());
    }
    let sb = inode.super_block();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let mut orphans = sb.data().orphans.lock();
    match info.orphan.get() {
        Place::Nowhere => {}
        Place::List => orphans.list.del(handle, sb, ino)?,
        Place::File(at) => {
            if let Some(file) = &mut orphans.file {
                file.del(handle, at)?;
            }
        }
    }
    info.orphan.set(Place::Nowhere);
    inode::note_transaction(handle, inode, false);
    Ok(())
}

/// Says what is wrong with a block that holds orphans.
fn bad(sb: &Sb, block: u64, e: ext4rs_layout::Error) -> Error {
    report::from_layout(sb, "orphan", None, Some(block), e)
}
