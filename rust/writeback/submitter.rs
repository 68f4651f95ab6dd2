// SPDX-License-Identifier: GPL-2.0

//! Building and sending bios.

use super::{
    window::{Window, WindowOps},
    Control,
};
use crate::{
    bindings,
    folio::LockedFolio,
    fs::{FileSystem, INode},
    iomap::{Iomap, Kind},
};
use core::ptr;
use kernel::{error::to_result, ffi, prelude::*, sync::Arc, types::Opaque};

/// What a [`Submitter`] asks of the loop that drives it.
pub trait WritebackOps<T: FileSystem> {
    /// Returns the mapping that covers the byte `pos` of a folio that is being sent; of its dirty
    /// bytes `pos..pos + len`, those within the mapping are sent to where it says.
    ///
    /// The folio is locked and its dirty flag is cleared: what is told to be a hole, and the rest
    /// of the folio after an error, is lost. The loop makes sure beforehand that this does not
    /// happen to data. Starts no journal handle and allocates nothing.
    fn map(&mut self, inode: &INode<T>, pos: u64, len: u64) -> Result<Iomap>;

    /// Whether data of the folio that was sent last had to be left out: [`WritebackOps::map`] told
    /// of a hole instead. All of the folio is then made dirty again before it is unlocked.
    ///
    /// Must not be so for a folio that is not up to date: parts of it hold nothing to be written.
    fn left_out(&mut self) -> bool;
}

/// What became of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing: it has left the page cache of the inode, or is not dirty.
    Nothing,
    /// It was sent; so many pages.
    Pages(u64),
    /// A part was sent; all of it is dirty again, see [`WritebackOps::left_out`].
    Again,
}

/// What a [`Submitter`] sent in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bios.
    pub bios: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Builds bios from folios and sends them.
///
/// There is at most one open bio, which the next folio is added to if it comes next in the file and
/// on the device. Neither it nor an open window may be kept while the task starts a journal handle
/// or waits for a folio that lies before the bio's first: [`Submitter::submit`] and
/// [`Submitter::close_window`] end them, and so does dropping.
///
/// # Invariants
///
/// `context` is initialised; `context.wb_ctx` is null or the open ioend, which is ours.
#[repr(C)]
pub struct Submitter<'a, T: WindowOps, W: WritebackOps<T>> {
    // First, so that a pointer to it is a pointer to the whole.
    context: Opaque<bindings::iomap_writepage_ctx>,
    inode: &'a INode<T>,
    control: &'a mut Control,
    ops: W,
    window: Option<Arc<Window<T>>>,
    counts: Counts,
}

impl<'a, T: WindowOps, W: WritebackOps<T>> Submitter<'a, T, W> {
    const OPS: bindings::iomap_writeback_ops = bindings::iomap_writeback_ops {
        writeback_range: Some(Self::writeback_range),
        writeback_submit: Some(Self::writeback_submit),
    };

    /// A submitter for the folios of `inode`.
    pub fn new(inode: &'a INode<T>, control: &'a mut Control, ops: W) -> Self {
        let context = bindings::iomap_writepage_ctx {
            inode: inode.as_ptr(),
            wbc: control.as_ptr(),
            ops: &Self::OPS,
            ..Default::default()
        };
        // INVARIANT: `wb_ctx` is null.
        Self {
            context: Opaque::new(context),
            inode,
            control,
            ops,
            window: None,
            counts: Counts::default(),
        }
    }

    /// What the call was asked to do.
    pub fn control(&mut self) -> &mut Control {
        self.control
    }

    /// The loop's own part.
    pub fn ops(&mut self) -> &mut W {
        &mut self.ops
    }

    /// What was sent so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Opens a window for unwritten blocks; the one that was open is closed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the payload is dropped.
    pub fn open_window(&mut self, payload: T::Payload) -> Result {
        self.close_window()?;
        self.window = Some(Window::new(self.inode, payload)?);
        Ok(())
    }

    /// Sends the open bio and closes the window, if one is open. If nothing was sent in it, its
    /// payload is dropped.
    pub fn close_window(&mut self) -> Result {
        let result = self.submit();
        if let Some(window) = self.window.take() {
            Window::close(window);
        }
        result
    }

    /// Adds the dirty blocks of a folio to the open bio, sending it and opening others as needed.
    /// The folio is unlocked.
    ///
    /// Waits if the folio is under write-back.
    ///
    /// # Errors
    ///
    /// That of [`WritebackOps::map`] or of a bio that could not be sent. The folio is clean and the
    /// page cache's error is set.
    pub fn send(&mut self, folio: LockedFolio<'_>) -> Result<Sent> {
        if !folio.belongs_to(self.inode.mapping()) {
            return Ok(Sent::Nothing);
        }
        folio.wait_writeback();
        if !folio.clear_dirty_for_io() {
            return Ok(Sent::Nothing);
        }
        let this: *mut Self = self;
        // SAFETY: The folio is in the inode's page cache, locked, not under write-back, and its
        // dirty flag is cleared. The context is ours; the callbacks use it through the same
        // pointer, and `self` is not used until the call returns.
        to_result(unsafe {
            bindings::iomap_writeback_folio((*this).context.get(), folio.as_ptr())
        })?;
        if !self.ops.left_out() {
            return Ok(Sent::Pages(folio.nr_pages()));
        }
        if !folio.is_uptodate() {
            self.inode.mapping().set_error(EIO);
            return Err(EIO);
        }
        folio.mark_dirty();
        Ok(Sent::Again)
    }

    /// Writes `len` bytes from byte `pos` of a folio to byte `disk` of the device, and waits for them.
    /// The folio stays locked, and dirty as it was; what of the range is behind the file's end is
    /// zeroed. No bio is open.
    ///
    /// Waits if the folio is under write-back.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not one of whole sectors in the folio, or a bio is open; the device's
    /// errors.
    pub fn write_part(&mut self, folio: &LockedFolio<'_>, pos: u64, len: u64, disk: u64) -> Result {
        // SAFETY: The context is ours and initialised.
        if unsafe { !(*self.context.get()).wb_ctx.is_null() } {
            return Err(EINVAL);
        }
        folio.wait_writeback();
        folio.write_part(self.inode, self.control, pos, len, disk)?;
        self.counts.bios = self.counts.bios.saturating_add(1);
        self.counts.bytes = self.counts.bytes.saturating_add(len);
        Ok(())
    }

    /// Sends the open bio, if there is one.
    pub fn submit(&mut self) -> Result {
        let context = self.context.get();
        // SAFETY: The context is ours and initialised; if there is an open ioend it is ours too.
        unsafe {
            if (*context).wb_ctx.is_null() {
                return Ok(());
            }
            let this: *mut Self = self;
            let error = Self::writeback_submit((*this).context.get(), 0);
            // The ioend belongs to its end function now.
            (*(*this).context.get()).wb_ctx = ptr::null_mut();
            to_result(error)
        }
    }

    /// # Safety
    ///
    /// Called by iomap, or by us, within a call of `&mut self`: `context` is that of a `Self`, and
    /// no reference to the `Self` is in use.
    unsafe extern "C" fn writeback_range(
        context: *mut bindings::iomap_writepage_ctx,
        folio: *mut bindings::folio,
        pos: u64,
        len: ffi::c_uint,
        end_pos: u64,
    ) -> isize {
        // SAFETY: By the function's requirements and `repr(C)`, this is the `Self`.
        if let Err(error) = unsafe { (*context.cast::<Self>()).map(pos, len.into()) } {
            return error.to_errno() as isize;
        }
        // SAFETY: The mapping in the context covers `pos` and is of a kind that the callee knows;
        // the folio is locked and under write-back. It may call `writeback_submit`.
        unsafe { bindings::iomap_add_to_ioend(context, folio, pos as i64, end_pos as i64, len) }
    }

    /// Puts the mapping for the byte `pos` into the context.
    fn map(&mut self, pos: u64, len: u64) -> Result {
        let map = self.ops.map(self.inode, pos, len)?;
        if map.kind == Kind::Delalloc {
            // It has no address to send to.
            return Err(EIO);
        }
        // SAFETY: The context is ours and initialised.
        let out = unsafe { &mut (*self.context.get()).iomap };
        map.fill(self.inode, pos, out)
    }

    /// # Safety
    ///
    /// As for [`Self::writeback_range`]; `wb_ctx` is the open ioend. It passes to its end function.
    unsafe extern "C" fn writeback_submit(
        context: *mut bindings::iomap_writepage_ctx,
        mut error: ffi::c_int,
    ) -> ffi::c_int {
        // SAFETY: By the function's requirements and `repr(C)`, this is the `Self`, and the ioend
        // is ours.
        unsafe {
            let this = &mut *context.cast::<Self>();
            let ioend: *mut bindings::iomap_ioend = (*context).wb_ctx.cast();
            bindings::bio_clear_sync(&raw mut (*ioend).io_bio);
            if u32::from((*ioend).io_flags) & bindings::IOMAP_IOEND_UNWRITTEN != 0 {
                match &this.window {
                    Some(window) => Window::attach(window, ioend),
                    // What nobody converts reads as zeros later: it must count as failed.
                    None => error = EIO.to_errno(),
                }
            }
            this.counts.bios = this.counts.bios.saturating_add(1);
            let bytes = u64::from((*ioend).io_bio.bi_iter.bi_size);
            this.counts.bytes = this.counts.bytes.saturating_add(bytes);
            bindings::iomap_ioend_writeback_submit(context, error)
        }
    }
}

impl<T: WindowOps, W: WritebackOps<T>> Drop for Submitter<'_, T, W> {
    fn drop(&mut self) {
        if let Err(error) = self.close_window() {
            self.inode.mapping().set_error(error);
        }
    }
}
