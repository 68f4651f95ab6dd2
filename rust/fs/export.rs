// SPDX-License-Identifier: GPL-2.0

//! File handles: how a file is found again without its name, by NFS and `open_by_handle_at`.
//!
//! A handle is an inode's number and generation, and if it is to tell the file's place those of
//! its directory (`FILEID_INO32_GEN`, `FILEID_INO32_GEN_PARENT`).
//!
//! C header: [`include/linux/exportfs.h`](srctree/include/linux/exportfs.h)

use super::{from_result, DirectoryOps, INode, NewSuperBlock, SuperBlock};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{ffi, prelude::*, sync::aref::ARef};

/// A filesystem whose files have handles. Numbers of inodes have 32 bits.
///
/// Handles are kept by others, for any time, and can be made up: nothing in one is to be trusted.
pub trait ExportOps: DirectoryOps {
    /// The inode of a handle. A `generation` of 0 stands for any: of the directory in a handle it
    /// may not be known. No lock is held.
    ///
    /// # Errors
    ///
    /// `ESTALE` if there is no such inode, or it is another by now.
    fn inode_of_handle(
        sb: &SuperBlock<Self>,
        ino: u64,
        generation: u32,
    ) -> Result<ARef<INode<Self>>>;

    /// The directory that `child` is in, which is a directory itself and may have been removed. Its
    /// `i_rwsem` is held for reading.
    fn parent(child: &INode<Self>) -> Result<ARef<INode<Self>>>;

    /// Brings the inode's metadata to stable storage.
    fn commit_metadata(inode: &INode<Self>) -> Result;
}

impl<T: ExportOps> NewSuperBlock<T> {
    /// Gives the volume's files handles.
    pub fn enable_export(&self) {
        // SAFETY: The superblock is ours until the mount is complete, and nobody asks for handles
        // before that. The table is a constant.
        unsafe { (*self.as_ptr()).s_export_op = ops::<T>().cast() };
    }
}

struct Ops<T>(PhantomData<T>);

/// The operations of handles of `T`.
fn ops<T: ExportOps>() -> *const bindings::export_operations {
    &Ops::<T>::TABLE
}

/// An inode's reference as C takes it, or an error.
fn into_raw<T: ExportOps>(inode: Result<ARef<INode<T>>>) -> *mut bindings::inode {
    match inode {
        Ok(inode) => ARef::into_raw(inode).as_ptr().cast(),
        Err(e) => e.to_ptr(),
    }
}

impl<T: ExportOps> Ops<T> {
    const TABLE: bindings::export_operations = bindings::export_operations {
        encode_fh: Some(bindings::generic_encode_ino32_fh),
        fh_to_dentry: Some(Self::fh_to_dentry),
        fh_to_parent: Some(Self::fh_to_parent),
        get_parent: Some(Self::get_parent),
        commit_metadata: Some(Self::commit_metadata),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called for a volume of `T` that is mounted.
    unsafe extern "C" fn get_inode(
        sb: *mut bindings::super_block,
        ino: u64,
        generation: u32,
    ) -> *mut bindings::inode {
        // SAFETY: By the function's requirements.
        let sb = unsafe { SuperBlock::<T>::from_raw(sb) };
        into_raw(T::inode_of_handle(sb, ino, generation))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `fh_to_dentry`: the arguments live for the call.
    unsafe extern "C" fn fh_to_dentry(
        sb: *mut bindings::super_block,
        fid: *mut bindings::fid,
        len: ffi::c_int,
        kind: ffi::c_int,
    ) -> *mut bindings::dentry {
        // SAFETY: All are live for the call. The callee asks for inodes of this volume alone.
        unsafe { bindings::generic_fh_to_dentry(sb, fid, len, kind, Some(Self::get_inode)) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `fh_to_parent`: the arguments live for the call.
    unsafe extern "C" fn fh_to_parent(
        sb: *mut bindings::super_block,
        fid: *mut bindings::fid,
        len: ffi::c_int,
        kind: ffi::c_int,
    ) -> *mut bindings::dentry {
        // SAFETY: As in `fh_to_dentry`.
        unsafe { bindings::generic_fh_to_parent(sb, fid, len, kind, Some(Self::get_inode)) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `get_parent`: the directory lives for the call.
    unsafe extern "C" fn get_parent(child: *mut bindings::dentry) -> *mut bindings::dentry {
        // SAFETY: The dentry is that of a directory of `T`, and holds its inode.
        let child = unsafe { INode::<T>::from_raw((*child).d_inode) };
        let parent = {
            // The caller does not hold it, whatever the C header says.
            let _lock = child.lock_shared();
            T::parent(child)
        };
        // SAFETY: Consumes the reference; passes an error on.
        unsafe { bindings::d_obtain_alias(into_raw(parent)) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `commit_metadata`: the inode lives for the call.
    unsafe extern "C" fn commit_metadata(inode: *mut bindings::inode) -> ffi::c_int {
        // SAFETY: The inode is live for the call.
        from_result(|| T::commit_metadata(unsafe { INode::<T>::from_raw(inode) }))
    }
}
