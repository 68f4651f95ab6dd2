// SPDX-License-Identifier: GPL-2.0

//! Attributes: `stat`, `chmod` and its kin, `chattr`, and the inode operations that every kind of
//! inode has.

use super::{acl, from_result, inode::Timespec, xattr, Dentry, FileSystem, INode, PosixAcl};
use crate::bindings;
use core::ptr::{null_mut, NonNull};
use kernel::{error::to_result, ffi, prelude::*, types::Opaque};

/// How a mount maps user and group ids.
#[repr(transparent)]
pub struct IdMap(Opaque<bindings::mnt_idmap>);

impl IdMap {
    /// Borrows a C idmap.
    ///
    /// # Safety
    ///
    /// `ptr` points to an idmap that is live for `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::mnt_idmap) -> &'a Self {
        // SAFETY: Transparent; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C idmap.
    pub(crate) fn as_ptr(&self) -> *mut bindings::mnt_idmap {
        self.0.get()
    }
}

/// A change of attributes that was asked for.
pub struct Attr(NonNull<bindings::iattr>);

impl Attr {
    fn valid(&self) -> u32 {
        // SAFETY: The VFS gives the structure for the call.
        unsafe { self.0.as_ref().ia_valid }
    }

    /// The new size in bytes, if the size is to change.
    pub fn size(&self) -> Option<u64> {
        // SAFETY: As in `valid`.
        let size = unsafe { self.0.as_ref().ia_size };
        (self.valid() & bindings::ATTR_SIZE != 0).then(|| u64::try_from(size).unwrap_or(0))
    }

    /// Whether the mode changes; an ACL has to follow ([`Dentry::chmod_acl`]).
    pub fn changes_mode(&self) -> bool {
        self.valid() & bindings::ATTR_MODE != 0
    }

    /// Whether the size changes because the file is opened with `O_TRUNC`.
    pub fn is_open_truncate(&self) -> bool {
        self.valid() & bindings::ATTR_OPEN != 0
    }

    /// Checks that the caller may make this change, as POSIX has it.
    pub fn prepare<T: FileSystem>(&mut self, idmap: &IdMap, dentry: &Dentry<T>) -> Result {
        // SAFETY: All are live for the call.
        to_result(unsafe {
            bindings::setattr_prepare(idmap.as_ptr(), dentry.as_ptr(), self.0.as_ptr())
        })
    }

    /// Sets owner, group, mode and times of the inode in memory. The size is the filesystem's to
    /// set. The caller holds the inode's `i_rwsem`.
    pub fn copy_to<T: FileSystem>(&self, idmap: &IdMap, inode: &INode<T>) {
        // SAFETY: All are live for the call.
        unsafe { bindings::setattr_copy(idmap.as_ptr(), inode.as_ptr(), self.0.as_ptr()) };
    }
}

/// What `stat` returns.
pub struct KStat(NonNull<bindings::kstat>);

/// File attributes that `statx` names.
#[derive(Clone, Copy, Default)]
pub struct StatAttributes {
    /// `STATX_ATTR_APPEND`
    pub append: bool,
    /// `STATX_ATTR_COMPRESSED`
    pub compressed: bool,
    /// `STATX_ATTR_ENCRYPTED`
    pub encrypted: bool,
    /// `STATX_ATTR_IMMUTABLE`
    pub immutable: bool,
    /// `STATX_ATTR_NODUMP`
    pub nodump: bool,
}

impl KStat {
    /// Sets the time of birth.
    pub fn set_btime(&mut self, time: Timespec) {
        // SAFETY: The VFS gives the structure for the call.
        let st = unsafe { self.0.as_mut() };
        st.btime.tv_sec = time.sec;
        st.btime.tv_nsec = time.nsec as isize;
        st.result_mask |= bindings::STATX_BTIME;
    }

    /// Sets the attribute bits; all of these are known.
    pub fn set_attributes(&mut self, a: StatAttributes) {
        // SAFETY: As above.
        let st = unsafe { self.0.as_mut() };
        for (on, bit) in [
            (a.append, bindings::STATX_ATTR_APPEND),
            (a.compressed, bindings::STATX_ATTR_COMPRESSED),
            (a.encrypted, bindings::STATX_ATTR_ENCRYPTED),
            (a.immutable, bindings::STATX_ATTR_IMMUTABLE),
            (a.nodump, bindings::STATX_ATTR_NODUMP),
        ] {
            st.attributes_mask |= u64::from(bit);
            if on {
                st.attributes |= u64::from(bit);
            }
        }
    }

    /// Adds blocks that will be allocated later, in 512-byte sectors.
    pub fn add_sectors(&mut self, sectors: u64) {
        // SAFETY: As above.
        let st = unsafe { self.0.as_mut() };
        st.blocks = st.blocks.saturating_add(sectors);
    }
}

/// The attributes of `FS_IOC_GETFLAGS` and `FS_IOC_FSGETXATTR`.
#[derive(Clone, Copy, Default)]
pub struct FileAttr {
    /// The `FS_*_FL` flags.
    pub flags: u32,
    /// The project number.
    pub project: u32,
}

/// The inode operations that do not depend on the kind of inode. A symbolic link has no ACL.
pub(super) const fn inode_ops<T: FileSystem>() -> bindings::inode_operations {
    bindings::inode_operations {
        set_acl: Some(set_acl::<T>),
        ..link_inode_ops::<T>()
    }
}

/// The inode operations of symbolic links, less [`super::symlink`]'s own.
pub(super) const fn link_inode_ops<T: FileSystem>() -> bindings::inode_operations {
    bindings::inode_operations {
        getattr: Some(getattr::<T>),
        setattr: Some(setattr::<T>),
        get_inode_acl: Some(get_inode_acl::<T>),
        listxattr: Some(xattr::list::<T>),
        fileattr_get: Some(fileattr_get::<T>),
        fileattr_set: Some(fileattr_set::<T>),
        ..pin_init::zeroed()
    }
}

/// # Safety
///
/// Called by the VFS alone, as its operation `getattr`: the arguments live for the call.
unsafe extern "C" fn getattr<T: FileSystem>(
    idmap: *mut bindings::mnt_idmap,
    path: *const bindings::path,
    stat: *mut bindings::kstat,
    mask: u32,
    _query: ffi::c_uint,
) -> ffi::c_int {
    // SAFETY: All are live for the call.
    unsafe {
        let inode = (*(*path).dentry).d_inode;
        bindings::generic_fillattr(idmap, mask, inode, stat);
        T::getattr(
            INode::from_raw(inode),
            &mut KStat(NonNull::new_unchecked(stat)),
        );
    }
    0
}

/// # Safety
///
/// Called by the VFS alone, as its operation `setattr`: the arguments live for the call.
unsafe extern "C" fn setattr<T: FileSystem>(
    idmap: *mut bindings::mnt_idmap,
    dentry: *mut bindings::dentry,
    attr: *mut bindings::iattr,
) -> ffi::c_int {
    // SAFETY: All are live for the call; the inode's `i_rwsem` is held.
    let (idmap, dentry, inode, mut attr) = unsafe {
        (
            IdMap::from_raw(idmap),
            Dentry::<T>::from_raw(dentry),
            INode::<T>::from_raw((*dentry).d_inode),
            Attr(NonNull::new_unchecked(attr)),
        )
    };
    from_result(|| T::setattr(inode, idmap, dentry, &mut attr))
}

/// # Safety
///
/// Called by the VFS alone, as its operation `get_inode_acl`: the arguments live for the call.
unsafe extern "C" fn get_inode_acl<T: FileSystem>(
    inode: *mut bindings::inode,
    kind: ffi::c_int,
    rcu: bool,
) -> *mut bindings::posix_acl {
    if rcu {
        return Error::from_errno(-(bindings::ECHILD as i32)).to_ptr();
    }
    // SAFETY: The inode is live for the call.
    let inode = unsafe { INode::<T>::from_raw(inode) };
    match T::get_acl(inode, kind == acl::acl_type(true)) {
        Ok(Some(acl)) => acl.into_raw(),
        Ok(None) => null_mut(),
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// Called by the VFS alone, as its operation `set_acl`: the arguments live for the call.
unsafe extern "C" fn set_acl<T: FileSystem>(
    idmap: *mut bindings::mnt_idmap,
    dentry: *mut bindings::dentry,
    list: *mut bindings::posix_acl,
    kind: ffi::c_int,
) -> ffi::c_int {
    // SAFETY: All are live for the call; the inode's `i_rwsem` is held.
    let (idmap, inode, list) = unsafe {
        (
            IdMap::from_raw(idmap),
            INode::<T>::from_raw((*dentry).d_inode),
            PosixAcl::get(list),
        )
    };
    from_result(|| T::set_acl(inode, idmap, list, kind == acl::acl_type(true)))
}

/// # Safety
///
/// Called by the VFS alone, as its operation `fileattr_get`: the arguments live for the call.
unsafe extern "C" fn fileattr_get<T: FileSystem>(
    dentry: *mut bindings::dentry,
    fa: *mut bindings::file_kattr,
) -> ffi::c_int {
    // SAFETY: All are live for the call.
    unsafe {
        let attr = T::fileattr_get(INode::<T>::from_raw((*dentry).d_inode));
        bindings::fileattr_fill_flags(fa, attr.flags);
        (*fa).fsx_projid = attr.project;
    }
    0
}

/// # Safety
///
/// Called by the VFS alone, as its operation `fileattr_set`: the arguments live for the call.
unsafe extern "C" fn fileattr_set<T: FileSystem>(
    _idmap: *mut bindings::mnt_idmap,
    dentry: *mut bindings::dentry,
    fa: *mut bindings::file_kattr,
) -> ffi::c_int {
    // SAFETY: All are live for the call; the VFS holds the inode's `i_rwsem` and has checked that
    // the caller owns the file.
    let (inode, attr) = unsafe {
        (
            INode::<T>::from_raw((*dentry).d_inode),
            FileAttr {
                flags: (*fa).flags,
                project: (*fa).fsx_projid,
            },
        )
    };
    from_result(|| T::fileattr_set(inode, attr))
}
