// SPDX-License-Identifier: GPL-2.0

//! Changes of a leaf, one by one.

use crate::edit::{conversion, insertion, Edit};
use ext4rs_layout::extent::{Extent, MAX_UNWRITTEN, MAX_WRITTEN};

fn written(block: u32, len: u32, start: u64) -> Extent {
    Extent {
        block,
        len,
        unwritten: false,
        start,
    }
}

fn unwritten(block: u32, len: u32, start: u64) -> Extent {
    Extent {
        unwritten: true,
        ..written(block, len, start)
    }
}

/// The change as (first entry, entries that go, entries that come).
fn told(edit: Edit) -> (u16, u16, Vec<Extent>) {
    (edit.at, edit.remove, edit.extents().copied().collect())
}

#[test]
fn an_extent_between_two_that_it_joins() {
    let (left, right) = (unwritten(0, 5, 100), unwritten(8, 2, 108));
    let new = unwritten(5, 3, 105);
    let edit = insertion(1, Some(&left), Some(&right), &new);
    assert_eq!(told(edit), (0, 2, vec![unwritten(0, 10, 100)]));
    assert_eq!(edit.growth(), 0);
}

#[test]
fn an_extent_that_joins_one_side() {
    let (left, right) = (unwritten(0, 5, 100), unwritten(8, 2, 300));
    let edit = insertion(4, Some(&left), Some(&right), &unwritten(5, 3, 105));
    assert_eq!(told(edit), (3, 1, vec![unwritten(0, 8, 100)]));
    let edit = insertion(4, Some(&left), Some(&right), &unwritten(5, 3, 297));
    assert_eq!(told(edit), (4, 1, vec![unwritten(5, 5, 297)]));
}

#[test]
fn extents_that_cannot_be_one() {
    let left = unwritten(0, 5, 100);
    // Of another kind, elsewhere on the disk, not next in the file, too long.
    for new in [
        written(5, 3, 105),
        unwritten(5, 3, 106),
        unwritten(6, 3, 106),
        unwritten(5, MAX_UNWRITTEN - 4, 105),
    ] {
        let edit = insertion(1, Some(&left), None, &new);
        assert_eq!(told(edit), (1, 0, vec![new]));
        assert_eq!(edit.growth(), 1);
    }
    let edit = insertion(1, Some(&left), None, &unwritten(5, MAX_UNWRITTEN - 5, 105));
    assert_eq!(told(edit), (0, 1, vec![unwritten(0, MAX_UNWRITTEN, 100)]));
}

#[test]
fn a_conversion_of_all_of_an_extent() {
    let old = unwritten(10, 5, 100);
    let edit = conversion(3, None, &old, None, 10, 15).unwrap();
    assert_eq!(told(edit), (3, 1, vec![written(10, 5, 100)]));
    let (left, right) = (written(8, 2, 98), written(15, 1, 105));
    let edit = conversion(3, Some(&left), &old, Some(&right), 10, 15).unwrap();
    assert_eq!(told(edit), (2, 3, vec![written(8, 8, 98)]));
}

#[test]
fn a_conversion_of_an_end_moves_the_border() {
    let old = unwritten(10, 5, 100);
    let (left, right) = (written(8, 2, 98), written(15, 1, 105));
    let edit = conversion(3, Some(&left), &old, Some(&right), 10, 12).unwrap();
    let parts = vec![written(8, 4, 98), unwritten(12, 3, 102)];
    assert_eq!(told(edit), (2, 2, parts));
    assert_eq!(edit.growth(), 0);
    let edit = conversion(3, Some(&left), &old, Some(&right), 13, 15).unwrap();
    let parts = vec![unwritten(10, 3, 100), written(13, 3, 103)];
    assert_eq!(told(edit), (3, 2, parts));
}

#[test]
fn a_conversion_in_the_middle_makes_three() {
    let old = unwritten(10, 5, 100);
    let (left, right) = (written(8, 2, 98), written(15, 1, 105));
    let edit = conversion(3, Some(&left), &old, Some(&right), 11, 12).unwrap();
    let parts = vec![
        unwritten(10, 1, 100),
        written(11, 1, 101),
        unwritten(12, 3, 102),
    ];
    assert_eq!(told(edit), (3, 1, parts));
    assert_eq!(edit.growth(), 2);
}

#[test]
fn a_written_extent_has_one_block_more_than_an_unwritten_one() {
    let left = written(0, MAX_WRITTEN - 2, 1000);
    let old = unwritten(MAX_WRITTEN - 2, 5, 1000 + u64::from(MAX_WRITTEN) - 2);
    let at = |n: u32| u64::from(MAX_WRITTEN - 2 + n);
    let edit = conversion(1, Some(&left), &old, None, old.block, at(2)).unwrap();
    assert_eq!(edit.extents().next(), Some(&written(0, MAX_WRITTEN, 1000)));
    let edit = conversion(1, Some(&left), &old, None, old.block, at(3)).unwrap();
    assert_eq!((edit.at, edit.remove), (1, 1));
}

#[test]
fn a_conversion_of_what_is_not_there() {
    let old = unwritten(10, 5, 100);
    for (from, to) in [(9, 12), (10, 16), (12, 12), (15, 15), (13, 12)] {
        assert_eq!(conversion(0, None, &old, None, from, to), None);
    }
}
