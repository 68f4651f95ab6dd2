// SPDX-License-Identifier: GPL-2.0

//! Operations of directories.

use super::{attr, from_result, ioctl, Dentry, File, FileSystem, INode, IdMap, NewINode};
use crate::{
    bindings,
    iomap::{self, ReportOps},
    mapping::loff,
};
use core::{marker::PhantomData, pin::Pin, ptr::null_mut};
use kernel::{error::to_result, ffi, prelude::*, str::CStrExt, sync::aref::ARef};

/// What a directory can do. The directory's `i_rwsem` is held: for reading in `lookup` and
/// `iterate`, for writing in those that change entries. So is that of an inode that loses, gets or
/// changes a name; of a directory that moves only if its parent changes.
pub trait DirectoryOps: ReportOps {
    /// What is kept of one open directory, between calls of [`DirectoryOps::iterate`].
    type OpenDirectory: Send + Sync;

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

    /// Removes the name of an inode that is not a directory.
    fn unlink(dir: &INode<Self>, dentry: &Dentry<Self>) -> Result;

    /// Removes an empty directory.
    fn rmdir(dir: &INode<Self>, dentry: &Dentry<Self>) -> Result;

    /// Gives `inode`, which is not a directory, one more name and ties it to `dentry`.
    fn link(inode: &INode<Self>, dir: &INode<Self>, dentry: &Dentry<Self>) -> Result;

    /// Makes a symbolic link and ties it to `dentry`.
    fn symlink(idmap: &IdMap, dir: &INode<Self>, dentry: &Dentry<Self>, target: &[u8]) -> Result;

    /// Moves the name `from` to `to`. The VFS has checked that no directory becomes its own
    /// ancestor, and what the flags demand of `to`.
    fn rename(
        idmap: &IdMap,
        from: Name<'_, Self>,
        to: Name<'_, Self>,
        flags: RenameFlags,
    ) -> Result;

    /// Begins the state of a directory that is being opened.
    fn open_directory() -> impl PinInit<Self::OpenDirectory, Error>;

    /// Lists entries from `out.pos()` on until [`DirEmitter::emit`] returns false.
    fn iterate(
        dir: &INode<Self>,
        file: &File<Self>,
        open: Pin<&Self::OpenDirectory>,
        out: &mut DirEmitter<'_>,
    ) -> Result;

    /// The end of the directory as its positions have it, if that is not its size: what seeking goes
    /// by. Called without a lock.
    fn end_position(dir: &INode<Self>, file: &File<Self>) -> Option<u64>;

    /// Writes the directory to stable storage.
    fn sync_dir(dir: &INode<Self>, datasync: bool) -> Result;
}

/// Lets others run that want to, and answers whether the task is being killed: long listings end
/// then.
pub fn is_killed() -> bool {
    // SAFETY: Process context; looks at the task itself.
    unsafe { bindings::current_is_killed() }
}

/// A name in a directory.
pub struct Name<'a, T: FileSystem> {
    /// The directory.
    pub dir: &'a INode<T>,
    /// The name there, and what it stands for.
    pub dentry: &'a Dentry<T>,
}

/// How to rename (`renameat2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameFlags(u32);

impl RenameFlags {
    /// The two names are swapped; both are there.
    pub fn exchange(self) -> bool {
        self.0 & bindings::RENAME_EXCHANGE != 0
    }

    /// A whiteout takes the place of the old name.
    pub fn whiteout(self) -> bool {
        self.0 & bindings::RENAME_WHITEOUT != 0
    }

    /// Whether there are flags but these two and `RENAME_NOREPLACE`, which is the VFS's to obey.
    pub fn has_others(self) -> bool {
        let known =
            bindings::RENAME_EXCHANGE | bindings::RENAME_WHITEOUT | bindings::RENAME_NOREPLACE;
        self.0 & !known != 0
    }
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
        fiemap: Some(iomap::fiemap::<T>),
        create: Some(Self::create),
        mkdir: Some(Self::mkdir),
        mknod: Some(Self::mknod),
        unlink: Some(Self::unlink),
        rmdir: Some(Self::rmdir),
        link: Some(Self::link),
        symlink: Some(Self::symlink),
        rename: Some(Self::rename),
        tmpfile: Some(Self::tmpfile),
        ..attr::inode_ops::<T>()
    };

    const FILE: bindings::file_operations = bindings::file_operations {
        open: Some(Self::open),
        release: Some(Self::release),
        llseek: Some(Self::llseek),
        read: Some(bindings::generic_read_dir),
        iterate_shared: Some(Self::iterate),
        fsync: Some(Self::fsync),
        unlocked_ioctl: Some(ioctl::unlocked_ioctl::<T>),
        compat_ioctl: Some(ioctl::compat_ioctl::<T>),
        setlease: Some(bindings::generic_setlease),
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
    unsafe extern "C" fn unlink(
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call, the directory locked.
        let (dir, d) = unsafe { (INode::<T>::from_raw(dir), Dentry::<T>::from_raw(dentry)) };
        from_result(|| T::unlink(dir, d))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `rmdir`: the arguments live for the call.
    unsafe extern "C" fn rmdir(
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call, the directory locked.
        let (dir, d) = unsafe { (INode::<T>::from_raw(dir), Dentry::<T>::from_raw(dentry)) };
        from_result(|| T::rmdir(dir, d))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `link`: the arguments live for the call.
    unsafe extern "C" fn link(
        old: *mut bindings::dentry,
        dir: *mut bindings::inode,
        new: *mut bindings::dentry,
    ) -> ffi::c_int {
        // SAFETY: All are live for the call, the directory locked; `old` has an inode, which is
        // locked too.
        let (inode, dir, new) = unsafe {
            (
                INode::<T>::from_raw((*old).d_inode),
                INode::<T>::from_raw(dir),
                Dentry::<T>::from_raw(new),
            )
        };
        from_result(|| T::link(inode, dir, new))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `symlink`: the arguments live for the call.
    unsafe extern "C" fn symlink(
        idmap: *mut bindings::mnt_idmap,
        dir: *mut bindings::inode,
        dentry: *mut bindings::dentry,
        target: *const ffi::c_char,
    ) -> ffi::c_int {
        // SAFETY: All are live for the call, the directory locked; the target ends with a NUL.
        let (idmap, dir, d, target) = unsafe {
            (
                IdMap::from_raw(idmap),
                INode::<T>::from_raw(dir),
                Dentry::<T>::from_raw(dentry),
                CStr::from_char_ptr(target),
            )
        };
        from_result(|| T::symlink(idmap, dir, d, target.to_bytes()))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `rename`: the arguments live for the call.
    unsafe extern "C" fn rename(
        idmap: *mut bindings::mnt_idmap,
        old_dir: *mut bindings::inode,
        old: *mut bindings::dentry,
        new_dir: *mut bindings::inode,
        new: *mut bindings::dentry,
        flags: ffi::c_uint,
    ) -> ffi::c_int {
        // SAFETY: All are live for the call, both directories locked.
        let (idmap, from, to) = unsafe {
            (
                IdMap::from_raw(idmap),
                Name {
                    dir: INode::<T>::from_raw(old_dir),
                    dentry: Dentry::from_raw(old),
                },
                Name {
                    dir: INode::<T>::from_raw(new_dir),
                    dentry: Dentry::from_raw(new),
                },
            )
        };
        from_result(|| T::rename(idmap, from, to, RenameFlags(flags)))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `open`: the arguments live for the call.
    unsafe extern "C" fn open(
        _inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> ffi::c_int {
        from_result(|| {
            let state = KBox::try_pin_init(T::open_directory(), GFP_KERNEL)?;
            // SAFETY: The file is being opened: nobody else sees it. The pointer keeps the object
            // pinned until `release` takes it back.
            unsafe {
                let state = KBox::into_raw(Pin::into_inner_unchecked(state));
                (*file).private_data = state.cast();
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `release`: the arguments live for the call.
    unsafe extern "C" fn release(
        _inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> ffi::c_int {
        // SAFETY: `open` put the box there, and nobody uses the file any more.
        drop(unsafe { KBox::<T::OpenDirectory>::from_raw((*file).private_data.cast()) });
        0
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `llseek`: the arguments live for the call.
    unsafe extern "C" fn llseek(
        file: *mut bindings::file,
        offset: bindings::loff_t,
        whence: ffi::c_int,
    ) -> bindings::loff_t {
        // SAFETY: The file is live for the call.
        let f = unsafe { File::<T>::from_raw(file) };
        match T::end_position(f.inode(), f) {
            Some(end) => {
                let end = loff(end);
                // SAFETY: The file is live for the call.
                unsafe { bindings::generic_file_llseek_size(file, offset, whence, end, end) }
            }
            // SAFETY: As above.
            None => unsafe { bindings::generic_file_llseek(file, offset, whence) },
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `iterate`: the arguments live for the call.
    unsafe extern "C" fn iterate(
        file: *mut bindings::file,
        ctx: *mut bindings::dir_context,
    ) -> ffi::c_int {
        // SAFETY: The file, its inode and the context are live for the call. `open` put the state
        // there, which stays where it is until `release`; only shared references to it are made.
        let (f, open) = unsafe {
            (
                File::<T>::from_raw(file),
                Pin::new_unchecked(&*(*file).private_data.cast::<T::OpenDirectory>()),
            )
        };
        let mut out = DirEmitter {
            ctx,
            _ctx: PhantomData,
        };
        from_result(|| T::iterate(f.inode(), f, open, &mut out))
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
