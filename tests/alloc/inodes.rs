// SPDX-License-Identifier: GPL-2.0

//! Which group a new inode goes to.

use super::orlov::{ring, Counts, View};
use super::Rng;
use std::cell::RefCell;

const INODES: u64 = 64;
const BLOCKS: u64 = 512;

struct Volume {
    groups: RefCell<Vec<Counts>>,
    per_flex: u32,
}

impl Volume {
    fn empty(groups: u32, per_flex: u32) -> Self {
        let group = Counts {
            free_inodes: INODES,
            free_blocks: BLOCKS,
            dirs: 0,
        };
        Self {
            groups: RefCell::new(vec![group; groups as usize]),
            per_flex,
        }
    }

    fn view(&self) -> View<impl Fn(u32) -> Counts + '_> {
        let groups = self.groups.borrow();
        let mut total = Counts::default();
        for g in groups.iter() {
            total.free_inodes += g.free_inodes;
            total.free_blocks += g.free_blocks;
            total.dirs += g.dirs;
        }
        View {
            groups: groups.len() as u32,
            per_flex: self.per_flex,
            inodes_per_group: INODES as u32,
            blocks_per_group: BLOCKS as u32,
            total,
            group: |g| self.groups.borrow()[g as usize],
        }
    }

    /// Makes a directory in one that lies in `parent`; gives its group.
    fn mkdir(&self, parent: u32, top: bool) -> u32 {
        let view = self.view();
        let g = view
            .for_directory(parent, top, view.total.dirs as u32)
            .unwrap();
        drop(view);
        let mut groups = self.groups.borrow_mut();
        let group = &mut groups[g as usize];
        group.free_inodes -= 1;
        group.free_blocks -= 1;
        group.dirs += 1;
        g
    }
}

#[test]
fn a_ring_has_each_number_once() {
    assert_eq!(ring(2, 5).collect::<Vec<_>>(), [2, 3, 4, 0, 1]);
    assert_eq!(ring(7, 3).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(ring(0, 0).count(), 0);
}

/// Whatever the counts, a free inode is found if there is one.
#[test]
fn a_free_inode_is_found() {
    let mut rng = Rng::new(4);
    let (mut some, mut none) = (0, 0);
    for _ in 0..20_000 {
        let per_flex = 1 << rng.below(5);
        let volume = Volume::empty(1 + rng.below(40), per_flex);
        let scarce = rng.below(30) + 1;
        for g in volume.groups.borrow_mut().iter_mut() {
            g.free_inodes = if rng.below(scarce) == 0 {
                u64::from(rng.skewed(INODES as u32))
            } else {
                0
            };
            g.free_blocks = u64::from(rng.skewed(BLOCKS as u32));
            g.dirs = u64::from(rng.skewed(INODES as u32));
        }
        let view = volume.view();
        let parent = rng.below(view.groups);
        let salt = rng.below(u32::MAX);
        let found = match rng.below(3) {
            0 => view.for_file(parent, salt),
            way => view.for_directory(parent, way == 1, salt),
        };
        match found {
            Some(g) => {
                some += 1;
                assert!(volume.groups.borrow()[g as usize].free_inodes > 0);
            }
            None => {
                none += 1;
                assert_eq!(view.total.free_inodes, 0);
            }
        }
    }
    assert!(some > 1000 && none > 1000);
}

/// Directories of the root take turns over the flex groups, those below stay with their parents,
/// and files with their directories.
#[test]
fn trees_are_spread_and_kept_together() {
    for per_flex in [1, 4, 16] {
        let volume = Volume::empty(64, per_flex);
        let flexes = 64 / per_flex;
        let mut count = vec![0; flexes as usize];
        for _ in 0..flexes * 3 {
            let g = volume.mkdir(0, true);
            count[(g / per_flex) as usize] += 1;
            let below = volume.mkdir(g, false);
            assert_eq!(below / per_flex, g / per_flex);
            let file = volume.view().for_file(below, 7).unwrap();
            assert_eq!(file / per_flex, g / per_flex);
        }
        let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
        assert!(most - least <= 1, "{count:?}");
    }
}

/// A parent whose flex group is crowded with directories sends the next ones on.
#[test]
fn a_crowded_place_is_left() {
    let volume = Volume::empty(64, 4);
    let groups: Vec<u32> = (0..200).map(|_| volume.mkdir(8, false) / 4).collect();
    assert_eq!(groups[0], 2);
    assert!(groups.iter().any(|&flex| flex != 2));
    let most = (0..16)
        .map(|f| groups.iter().filter(|&&g| g == f).count())
        .max();
    assert!(most < Some(60), "{groups:?}");
}
