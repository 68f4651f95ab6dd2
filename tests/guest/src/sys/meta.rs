// SPDX-License-Identifier: GPL-2.0

//! What a file is, beside its data.

use super::{answer, c_bytes, c_path};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::Path;

/// A point in time as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds since that second.
    pub nanos: i64,
}

impl Time {
    fn raw(self) -> libc::timespec {
        libc::timespec {
            tv_sec: self.seconds,
            tv_nsec: self.nanos,
        }
    }
}

/// `utimensat`, on a symbolic link itself.
pub fn set_times(path: &Path, atime: Time, mtime: Time) -> io::Result<()> {
    let path = c_path(path)?;
    let times = [atime.raw(), mtime.raw()];
    answer(
        // SAFETY: The path and both times live over the call.
        unsafe {
            libc::utimensat(
                libc::AT_FDCWD,
                path.as_ptr(),
                times.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
            )
        }
        .into(),
    )
    .map(drop)
}

/// `mknod`: `mode` holds the `S_IF*` kind and the permissions.
pub fn mknod(path: &Path, mode: u32, major: u32, minor: u32) -> io::Result<()> {
    let path = c_path(path)?;
    let device = libc::makedev(major, minor);
    // SAFETY: The path lives over the call.
    answer(unsafe { libc::mknod(path.as_ptr(), mode, device) }.into()).map(drop)
}

/// What `statx` says and `std` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statx {
    /// `STATX_ATTR_*`.
    pub attributes: u64,
    /// Which of those the filesystem knows of.
    pub known: u64,
    /// When the file was made; nothing where the filesystem does not know.
    pub born: Option<Time>,
}

/// `statx`, on a symbolic link itself.
pub fn statx(path: &Path) -> io::Result<Statx> {
    let path = c_path(path)?;
    // SAFETY: `statx` is plain numbers, for which zeros are valid.
    let mut out: libc::statx = unsafe { std::mem::zeroed() };
    answer(
        // SAFETY: The path and the buffer live over the call.
        unsafe {
            libc::statx(
                libc::AT_FDCWD,
                path.as_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
                libc::STATX_BASIC_STATS | libc::STATX_BTIME,
                &mut out,
            )
        }
        .into(),
    )?;
    let born = (out.stx_mask & libc::STATX_BTIME != 0).then_some(Time {
        seconds: out.stx_btime.tv_sec,
        nanos: out.stx_btime.tv_nsec.into(),
    });
    Ok(Statx {
        attributes: out.stx_attributes & out.stx_attributes_mask,
        known: out.stx_attributes_mask,
        born,
    })
}

/// `FS_IOC_SETFLAGS`: the inode's `FS_*_FL`, as `chattr` sets them.
pub fn set_flags(file: &File, flags: u32) -> io::Result<()> {
    let flags = libc::c_long::from(flags);
    answer(
        // SAFETY: The kernel reads an int through the pointer, which lives over the call.
        unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::FS_IOC_SETFLAGS as libc::Ioctl,
                &flags,
            )
        }
        .into(),
    )
    .map(drop)
}

/// `FS_IOC_GETFLAGS`: the inode's `FS_*_FL`, as `lsattr` shows them.
pub fn flags(file: &File) -> io::Result<u32> {
    let mut flags: libc::c_long = 0;
    answer(
        // SAFETY: The kernel writes an int through the pointer, which lives over the call.
        unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::FS_IOC_GETFLAGS as libc::Ioctl,
                &mut flags,
            )
        }
        .into(),
    )?;
    Ok(flags as u32)
}

/// The names of the extended attributes of `path` itself, sorted.
pub fn xattr_names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let path = c_path(path)?;
    let mut buffer = vec![0_u8; 65536];
    let got = answer(
        // SAFETY: The path and the buffer live over the call.
        unsafe { libc::llistxattr(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) } as i64,
    )?;
    let list = &buffer[..got as usize];
    let names = list.split(|&b| b == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

/// The value of one extended attribute of `path` itself.
pub fn xattr(path: &Path, name: &[u8]) -> io::Result<Vec<u8>> {
    let (path, name) = (c_path(path)?, c_bytes(name)?);
    let mut buffer = vec![0_u8; 65536];
    // SAFETY: The path, the name and the buffer live over the call.
    let got = answer(unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    } as i64)?;
    buffer.truncate(got as usize);
    Ok(buffer)
}

/// Sets one extended attribute of `path` itself.
pub fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> io::Result<()> {
    let (path, name) = (c_path(path)?, c_bytes(name)?);
    answer(
        // SAFETY: The path, the name and the value live over the call.
        unsafe {
            libc::lsetxattr(
                path.as_ptr(),
                name.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        }
        .into(),
    )
    .map(drop)
}

/// `renameat2` with `flags` (`RENAME_*`).
pub fn rename(from: &Path, to: &Path, flags: u32) -> io::Result<()> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: Both paths live over the call.
    answer(unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags) }.into())
        .map(drop)
}

/// Gives an open file the name `to` (`linkat` of its place in /proc).
pub fn link_open(file: &File, to: &Path) -> io::Result<()> {
    let from = c_path(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
    let to = c_path(to)?;
    let here = libc::AT_FDCWD;
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: Both paths live over the call.
    answer(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) }.into()).map(drop)
}

/// `open` with any `O_*` flags; `mode` is for a file that is made.
pub fn open(path: &Path, flags: u32, mode: u32) -> io::Result<File> {
    let path = c_path(path)?;
    let flags = flags as i32 | libc::O_CLOEXEC;
    // SAFETY: The path lives over the call.
    let file = answer(unsafe { libc::open(path.as_ptr(), flags, mode) }.into())?;
    // SAFETY: The descriptor is fresh and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(file as RawFd) })
}

/// `truncate`.
pub fn truncate(path: &Path, size: u64) -> io::Result<()> {
    let path = c_path(path)?;
    let size = i64::try_from(size).map_err(io::Error::other)?;
    // SAFETY: The path lives over the call.
    answer(unsafe { libc::truncate(path.as_ptr(), size) }.into()).map(drop)
}

/// `access` for the effective user.
pub fn may(path: &Path, what: i32) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: The path lives over the call.
    answer(unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), what, libc::AT_EACCESS) }.into())
        .map(drop)
}
