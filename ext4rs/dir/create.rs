// SPDX-License-Identifier: GPL-2.0

//! Making a file: an inode, what it begins with, and its entry.

use super::{
    edit::{Place, Room},
    links, Dir,
};
use crate::{
    alloc::{self, NewIno},
    inode::{self, Inode, CREDITS_CREATE},
    journal::{self, Handle},
    map, orphan,
    volume::{Ext4, Sb},
    xattr,
};
use ext4rs_layout::{
    dir::{self, NAME_MAX},
    inode::{FL_EXTENTS, I_BLOCK_SIZE, MODE_LINK},
};
use ext4rs_vfs::fs::{Dentry, IdMap, Inherited, NewINode};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// What a new file begins with, beside its name.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// Nothing; a directory gets its first block.
    None,
    /// The number of a device.
    Device(u32),
    /// The target of a symbolic link.
    Target(&'a [u8]),
}

/// Runs an operation that allocates. If the volume is full, blocks that were freed and wait for a
/// commit are made usable, and it is tried once more. No handle is open between.
pub(super) fn with_space<R>(sb: &Sb, operation: impl Fn() -> Result<R>) -> Result<R> {
    match operation() {
        Err(e) if e == ENOSPC && alloc::commit_freed(sb) => operation(),
        other => other,
    }
}

/// Makes a file of the type in `mode` and ties it to `dentry`.
pub(super) fn make(
    idmap: &IdMap,
    parent: &Inode,
    dentry: &Dentry<Ext4>,
    mode: u16,
    content: Content<'_>,
) -> Result {
    if dentry.name().len() > NAME_MAX {
        return Err(ENAMETOOLONG);
    }
    let inherited = parent.inherited_mode(mode)?;
    make_as(idmap, parent, dentry, &inherited, content)
}

/// Makes a symbolic link and ties it to `dentry`.
///
/// # Errors
///
/// `ENAMETOOLONG` if the target does not fit into a block, with the NUL that ends it.
pub(super) fn symlink(
    idmap: &IdMap,
    parent: &Inode,
    dentry: &Dentry<Ext4>,
    target: &[u8],
) -> Result {
    let block_size = usize::try_from(parent.super_block().data().geo.block_size)?;
    if target.len() >= block_size {
        return Err(ENAMETOOLONG);
    }
    // It has no permissions of its own: nothing comes of a default ACL.
    let inherited = parent.inherited_mode(MODE_LINK | 0o777)?;
    make_as(idmap, parent, dentry, &inherited, Content::Target(target))
}

fn make_as(
    idmap: &IdMap,
    parent: &Inode,
    dentry: &Dentry<Ext4>,
    inherited: &Inherited,
    content: Content<'_>,
) -> Result {
    let sb = parent.super_block();
    with_space(sb, || {
        let dir = Dir::new(parent)?;
        let room = dir.room(dentry.name())?;
        // What is made: an inode, its attributes, its first block, and the bitmap and descriptor of
        // that; what it is entered into, and the directory that counts its subdirectories.
        let credits = CREDITS_CREATE
            .saturating_add(xattr::credits_new(sb))
            .saturating_add(room.credits(&dir))
            .saturating_add(3);
        let handle = journal::start(sb, credits, journal::Kind::Dir)?;
        if parent.is_sync() {
            handle.set_sync();
        }
        let inode = make_in(&handle, idmap, &dir, room, dentry, inherited, content)?;
        dentry.instantiate(inode);
        handle.stop()
    })
}

/// Makes a file and its entry. The place for the entry is made sure of first: what can fail after
/// the inode has been allocated is then its first block, and the journal.
fn make_in(
    handle: &Handle<'_>,
    idmap: &IdMap,
    dir: &Dir<'_>,
    room: Room,
    dentry: &Dentry<Ext4>,
    inherited: &Inherited,
    content: Content<'_>,
) -> Result<NewINode<Ext4>> {
    let name = dentry.name();
    let place = dir.make_room(handle, room, name)?;
    let rdev = match content {
        Content::Device(rdev) => rdev,
        _ => 0,
    };
    let parent = dir.inode();
    let dentry = Some(dentry);
    make_inode(handle, idmap, parent, dentry, inherited, rdev, |inode| {
        if inode.is_dir() {
            return enter_directory(handle, dir, &place, name, inode);
        }
        if let Content::Target(target) = content {
            set_target(handle, inode, target)?;
        }
        enter(handle, dir, &place, name, inode)
    })
}

/// Makes an inode with what it inherits, and has `finish` do the rest: if that fails it is taken
/// back. It is made in `dir`, under the name of `dentry` if it gets one.
fn make_inode(
    handle: &Handle<'_>,
    idmap: &IdMap,
    dir: &Inode,
    dentry: Option<&Dentry<Ext4>>,
    inherited: &Inherited,
    rdev: u32,
    finish: impl FnOnce(&Inode) -> Result,
) -> Result<NewINode<Ext4>> {
    let inode = inode::create(handle, idmap, dir, inherited.mode, rdev)?;
    let finished =
        xattr::init(handle, &inode, dir, dentry, inherited).and_then(|()| finish(&inode));
    match finished {
        Ok(()) => Ok(inode),
        Err(e) => {
            // If this fails the volume has stopped: nothing of the handle gets to the disk then.
            let _ = give_up(handle, inode);
            Err(e)
        }
    }
}

/// Makes what `rename` leaves where a name was: a device with number 0, which names it next.
///
/// # Errors
///
/// None is left then.
pub(super) fn whiteout(
    handle: &Handle<'_>,
    idmap: &IdMap,
    dir: &Inode,
    dentry: &Dentry<Ext4>,
    inherited: &Inherited,
) -> Result<NewINode<Ext4>> {
    make_inode(handle, idmap, dir, Some(dentry), inherited, 0, |inode| {
        inode::mark_dirty(handle, inode)
    })
}

/// Makes a regular file that no directory names: an orphan, until it gets a name or is closed.
pub(super) fn nameless(idmap: &IdMap, dir: &Inode, mode: u16) -> Result<NewINode<Ext4>> {
    let inherited = dir.inherited_mode(mode)?;
    with_space(dir.super_block(), || nameless_as(idmap, dir, &inherited))
}

fn nameless_as(idmap: &IdMap, dir: &Inode, inherited: &Inherited) -> Result<NewINode<Ext4>> {
    let sb = dir.super_block();
    let credits = CREDITS_CREATE
        .saturating_add(xattr::credits_new(sb))
        .saturating_add(orphan::CREDITS);
    let handle = journal::start(sb, credits, journal::Kind::Dir)?;
    let inode = make_inode(&handle, idmap, dir, None, inherited, 0, |inode| {
        inode.set_nlink(0);
        orphan::add(&handle, inode)?;
        inode::mark_dirty(&handle, inode)
    })?;
    handle.stop()?;
    Ok(inode)
}

/// Takes back an inode that was made in this handle and has no blocks but one of attributes. In the
/// table it becomes a deleted one: it has a mode by now, and to `e2fsck` what has links counts as in
/// use.
pub(super) fn give_up(handle: &Handle<'_>, inode: NewINode<Ext4>) -> Result {
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    xattr::release_block(handle, &inode)?;
    inode.set_nlink(0);
    inode::mark_deleted(handle, &inode)?;
    let new = NewIno {
        ino,
        group: inode.data().block_group.load(Relaxed),
    };
    alloc::undo_inode(handle, inode.super_block(), &new, inode.mode())
}

/// Writes a new inode and its entry.
fn enter(handle: &Handle<'_>, dir: &Dir<'_>, place: &Place, name: &[u8], inode: &Inode) -> Result {
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    inode::mark_dirty(handle, inode)?;
    dir.enter(handle, place, name, ino, inode.mode())
}

/// Gives a new directory its first block, and writes it and its entry.
fn enter_directory(
    handle: &Handle<'_>,
    dir: &Dir<'_>,
    place: &Place,
    name: &[u8],
    inode: &Inode,
) -> Result {
    let parent = dir.inode();
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let parent_ino = u32::try_from(parent.ino()).map_err(|_| EINVAL)?;
    let new = Dir::new(inode)?;
    inode.set_nlink(2);
    let first = new.append(handle, |b| {
        dir::init(b, ino, parent_ino, &new.fmt)?;
        dir::update_checksum(b, &new.fmt, new.seed)
    })?;
    let entered = enter(handle, dir, place, name, inode).and_then(|()| {
        links::count_directory(parent)?;
        inode::mark_dirty(handle, parent)
    });
    if entered.is_err() {
        // As for the inode: a failure changes nothing more.
        let _ = new.undo_append(handle, first);
    }
    entered
}

/// Gives a new symbolic link its target: in the inode if it fits there with the NUL that ends it,
/// else in a block.
fn set_target(handle: &Handle<'_>, inode: &Inode, target: &[u8]) -> Result {
    let size = u64::try_from(target.len())?;
    if target.len() < I_BLOCK_SIZE {
        inode.data().fast_link.store(true, Relaxed);
        let mut raw = inode.data().raw.lock();
        raw.flags &= !FL_EXTENTS;
        raw.i_block = [0; I_BLOCK_SIZE];
        for (to, from) in raw.i_block.iter_mut().zip(target) {
            *to = *from;
        }
    } else {
        let (block, _) = map::allocate_block(handle, inode, 0)?;
        handle.create(block, |b| {
            for (to, from) in b.iter_mut().zip(target) {
                *to = *from;
            }
        })?;
    }
    inode.data().raw.lock().disk_size = size;
    inode.set_size(size);
    Ok(())
}
