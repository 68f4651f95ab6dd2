// SPDX-License-Identifier: GPL-2.0

//! Filesystems on block devices.
//!
//! A filesystem implements [`FileSystem`] and the operation traits of the object kinds that it has
//! ([`DirectoryOps`], [`FileOps`], [`SymlinkOps`]), and is registered with [`Registration`]. The C
//! operation tables are constants built from those traits; the filesystem sees only references
//! whose lifetimes the VFS guarantees.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/fs_context.h`](srctree/include/linux/fs_context.h)

pub mod acl;
pub mod attr;
pub mod dentry;
pub mod dir;
pub mod export;
pub mod file;
pub mod inode;
pub mod ioctl;
pub mod registration;
pub mod super_block;
pub mod symlink;
pub mod xattr;

pub use self::acl::{Inherited, PosixAcl};
pub use self::attr::{Attr, FileAttr, IdMap, KStat, StatAttributes};
pub use self::dentry::Dentry;
pub use self::dir::{is_killed, DirEmitter, DirectoryOps, EntryType, Name, RenameFlags};
pub use self::export::ExportOps;
pub use self::file::{File, FileOps, IoVec, Kiocb};
pub use self::inode::{
    now_seconds, random_u32, AttributeFlags, FreshINode, INode, Iget, NewINode, Timespec,
};
pub use self::ioctl::WriteAccess;
pub use self::registration::Registration;
pub use self::super_block::{Limits, NewSuperBlock, StatFs, SuperBlock};
pub use self::symlink::SymlinkOps;
pub use self::xattr::{XattrFlags, XattrNames, XattrSpace};

use kernel::{prelude::*, sync::aref::ARef, uaccess::UserPtr};

/// A filesystem that lives on one block device.
///
/// Implemented by a type that is never instantiated: it names the associated data and gives the
/// callbacks. Unless said otherwise a callback runs in process context and may sleep.
pub trait FileSystem: Sized + Send + Sync + 'static {
    /// The type's name, as given to `mount -t`.
    const NAME: &'static CStr;

    /// The name of the slab cache that holds the inodes.
    const INODE_CACHE: &'static CStr;

    /// What belongs to one mounted volume; lives from [`FileSystem::fill_super`] until after the
    /// block device is closed.
    type SuperData: Send + Sync;

    /// What belongs to one inode in memory; lives beside the VFS inode in one slab object.
    type InodeData: Send + Sync;

    /// What mount options are collected in, before and during a mount or remount.
    type Context: Send;

    /// Makes the empty set of mount options.
    fn new_context() -> Result<Self::Context>;

    /// Takes one mount option.
    ///
    /// # Errors
    ///
    /// `ENOPARAM` says that the option is not known (the VFS then tries its own, such as the
    /// source device); `EINVAL` that its value is bad.
    fn parse_param(ctx: &mut Self::Context, key: &CStr, value: Option<&CStr>) -> Result;

    /// Reads the superblock and makes the volume's data. `ctx` holds the options given.
    fn fill_super(
        sb: &NewSuperBlock<Self>,
        ctx: &mut Self::Context,
    ) -> Result<Pin<KBox<Self::SuperData>>>;

    /// Finishes the mount (loads the journal, recovers) and returns the root directory. On an error
    /// [`FileSystem::put_super`] is called before the volume's data goes.
    fn fill_root(sb: &SuperBlock<Self>) -> Result<ARef<INode<Self>>>;

    /// Applies new options to a mounted volume; `read_only` is the state asked for. The VFS sets
    /// the superblock's flag itself after success.
    fn reconfigure(sb: &SuperBlock<Self>, ctx: &mut Self::Context, read_only: bool) -> Result;

    /// The volume is going: no inode but those the filesystem itself holds is left.
    fn put_super(sb: &SuperBlock<Self>);

    /// Writes out what is not written; waits for it if `wait`.
    fn sync_fs(sb: &SuperBlock<Self>, wait: bool) -> Result;

    /// Brings the volume into a consistent state on disk; all writers are shut out.
    fn freeze_fs(sb: &SuperBlock<Self>) -> Result;

    /// Ends what [`FileSystem::freeze_fs`] began.
    fn unfreeze_fs(sb: &SuperBlock<Self>) -> Result;

    /// The block device is gone, or is told to be given up: nothing more is written to it.
    fn shutdown(sb: &SuperBlock<Self>);

    /// A command to an open file or directory that the VFS does not know, with what is by most
    /// commands the address of its argument. No lock is held.
    ///
    /// # Errors
    ///
    /// `ENOTTY` if the filesystem does not know it either.
    fn ioctl(file: &File<Self>, command: u32, argument: UserPtr) -> Result;

    /// Counts blocks and inodes.
    fn statfs(sb: &SuperBlock<Self>) -> Result<StatFs>;

    /// Prints the options that differ from the defaults, each with a leading comma.
    fn show_options(sb: &SuperBlock<Self>, out: &kernel::seq_file::SeqFile);

    /// Initialises the data of a new inode object.
    fn inode_data() -> impl PinInit<Self::InodeData, Error>;

    /// Writes the inode's metadata; `sync` asks that it be on stable storage on return (for a
    /// whole-volume sync it does not: [`FileSystem::sync_fs`] comes after).
    fn write_inode(inode: &INode<Self>, sync: bool) -> Result;

    /// The VFS changed the inode's attributes and marks it dirty. Never called under a folio lock.
    fn dirty_inode(inode: &INode<Self>);

    /// The last reference to the inode is gone: whatever the filesystem keeps of it outside the
    /// slab object goes here, and on disk if it has no link. Its page cache is empty. No reference
    /// may be taken any more.
    fn evict_inode(inode: &INode<Self>);

    /// The access ACL or default ACL of an inode, `None` if it has none.
    fn get_acl(inode: &INode<Self>, default: bool) -> Result<Option<PosixAcl>>;

    /// Sets or, with `None`, removes the access ACL or default ACL of an inode; the access ACL
    /// changes the mode, too. The inode's `i_rwsem` is held.
    fn set_acl(inode: &INode<Self>, idmap: &IdMap, acl: Option<PosixAcl>, default: bool) -> Result;

    /// The value of an extended attribute; `name` is without its namespace. `None` if the inode has
    /// none of that name.
    fn get_xattr(inode: &INode<Self>, space: XattrSpace, name: &[u8]) -> Result<Option<KVec<u8>>>;

    /// Sets the value of an extended attribute or, with `None`, removes it. The VFS has checked that
    /// the caller may, and holds the inode's `i_rwsem`.
    fn set_xattr(
        inode: &INode<Self>,
        space: XattrSpace,
        name: &[u8],
        value: Option<&[u8]>,
        flags: XattrFlags,
    ) -> Result;

    /// Names the inode's extended attributes that the caller may know of.
    fn list_xattrs(inode: &INode<Self>, names: &mut XattrNames<'_>) -> Result;

    /// Fills in what `stat` shows beyond the VFS inode's own fields.
    fn getattr(inode: &INode<Self>, stat: &mut KStat);

    /// Changes attributes. The VFS has checked nothing yet: call [`Attr::prepare`] first.
    fn setattr(
        inode: &INode<Self>,
        idmap: &IdMap,
        dentry: &Dentry<Self>,
        attr: &mut Attr,
    ) -> Result;

    /// The inode's `FS_IOC_GETFLAGS` flags.
    fn fileattr_get(inode: &INode<Self>) -> FileAttr;

    /// Changes the inode's `FS_IOC_SETFLAGS` flags.
    fn fileattr_set(inode: &INode<Self>, attr: FileAttr) -> Result;
}

/// Turns a result into the C convention: 0 or a negative errno.
pub(crate) fn from_result(f: impl FnOnce() -> Result) -> kernel::ffi::c_int {
    match f() {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}
