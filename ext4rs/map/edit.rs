// SPDX-License-Identifier: GPL-2.0

//! What a leaf of an extent tree has to look like after a change: pure arithmetic on extents.

use ext4rs_layout::extent::Extent;

/// A change of a leaf: `remove` entries from number `at` on give way to those of `put`. What is put
/// covers the blocks of what is removed, or all but one range of them, and at most one new range of
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The number of the first entry that changes.
    pub(crate) at: u16,
    /// How many entries go.
    pub(crate) remove: u16,
    /// The entries that come, in order.
    pub(crate) put: [Option<Extent>; 3],
}

impl Edit {
    /// The entries that come, in order.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.put.iter().flatten()
    }

    /// By how many entries the leaf grows.
    pub(crate) fn growth(&self) -> u16 {
        self.count().saturating_sub(self.remove)
    }

    /// By how many entries the leaf shrinks.
    pub(crate) fn shrinkage(&self) -> u16 {
        self.remove.saturating_sub(self.count())
    }

    fn count(&self) -> u16 {
        self.extents().fold(0u16, |n, _| n.saturating_add(1))
    }

    /// Also changes the entry before the first.
    fn take_left(&mut self) {
        self.at = self.at.saturating_sub(1);
        self.remove = self.remove.saturating_add(1);
    }

    /// Also changes the entry after the last.
    fn take_right(&mut self) {
        self.remove = self.remove.saturating_add(1);
    }
}

/// Puts `new` into a hole, in front of entry `at`. `left` and `right` are its neighbours in the
/// leaf; it becomes one with either if it can.
pub(crate) fn insertion(
    at: u16,
    left: Option<&Extent>,
    right: Option<&Extent>,
    new: &Extent,
) -> Edit {
    let mut edit = Edit {
        at,
        remove: 0,
        put: [None; 3],
    };
    let mut extent = *new;
    if let Some(whole) = left.and_then(|left| left.merged(&extent)) {
        extent = whole;
        edit.take_left();
    }
    if let Some(whole) = right.and_then(|right| extent.merged(right)) {
        extent = whole;
        edit.take_right();
    }
    edit.put = [Some(extent), None, None];
    edit
}

/// Makes the blocks `from..to` of the unwritten extent `old`, entry `at`, written. `left` and
/// `right` are its neighbours in the leaf; the written part becomes one with either if it can.
/// `None` if `old` does not hold these blocks.
pub(crate) fn conversion(
    at: u16,
    left: Option<&Extent>,
    old: &Extent,
    right: Option<&Extent>,
    from: u32,
    to: u64,
) -> Option<Edit> {
    let mut edit = Edit {
        at,
        remove: 1,
        put: [None; 3],
    };
    let mut written = Extent {
        unwritten: false,
        ..old.part(from, to)?
    };
    let before = old.part(old.block, u64::from(from));
    let after = u32::try_from(to)
        .ok()
        .and_then(|to| old.part(to, old.end()));
    if before.is_none() {
        if let Some(whole) = left.and_then(|left| left.merged(&written)) {
            written = whole;
            edit.take_left();
        }
    }
    if after.is_none() {
        if let Some(whole) = right.and_then(|right| written.merged(right)) {
            written = whole;
            edit.take_right();
        }
    }
    edit.put = [before, Some(written), after];
    Some(edit)
}

/// Takes the blocks `from..to`, which are in the extent `old`, entry `at`, out of the leaf.
pub(crate) fn removal(at: u16, old: &Extent, from: u32, to: u64) -> Edit {
    let before = old.part(old.block, u64::from(from));
    let after = u32::try_from(to)
        .ok()
        .and_then(|to| old.part(to, old.end()));
    Edit {
        at,
        remove: 1,
        put: [before, after, None],
    }
}
