// SPDX-License-Identifier: GPL-2.0

//! Page faults of mapped files.

use super::{ops::OpsTable, AddressSpaceOps};
use crate::{bindings, fs::INode};
use core::marker::PhantomData;

/// The C table for `T`.
struct VmTable<T>(PhantomData<T>);

/// The operations of a memory area over a regular file of `T`.
pub(crate) fn vm_ops<T: AddressSpaceOps>() -> &'static bindings::vm_operations_struct {
    &VmTable::<T>::TABLE
}

impl<T: AddressSpaceOps> VmTable<T> {
    const TABLE: bindings::vm_operations_struct = bindings::vm_operations_struct {
        fault: Some(bindings::filemap_fault),
        map_pages: Some(bindings::filemap_map_pages),
        page_mkwrite: Some(Self::page_mkwrite),
        pfn_mkwrite: Some(Self::page_mkwrite),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by memory management for a fault in an area over a regular file of `T`.
    unsafe extern "C" fn page_mkwrite(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: By the function's requirements the area has a file; both outlive the fault.
        let (file, inode) = unsafe {
            let file = bindings::vm_fault_file(vmf);
            (file, INode::<T>::from_raw((*file).f_inode))
        };
        if inode.is_immutable() {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        let sb = inode.super_block().as_ptr();
        // SAFETY: The superblock is live. A freeze waits until `sb_end_pagefault`.
        unsafe { bindings::sb_start_pagefault(sb) };
        // SAFETY: The file is open. A failure leaves the times as they were; the store goes on.
        let _ = unsafe { bindings::file_update_time(file) };
        let ret = {
            let _lock = inode.mapping().invalidate_lock_shared();
            let make_writable = || {
                // SAFETY: By the function's requirements; the table's callbacks get inodes of `T`.
                unsafe {
                    bindings::iomap_page_mkwrite(
                        vmf,
                        OpsTable::<T, T::FaultMap>::get(),
                        core::ptr::null_mut(),
                    )
                }
            };
            let ret = make_writable();
            // The folio is not locked then, and may be tried again.
            if ret & bindings::vm_fault_reason_VM_FAULT_SIGBUS != 0 && T::make_space(inode) {
                make_writable()
            } else {
                ret
            }
        };
        // SAFETY: The matching start is above.
        unsafe { bindings::sb_end_pagefault(sb) };
        ret
    }
}
