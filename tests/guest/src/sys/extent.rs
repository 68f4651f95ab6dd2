// SPDX-License-Identifier: GPL-2.0

//! Where a file's data lies: FIEMAP, SEEK_HOLE/SEEK_DATA, and the calls that change it.

use super::{answer, errno};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// `FIEMAP_FLAG_SYNC`: write the file out first.
const FIEMAP_FLAG_SYNC: u32 = 1;
/// The last extent of the file.
pub const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Delayed allocation: no place on the disk yet.
pub const FIEMAP_EXTENT_DELALLOC: u32 = 0x4;
/// Merged for this answer's sake.
pub const FIEMAP_EXTENT_MERGED: u32 = 0x1000;

/// One extent of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the device.
    pub physical: u64,
    /// Length.
    pub length: u64,
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

impl Extent {
    /// The first byte after the extent, in the file.
    pub fn end(&self) -> u64 {
        self.logical + self.length
    }
}

/// Extents taken in one call.
const BATCH: usize = 512;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for [`BATCH`] extents.
#[repr(C)]
struct RawMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// The extents of the file, as the filesystem tells them. With `sync` the file is written out
/// first, so that none of them is a delayed allocation.
pub fn fiemap(file: &File, sync: bool) -> io::Result<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Box::new(RawMap {
            start,
            length: u64::MAX - start,
            flags: if sync { FIEMAP_FLAG_SYNC } else { 0 },
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        });
        // SAFETY: `map` is a `struct fiemap` with room for as many extents as it says.
        answer(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) }.into())?;
        let got = &map.extents[..(map.mapped as usize).min(BATCH)];
        extents.extend(got.iter().map(|e| Extent {
            logical: e.logical,
            physical: e.physical,
            length: e.length,
            flags: e.flags,
        }));
        match got.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => {
                start = last.logical + last.length;
            }
            _ => return Ok(extents),
        }
    }
}

/// The extents with neighbours joined that lie next to each other in the file and on the device
/// and have the same flags: what two filesystems must agree on, however they cut their answers.
pub fn joined(extents: &[Extent]) -> Vec<Extent> {
    let mut out: Vec<Extent> = Vec::new();
    for extent in extents {
        let flags = extent.flags & !(FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED);
        match out.last_mut() {
            Some(last)
                if last.end() == extent.logical
                    && last.physical + last.length == extent.physical
                    && last.flags == flags =>
            {
                last.length += extent.length;
            }
            _ => out.push(Extent { flags, ..*extent }),
        }
    }
    out
}

/// The parts of the file that hold data, as `(start, end)` in bytes, by SEEK_DATA and SEEK_HOLE.
pub fn data_ranges(file: &File) -> io::Result<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    loop {
        let Some(start) = seek(file, at, libc::SEEK_DATA)? else {
            return Ok(ranges);
        };
        let end = seek(file, start, libc::SEEK_HOLE)?
            .ok_or_else(|| io::Error::other("SEEK_HOLE found no end of the data"))?;
        if start < at || end <= start {
            return Err(io::Error::other(format!(
                "SEEK_DATA {at} gave {start}..{end}"
            )));
        }
        ranges.push((start, end));
        at = end;
    }
}

/// `lseek` with `whence`; nothing where it says `ENXIO`.
pub fn seek(file: &File, at: u64, whence: i32) -> io::Result<Option<u64>> {
    let at = i64::try_from(at).map_err(io::Error::other)?;
    // SAFETY: No memory is passed.
    match answer(unsafe { libc::lseek(file.as_raw_fd(), at, whence) }) {
        Ok(position) => Ok(Some(position)),
        Err(e) if errno(&e) == libc::ENXIO => Ok(None),
        Err(e) => Err(e),
    }
}

/// `fallocate` with `mode` (`FALLOC_FL_*`) on `length` bytes from `offset`.
pub fn fallocate(file: &File, mode: i32, offset: i64, length: i64) -> io::Result<()> {
    // SAFETY: No memory is passed.
    answer(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) }.into()).map(drop)
}

/// Tells the kernel to forget the file's cached, clean pages.
pub fn forget(file: &File) -> io::Result<()> {
    advise(file, libc::POSIX_FADV_DONTNEED)
}

/// `posix_fadvise` for the whole file.
pub fn advise(file: &File, advice: i32) -> io::Result<()> {
    // SAFETY: No memory is passed.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        e => Err(io::Error::from_raw_os_error(e)),
    }
}

/// `sendfile` of up to `count` bytes from `offset` of `from` to where `to` stands.
pub fn send(to: &File, from: &File, offset: u64, count: usize) -> io::Result<usize> {
    let mut at = i64::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: `at` lives over the call.
    let sent = unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &mut at, count) };
    let sent = answer(sent as i64)?;
    Ok(sent as usize)
}

/// `copy_file_range` of up to `count` bytes from `offset` of `from` to the same place of `to`.
pub fn copy_range(to: &File, from: &File, offset: u64, count: usize) -> io::Result<usize> {
    let mut at = i64::try_from(offset).map_err(io::Error::other)?;
    let mut out = at;
    // SAFETY: Both offsets live over the call.
    let done = unsafe {
        libc::copy_file_range(
            from.as_raw_fd(),
            &mut at,
            to.as_raw_fd(),
            &mut out,
            count,
            0,
        )
    };
    answer(done as i64).map(|n| n as usize)
}
