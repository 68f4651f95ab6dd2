// SPDX-License-Identifier: GPL-2.0

//! Extended attributes.
//!
//! C header: [`include/linux/xattr.h`](srctree/include/linux/xattr.h)

use super::{from_result, Dentry, FileSystem, INode};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{self, null, null_mut},
    slice,
};
use kernel::{error::to_result, ffi, prelude::*};

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

impl XattrSpace {
    /// The one whose handler has these flags.
    fn from_flags(flags: ffi::c_int) -> Self {
        const USER: ffi::c_int = XattrSpace::User as ffi::c_int;
        const TRUSTED: ffi::c_int = XattrSpace::Trusted as ffi::c_int;
        match flags {
            USER => Self::User,
            TRUSTED => Self::Trusted,
            _ => Self::Security,
        }
    }
}

/// What has to be true of an attribute that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrFlags {
    /// It must not be there, else `EEXIST` (`XATTR_CREATE`).
    pub create: bool,
    /// It must be there, else `ENODATA` (`XATTR_REPLACE`).
    pub replace: bool,
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
    const USER: bindings::xattr_handler = Self::handler(c"user.", XattrSpace::User);
    const TRUSTED: bindings::xattr_handler = Self::handler(c"trusted.", XattrSpace::Trusted);
    const SECURITY: bindings::xattr_handler = Self::handler(c"security.", XattrSpace::Security);

    const ALL: &'static [*const bindings::xattr_handler; 6] = &[
        &Self::USER,
        &Self::TRUSTED,
        &Self::SECURITY,
        &raw const bindings::nop_posix_acl_access,
        &raw const bindings::nop_posix_acl_default,
        null(),
    ];

    /// The handler of a namespace, which it keeps in its `flags`.
    const fn handler(prefix: &'static CStr, space: XattrSpace) -> bindings::xattr_handler {
        bindings::xattr_handler {
            prefix: prefix.to_bytes_with_nul().as_ptr().cast(),
            flags: space as ffi::c_int,
            get: Some(Self::get),
            set: Some(Self::set),
            ..pin_init::zeroed()
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as what one of these handlers gets values with: the arguments live
    /// for the call.
    unsafe extern "C" fn get(
        handler: *const bindings::xattr_handler,
        _dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        name: *const ffi::c_char,
        buffer: *mut ffi::c_void,
        size: usize,
    ) -> ffi::c_int {
        // SAFETY: The handler is one of these, and static.
        let space = XattrSpace::from_flags(unsafe { (*handler).flags });
        // SAFETY: What the VFS gives is what is asked for.
        unsafe { get::<T>(space, inode, name, buffer, size) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as what one of these handlers sets values with: the arguments live
    /// for the call.
    unsafe extern "C" fn set(
        handler: *const bindings::xattr_handler,
        _idmap: *mut bindings::mnt_idmap,
        _dentry: *mut bindings::dentry,
        inode: *mut bindings::inode,
        name: *const ffi::c_char,
        value: *const ffi::c_void,
        size: usize,
        flags: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: The handler is one of these, and static.
        let space = XattrSpace::from_flags(unsafe { (*handler).flags });
        // SAFETY: What the VFS gives is what is asked for.
        unsafe { set::<T>(space, inode, name, value, size, flags) }
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

/// Sets a value, or removes it if `value` is null.
///
/// # Safety
///
/// The inode is live, one of `T`'s; `name` is NUL-terminated; `value` has `size` bytes, or is null.
unsafe fn set<T: FileSystem>(
    space: XattrSpace,
    inode: *mut bindings::inode,
    name: *const ffi::c_char,
    value: *const ffi::c_void,
    size: usize,
    flags: ffi::c_int,
) -> ffi::c_int {
    // SAFETY: By the caller's promise.
    let (inode, name) = unsafe { (INode::<T>::from_raw(inode), CStr::from_char_ptr(name)) };
    let value = if value.is_null() {
        None
    } else {
        // SAFETY: By the caller's promise; the VFS has the value in memory of its own, which
        // nobody else changes.
        Some(unsafe { slice::from_raw_parts(value.cast::<u8>(), size) })
    };
    let flags = XattrFlags {
        create: flags & bindings::XATTR_CREATE as ffi::c_int != 0,
        replace: flags & bindings::XATTR_REPLACE as ffi::c_int != 0,
    };
    from_result(|| T::set_xattr(inode, space, name.to_bytes(), value, flags))
}

/// Takes the attributes of a new inode, as name (without `security.`) and value.
type Store<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result;

impl<T: FileSystem> INode<T> {
    /// Has the security modules label this inode, which is being made in `dir` under the name of
    /// `dentry`, if it has one: `store` gets the attributes of `security.` that they want it to
    /// have. Sleeps.
    ///
    /// # Errors
    ///
    /// What `store` or a module says: the inode must not come into being then.
    pub fn init_security(
        &self,
        dir: &INode<T>,
        dentry: Option<&Dentry<T>>,
        mut store: Store<'_>,
    ) -> Result {
        let name = dentry.map_or(core::ptr::null(), |dentry| {
            // SAFETY: The dentry is live, and its name does not change.
            unsafe { &raw const (*dentry.as_ptr()).__bindgen_anon_1.d_name }
        });
        // SAFETY: All are live; `store_all` gets back what it is given here, within the call.
        to_result(unsafe {
            bindings::security_inode_init_security(
                self.as_ptr(),
                dir.as_ptr(),
                name,
                Some(store_all),
                (&raw mut store).cast(),
            )
        })
    }
}

/// Stores what security modules want a new inode to have.
///
/// # Safety
///
/// Called by `security_inode_init_security` alone: `attributes` ends with one that has no name, and
/// `store` is the [`Store`] that was given to it.
unsafe extern "C" fn store_all(
    _inode: *mut bindings::inode,
    attributes: *const bindings::xattr,
    store: *mut ffi::c_void,
) -> ffi::c_int {
    // SAFETY: By the caller's promise; nobody else uses it during the call.
    let store = unsafe { &mut *store.cast::<Store<'_>>() };
    let mut next = attributes;
    from_result(|| loop {
        // SAFETY: The list goes on until an attribute without a name, which is looked at last.
        let (name, value, len) = unsafe { ((*next).name, (*next).value, (*next).value_len) };
        if name.is_null() {
            return Ok(());
        }
        // SAFETY: A name is NUL-terminated.
        let name = unsafe { CStr::from_char_ptr(name) };
        let value = if value.is_null() {
            &[]
        } else {
            // SAFETY: The value has `len` bytes.
            unsafe { slice::from_raw_parts(value.cast_const().cast::<u8>(), len) }
        };
        store(name.to_bytes(), value)?;
        // SAFETY: This one had a name, so there is another.
        next = unsafe { next.add(1) };
    })
}
