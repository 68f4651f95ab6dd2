// SPDX-License-Identifier: GPL-2.0

//! Direct I/O: data goes between the device and the user's memory.

use super::{ops::OpsTable, IomapOps};
use crate::{
    bindings,
    fs::{FileSystem, IoVec, Kiocb},
};
use kernel::{ffi, prelude::*};

/// Reads from the device at the position of `kiocb` into `to`, and moves both on. The caller holds
/// the inode's `i_rwsem` for reading. Dirty pages of the range are written first.
///
/// Returns how many bytes were read.
///
/// # Errors
///
/// `EIOCBQUEUED` says that the read goes on and `kiocb` is completed when it is done.
pub fn read_direct<T, O>(kiocb: &mut Kiocb<'_, T>, to: &mut IoVec<'_>) -> Result<usize>
where
    T: FileSystem,
    O: IomapOps<T>,
{
    // SAFETY: Both are live; the table's callbacks get inodes of `T`. A request that goes on after
    // the call is the VFS's, as the error says.
    let ret = unsafe {
        bindings::iomap_dio_rw(
            kiocb.as_ptr(),
            to.as_ptr(),
            OpsTable::<T, O>::get(),
            core::ptr::null(),
            0,
            core::ptr::null_mut(),
            0,
        )
    };
    if ret < 0 {
        return Err(Error::from_errno(ret as ffi::c_int));
    }
    Ok(ret as usize)
}
