// SPDX-License-Identifier: GPL-2.0

//! Directories as the kernel hands them out.

use super::answer;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// Where the next entry is read from (`lseek` takes it).
    pub next: i64,
    /// `DT_*`.
    pub kind: u8,
    /// The name alone.
    pub name: OsString,
}

/// Opens a directory, and nothing else.
pub fn open(path: &Path) -> io::Result<File> {
    super::meta::open(path, libc::O_DIRECTORY as u32, 0)
}

/// One `getdents64` into a buffer of `room` bytes: no entry at the end of the directory.
pub fn read_some(dir: &File, room: usize) -> io::Result<Vec<Entry>> {
    let mut buffer = vec![0_u8; room];
    // SAFETY: The buffer is writable for `room` bytes and outlives the call.
    let got = answer(unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            dir.as_raw_fd(),
            buffer.as_mut_ptr(),
            room,
        )
    })? as usize;
    let mut entries = Vec::new();
    let mut rest = &buffer[..got];
    while let Some(entry) = parse(&mut rest)? {
        entries.push(entry);
    }
    Ok(entries)
}

/// Takes the first `struct linux_dirent64` off `rest`.
fn parse(rest: &mut &[u8]) -> io::Result<Option<Entry>> {
    if rest.is_empty() {
        return Ok(None);
    }
    let bad = || io::Error::other("getdents64 gave a malformed record");
    let take = |from: usize, len: usize| rest.get(from..from + len).ok_or_else(bad);
    let number = |from| take(from, 8)?.try_into().map_err(|_| bad());
    let ino = u64::from_le_bytes(number(0)?);
    let next = i64::from_le_bytes(number(8)?);
    let length = usize::from(u16::from_le_bytes(
        take(16, 2)?.try_into().map_err(|_| bad())?,
    ));
    let kind = take(18, 1)?[0];
    let name = take(19, length.checked_sub(19).ok_or_else(bad)?)?;
    let end = name.iter().position(|&b| b == 0).ok_or_else(bad)?;
    let name = OsString::from_vec(name[..end].to_vec());
    *rest = &rest[length..];
    Ok(Some(Entry {
        ino,
        next,
        kind,
        name,
    }))
}

/// The whole directory, read from its start with buffers of `room` bytes.
pub fn read_all(dir: &File, room: usize) -> io::Result<Vec<Entry>> {
    seek(dir, 0)?;
    read_on(dir, room)
}

/// What is left of the directory, from where it was read to.
pub fn read_on(dir: &File, room: usize) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    loop {
        let some = read_some(dir, room)?;
        if some.is_empty() {
            return Ok(entries);
        }
        entries.extend(some);
    }
}

/// Goes on reading at `position`: 0, or the [`Entry::next`] of an entry.
pub fn seek(dir: &File, position: i64) -> io::Result<()> {
    // SAFETY: No memory is passed.
    answer(unsafe { libc::lseek(dir.as_raw_fd(), position, libc::SEEK_SET) }).map(drop)
}
