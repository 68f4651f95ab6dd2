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

/// `FS_IOC_SHUTDOWN` of the volume that `file` is on, in the way `how`.
pub fn shut_down(file: &File, how: u32) -> io::Result<()> {
    /// `_IOR('X', 125, __u32)`.
    const FS_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
    // SAFETY: The kernel reads four bytes through the pointer, which lives over the call.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SHUTDOWN, &how) }.into()).map(drop)
}

/// Bytes that the calls about labels pass.
const LABEL: usize = 256;

/// `FS_IOC_GETFSLABEL`: the label, without the zeros behind it.
pub fn label(file: &File) -> io::Result<Vec<u8>> {
    /// `_IOR(0x94, 49, char[256])`.
    const FS_IOC_GETFSLABEL: libc::Ioctl = 0x8100_9431_u32 as libc::Ioctl;
    let mut text = [0_u8; LABEL];
    let to = text.as_mut_ptr();
    // SAFETY: The kernel writes as many bytes at most, and the buffer lives over the call.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFSLABEL, to) }.into())?;
    Ok(text.into_iter().take_while(|&b| b != 0).collect())
}

/// `FS_IOC_SETFSLABEL`.
pub fn set_label(file: &File, label: &[u8]) -> io::Result<()> {
    /// `_IOW(0x94, 50, char[256])`.
    const FS_IOC_SETFSLABEL: libc::Ioctl = 0x4100_9432_u32 as libc::Ioctl;
    let mut text = [0_u8; LABEL];
    text[..label.len()].copy_from_slice(label);
    let from = text.as_ptr();
    // SAFETY: The kernel reads as many bytes, and the buffer lives over the call.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SETFSLABEL, from) }.into()).map(drop)
}

/// `FS_IOC_GETVERSION`: the generation of the inode of `file`.
pub fn generation(file: &File) -> io::Result<u32> {
    /// `_IOR('v', 1, long)`.
    const FS_IOC_GETVERSION: libc::Ioctl = 0x8008_7601_u32 as libc::Ioctl;
    let mut generation = 0_u32;
    let to = &raw mut generation;
    // SAFETY: The kernel writes an int through the pointer, which lives over the call.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, to) }.into())?;
    Ok(generation)
}

/// `FS_IOC_SETVERSION`.
pub fn set_generation(file: &File, generation: u32) -> io::Result<()> {
    /// `_IOW('v', 2, long)`.
    const FS_IOC_SETVERSION: libc::Ioctl = 0x4008_7602_u32 as libc::Ioctl;
    let from = &raw const generation;
    // SAFETY: The kernel reads an int through the pointer, which lives over the call.
    answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SETVERSION, from) }.into()).map(drop)
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
