// SPDX-License-Identifier: GPL-2.0

//! What write-back did on one volume, in numbers: `/sys/fs/ext4rs/<device>/writeback/`.

use ext4rs_vfs::{
    percpu_counter::PerCpuCounter,
    sysfs::{Attribute, Group},
};
use kernel::{
    prelude::*,
    sync::atomic::{ordering::Relaxed, Atomic},
};

/// Counters of one volume since it was mounted.
#[pin_data]
pub(super) struct Counters {
    /// Calls of `writepages` that had something to look at.
    #[pin]
    pub(super) passes: PerCpuCounter,
    /// Pages of the folios that a lookup returned, sent or not.
    #[pin]
    pub(super) pages_scanned: PerCpuCounter,
    /// Pages of the folios that were sent.
    #[pin]
    pub(super) pages_written: PerCpuCounter,
    /// Runs of blocks that step 1 allocated: each is one call of the allocator and one handle.
    #[pin]
    pub(super) runs_mapped: PerCpuCounter,
    /// Blocks in them.
    #[pin]
    pub(super) blocks_mapped: PerCpuCounter,
    /// Bios with data.
    #[pin]
    pub(super) bios: PerCpuCounter,
    /// Bytes in them.
    #[pin]
    pub(super) bio_bytes: PerCpuCounter,
    /// Times that a commit found data of an inode to be sent first.
    #[pin]
    pub(super) ordered_flushes: PerCpuCounter,
    /// Folios of which such a flush sent only a part.
    #[pin]
    pub(super) ordered_partial: PerCpuCounter,
    /// Cyclic calls that went on at the beginning of the file.
    #[pin]
    pub(super) wraps: PerCpuCounter,
    /// Ranges that were converted from unwritten to written.
    #[pin]
    pub(super) conversions: PerCpuCounter,
    /// Times that a folio, for which step 1 had run, had to be put back once more.
    #[pin]
    pub(super) retries: PerCpuCounter,
    /// Pages written beyond what a call without a promise was asked for.
    #[pin]
    pub(super) pages_over_budget: PerCpuCounter,
    /// Wraps with no budget left. There should be none.
    #[pin]
    pub(super) wraps_no_budget: PerCpuCounter,
    /// The most bytes that step 1 maps at a time; constant for a volume.
    cap_bytes: Atomic<u64>,
}

impl Counters {
    /// All at zero.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            passes <- PerCpuCounter::new(),
            pages_scanned <- PerCpuCounter::new(),
            pages_written <- PerCpuCounter::new(),
            runs_mapped <- PerCpuCounter::new(),
            blocks_mapped <- PerCpuCounter::new(),
            bios <- PerCpuCounter::new(),
            bio_bytes <- PerCpuCounter::new(),
            ordered_flushes <- PerCpuCounter::new(),
            ordered_partial <- PerCpuCounter::new(),
            wraps <- PerCpuCounter::new(),
            conversions <- PerCpuCounter::new(),
            retries <- PerCpuCounter::new(),
            pages_over_budget <- PerCpuCounter::new(),
            wraps_no_budget <- PerCpuCounter::new(),
            cap_bytes: Atomic::new(0),
        }? Error)
    }

    /// Sets what `cap_bytes` shows.
    pub(super) fn set_cap_bytes(&self, bytes: u64) {
        self.cap_bytes.store(bytes, Relaxed);
    }
}

/// The files, by directory.
pub(super) const GROUPS: &[Group<Counters>] = &[Group {
    name: Some(c"writeback"),
    attributes: ATTRIBUTES,
}];

const ATTRIBUTES: &[Attribute<Counters>] = &[
    (c"passes", |c| c.passes.sum()),
    (c"pages_scanned", |c| c.pages_scanned.sum()),
    (c"pages_written", |c| c.pages_written.sum()),
    (c"runs_mapped", |c| c.runs_mapped.sum()),
    (c"blocks_mapped", |c| c.blocks_mapped.sum()),
    (c"bios", |c| c.bios.sum()),
    (c"bio_bytes", |c| c.bio_bytes.sum()),
    (c"ordered_flushes", |c| c.ordered_flushes.sum()),
    (c"ordered_partial", |c| c.ordered_partial.sum()),
    (c"wraps", |c| c.wraps.sum()),
    (c"conversions", |c| c.conversions.sum()),
    (c"retries", |c| c.retries.sum()),
    (c"pages_over_budget", |c| c.pages_over_budget.sum()),
    (c"wraps_no_budget", |c| c.wraps_no_budget.sum()),
    (c"cap_bytes", |c| c.cap_bytes.load(Relaxed)),
];
