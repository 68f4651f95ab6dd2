// SPDX-License-Identifier: GPL-2.0

//! File handles. Behaviour: `ext4_nfs_get_inode`, `ext4_get_parent`.

use crate::{
    dir::Dir,
    file,
    inode::{self, Inode},
    volume::{Ext4, Sb},
};
use ext4rs_vfs::fs::ExportOps;
use kernel::{prelude::*, sync::aref::ARef};

impl ExportOps for Ext4 {
    fn inode_of_handle(sb: &Sb, ino: u64, generation: u32) -> Result<ARef<Inode>> {
        let ino = u32::try_from(ino).map_err(|_| ESTALE)?;
        let inode = inode::iget_of_handle(sb, ino)?;
        if generation != 0 && inode.generation() != generation {
            return Err(ESTALE);
        }
        Ok(inode)
    }

    fn parent(child: &Inode) -> Result<ARef<Inode>> {
        // One that was removed has nothing left to be read.
        if child.size() == 0 {
            return Err(ENOENT);
        }
        inode::iget(child.super_block(), Dir::new(child)?.parent()?)
    }

    fn commit_metadata(inode: &Inode) -> Result {
        file::sync_inode(inode, false)
    }
}
