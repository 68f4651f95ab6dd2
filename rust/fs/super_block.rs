// SPDX-License-Identifier: GPL-2.0

//! Superblocks and mount contexts.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/fs_context.h`](srctree/include/linux/fs_context.h)

use super::{from_result, inode::SlotOps, xattr, FileSystem, INode};
use crate::bindings;
use core::{marker::PhantomData, ptr::null_mut};
use kernel::{
    error::to_result,
    ffi,
    prelude::*,
    seq_file::SeqFile,
    sync::aref::ARef,
    types::{ForeignOwnable, Opaque},
};

/// A mounted volume of filesystem `T`.
///
/// # Invariants
///
/// `s_fs_info` owns a `Pin<KBox<T::SuperData>>`.
#[repr(transparent)]
pub struct SuperBlock<T: FileSystem>(Opaque<bindings::super_block>, PhantomData<T>);

// SAFETY: Superblocks are shared between tasks by design, and `SuperData` is `Send + Sync`.
unsafe impl<T: FileSystem> Send for SuperBlock<T> {}
// SAFETY: As above.
unsafe impl<T: FileSystem> Sync for SuperBlock<T> {}

impl<T: FileSystem> SuperBlock<T> {
    /// Borrows a C superblock.
    ///
    /// # Safety
    ///
    /// `ptr` points to a live superblock of `T` whose data is set, for `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::super_block) -> &'a Self {
        // SAFETY: `SuperBlock` is transparent; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C superblock.
    pub(crate) fn as_ptr(&self) -> *mut bindings::super_block {
        self.0.get()
    }

    /// The filesystem's data of this volume.
    pub fn data(&self) -> &T::SuperData {
        // SAFETY: By the invariant; the box is dropped after the last use of the superblock.
        unsafe { Pin::<KBox<T::SuperData>>::borrow((*self.as_ptr()).s_fs_info) }.get_ref()
    }

    /// The short name of the device, as messages show it (`vda`).
    pub fn id(&self) -> &CStr {
        // SAFETY: `s_id` is NUL-terminated and set before the first use of the superblock.
        unsafe { CStr::from_char_ptr((&raw const (*self.as_ptr()).s_id).cast()) }
    }

    /// The size of a block in bytes.
    pub fn block_size(&self) -> u32 {
        // SAFETY: Set during the mount only. At most the page size.
        unsafe { (*self.as_ptr()).s_blocksize as u32 }
    }

    /// Whether the volume is read-only now.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: The superblock is live.
        let flags = unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).s_flags) };
        flags & bindings::SB_RDONLY != 0
    }

    /// Makes the volume read-only, for good: after an error, or for a feature that allows no more.
    pub fn set_read_only(&self) {
        // SAFETY: The superblock is live. The flags word is also changed by the VFS under
        // `s_umount`; the helper sets the one bit as ext4's error handling does.
        unsafe { bindings::sb_set_rdonly(self.as_ptr()) };
    }

    /// Says whether the volume obeys POSIX ACLs. For [`FileSystem::reconfigure`].
    pub fn set_acl(&self, obeyed: bool) {
        // SAFETY: The superblock is live. Whoever changes its flags holds `s_umount`, as the caller
        // does, but for the one bit of `set_read_only`.
        unsafe {
            let flags = &raw mut (*self.as_ptr()).s_flags;
            let rest = flags.read_volatile() & !bindings::SB_POSIXACL;
            let acl = if obeyed { bindings::SB_POSIXACL } else { 0 };
            flags.write_volatile(rest | acl);
        }
    }

    /// Whether access times are kept lazily.
    pub fn is_lazytime(&self) -> bool {
        // SAFETY: The superblock is live.
        let flags = unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).s_flags) };
        flags & bindings::SB_LAZYTIME != 0
    }

    /// Whether the block device refuses writes.
    pub fn is_device_read_only(&self) -> bool {
        // SAFETY: The superblock and its device are live.
        unsafe { bindings::bdev_read_only((*self.as_ptr()).s_bdev) }
    }

    /// The device number, `(major, minor)`.
    pub fn device_number(&self) -> (u32, u32) {
        // SAFETY: Set before the first use of the superblock.
        let dev = unsafe { (*self.as_ptr()).s_dev };
        (dev >> 20, dev & 0xf_ffff)
    }

    /// Sectors (of 512 bytes) that were ever written to the device since the kernel started.
    pub fn device_sectors_written(&self) -> u64 {
        // SAFETY: The superblock and its device are live.
        unsafe { bindings::bdev_sectors_written((*self.as_ptr()).s_bdev) }
    }

    /// Sends the device a cache flush and waits for it.
    pub fn flush_device(&self) -> Result {
        // SAFETY: The superblock and its device are live.
        to_result(unsafe { bindings::blkdev_issue_flush((*self.as_ptr()).s_bdev) })
    }

    /// Runs `f` while the volume, and its device with it, is frozen: all is written, and all writers
    /// wait. The caller is no writer.
    ///
    /// # Errors
    ///
    /// Those of freezing; `f` is not run then. One of thawing is not told of.
    pub fn while_frozen<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        // SAFETY: The superblock and its device are live.
        to_result(unsafe { bindings::bdev_freeze((*self.as_ptr()).s_bdev) })?;
        let done = f();
        // SAFETY: As above; frozen by this task.
        unsafe { bindings::bdev_thaw((*self.as_ptr()).s_bdev) };
        Ok(done)
    }

    /// Keeps the volume writable until the guard goes: waits while it is being frozen. For writers
    /// that come from no system call.
    pub fn start_internal_write(&self) -> InternalWrite<'_, T> {
        // SAFETY: The superblock is live.
        unsafe { bindings::sb_start_intwrite(self.as_ptr()) };
        InternalWrite {
            sb: self,
            _not_send: PhantomData,
        }
    }

    /// Writes back all dirty data of the volume and waits.
    pub fn sync_inodes(&self) {
        // SAFETY: The superblock is live and the caller, inside a VFS callback, holds `s_umount`.
        unsafe { bindings::sync_inodes_sb(self.as_ptr()) };
    }

    /// Starts write-back of the volume's dirty data if none is under way, to free reservations.
    pub fn try_writeback(&self) {
        // SAFETY: The superblock is live; the callee gives up if it cannot take `s_umount`.
        unsafe {
            bindings::try_to_writeback_inodes_sb(
                self.as_ptr(),
                bindings::wb_reason_WB_REASON_FS_FREE_SPACE,
            )
        };
    }
}

/// Protection against freezing, held.
pub struct InternalWrite<'a, T: FileSystem> {
    sb: &'a SuperBlock<T>,
    _not_send: PhantomData<*mut ()>,
}

impl<T: FileSystem> Drop for InternalWrite<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Pairs with `start_internal_write`, in the same task.
        unsafe { bindings::sb_end_intwrite(self.sb.as_ptr()) };
    }
}

/// A volume whose superblock is being read: no data is attached yet.
#[repr(transparent)]
pub struct NewSuperBlock<T: FileSystem>(Opaque<bindings::super_block>, PhantomData<T>);

/// What a filesystem tells the VFS of a new volume.
pub struct Limits {
    /// The type's magic number, for `statfs`.
    pub magic: u64,
    /// The largest file, in bytes.
    pub max_bytes: u64,
    /// The most links that an inode may have, for the VFS to check; 0 if the filesystem does.
    pub max_links: u32,
    /// The granularity of times, in nanoseconds.
    pub time_granularity: u32,
    /// The earliest time that can be stored, in seconds.
    pub time_min: i64,
    /// The latest time that can be stored, in seconds.
    pub time_max: i64,
}

impl<T: FileSystem> NewSuperBlock<T> {
    /// The C superblock.
    pub(crate) fn as_ptr(&self) -> *mut bindings::super_block {
        self.0.get()
    }

    /// The short name of the device, as messages show it.
    pub fn id(&self) -> &CStr {
        // SAFETY: `s_id` is NUL-terminated and set before `fill_super`.
        unsafe { CStr::from_char_ptr((&raw const (*self.as_ptr()).s_id).cast()) }
    }

    /// Whether the mount is to be read-only.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: The superblock is live.
        unsafe { (*self.as_ptr()).s_flags & bindings::SB_RDONLY != 0 }
    }

    /// Makes the mount read-only.
    pub fn set_read_only(&self) {
        // SAFETY: The superblock is live and ours.
        unsafe { (*self.as_ptr()).s_flags |= bindings::SB_RDONLY };
    }

    /// Whether the block device refuses writes.
    pub fn is_device_read_only(&self) -> bool {
        // SAFETY: The superblock and its device are live.
        unsafe { bindings::bdev_read_only((*self.as_ptr()).s_bdev) }
    }

    /// Sectors (of 512 bytes) that were ever written to the device since the kernel started.
    pub fn device_sectors_written(&self) -> u64 {
        // SAFETY: The superblock and its device are live.
        unsafe { bindings::bdev_sectors_written((*self.as_ptr()).s_bdev) }
    }

    /// The size of the device in bytes.
    pub fn device_bytes(&self) -> u64 {
        // SAFETY: The superblock and its device are live.
        u64::try_from(unsafe { bindings::bdev_nr_bytes((*self.as_ptr()).s_bdev) }).unwrap_or(0)
    }

    /// The size of a block in bytes, as set last.
    pub fn block_size(&self) -> u32 {
        // SAFETY: The superblock is live.
        unsafe { (*self.as_ptr()).s_blocksize as u32 }
    }

    /// Sets the block size, in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device's own block is larger, or the size is none that the page cache takes.
    pub fn set_block_size(&self, bytes: u32) -> Result {
        // SAFETY: The superblock is ours; no buffer is held.
        if unsafe { bindings::sb_set_blocksize(self.as_ptr(), bytes as ffi::c_int) } == 0 {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Sets what the VFS must know before the first inode is read.
    pub fn set_limits(&self, limits: &Limits, uuid: &[u8; 16]) {
        // SAFETY: The superblock is ours until the mount is complete.
        unsafe {
            let sb = self.as_ptr();
            (*sb).s_magic = limits.magic as ffi::c_ulong;
            (*sb).s_maxbytes = i64::try_from(limits.max_bytes).unwrap_or(i64::MAX);
            (*sb).s_max_links = limits.max_links;
            (*sb).s_time_gran = limits.time_granularity;
            (*sb).s_time_min = limits.time_min;
            (*sb).s_time_max = limits.time_max;
            bindings::super_set_uuid(sb, uuid.as_ptr(), 16);
            bindings::super_set_sysfs_name_bdev(sb);
        }
    }

    /// Says that the volume obeys POSIX ACLs.
    pub fn enable_acl(&self) {
        // SAFETY: The superblock is ours until the mount is complete.
        unsafe { (*self.as_ptr()).s_flags |= bindings::SB_POSIXACL };
    }
}

/// What `statfs` reports; blocks are filesystem blocks.
#[derive(Clone, Copy, Default)]
pub struct StatFs {
    /// The type's magic number.
    pub magic: u64,
    /// The size of a block in bytes.
    pub block_size: u32,
    /// Data blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks that an ordinary user can have.
    pub available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// The volume's identity.
    pub fsid: u64,
    /// The longest name in bytes.
    pub name_len: u32,
}

const fn super_ops<T: FileSystem>() -> bindings::super_operations {
    bindings::super_operations {
        alloc_inode: Some(SlotOps::<T>::alloc_inode),
        free_inode: Some(SlotOps::<T>::free_inode),
        evict_inode: Some(SlotOps::<T>::evict_inode),
        write_inode: Some(SbOps::<T>::write_inode),
        dirty_inode: Some(SbOps::<T>::dirty_inode),
        put_super: Some(SbOps::<T>::put_super),
        sync_fs: Some(SbOps::<T>::sync_fs),
        freeze_fs: Some(SbOps::<T>::freeze_fs),
        unfreeze_fs: Some(SbOps::<T>::unfreeze_fs),
        statfs: Some(SbOps::<T>::statfs),
        shutdown: Some(SbOps::<T>::shutdown),
        show_options: Some(SbOps::<T>::show_options),
        ..pin_init::zeroed()
    }
}

/// The callbacks of a superblock. In each the VFS holds the superblock (and inode), and the data is
/// set: it is attached before `s_root`, and the VFS calls none of them without one.
struct SbOps<T>(PhantomData<T>);

/// The operations of superblocks of `T`.
fn super_ops_table<T: FileSystem>() -> *const bindings::super_operations {
    &SbOps::<T>::TABLE
}

impl<T: FileSystem> SbOps<T> {
    const TABLE: bindings::super_operations = super_ops::<T>();

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `write_inode`: the arguments live for the call.
    unsafe extern "C" fn write_inode(
        inode: *mut bindings::inode,
        wbc: *mut bindings::writeback_control,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call.
        let (inode, sync) = unsafe {
            (
                INode::<T>::from_raw(inode),
                (*wbc).sync_mode == bindings::writeback_sync_modes_WB_SYNC_ALL
                    && (*wbc).for_sync() == 0,
            )
        };
        from_result(|| T::write_inode(inode, sync))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `dirty_inode`: the arguments live for the call.
    unsafe extern "C" fn dirty_inode(inode: *mut bindings::inode, flags: ffi::c_int) {
        if flags as u32 == bindings::inode_state_flags_enum_I_DIRTY_TIME {
            return;
        }
        // SAFETY: The inode is live for the call.
        T::dirty_inode(unsafe { INode::<T>::from_raw(inode) });
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `put_super`: the arguments live for the call.
    unsafe extern "C" fn put_super(sb: *mut bindings::super_block) {
        // SAFETY: The superblock is live for the call.
        T::put_super(unsafe { SuperBlock::<T>::from_raw(sb) });
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `sync_fs`: the arguments live for the call.
    unsafe extern "C" fn sync_fs(sb: *mut bindings::super_block, wait: ffi::c_int) -> ffi::c_int {
        // SAFETY: The superblock is live for the call.
        from_result(|| T::sync_fs(unsafe { SuperBlock::from_raw(sb) }, wait != 0))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `freeze_fs`: the arguments live for the call.
    unsafe extern "C" fn freeze_fs(sb: *mut bindings::super_block) -> ffi::c_int {
        // SAFETY: The superblock is live for the call.
        from_result(|| T::freeze_fs(unsafe { SuperBlock::from_raw(sb) }))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `unfreeze_fs`: the arguments live for the call.
    unsafe extern "C" fn unfreeze_fs(sb: *mut bindings::super_block) -> ffi::c_int {
        // SAFETY: The superblock is live for the call.
        from_result(|| T::unfreeze_fs(unsafe { SuperBlock::from_raw(sb) }))
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `shutdown`: the arguments live for the call.
    unsafe extern "C" fn shutdown(sb: *mut bindings::super_block) {
        // SAFETY: The superblock is live for the call.
        T::shutdown(unsafe { SuperBlock::<T>::from_raw(sb) });
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `statfs`: the arguments live for the call.
    unsafe extern "C" fn statfs(
        dentry: *mut bindings::dentry,
        out: *mut bindings::kstatfs,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: The dentry and its superblock are live for the call.
            let st = T::statfs(unsafe { SuperBlock::<T>::from_raw((*dentry).d_sb) })?;
            // SAFETY: `out` is the caller's, for us to fill.
            unsafe {
                (*out).f_type = st.magic as ffi::c_long;
                (*out).f_bsize = st.block_size as ffi::c_long;
                (*out).f_blocks = st.blocks;
                (*out).f_bfree = st.free;
                (*out).f_bavail = st.available;
                (*out).f_files = st.files;
                (*out).f_ffree = st.free_files;
                (*out).f_fsid.val = [st.fsid as i32, (st.fsid >> 32) as i32];
                (*out).f_namelen = st.name_len as ffi::c_long;
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `show_options`: the arguments live for the call.
    unsafe extern "C" fn show_options(
        seq: *mut bindings::seq_file,
        root: *mut bindings::dentry,
    ) -> ffi::c_int {
        // SAFETY: Both are live for the call.
        unsafe {
            T::show_options(
                SuperBlock::<T>::from_raw((*root).d_sb),
                SeqFile::from_raw(seq),
            );
        }
        0
    }
}

/// The mount context's callbacks.
struct ContextOps<T>(PhantomData<T>);

impl<T: FileSystem> ContextOps<T> {
    const TABLE: bindings::fs_context_operations = bindings::fs_context_operations {
        free: Some(Self::free),
        parse_param: Some(Self::parse_param),
        get_tree: Some(Self::get_tree),
        reconfigure: Some(Self::reconfigure),
        ..pin_init::zeroed()
    };

    /// The options collected so far.
    ///
    /// # Safety
    ///
    /// `fc` is a live context that `init_fs_context::<T>` set up, used by this task alone.
    unsafe fn context<'a>(fc: *mut bindings::fs_context) -> &'a mut T::Context {
        // SAFETY: `fs_private` is the box made in `init_fs_context`; `uapi_mutex` makes us its only
        // user.
        unsafe { &mut *(*fc).fs_private.cast::<T::Context>() }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `free`: the arguments live for the call.
    unsafe extern "C" fn free(fc: *mut bindings::fs_context) {
        // SAFETY: `fs_private` is null or the box made in `init_fs_context`, freed here only.
        unsafe {
            if !(*fc).fs_private.is_null() {
                drop(KBox::<T::Context>::from_raw((*fc).fs_private.cast()));
            }
        }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `parse_param`: the arguments live for the call.
    unsafe extern "C" fn parse_param(
        fc: *mut bindings::fs_context,
        param: *mut bindings::fs_parameter,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: The VFS gives a valid parameter with a NUL-terminated key, and a string where
            // the type says so.
            let (key, value) = unsafe {
                let key = CStr::from_char_ptr((*param).key);
                let value = match bindings::fs_parameter_type(param) {
                    bindings::FS_VALUE_FLAG => None,
                    bindings::FS_VALUE_STRING => {
                        Some(CStr::from_char_ptr((*param).__bindgen_anon_1.string))
                    }
                    _ => return Err(EINVAL),
                };
                (key, value)
            };
            // SAFETY: The context is ours.
            T::parse_param(unsafe { Self::context(fc) }, key, value)
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `get_tree`: the arguments live for the call.
    unsafe extern "C" fn get_tree(fc: *mut bindings::fs_context) -> ffi::c_int {
        // SAFETY: The context is ours; `fill_super` gets the superblock from it.
        unsafe { bindings::get_tree_bdev(fc, Some(Self::fill_super)) }
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `fill_super`: the arguments live for the call.
    unsafe extern "C" fn fill_super(
        sb: *mut bindings::super_block,
        fc: *mut bindings::fs_context,
    ) -> ffi::c_int {
        from_result(|| {
            // SAFETY: The context is ours.
            let ctx = unsafe { Self::context(fc) };
            // SAFETY: `sb` is new, locked, and ours until we return.
            let data = T::fill_super(unsafe { &*sb.cast::<NewSuperBlock<T>>() }, ctx)?;
            // SAFETY: As above. `kill_sb` takes the data back.
            unsafe {
                (*sb).s_fs_info = data.into_foreign();
                (*sb).s_op = super_ops_table::<T>().cast();
                (*sb).s_xattr = xattr::handlers::<T>().cast();
                // iomap charges each bio of write-back to the cgroup that made its data.
                (*sb).s_iflags |= bindings::SB_I_CGROUPWB as ffi::c_ulong;
            }
            // SAFETY: The data is set.
            let this = unsafe { SuperBlock::<T>::from_raw(sb) };
            let root = T::fill_root(this).and_then(|root| {
                // SAFETY: `d_make_root` consumes the reference, also when it fails.
                let dentry = unsafe { bindings::d_make_root(ARef::into_raw(root).as_ptr().cast()) };
                if dentry.is_null() {
                    Err(ENOMEM)
                } else {
                    Ok(dentry)
                }
            });
            match root {
                Ok(dentry) => {
                    // SAFETY: As above; the superblock owns its root.
                    unsafe { (*sb).s_root = dentry };
                    Ok(())
                }
                Err(e) => {
                    // The VFS calls `put_super` only for a superblock with a root.
                    T::put_super(this);
                    Err(e)
                }
            }
        })
    }

    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `reconfigure`: the arguments live for the call.
    unsafe extern "C" fn reconfigure(fc: *mut bindings::fs_context) -> ffi::c_int {
        // SAFETY: The context's root and its superblock are live; `s_umount` is held.
        let (sb, read_only) = unsafe {
            let sb = (*(*fc).root).d_sb;
            let mask = (*fc).sb_flags_mask as ffi::c_ulong & bindings::SB_RDONLY;
            let asked = (*fc).sb_flags as ffi::c_ulong & bindings::SB_RDONLY != 0;
            let sb = SuperBlock::<T>::from_raw(sb);
            (sb, if mask != 0 { asked } else { sb.is_read_only() })
        };
        if read_only && !sb.is_read_only() {
            // SAFETY: `s_umount` is held.
            let err = unsafe { bindings::sync_filesystem(sb.as_ptr()) };
            if err != 0 {
                return err;
            }
        }
        // SAFETY: The context is ours.
        from_result(|| T::reconfigure(sb, unsafe { Self::context(fc) }, read_only))
    }
}

/// Sets up a mount context.
///
/// # Safety
///
/// Called by the VFS alone, as its operation `init_fs_context`: the arguments live for the call.
pub(super) unsafe extern "C" fn init_fs_context<T: FileSystem>(
    fc: *mut bindings::fs_context,
) -> ffi::c_int {
    from_result(|| {
        let ctx = KBox::new(T::new_context()?, GFP_KERNEL)?;
        // SAFETY: `fc` is new and ours.
        unsafe {
            (*fc).fs_private = KBox::into_raw(ctx).cast();
            (*fc).ops = &ContextOps::<T>::TABLE;
        }
        Ok(())
    })
}

/// Ends a mount.
///
/// # Safety
///
/// Called by the VFS alone, as its operation `kill_sb`: the arguments live for the call.
pub(super) unsafe extern "C" fn kill_sb<T: FileSystem>(sb: *mut bindings::super_block) {
    // SAFETY: The VFS gives up the superblock.
    unsafe { bindings::kill_block_super(sb) };
    // SAFETY: Nobody uses the superblock or its inodes any more; the data, if it was set, is taken
    // back once.
    unsafe {
        let data = core::mem::replace(&mut (*sb).s_fs_info, null_mut());
        if !data.is_null() {
            drop(Pin::<KBox<T::SuperData>>::from_foreign(data));
        }
    }
}
