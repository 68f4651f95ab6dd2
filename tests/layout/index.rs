// SPDX-License-Identifier: GPL-2.0

//! A directory that grows and shrinks in memory by the crate's edits, held against a list of its
//! names after each step.

mod common;

use common::Rng;
use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::split::{self, Hashed};
use ext4rs_layout::{htree, sort, Seed};
use std::collections::BTreeMap;

const INO: u32 = 12;
const LARGE: bool = true;

/// A directory as the filesystem has it: its blocks, in order.
struct Model {
    blocks: Vec<Vec<u8>>,
    fmt: DirFormat,
    seed: Option<Seed>,
    hasher: Hasher,
    version: u8,
    indexed: bool,
}

impl Model {
    fn new(block_size: u32, checksums: bool, version: u8) -> Self {
        let fmt = DirFormat {
            block_size,
            checksums,
            filetype: true,
            inodes_count: 1 << 20,
        };
        let mut first = vec![0; block_size as usize];
        dir::init(&mut first, INO, 2, &fmt).unwrap();
        Self {
            blocks: vec![first],
            fmt,
            seed: checksums.then_some(Seed(77)),
            hasher: Hasher::new(version, true, [1, 2, 3, 4]).unwrap(),
            version,
            indexed: false,
        }
    }

    /// The blocks of the index on the way to a hash, with the entry followed, and the leaf.
    fn path(&self, hash: u32) -> (Vec<(u32, u16)>, u32) {
        let (root, top) = htree::root(&self.blocks[0], LARGE, &self.fmt).unwrap();
        let mut path = vec![(0, top.search(hash))];
        let mut next = top.block(top.search(hash)).unwrap();
        for _ in 0..root.levels {
            let node = htree::node(&self.blocks[next as usize], &self.fmt).unwrap();
            let at = node.search(hash);
            path.push((next, at));
            next = node.block(at).unwrap();
        }
        (path, next)
    }

    fn is_full(&self, lblk: u32) -> bool {
        let index = if lblk == 0 {
            htree::root(&self.blocks[0], LARGE, &self.fmt).unwrap().1
        } else {
            htree::node(&self.blocks[lblk as usize], &self.fmt).unwrap()
        };
        index.count() == index.limit()
    }

    fn append(&mut self) -> u32 {
        self.blocks.push(vec![0; self.fmt.block_size as usize]);
        self.blocks.len() as u32 - 1
    }

    /// Shares a leaf's entries with a new one.
    fn split(&mut self, path: &[(u32, u16)], leaf: u32) {
        let old = self.blocks[leaf as usize].clone();
        let (mut low, mut high) = (vec![1; old.len()], vec![1; old.len()]);
        let mut scratch = vec![Hashed::default(); split::max_entries(old.len())];
        let cut = split::split(
            &old,
            &self.hasher,
            &mut scratch,
            &mut low,
            &mut high,
            &self.fmt,
        )
        .unwrap();
        // No entry is lost, and each is on its side.
        let names = |block: &[u8]| -> Vec<_> {
            let used = dir::entries(block, &self.fmt).unwrap().map(|e| e.unwrap());
            used.filter(|e| e.ino != 0)
                .map(|e| (e.name.to_vec(), e.ino, e.file_type))
                .collect()
        };
        let mut both = [names(&low), names(&high)].concat();
        for (name, ..) in names(&low) {
            assert!(self.hasher.hash(&name).major <= cut.hash);
        }
        for (name, ..) in names(&high) {
            assert!(cut.is_high(self.hasher.hash(&name).major));
        }
        let mut before = names(&old);
        before.sort();
        both.sort();
        assert_eq!(both, before);
        let new = self.append();
        self.blocks[leaf as usize] = low;
        self.blocks[new as usize] = high;
        let (parent, at) = *path.last().unwrap();
        let parent = &mut self.blocks[parent as usize];
        htree::insert(parent, at, cut.index_hash(), new, &self.fmt).unwrap();
    }

    /// Makes room in the index above the leaf for a hash.
    fn make_room(&mut self, hash: u32) {
        loop {
            let (path, _) = self.path(hash);
            let full = path.iter().rev().take_while(|f| self.is_full(f.0)).count();
            if full == 0 {
                return;
            }
            let new = self.append();
            if full == path.len() {
                let old = self.blocks[0].clone();
                let node = &mut self.blocks[new as usize];
                assert_eq!(htree::init_node(node, &old, 0, &self.fmt), Ok(0));
                htree::deepen(&mut self.blocks[0], new, &self.fmt).unwrap();
                continue;
            }
            let (lblk, _) = path[path.len() - full];
            let (parent, at) = path[path.len() - full - 1];
            let old = self.blocks[lblk as usize].clone();
            let keep = htree::node(&old, &self.fmt).unwrap().count() / 2;
            let node = &mut self.blocks[new as usize];
            let hash = htree::init_node(node, &old, keep, &self.fmt).unwrap();
            let parent = &mut self.blocks[parent as usize];
            htree::insert(parent, at, hash, new, &self.fmt).unwrap();
            htree::truncate(&mut self.blocks[lblk as usize], keep, &self.fmt).unwrap();
        }
    }

    fn insert(&mut self, name: &[u8], ino: u32) {
        let hash = self.hasher.hash(name).major;
        let leaf = if self.indexed { self.path(hash).1 } else { 0 };
        let block = &self.blocks[leaf as usize];
        if !dir::has_room(block, name.len(), &self.fmt).unwrap() {
            if !self.indexed {
                let old = block.clone();
                let new = self.append();
                let leaf = &mut self.blocks[new as usize];
                split::without_dots(&old, INO, leaf, &self.fmt).unwrap();
                let root = &mut self.blocks[0];
                htree::init_root(root, INO, self.version, new, &self.fmt).unwrap();
                self.indexed = true;
            }
            self.make_room(hash);
            let (path, leaf) = self.path(hash);
            self.split(&path, leaf);
        }
        let leaf = if self.indexed { self.path(hash).1 } else { 0 };
        let block = &mut self.blocks[leaf as usize];
        let at = dir::insert(block, name, ino, dir::FT_REG, &self.fmt).unwrap();
        assert!(at.is_some(), "a block that was split has no room");
    }

    /// The block that a name is in: one of those that its hash leads to.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let has = |lblk: u32| {
            let block = &self.blocks[lblk as usize];
            dir::find(block, name, &self.fmt).unwrap().is_some()
        };
        if !self.indexed {
            return has(0).then_some(0);
        }
        let hash = self.hasher.hash(name).major;
        let (path, leaf) = self.path(hash);
        if has(leaf) {
            return Some(leaf as usize);
        }
        // Few names share a hash: those here never go on beyond the lowest block of the index.
        let (lblk, at) = *path.last().unwrap();
        let index = if lblk == 0 {
            htree::root(&self.blocks[0], LARGE, &self.fmt).unwrap().1
        } else {
            htree::node(&self.blocks[lblk as usize], &self.fmt).unwrap()
        };
        let goes_on = index.continues(at + 1, hash);
        let next = index.block(at + 1).filter(|_| goes_on)?;
        has(next).then_some(next as usize)
    }

    /// Blocks are what they must be, and have checksums that only the right seed gives.
    fn check(&mut self, names: &BTreeMap<Vec<u8>, u32>) {
        let mut index = vec![];
        if self.indexed {
            let (root, top) = htree::root(&self.blocks[0], LARGE, &self.fmt).unwrap();
            assert_eq!(root.hash_version, self.version);
            let blocks = self.blocks.len() as u32;
            let mut level: Vec<u32> = vec![0];
            top.validate(blocks).unwrap();
            for _ in 0..=root.levels {
                let mut below = vec![];
                for lblk in level {
                    let node = if lblk == 0 {
                        top
                    } else {
                        htree::node(&self.blocks[lblk as usize], &self.fmt).unwrap()
                    };
                    node.validate(blocks).unwrap();
                    below.extend((0..node.count()).map(|i| node.block(i).unwrap()));
                    index.push(lblk);
                }
                level = below;
            }
            // Every block is a leaf or one of the index, once.
            let mut all = [level, index.clone()].concat();
            all.sort();
            assert!(all.iter().copied().eq(0..blocks));
        }
        let mut found = BTreeMap::new();
        for (lblk, block) in self.blocks.iter_mut().enumerate() {
            if index.contains(&(lblk as u32)) {
                htree::update_checksum(block, &self.fmt, self.seed).unwrap();
                htree::verify(block, &self.fmt, self.seed).unwrap();
                continue;
            }
            dir::update_checksum(block, &self.fmt, self.seed).unwrap();
            dir::verify(block, &self.fmt, self.seed).unwrap();
            for entry in dir::entries(block, &self.fmt).unwrap() {
                let entry = entry.unwrap();
                if entry.ino != 0 && entry.name != b"." && entry.name != b".." {
                    assert_eq!(found.insert(entry.name.to_vec(), entry.ino), None);
                }
            }
        }
        assert_eq!(&found, names);
        for name in names.keys() {
            assert!(self.find(name).is_some());
        }
        assert_eq!(dir::parent(&self.blocks[0], INO, &self.fmt), Ok(2));
    }
}

fn grow_and_shrink(block_size: u32, checksums: bool, version: u8, count: usize, longest: usize) {
    let mut rng = Rng::new(u64::from(block_size) + u64::from(version));
    let mut model = Model::new(block_size, checksums, version);
    let mut names = BTreeMap::new();
    for i in 0..count {
        let mut name = format!("{i:x}").into_bytes();
        let more = rng.below(longest);
        name.extend(rng.bytes(more).iter().map(|b| b | 0x40));
        name.truncate(dir::NAME_MAX);
        let ino = 13 + rng.below(1 << 19) as u32;
        model.insert(&name, ino);
        names.insert(name, ino);
        if i % (count / 8) == 0 {
            model.check(&names);
        }
    }
    model.check(&names);
    let mut order: Vec<_> = names.keys().cloned().collect();
    for (i, name) in order.drain(..).enumerate() {
        let lblk = model.find(&name).unwrap();
        let ino = names[&name];
        let block = &mut model.blocks[lblk];
        assert_eq!(dir::remove(block, &name, ino + 1, &model.fmt), Ok(false));
        if i % 3 == 0 {
            let done = dir::redirect(block, &name, ino, ino + 1, dir::FT_LINK, &model.fmt);
            assert_eq!(done, Ok(true));
            names.insert(name, ino + 1);
        } else {
            assert_eq!(dir::remove(block, &name, ino, &model.fmt), Ok(true));
            assert_eq!(dir::find(block, &name, &model.fmt), Ok(None));
            // Nothing of the name is left.
            let is_there = name.len() > 8 && block.windows(name.len()).any(|w| w == name);
            assert!(!is_there);
            names.remove(&name);
        }
        if i % (count / 8) == 0 {
            model.check(&names);
        }
    }
    model.check(&names);
    for lblk in 0..model.blocks.len() {
        let dots = if lblk == 0 { 2 } else { 0 };
        let left = names.keys().any(|name| model.find(name) == Some(lblk));
        let is_empty = dir::is_empty(&model.blocks[lblk], dots, &model.fmt).unwrap();
        assert_eq!(is_empty, !left);
    }
    let first = &mut model.blocks[0];
    dir::set_parent(first, INO, 99, &model.fmt).unwrap();
    assert_eq!(dir::parent(first, INO, &model.fmt), Ok(99));
    assert!(dir::parent(first, INO + 1, &model.fmt).is_err());
}

#[test]
fn small_blocks() {
    grow_and_shrink(1024, true, 1, 6000, 260);
}

#[test]
fn small_blocks_without_checksums() {
    grow_and_shrink(1024, false, 2, 4000, 260);
}

#[test]
fn large_blocks() {
    grow_and_shrink(4096, true, 0, 5000, 60);
}

#[test]
fn largest_blocks() {
    grow_and_shrink(65536, true, 1, 6000, 30);
}

#[test]
fn sorting() {
    let mut rng = Rng::new(5);
    for len in 0..300 {
        let mut items: Vec<u32> = (0..len).map(|_| rng.word() % 100).collect();
        let mut want = items.clone();
        want.sort();
        sort::sort_by_key(&mut items, |&i| i);
        assert_eq!(items, want);
    }
}
