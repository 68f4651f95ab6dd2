// SPDX-License-Identifier: GPL-2.0

//! Folios: the units of the page cache.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h)

use crate::{
    bindings,
    fs::{FileSystem, INode},
    mapping::Mapping,
    writeback::Control,
};
use core::{marker::PhantomData, ops::Deref, ptr::NonNull};
use kernel::{error::to_result, prelude::*, sync::aref::AlwaysRefCounted, types::Opaque};

/// The size in bytes of one page, the unit of a folio's index.
pub const PAGE_SIZE: u64 = kernel::page::PAGE_SIZE as u64;

/// The binary logarithm of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();

/// A folio of a page cache.
///
/// A reference keeps the memory from being reused. It does not keep the folio in its mapping:
/// only the folio lock does, see [`LockedFolio`].
///
/// # Invariants
///
/// The folio's reference count is above zero while a Rust reference to it exists.
#[repr(transparent)]
pub struct Folio(Opaque<bindings::folio>);

// SAFETY: Folios are shared between tasks by design; the accessors read fields that do not change
// while a reference is held, or atomic flags.
unsafe impl Send for Folio {}
// SAFETY: As above.
unsafe impl Sync for Folio {}

// SAFETY: `folio_get` and `folio_put` count the folio's references.
unsafe impl AlwaysRefCounted for Folio {
    fn inc_ref(&self) {
        // SAFETY: A shared reference exists, so the count is not zero.
        unsafe { bindings::folio_get(self.as_ptr()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference and gives it up.
        unsafe { bindings::folio_put(obj.as_ptr().cast()) };
    }
}

impl Folio {
    /// Borrows a C folio.
    ///
    /// # Safety
    ///
    /// Somebody holds a reference to the folio at `ptr` for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::folio) -> &'a Self {
        // SAFETY: `Folio` is transparent over `folio`; the caller vouches for the reference.
        unsafe { &*ptr.cast() }
    }

    /// The C folio.
    pub(crate) fn as_ptr(&self) -> *mut bindings::folio {
        self.0.get()
    }

    /// The index of the folio's first page in the file.
    pub fn index(&self) -> u64 {
        // SAFETY: A reference is held: the index is set before the folio enters the page cache and
        // stays when it leaves.
        unsafe { bindings::folio_index(self.as_ptr()) as u64 }
    }

    /// Where the folio begins in the file, in bytes.
    pub fn pos(&self) -> u64 {
        self.index() << PAGE_SHIFT
    }

    /// How many pages the folio has. Stable only while the folio is locked: a split makes it
    /// smaller.
    pub fn nr_pages(&self) -> u64 {
        // SAFETY: A reference is held.
        unsafe { bindings::folio_nr_pages(self.as_ptr()) as u64 }
    }

    /// The folio's size in bytes. Stable only while the folio is locked.
    pub fn size(&self) -> u64 {
        self.nr_pages() << PAGE_SHIFT
    }

    /// Whether the whole folio has been read or written since it entered the page cache.
    pub fn is_uptodate(&self) -> bool {
        // SAFETY: A reference is held; the flag is atomic.
        unsafe { bindings::folio_test_uptodate(self.as_ptr()) }
    }

    /// Whether some of the folio is to be written. Stable only while the folio is locked.
    pub fn is_dirty(&self) -> bool {
        // SAFETY: A reference is held; the flag is atomic.
        unsafe { bindings::folio_test_dirty(self.as_ptr()) }
    }

    /// Whether the folio is being written.
    pub fn is_writeback(&self) -> bool {
        // SAFETY: A reference is held; the flag is atomic.
        unsafe { bindings::folio_test_writeback(self.as_ptr()) }
    }

    /// Waits until the folio is not being written.
    pub fn wait_writeback(&self) {
        // SAFETY: A reference is held.
        unsafe { bindings::folio_wait_writeback(self.as_ptr()) };
    }

    /// Locks the folio; may sleep.
    pub fn lock(&self) -> LockedFolio<'_> {
        // SAFETY: A reference is held.
        unsafe { bindings::folio_lock(self.as_ptr()) };
        // INVARIANT: The lock was just taken.
        LockedFolio {
            folio: self,
            _not_send: PhantomData,
        }
    }
}

/// A locked folio: nobody else truncates, splits or migrates it. Unlocks on drop.
///
/// # Invariants
///
/// The folio is locked, by whoever holds this value, until the value is dropped.
pub struct LockedFolio<'a> {
    folio: &'a Folio,
    // The lock is the task's, and lockdep's annotations are kept by task.
    _not_send: PhantomData<*mut ()>,
}

impl LockedFolio<'_> {
    /// Whether the folio is in this page cache. It is not after a truncation.
    pub fn belongs_to<T: FileSystem>(&self, mapping: &Mapping<T>) -> bool {
        // SAFETY: The folio is locked, so that `mapping` does not change.
        unsafe { bindings::folio_mapping_raw(self.as_ptr()) == mapping.as_ptr() }
    }

    /// Where the folio ends in the file, in bytes.
    pub fn end(&self) -> u64 {
        self.pos().saturating_add(self.size())
    }

    /// Clears the dirty flag and write-protects the folio where it is mapped, for sending it.
    /// The tags in the page cache stay until write-back starts or the folio is made dirty again.
    /// Returns whether it was dirty.
    pub(crate) fn clear_dirty_for_io(&self) -> bool {
        // SAFETY: The folio is locked.
        unsafe { bindings::folio_clear_dirty_for_io(self.as_ptr()) }
    }

    /// Makes all of the folio dirty, which is up to date.
    pub(crate) fn mark_dirty(&self) {
        // SAFETY: The folio is locked, so that it stays in its page cache.
        unsafe { bindings::folio_mark_dirty(self.as_ptr()) };
    }

    /// Writes `len` bytes from byte `pos` of the file to byte `disk` of the device that the volume is
    /// on, and waits for them. What of them is behind the file's end is zeroed first. The folio stays
    /// dirty as it was, all of its blocks; it is write-protected where it is mapped, so that nobody
    /// changes it meanwhile. It is not under write-back.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not one of whole sectors of this folio, or the folio is not one of
    /// `inode`; `EIO` and others of the device.
    pub(crate) fn write_part<T: FileSystem>(
        &self,
        inode: &INode<T>,
        control: &mut Control,
        pos: u64,
        len: u64,
        disk: u64,
    ) -> Result {
        const SECTOR: u64 = 512;
        let end = pos.checked_add(len).ok_or(EINVAL)?;
        let aligned = [pos, len, disk].iter().all(|n| n % SECTOR == 0);
        if !aligned || len == 0 || pos < self.pos() || end > self.end() {
            return Err(EINVAL);
        }
        if !self.belongs_to(inode.mapping()) {
            return Err(EINVAL);
        }
        let (offset, len) = ((pos - self.pos()) as usize, len as usize);
        // SAFETY: The folio is locked, in the inode's page cache, and both live. The range lies in
        // the folio. Whole sectors of it go to the inode's device, which checks the address.
        to_result(unsafe {
            bindings::folio_write_part(
                self.as_ptr(),
                inode.as_ptr(),
                control.as_ptr(),
                offset,
                len,
                disk / SECTOR,
            )
        })
    }

    /// Takes the folio out of the page cache, with the data in it, and unmaps it. It is that of a
    /// regular file.
    pub fn discard<T: FileSystem>(self, mapping: &Mapping<T>) {
        if !self.belongs_to(mapping) {
            return;
        }
        self.wait_writeback();
        // SAFETY: The folio is locked, in this page cache, and not under write-back.
        unsafe { bindings::generic_error_remove_folio(mapping.as_ptr(), self.as_ptr()) };
    }
}

impl Deref for LockedFolio<'_> {
    type Target = Folio;
    fn deref(&self) -> &Folio {
        self.folio
    }
}

impl Drop for LockedFolio<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant the folio is locked and the lock is ours.
        unsafe { bindings::folio_unlock(self.folio.as_ptr()) };
    }
}

/// A small batch of folios that a lookup found, each with a reference.
///
/// # Invariants
///
/// The first `nr` entries point to folios, and the batch owns one reference to each.
pub struct FolioBatch(bindings::folio_batch);

// SAFETY: The batch owns references; they may be dropped by any task.
unsafe impl Send for FolioBatch {}

impl FolioBatch {
    /// An empty batch.
    pub(crate) fn new() -> Self {
        // INVARIANT: `nr` is zero.
        Self(bindings::folio_batch::default())
    }

    /// The C batch, for a lookup to fill.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut bindings::folio_batch {
        &raw mut self.0
    }

    /// How many folios there are.
    pub fn len(&self) -> usize {
        usize::from(self.0.nr)
    }

    /// Whether the lookup found nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The folios, in the order of their index.
    pub fn iter(&self) -> impl Iterator<Item = &Folio> {
        self.0
            .folios
            .iter()
            .take(self.len())
            // SAFETY: By the invariant each of them is a folio that the batch holds a reference to.
            .map(|&ptr| unsafe { Folio::from_raw(ptr) })
    }
}

impl Drop for FolioBatch {
    fn drop(&mut self) {
        if !self.is_empty() {
            // SAFETY: By the invariant the batch owns a reference to each entry.
            unsafe { bindings::__folio_batch_release(&raw mut self.0) };
        }
    }
}
