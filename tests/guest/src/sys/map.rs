// SPDX-License-Identifier: GPL-2.0

//! Files mapped into memory.

use super::answer;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr::NonNull;

/// A shared mapping of part of a file. Other writers of that part may run beside it: the bytes
/// are only ever copied in and out, and nobody holds a reference to them.
pub struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: The mapping belongs to the value, and a copy to or from it is valid on any thread.
unsafe impl Send for Map {}

impl Map {
    /// Maps `length` bytes (not 0) of `file` from `offset`, a multiple of the page size.
    pub fn new(file: &File, offset: u64, length: usize, writable: bool) -> io::Result<Self> {
        let write = if writable { libc::PROT_WRITE } else { 0 };
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: A fresh mapping at a place of the kernel's choice touches nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | write,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap at 0"))?;
        Ok(Self { start, length })
    }

    /// The part of the mapping that `length` bytes from `at` are.
    fn part(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.length));
        // SAFETY: The assertion above keeps the result inside the mapping.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// Stores `bytes` at byte `at` of the mapping.
    pub fn store(&self, at: usize, bytes: &[u8]) {
        let to = self.part(at, bytes.len());
        // SAFETY: `to` is valid for the length; `bytes` is ordinary memory, so no overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Loads into `bytes` from byte `at` of the mapping.
    pub fn load(&self, at: usize, bytes: &mut [u8]) {
        let from = self.part(at, bytes.len());
        // SAFETY: `from` is valid for the length; `bytes` is ordinary memory, so no overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// `pwrite` to `offset` of `file` with `length` bytes of the mapping as the source: what the
    /// kernel must be ready for, a source that is itself a page of a file, or is not there.
    pub fn write_to(
        &self,
        file: &File,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        let from = self.part(at, length);
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: The kernel only reads the source, and answers EFAULT where it cannot.
        let done = unsafe { libc::pwrite(file.as_raw_fd(), from.cast(), length, offset) };
        answer(done as libc::c_long).map(|n| n as usize)
    }

    /// `pread` of `length` bytes from the start of `file` to byte `at` of the mapping: a store that is
    /// answered with EFAULT where the page cannot be had, while [`Map::store`] ends the program.
    pub fn read_from(&self, file: &File, at: usize, length: usize) -> io::Result<usize> {
        let to = self.part(at, length);
        // SAFETY: `to` is valid for the length, and nobody holds a reference to it.
        let done = unsafe { libc::pread(file.as_raw_fd(), to.cast(), length, 0) };
        answer(done as libc::c_long).map(|n| n as usize)
    }

    /// `msync(MS_SYNC)` of the whole mapping.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: The range is the mapping itself.
        let done = unsafe { libc::msync(self.start.as_ptr().cast(), self.length, libc::MS_SYNC) };
        answer(done.into()).map(drop)
    }

    /// `madvise` of the whole mapping.
    pub fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: The range is the mapping itself, and the advices in use free no memory.
        let done = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice) };
        answer(done.into()).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: The range is the mapping itself, and nobody uses it after this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// An empty file in memory alone.
pub fn memory_file() -> io::Result<File> {
    // SAFETY: The name is a string that lives over the call.
    let memory = answer(unsafe { libc::memfd_create(c"memory".as_ptr(), 0) }.into())?;
    // SAFETY: The descriptor is fresh and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(memory as RawFd) })
}

/// Memory that direct I/O takes: aligned to a page.
pub struct Aligned {
    start: NonNull<u8>,
    layout: std::alloc::Layout,
}

impl Aligned {
    /// `length` zero bytes (not 0), aligned to 4,096.
    pub fn new(length: usize) -> io::Result<Self> {
        let layout =
            std::alloc::Layout::from_size_align(length.max(1), 4096).map_err(io::Error::other)?;
        // SAFETY: The layout's size is not 0.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("no memory"))?;
        Ok(Self { start, layout })
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: The allocation is of that size, initialised, and borrowed through `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: It was allocated with this layout.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
