// SPDX-License-Identifier: GPL-2.0

//! System calls that `std` does not have, each behind a safe function.
//!
//! All `unsafe` of this program is in this folder.

pub mod dir;
pub mod dm;
pub mod extent;
pub mod handle;
pub mod map;
pub mod meta;
pub mod process;
pub mod stat;
pub mod volume;
pub mod xattr;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `path` as the kernel takes it. A path with a zero byte in it is `EINVAL`.
fn c_path(path: &Path) -> io::Result<CString> {
    c_bytes(path.as_os_str().as_bytes())
}

/// `bytes` with a zero byte after them. A zero byte among them is `EINVAL`.
fn c_bytes(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The result of a call that answers -1 and `errno`.
fn answer(value: libc::c_long) -> io::Result<u64> {
    u64::try_from(value).map_err(|_| io::Error::last_os_error())
}

/// The `errno` in `error`; 0 where it came from no system call.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}
