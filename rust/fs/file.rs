// SPDX-License-Identifier: GPL-2.0

//! Open files, and operations of regular files.

use super::{attr, from_result, ioctl, FileSystem, INode};
use crate::{
    bindings,
    iomap::{self, AddressSpaceOps, ReportOps},
    mapping::loff,
};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    error::{from_err_ptr, to_result},
    ffi,
    prelude::*,
    types::Opaque,
};

/// An open file of filesystem `T`.
#[repr(transparent)]
pub struct File<T: FileSystem>(Opaque<bindings::file>, PhantomData<T>);

impl<T: FileSystem> File<T> {
    /// Borrows a C file.
    ///
    /// # Safety
    ///
    /// `ptr` points to an open file of `T` that is live for `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::file) -> &'a Self {
        // SAFETY: Transparent; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C file.
    pub(crate) fn as_ptr(&self) -> *mut bindings::file {
        self.0.get()
    }

    /// The inode.
    pub fn inode(&self) -> &INode<T> {
        // SAFETY: An open file holds its inode.
        unsafe { INode::from_raw((*self.0.get()).f_inode) }
    }

    /// Writes the dirty folios that overlap the bytes `start..end`, waits for them, and tells of
    /// errors since the last time that this open file was told.
    pub fn write_and_wait(&self, start: u64, end: u64) -> Result {
        let Some(last) = end.checked_sub(1) else {
            return Ok(());
        };
        // SAFETY: The file is open.
        to_result(unsafe {
            bindings::file_write_and_wait_range(self.0.get(), loff(start), loff(last))
        })
    }

    /// Where the mount that the file was opened through is: a path put into `buf` and returned.
    /// `None` if `buf` is too short for it.
    pub fn mount_point<'b>(&self, buf: &'b mut [u8]) -> Option<&'b [u8]> {
        let len = ffi::c_int::try_from(buf.len()).ok()?;
        // SAFETY: The file is open, and so holds its mount; `buf` has `len` bytes.
        let path =
            unsafe { bindings::file_mount_point(self.0.get(), buf.as_mut_ptr().cast(), len) };
        let path = from_err_ptr(path).ok()?;
        // SAFETY: The callee returns a C string that lies in `buf`.
        Some(unsafe { CStr::from_char_ptr(path) }.to_bytes())
    }

    /// Whether the file is open for writing.
    pub fn is_writable(&self) -> bool {
        // SAFETY: Set at open.
        unsafe { bindings::file_is_writable(self.0.get()) }
    }

    /// Whether positions in a directory must fit into 31 bits: the caller's system calls have
    /// 32-bit numbers, unless whoever opened the file said what it wants.
    pub fn has_short_positions(&self) -> bool {
        // SAFETY: The mode is set at open.
        unsafe { bindings::file_has_short_positions(self.0.get()) }
    }
}

/// The memory that a read or write copies to or from.
pub struct IoVec<'a>(
    NonNull<bindings::iov_iter>,
    PhantomData<&'a mut bindings::iov_iter>,
);

impl IoVec<'_> {
    /// The C iterator.
    pub(crate) fn as_ptr(&mut self) -> *mut bindings::iov_iter {
        self.0.as_ptr()
    }

    /// Bytes left.
    pub fn len(&self) -> usize {
        // SAFETY: The iterator is ours for the call.
        unsafe {
            (*self.0.as_ptr())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .as_ref()
                .count
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One read or write call on an open file.
pub struct Kiocb<'a, T: FileSystem>(NonNull<bindings::kiocb>, PhantomData<&'a T>);

impl<'a, T: FileSystem> Kiocb<'a, T> {
    /// The C call.
    pub(crate) fn as_ptr(&mut self) -> *mut bindings::kiocb {
        self.0.as_ptr()
    }

    /// The file's inode.
    pub fn inode(&self) -> &'a INode<T> {
        // SAFETY: The call holds its file for all of `'a`, and that holds the inode.
        unsafe { INode::from_raw((*self.0.as_ref().ki_filp).f_inode) }
    }

    /// The position in bytes.
    pub fn pos(&self) -> u64 {
        // SAFETY: The call is ours. Positions are not negative after the VFS's checks.
        u64::try_from(unsafe { self.0.as_ref().ki_pos }).unwrap_or(0)
    }

    /// Whether the call must not sleep.
    pub fn is_nowait(&self) -> bool {
        // SAFETY: The call is ours.
        unsafe { bindings::iocb_is_nowait(self.0.as_ptr()) }
    }

    /// Whether the data must be on stable storage when the call returns.
    pub fn is_dsync(&self) -> bool {
        // SAFETY: The call is ours, its file live.
        unsafe { bindings::iocb_is_dsync(self.0.as_ptr()) }
    }

    /// Whether the call bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        // SAFETY: The call is ours.
        unsafe { bindings::iocb_is_direct(self.0.as_ptr()) }
    }

    /// Checks a write against limits and moves an appending one to the end: the bytes to write, 0
    /// for nothing to do. The caller holds the inode's `i_rwsem`.
    pub fn write_checks(&mut self, from: &mut IoVec<'_>) -> Result<usize> {
        // SAFETY: Both are ours for the call.
        let n = unsafe { bindings::generic_write_checks(self.as_ptr(), from.as_ptr()) };
        usize_result(n)
    }

    /// Drops set-id bits and updates the times, before a write. The caller holds the inode's
    /// `i_rwsem`.
    pub fn modified(&mut self) -> Result {
        // SAFETY: The call is ours.
        to_result(unsafe { bindings::kiocb_modified(self.as_ptr()) })
    }

    /// After `written` bytes of a synchronous write: brings them to stable storage if the file or
    /// the call asks for it.
    pub fn write_sync(&mut self, written: usize) -> Result<usize> {
        // SAFETY: The call is ours; `ki_pos` is past the bytes written.
        usize_result(unsafe { bindings::generic_write_sync(self.as_ptr(), written as isize) })
    }
}

/// Turns C's "count or negative errno" into a result.
pub(crate) fn usize_result(n: isize) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) => Ok(n),
        Err(_) => Err(Error::from_errno(n as i32)),
    }
}

/// What a regular file can do.
pub trait FileOps: AddressSpaceOps + ReportOps {
    /// A file is opened.
    fn open(inode: &INode<Self>, file: &File<Self>) -> Result;

    /// A file is about to be read, or with `writable` mapped into memory to be stored into. No lock
    /// is held.
    ///
    /// # Errors
    ///
    /// Whatever the reader is to get instead.
    fn check_access(inode: &INode<Self>, writable: bool) -> Result;

    /// An open file is closed for the last time.
    fn release(inode: &INode<Self>, file: &File<Self>);

    /// A write call; the bytes written. No lock is held.
    fn write(call: &mut Kiocb<'_, Self>, from: &mut IoVec<'_>) -> Result<usize>;

    /// Brings the bytes `start..end` and the metadata needed to find them to stable storage; all
    /// metadata unless `datasync`.
    fn fsync(file: &File<Self>, start: u64, end: u64, datasync: bool) -> Result;
}

struct Ops<T>(PhantomData<T>);

/// The inode operations of regular files.
pub(super) fn inode_ops<T: FileOps>() -> *const bindings::inode_operations {
    &Ops::<T>::INODE
}

/// The file operations of regular files.
pub(super) fn file_ops<T: FileOps>() -> *const bindings::file_operations {
    &Ops::<T>::FILE
}

impl<T: FileOps> Ops<T> {
    const INODE: bindings::inode_operations = bindings::inode_operations {
        fiemap: Some(iomap::fiemap::<T>),
        ..attr::inode_ops::<T>()
    };

    const FILE: bindings::file_operations = bindings::file_operations {
        llseek: Some(Self::llseek),
        read_iter: Some(Self::read_iter),
        write_iter: Some(Self::write_iter),
        mmap_prepare: Some(Self::mmap_prepare),
        open: Some(Self::open),
        release: Some(Self::release),
        fsync: Some(Self::fsync),
        splice_read: Some(Self::splice_read),
        splice_write: Some(bindings::iter_file_splice_write),
        unlocked_ioctl: Some(ioctl::unlocked_ioctl::<T>),
        compat_ioctl: Some(ioctl::compat_ioctl::<T>),
        setlease: Some(bindings::generic_setlease),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `open`: the arguments live for the call.
    unsafe extern "C" fn open(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call.
        from_result(|| unsafe { T::open(INode::from_raw(inode), File::from_raw(file)) })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `release`: the arguments live for the call.
    unsafe extern "C" fn release(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call.
        unsafe { T::release(INode::from_raw(inode), File::from_raw(file)) };
        0
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `read_iter`: the arguments live for the call.
    unsafe extern "C" fn read_iter(
        kiocb: *mut bindings::kiocb,
        to: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: The call holds its file, which holds the inode.
        let inode = unsafe { INode::<T>::from_raw((*(*kiocb).ki_filp).f_inode) };
        match T::check_access(inode, false) {
            // SAFETY: Both are the caller's, lent for the call.
            Ok(()) => unsafe { bindings::generic_file_read_iter(kiocb, to) },
            Err(e) => e.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `splice_read`: the arguments live for the call.
    unsafe extern "C" fn splice_read(
        file: *mut bindings::file,
        pos: *mut bindings::loff_t,
        pipe: *mut bindings::pipe_inode_info,
        len: usize,
        flags: ffi::c_uint,
    ) -> isize {
        // SAFETY: The file is live for the call.
        let inode = unsafe { File::<T>::from_raw(file) }.inode();
        match T::check_access(inode, false) {
            // SAFETY: All are the caller's, lent for the call.
            Ok(()) => unsafe { bindings::filemap_splice_read(file, pos, pipe, len, flags) },
            Err(e) => e.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `write_iter`: the arguments live for the call.
    unsafe extern "C" fn write_iter(
        kiocb: *mut bindings::kiocb,
        from: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: Both are the caller's, lent for the call, and not null.
        let (mut call, mut from) = unsafe {
            (
                Kiocb::<T>(NonNull::new_unchecked(kiocb), PhantomData),
                IoVec(NonNull::new_unchecked(from), PhantomData),
            )
        };
        match T::write(&mut call, &mut from) {
            Ok(n) => n as isize,
            Err(e) => e.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `fsync`: the arguments live for the call.
    unsafe extern "C" fn fsync(
        file: *mut bindings::file,
        start: bindings::loff_t,
        end: bindings::loff_t,
        datasync: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: The file is live for the call.
        let file = unsafe { File::<T>::from_raw(file) };
        // The VFS passes the last byte, at most LLONG_MAX; neither is negative.
        from_result(|| {
            T::fsync(
                file,
                start as u64,
                (end as u64).saturating_add(1),
                datasync != 0,
            )
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `mmap_prepare`: the arguments live for the call.
    unsafe extern "C" fn mmap_prepare(desc: *mut bindings::vm_area_desc) -> ffi::c_int {
        from_result(|| {
            // SAFETY: The description and its file are live for the call.
            let file = unsafe { File::<T>::from_raw((*desc).file) };
            T::check_access(file.inode(), file.is_writable())?;
            // SAFETY: As above; the table is a constant.
            unsafe {
                bindings::file_accessed((*desc).file);
                (*desc).vm_ops = iomap::vm_ops::<T>();
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `llseek`: the arguments live for the call.
    unsafe extern "C" fn llseek(
        file: *mut bindings::file,
        offset: bindings::loff_t,
        whence: ffi::c_int,
    ) -> bindings::loff_t {
        // SAFETY: The file is live for the call.
        unsafe { iomap::llseek::<T>(file, offset, whence) }
    }
}
