// SPDX-License-Identifier: GPL-2.0

//! Extended attributes, with all that the system calls can be asked.

use super::{answer, c_bytes, c_path};
use std::io;
use std::path::Path;

/// `lsetxattr` with `flags` (`XATTR_*`).
pub fn set(path: &Path, name: &[u8], value: &[u8], flags: i32) -> io::Result<()> {
    let (path, name) = (c_path(path)?, c_bytes(name)?);
    let (at, len) = (value.as_ptr().cast(), value.len());
    // SAFETY: The path, the name and the value live over the call.
    let done = unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), at, len, flags) };
    answer(done.into()).map(drop)
}

/// `lremovexattr`.
pub fn remove(path: &Path, name: &[u8]) -> io::Result<()> {
    let (path, name) = (c_path(path)?, c_bytes(name)?);
    // SAFETY: The path and the name live over the call.
    let done = unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr()) };
    answer(done.into()).map(drop)
}

/// `lgetxattr` with room for `room` bytes; the length alone, as many zeros, for 0.
pub fn get(path: &Path, name: &[u8], room: usize) -> io::Result<Vec<u8>> {
    let (path, name) = (c_path(path)?, c_bytes(name)?);
    let mut buffer = vec![0_u8; room];
    let to = buffer.as_mut_ptr().cast();
    // SAFETY: The path, the name and the buffer live over the call.
    let got = unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), to, room) };
    buffer.resize(answer(got as i64)? as usize, 0);
    Ok(buffer)
}

/// `llistxattr` with room for `room` bytes; the length alone, as many zeros, for 0.
pub fn list(path: &Path, room: usize) -> io::Result<Vec<u8>> {
    let path = c_path(path)?;
    let mut buffer = vec![0_u8; room];
    let to = buffer.as_mut_ptr().cast();
    // SAFETY: The path and the buffer live over the call.
    let got = unsafe { libc::llistxattr(path.as_ptr(), to, room) };
    buffer.resize(answer(got as i64)? as usize, 0);
    Ok(buffer)
}
