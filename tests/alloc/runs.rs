// SPDX-License-Identifier: GPL-2.0

//! The search in one group.

use super::buddy::{find, longest, Found, Span, Wish};
use super::windows::{Cut, Windows};
use super::{fragmented, Rng};
use ext4rs_layout::bitmap;

/// Bits of the maps here; the last few are beyond the end of the group.
const BITS: u32 = 512;
const END: u32 = 500;

/// Windows, also as a list of owner, first block and block after the last.
fn windows(rng: &mut Rng) -> (Windows, Vec<(u32, u32, u32)>) {
    let mut windows = Windows::default();
    let mut list: Vec<(u32, u32, u32)> = Vec::new();
    for owner in 1..=rng.below(6) {
        let start = rng.below(BITS);
        let end = start + rng.skewed(100);
        windows.taken(owner, start, start, end);
        list.push((owner, start, end));
    }
    (windows, list)
}

/// Which blocks `owner` may have, one by one.
fn allowed(map: &[u8], list: &[(u32, u32, u32)], owner: Option<u32>) -> Vec<bool> {
    (0..END)
        .map(|b| {
            !bitmap::test(map, b)
                && !list
                    .iter()
                    .any(|w| Some(w.0) != owner && w.1 <= b && b < w.2)
        })
        .collect()
}

/// All runs of `true`.
fn runs(allowed: &[bool]) -> Vec<(u32, u32)> {
    let mut runs = Vec::new();
    let mut start = None;
    for (i, ok) in allowed.iter().chain([&false]).enumerate() {
        match (start, ok) {
            (None, true) => start = Some(i as u32),
            (Some(from), false) => {
                runs.push((from, i as u32));
                start = None;
            }
            _ => {}
        }
    }
    runs
}

#[test]
fn a_cut_leaves_what_no_window_has() {
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        let (windows, list) = windows(&mut rng);
        let owner = (rng.below(2) == 0).then(|| 1 + rng.below(7));
        let from = rng.below(END);
        let to = from + rng.below(END - from + 1);
        let mut free = allowed(&[0; BITS as usize / 8], &list, owner);
        for (i, ok) in free.iter_mut().enumerate() {
            *ok &= (from..to).contains(&(i as u32));
        }
        let cut: Vec<_> = Cut::new(Some(&windows), owner, from, to).collect();
        // Windows that touch cut a run twice, with nothing between.
        assert_eq!(
            cut,
            runs(&free),
            "{from}..{to} of {windows:?} for {owner:?}"
        );
    }
}

/// A window is used up, then moves; the oldest goes when there are too many.
#[test]
fn a_window_stays_until_it_is_used_up() {
    let mut windows = Windows::default();
    let left = |windows: &Windows| Cut::new(Some(windows), None, 0, END).collect::<Vec<_>>();
    windows.taken(1, 90, 100, 200);
    assert_eq!(left(&windows), [(0, 100), (200, END)]);
    windows.taken(1, 100, 150, 400);
    assert_eq!(left(&windows), [(0, 150), (200, END)]);
    windows.taken(1, 150, 200, 300);
    assert_eq!(left(&windows), [(0, 200), (300, END)]);
    windows.taken(1, 10, 20, 40);
    assert_eq!(left(&windows), [(0, 20), (40, END)]);
    // A file that is complete has no window, and pushes none out.
    windows.taken(2, 50, 60, 60);
    assert_eq!(left(&windows), [(0, 20), (40, END)]);
    for owner in 2..=9 {
        windows.taken(owner, 0, owner * 10 + 40, owner * 10 + 45);
    }
    let cut = left(&windows);
    assert_eq!(cut.len(), 9, "{cut:?}");
    assert_eq!(cut[0], (0, 60));
}

#[test]
fn what_is_found_is_free_and_good_enough() {
    let mut rng = Rng::new(2);
    let (mut at_goal, mut elsewhere, mut nothing) = (0, 0, 0);
    for _ in 0..20_000 {
        let map = fragmented(&mut rng, BITS);
        let (windows, list) = windows(&mut rng);
        let owner = (rng.below(2) == 0).then(|| 1 + rng.below(7));
        let want = 1 + rng.skewed(200);
        let wish = Wish {
            goal: rng.below(BITS),
            want,
            room: rng.skewed(300),
            need: 1 + rng.below(want),
            stay: rng.below(64),
            only_goal: rng.below(8) == 0,
        };
        let free = allowed(&map, &list, owner);
        let best = runs(&free).iter().map(|r| r.1 - r.0).max().unwrap_or(0);
        let goal = if wish.goal < END { wish.goal } else { 0 };
        let here = free[goal as usize..].iter().take_while(|ok| **ok).count() as u32;
        match find(&map, END, &wish, Some(&windows), owner) {
            Some(Found { span, room }) => {
                assert!(span.len > 0 && span.len <= want && span.end() <= END);
                assert!((span.start..span.end()).all(|b| free[b as usize]));
                let most = wish.room.max(want);
                assert!(span.len <= room && room <= most);
                let hole = free[span.start as usize..]
                    .iter()
                    .take_while(|ok| **ok)
                    .count();
                assert_eq!(room, most.min(hole as u32));
                if span.start == goal {
                    at_goal += 1;
                    assert_eq!(span.len, here.min(want));
                } else {
                    elsewhere += 1;
                    assert!(!wish.only_goal);
                    assert_eq!(span.len, best.min(want));
                    assert!(span.len >= wish.need);
                    assert!(here.min(want) < wish.stay.min(want) || here == 0);
                }
            }
            None => {
                nothing += 1;
                let all = allowed(&map, &[], None);
                let most = runs(&all).iter().map(|r| r.1 - r.0).max();
                assert_eq!(longest(&map, END), most.unwrap_or(0));
                assert!(best < wish.need || wish.only_goal);
                assert!(here == 0 || here.min(want) < wish.stay.min(want));
            }
        }
    }
    assert!(at_goal > 500 && elsewhere > 500 && nothing > 500);
}

/// The nearest hole after the goal that takes it all, then one before; the longest if none does.
#[test]
fn the_order_of_preference() {
    let mut map = [0xff; 64];
    for (from, to) in [(10, 30), (100, 120), (200, 205), (300, 330)] {
        bitmap::clear_range(&mut map, from, to);
    }
    let wish = Wish {
        goal: 150,
        want: 20,
        room: 20,
        need: 20,
        stay: 20,
        only_goal: false,
    };
    let start = |wish: &Wish| {
        let Span { start, len } = find(&map, END, wish, None, None)?.span;
        Some((start, len))
    };
    assert_eq!(start(&wish), Some((300, 20)));
    assert_eq!(start(&Wish { goal: 310, ..wish }), Some((310, 20)));
    assert_eq!(start(&Wish { goal: 320, ..wish }), Some((10, 20)));
    assert_eq!(
        start(&Wish {
            goal: 320,
            stay: 8,
            ..wish
        }),
        Some((320, 10))
    );
    assert_eq!(
        start(&Wish {
            want: 40,
            need: 31,
            ..wish
        }),
        None
    );
    assert_eq!(
        start(&Wish {
            want: 40,
            need: 25,
            ..wish
        }),
        Some((300, 30))
    );
    assert_eq!(
        start(&Wish {
            goal: 0,
            want: 5,
            need: 5,
            ..wish
        }),
        Some((10, 5))
    );
}
