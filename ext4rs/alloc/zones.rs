// SPDX-License-Identifier: GPL-2.0

//! System zones: the blocks that hold the volume's own structures.
//!
//! No file may have such a block, whatever its extents or a bitmap say: writing to the file would
//! destroy the volume. ext4 keeps the same list (`fs/ext4/block_validity.c`). Pure code.

/// Blocks `start..end` of the volume that hold its own structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// The first block.
    pub(super) start: u64,
    /// The block after the last.
    pub(super) end: u64,
    /// The blocks belong to the journal's inode, which has them as its data.
    pub(super) journal: bool,
}

/// Sorts the zones and joins neighbours; gives the number that is left, or `None` if two overlap.
/// Empty zones are not allowed.
pub(super) fn settle(zones: &mut [Zone]) -> Option<usize> {
    sort(zones);
    let mut last: Option<Zone> = None;
    let mut count = 0usize;
    for i in 0..zones.len() {
        let zone = *zones.get(i)?;
        let joined = match last {
            Some(l) if zone.start < l.end => return None,
            Some(l) if zone.start == l.end && zone.journal == l.journal => Some(l.start),
            _ => None,
        };
        let zone = Zone {
            start: joined.unwrap_or(zone.start),
            ..zone
        };
        if joined.is_none() {
            count = count.checked_add(1)?;
        }
        *zones.get_mut(count.checked_sub(1)?)? = zone;
        last = Some(zone);
    }
    Some(count)
}

/// Sorts by the first block. A heap sort, because the library's sorts can panic.
fn sort(zones: &mut [Zone]) {
    let count = zones.len();
    for top in (0..count / 2).rev() {
        sift(zones, top);
    }
    for end in (1..count).rev() {
        zones.swap(0, end);
        sift(zones.get_mut(..end).unwrap_or(&mut []), 0);
    }
}

/// Lets the zone at `top` of a heap sink to its place.
fn sift(heap: &mut [Zone], mut top: usize) {
    let start = |heap: &[Zone], i: usize| heap.get(i).map(|z| z.start);
    loop {
        // The larger of the two below it, if there are any: `None` is less than anything.
        let left = top.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let larger = if start(heap, right) > start(heap, left) {
            right
        } else {
            left
        };
        if start(heap, larger) <= start(heap, top) {
            return;
        }
        heap.swap(top, larger);
        top = larger;
    }
}

/// The zones, of those that [`settle`] left, which have a block in `start..end`.
pub(super) fn overlapping(zones: &[Zone], start: u64, end: u64) -> impl Iterator<Item = &Zone> {
    let first = zones.partition_point(|z| z.end <= start);
    zones
        .get(first..)
        .unwrap_or(&[])
        .iter()
        .take_while(move |z| z.start < end)
}
