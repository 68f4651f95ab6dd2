// SPDX-License-Identifier: GPL-2.0

//! The operations of a regular file's page cache.

use super::{bmap, ops::OpsTable, IomapOps};
use crate::{
    bindings,
    fs::{FileSystem, INode},
    mapping::Mapping,
    memalloc::with_nofs,
    writeback::Control,
};
use core::marker::PhantomData;
use kernel::{error::from_result, ffi, prelude::*};

/// A filesystem whose regular files are in the page cache by way of iomap.
pub trait AddressSpaceOps: FileSystem {
    /// How a file is mapped for reading. Called under a folio lock, so that it waits for nothing
    /// that waits for one.
    type ReadMap: IomapOps<Self>;

    /// How a file is mapped when a page of it is about to be written through memory. Called under
    /// the folio lock; all of the folio that lies within the file becomes dirty afterwards, so
    /// that its space must be there as if it were written already.
    type FaultMap: IomapOps<Self>;

    /// Writes dirty folios as `control` asks; see [`crate::writeback`].
    ///
    /// May be called by any task that holds no folio lock, also with the inode's `i_rwsem` and
    /// `invalidate_lock` held, and by several tasks at a time. No allocation within it enters a
    /// filesystem.
    fn writepages(inode: &INode<Self>, control: &mut Control) -> Result;

    /// A page could not be made writable, for want of space perhaps: makes some, if that is a matter
    /// of waiting. `true` if it is worth trying again. No folio is locked; `mmap_lock` and the inode's
    /// `invalidate_lock` are held for reading.
    fn make_space(inode: &INode<Self>) -> bool;
}

/// The C table for `T`.
struct AopsTable<T>(PhantomData<T>);

/// The operations of the page cache of a regular file of `T`.
pub(crate) fn aops<T: AddressSpaceOps>() -> &'static bindings::address_space_operations {
    &AopsTable::<T>::TABLE
}

impl<T: AddressSpaceOps> AopsTable<T> {
    const TABLE: bindings::address_space_operations = bindings::address_space_operations {
        read_folio: Some(Self::read_folio),
        readahead: Some(Self::readahead),
        writepages: Some(Self::writepages),
        dirty_folio: Some(bindings::iomap_dirty_folio),
        invalidate_folio: Some(bindings::iomap_invalidate_folio),
        release_folio: Some(bindings::iomap_release_folio),
        is_partially_uptodate: Some(bindings::iomap_is_partially_uptodate),
        migrate_folio: Some(bindings::filemap_migrate_folio),
        error_remove_folio: Some(bindings::generic_error_remove_folio),
        bmap: Some(Self::bmap),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the page cache: `folio` is locked and in the page cache of a file of `T`.
    unsafe extern "C" fn read_folio(
        _file: *mut bindings::file,
        folio: *mut bindings::folio,
    ) -> ffi::c_int {
        // SAFETY: By the function's requirements; the callee unlocks the folio.
        unsafe { bindings::iomap_bio_read_folio(folio, OpsTable::<T, T::ReadMap>::get()) };
        0
    }

    /// # Safety
    ///
    /// Called by the page cache: `rac` stands over locked folios of a file of `T`.
    unsafe extern "C" fn readahead(rac: *mut bindings::readahead_control) {
        // SAFETY: By the function's requirements.
        unsafe { bindings::iomap_bio_readahead(rac, OpsTable::<T, T::ReadMap>::get()) };
    }

    /// # Safety
    ///
    /// Called by write-back: both are live, the mapping is a file's of `T`, and `control` is used
    /// by nobody else during the call.
    unsafe extern "C" fn writepages(
        mapping: *mut bindings::address_space,
        control: *mut bindings::writeback_control,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: By the function's requirements.
            let (mapping, control) =
                unsafe { (Mapping::<T>::from_raw(mapping), Control::from_raw(control)) };
            with_nofs(|| T::writepages(mapping.host(), control))?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the VFS: `mapping` is live and a file's of `T`.
    unsafe extern "C" fn bmap(
        mapping: *mut bindings::address_space,
        block: bindings::sector_t,
    ) -> bindings::sector_t {
        // SAFETY: By the function's requirements.
        let mapping = unsafe { Mapping::<T>::from_raw(mapping) };
        bmap::<T, T::ReadMap>(mapping.host(), block).unwrap_or(0)
    }
}
