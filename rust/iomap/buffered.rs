// SPDX-License-Identifier: GPL-2.0

//! Writing into the page cache.

use super::{ops::OpsTable, Iomap, IomapOps};
use crate::{
    bindings,
    fs::{FileSystem, INode, IoVec, Kiocb},
    mapping::{loff, MAX_OFFSET},
};
use core::marker::PhantomData;
use kernel::{error::to_result, ffi, prelude::*};

/// What a filesystem does with each folio that is written to.
pub trait WriteOps<T: FileSystem>: 'static {
    /// Data was copied to `pos..pos + copied` (bytes), or zeros were written there, in one folio.
    /// The folio is locked, it is dirty, and the inode's size covers the range.
    ///
    /// Called before the folio is unlocked, so that write-back sees the blocks either as they were
    /// with a clean folio, or as this leaves them with a dirty one. It cannot fail, and takes
    /// nothing that comes before the folio lock in the lock order. If a copy failed or the mapping
    /// was out of date, `copied` is 0.
    fn copied(inode: &INode<T>, pos: u64, copied: u64);

    /// Whether `map`, which [`IomapOps::begin`] returned, is still true. The folio lock is held.
    fn is_valid(inode: &INode<T>, map: &Iomap) -> bool;
}

/// The C table for `W`.
struct WriteTable<T, W>(PhantomData<(T, W)>);

impl<T: FileSystem, W: WriteOps<T>> WriteTable<T, W> {
    const TABLE: bindings::iomap_write_ops = bindings::iomap_write_ops {
        get_folio: None,
        put_folio: Some(Self::put_folio),
        iomap_valid: Some(Self::iomap_valid),
        read_folio_range: None,
    };

    /// The table, for C to keep.
    fn get() -> &'static bindings::iomap_write_ops {
        &Self::TABLE
    }

    /// # Safety
    ///
    /// Called by iomap: `inode` is an inode of `T`, `folio` is in its page cache, locked, and its
    /// lock and one reference pass to this function.
    unsafe extern "C" fn put_folio(
        inode: *mut bindings::inode,
        pos: bindings::loff_t,
        copied: ffi::c_uint,
        folio: *mut bindings::folio,
    ) {
        // SAFETY: By the function's requirements.
        let inode = unsafe { INode::<T>::from_raw(inode) };
        W::copied(inode, u64::try_from(pos).unwrap_or(0), copied.into());
        // SAFETY: By the function's requirements the lock and a reference are ours to give up.
        unsafe {
            bindings::folio_unlock(folio);
            bindings::folio_put(folio);
        }
    }

    /// # Safety
    ///
    /// Called by iomap: `inode` is an inode of `T`, `map` was filled by an [`IomapOps`] of `T`.
    unsafe extern "C" fn iomap_valid(
        inode: *mut bindings::inode,
        map: *const bindings::iomap,
    ) -> bool {
        // SAFETY: By the function's requirements.
        let (inode, map) = unsafe { (INode::<T>::from_raw(inode), Iomap::read(&*map)) };
        W::is_valid(inode, &map)
    }
}

/// Copies from `from` into the page cache at the position of `kiocb`, moves both on, and raises the
/// inode's size. The caller holds the inode's `i_rwsem` for writing and has checked the limits.
///
/// Returns how many bytes were written, which is less than asked for after an error midway.
pub fn write<T, O, W>(kiocb: &mut Kiocb<'_, T>, from: &mut IoVec<'_>) -> Result<usize>
where
    T: FileSystem,
    O: IomapOps<T>,
    W: WriteOps<T>,
{
    // SAFETY: Both are live and used by nobody else. The file is one of `T`, so that the callbacks
    // get an inode of `T`.
    let ret = unsafe {
        bindings::iomap_file_buffered_write(
            kiocb.as_ptr(),
            from.as_ptr(),
            OpsTable::<T, O>::get(),
            WriteTable::<T, W>::get(),
            core::ptr::null_mut(),
        )
    };
    if ret < 0 {
        return Err(Error::from_errno(ret as ffi::c_int));
    }
    Ok(ret as usize)
}

/// Zeros `pos..end` (bytes) in the page cache, as far as there is data, and makes it dirty. Returns
/// whether there was any. The caller holds the inode's `i_rwsem` and `invalidate_lock` for writing.
pub fn zero_range<T, O, W>(inode: &INode<T>, pos: u64, end: u64) -> Result<bool>
where
    T: FileSystem,
    O: IomapOps<T>,
    W: WriteOps<T>,
{
    let len = match end.checked_sub(pos) {
        Some(len) if len > 0 && end <= MAX_OFFSET => len,
        _ => return Ok(false),
    };
    let mut zeroed = false;
    // SAFETY: The inode is live, and of `T`; `zeroed` outlives the call.
    to_result(unsafe {
        bindings::iomap_zero_range(
            inode.as_ptr(),
            loff(pos),
            loff(len),
            &raw mut zeroed,
            OpsTable::<T, O>::get(),
            WriteTable::<T, W>::get(),
            core::ptr::null_mut(),
        )
    })?;
    Ok(zeroed)
}

/// Zeros from byte `pos` to the end of its block, as [`zero_range`] does; nothing at a block's edge.
pub fn truncate_page<T, O, W>(inode: &INode<T>, pos: u64) -> Result<bool>
where
    T: FileSystem,
    O: IomapOps<T>,
    W: WriteOps<T>,
{
    let block = u64::from(inode.super_block().block_size());
    match pos.checked_next_multiple_of(block) {
        Some(end) => zero_range::<T, O, W>(inode, pos, end),
        None => Err(EFBIG),
    }
}
