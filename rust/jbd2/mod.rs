// SPDX-License-Identifier: GPL-2.0

//! The journal: jbd2, the log that ext4 and ocfs2 share.
//!
//! A [`Journal`] is loaded from the inode that holds it. Metadata changes only under a [`Handle`],
//! which promises jbd2 a number of blocks (credits) beforehand; what handles of the same moment
//! change becomes one transaction, and reaches the disk whole or not at all. A [`ReservedHandle`]
//! keeps log space for a change that has to be possible later, where waiting for the log is not.
//!
//! # Lifetime
//!
//! jbd2 frees the journal in [`Journal::destroy`], while references to the [`Journal`] may exist.
//! Each thing that uses the C journal (a handle, a reserved handle, an inode attached to a
//! transaction, a call in progress) therefore holds a *use*. Destroying first closes the journal,
//! so that no new use begins, and then waits for the last one to end.
//!
//! C header: [`include/linux/jbd2.h`](srctree/include/linux/jbd2.h)

mod handle;
mod inode;
mod journal;

pub use self::handle::{Handle, ReservedHandle};
pub(crate) use self::inode::JbdInode;
pub use self::inode::OrderedData;
pub use self::journal::{Features, Journal, Options, Params, UpdatesLock};

use self::journal::Claim;
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc, Completion,
    },
};

/// The number of a transaction. Numbers wrap: they have an order only among those of one journal
/// that lie near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid(pub(self) u32);

impl Tid {
    /// The number, to be kept in an atomic.
    pub fn to_raw(self) -> u32 {
        self.0
    }

    /// The transaction of a number from [`Tid::to_raw`].
    pub fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
}

/// A C journal and how many use it.
#[pin_data]
struct Inner {
    /// Freed by [`Inner::close`]'s caller; valid for everybody who holds a use.
    ptr: NonNull<bindings::journal_t>,
    /// The number of uses, and [`CLOSED`].
    state: Atomic<i32>,
    /// The last use ended after the journal was closed.
    #[pin]
    idle: Completion,
    /// Nobody else loads a journal on the volume, as long as anybody knows this one.
    _claim: Claim,
}

/// The bit of [`Inner::state`] that shuts out new uses.
const CLOSED: i32 = 1 << 30;

// SAFETY: jbd2 locks its own state, and the pointer is used only while a use is held.
unsafe impl Send for Inner {}
// SAFETY: As above.
unsafe impl Sync for Inner {}

impl Inner {
    fn new(ptr: NonNull<bindings::journal_t>, claim: Claim) -> impl PinInit<Self> {
        pin_init!(Self {
            ptr,
            state: Atomic::new(0),
            idle <- Completion::new(),
            _claim: claim,
        })
    }

    /// Begins a use, unless the journal is closed.
    fn enter(&self) -> Option<Use<'_>> {
        let mut old = self.state.load(Relaxed);
        loop {
            if old >= CLOSED - 1 {
                return None;
            }
            match self.state.cmpxchg(old, old + 1, Full) {
                Ok(_) => return Some(Use(self)),
                Err(now) => old = now,
            }
        }
    }

    /// Ends a use.
    fn leave(&self) {
        if self.state.fetch_sub(1, Full) == CLOSED + 1 {
            self.idle.complete_all();
        }
    }

    /// Shuts out new uses and waits until there is none. The journal then belongs to the caller, to
    /// destroy. `None` if somebody else closed it before.
    fn close(&self) -> Option<NonNull<bindings::journal_t>> {
        let mut old = self.state.load(Relaxed);
        loop {
            if old >= CLOSED {
                return None;
            }
            match self.state.cmpxchg(old, old + CLOSED, Full) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if old != 0 {
            self.idle.wait_for_completion();
        }
        Some(self.ptr)
    }
}

/// A use of the journal, by somebody who also borrows it.
///
/// # Invariants
///
/// Counted in [`Inner::state`]: the C journal stays.
struct Use<'a>(&'a Inner);

impl Use<'_> {
    fn as_ptr(&self) -> *mut bindings::journal_t {
        self.0.ptr.as_ptr()
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A use of the journal by something with a life of its own.
///
/// # Invariants
///
/// Counted in [`Inner::state`]: the C journal stays.
pub(crate) struct OwnedUse(Arc<Inner>);

impl OwnedUse {
    /// Begins another use beside one that the caller holds; so it cannot fail.
    fn beside(_held: &Use<'_>, inner: &Arc<Inner>) -> Self {
        inner.state.add(1, Relaxed);
        // INVARIANT: Counted just now. `destroy` is still waiting for the use that is held.
        Self(inner.clone())
    }

    fn as_ptr(&self) -> *mut bindings::journal_t {
        self.0.ptr.as_ptr()
    }

    /// Makes it a use by somebody who borrows the journal.
    fn borrowed<'a>(self, inner: &'a Arc<Inner>) -> Option<Use<'a>> {
        if !Arc::ptr_eq(&self.0, inner) {
            return None;
        }
        inner.state.add(1, Relaxed);
        // INVARIANT: Counted just now, before `self` goes.
        Some(Use(inner))
    }
}

impl Drop for OwnedUse {
    fn drop(&mut self) {
        self.0.leave();
    }
}
