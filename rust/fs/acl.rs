// SPDX-License-Identifier: GPL-2.0

//! POSIX access control lists.
//!
//! C header: [`include/linux/posix_acl.h`](srctree/include/linux/posix_acl.h)

use crate::bindings;
use core::{mem::ManuallyDrop, ptr::NonNull};
use kernel::{error::from_err_ptr, prelude::*};

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
