// SPDX-License-Identifier: GPL-2.0

//! Volumes and kernel modules.

use super::{answer, c_bytes, c_path};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `mount`: `flags` are `MS_*`, `options` the filesystem's own.
pub fn mount(dev: &Path, dir: &Path, fs: &str, flags: u64, options: &str) -> io::Result<()> {
    let (dev, dir) = (c_path(dev)?, c_path(dir)?);
    let (fs, options) = (c_bytes(fs.as_bytes())?, c_bytes(options.as_bytes())?);
    answer(
        // SAFETY: All four strings live over the call.
        unsafe {
            libc::mount(
                dev.as_ptr(),
                dir.as_ptr(),
                fs.as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        }
        .into(),
    )
    .map(drop)
}

/// `umount`.
pub fn umount(dir: &Path) -> io::Result<()> {
    let dir = c_path(dir)?;
    // SAFETY: The path lives over the call.
    answer(unsafe { libc::umount(dir.as_ptr()) }.into()).map(drop)
}

/// Sizes and free counts of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The filesystem's magic number.
    pub kind: i64,
    /// Bytes in a block.
    pub block: i64,
    /// Blocks, less what the filesystem itself takes.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks for everybody.
    pub available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// Longest name, in bytes.
    pub name: i64,
    /// The volume's identifier.
    pub id: u64,
}

/// `statfs`.
pub fn space(path: &Path) -> io::Result<Space> {
    let path = c_path(path)?;
    // SAFETY: `statfs` is plain numbers, for which zeros are valid.
    let mut out: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: The path and the buffer live over the call.
    answer(unsafe { libc::statfs(path.as_ptr(), &mut out) }.into())?;
    // SAFETY: A `fsid_t` is two ints, and so are eight bytes.
    let id: u64 = unsafe { std::mem::transmute(out.f_fsid) };
    Ok(Space {
        kind: out.f_type,
        block: out.f_bsize,
        blocks: out.f_blocks,
        free: out.f_bfree,
        available: out.f_bavail,
        files: out.f_files,
        free_files: out.f_ffree,
        name: out.f_namelen,
        id,
    })
}

/// `syncfs` of the volume that `file` is on.
pub fn syncfs(file: &File) -> io::Result<()> {
    // SAFETY: No memory is passed.
    answer(unsafe { libc::syncfs(file.as_raw_fd()) }.into()).map(drop)
}

/// `sync`.
pub fn sync() {
    // SAFETY: No memory is passed.
    unsafe { libc::sync() }
}

/// Freezes the volume that `file` is on: what is written waits until [`thaw`].
pub fn freeze(file: &File) -> io::Result<()> {
    /// `_IOWR('X', 119, int)`.
    const FIFREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;
    // SAFETY: No memory is passed.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FIFREEZE, 0) }.into()).map(drop)
}

/// Ends [`freeze`].
pub fn thaw(file: &File) -> io::Result<()> {
    /// `_IOWR('X', 120, int)`.
    const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;
    // SAFETY: No memory is passed.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FITHAW, 0) }.into()).map(drop)
}

/// `BLKFLSBUF`: writes the device's own cached pages out and forgets them.
pub fn forget_buffers(dev: &File) -> io::Result<()> {
    /// `_IO(0x12, 97)`.
    const BLKFLSBUF: libc::Ioctl = 0x1261;
    // SAFETY: No memory is passed.
    answer(unsafe { libc::ioctl(dev.as_raw_fd(), BLKFLSBUF, 0) }.into()).map(drop)
}

/// The size of a block device in bytes.
pub fn device_size(dev: &File) -> io::Result<u64> {
    /// `_IOR(0x12, 114, size_t)`.
    const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
    let mut size = 0_u64;
    // SAFETY: The kernel writes eight bytes through the pointer, which lives over the call.
    answer(unsafe { libc::ioctl(dev.as_raw_fd(), BLKGETSIZE64, &mut size) }.into())?;
    Ok(size)
}

/// `struct blkpg_partition`.
#[repr(C)]
struct RawPartition {
    start: i64,
    length: i64,
    number: libc::c_int,
    names: [u8; 128],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct RawPartitionCall {
    op: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    data: *mut RawPartition,
}

/// Makes all of `disk` its partition 1, in the kernel's memory alone.
pub fn add_partition(disk: &File) -> io::Result<()> {
    /// `_IO(0x12, 105)`.
    const BLKPG: libc::Ioctl = 0x1269;
    /// `BLKPG_ADD_PARTITION`.
    const ADD: libc::c_int = 1;
    let length = device_size(disk)?.try_into().map_err(io::Error::other)?;
    let mut partition = RawPartition {
        start: 0,
        length,
        number: 1,
        names: [0; 128],
    };
    let call = RawPartitionCall {
        op: ADD,
        flags: 0,
        length: size_of::<RawPartition>() as libc::c_int,
        data: &mut partition,
    };
    // SAFETY: The call and the partition that it points to live over it.
    answer(unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG, &call) }.into()).map(drop)
}

/// Loads the kernel module in `file`.
pub fn load_module(file: &File) -> io::Result<()> {
    // SAFETY: The empty string of parameters lives over the call.
    answer(unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) })
        .map(drop)
}

/// Unloads the kernel module `name`; fails where it is in use.
pub fn unload_module(name: &str) -> io::Result<()> {
    let name = c_bytes(name.as_bytes())?;
    // SAFETY: The name lives over the call.
    answer(unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) })
        .map(drop)
}
