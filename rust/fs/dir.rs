// SPDX-License-Identifier: GPL-2.0

//! Operations of directories.

use super::{attr, from_result, Dentry, File, FileSystem, INode, IdMap, NewINode};
use crate::bindings;
use core::{marker::PhantomData, ptr::null_mut};
use kernel::{error::to_result, ffi, prelude::*, sync::aref::ARef};

/// What a directory can do. The directory's `i_rwsem` is held: for reading in `lookup` and
/// `iterate`, for writing in the others.
pub trait DirectoryOps: FileSystem {
    /// Finds a name; `None` if it is not there.
    fn lookup(dir: &INode<Self>, name: &[u8]) -> Result<Option<ARef<INode<Self>>>>;

    /// Makes a regular file and ties it to `dentry`.
    fn create(idmap: &IdMap, dir: &INode<Self>, dentry: &Dentry<Self>, mode: u16) -> Result;

    /// Makes a directory and ties it to `dentry`.
    fn mkdir(idmap: &IdMap, dir: &INode<Self>, dentry: &Dentry<Self>, mode: u16) -> Result;

    /// Makes a special file and ties it to `dentry`; `rdev` is in the kernel's own encoding.
    fn mknod(
        idmap: &IdMap,
        dir: &INode<Self>,
        dentry: &Dentry<Self>,
        mode: u16,
        rdev: u32,
    ) -> Result;

    /// Makes a regular file that no directory names, for somebody who opens it: it has no link, and
    /// is the filesystem's to delete when the last reference to it goes.
    fn tmpfile(idmap: &IdMap, dir: &INode<Self>, mode: u16) -> Result<NewINode<Self>>;

    /// Lists entries from `out.pos()` on until [`DirEmitter::emit`] returns false.
    fn iterate(dir: &INode<Self>, file: &File<Self>, out: &mut DirEmitter<'_>) -> Result;

    /// Writes the directory to stable storage.
    fn sync_dir(dir: &INode<Self>, datasync: bool) -> Result;
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
    /// Not recorded in the entry.
    Unknown,
    /// A regular file.
    Reg,
    /// A directory.
    Dir,
    /// A character device.
    Chr,
    /// A block device.
    Blk,
    /// A FIFO.
    Fifo,
    /// A socket.
    Sock,
    /// A symbolic link.
    Lnk,
}

/// Takes the entries of a directory listing to the reader.
pub struct DirEmitter<'a> {
    ctx: *mut bindings::dir_context,
    _ctx: PhantomData<&'a mut bindings::dir_context>,
}

impl DirEmitter<'_> {
    /// The position to list from.
    pub fn pos(&self) -> u64 {
        // SAFETY: `ctx` is ours for the call.
        unsafe { (*self.ctx).pos as u64 }
    }

    /// Moves the position: the next entry that will be asked for.
    pub fn set_pos(&mut self, pos: u64) {
        // SAFETY: `ctx` is ours for the call.
        unsafe { (*self.ctx).pos = pos as i64 };
    }

    /// Gives one entry; false if the reader has no room for it. May sleep: it copies to user
    /// memory.
    pub fn emit(&mut self, name: &[u8], ino: u64, kind: EntryType) -> bool {
        let kind = match kind {
            EntryType::Unknown => bindings::DT_UNKNOWN,
            EntryType::Reg => bindings::DT_REG,
            EntryType::Dir => bindings::DT_DIR,
            EntryType::Chr => bindings::DT_CHR,
            EntryType::Blk => bindings::DT_BLK,
            EntryType::Fifo => bindings::DT_FIFO,
            EntryType::Sock => bindings::DT_SOCK,
            EntryType::Lnk => bindings::DT_LNK,
        };
        let Ok(len) = ffi::c_int::try_from(name.len()) else {
            return false;
        };
        // SAFETY: `ctx` is ours for the call, the name has `len` bytes.
        unsafe { bindings::dir_emit(self.ctx, name.as_ptr().cast(), len, ino, kind) }
    }
}

struct Ops<T>(PhantomData<T>);

/// The inode operations of directories.
pub(super) fn inode_ops<T: DirectoryOps>() -> *const bindings::inode_operations {
    &Ops::<T>::INODE
}

/// The file operations of directories.
pub(super) fn file_ops<T: DirectoryOps>() -> *const bindings::file_operations {
    &Ops::<T>::FILE
}

impl<T: DirectoryOps> Ops<T> {
    const INODE: bindings::inode_operations = bindings::inode_operations {
        lookup: Some(Self::lookup),
        create: Some(Self::create),
        mkdir: Some(Self::mkdir),
        mknod: Some(Self::mknod),
        // The VFS answers EPERM where an operation is missing; these exist on ext4, so say what is
        // true.
        unlink: Some(Self::unsupported_unlink),
        rmdir: Some(Self::unsupported_unlink),
        link: Some(Self::unsupported_link),
        symlink: Some(Self::unsupported_symlink),
        rename: Some(Self::unsupported_rename),
        tmpfile: Some(Self::tmpfile),
        ..attr::inode_ops::<T>()
    };

    const FILE: bindings::file_operations = bindings::file_operations {
        llseek: Some(bindings::generic_file_llseek),
        read: Some(bindings::generic_read_dir),
        iterate_shared: Some(Self::iterate),
        fsync: Some(Self::fsync),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `lookup`: the arguments live for the call.
    unsafe extern "C" fn lookup(
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
        _flags: ffi::c_uint,
    ) -> *mut bindings::dentry {
        // SAFETY: Both are live for the call, the directory locked.
        let (dir, d) = unsafe { (INode::<T>::from_raw(dir), Dentry::<T>::from_raw(dentry)) };
        let inode = match T::lookup(dir, d.name()) {
            Ok(Some(inode)) => ARef::into_raw(inode).as_ptr().cast(),
            Ok(None) => null_mut(),
            Err(e) => e.to_ptr(),
        };
        // SAFETY: Consumes the reference; passes a null or an error pointer on.
        unsafe { bindings::d_splice_alias(inode, dentry) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `create`: the arguments live for the call.
    unsafe extern "C" fn create(
        idmap: *mut bindings::mnt_idmap,
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
        mode: bindings::umode_t,
    ) -> ffi::c_int {
        // SAFETY: All are live for the call, the directory locked.
        let (idmap, dir, d) = unsafe {
            (
                IdMap::from_raw(idmap),
                INode::<T>::from_raw(dir),
                Dentry::<T>::from_raw(dentry),
            )
        };
        from_result(|| T::create(idmap, dir, d, mode))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `mkdir`: the arguments live for the call.
    unsafe extern "C" fn mkdir(
        idmap: *mut bindings::mnt_idmap,
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
        mode: bindings::umode_t,
    ) -> *mut bindings::dentry {
        // SAFETY: All are live for the call, the directory locked.
        let (idmap, dir, d) = unsafe {
            (
                IdMap::from_raw(idmap),
                INode::<T>::from_raw(dir),
                Dentry::<T>::from_raw(dentry),
            )
        };
        match T::mkdir(idmap, dir, d, mode) {
            Ok(()) => null_mut(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `mknod`: the arguments live for the call.
    unsafe extern "C" fn mknod(
        idmap: *mut bindings::mnt_idmap,
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
        mode: bindings::umode_t,
        rdev: bindings::dev_t,
    ) -> ffi::c_int {
        // SAFETY: All are live for the call, the directory locked.
        let (idmap, dir, d) = unsafe {
            (
                IdMap::from_raw(idmap),
                INode::<T>::from_raw(dir),
                Dentry::<T>::from_raw(dentry),
            )
        };
        from_result(|| T::mknod(idmap, dir, d, mode, rdev))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `tmpfile`: the arguments live for the call.
    unsafe extern "C" fn tmpfile(
        idmap: *mut bindings::mnt_idmap,
        dir: *mut bindings::inode,
        file: *mut bindings::file,
        mode: bindings::umode_t,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call.
        let (idmap, dir) = unsafe { (IdMap::from_raw(idmap), INode::<T>::from_raw(dir)) };
        from_result(|| {
            let inode = T::tmpfile(idmap, dir, mode)?.into_raw();
            // SAFETY: The file is not open yet, and its dentry a nameless one without inode. That
            // gets the inode's reference, with which `I_NEW` is cleared.
            to_result(unsafe {
                let dentry = bindings::file_dentry_of(file);
                bindings::d_mark_tmpfile(file, inode);
                bindings::d_instantiate_new(dentry, inode);
                bindings::finish_open(file, dentry, None)
            })
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `unlink`: the arguments live for the call.
    unsafe extern "C" fn unsupported_unlink(
        _dir: *mut bindings::inode,
        _dentry: *mut bindings::dentry,
    ) -> ffi::c_int {
        EOPNOTSUPP.to_errno()
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `link`: the arguments live for the call.
    unsafe extern "C" fn unsupported_link(
        _old: *mut bindings::dentry,
        _dir: *mut bindings::inode,
        _new: *mut bindings::dentry,
    ) -> ffi::c_int {
        EOPNOTSUPP.to_errno()
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `symlink`: the arguments live for the call.
    unsafe extern "C" fn unsupported_symlink(
        _idmap: *mut bindings::mnt_idmap,
        _dir: *mut bindings::inode,
        _dentry: *mut bindings::dentry,
        _target: *const ffi::c_char,
    ) -> ffi::c_int {
        EOPNOTSUPP.to_errno()
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `rename`: the arguments live for the call.
    unsafe extern "C" fn unsupported_rename(
        _idmap: *mut bindings::mnt_idmap,
        _old_dir: *mut bindings::inode,
        _old: *mut bindings::dentry,
        _new_dir: *mut bindings::inode,
        _new: *mut bindings::dentry,
        _flags: ffi::c_uint,
    ) -> ffi::c_int {
        EOPNOTSUPP.to_errno()
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `iterate`: the arguments live for the call.
    unsafe extern "C" fn iterate(
        file: *mut bindings::file,
        ctx: *mut bindings::dir_context,
    ) -> ffi::c_int {
        // SAFETY: The file, its inode and the context are live for the call.
        let f = unsafe { File::<T>::from_raw(file) };
        let mut out = DirEmitter {
            ctx,
            _ctx: PhantomData,
        };
        from_result(|| T::iterate(f.inode(), f, &mut out))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `fsync`: the arguments live for the call.
    unsafe extern "C" fn fsync(
        file: *mut bindings::file,
        _start: bindings::loff_t,
        _end: bindings::loff_t,
        datasync: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: The file is live for the call.
        let f = unsafe { File::<T>::from_raw(file) };
        from_result(|| T::sync_dir(f.inode(), datasync != 0))
    }
}
