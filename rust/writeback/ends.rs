// SPDX-License-Identifier: GPL-2.0

//! The finished bios of a window.

use crate::bindings;
use core::{marker::PhantomData, ops::Range, pin::Pin, ptr};
use kernel::{container_of, prelude::*, types::Opaque};

/// A chain of finished `iomap_ioend`s, linked through `io_list.next` and ended by null.
///
/// # Invariants
///
/// Each link owns its ioend: the bio is done, nobody else uses it, and its folios are still under
/// write-back.
pub(super) struct EndChain(*mut bindings::list_head);

// SAFETY: The chain owns its ioends, which any task may finish.
unsafe impl Send for EndChain {}

impl EndChain {
    /// An empty chain.
    pub(super) const fn new() -> Self {
        Self(ptr::null_mut())
    }

    /// Whether there is no ioend.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Adds a finished ioend.
    ///
    /// # Safety
    ///
    /// `ioend` is one whose bio is done and that nobody else uses; it passes to the chain.
    pub(super) unsafe fn push(&mut self, ioend: *mut bindings::iomap_ioend) {
        // SAFETY: The ioend is ours. INVARIANT: It becomes the first link.
        unsafe {
            (*ioend).io_list.next = self.0;
            self.0 = &raw mut (*ioend).io_list;
        }
    }

    /// Takes all ioends out.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }
}

/// What was written in a window, in the order of the file.
///
/// # Invariants
///
/// `head` is the head of a list of ioends that this value owns as [`EndChain`] does.
#[pin_data(PinnedDrop)]
pub struct Written {
    #[pin]
    head: Opaque<bindings::list_head>,
    error: i32,
}

impl Written {
    /// Takes the ioends of a chain over and sorts them.
    pub(super) fn new(chain: EndChain) -> impl PinInit<Self> {
        pin_init!(Self {
            head <- Opaque::ffi_init(move |head: *mut bindings::list_head| {
                // SAFETY: `head` is memory for a list head, and pinned from now on.
                unsafe { bindings::INIT_LIST_HEAD(head) };
                let mut link = chain.0;
                while !link.is_null() {
                    // SAFETY: By the invariant of the chain the link is in an ioend that it owns.
                    // It passes to the list. INVARIANT: The list owns it.
                    unsafe {
                        let next = (*link).next;
                        bindings::list_add_tail(link, head);
                        link = next;
                    }
                }
                // SAFETY: The list holds ioends only.
                unsafe { bindings::iomap_sort_ioends(head) };
            }),
            error: 0,
        })
    }

    /// The byte ranges that were written without an error. Neighbours are one range; a range ends
    /// at the file's size as it was when the data was sent, not at the end of a block.
    pub fn ranges(&self) -> Ranges<'_> {
        // SAFETY: `head` was initialised.
        let first = unsafe { (*self.head.get()).next };
        Ranges {
            written: self,
            link: first,
            _written: PhantomData,
        }
    }

    /// The first error of the device, if there was one.
    pub fn io_error(&self) -> Option<Error> {
        let mut link = {
            // SAFETY: `head` was initialised.
            unsafe { (*self.head.get()).next }
        };
        while !ptr::eq(link, self.head.get()) {
            // SAFETY: By the invariant the link is in an ioend that the list owns.
            let ioend = unsafe { &*ioend_of(link) };
            if ioend.io_error != 0 {
                return Some(Error::from_errno(ioend.io_error));
            }
            link = ioend.io_list.next;
        }
        None
    }

    /// Ends the write-back of all folios when `self` is dropped; with `error`, as failed ones.
    pub(super) fn fail(self: Pin<&mut Self>, error: Error) {
        *self.project().error = error.to_errno();
    }
}

#[pinned_drop]
impl PinnedDrop for Written {
    fn drop(self: Pin<&mut Self>) {
        let head = self.head.get();
        loop {
            // SAFETY: `head` was initialised.
            let link = unsafe { (*head).next };
            if ptr::eq(link, head) {
                break;
            }
            // SAFETY: By the invariant the link is in an ioend that the list owns; taken out of the
            // list, it passes to the callee, which frees it.
            unsafe {
                bindings::list_del_init(link);
                bindings::iomap_finish_ioends(ioend_of(link), self.error);
            }
        }
    }
}

/// The ioend that a link is in.
fn ioend_of(link: *mut bindings::list_head) -> *mut bindings::iomap_ioend {
    // SAFETY: Only the field's place is computed; the callers say what `link` is in.
    unsafe { container_of!(link, bindings::iomap_ioend, io_list) }
}

/// Iterator over the ranges of [`Written`].
pub struct Ranges<'a> {
    written: &'a Written,
    link: *mut bindings::list_head,
    _written: PhantomData<&'a Written>,
}

impl Ranges<'_> {
    /// The bytes of the ioend at `link`, `None` at the end of the list; then whether it failed.
    fn peek(&self) -> Option<(Range<u64>, bool)> {
        if ptr::eq(self.link, self.written.head.get()) {
            return None;
        }
        // SAFETY: By the invariant of `Written` the link is in an ioend that the list owns, and
        // the list does not change while it is borrowed.
        let ioend = unsafe { &*ioend_of(self.link) };
        let start = u64::try_from(ioend.io_offset).unwrap_or(0);
        let end = start.saturating_add(ioend.io_size as u64);
        Some((start..end, ioend.io_error != 0))
    }

    fn advance(&mut self) {
        // SAFETY: The link is not the head, so that it has a successor in the list.
        self.link = unsafe { (*self.link).next };
    }
}

impl Iterator for Ranges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let mut range: Option<Range<u64>> = None;
        while let Some((next, failed)) = self.peek() {
            match &mut range {
                Some(range) if failed || next.start != range.end => break,
                Some(range) => range.end = next.end,
                None if failed || next.is_empty() => {}
                None => range = Some(next),
            }
            self.advance();
        }
        range
    }
}
