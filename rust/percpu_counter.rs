// SPDX-License-Identifier: GPL-2.0

//! Counters that many CPUs add to and few read.
//!
//! C header: [`include/linux/percpu_counter.h`](srctree/include/linux/percpu_counter.h)

use crate::bindings;
use kernel::{error::to_result, prelude::*, types::Opaque};

/// A counter with a part on each CPU: adding is cheap, reading goes over all CPUs.
///
/// # Invariants
///
/// `counter` is initialised, and pinned: it is in a list of all counters.
#[pin_data(PinnedDrop)]
pub struct PerCpuCounter {
    #[pin]
    counter: Opaque<bindings::percpu_counter>,
}

// SAFETY: The C counter is made for use by any task.
unsafe impl Send for PerCpuCounter {}
// SAFETY: As above, by several at a time.
unsafe impl Sync for PerCpuCounter {}

impl PerCpuCounter {
    /// A counter at zero. Fails with `ENOMEM`.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            counter <- Opaque::try_ffi_init(|counter: *mut bindings::percpu_counter| {
                // SAFETY: `counter` is memory for a counter, and stays where it is.
                to_result(unsafe { bindings::percpu_counter_init_zero(counter) })
            }),
        }? Error)
    }

    /// Adds to the counter. In any context.
    pub fn add(&self, amount: u64) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        // SAFETY: By the type invariant. The sum wraps, which C allows here.
        unsafe { bindings::percpu_counter_add_local(self.counter.get(), amount) };
    }

    /// The exact sum, as of some moment during the call.
    pub fn sum(&self) -> u64 {
        // SAFETY: By the type invariant.
        let sum = unsafe { bindings::__percpu_counter_sum(self.counter.get()) };
        u64::try_from(sum).unwrap_or(0)
    }
}

#[pinned_drop]
impl PinnedDrop for PerCpuCounter {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant it was initialised; nobody uses it any more.
        unsafe { bindings::percpu_counter_destroy_many(self.counter.get(), 1) };
    }
}
