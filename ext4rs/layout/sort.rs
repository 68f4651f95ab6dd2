// SPDX-License-Identifier: GPL-2.0

//! Sorting in place, without allocating, and without a way to panic that the compiler cannot rule
//! out.

/// Sorts by a key. Items of equal keys are in no particular order.
pub fn sort_by_key<T: Copy, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let len = items.len();
    // A heap of all items, then the largest of what is left to its end, one after the other.
    for root in (0..len / 2).rev() {
        sift_down(items, root, len, &key);
    }
    for end in (1..len).rev() {
        swap(items, 0, end);
        sift_down(items, 0, end, &key);
    }
}

/// Lets the item at `root` sink into the heap of the first `end` items.
fn sift_down<T: Copy, K: Ord>(items: &mut [T], mut root: usize, end: usize, key: impl Fn(&T) -> K) {
    loop {
        let left = root.saturating_mul(2).saturating_add(1);
        let heap = items.get(..end).unwrap_or(&[]);
        let at = |i: usize| heap.get(i).map(&key);
        let child = if at(left.saturating_add(1)) > at(left) {
            left.saturating_add(1)
        } else {
            left
        };
        // `None`, where there is no child, is the lowest.
        if at(child) <= at(root) {
            return;
        }
        swap(items, root, child);
        root = child;
    }
}

fn swap<T: Copy>(items: &mut [T], a: usize, b: usize) {
    if let (Some(&x), Some(&y)) = (items.get(a), items.get(b)) {
        if let Some(slot) = items.get_mut(a) {
            *slot = y;
        }
        if let Some(slot) = items.get_mut(b) {
            *slot = x;
        }
    }
}
