// SPDX-License-Identifier: GPL-2.0

//! Extended attributes, to be read.
//!
//! C header: [`include/linux/xattr.h`](srctree/include/linux/xattr.h)

use super::{FileSystem, INode};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{self, null, null_mut},
    slice,
};
use kernel::{ffi, prelude::*};

/// Whose attributes they are: the part of a name up to the first dot. ACLs are not among them; see
/// [`FileSystem::get_acl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrSpace {
    /// `user.`: anybody's who may read or write the file.
    User,
    /// `trusted.`: the administrator's.
    Trusted,
    /// `security.`: security modules', and file capabilities.
    Security,
}

/// Takes the names of an inode's attributes to whoever lists them.
pub struct XattrNames<'a> {
    /// Where they go, each with a NUL behind it; null to learn how much room they need.
    to: *mut u8,
    room: usize,
    used: usize,
    _to: PhantomData<&'a mut [u8]>,
}

impl XattrNames<'_> {
    /// Adds a name, given in two parts.
    ///
    /// # Errors
    ///
    /// `ERANGE` if there is no room for it.
    pub fn add(&mut self, prefix: &[u8], name: &[u8]) -> Result {
        for part in [prefix, name, b"\0"] {
            let end = self.used.checked_add(part.len()).ok_or(ERANGE)?;
            if !self.to.is_null() {
                if end > self.room {
                    return Err(ERANGE);
                }
                // SAFETY: `to` has `room` bytes, and the part fits behind the `used` ones. What a
                // filesystem holds does not overlap it.
                unsafe {
                    ptr::copy_nonoverlapping(part.as_ptr(), self.to.add(self.used), part.len())
                };
            }
            self.used = end;
        }
        Ok(())
    }
}

/// Lists names: the inode operation.
///
/// # Safety
///
/// Called by the VFS alone, as its operation `listxattr`: the arguments live for the call, and
/// `buffer` has `size` bytes.
pub(super) unsafe extern "C" fn list<T: FileSystem>(
    dentry: *mut bindings::dentry,
    buffer: *mut ffi::c_char,
    size: usize,
) -> isize {
    // SAFETY: The dentry is live for the call, and so is its inode.
    let inode = unsafe { INode::<T>::from_raw((*dentry).d_inode) };
    let mut names = XattrNames {
        to: if size == 0 { null_mut() } else { buffer.cast() },
        room: size,
        used: 0,
        _to: PhantomData,
    };
    match T::list_xattrs(inode, &mut names) {
        Ok(()) => isize::try_from(names.used).unwrap_or(isize::MAX),
        Err(e) => e.to_errno() as isize,
    }
}

/// The handlers of a volume, by namespace, ended by null. The two of the ACLs say that there are
/// such names; the VFS reads ACLs in another way.
pub(super) fn handlers<T: FileSystem>() -> *const *const bindings::xattr_handler {
    (&raw const *Handlers::<T>::ALL).cast()
}

struct Handlers<T>(PhantomData<T>);

impl<T: FileSystem> Handlers<T> {
    const USER: bindings::xattr_handler = bindings::xattr_handler {
        prefix: c"user.".to_bytes_with_nul().as_ptr().cast(),
        get: Some(Self::get_user),
        ..pin_init::zeroed()
    };

    const TRUSTED: bindings::xattr_handler = bindings::xattr_handler {
        prefix: c"trusted.".to_bytes_with_nul().as_ptr().cast(),
        get: Some(Self::get_trusted),
        ..pin_init::zeroed()
    };

    const SECURITY: bindings::xattr_handler = bindings::xattr_handler {
        prefix: c"security.".to_bytes_with_nul().as_ptr().cast(),
        get: Some(Self::get_security),
        set: Some(Self::set_security),
        ..pin_init::zeroed()
    };

    const ALL: &'static [*const bindings::xattr_handler; 6] = &[
        &Self::USER,
        &Self::TRUSTED,
        &Self::SECURITY,
        &raw const bindings::nop_posix_acl_access,
        &raw const bindings::nop_posix_acl_default,
        null(),
    ];

    /// # Safety
    ///
    /// Called by the VFS alone, as the handler of `user.`: the arguments live for the call.
    unsafe extern "C" fn get_user(
        _handler: *const bindings::xattr_handler,
        _dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        name: *const ffi::c_char,
        buffer: *mut ffi::c_void,
        size: usize,
    ) -> ffi::c_int {
        // SAFETY: What the VFS gives is what is asked for.
        unsafe { get::<T>(XattrSpace::User, inode, name, buffer, size) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as the handler of `trusted.`: the arguments live for the call.
    unsafe extern "C" fn get_trusted(
        _handler: *const bindings::xattr_handler,
        _dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        name: *const ffi::c_char,
        buffer: *mut ffi::c_void,
        size: usize,
    ) -> ffi::c_int {
        // SAFETY: What the VFS gives is what is asked for.
        unsafe { get::<T>(XattrSpace::Trusted, inode, name, buffer, size) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as the handler of `security.`: the arguments live for the call.
    unsafe extern "C" fn get_security(
        _handler: *const bindings::xattr_handler,
        _dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        name: *const ffi::c_char,
        buffer: *mut ffi::c_void,
        size: usize,
    ) -> ffi::c_int {
        // SAFETY: What the VFS gives is what is asked for.
        unsafe { get::<T>(XattrSpace::Security, inode, name, buffer, size) }
    }

    /// Attributes cannot be changed. The VFS takes `EOPNOTSUPP` for leave to write to a file that
    /// keeps its capabilities, which whoever may write it could then use: that is refused in
    /// another way.
    ///
    /// # Safety
    ///
    /// Called by the VFS alone, as the handler of `security.`: the arguments live for the call.
    unsafe extern "C" fn set_security(
        _handler: *const bindings::xattr_handler,
        _idmap: *mut bindings::mnt_idmap,
        _dentry: *mut bindings::dentry,
        _inode: *mut bindings::inode,
        name: *const ffi::c_char,
        value: *const ffi::c_void,
        _size: usize,
        _flags: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: The VFS gives a NUL-terminated name.
        let name = unsafe { CStr::from_char_ptr(name) };
        if value.is_null() && name.to_bytes() == b"capability" {
            EPERM.to_errno()
        } else {
            EOPNOTSUPP.to_errno()
        }
    }
}

/// Copies a value out, or tells its length if there is no room at all.
///
/// # Safety
///
/// The inode is live, one of `T`'s; `name` is NUL-terminated; `buffer` has `size` bytes, or is null.
unsafe fn get<T: FileSystem>(
    space: XattrSpace,
    inode: *mut bindings::inode,
    name: *const ffi::c_char,
    buffer: *mut ffi::c_void,
    size: usize,
) -> ffi::c_int {
    // SAFETY: By the caller's promise.
    let (inode, name) = unsafe { (INode::<T>::from_raw(inode), CStr::from_char_ptr(name)) };
    let value = match T::get_xattr(inode, space, name.to_bytes()) {
        Ok(Some(value)) => value,
        Ok(None) => return ENODATA.to_errno(),
        Err(e) => return e.to_errno(),
    };
    if size != 0 && !buffer.is_null() {
        // SAFETY: By the caller's promise; the memory was initialised by whoever allocated it, as
        // far as the compiler is concerned: it comes from C.
        let to = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        match to.get_mut(..value.len()) {
            Some(to) => to.copy_from_slice(&value),
            None => return ERANGE.to_errno(),
        }
    }
    ffi::c_int::try_from(value.len()).unwrap_or(ERANGE.to_errno())
}
