// SPDX-License-Identifier: GPL-2.0

//! The page cache of one inode.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h)

use crate::{
    bindings,
    folio::{Folio, FolioBatch, PAGE_SHIFT},
    fs::{FileSystem, INode},
};
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
};
use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::aref::ARef,
    types::Opaque,
};

/// The greatest file offset, in bytes.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// A file offset as C has it; what does not fit becomes the greatest one.
pub(crate) fn loff(pos: u64) -> bindings::loff_t {
    i64::try_from(pos).unwrap_or(i64::MAX)
}

/// What a lookup of folios goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The folio is dirty.
    Dirty,
    /// The folio was dirty when [`Mapping::tag_for_writeback`] ran, and nobody sent it since.
    ToWrite,
    /// The folio is being written.
    Writeback,
}

impl Tag {
    fn mark(self) -> bindings::xa_mark_t {
        match self {
            Self::Dirty => bindings::folio_tag_FOLIO_TAG_DIRTY,
            Self::ToWrite => bindings::folio_tag_FOLIO_TAG_TOWRITE,
            Self::Writeback => bindings::folio_tag_FOLIO_TAG_WRITEBACK,
        }
    }
}

/// The page cache of an inode of filesystem `T`.
///
/// # Invariants
///
/// It is the `i_data` of an [`INode<T>`] and lives as long as that.
#[repr(transparent)]
pub struct Mapping<T: FileSystem>(Opaque<bindings::address_space>, PhantomData<T>);

// SAFETY: The page cache is shared between tasks by design and has its own locks.
unsafe impl<T: FileSystem> Send for Mapping<T> {}
// SAFETY: As above.
unsafe impl<T: FileSystem> Sync for Mapping<T> {}

impl<T: FileSystem> Mapping<T> {
    /// Borrows a C mapping.
    ///
    /// # Safety
    ///
    /// `ptr` is the page cache of an inode of filesystem `T` that lives for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::address_space) -> &'a Self {
        // SAFETY: `Mapping` is transparent over `address_space`; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C mapping.
    pub(crate) fn as_ptr(&self) -> *mut bindings::address_space {
        self.0.get()
    }

    /// The inode whose page cache this is.
    pub fn host(&self) -> &INode<T> {
        // SAFETY: By the type invariant `host` is an inode of `T` that lives as long as `self`.
        unsafe { INode::from_raw((*self.as_ptr()).host) }
    }

    /// Finds the next folios with a tag whose index lies in `*cursor..=last` (both in pages), and
    /// moves the cursor behind them. Lets others run first, if they want to.
    pub fn tagged(&self, cursor: &mut u64, last: u64, tag: Tag) -> FolioBatch {
        let mut batch = FolioBatch::new();
        let mut start = *cursor as usize;
        // SAFETY: The mapping is live, the batch is empty. The callee takes a reference to each
        // folio that it puts in.
        unsafe {
            bindings::cond_resched();
            bindings::filemap_get_folios_tag(
                self.as_ptr(),
                &raw mut start,
                last as usize,
                tag.mark(),
                batch.as_mut_ptr(),
            )
        };
        *cursor = start as u64;
        batch
    }

    /// Gives each dirty folio in `first..=last` (pages) the tag [`Tag::ToWrite`], so that a pass
    /// over them ends however fast others make new ones dirty.
    pub fn tag_for_writeback(&self, first: u64, last: u64) {
        // SAFETY: The mapping is live.
        unsafe { bindings::tag_pages_for_writeback(self.as_ptr(), first as usize, last as usize) };
    }

    /// Whether any folio of the mapping has the tag.
    pub fn has_tagged(&self, tag: Tag) -> bool {
        // SAFETY: The mapping is live.
        unsafe { bindings::mapping_tagged(self.as_ptr(), tag.mark()) }
    }

    /// Records that writing failed; the next `fsync` of each open file reports it.
    pub fn set_error(&self, error: Error) {
        // SAFETY: The mapping is live.
        unsafe { bindings::mapping_set_error(self.as_ptr(), error.to_errno()) };
    }

    /// Reads the folio with the page `index` in, as far as it is not in yet, and waits for it. No
    /// folio lock is held.
    pub fn read_in(&self, index: u64) -> Result {
        // SAFETY: The mapping is live. The callee returns a reference to the folio.
        let folio = from_err_ptr(unsafe {
            bindings::read_cache_folio(self.as_ptr(), index as usize, None, ptr::null_mut())
        })?;
        // SAFETY: The reference is ours to give up.
        unsafe { bindings::folio_put(folio) };
        Ok(())
    }

    /// The folio with the page `index`, if there is one.
    pub fn folio(&self, index: u64) -> Option<ARef<Folio>> {
        // SAFETY: The mapping is live. Without flags the callee makes no folio, and returns a
        // reference to the one that it finds.
        let folio = from_err_ptr(unsafe { bindings::find_folio(self.as_ptr(), index as usize) });
        let folio = NonNull::new(folio.ok()?)?;
        // SAFETY: The reference is ours, and `Folio` is transparent.
        Some(unsafe { ARef::from_raw(folio.cast()) })
    }

    /// Starts write-back of what is dirty, without waiting for it.
    pub fn start_writeback(&self) -> Result {
        // SAFETY: The mapping is live.
        to_result(unsafe { bindings::filemap_flush(self.as_ptr()) })
    }

    /// Writes the dirty folios that overlap the bytes `start..end` and waits for them.
    pub fn write_and_wait_range(&self, start: u64, end: u64) -> Result {
        self.with_range(start, end, |first, last| {
            // SAFETY: The mapping is live.
            to_result(unsafe { bindings::filemap_write_and_wait_range(self.as_ptr(), first, last) })
        })
    }

    /// Starts writing the dirty folios that overlap the bytes `start..end`, for integrity: none
    /// of those that are dirty now is passed over.
    pub fn write_range(&self, start: u64, end: u64) -> Result {
        self.with_range(start, end, |first, last| {
            // SAFETY: The mapping is live.
            to_result(unsafe { bindings::filemap_fdatawrite_range(self.as_ptr(), first, last) })
        })
    }

    /// Starts writing the whole file, without waiting for anything.
    pub fn flush(&self) -> Result {
        // SAFETY: The mapping is live.
        to_result(unsafe { bindings::filemap_flush(self.as_ptr()) })
    }

    /// Waits for the folios under write-back that overlap the bytes `start..end`.
    pub fn wait_range(&self, start: u64, end: u64) -> Result {
        self.with_range(start, end, |first, last| {
            // SAFETY: The mapping is live.
            to_result(unsafe { bindings::filemap_fdatawait_range(self.as_ptr(), first, last) })
        })
    }

    /// Drops the folios that overlap the bytes `start..end`, dirty ones with their data. Waits for
    /// those that are being written.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a folio could not be dropped.
    pub fn invalidate_range(&self, start: u64, end: u64) -> Result {
        self.with_range(start, end, |first, last| {
            // SAFETY: The mapping is live.
            to_result(unsafe {
                bindings::invalidate_inode_pages2_range(
                    self.as_ptr(),
                    (first as usize) >> PAGE_SHIFT,
                    (last as usize) >> PAGE_SHIFT,
                )
            })
        })
    }

    /// Takes the bytes `start..end` out of the page cache, dirty or not, as a truncation does:
    /// whole folios are dropped, the rest of a folio at an edge is zeroed.
    pub fn drop_range(&self, start: u64, end: u64) {
        let _ = self.with_range(start, end, |first, last| {
            // SAFETY: The mapping is live and its host is the inode.
            unsafe { bindings::truncate_pagecache_range(self.host().as_ptr(), first, last) };
            Ok(())
        });
    }

    /// Takes everything from byte `size` on out of the page cache. The inode's size is set first.
    pub fn truncate_pagecache(&self, size: u64) {
        // SAFETY: The mapping is live and its host is the inode.
        unsafe { bindings::truncate_pagecache(self.host().as_ptr(), loff(size)) };
    }

    /// Tells the page cache that the file grew from size `from` to size `to`: the folio over the
    /// old end is write-protected, so that the next store to it faults.
    pub fn size_extended(&self, from: u64, to: u64) {
        // SAFETY: The mapping is live and its host is the inode.
        unsafe {
            bindings::pagecache_isize_extended(self.host().as_ptr(), loff(from), loff(to));
        }
    }

    /// Lets the page cache use folios of `1 << min` to `1 << max` pages, and keeps its allocations
    /// from entering a filesystem to free memory. For an inode being made or read.
    pub fn set_large_folios(&self, min: u32, max: u32) {
        // SAFETY: The mapping is live; the callee clips both to what the page cache can do.
        unsafe {
            bindings::mapping_set_folio_order_range(self.as_ptr(), min, max);
            bindings::mapping_set_nofs(self.as_ptr());
        }
    }

    /// The size in bytes of the largest folio that the mapping can hold; a power of two.
    pub fn max_folio_size(&self) -> u64 {
        // SAFETY: The mapping is live.
        unsafe { bindings::mapping_max_folio_size(self.as_ptr()) as u64 }
    }

    /// Where the last cyclic pass of write-back stopped, in pages.
    pub fn writeback_index(&self) -> u64 {
        // SAFETY: The mapping is live. The field is a hint: racing passes may each see the other's.
        unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).writeback_index) as u64 }
    }

    /// Sets where the next cyclic pass begins, in pages.
    pub fn set_writeback_index(&self, index: u64) {
        // SAFETY: As in `writeback_index`.
        unsafe {
            core::ptr::write_volatile(&raw mut (*self.as_ptr()).writeback_index, index as usize)
        };
    }

    /// Keeps page faults from bringing folios in, until the guard is dropped.
    pub fn invalidate_lock(&self) -> InvalidateLock<'_, T> {
        // SAFETY: The mapping is live.
        unsafe { bindings::filemap_invalidate_lock(self.as_ptr()) };
        InvalidateLock {
            mapping: self,
            shared: false,
            _not_send: PhantomData,
        }
    }

    /// Keeps others from taking [`Mapping::invalidate_lock`], until the guard is dropped.
    pub fn invalidate_lock_shared(&self) -> InvalidateLock<'_, T> {
        // SAFETY: The mapping is live.
        unsafe { bindings::filemap_invalidate_lock_shared(self.as_ptr()) };
        InvalidateLock {
            mapping: self,
            shared: true,
            _not_send: PhantomData,
        }
    }

    /// Calls `f` with a range as C has it, the last byte included, unless it is empty.
    fn with_range(
        &self,
        start: u64,
        end: u64,
        f: impl FnOnce(bindings::loff_t, bindings::loff_t) -> Result,
    ) -> Result {
        match end.checked_sub(1) {
            Some(last) if start <= last && start <= MAX_OFFSET => f(loff(start), loff(last)),
            _ => Ok(()),
        }
    }
}

/// A mapping's `invalidate_lock`, held.
pub struct InvalidateLock<'a, T: FileSystem> {
    mapping: &'a Mapping<T>,
    shared: bool,
    _not_send: PhantomData<*mut ()>,
}

impl<T: FileSystem> Drop for InvalidateLock<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The guard's maker took the lock in this mode, and the guard is not `Send`.
        unsafe {
            if self.shared {
                bindings::filemap_invalidate_unlock_shared(self.mapping.as_ptr());
            } else {
                bindings::filemap_invalidate_unlock(self.mapping.as_ptr());
            }
        }
    }
}
