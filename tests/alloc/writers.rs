// SPDX-License-Identifier: GPL-2.0

//! Files written at once into one group, each a piece at a time.

use super::buddy::{find, Found, Span, Wish};
use super::windows::Windows;
use super::Rng;
use ext4rs_layout::bitmap;

const END: u32 = 32768;

/// A group, and the extents that its files got.
struct Group {
    map: Vec<u8>,
    windows: Windows,
    files: Vec<Vec<Span>>,
}

impl Group {
    fn new(files: usize) -> Self {
        let mut map = vec![0; END as usize / 8];
        bitmap::set_range(&mut map, 0, 300);
        Self {
            map,
            windows: Windows::default(),
            files: vec![Vec::new(); files],
        }
    }

    /// Gives the file up to `want` blocks as `blocks.rs` does, with a window of `ahead` blocks.
    fn write(&mut self, file: usize, want: u32, ahead: u32) {
        let wish = Wish {
            goal: self.files[file].last().map_or(0, |s| s.end()),
            want,
            room: want + ahead,
            need: want,
            stay: 128,
            only_goal: false,
        };
        let owner = file as u32 + 1;
        let Found { span, room } = find(&self.map, END, &wish, Some(&self.windows), Some(owner))
            .or_else(|| find(&self.map, END, &wish, None, Some(owner)))
            .expect("no room");
        assert!(bitmap::all_zero(&self.map, span.start, span.end()));
        bitmap::set_range(&mut self.map, span.start, span.end());
        self.windows
            .taken(owner, span.start, span.end(), span.start + room);
        match self.files[file].last_mut() {
            Some(last) if last.end() == span.start => last.len += span.len,
            _ => self.files[file].push(span),
        }
    }
}

#[test]
fn one_writer_gets_one_extent() {
    let mut group = Group::new(1);
    for _ in 0..100 {
        group.write(0, 256, 8192);
    }
    assert_eq!(
        group.files[0],
        [Span {
            start: 300,
            len: 25600
        }]
    );
}

/// Four files of 25 MiB in pieces of 1 MiB: without windows an extent a piece, with them a few.
#[test]
fn writers_at_once_keep_apart() {
    let extents = |ahead: u32| {
        let mut group = Group::new(4);
        let mut rng = Rng::new(5);
        let mut left = [25; 4];
        while left.iter().any(|&n| n > 0) {
            let file = rng.below(4) as usize;
            if left[file] > 0 {
                left[file] -= 1;
                group.write(file, 256, ahead);
            }
        }
        group.files.iter().map(Vec::len).sum::<usize>()
    };
    let (with, without) = (extents(6400), extents(0));
    assert!(without > 60, "{without}");
    assert!(with <= 8, "{with}");
}

/// Small files lie one after another, whatever a growing file does among them.
#[test]
fn small_files_are_packed() {
    let mut group = Group::new(101);
    for file in 1..101 {
        group.write(0, 64, 8192);
        group.write(file, 4, 0);
    }
    assert!(group.files[0].len() <= 2, "{:?}", group.files[0]);
    let small: Vec<u32> = group.files[1..].iter().map(|f| f[0].start).collect();
    let breaks = small.windows(2).filter(|w| w[1] != w[0] + 4).count();
    assert!(breaks <= 1, "{small:?}");
}
