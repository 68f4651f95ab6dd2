// SPDX-License-Identifier: GPL-2.0

//! POSIX access control lists.
//!
//! C header: [`include/linux/posix_acl.h`](srctree/include/linux/posix_acl.h)

use super::{Dentry, FileSystem, INode, IdMap};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::{null_mut, NonNull},
    slice,
};
use kernel::{
    error::{from_err_ptr, to_result},
    ffi,
    prelude::*,
};

/// An access control list.
///
/// # Invariants
///
/// Owns one reference.
pub struct PosixAcl(NonNull<bindings::posix_acl>);

impl PosixAcl {
    /// Makes a list from the value of a `system.posix_acl_*` attribute, whose ids are those of the
    /// initial user namespace.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EOPNOTSUPP` for a malformed value.
    pub fn from_xattr(value: &[u8]) -> Result<Option<Self>> {
        // SAFETY: The value has `len` bytes; the namespace is static.
        let ptr = from_err_ptr(unsafe {
            bindings::posix_acl_from_xattr(
                &raw mut bindings::init_user_ns,
                value.as_ptr().cast(),
                value.len(),
            )
        })?;
        Ok(NonNull::new(ptr).map(Self))
    }

    /// Takes a reference to a C list; `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// `acl` is null or points to a live list.
    pub(crate) unsafe fn get(acl: *mut bindings::posix_acl) -> Option<Self> {
        // SAFETY: By the caller's promise.
        // INVARIANT: The reference just taken is ours.
        NonNull::new(unsafe { bindings::posix_acl_dup(acl) }).map(Self)
    }

    /// The list as the value of a `system.posix_acl_*` attribute, with ids as the initial user
    /// namespace has them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn to_xattr(&self) -> Result<KVec<u8>> {
        let mut len = 0;
        // SAFETY: The list is live, the namespace static; the callee allocates with `kmalloc` and
        // says how much.
        let bytes = NonNull::new(unsafe {
            bindings::posix_acl_to_xattr(
                &raw mut bindings::init_user_ns,
                self.0.as_ptr(),
                &mut len,
                bindings::GFP_KERNEL,
            )
        })
        .ok_or(ENOMEM)?;
        let mut value = KVec::new();
        // SAFETY: The callee has filled `len` bytes, which are ours.
        let form = unsafe { slice::from_raw_parts(bytes.as_ptr().cast_const().cast(), len) };
        let copied = value.extend_from_slice(form, GFP_KERNEL);
        // SAFETY: Allocated by the callee for us, and not used any more.
        unsafe { bindings::kfree(bytes.as_ptr()) };
        copied?;
        Ok(value)
    }

    /// What an inode with this access ACL gets for a mode, and the list to be stored: `None` if the
    /// mode says it all. Set-group-ID goes unless the caller may keep it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that is no access ACL.
    pub fn update_mode<T: FileSystem>(
        self,
        idmap: &IdMap,
        inode: &INode<T>,
    ) -> Result<(u16, Option<Self>)> {
        let mut mode = 0;
        let mut acl = self.0.as_ptr();
        // SAFETY: All are live. The callee clears `acl` if the list is not needed, and leaves its
        // reference to us.
        to_result(unsafe {
            bindings::posix_acl_update_mode(idmap.as_ptr(), inode.as_ptr(), &mut mode, &mut acl)
        })?;
        Ok((mode, (!acl.is_null()).then_some(self)))
    }

    /// The C list; the reference goes to the caller.
    pub(crate) fn into_raw(self) -> *mut bindings::posix_acl {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for PosixAcl {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        unsafe { bindings::posix_acl_release(self.0.as_ptr()) };
    }
}

/// The C number of an inode's default ACL, or of its access ACL.
pub(super) fn acl_type(default: bool) -> ffi::c_int {
    if default {
        bindings::ACL_TYPE_DEFAULT as ffi::c_int
    } else {
        bindings::ACL_TYPE_ACCESS as ffi::c_int
    }
}

/// What a new file gets from its directory.
pub struct Inherited {
    /// Its type and permissions. The umask has been applied where that is the filesystem's to do,
    /// or a default ACL in its place.
    pub mode: u16,
    /// The access ACL to be stored with it.
    pub access: Option<PosixAcl>,
    /// The default ACL to be stored with it, which is a directory then.
    pub default: Option<PosixAcl>,
}

impl<T: FileSystem> INode<T> {
    /// What a file that is made in this directory, with type and permissions `mode`, gets. May
    /// sleep: it asks [`FileSystem::get_acl`].
    ///
    /// Where the volume obeys ACLs, the VFS leaves the umask to the filesystem, as a default ACL
    /// takes its place.
    pub fn inherited_mode(&self, mode: u16) -> Result<Inherited> {
        let mut mode = mode;
        let (mut default, mut access) = (null_mut(), null_mut());
        // SAFETY: The directory is live, and the three results go to variables of ours.
        to_result(unsafe {
            bindings::posix_acl_create(self.as_ptr(), &mut mode, &mut default, &mut access)
        })?;
        // INVARIANT: The callee gives us a reference to each that is not null.
        Ok(Inherited {
            mode,
            access: NonNull::new(access).map(PosixAcl),
            default: NonNull::new(default).map(PosixAcl),
        })
    }

    /// Tells the VFS which ACL the inode has from now on. The caller holds the inode's `i_rwsem`,
    /// or the inode is new.
    pub fn cache_acl(&self, default: bool, acl: Option<&PosixAcl>) {
        let acl = acl.map_or(null_mut(), |acl| acl.0.as_ptr());
        // SAFETY: Both are live; the callee takes a reference of its own.
        unsafe { bindings::set_cached_acl(self.as_ptr(), acl_type(default), acl) };
    }
}

impl<T: FileSystem> Dentry<T> {
    /// Brings the access ACL of the name's inode, if it has one, in line with its mode, which has
    /// changed: by [`FileSystem::set_acl`]. The caller holds the inode's `i_rwsem`. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::get_acl`] and [`FileSystem::set_acl`]; `EINVAL` for a name without an
    /// inode.
    pub fn chmod_acl(&self, idmap: &IdMap) -> Result {
        let mode = self.inode().ok_or(EINVAL)?.mode();
        // SAFETY: Both are live, and the dentry has an inode.
        to_result(unsafe { bindings::posix_acl_chmod(idmap.as_ptr(), self.as_ptr(), mode) })
    }
}
