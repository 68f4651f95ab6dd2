// SPDX-License-Identifier: GPL-2.0

//! Everything that can be done to a file's mapping, at random, held against a list of its blocks.

use crate::{
    inode::Inode,
    journal::Handle,
    kernel_model::{limit_memory, live_nodes},
    map::{self, Kind, Which},
    prelude::*,
    tree,
    volume::Sb,
    Rng,
};

/// What a logical block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Hole,
    Reserved,
    Delalloc,
    Unwritten(u64),
    Written(u64),
}
use Block::*;

/// A file and what is known of it.
struct File {
    inode: Inode,
    blocks: Vec<Block>,
    rng: Rng,
}

/// How a run of the test goes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    block_size: u32,
    volume: u64,
    /// Logical blocks of the file.
    blocks: u32,
    /// The longest range of an operation.
    range: u32,
    /// The longest run that the allocator gives.
    longest: u32,
    /// One in so many allocations fails, with space and with memory; 0: none.
    failing: u32,
    /// One in so many removals is done.
    removing: u32,
    /// Single blocks that the file has at the start.
    scattered: u32,
    steps: u32,
}

impl File {
    fn new(plan: &Plan) -> Self {
        let sb = Sb::new(plan.volume, plan.block_size, plan.seed);
        sb.longest.set(plan.longest);
        Self {
            inode: Inode::new(sb),
            blocks: vec![Hole; plan.blocks as usize],
            rng: Rng::new(plan.seed),
        }
    }

    fn block(&self, lblk: u32) -> Block {
        self.blocks[lblk as usize]
    }

    fn range(&mut self, longest: u32) -> (u32, u32) {
        let count = self.blocks.len() as u32;
        let start = self.rng.below(count);
        (start, self.rng.length(longest).min(count - start))
    }

    fn set(&mut self, start: u32, len: u32, from: &[Block], to: Block) -> u32 {
        let range = &mut self.blocks[start as usize..(start + len) as usize];
        let mut changed = 0;
        for block in range.iter_mut().filter(|block| from.contains(block)) {
            *block = to;
            changed += 1;
        }
        changed
    }

    fn reserve(&mut self, longest: u32) {
        let (start, len) = self.range(longest);
        let fault = self.rng.once_in(3);
        let seq = map::seq(&self.inode);
        let before = map::delayed_blocks(&self.inode);
        match map::reserve(&self.inode, start, len, fault) {
            Err(e) => {
                // More than full: blocks of the tree come out of what is promised here.
                let sb = self.inode.super_block();
                let full = sb.delayed.get() >= sb.free();
                assert!(e == ENOMEM || e == ENOSPC && full);
            }
            Ok(found) => {
                assert_eq!((found.lblk, found.seq), (start, seq));
                assert!(found.len > 0 && found.len <= len);
                let old = self.block(start);
                match (old, found.kind) {
                    (Written(at), Kind::Written(b)) | (Unwritten(at), Kind::Unwritten(b)) => {
                        assert_eq!(at, b);
                    }
                    (Hole | Reserved | Delalloc, Kind::Delalloc) => {
                        // All of it was the same, and is what was asked for here.
                        let range = start as usize..(start + found.len) as usize;
                        assert!(self.blocks[range].iter().all(|&block| block == old));
                        let to = if fault { Delalloc } else { Reserved };
                        self.set(start, found.len, &[Hole, Reserved], to);
                        let used = map::delayed_blocks(&self.inode) - before;
                        assert_eq!(used, if old == Hole { found.len.into() } else { 0 });
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(map::seq(&self.inode), seq);
    }

    fn commit(&mut self, longest: u32) {
        let (start, len) = self.range(longest);
        let seq = map::seq(&self.inode);
        map::commit_reserved(&self.inode, start, len);
        self.set(start, len, &[Reserved], Delalloc);
        assert_eq!(map::seq(&self.inode), seq);
    }

    fn release(&mut self, longest: u32) {
        let (start, len) = self.range(longest);
        let seq = map::seq(&self.inode);
        if self.rng.once_in(4) {
            map::release(&self.inode, start, len, Which::All);
            self.set(start, len, &[Reserved, Delalloc], Hole);
            assert_ne!(map::seq(&self.inode), seq);
        } else {
            map::release(&self.inode, start, len, Which::Reserved);
            self.set(start, len, &[Reserved], Hole);
            assert_eq!(map::seq(&self.inode), seq);
        }
    }

    fn map(&mut self, longest: u32) {
        let (from, len) = self.range(longest);
        let cap = self.rng.length(longest);
        let end = from + len;
        let size = self
            .inode
            .size()
            .div_ceil(self.inode.super_block().data().geo.block_size.into());
        let limit = u64::from(end).min(size);
        let first = (from..end).find(|&b| self.block(b) == Delalloc && u64::from(b) < limit);
        let sb = self.inode.super_block();
        let handle = Handle::new(sb, map::credits_map(&self.inode));
        let seq = map::seq(&self.inode);
        let before = tree::read(&self.inode);
        match map::map_delalloc_run(&handle, &self.inode, from, end, cap, map::Fresh::Unwritten) {
            Ok(None) => assert_eq!(first, None),
            Err(e) => {
                assert!(first.is_some() || e == ENOMEM);
                assert!([ENOSPC, ENOMEM, EFBIG].contains(&e));
                assert_eq!(tree::read(&self.inode), before);
                assert_eq!(map::seq(&self.inode), seq);
            }
            Ok(Some(run)) => {
                let Kind::Unwritten(start) = run.kind else {
                    panic!("{run:?}");
                };
                assert_eq!(Some(run.lblk), first);
                assert!(run.len <= cap && u64::from(run.lblk + run.len) <= limit);
                for i in 0..run.len {
                    assert_eq!(self.block(run.lblk + i), Delalloc);
                    self.blocks[(run.lblk + i) as usize] = Unwritten(start + u64::from(i));
                }
                assert_ne!(map::seq(&self.inode), seq);
                assert_eq!(map::seq(&self.inode), run.seq);
            }
        }
    }

    /// Converts a range that is allocated, as a window is: in one extent or in a few.
    fn convert(&mut self, longest: u32) {
        let (start, len) = self.range(longest);
        let allocated = |block| matches!(block, Unwritten(_) | Written(_));
        let Some(first) = (start..start + len).find(|&b| allocated(self.block(b))) else {
            return;
        };
        let count = (first..start + len)
            .take_while(|&b| allocated(self.block(b)))
            .count() as u32;
        let extent = map::lookup(&self.inode, first, count).unwrap();
        // One window is of one extent, and its credits are for that.
        let count = count.min(extent.len);
        let sb = self.inode.super_block();
        let handle = Handle::new(sb, map::credits_convert(&self.inode));
        let before = tree::read(&self.inode);
        match map::convert(&handle, &self.inode, first, count) {
            Ok(()) => {
                for lblk in first..first + count {
                    if let Unwritten(at) = self.block(lblk) {
                        self.blocks[lblk as usize] = Written(at);
                    }
                }
            }
            Err(e) => {
                assert!([ENOSPC, ENOMEM, EFBIG].contains(&e));
                assert_eq!(tree::read(&self.inode), before);
            }
        }
    }

    /// Removes a range, or all that is behind a block, as a truncation does.
    fn remove(&mut self, longest: u32) {
        let (start, len) = self.range(longest);
        let to_end = self.rng.once_in(4);
        let end = if to_end { u32::MAX } else { start + len };
        if to_end {
            let size = u64::from(start) * u64::from(self.inode.super_block().data().geo.block_size);
            map::lower_size(&self.inode, size.min(self.inode.size()));
        }
        self.inode.is_dir.set(self.rng.once_in(3));
        let sb = self.inode.super_block();
        let (credits, revokes) = (
            map::credits_remove(&self.inode),
            map::revokes_remove(&self.inode),
        );
        let mut handle = Handle::freeing(sb, credits, revokes);
        let seq = map::seq(&self.inode);
        let result = map::remove(&mut handle, &self.inode, start, end);
        self.inode.is_dir.set(false);
        assert_ne!(map::seq(&self.inode), seq);
        let end = end.min(self.blocks.len() as u32);
        self.set(start, end - start, &[Reserved, Delalloc], Hole);
        let mut gone = start;
        if let Err(e) = result {
            // An extent had to be cut in two: what is behind it is gone, and nothing before.
            assert!([ENOSPC, ENOMEM, EFBIG].contains(&e));
            assert!(!to_end || start > 0);
            let mapped =
                |&lblk: &u32| map::lookup(&self.inode, lblk, 1).unwrap().kind != Kind::Hole;
            gone = (start..end)
                .rev()
                .find(mapped)
                .map_or(start, |lblk| lblk + 1);
        } else if to_end {
            assert!(!map::has_blocks_from(&self.inode, start).unwrap());
        }
        for lblk in gone..end {
            self.blocks[lblk as usize] = Hole;
        }
    }

    fn add_block(&mut self) {
        let (lblk, _) = self.range(1);
        if !matches!(self.block(lblk), Hole | Written(_)) {
            return;
        }
        // Not into space that is promised to others.
        let sb = self.inode.super_block();
        if sb.free() < sb.delayed.get() + 8 {
            return;
        }
        let handle = Handle::new(sb, map::credits_map(&self.inode));
        match map::allocate_block(&handle, &self.inode, lblk) {
            Ok((at, is_new)) => {
                assert_eq!(is_new, self.block(lblk) == Hole);
                if is_new {
                    self.blocks[lblk as usize] = Written(at);
                }
                assert_eq!(self.block(lblk), Written(at));
            }
            Err(e) => assert!([ENOSPC, ENOMEM, EFBIG].contains(&e)),
        }
    }

    /// Deletes the file: nothing is left of it but the inode.
    fn remove_all(&mut self) {
        let sb = self.inode.super_block();
        let (credits, revokes) = (
            map::credits_remove(&self.inode),
            map::revokes_remove(&self.inode),
        );
        let mut handle = Handle::freeing(sb, credits, revokes);
        map::remove(&mut handle, &self.inode, 0, u32::MAX).unwrap();
        let tree = tree::check(&self.inode);
        assert_eq!((tree.depth, tree.extents.len()), (0, 0));
        assert_eq!(self.inode.bytes.get(), 0);
    }

    /// Looks at the whole file.
    fn compare(&self) {
        let count = self.blocks.len() as u32;
        let mut lblk = 0;
        while lblk < count {
            let found = map::lookup(&self.inode, lblk, count - lblk).unwrap();
            assert_eq!(found.lblk, lblk);
            assert!(found.len > 0 && lblk + found.len <= count);
            for i in 0..found.len {
                let at = u64::from(i);
                let block = self.block(lblk + i);
                let same = match found.kind {
                    Kind::Hole => matches!(block, Hole | Reserved),
                    Kind::Delalloc => block == Delalloc,
                    Kind::Written(start) => block == Written(start + at),
                    Kind::Unwritten(start) => block == Unwritten(start + at),
                };
                assert!(same, "block {}: {block:?} is {found:?}", lblk + i);
            }
            lblk += found.len;
        }
        let waiting = self
            .blocks
            .iter()
            .filter(|b| matches!(b, Reserved | Delalloc));
        assert_eq!(map::delayed_blocks(&self.inode), waiting.count() as u64);
    }
}

fn run(plan: &Plan) -> u16 {
    let mut file = File::new(plan);
    let mut deepest = 0;
    (0..plan.scattered).for_each(|_| file.add_block());
    for _ in 0..plan.steps {
        if plan.failing != 0 && file.rng.once_in(plan.failing) {
            let count = file.rng.below(4);
            file.inode.super_block().allocations.set(Some(count));
        }
        let starved = plan.failing != 0 && file.rng.once_in(plan.failing);
        if file.rng.once_in(8) {
            let blocks = u64::from(file.rng.below(plan.blocks) + 1);
            let bytes = blocks * u64::from(plan.block_size) - u64::from(file.rng.below(64));
            file.inode.size.set(file.inode.size().max(bytes));
        }
        match file.rng.below(15) {
            0..=3 => {
                limit_memory(if starved { file.rng.below(3) } else { u32::MAX });
                file.reserve(plan.range);
                limit_memory(u32::MAX);
            }
            4 | 5 => file.commit(plan.range),
            6 => file.release(plan.range),
            7..=9 => {
                limit_memory(if starved { file.rng.below(3) } else { u32::MAX });
                file.map(plan.range);
                limit_memory(u32::MAX);
            }
            10 | 11 => file.convert(plan.range),
            12 | 13 if file.rng.once_in(plan.removing) => file.remove(plan.range),
            _ => file.add_block(),
        }
        file.inode.super_block().allocations.set(None);
        deepest = deepest.max(tree::check(&file.inode).depth);
        file.compare();
    }
    file.remove_all();
    file.inode.data().map.forget(&file.inode);
    assert_eq!(file.inode.super_block().delayed.get(), 0);
    assert_eq!(live_nodes(), 0);
    deepest
}

const PLAN: Plan = Plan {
    seed: 0,
    block_size: tree::SMALL,
    volume: 4000,
    blocks: 600,
    range: 20,
    longest: 3,
    failing: 0,
    removing: 1,
    scattered: 0,
    steps: 700,
};

#[test]
fn small_nodes() {
    (0..15).for_each(|seed| {
        run(&Plan { seed, ..PLAN });
    });
}

#[test]
fn a_deep_tree() {
    for seed in 50..60 {
        let deepest = run(&Plan {
            seed,
            blocks: 1500,
            scattered: 350,
            removing: 40,
            ..PLAN
        });
        assert!(deepest >= 3, "{deepest}");
    }
}

#[test]
fn without_space_and_memory() {
    for seed in 100..125 {
        let failing = 3;
        run(&Plan {
            seed,
            failing,
            ..PLAN
        });
    }
}

#[test]
fn a_full_volume() {
    for seed in 200..215 {
        let volume = 300;
        run(&Plan {
            seed,
            volume,
            ..PLAN
        });
    }
}

#[test]
fn real_nodes() {
    for seed in 300..302 {
        let deepest = run(&Plan {
            seed,
            block_size: 1024,
            volume: 8000,
            blocks: 3000,
            scattered: 600,
            removing: 40,
            steps: 1000,
            ..PLAN
        });
        assert!(deepest >= 2, "{deepest}");
    }
}

#[test]
fn long_runs() {
    for seed in 400..410 {
        run(&Plan {
            seed,
            range: 200,
            longest: 200,
            blocks: 2000,
            steps: 400,
            ..PLAN
        });
    }
}
