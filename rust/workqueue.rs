// SPDX-License-Identifier: GPL-2.0

//! Work queues of one's own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use core::{ops::Deref, ptr::NonNull};
use kernel::{prelude::*, workqueue::Queue};

/// A work queue that memory reclaim may wait for: it has a worker of its own, so that its work
/// goes on when no memory for another is left.
///
/// Dropping it waits until it is empty.
///
/// # Invariants
///
/// Points to a work queue that this value owns.
pub struct Workqueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues are used by any task.
unsafe impl Send for Workqueue {}
// SAFETY: Work queues have their own locks.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Makes a queue of this name (at most 31 bytes are used).
    pub fn new(name: &CStr) -> Result<Self> {
        // SAFETY: The name is a C string, and copied.
        let ptr = unsafe { bindings::alloc_reclaim_workqueue(name.as_char_ptr()) };
        // INVARIANT: The queue is ours alone.
        Ok(Self(NonNull::new(ptr).ok_or(ENOMEM)?))
    }

    /// Waits until all work that was in the queue at the time of the call is done.
    pub fn flush(&self) {
        // SAFETY: By the type invariant the queue is live.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }
}

impl Deref for Workqueue {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue lives as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr().cast()) }
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is ours. All references to it were borrowed from
        // `self`, so that nobody enqueues any more.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
