// SPDX-License-Identifier: GPL-2.0

//! What a call of `writepages` is asked to do.

use crate::{
    bindings,
    folio::PAGE_SHIFT,
    fs::{FileSystem, INode},
    mapping::loff,
};
use kernel::types::Opaque;

/// How much to write, where, and with what promise.
///
/// # Invariants
///
/// A reference to it is the only one for as long as it exists.
#[repr(transparent)]
pub struct Control(Opaque<bindings::writeback_control>);

impl Control {
    /// Borrows a C control.
    ///
    /// # Safety
    ///
    /// `ptr` points to a control that lives, and is used by nobody else, for all of `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::writeback_control) -> &'a mut Self {
        // SAFETY: `Control` is transparent; the caller vouches for the rest.
        unsafe { &mut *ptr.cast() }
    }

    /// Calls `f` with a control of its own, for integrity: all of the bytes `start` to `end`
    /// (inclusive) of a file, with no limit. Charged as the file's write-back is.
    pub fn with_integrity<T: FileSystem, R>(
        inode: &INode<T>,
        start: u64,
        end: u64,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let raw = Opaque::<bindings::writeback_control>::uninit();
        // SAFETY: `raw` is ours and stays in this frame; the inode is live. The callee initialises
        // all of it and takes a reference that is given back below.
        unsafe {
            bindings::init_integrity_control(raw.get(), inode.as_ptr(), loff(start), loff(end));
        }
        // SAFETY: It is initialised, and used through this reference alone until `f` returns.
        let result = f(unsafe { Self::from_raw(raw.get()) });
        // SAFETY: Initialised above, and given up once.
        unsafe { bindings::release_control(raw.get()) };
        result
    }

    /// The C control.
    pub(crate) fn as_ptr(&mut self) -> *mut bindings::writeback_control {
        self.0.get()
    }

    fn raw(&self) -> &bindings::writeback_control {
        // SAFETY: By the type invariant nobody changes it while `self` is borrowed.
        unsafe { &*self.0.get() }
    }

    fn raw_mut(&mut self) -> &mut bindings::writeback_control {
        // SAFETY: By the type invariant `self` is the only reference.
        unsafe { &mut *self.0.get() }
    }

    /// Whether the call is for integrity: everything that is dirty at its start is written, and
    /// folios under write-back that were made dirty again are waited for and written once more.
    pub fn is_sync(&self) -> bool {
        self.raw().sync_mode == bindings::writeback_sync_modes_WB_SYNC_ALL
    }

    /// Whether to write only what was dirty when the call began, though it is not for integrity.
    pub fn is_tagged(&self) -> bool {
        self.raw().tagged_writepages() != 0
    }

    /// Whether to go on where the last such call stopped, over the whole file.
    pub fn is_cyclic(&self) -> bool {
        self.raw().range_cyclic() != 0
    }

    /// The index of the first page of the range to write. Nothing for a cyclic call.
    pub fn first_index(&self) -> u64 {
        u64::try_from(self.raw().range_start).unwrap_or(0) >> PAGE_SHIFT
    }

    /// The index of the last page of the range to write. Nothing for a cyclic call.
    pub fn last_index(&self) -> u64 {
        u64::try_from(self.raw().range_end).unwrap_or(0) >> PAGE_SHIFT
    }

    /// How many pages are still to be written; below zero when it was more than asked for.
    pub fn budget(&self) -> i64 {
        self.raw().nr_to_write as i64
    }

    /// Counts pages as written.
    pub fn spend(&mut self, pages: u64) {
        let pages = isize::try_from(pages).unwrap_or(isize::MAX);
        let raw = self.raw_mut();
        raw.nr_to_write = raw.nr_to_write.saturating_sub(pages);
    }
}
