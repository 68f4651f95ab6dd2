// SPDX-License-Identifier: GPL-2.0

//! Operations of regular files.

use super::{
    buffered::{self, FaultMap, ReadMap},
    fsync,
};
use crate::{
    alloc,
    inode::{self, Inode},
    super_block,
    volume::Ext4,
    writeback,
};
use ext4rs_vfs::{
    fs::{File, FileOps, IoVec, Kiocb},
    iomap::AddressSpaceOps,
    writeback::Control,
};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

impl AddressSpaceOps for Ext4 {
    type ReadMap = ReadMap;
    type FaultMap = FaultMap;

    fn writepages(inode: &Inode, control: &mut Control) -> Result {
        writeback::writepages(inode, control)
    }

    fn make_space(inode: &Inode) -> bool {
        alloc::commit_freed(inode.super_block())
    }
}

impl FileOps for Ext4 {
    fn open(inode: &Inode, file: &File<Self>) -> Result {
        if file.is_writable() && inode::is_data_journalled(inode) {
            return Err(EOPNOTSUPP);
        }
        Self::check_access(inode, file.is_writable())?;
        super_block::note_mount_point(inode.super_block(), file);
        Ok(())
    }

    fn check_access(inode: &Inode, writable: bool) -> Result {
        let vol = inode.super_block().data();
        if writable {
            vol.check_running()
        } else {
            vol.check_readable()
        }
    }

    fn release(inode: &Inode, file: &File<Self>) {
        let flush = &inode.data().flush_on_close;
        if file.is_writable() && flush.load(Relaxed) && flush.xchg(false, Relaxed) {
            // An error shows at the next fsync.
            let _ = inode.mapping().flush();
        }
    }

    fn write(call: &mut Kiocb<'_, Self>, from: &mut IoVec<'_>) -> Result<usize> {
        buffered::write(call, from)
    }

    fn fsync(file: &File<Self>, start: u64, end: u64, datasync: bool) -> Result {
        fsync::fsync(file, start, end, datasync)
    }
}
