// SPDX-License-Identifier: GPL-2.0

//! A cache that finds blocks by a hash of their content, so that equal ones can be shared.
//!
//! C header: [`include/linux/mbcache.h`](srctree/include/linux/mbcache.h)

use crate::bindings;
use core::{mem::ManuallyDrop, ptr::NonNull};
use kernel::{error::to_result, ffi, prelude::*};

/// A cache of keys and values. Keys are hashes and may be equal; pairs of key and value are
/// unique. Entries go when memory is short.
///
/// # Examples
///
/// ```ignore
/// let cache = MbCache::new(10)?;
/// cache.insert(hash, block, true);
/// let mut candidate = cache.find(hash);
/// while let Some(entry) = candidate {
///     if equal(entry.value()) {
///         break;
///     }
///     candidate = entry.next();
/// }
/// ```
///
/// # Invariants
///
/// The cache is live. Entries borrow it: when it is dropped nobody has one.
pub struct MbCache(NonNull<bindings::mb_cache>);

// SAFETY: The cache has locks of its own, and no tie to a task.
unsafe impl Send for MbCache {}
// SAFETY: As above.
unsafe impl Sync for MbCache {}

/// What became of an entry that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is not in the cache.
    Gone,
    /// Somebody has it, and may be about to use what it stands for. It stays.
    InUse,
}

impl MbCache {
    /// Makes a cache with `1 << bucket_bits` buckets. `bucket_bits` is at most 16. Sleeps.
    pub fn new(bucket_bits: u8) -> Result<Self> {
        if bucket_bits > 16 {
            return Err(EINVAL);
        }
        // SAFETY: Allocates and registers; no preconditions.
        let ptr = unsafe { bindings::mb_cache_create(ffi::c_int::from(bucket_bits)) };
        // INVARIANT: Just made.
        NonNull::new(ptr).map(Self).ok_or(ENOMEM)
    }

    /// Adds an entry unless it is there; only a `reusable` one is found. It is a cache: if memory is
    /// short there will be none. Sleeps, but starts no write-back.
    pub fn insert(&self, key: u32, value: u64, reusable: bool) {
        // SAFETY: The cache is live. EBUSY says that the entry is there, ENOMEM that it could not
        // be made.
        let _ = to_result(unsafe {
            bindings::mb_cache_entry_create_nofs(self.0.as_ptr(), key, value, reusable)
        });
    }

    /// The first reusable entry with this key. Does not sleep.
    pub fn find(&self, key: u32) -> Option<MbEntry<'_>> {
        // SAFETY: The cache is live.
        let entry = unsafe { bindings::mb_cache_entry_find_first(self.0.as_ptr(), key) };
        // SAFETY: A reference to an entry of this cache, or null.
        unsafe { MbEntry::from_raw(self, entry) }
    }

    /// The entry with this key and value, reusable or not. Does not sleep.
    pub fn get(&self, key: u32, value: u64) -> Option<MbEntry<'_>> {
        // SAFETY: The cache is live.
        let entry = unsafe { bindings::mb_cache_entry_get(self.0.as_ptr(), key, value) };
        // SAFETY: A reference to an entry of this cache, or null.
        unsafe { MbEntry::from_raw(self, entry) }
    }

    /// Removes the entry with this key and value unless somebody has it. Does not sleep: may be
    /// called under a spinlock, so that whoever finds what it stands for unchanged under the same
    /// lock knows that it still may be used.
    pub fn remove(&self, key: u32, value: u64) -> Removal {
        // SAFETY: The cache is live.
        let entry = unsafe { bindings::mb_cache_entry_delete_or_get(self.0.as_ptr(), key, value) };
        // SAFETY: A reference to an entry of this cache, or null. It is given up at once.
        match unsafe { MbEntry::from_raw(self, entry) } {
            Some(_) => Removal::InUse,
            None => Removal::Gone,
        }
    }
}

impl Drop for MbCache {
    fn drop(&mut self) {
        // SAFETY: By the invariant nobody has an entry, and this is the last use of the cache.
        unsafe { bindings::mb_cache_destroy(self.0.as_ptr()) };
    }
}

/// An entry of a cache. While somebody has it, it is not removed.
///
/// # Invariants
///
/// `entry` is one of `cache`'s, and a reference to it is ours.
pub struct MbEntry<'a> {
    cache: &'a MbCache,
    entry: NonNull<bindings::mb_cache_entry>,
}

impl<'a> MbEntry<'a> {
    /// Takes over a reference, if there is one.
    ///
    /// # Safety
    ///
    /// `entry` is null, or an entry of `cache` with a reference that is the caller's to give.
    unsafe fn from_raw(cache: &'a MbCache, entry: *mut bindings::mb_cache_entry) -> Option<Self> {
        // INVARIANT: By the caller's promise.
        NonNull::new(entry).map(|entry| Self { cache, entry })
    }

    /// The value.
    pub fn value(&self) -> u64 {
        // SAFETY: The entry is live, its value constant.
        unsafe { (*self.entry.as_ptr()).e_value }
    }

    /// The next reusable entry with the same key, instead of this one. Does not sleep.
    pub fn next(self) -> Option<Self> {
        let me = ManuallyDrop::new(self);
        // SAFETY: Cache and entry are live; our reference goes to the callee.
        let entry =
            unsafe { bindings::mb_cache_entry_find_next(me.cache.0.as_ptr(), me.entry.as_ptr()) };
        // SAFETY: A reference to an entry of this cache, or null.
        unsafe { Self::from_raw(me.cache, entry) }
    }

    /// Says whether [`MbCache::find`] may find the entry. Does not sleep.
    pub fn set_reusable(&self, reusable: bool) {
        // SAFETY: The entry is live; the bit is changed atomically.
        unsafe { bindings::mb_cache_entry_set_reusable(self.entry.as_ptr(), reusable) };
    }

    /// Notes that the entry was of use, so that it stays longer. Does not sleep.
    pub fn touch(&self) {
        // SAFETY: Cache and entry are live.
        unsafe { bindings::mb_cache_entry_touch(self.cache.0.as_ptr(), self.entry.as_ptr()) };
    }
}

impl Drop for MbEntry<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant the reference is ours.
        unsafe {
            bindings::mb_cache_entry_put(self.cache.0.as_ptr(), self.entry.as_ptr());
        }
    }
}
