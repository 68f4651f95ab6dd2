// SPDX-License-Identifier: GPL-2.0

//! The callbacks that give iomap its mappings.

use super::{Iomap, Kind};
use crate::{
    bindings,
    fs::{FileSystem, INode},
};
use core::marker::PhantomData;
use kernel::{error::from_result, ffi, prelude::*};

/// What a mapping is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The first byte of the file that is wanted.
    pub pos: u64,
    /// How many bytes the operation still goes over. The mapping may be shorter or longer.
    pub len: u64,
    flags: u32,
}

impl Request {
    /// Whether data is to be written: space has to be there or be reserved.
    pub fn is_write(&self) -> bool {
        self.has(bindings::IOMAP_WRITE)
    }

    /// Whether the range is to be zeroed; holes and unwritten blocks are zero already.
    pub fn is_zero(&self) -> bool {
        self.has(bindings::IOMAP_ZERO)
    }

    /// Whether the mapping is only to be told of (FIEMAP, SEEK_DATA).
    pub fn is_report(&self) -> bool {
        self.has(bindings::IOMAP_REPORT)
    }

    /// Whether a page fault asks: the folio lock is held.
    pub fn is_fault(&self) -> bool {
        self.has(bindings::IOMAP_FAULT)
    }

    /// Whether the page cache is passed by.
    pub fn is_direct(&self) -> bool {
        self.has(bindings::IOMAP_DIRECT)
    }

    /// Whether to fail with `EAGAIN` rather than sleep.
    pub fn is_nowait(&self) -> bool {
        self.has(bindings::IOMAP_NOWAIT)
    }

    /// Where the operation ends in the file, in bytes.
    pub fn end(&self) -> u64 {
        self.pos.saturating_add(self.len)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// One way of mapping a file of filesystem `T`. The implementing type is never instantiated.
pub trait IomapOps<T: FileSystem>: 'static {
    /// Returns a mapping that covers the byte `request.pos`; reserves or allocates space if the
    /// request says so.
    ///
    /// For [`Request::is_fault`], and for reads, a folio lock is held: see the filesystem's lock
    /// order. [`Kind::Inline`] is for [`Request::is_report`] alone: `EIO` otherwise.
    fn begin(inode: &INode<T>, request: &Request) -> Result<Iomap>;

    /// The operation is done with a mapping: `map` is the one returned by [`IomapOps::begin`], with what
    /// iomap added to its flags; of the `request`'s bytes that lie in it, the first `done` were
    /// worked on. Gives back what is left over.
    ///
    /// An error ends the operation, unless it has done something already.
    fn end(inode: &INode<T>, request: &Request, done: u64, map: &Iomap) -> Result {
        let _ = (inode, request, done, map);
        Ok(())
    }
}

/// The C table for `O`.
pub(super) struct OpsTable<T, O>(PhantomData<(T, O)>);

impl<T: FileSystem, O: IomapOps<T>> OpsTable<T, O> {
    const TABLE: bindings::iomap_ops = bindings::iomap_ops {
        iomap_begin: Some(Self::begin),
        iomap_end: Some(Self::end),
        iomap_next: None,
    };

    /// The table, for C to keep.
    pub(super) fn get() -> &'static bindings::iomap_ops {
        &Self::TABLE
    }

    /// # Safety
    ///
    /// Called by iomap: `inode` is an inode of `T` that lives through the call, `out` is ours.
    pub(super) unsafe extern "C" fn begin(
        inode: *mut bindings::inode,
        pos: bindings::loff_t,
        len: bindings::loff_t,
        flags: ffi::c_uint,
        out: *mut bindings::iomap,
        _srcmap: *mut bindings::iomap,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: By the function's requirements.
            let inode = unsafe { INode::<T>::from_raw(inode) };
            let request = Self::request(pos, len, flags)?;
            let map = O::begin(inode, &request)?;
            // To read or write it iomap would want it in memory.
            if matches!(map.kind, Kind::Inline(_)) && !request.is_report() {
                return Err(EIO);
            }
            // SAFETY: By the function's requirements nobody else uses `out` during the call.
            map.fill(inode, request.pos, unsafe { &mut *out })?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// As for [`Self::begin`]; `map` was filled by that.
    unsafe extern "C" fn end(
        inode: *mut bindings::inode,
        pos: bindings::loff_t,
        len: bindings::loff_t,
        written: isize,
        flags: ffi::c_uint,
        map: *mut bindings::iomap,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: By the function's requirements.
            let inode = unsafe { INode::<T>::from_raw(inode) };
            let request = Self::request(pos, len, flags)?;
            // SAFETY: By the function's requirements nobody changes the mapping during the call.
            let map = Iomap::read(unsafe { &*map });
            O::end(inode, &request, u64::try_from(written).unwrap_or(0), &map)?;
            Ok(0)
        })
    }

    fn request(pos: bindings::loff_t, len: bindings::loff_t, flags: u32) -> Result<Request> {
        Ok(Request {
            pos: u64::try_from(pos).map_err(|_| EINVAL)?,
            len: u64::try_from(len).map_err(|_| EINVAL)?,
            flags,
        })
    }
}
