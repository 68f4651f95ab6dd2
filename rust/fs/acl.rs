// SPDX-License-Identifier: GPL-2.0

//! POSIX access control lists.
//!
//! C header: [`include/linux/posix_acl.h`](srctree/include/linux/posix_acl.h)

use super::{FileSystem, INode};
use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::{null_mut, NonNull},
};
use kernel::{
    error::{from_err_ptr, to_result},
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

/// What a new file gets from the default ACL of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// There is none: the file's mode, with the umask applied where that is the filesystem's to do.
    Mode(u16),
    /// An ACL, which would have to be stored with the file.
    Acl,
}

impl<T: FileSystem> INode<T> {
    /// What a file that is made in this directory, with type and permissions `mode`, gets. May
    /// sleep: it asks [`FileSystem::get_acl`].
    ///
    /// Where the volume obeys ACLs, the VFS leaves the umask to the filesystem, as a default ACL
    /// takes its place.
    pub fn inherited_mode(&self, mode: u16) -> Result<Inherited> {
        let mut masked = mode;
        let (mut default, mut access) = (null_mut(), null_mut());
        // SAFETY: The directory is live, and the three results go to variables of ours.
        to_result(unsafe {
            bindings::posix_acl_create(self.as_ptr(), &mut masked, &mut default, &mut access)
        })?;
        // INVARIANT: The callee gives us a reference to each that is not null.
        let default = NonNull::new(default).map(PosixAcl);
        let access = NonNull::new(access).map(PosixAcl);
        if default.is_some() || access.is_some() {
            return Ok(Inherited::Acl);
        }
        Ok(Inherited::Mode(masked))
    }
}
