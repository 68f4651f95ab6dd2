// SPDX-License-Identifier: GPL-2.0

//! `rename` and `renameat2`.

use super::{
    create::{self, give_up, with_space},
    edit::{Found, Room},
    links::{self, check_directory, check_project, find_as, keep_if_nameless, uncount},
    Dir,
};
use crate::{
    inode::{self, Inode, CREDITS_CREATE, CREDITS_DIRTY},
    journal::{self, Handle},
    map, orphan, report,
    volume::Ext4,
    xattr,
};
use ext4rs_layout::{dir::FT_CHAR, inode::MODE_CHAR};
use ext4rs_vfs::fs::{Dentry, IdMap, Name, NewINode, RenameFlags};
use kernel::prelude::*;

/// One of the two names.
struct Side<'a> {
    dir: Dir<'a>,
    name: &'a [u8],
    /// What the name stands for, if there is something.
    inode: Option<&'a Inode>,
    dentry: &'a Dentry<Ext4>,
}

impl<'a> Side<'a> {
    fn new(name: &Name<'a, Ext4>) -> Result<Self> {
        Ok(Self {
            dir: Dir::new(name.dir)?,
            name: name.dentry.name(),
            inode: name.dentry.inode(),
            dentry: name.dentry,
        })
    }

    /// Finds the entry. It must stand for the inode: of a directory that was removed and is still
    /// somebody's working directory, the name may be another's by now.
    fn find(&self, inode: &Inode) -> Result<Found> {
        find_as(&self.dir, self.name, inode)?.ok_or(ENOENT)
    }

    fn parent(&self) -> &'a Inode {
        self.dir.inode()
    }
}

/// Moves a name, or swaps two.
///
/// # Errors
///
/// `EINVAL` for unknown flags; `EXDEV` if a directory keeps what is in it in another project;
/// `ENOENT` if an entry is not what the VFS takes it for; `ENOTEMPTY` if a directory that is to be
/// replaced is not empty; `EMLINK` if a directory can have no more subdirectories.
pub(super) fn rename(
    idmap: &IdMap,
    from: Name<'_, Ext4>,
    to: Name<'_, Ext4>,
    flags: RenameFlags,
) -> Result {
    let sb = from.dir.super_block();
    sb.data().check_running()?;
    if flags.has_others() {
        return Err(EINVAL);
    }
    with_space(sb, || {
        let (from, to) = (Side::new(&from)?, Side::new(&to)?);
        if flags.exchange() {
            return exchange(&from, &to);
        }
        let whiteout = flags.whiteout().then_some(idmap);
        Move::prepare(from, to)?.run(whiteout)
    })
}

/// A move of a name to where none is, or over another.
struct Move<'a> {
    from: Side<'a>,
    to: Side<'a>,
    /// What is moved.
    inode: &'a Inode,
    /// The entry that it has.
    old: Found,
    target: Target<'a>,
    /// A directory gets another parent.
    is_directory_moved: bool,
}

/// What is at the new name.
enum Target<'a> {
    /// Nothing: an entry is made.
    New(Room),
    /// An inode that is replaced, and its entry.
    Over(&'a Inode, Found),
}

impl<'a> Move<'a> {
    /// Looks everything up, and checks it. Nothing is changed.
    fn prepare(from: Side<'a>, to: Side<'a>) -> Result<Self> {
        let inode = from.inode.ok_or(ENOENT)?;
        if let Some(replaced) = to.inode.filter(|replaced| replaced.nlink() == 0) {
            return Err(report::corrupt(
                replaced.super_block(),
                "rename",
                Some(replaced.ino()),
                None,
                fmt!("target of rename is already freed"),
            ));
        }
        check_project(to.parent(), inode)?;
        let old = from.find(inode)?;
        let is_moved = from.parent().ino() != to.parent().ino();
        let target = match to.inode {
            Some(replaced) => Target::Over(replaced, to.find(replaced)?),
            None => Target::New(to.dir.room(to.name)?),
        };
        if inode.is_dir() {
            match &target {
                Target::Over(replaced, _) if !Dir::new(replaced)?.is_empty() => {
                    return Err(ENOTEMPTY);
                }
                Target::New(_) if is_moved => check_directory(to.parent())?,
                _ => {}
            }
            check_parent(inode, from.parent(), is_moved)?;
        }
        Ok(Self {
            from,
            to,
            inode,
            old,
            target,
            is_directory_moved: is_moved && inode.is_dir(),
        })
    }

    /// Moves the name; with `whiteout`, whose owner is made by that, one takes its place.
    fn run(self, whiteout: Option<&IdMap>) -> Result {
        if let Target::Over(..) = self.target {
            flush_delayed(self.inode);
        }
        let sb = self.inode.super_block();
        let credits = match &self.target {
            Target::New(room) => room.credits(&self.to.dir),
            Target::Over(..) => Found::CREDITS + CREDITS_DIRTY + orphan::CREDITS,
        };
        // The old entry, what is moved, and its `..`.
        let credits = credits
            .saturating_add(Found::CREDITS + CREDITS_DIRTY + 1)
            .saturating_add(if whiteout.is_some() {
                CREDITS_CREATE.saturating_add(xattr::credits_new(sb))
            } else {
                0
            });
        let from = self.from.parent();
        let whiteout = match whiteout {
            Some(idmap) => Some((idmap, from.inherited_mode(MODE_CHAR)?)),
            None => None,
        };
        let handle = journal::start(sb, credits, journal::Kind::Dir)?;
        if from.is_sync() || self.to.parent().is_sync() {
            handle.set_sync();
        }
        let whiteout = match whiteout {
            Some((idmap, inherited)) => {
                let dentry = self.from.dentry;
                let inode = create::whiteout(&handle, idmap, from, dentry, &inherited)?;
                Some(inode)
            }
            None => None,
        };
        if let Err(e) = self.apply(&handle, whiteout.as_deref()) {
            // Only room for the name can have been made by then: that stays.
            let given_up = whiteout.map_or(Ok(()), |whiteout| give_up(&handle, whiteout));
            return handle.stop().and(given_up).and(Err(e));
        }
        let whiteout = whiteout.map(NewINode::publish);
        let stopped = handle.stop();
        // A last reference would have no room in the handle.
        drop(whiteout);
        stopped
    }

    fn apply(self, handle: &Handle<'_>, whiteout: Option<&Inode>) -> Result {
        let Self {
            from,
            to,
            inode,
            old,
            target,
            is_directory_moved,
        } = self;
        let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
        // The one step that can fail of something that can pass.
        let place = match target {
            Target::New(room) => Ok(to.dir.make_room(handle, room, to.name)?),
            Target::Over(replaced, entry) => Err((replaced, entry)),
        };
        if let Some(whiteout) = whiteout {
            let ino = u32::try_from(whiteout.ino()).map_err(|_| EINVAL)?;
            from.dir.redirect(handle, &old, from.name, ino, FT_CHAR)?;
        }
        let replaced = match place {
            Ok(place) => {
                to.dir.enter(handle, &place, to.name, ino, inode.mode())?;
                None
            }
            Err((replaced, entry)) => {
                to.dir
                    .redirect(handle, &entry, to.name, ino, old.file_type)?;
                Some(replaced)
            }
        };
        inode.touch(false);
        inode::mark_dirty(handle, inode)?;
        if whiteout.is_none() {
            from.dir.remove(handle, &old, from.name)?;
        }
        if let Some(replaced) = replaced {
            uncount(replaced);
            replaced.touch(false);
        }
        if is_directory_moved {
            let parent = u32::try_from(to.parent().ino()).map_err(|_| EINVAL)?;
            Dir::new(inode)?.set_parent(handle, parent)?;
        }
        if inode.is_dir() {
            uncount(from.parent());
            match replaced {
                Some(replaced) => replaced.set_nlink(0),
                None => links::count_directory(to.parent())?,
            }
            inode::mark_dirty(handle, to.parent())?;
        }
        inode::mark_dirty(handle, from.parent())?;
        if let Some(replaced) = replaced {
            inode::mark_dirty(handle, replaced)?;
            keep_if_nameless(handle, replaced)?;
        }
        Ok(())
    }
}

/// Swaps what two names stand for.
fn exchange(from: &Side<'_>, to: &Side<'_>) -> Result {
    let old = from.inode.ok_or(ENOENT)?;
    let new = to.inode.ok_or(ENOENT)?;
    check_project(to.parent(), old)?;
    check_project(from.parent(), new)?;
    let old_entry = from.find(old)?;
    let new_entry = to.find(new)?;
    let is_moved = from.parent().ino() != to.parent().ino();
    for (inode, side) in [(old, from), (new, to)] {
        if inode.is_dir() {
            check_parent(inode, side.parent(), is_moved)?;
        }
    }
    // The directory that gets one more subdirectory, and the one that loses it.
    let counts = match (is_moved, old.is_dir(), new.is_dir()) {
        (true, true, false) => Some((to.parent(), from.parent())),
        (true, false, true) => Some((from.parent(), to.parent())),
        _ => None,
    };
    if let Some((more, _)) = counts {
        check_directory(more)?;
    }
    // Each entry, each inode, and its `..`.
    let credits = 2 * (Found::CREDITS + CREDITS_DIRTY + 1);
    let handle = journal::start(old.super_block(), credits, journal::Kind::Dir)?;
    if from.parent().is_sync() || to.parent().is_sync() {
        handle.set_sync();
    }
    let (old_ino, new_ino) = (old_entry.ino, new_entry.ino);
    let (old_type, new_type) = (old_entry.file_type, new_entry.file_type);
    to.dir
        .redirect(&handle, &new_entry, to.name, old_ino, old_type)?;
    from.dir
        .redirect(&handle, &old_entry, from.name, new_ino, new_type)?;
    for (inode, parent) in [(old, to.parent()), (new, from.parent())] {
        inode.touch(false);
        inode::mark_dirty(&handle, inode)?;
        if is_moved && inode.is_dir() {
            let parent = u32::try_from(parent.ino()).map_err(|_| EINVAL)?;
            Dir::new(inode)?.set_parent(&handle, parent)?;
        }
    }
    if let Some((more, less)) = counts {
        links::count_directory(more)?;
        uncount(less);
        inode::mark_dirty(&handle, more)?;
        inode::mark_dirty(&handle, less)?;
    }
    handle.stop()
}

/// `EFSCORRUPTED` if `..` of a directory that is about to move does not name the directory that it
/// is in.
fn check_parent(inode: &Inode, parent: &Inode, is_moved: bool) -> Result {
    if is_moved && u64::from(Dir::new(inode)?.parent()?) != parent.ino() {
        return Err(EFSCORRUPTED);
    }
    Ok(())
}

/// Starts write-back of a file that is to replace another one: whoever writes a new version beside
/// the old one and renames it finds the new data after a crash, or the old, if not long after
/// (`auto_da_alloc`). As in ext4 a failure does not stop the rename; `fsync` tells of it.
fn flush_delayed(inode: &Inode) {
    let asked = inode.super_block().data().options.lock().auto_da_alloc;
    if asked && map::delayed_blocks(inode) != 0 {
        let _ = inode.mapping().start_writeback();
    }
}
