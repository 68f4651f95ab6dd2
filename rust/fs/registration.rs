// SPDX-License-Identifier: GPL-2.0

//! Registering a filesystem type, and mounting.

use super::{inode::InodeSlot, inode::SlotOps, super_block, FileSystem};
use crate::{bindings, sysfs::Root};
use core::{marker::PhantomData, mem::size_of};
use kernel::{error::to_result, ffi, prelude::*, types::Opaque};

/// A registered filesystem type; unregistered when dropped.
///
/// # Invariants
///
/// `fs` is registered and `cache` holds the inodes of its mounts.
#[pin_data(PinnedDrop)]
pub struct Registration<T: FileSystem> {
    #[pin]
    fs: Opaque<bindings::file_system_type>,
    cache: *mut bindings::kmem_cache,
    sysfs: Root,
    _fs: PhantomData<T>,
}

// SAFETY: The registration is only made and dropped; the C side locks.
unsafe impl<T: FileSystem> Send for Registration<T> {}
// SAFETY: As above: a shared reference gives access to nothing.
unsafe impl<T: FileSystem> Sync for Registration<T> {}

/// The inode cache of a registered filesystem.
///
/// # Safety
///
/// `fs` is the `file_system_type` inside a live `Registration<T>`.
pub(super) unsafe fn inode_cache<T: FileSystem>(
    fs: *mut bindings::file_system_type,
) -> *mut bindings::kmem_cache {
    // SAFETY: By the contract `fs` is the field of a registration.
    unsafe { (*kernel::container_of!(Opaque::cast_from(fs), Registration<T>, fs)).cache }
}

/// The directory of the filesystem type under `/sys/fs/`.
///
/// # Safety
///
/// As for [`inode_cache`]; the registration lives for all of `'a`.
pub(crate) unsafe fn sysfs_root<'a, T: FileSystem>(
    fs: *mut bindings::file_system_type,
) -> &'a Root {
    // SAFETY: By the contract `fs` is the field of a registration.
    unsafe { &(*kernel::container_of!(Opaque::cast_from(fs), Registration<T>, fs)).sysfs }
}

impl<T: FileSystem> Registration<T> {
    /// Registers the filesystem type on behalf of `module`.
    pub fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // First: unlike the cache it goes by itself if a later step fails.
            sysfs: Root::new(T::NAME)?,
            cache: Self::new_cache()?,
            fs <- Opaque::try_ffi_init(move |slot: *mut bindings::file_system_type| {
                // SAFETY: `slot` is memory for one `file_system_type`; all zeroes is a valid one.
                unsafe {
                    slot.write_bytes(0, 1);
                    (*slot).name = T::NAME.as_char_ptr();
                    (*slot).fs_flags = (bindings::FS_REQUIRES_DEV
                        | bindings::FS_ALLOW_IDMAP
                        | bindings::FS_MGTIME) as ffi::c_int;
                    (*slot).owner = module.as_ptr();
                    (*slot).init_fs_context = Some(super_block::init_fs_context::<T>);
                    (*slot).kill_sb = Some(super_block::kill_sb::<T>);
                }
                Ok::<(), Error>(())
            }),
            _fs: PhantomData,
        })
        .pin_chain(|this| {
            // SAFETY: `fs` is initialised and pinned until it is unregistered in `drop`.
            to_result(unsafe { bindings::register_filesystem(this.fs.get()) })
        })
    }

    /// Makes the slab cache for inodes. It is never merged, so that what is left in it shows.
    fn new_cache() -> Result<*mut bindings::kmem_cache> {
        let mut args: bindings::kmem_cache_args = pin_init::zeroed();
        args.ctor = Some(SlotOps::<T>::init_once);
        let size = u32::try_from(size_of::<InodeSlot<T>>())?;
        // SAFETY: The name is static, the arguments are copied.
        let cache = unsafe {
            bindings::kmem_cache_create_unmerged(T::INODE_CACHE.as_char_ptr(), size, &mut args)
        };
        if cache.is_null() {
            return Err(ENOMEM);
        }
        Ok(cache)
    }
}

#[pinned_drop]
impl<T: FileSystem> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: If registration failed this only returns an error. No mount is left: each pins
        // the module. Inodes freed after a grace period are gone after the barrier.
        unsafe {
            bindings::unregister_filesystem(self.fs.get());
            bindings::rcu_barrier();
            bindings::kmem_cache_destroy(self.cache);
        }
    }
}
