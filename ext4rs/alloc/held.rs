// SPDX-License-Identifier: GPL-2.0

//! Blocks that are free in the bitmaps and must not be used yet: the transaction that freed them is
//! not committed (rule 12). If the machine stops before that, they belong to their old owner again,
//! whose data has to be there.
//!
//! At most two transactions are not committed: the running one and the one being committed. Who
//! looks at what is held first lets go of what has been committed since; nobody is told of a commit.

use super::buddy::Span;
use ext4rs_layout::bitmap;
use kernel::prelude::*;

/// Transactions that can be uncommitted at once.
const TRANSACTIONS: usize = 2;

/// Something for each uncommitted transaction, by its number.
pub(crate) struct ByTransaction<T>([Option<(u32, T)>; TRANSACTIONS]);

impl<T> Default for ByTransaction<T> {
    fn default() -> Self {
        Self([const { None }; TRANSACTIONS])
    }
}

impl<T: Default> ByTransaction<T> {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Drops what belongs to transactions that `is_committed` says are past.
    pub(super) fn release(&mut self, is_committed: impl Fn(u32) -> bool) {
        for place in &mut self.0 {
            if place.as_ref().is_some_and(|(tid, _)| is_committed(*tid)) {
                *place = None;
            }
        }
    }

    /// What belongs to the transaction `tid`, which is the running one; made if it is not there.
    fn of(&mut self, tid: u32) -> Option<&mut T> {
        let same = |place: &Option<(u32, T)>| place.as_ref().is_some_and(|(t, _)| *t == tid);
        let at = self
            .0
            .iter()
            .position(same)
            .or_else(|| self.0.iter().position(Option::is_none))
            // A third transaction means that one of the two was committed a moment ago, after it was
            // looked at: what it freed is held for a while longer.
            .unwrap_or(0);
        let place = self.0.get_mut(at)?;
        let entry = place.get_or_insert_with(|| (tid, T::default()));
        entry.0 = tid;
        Some(&mut entry.1)
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().map(|(_, value)| value)
    }

    /// The newest transaction of those that something belongs to. Numbers wrap.
    pub(super) fn newest(&self) -> Option<u32> {
        let mut tids = self.0.iter().flatten().map(|(tid, _)| *tid);
        let first = tids.next()?;
        Some(tids.fold(
            first,
            |a, b| {
                if b.wrapping_sub(a) < 1 << 31 {
                    b
                } else {
                    a
                }
            },
        ))
    }
}

/// How many blocks of the volume are held.
pub(crate) type HeldCounts = ByTransaction<u64>;

impl HeldCounts {
    /// Holds `blocks` more until the transaction `tid`, the running one, is committed.
    pub(super) fn add(&mut self, tid: u32, blocks: u64) {
        if let Some(count) = self.of(tid) {
            *count = count.saturating_add(blocks);
        }
    }

    /// How many are held.
    pub(super) fn total(&self) -> u64 {
        self.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }
}

/// Blocks of one group that one transaction freed.
#[derive(Default)]
pub(crate) struct Freed {
    runs: KVVec<Span>,
    /// There was no memory for all of them: the whole group is held.
    all: bool,
}

/// The blocks of one group that are held.
pub(crate) type HeldRuns = ByTransaction<Freed>;

impl HeldRuns {
    /// Holds `span` until the transaction `tid`, the running one, is committed. None of its blocks
    /// is held now. Cannot fail.
    pub(super) fn add(&mut self, tid: u32, span: Span) {
        let Some(freed) = self.of(tid) else {
            return;
        };
        if let Some(last) = freed.runs.last_mut() {
            if last.start == span.end() {
                last.start = span.start;
                last.len = last.len.saturating_add(span.len);
                return;
            }
            if last.end() == span.start {
                last.len = last.len.saturating_add(span.len);
                return;
            }
        }
        if freed.runs.push(span, GFP_KERNEL).is_err() {
            freed.all = true;
        }
    }

    /// Sets the bits of what is held in a copy of the group's bitmap: they cannot be used.
    pub(super) fn cover(&self, bytes: &mut [u8]) {
        for freed in self.iter() {
            if freed.all {
                bytes.fill(0xff);
            }
            for run in &freed.runs {
                bitmap::set_range(bytes, run.start, run.end());
            }
        }
    }
}
