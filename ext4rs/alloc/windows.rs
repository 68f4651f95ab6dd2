// SPDX-License-Identifier: GPL-2.0

//! Windows: free blocks that growing files are likely to want next.
//!
//! Several files written at once, each a piece at a time, would take turns in the same free space,
//! and each end up in as many extents as it had pieces. So the blocks after the newest piece of a
//! file are its window, which other files keep off as long as there is room elsewhere. A window is
//! advice and nothing more: it is on no disk, counts as free, and goes when a newer one needs its
//! place. That is what ext4's preallocation is for; without its accounting, for space taken for a
//! file that never comes is never lost.
//!
//! Pure code. Positions are block numbers within the group.

/// Windows that a group remembers.
const SLOTS: usize = 8;

/// The blocks `start..end` that `owner`, an inode, is likely to want; empty in an unused slot.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    owner: u32,
    start: u32,
    end: u32,
}

/// The windows of one group.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    slots: [Window; SLOTS],
    /// The slot that goes next: the one filled longest ago.
    oldest: usize,
}

impl Windows {
    /// `owner` took `start..end`. If that was in its window, the rest of the window remains; else
    /// it gets the blocks up to `until` for a window, in place of any that it had.
    ///
    /// A window does not move along with its file: what was written around it meanwhile would be
    /// pushed ahead of it, and in its way in the end.
    pub(super) fn taken(&mut self, owner: u32, start: u32, end: u32, until: u32) {
        let own = self.slots.iter_mut().find(|w| w.owner == owner);
        if let Some(w) = own {
            if !(w.start <= start && end < w.end) {
                w.end = until;
            }
            w.start = end;
            return;
        }
        if until <= end {
            return;
        }
        if let Some(slot) = self.slots.get_mut(self.oldest) {
            *slot = Window {
                owner,
                start: end,
                end: until,
            };
        }
        self.oldest = self.oldest.wrapping_add(1) % SLOTS;
    }

    /// The first window that `owner` does not own and that ends after `at`.
    fn next(&self, owner: Option<u32>, at: u32) -> Option<(u32, u32)> {
        self.slots
            .iter()
            .filter(|w| w.end > at && w.start < w.end && Some(w.owner) != owner)
            .map(|w| (w.start, w.end))
            .min()
    }
}

/// What is left of a run of blocks without the windows of others: pieces, as first block and block
/// after the last.
pub(super) struct Cut<'a> {
    windows: Option<&'a Windows>,
    owner: Option<u32>,
    at: u32,
    end: u32,
}

impl<'a> Cut<'a> {
    /// Cuts `at..end` for `owner`. Without `windows` nothing is cut.
    pub(super) fn new(windows: Option<&'a Windows>, owner: Option<u32>, at: u32, end: u32) -> Self {
        Self {
            windows,
            owner,
            at,
            end,
        }
    }
}

impl Iterator for Cut<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        // Each turn but the last passes a window.
        while self.at < self.end {
            let from = self.at;
            let window = self.windows.and_then(|w| w.next(self.owner, from));
            let (start, end) = window.unwrap_or((self.end, self.end));
            let to = start.min(self.end);
            self.at = end.max(to);
            if from < to {
                return Some((from, to));
            }
        }
        None
    }
}
