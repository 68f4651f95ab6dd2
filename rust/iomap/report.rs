// SPDX-License-Identifier: GPL-2.0

//! Telling user space where a file's data is.

use super::{ops::OpsTable, IomapOps};
use crate::{
    bindings,
    fs::{FileSystem, INode},
    mapping::MAX_OFFSET,
};
use kernel::ffi;

/// A filesystem that tells where things are.
pub trait ReportOps: FileSystem {
    /// What FIEMAP tells of the data of a file or directory, and SEEK_HOLE and SEEK_DATA of a file's.
    type DataMap: IomapOps<Self>;

    /// What FIEMAP tells of extended attributes: ranges from byte 0 on that hold them all, and `ENOENT`
    /// behind them.
    type XattrMap: IomapOps<Self>;
}

/// The file operation `llseek` of a regular file.
///
/// # Safety
///
/// `file` is an open file of `T`.
pub(crate) unsafe fn llseek<T: ReportOps>(
    file: *mut bindings::file,
    offset: bindings::loff_t,
    whence: ffi::c_int,
) -> bindings::loff_t {
    let seek = match whence as u32 {
        bindings::SEEK_HOLE => bindings::iomap_seek_hole,
        bindings::SEEK_DATA => bindings::iomap_seek_data,
        // SAFETY: By the function's requirements.
        _ => return unsafe { bindings::generic_file_llseek(file, offset, whence) },
    };
    // SAFETY: By the function's requirements; an open file holds its inode.
    let inode = unsafe { INode::<T>::from_raw((*file).f_inode) };
    let found = {
        let _lock = inode.lock_shared();
        // SAFETY: The inode is live; the table's callbacks get inodes of `T`.
        unsafe { seek(inode.as_ptr(), offset, OpsTable::<T, T::DataMap>::get()) }
    };
    if found < 0 {
        return found;
    }
    // SAFETY: By the function's requirements; the superblock lives as long as its inode.
    unsafe { bindings::vfs_setpos(file, found, (*inode.super_block().as_ptr()).s_maxbytes) }
}

/// # Safety
///
/// Called by the VFS alone, as its operation `fiemap`: the inode is one of `T`, and both live for the
/// call.
pub(crate) unsafe extern "C" fn fiemap<T: ReportOps>(
    inode: *mut bindings::inode,
    info: *mut bindings::fiemap_extent_info,
    start: u64,
    len: u64,
) -> ffi::c_int {
    // SAFETY: By the function's requirements nobody else uses the request.
    let flags = unsafe { &mut (*info).fi_flags };
    let ops = if *flags & bindings::FIEMAP_FLAG_XATTR != 0 {
        // iomap refuses what it does not do itself.
        *flags &= !bindings::FIEMAP_FLAG_XATTR;
        OpsTable::<T, T::XattrMap>::get()
    } else {
        OpsTable::<T, T::DataMap>::get()
    };
    // SAFETY: By the function's requirements. The callee checks the range.
    unsafe {
        let _lock = INode::<T>::from_raw(inode).lock_shared();
        bindings::iomap_fiemap(inode, info.cast(), start, len, ops)
    }
}

/// The block of the volume that holds a block of the file; both in filesystem blocks. Writes the
/// file first. `None` if there is no such block, it holds no data, or something failed.
pub fn bmap<T: FileSystem, O: IomapOps<T>>(inode: &INode<T>, block: u64) -> Option<u64> {
    // The callee shifts it into a file offset.
    block
        .checked_mul(u64::from(inode.super_block().block_size()))
        .filter(|&pos| pos <= MAX_OFFSET)?;
    // SAFETY: The mapping is live; the table's callbacks get inodes of `T`.
    let found =
        unsafe { bindings::iomap_bmap(inode.mapping().as_ptr(), block, OpsTable::<T, O>::get()) };
    (found != 0).then_some(found)
}
