// SPDX-License-Identifier: GPL-2.0

//! The sets of runs, held against sets of single blocks.

use crate::{
    kernel_model::live_nodes,
    status::{Run, RunSet, Spares},
    Rng,
};
use std::collections::BTreeSet;

const END: u32 = 120;

fn blocks_of(set: &RunSet) -> BTreeSet<u32> {
    let mut blocks = BTreeSet::new();
    let mut at = 0;
    while let Some(run) = set.next(at) {
        assert!(run.start < run.end && run.start >= at);
        // Neither overlapping nor touching the one before.
        assert!(run.start == 0 || !blocks.contains(&(run.start - 1)));
        blocks.extend(run.start..run.end);
        at = run.end;
    }
    assert_eq!(blocks.len() as u64, set.blocks());
    assert_eq!(blocks.is_empty(), set.is_empty());
    blocks
}

#[test]
fn a_set_holds_what_was_put_in_and_not_taken_out() {
    let mut rng = Rng::new(1);
    for _ in 0..300 {
        let mut set = RunSet::default();
        let mut model = BTreeSet::new();
        for _ in 0..60 {
            // One spare is enough for any change.
            let mut spares = Spares::allocate(1).unwrap();
            let start = rng.below(END);
            let run = Run::at(start, rng.length(END / 3)).unwrap();
            let range = run.start..run.end;
            let before = model.len();
            if rng.once_in(2) {
                let new = set.insert(run, &mut spares).unwrap();
                model.extend(range);
                assert_eq!(new as usize, model.len() - before);
            } else {
                let gone = set.remove(run, &mut spares).unwrap();
                model.retain(|block| !range.contains(block));
                assert_eq!(gone as usize, before - model.len());
            }
            assert_eq!(blocks_of(&set), model);
            let block = rng.below(END);
            let next = set.next(block);
            assert_eq!(
                next.map(|run| run.start.max(block)),
                model.range(block..).next().copied()
            );
        }
    }
    assert_eq!(live_nodes(), 0);
}

#[test]
fn without_a_spare_node_nothing_changes() {
    let mut one = Spares::allocate(1).unwrap();
    let mut none = Spares::default();
    let mut set = RunSet::default();
    let run = |start, end| Run::new(start, end).unwrap();
    assert!(set.insert(run(10, 20), &mut none).is_err());
    assert!(set.is_empty());
    set.insert(run(10, 20), &mut one).unwrap();
    assert_eq!(one.len(), 0);
    // To touch, to overlap and to cut an end needs none.
    set.insert(run(20, 25), &mut none).unwrap();
    set.insert(run(5, 12), &mut none).unwrap();
    set.remove(run(0, 6), &mut none).unwrap();
    set.remove(run(24, 40), &mut none).unwrap();
    assert_eq!(set.next(0), Some(run(6, 24)));
    // To cut a piece out does.
    assert!(set.remove(run(10, 12), &mut none).is_err());
    assert!(set.insert(run(30, 31), &mut none).is_err());
    assert_eq!(set.next(0), Some(run(6, 24)));
    assert_eq!(set.blocks(), 18);
}

#[test]
fn runs_reach_to_the_last_block() {
    let mut spares = Spares::allocate(4).unwrap();
    let mut set = RunSet::default();
    let last = Run::at(u32::MAX - 5, 100).unwrap();
    assert_eq!(last.len(), 5);
    set.insert(last, &mut spares).unwrap();
    assert_eq!(set.next(u32::MAX - 1), Some(last));
    assert_eq!(set.next(u32::MAX), None);
    assert_eq!(Run::at(u32::MAX, 1), None);
}
