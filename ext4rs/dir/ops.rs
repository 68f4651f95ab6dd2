// SPDX-License-Identifier: GPL-2.0

//! What the VFS asks of directories and symbolic links.

use super::{htree, linear, Dir, Place};
use crate::{
    alloc::{self, NewIno},
    file,
    inode::{self, Inode, CREDITS_CREATE},
    journal::{self, Handle},
    map::{self, Kind},
    metadata, orphan, report,
    volume::Ext4,
};
use ext4rs_layout::{
    dir::{self, NAME_MAX},
    inode::{LINK_MAX, MODE_DIR},
    RoCompat,
};
use ext4rs_vfs::fs::{
    now_seconds, Dentry, DirEmitter, DirectoryOps, File, IdMap, Inherited, NewINode, SymlinkOps,
};
use kernel::{
    prelude::*,
    str::BStr,
    sync::{aref::ARef, atomic::ordering::Relaxed},
};

/// Blocks that making a file in `dir` may change: a new inode's; a block added to the directory, with
/// its tree of extents; the block that gets the entry; and a new directory's first block, with the
/// bitmap and the descriptor of its group.
fn credits(dir: &Inode) -> u32 {
    map::credits_map(dir)
        .saturating_add(CREDITS_CREATE)
        .saturating_add(1 + 1 + 3)
}

impl DirectoryOps for Ext4 {
    fn lookup(dir: &Inode, name: &[u8]) -> Result<Option<ARef<Inode>>> {
        if name.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        let Some(ino) = find(&Dir::new(dir)?, name)? else {
            return Ok(None);
        };
        let sb = dir.super_block();
        let corrupt = |args| report::corrupt(sb, "lookup", Some(dir.ino()), None, args);
        if !sb.data().disk.valid_inum(ino) {
            return Err(corrupt(fmt!("bad inode number: {ino}")));
        }
        if u64::from(ino) == dir.ino() {
            let name = BStr::from_bytes(name);
            return Err(corrupt(fmt!("'{name}' linked to parent dir")));
        }
        match inode::iget(sb, ino) {
            Err(e) if e == ESTALE => Err(corrupt(fmt!("deleted inode referenced: {ino}"))),
            inode => inode.map(Some),
        }
    }

    fn create(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, mode: u16) -> Result {
        make(idmap, dir, dentry, mode, 0)
    }

    fn mkdir(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, mode: u16) -> Result {
        if dir.nlink() >= LINK_MAX && !counts_links_no_more(dir)? {
            return Err(EMLINK);
        }
        make(idmap, dir, dentry, mode | MODE_DIR, 0)
    }

    fn mknod(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, mode: u16, rdev: u32) -> Result {
        make(idmap, dir, dentry, mode, rdev)
    }

    fn tmpfile(idmap: &IdMap, dir: &Inode, mode: u16) -> Result<NewINode<Self>> {
        let mode = match dir.inherited_mode(mode)? {
            Inherited::Mode(mode) => mode,
            // To be stored with the new inode.
            Inherited::Acl => return Err(EOPNOTSUPP),
        };
        let credits = CREDITS_CREATE.saturating_add(orphan::CREDITS);
        let handle = journal::start(dir.super_block(), credits, journal::Kind::Dir)?;
        let inode = inode::create(&handle, idmap, dir, mode, 0)?;
        inode.set_nlink(0);
        let orphaned =
            orphan::add(&handle, &inode).and_then(|()| inode::mark_dirty(&handle, &inode));
        if let Err(e) = orphaned {
            // As in `make_in`.
            let _ = give_up(&handle, inode);
            return Err(e);
        }
        handle.stop()?;
        Ok(inode)
    }

    fn iterate(dir: &Inode, _file: &File<Self>, out: &mut DirEmitter<'_>) -> Result {
        linear::iterate(&Dir::new(dir)?, out)
    }

    fn sync_dir(dir: &Inode, datasync: bool) -> Result {
        file::sync_inode(dir, datasync)
    }
}

/// Finds a name's inode number.
fn find(dir: &Dir<'_>, name: &[u8]) -> Result<Option<u32>> {
    if dir.is_indexed() {
        match htree::find(dir, name)? {
            htree::Search::Found(ino) => return Ok(Some(ino)),
            htree::Search::Absent => return Ok(None),
            htree::Search::Unusable => {}
        }
    }
    linear::find(dir, name)
}

/// Makes a file of the type in `mode` and ties it to `dentry`; `rdev` is the number of a device.
fn make(idmap: &IdMap, parent: &Inode, dentry: &Dentry<Ext4>, mode: u16, rdev: u32) -> Result {
    let name = dentry.name();
    if name.len() > NAME_MAX {
        return Err(ENAMETOOLONG);
    }
    let mode = match parent.inherited_mode(mode)? {
        Inherited::Mode(mode) => mode,
        // To be stored with the new inode.
        Inherited::Acl => return Err(EOPNOTSUPP),
    };
    let dir = Dir::new(parent)?;
    let handle = journal::start(parent.super_block(), credits(parent), journal::Kind::Dir)?;
    if parent.is_sync() {
        handle.set_sync();
    }
    let inode = make_in(&handle, idmap, &dir, name, mode, rdev)?;
    dentry.instantiate(inode);
    handle.stop()
}

/// Makes a file and its entry. The place for the entry is made sure of first: what can fail after
/// the inode has been allocated is then a new directory's first block, and the journal.
fn make_in(
    handle: &Handle<'_>,
    idmap: &IdMap,
    dir: &Dir<'_>,
    name: &[u8],
    mode: u16,
    rdev: u32,
) -> Result<NewINode<Ext4>> {
    let place = dir.reserve(handle, name)?;
    let inode = inode::create(handle, idmap, dir.inode(), mode, rdev)?;
    let entered = if inode.is_dir() {
        enter_directory(handle, dir, &place, name, &inode)
    } else {
        enter(handle, dir, &place, name, &inode)
    };
    match entered {
        Ok(()) => Ok(inode),
        Err(e) => {
            // That this fails means that the volume has stopped: nothing of the handle gets to the
            // disk then.
            let _ = give_up(handle, inode);
            Err(e)
        }
    }
}

/// Takes back an inode that was made in this handle. In the table it becomes a deleted one: it has
/// a mode by now, and to `e2fsck` what has links counts as in use.
fn give_up(handle: &Handle<'_>, inode: NewINode<Ext4>) -> Result {
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    inode.set_nlink(0);
    // At least 1: a deletion time of 0 is none.
    let now = u32::try_from(now_seconds()).unwrap_or(u32::MAX);
    inode::set_dtime(handle, inode.super_block(), ino, now.max(1))?;
    inode::mark_dirty(handle, &inode)?;
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
    let first = new.append(handle, |b| dir::init(b, ino, parent_ino, &new.fmt))?;
    let entered = enter(handle, dir, place, name, inode).and_then(|()| {
        count_directory(parent)?;
        inode::mark_dirty(handle, parent)
    });
    if entered.is_err() {
        // As for the inode: a failure changes nothing more.
        let _ = new.undo_append(handle, first);
    }
    entered
}

/// Whether the directory's links need not be counted any more: the entries of one with an index
/// are found without, where the volume says that 1 may stand for any number.
fn counts_links_no_more(dir: &Inode) -> Result<bool> {
    let dir_nlink = dir
        .super_block()
        .data()
        .disk
        .ro_compat
        .has(RoCompat::DIR_NLINK);
    Ok(dir_nlink && Dir::new(dir)?.is_indexed())
}

/// Counts one more subdirectory. From [`LINK_MAX`] on an indexed directory has 1 link, and keeps
/// it (ext4's `ext4_inc_count`).
fn count_directory(parent: &Inode) -> Result {
    parent.inc_nlink();
    let links = parent.nlink();
    if Dir::new(parent)?.is_indexed() && (links > LINK_MAX || links == 2) {
        parent.set_nlink(1);
    }
    Ok(())
}

impl SymlinkOps for Ext4 {
    fn target(inode: &Inode) -> Result<KVec<u8>> {
        if inode::is_fast_symlink(inode) {
            fast_target(inode)
        } else {
            slow_target(inode)
        }
    }
}

/// The target of a symbolic link that is kept in the inode.
fn fast_target(inode: &Inode) -> Result<KVec<u8>> {
    let i_block = inode.data().raw.lock().i_block;
    let target = usize::try_from(inode.size())
        .ok()
        .filter(|&len| i_block.get(len) == Some(&0))
        .and_then(|len| i_block.get(..len))
        .filter(|target| !target.is_empty() && !target.contains(&0));
    let Some(target) = target else {
        let size = inode.size();
        return Err(report::corrupt(
            inode.super_block(),
            "get_link",
            Some(inode.ino()),
            None,
            fmt!("invalid fast symlink length {size}"),
        ));
    };
    let mut copy = KVec::with_capacity(target.len(), GFP_KERNEL)?;
    copy.extend_from_slice(target, GFP_KERNEL)?;
    Ok(copy)
}

/// The target of a symbolic link that fills a block. A block of this kind has no checksum.
fn slow_target(inode: &Inode) -> Result<KVec<u8>> {
    let sb = inode.super_block();
    let bad = |block| {
        report::corrupt(
            sb,
            "get_link",
            Some(inode.ino()),
            block,
            fmt!("bad symlink."),
        )
    };
    let Kind::Written(block) = map::lookup(inode, 0, 1)?.kind else {
        return Err(bad(None));
    };
    let mut target = metadata::copy(&sb.bread(block)?)?;
    let len = usize::try_from(inode.size())
        .ok()
        // One byte of the block is left for the NUL that ends the target.
        .filter(|&len| len != 0 && len < target.len())
        .ok_or_else(|| bad(Some(block)))?;
    target.truncate(len);
    if target.contains(&0) {
        return Err(bad(Some(block)));
    }
    Ok(target)
}
