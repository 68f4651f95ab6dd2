// SPDX-License-Identifier: GPL-2.0

//! Directory entries in the cache.
//!
//! C header: [`include/linux/dcache.h`](srctree/include/linux/dcache.h)

use super::{FileSystem, INode, NewINode};
use crate::bindings;
use core::{marker::PhantomData, slice};
use kernel::{sync::aref::ARef, types::Opaque};

/// A name in a directory, as the VFS hands it to an operation.
///
/// While an operation runs, the directory's `i_rwsem` keeps the name from changing.
#[repr(transparent)]
pub struct Dentry<T: FileSystem>(Opaque<bindings::dentry>, PhantomData<T>);

impl<T: FileSystem> Dentry<T> {
    /// Borrows a C dentry.
    ///
    /// # Safety
    ///
    /// `ptr` points to a dentry of `T` that is live for `'a`, whose name does not change.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::dentry) -> &'a Self {
        // SAFETY: Transparent; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C dentry.
    pub(crate) fn as_ptr(&self) -> *mut bindings::dentry {
        self.0.get()
    }

    /// The name, without its directory.
    pub fn name(&self) -> &[u8] {
        // SAFETY: The name does not change while the operation runs, and it has `len` bytes.
        unsafe {
            let name = &raw const (*self.as_ptr()).__bindgen_anon_1.d_name;
            slice::from_raw_parts((*name).name, bindings::qstr_len(name) as usize)
        }
    }

    /// The inode that the name stands for, if it is known to stand for one.
    pub fn inode(&self) -> Option<&INode<T>> {
        // SAFETY: The dentry is live, and its inode with it.
        unsafe {
            let inode = (*self.as_ptr()).d_inode;
            (!inode.is_null()).then(|| INode::from_raw(inode))
        }
    }

    /// Ties a new inode to this name and lets those who wait for the inode go.
    pub fn instantiate(&self, inode: NewINode<T>) {
        // SAFETY: The dentry is negative and its directory locked: we are in a create operation.
        // The inode's reference goes to the dentry; `I_NEW` is cleared.
        unsafe { bindings::d_instantiate_new(self.as_ptr(), inode.into_raw()) };
    }

    /// Ties an inode that has other names, or had none, to this name.
    pub fn instantiate_link(&self, inode: ARef<INode<T>>) {
        // SAFETY: The dentry is negative and its directory locked: we are in a link operation. The
        // inode's reference goes to the dentry.
        unsafe { bindings::d_instantiate(self.as_ptr(), ARef::into_raw(inode).as_ptr().cast()) };
    }
}
