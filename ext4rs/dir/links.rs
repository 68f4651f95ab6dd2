// SPDX-License-Identifier: GPL-2.0

//! Names come and go: `link`, `unlink`, `rmdir`, and the counts of links.

use super::{
    create::with_space,
    edit::{count_change, Found},
    Dir,
};
use crate::{
    inode::{self, Inode},
    journal::{self, Handle},
    orphan, report,
    volume::Ext4,
};
use ext4rs_layout::{
    inode::{FL_PROJINHERIT, LINK_MAX},
    RoCompat,
};
use ext4rs_vfs::fs::Dentry;
use kernel::{prelude::*, str::BStr, sync::aref::ARef};

/// Gives an inode one more name; an unnamed file (`O_TMPFILE`) its first one.
///
/// # Errors
///
/// `EMLINK` at [`LINK_MAX`]; `EXDEV` if the directory keeps what is in it in another project.
pub(super) fn link(inode: &Inode, parent: &Inode, dentry: &Dentry<Ext4>) -> Result {
    if inode.nlink() >= LINK_MAX {
        return Err(EMLINK);
    }
    check_project(parent, inode)?;
    let sb = parent.super_block();
    let name = dentry.name();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    with_space(sb, || {
        let dir = Dir::new(parent)?;
        let room = dir.room(name)?;
        let credits = room
            .credits(&dir)
            .saturating_add(inode::CREDITS_DIRTY + orphan::CREDITS);
        let handle = journal::start(sb, credits, journal::Kind::Dir)?;
        if parent.is_sync() {
            handle.set_sync();
        }
        let place = dir.make_room(&handle, room, name)?;
        dir.enter(&handle, &place, name, ino, inode.mode())?;
        inode.touch(false);
        inode.inc_nlink();
        inode::mark_dirty(&handle, inode)?;
        if inode.nlink() == 1 {
            orphan::del(&handle, inode)?;
        }
        handle.stop()
    })?;
    dentry.instantiate_link(ARef::from(inode));
    Ok(())
}

/// Removes a name of an inode that is not a directory. Without a name it is an orphan, until the
/// last one who has it open closes it.
///
/// # Errors
///
/// `ENOENT` if the name is not there, or stands for another inode.
pub(super) fn unlink(parent: &Inode, dentry: &Dentry<Ext4>) -> Result {
    let inode = dentry.inode().ok_or(ENOENT)?;
    let name = dentry.name();
    let sb = parent.super_block();
    sb.data().check_running()?;
    let dir = Dir::new(parent)?;
    let found = find_as(&dir, name, inode)?.ok_or(ENOENT)?;
    let handle = journal::start(sb, REMOVE_CREDITS, journal::Kind::Dir)?;
    if parent.is_sync() {
        handle.set_sync();
    }
    dir.remove(&handle, &found, name)?;
    if inode.nlink() == 0 {
        let (ino, name) = (inode.ino(), BStr::from_bytes(name));
        report::warning(
            sb,
            "unlink",
            fmt!("inode #{ino}: Deleting file '{name}' with no links"),
        );
    } else {
        inode.drop_nlink();
    }
    inode.touch(false);
    inode::mark_dirty(&handle, inode)?;
    keep_if_nameless(&handle, inode)?;
    handle.stop()
}

/// Removes an empty directory.
///
/// # Errors
///
/// `ENOTEMPTY`; `ENOENT` if the name is not there; `EFSCORRUPTED` if it stands for another inode.
pub(super) fn rmdir(parent: &Inode, dentry: &Dentry<Ext4>) -> Result {
    let inode = dentry.inode().ok_or(ENOENT)?;
    let name = dentry.name();
    let sb = parent.super_block();
    sb.data().check_running()?;
    let dir = Dir::new(parent)?;
    let found = dir.find(name)?.ok_or(ENOENT)?;
    if u64::from(found.ino) != inode.ino() {
        return Err(EFSCORRUPTED);
    }
    if !Dir::new(inode)?.is_empty() {
        return Err(ENOTEMPTY);
    }
    let handle = journal::start(sb, REMOVE_CREDITS, journal::Kind::Dir)?;
    if parent.is_sync() {
        handle.set_sync();
    }
    dir.remove(&handle, &found, name)?;
    if !matches!(inode.nlink(), 1 | 2) {
        let (ino, links, name) = (inode.ino(), inode.nlink(), BStr::from_bytes(name));
        report::warning(
            sb,
            "rmdir",
            fmt!("inode #{ino}: empty directory '{name}' has too many links ({links})"),
        );
    }
    count_change(inode);
    inode.set_nlink(0);
    // On disk the size stays: blocks are freed by it.
    inode.set_size(0);
    inode.touch(false);
    inode::mark_dirty(&handle, inode)?;
    orphan::add(&handle, inode)?;
    uncount(parent);
    inode::mark_dirty(&handle, parent)?;
    handle.stop()
}

/// What removing a name costs, with the last link to the inode.
const REMOVE_CREDITS: u32 = Found::CREDITS + inode::CREDITS_DIRTY + orphan::CREDITS;

/// Finds a name that stands for `inode`.
pub(super) fn find_as(dir: &Dir<'_>, name: &[u8], inode: &Inode) -> Result<Option<Found>> {
    let found = dir.find(name)?;
    Ok(found.filter(|found| u64::from(found.ino) == inode.ino()))
}

/// `EXDEV` if the directory keeps what is in it in one project, and the inode is in another.
pub(super) fn check_project(dir: &Inode, inode: &Inode) -> Result {
    let (flags, project) = {
        let raw = dir.data().raw.lock();
        (raw.flags, raw.projid)
    };
    if flags & FL_PROJINHERIT != 0 && project != inode.data().raw.lock().projid {
        return Err(EXDEV);
    }
    Ok(())
}

/// `EMLINK` if the directory can have no more subdirectories. Those of one with an index need not
/// be counted, where the volume says that 1 link may stand for any number.
pub(super) fn check_directory(dir: &Inode) -> Result {
    if dir.nlink() < LINK_MAX {
        return Ok(());
    }
    let ro_compat = dir.super_block().data().disk.ro_compat;
    if ro_compat.has(RoCompat::DIR_NLINK) && Dir::new(dir)?.is_indexed() {
        return Ok(());
    }
    Err(EMLINK)
}

/// Counts one more subdirectory. From [`LINK_MAX`] on an indexed directory has 1 link, and keeps
/// it (ext4's `ext4_inc_count`). The caller dirties the inode.
pub(super) fn count_directory(parent: &Inode) -> Result {
    parent.inc_nlink();
    let links = parent.nlink();
    if Dir::new(parent)?.is_indexed() && (links > LINK_MAX || links == 2) {
        parent.set_nlink(1);
    }
    Ok(())
}

/// Counts one name of the inode less; of a directory, one subdirectory. A directory whose
/// subdirectories are not counted keeps its 1 link (ext4's `ext4_dec_count`). The caller dirties
/// the inode.
pub(super) fn uncount(inode: &Inode) {
    if (!inode.is_dir() && inode.nlink() != 0) || inode.nlink() > 2 {
        inode.drop_nlink();
    }
}

/// Keeps the inode as an orphan if nothing names it any more, in the handle that took the last name.
pub(super) fn keep_if_nameless(handle: &Handle<'_>, inode: &Inode) -> Result {
    if inode.nlink() == 0 {
        orphan::add(handle, inode)?;
    }
    Ok(())
}
