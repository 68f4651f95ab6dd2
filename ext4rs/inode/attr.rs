// SPDX-License-Identifier: GPL-2.0

//! Attributes: `chmod`, `chown`, `utimes`, `truncate`, `chattr`, and what `stat` adds.

use super::{
    attribute_flags, flags as inode_flags, is_data_journalled, mark_dirty, truncate, Inode,
};
use crate::{
    file,
    journal::{self, Kind},
    map,
    volume::Ext4,
};
use ext4rs_layout::inode::{
    mask_flags, FL_APPEND, FL_COMPR, FL_ENCRYPT, FL_IMMUTABLE, FL_NODUMP, FL_USER_MODIFIABLE,
    FL_USER_VISIBLE,
};
use ext4rs_vfs::{
    fs::{Attr, Dentry, FileAttr, IdMap, KStat, StatAttributes, Timespec},
    mapping::MAX_OFFSET,
};
use kernel::prelude::*;

/// Flags of `chattr` that can be turned on and off. As in ext4 the first few of them are only kept:
/// nothing is compressed, or overwritten when it is deleted.
const SETTABLE: u32 = ext4rs_layout::inode::FL_SYNC
    | ext4rs_layout::inode::FL_SECRM
    | ext4rs_layout::inode::FL_UNRM
    | FL_COMPR
    | ext4rs_layout::inode::FL_NOTAIL
    | FL_IMMUTABLE
    | FL_APPEND
    | FL_NODUMP
    | ext4rs_layout::inode::FL_NOATIME
    | ext4rs_layout::inode::FL_DIRSYNC
    | ext4rs_layout::inode::FL_TOPDIR;

/// Adds to `stat` what the VFS inode does not know.
pub(crate) fn get(inode: &Inode, stat: &mut KStat) {
    let (flags, crtime, extra) = {
        let raw = inode.data().raw.lock();
        (raw.flags, raw.crtime, raw.extra_isize)
    };
    // i_crtime and i_crtime_extra end 24 bytes into the extra part.
    if extra >= 24 {
        stat.set_btime(Timespec {
            sec: crtime.sec,
            nsec: crtime.nsec,
        });
    }
    stat.set_attributes(StatAttributes {
        append: flags & FL_APPEND != 0,
        compressed: flags & FL_COMPR != 0,
        encrypted: flags & FL_ENCRYPT != 0,
        immutable: flags & FL_IMMUTABLE != 0,
        nodump: flags & FL_NODUMP != 0,
    });
    let shift = inode.super_block().data().geo.block_bits.saturating_sub(9);
    stat.add_sectors(map::delayed_blocks(inode) << shift);
}

/// Changes attributes; the inode's `i_rwsem` is held. An access ACL follows the mode, in a handle of
/// its own (as in ext4).
///
/// # Errors
///
/// As `setattr_prepare`; `EPERM` for an immutable file; `EOPNOTSUPP` for changing the size of a file whose data is journalled. If the
/// ACL cannot be stored the rest has changed.
pub(crate) fn set(inode: &Inode, idmap: &IdMap, dentry: &Dentry<Ext4>, attr: &mut Attr) -> Result {
    let sb = inode.super_block();
    sb.data().check_running()?;
    // The VFS looks for whoever opens the file now, not for who has it open.
    if inode.is_immutable() {
        return Err(EPERM);
    }
    attr.prepare(idmap, dentry)?;
    match attr.size().filter(|_| inode.is_reg()) {
        Some(size) => set_size(inode, idmap, attr, size)?,
        None => change(inode, || attr.copy_to(idmap, inode))?,
    }
    if attr.changes_mode() {
        dentry.chmod_acl(idmap)?;
    }
    Ok(())
}

/// Changes the size, and what else is asked for with it.
fn set_size(inode: &Inode, idmap: &IdMap, attr: &Attr, size: u64) -> Result {
    if is_data_journalled(inode) {
        return Err(EOPNOTSUPP);
    }
    let old = inode.size();
    let copy = || {
        inode.touch(true);
        attr.copy_to(idmap, inode);
    };
    if size < old {
        return truncate::shorten(inode, size, copy);
    }
    if size > old {
        file::grow(inode, size)?;
    } else {
        truncate::trim(inode)?;
    }
    change(inode, || {
        {
            let mut raw = inode.data().raw.lock();
            raw.disk_size = raw.disk_size.max(size);
        }
        copy();
    })
}

/// Changes the inode in memory by `change`, and writes it, in one handle.
fn change(inode: &Inode, change: impl FnOnce()) -> Result {
    let handle = journal::start(inode.super_block(), super::CREDITS_DIRTY, Kind::Inode)?;
    change();
    mark_dirty(&handle, inode)?;
    if inode.is_sync() {
        handle.set_sync();
    }
    handle.stop()
}

/// What `lsattr` shows.
pub(crate) fn flags(inode: &Inode) -> FileAttr {
    let mut visible = inode_flags(inode) & FL_USER_VISIBLE;
    if inode.is_reg() {
        visible &= !ext4rs_layout::inode::FL_PROJINHERIT;
    }
    FileAttr {
        flags: visible,
        project: inode.data().raw.lock().projid,
    }
}

/// What `chattr` does; the inode's `i_rwsem` is held and the caller's right to it checked.
///
/// # Errors
///
/// `EOPNOTSUPP` for a flag that is not ext4's or not built; `EPERM` for a file that is immutable and
/// stays so.
pub(crate) fn set_flags(inode: &Inode, attr: FileAttr) -> Result {
    if attr.flags & !FL_USER_VISIBLE != 0 {
        return Err(EOPNOTSUPP);
    }
    let wanted = attr.flags & FL_USER_MODIFIABLE;
    if mask_flags(inode.mode(), wanted) != wanted {
        return Err(EOPNOTSUPP);
    }
    let (old, project) = {
        let raw = inode.data().raw.lock();
        (raw.flags, raw.projid)
    };
    // All that can be done to an immutable file is to make it another one.
    if old & wanted & FL_IMMUTABLE != 0 && old != wanted {
        return Err(EPERM);
    }
    if project != attr.project {
        return Err(EOPNOTSUPP);
    }
    let new = (old & !FL_USER_MODIFIABLE) | wanted;
    if (old ^ new) & !SETTABLE != 0 {
        return Err(EOPNOTSUPP);
    }
    if inode.is_reg() && !inode.is_immutable() && new & FL_IMMUTABLE != 0 {
        // No page stays writable in anybody's memory.
        inode.wait_direct_io();
        inode.mapping().write_and_wait_range(0, MAX_OFFSET)?;
    }
    let sb = inode.super_block();
    let handle = journal::start(sb, super::CREDITS_DIRTY, Kind::Inode)?;
    inode.data().raw.lock().flags = new;
    inode.set_attribute_flags(attribute_flags(new));
    inode.touch(false);
    mark_dirty(&handle, inode)?;
    if inode.is_sync() {
        handle.set_sync();
    }
    handle.stop()
}
