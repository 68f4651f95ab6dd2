// SPDX-License-Identifier: GPL-2.0

//! What the VFS asks of directories and symbolic links.

use super::{
    create,
    edit::Found,
    links,
    listing::{self, OpenDirectory},
    rename, Dir,
};
use crate::{
    file,
    inode::{self, Inode},
    map::{self, Kind},
    metadata, report,
    volume::Ext4,
};
use core::pin::Pin;
use ext4rs_layout::{dir::NAME_MAX, inode::MODE_DIR};
use ext4rs_vfs::fs::{
    Dentry, DirEmitter, DirectoryOps, File, IdMap, Name, NewINode, RenameFlags, SymlinkOps,
};
use kernel::{prelude::*, str::BStr, sync::aref::ARef};

impl DirectoryOps for Ext4 {
    type OpenDirectory = OpenDirectory;

    fn lookup(dir: &Inode, name: &[u8]) -> Result<Option<ARef<Inode>>> {
        if name.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        let Some(Found { ino, .. }) = Dir::new(dir)?.find(name)? else {
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
        create::make(idmap, dir, dentry, mode, create::Content::None)
    }

    fn mkdir(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, mode: u16) -> Result {
        links::check_directory(dir)?;
        create::make(idmap, dir, dentry, mode | MODE_DIR, create::Content::None)
    }

    fn mknod(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, mode: u16, rdev: u32) -> Result {
        create::make(idmap, dir, dentry, mode, create::Content::Device(rdev))
    }

    fn tmpfile(idmap: &IdMap, dir: &Inode, mode: u16) -> Result<NewINode<Self>> {
        create::nameless(idmap, dir, mode)
    }

    fn unlink(dir: &Inode, dentry: &Dentry<Self>) -> Result {
        links::unlink(dir, dentry)
    }

    fn rmdir(dir: &Inode, dentry: &Dentry<Self>) -> Result {
        links::rmdir(dir, dentry)
    }

    fn link(inode: &Inode, dir: &Inode, dentry: &Dentry<Self>) -> Result {
        links::link(inode, dir, dentry)
    }

    fn symlink(idmap: &IdMap, dir: &Inode, dentry: &Dentry<Self>, target: &[u8]) -> Result {
        create::symlink(idmap, dir, dentry, target)
    }

    fn rename(
        idmap: &IdMap,
        from: Name<'_, Self>,
        to: Name<'_, Self>,
        flags: RenameFlags,
    ) -> Result {
        rename::rename(idmap, from, to, flags)
    }

    fn open_directory() -> impl PinInit<OpenDirectory, Error> {
        OpenDirectory::new()
    }

    fn iterate(
        dir: &Inode,
        file: &File<Self>,
        open: Pin<&OpenDirectory>,
        out: &mut DirEmitter<'_>,
    ) -> Result {
        listing::iterate(&Dir::new(dir)?, file, open, out)
    }

    fn end_position(dir: &Inode, file: &File<Self>) -> Option<u64> {
        listing::end_position(dir, file)
    }

    fn sync_dir(dir: &Inode, datasync: bool) -> Result {
        file::sync_inode(dir, datasync)
    }
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
