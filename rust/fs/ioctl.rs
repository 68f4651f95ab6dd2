// SPDX-License-Identifier: GPL-2.0

//! Commands to open files (`ioctl`), those that the VFS does not know itself.

use super::{from_result, File, FileSystem};
use crate::bindings;
use kernel::{error::to_result, ffi, ioctl, prelude::*, uaccess::UserPtr};

/// `FS_IOC_GETVERSION` and `FS_IOC_SETVERSION`, whose numbers tell of a `long` though they pass an
/// `int`; and how programs of 32 bits number them.
const VERSIONS: [(u32, u32); 2] = [
    (
        ioctl::_IOR::<i32>('v' as u32, 1),
        ioctl::_IOR::<i64>('v' as u32, 1),
    ),
    (
        ioctl::_IOW::<i32>('v' as u32, 2),
        ioctl::_IOW::<i64>('v' as u32, 2),
    ),
];

/// Leave to write to the mount that a file was opened through, held: the volume is neither frozen nor
/// made read-only meanwhile.
pub struct WriteAccess<'a, T: FileSystem>(&'a File<T>);

impl<T: FileSystem> File<T> {
    /// Asks for leave to write to the file's mount, waiting for a thaw.
    ///
    /// # Errors
    ///
    /// `EROFS` if the mount or the volume is read-only.
    pub fn want_write(&self) -> Result<WriteAccess<'_, T>> {
        // SAFETY: The file is open.
        to_result(unsafe { bindings::mnt_want_write_file(self.as_ptr()) })?;
        Ok(WriteAccess(self))
    }

    /// Whether the current task owns the file's inode, or is privileged as if it did.
    pub fn is_owned(&self) -> bool {
        // SAFETY: The file is open, and so holds its inode and its mount.
        unsafe { bindings::file_owner_or_capable(self.as_ptr()) }
    }
}

impl<T: FileSystem> Drop for WriteAccess<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Pairs with `want_write`.
        unsafe { bindings::mnt_drop_write_file(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// Called by the VFS alone, as its operation `unlocked_ioctl`: the file lives for the call.
pub(super) unsafe extern "C" fn unlocked_ioctl<T: FileSystem>(
    file: *mut bindings::file,
    command: ffi::c_uint,
    argument: ffi::c_ulong,
) -> ffi::c_long {
    // SAFETY: The file is live for the call.
    let file = unsafe { File::<T>::from_raw(file) };
    from_result(|| T::ioctl(file, command, UserPtr::from_addr(argument))) as ffi::c_long
}

/// # Safety
///
/// Called by the VFS alone, as its operation `compat_ioctl`: the file lives for the call.
pub(super) unsafe extern "C" fn compat_ioctl<T: FileSystem>(
    file: *mut bindings::file,
    command: ffi::c_uint,
    argument: ffi::c_ulong,
) -> ffi::c_long {
    let native = VERSIONS.iter().find(|(compat, _)| *compat == command);
    let command = native.map_or(command, |(_, native)| *native);
    // SAFETY: Computes an address from a number.
    let argument = unsafe { bindings::compat_address(argument) };
    // SAFETY: As the caller promises.
    unsafe { unlocked_ioctl::<T>(file, command, argument) }
}
