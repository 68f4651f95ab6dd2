// SPDX-License-Identifier: GPL-2.0

//! Operations of symbolic links and special files.

use super::{attr, FileSystem, INode};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{ffi, prelude::*};

/// What a symbolic link can do.
pub trait SymlinkOps: FileSystem {
    /// The link's target, without a terminating NUL. May sleep.
    fn target(inode: &INode<Self>) -> Result<KVec<u8>>;
}

struct Ops<T>(PhantomData<T>);

/// The inode operations of symbolic links.
pub(super) fn inode_ops<T: SymlinkOps>() -> *const bindings::inode_operations {
    &Ops::<T>::INODE
}

/// The inode operations of devices, FIFOs and sockets.
pub(super) fn special_inode_ops<T: FileSystem>() -> *const bindings::inode_operations {
    &SpecialOps::<T>::INODE
}

struct SpecialOps<T>(PhantomData<T>);

impl<T: FileSystem> SpecialOps<T> {
    const INODE: bindings::inode_operations = attr::inode_ops::<T>();
}

impl<T: SymlinkOps> Ops<T> {
    const INODE: bindings::inode_operations = bindings::inode_operations {
        get_link: Some(Self::get_link),
        ..attr::link_inode_ops::<T>()
    };

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `get_link`: the arguments live for the call.
    unsafe extern "C" fn get_link(
        dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        done: *mut bindings::delayed_call,
    ) -> *const ffi::c_char {
        if dentry.is_null() {
            // RCU walk: reading may sleep, so ask for a walk with references.
            return Error::from_errno(-(bindings::ECHILD as i32)).to_ptr();
        }
        // SAFETY: The inode is live for the call.
        let inode = unsafe { INode::<T>::from_raw(inode) };
        match Self::terminated(inode) {
            Ok(target) => {
                let (ptr, _, _) = target.into_raw_parts();
                // SAFETY: The VFS calls `kfree_link` once it is done with the string.
                unsafe { bindings::set_delayed_call(done, Some(kfree_link), ptr.cast()) };
                ptr.cast()
            }
            Err(e) => e.to_ptr(),
        }
    }

    /// The target as a C string; cut at the first NUL, as a C reader would.
    fn terminated(inode: &INode<T>) -> Result<KVec<u8>> {
        let mut target = T::target(inode)?;
        target.push(0, GFP_KERNEL)?;
        Ok(target)
    }
}

/// Frees a target handed out by `get_link`.
///
/// # Safety
///
/// Called by the VFS alone, once, with what `get_link` gave it.
unsafe extern "C" fn kfree_link(ptr: *mut ffi::c_void) {
    // SAFETY: The pointer is the buffer of a `KVec<u8>`, which `kmalloc` made; null is allowed.
    unsafe { bindings::kfree(ptr) };
}
