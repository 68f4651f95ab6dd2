// SPDX-License-Identifier: GPL-2.0

//! All that `statx` says of a file.

use super::{answer, c_path, meta::Time};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

/// A file as `statx` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Kind and permissions.
    pub mode: u32,
    /// Names of the file.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Sectors of 512 bytes that it takes.
    pub blocks: u64,
    /// Bytes that are good to write at once.
    pub block_size: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// `STATX_ATTR_*`, those that the filesystem knows of.
    pub attributes: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// When it was made; nothing where the filesystem does not know.
    pub born: Option<Time>,
}

/// Of the file `path`; of a symbolic link itself.
pub fn of(path: &Path) -> io::Result<Stat> {
    let path = c_path(path)?;
    statx(libc::AT_FDCWD, &path, libc::AT_SYMLINK_NOFOLLOW)
}

/// Of an open file.
pub fn of_open(file: &File) -> io::Result<Stat> {
    statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

fn statx(at: RawFd, path: &std::ffi::CStr, flags: i32) -> io::Result<Stat> {
    // SAFETY: `statx` is plain numbers, for which zeros are valid.
    let mut out: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    // SAFETY: The path and the buffer live over the call.
    answer(unsafe { libc::statx(at, path.as_ptr(), flags, mask, &mut out) }.into())?;
    let time = |raw: libc::statx_timestamp| Time {
        seconds: raw.tv_sec,
        nanos: raw.tv_nsec.into(),
    };
    Ok(Stat {
        mode: out.stx_mode.into(),
        links: out.stx_nlink,
        uid: out.stx_uid,
        gid: out.stx_gid,
        size: out.stx_size,
        blocks: out.stx_blocks,
        block_size: out.stx_blksize,
        device: (out.stx_rdev_major, out.stx_rdev_minor),
        inode: out.stx_ino,
        attributes: out.stx_attributes & out.stx_attributes_mask,
        accessed: time(out.stx_atime),
        modified: time(out.stx_mtime),
        changed: time(out.stx_ctime),
        born: (out.stx_mask & libc::STATX_BTIME != 0).then(|| time(out.stx_btime)),
    })
}
