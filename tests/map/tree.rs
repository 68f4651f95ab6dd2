// SPDX-License-Identifier: GPL-2.0

//! What must be true of an extent tree after every change, and trees that are made and damaged on
//! purpose.

use crate::{
    inode::{self, Inode},
    journal::Handle,
    map::{self, Kind},
    prelude::*,
    report,
    volume::Sb,
    Rng,
};
use ext4rs_layout::extent::{self, Extent, Index, Node, NodeMut, LBLK_END};
use std::collections::BTreeSet;

/// Bytes of a block whose nodes have nine entries: more than the root, as it should be, and few
/// enough for deep trees.
pub(crate) const SMALL: u32 = 128;

/// A tree as it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// All extents, in order.
    pub(crate) extents: Vec<Extent>,
    /// The blocks of the nodes.
    pub(crate) nodes: BTreeSet<u64>,
    /// Levels below the root.
    pub(crate) depth: u16,
    /// The number of leaves.
    pub(crate) leaves: usize,
}

/// Reads the whole tree, checking each node against its index.
pub(crate) fn read(inode: &Inode) -> Tree {
    let root = inode.root();
    let header = extent::check_root(&root, &inode.super_block().data().geo).unwrap();
    let mut tree = Tree {
        depth: header.depth,
        ..Tree::default()
    };
    walk(inode, Node::new(&root).unwrap(), LBLK_END, &mut tree);
    tree
}

fn walk(inode: &Inode, node: Node<'_>, end: u64, tree: &mut Tree) {
    let sb = inode.super_block();
    tree.extents.extend(node.extents());
    tree.leaves += usize::from(node.is_leaf());
    if let Some(two) = node.extents().collect::<Vec<_>>().windows(2).find(|two| {
        let [left, right] = two else { return false };
        left.merged(right).is_some()
    }) {
        panic!("could be one: {two:?}");
    }
    let indexes: Vec<_> = node.indexes().collect();
    for (i, index) in indexes.iter().enumerate() {
        assert!(tree.nodes.insert(index.leaf), "node used twice");
        let end = indexes.get(i + 1).map_or(end, |next| next.block.into());
        let buffer = sb.bread(index.leaf).unwrap();
        assert!(buffer.is_verified(), "new node not verified");
        let bytes = buffer.read(<[u8]>::to_vec);
        let (depth, seed) = (node.header().depth - 1, inode::checksum_seed(inode));
        let geo = &sb.data().geo;
        let header = extent::check_block(&bytes, depth, index.block, end, geo, seed).unwrap();
        assert_ne!(header.entries, 0, "empty node");
        walk(inode, Node::new(&bytes).unwrap(), end, tree);
    }
}

/// Checks what holds between the tree, the inode and the volume's free space. Gives the tree.
pub(crate) fn check(inode: &Inode) -> Tree {
    let tree = read(inode);
    let sb = inode.super_block();
    let mut owned = tree.nodes.clone();
    for extent in &tree.extents {
        for block in extent.start..extent.start + u64::from(extent.len) {
            assert!(owned.insert(block), "block {block} used twice");
        }
    }
    let bytes = owned.len() as u64 * u64::from(sb.data().geo.block_size);
    assert_eq!(inode.bytes.get(), bytes, "i_blocks");
    owned.extend([0, 1]);
    assert_eq!(owned, *sb.used.borrow(), "blocks in use");
    assert_eq!(
        sb.delayed.get(),
        map::delayed_blocks(inode),
        "space promised"
    );
    assert_eq!(
        *inode.on_disk.borrow(),
        (inode.root(), inode.bytes.get()),
        "inode not dirtied"
    );
    tree
}

/// A file of one-block extents at each logical block of `lblks`, in that order, on a volume with
/// blocks of `block_size` bytes.
fn scattered(block_size: u32, lblks: impl Iterator<Item = u32>) -> Inode {
    let inode = Inode::new(Sb::new(1 << 16, block_size, 1));
    for lblk in lblks {
        add(&inode, lblk).unwrap();
    }
    inode
}

fn add(inode: &Inode, lblk: u32) -> Result {
    let sb = inode.super_block();
    let handle = Handle::new(sb, map::credits_map(inode));
    let (_, is_new) = map::allocate_block(&handle, inode, lblk)?;
    assert!(is_new);
    Ok(())
}

/// A file that grows at its end, with holes so that nothing merges, fills its nodes.
#[test]
fn appending_fills_nodes() {
    let inode = scattered(1024, (0..2000).map(|i| i * 2));
    let tree = check(&inode);
    assert_eq!(tree.extents.len(), 2000);
    // 84 entries a node, of which one at most is moved on to the next.
    assert_eq!(tree.leaves, 2000_usize.div_ceil(83));
    assert_eq!(tree.depth, 2);
}

#[test]
fn any_order_of_insertion_makes_the_same_file() {
    let mut lblks: Vec<u32> = (0..1500).map(|i| i * 2).collect();
    let expected = lblks.clone();
    let mut rng = Rng::new(7);
    for round in 0..6 {
        match round {
            0 => lblks.reverse(),
            _ => (1..lblks.len())
                .rev()
                .for_each(|i| lblks.swap(i, rng.below(i as u32 + 1) as usize)),
        }
        let inode = scattered(1024, lblks.iter().copied());
        let tree = check(&inode);
        let found: Vec<_> = tree.extents.iter().map(|e| e.block).collect();
        assert_eq!(found, expected);
        // Half full at least, but for what a descending file leaves.
        assert!(
            tree.leaves <= 1500_usize.div_ceil(42) + 1,
            "{} leaves",
            tree.leaves
        );
    }
}

/// A tree of full depth whose nodes on the way to the first leaf are all full: it stays as it is.
#[test]
fn a_tree_has_five_levels_at_most() {
    let inode = Inode::new(Sb::new(1 << 16, SMALL, 1));
    let sb = inode.super_block();
    let handle = Handle::new(sb, 100);
    let seed = inode::checksum_seed(&inode);
    // What the other indexes name is not there, and nobody looks.
    let node = |block: u64, depth: u16| {
        let fill = |bytes: &mut [u8]| {
            let mut node = NodeMut::format(bytes, depth).unwrap();
            let step = 20 << (depth * 4);
            for i in 0..node.as_node().header().max {
                let (block, leaf) = (u32::from(i) * step, block - 1 + u64::from(i) * 100);
                match depth {
                    0 => node.insert_extent(i, &one_block(block, 1000 + u64::from(i))),
                    _ => node.insert_index(i, &Index { block, leaf }),
                }
                .unwrap();
            }
        };
        match depth {
            5 => fill(&mut inode.data().raw.lock().i_block),
            _ => {
                let (buffer, ()) = handle.create(block, fill).unwrap();
                buffer.write(|bytes| extent::update_checksum(bytes, seed).unwrap());
            }
        }
    };
    (0..=5).for_each(|depth| node(100 + u64::from(depth), depth));
    let before = (inode.root(), sb.used.borrow().clone());
    assert_eq!(
        map::lookup(&inode, 0, 10).unwrap().kind,
        Kind::Written(1000)
    );
    assert_eq!(add(&inode, 5), Err(EFBIG));
    assert_eq!(before, (inode.root(), sb.used.borrow().clone()));
    let end = u32::from(extent::capacity(SMALL as usize)) * 20 - 20;
    assert_eq!(
        map::lookup(&inode, end, 1).unwrap().kind,
        Kind::Written(1008)
    );
}

fn one_block(block: u32, start: u64) -> Extent {
    Extent {
        block,
        len: 1,
        unwritten: false,
        start,
    }
}

/// An allocation of a tree's block may fail at any point: nothing has changed then.
#[test]
fn without_space_for_the_tree_nothing_changes() {
    let mut refused = 0;
    let mut inode = scattered(SMALL, (0..40).map(|i| i * 2));
    for count in 0..6 {
        for lblk in (1..80).step_by(2) {
            let sb = inode.super_block();
            let before = check(&inode);
            sb.allocations.set(Some(count));
            let result = add(&inode, lblk + 1000);
            sb.allocations.set(None);
            let after = check(&inode);
            match result {
                Ok(()) => assert_eq!(after.extents.len(), before.extents.len() + 1),
                Err(e) => {
                    assert_eq!(e, ENOSPC);
                    assert_eq!(after, before);
                    refused += 1;
                    // With as many as are needed, and no more, it works.
                    add(&inode, lblk + 1000).unwrap();
                    let needed = check(&inode).nodes.len() - before.nodes.len() + 1;
                    assert!(needed > count as usize, "{needed}");
                }
            }
        }
        inode = scattered(SMALL, (0..40 + count).map(|i| i * 2));
    }
    assert!(refused > 40);
}

/// Removes `from..end` of a file, with as many credits as that wants at first. Gives the number of
/// transactions that it let go.
fn remove(inode: &Inode, from: u32, end: u32) -> u32 {
    let (credits, revokes) = (map::credits_remove(inode), map::revokes_remove(inode));
    let mut handle = Handle::freeing(inode.super_block(), credits, revokes);
    map::remove(&mut handle, inode, from, end).unwrap();
    handle.restarts.get()
}

/// What is left of a file fits into the inode as soon as it is that little.
#[test]
fn a_tree_shrinks_with_its_file() {
    let inode = scattered(SMALL, (0..500).map(|i| i * 2));
    assert_eq!(check(&inode).depth, 3);
    let mut restarts = 0;
    for left in (0..500).rev().step_by(7) {
        restarts += remove(&inode, left * 2 + 1, u32::MAX);
        let tree = check(&inode);
        assert_eq!(tree.extents.len() as u32, left + 1);
        assert!(left >= 4 || tree.depth == 0, "{left}: {tree:?}");
    }
    assert!(restarts > 0);
    // From the front, too: the first block of every node on the way changes.
    let inode = scattered(SMALL, (0..500).map(|i| i * 2));
    for gone in (0..500).step_by(3) {
        remove(&inode, 0, gone * 2 + 1);
        assert_eq!(check(&inode).extents.len() as u32, 499 - gone);
    }
}

/// A hole in the middle of an extent leaves its two ends.
#[test]
fn a_hole_is_cut_into_an_extent() {
    for used in 0..40 {
        let inode = scattered(SMALL, (0..used).map(|i| i * 2 + 100));
        let sb = inode.super_block();
        inode.size.set(1 << 30);
        map::reserve(&inode, 0, 9, true).unwrap();
        let handle = Handle::new(sb, 100);
        let run = map::map_delalloc_run(&handle, &inode, 0, 9, 9, map::Fresh::Unwritten).unwrap();
        let Some(run) = run.filter(|run| run.len == 9) else {
            continue;
        };
        let Kind::Unwritten(start) = run.kind else {
            panic!("{run:?}");
        };
        remove(&inode, 3, 5);
        assert_eq!(check(&inode).extents.len() as u32, used + 2);
        let kind = |lblk| map::lookup(&inode, lblk, 10).unwrap();
        assert_eq!((kind(0).kind, kind(0).len), (Kind::Unwritten(start), 3));
        assert_eq!((kind(3).kind, kind(3).len), (Kind::Hole, 2));
        assert_eq!((kind(5).kind, kind(5).len), (Kind::Unwritten(start + 5), 4));
    }
}

/// Blocks behind the end of the file may be gone when their conversion comes.
#[test]
fn a_conversion_passes_over_what_was_cut_off() {
    let inode = scattered(SMALL, 0..3);
    let handle = Handle::new(inode.super_block(), 100);
    map::lower_size(&inode, 3 * u64::from(SMALL));
    assert_eq!(map::convert(&handle, &inode, 1, 10), Ok(()));
    check(&inode);
}

/// Splitting an extent in three needs two places in a leaf.
#[test]
fn a_conversion_makes_room_for_two() {
    for blocks in 1..60 {
        let inode = Inode::new(Sb::new(1 << 16, SMALL, 1));
        let sb = inode.super_block();
        inode.size.set(1 << 30);
        for i in 0..blocks {
            assert_eq!(map::reserve(&inode, i * 10, 3, true).unwrap().len, 3);
        }
        for _ in 0..blocks * 3 {
            let handle = Handle::new(sb, map::credits_map(&inode));
            map::map_delalloc_run(
                &handle,
                &inode,
                0,
                u32::MAX,
                u32::MAX,
                map::Fresh::Unwritten,
            )
            .unwrap();
        }
        let before = check(&inode);
        let Some(&old) = before.extents.iter().find(|e| e.len == 3) else {
            continue;
        };
        let handle = Handle::new(sb, map::credits_convert(&inode));
        map::convert(&handle, &inode, old.block + 1, 1).unwrap();
        let after = check(&inode);
        assert_eq!(after.extents.len(), before.extents.len() + 2);
        let kind = |lblk| map::lookup(&inode, lblk, 10).unwrap();
        assert_eq!(kind(old.block).kind, Kind::Unwritten(old.start));
        assert_eq!(kind(old.block + 1).kind, Kind::Written(old.start + 1));
        assert_eq!(kind(old.block + 2).kind, Kind::Unwritten(old.start + 2));
    }
}

/// A leaf that a second index names was found good for the first one.
#[test]
fn a_node_used_twice_is_noticed() {
    report::expect_damage();
    let inode = scattered(SMALL, (0..20).map(|i| i * 2));
    let second = {
        let mut raw = inode.data().raw.lock();
        let mut root = NodeMut::new(&mut raw.i_block).unwrap();
        let [first, second] = [0, 1].map(|i| root.as_node().index(i).unwrap());
        let leaf = first.leaf;
        root.set_index(1, &Index { leaf, ..second }).unwrap();
        second.block
    };
    assert!(map::lookup(&inode, 0, 1).is_ok());
    assert_eq!(map::lookup(&inode, second, 1), Err(EFSCORRUPTED));
}

/// Bytes changed anywhere in the tree: an error or an answer, never a panic, and never an endless
/// loop. Half of the changed nodes get a checksum that is right.
#[test]
fn damage_is_an_error_or_an_answer() {
    report::expect_damage();
    let mut rng = Rng::new(3);
    let (mut errors, mut answers) = (0, 0);
    for round in 0..2000 {
        let inode = scattered(SMALL, (0..60).map(|i| i * 2));
        let sb = inode.super_block();
        let nodes: Vec<u64> = read(&inode).nodes.into_iter().collect();
        sb.forget_verified();
        for _ in 0..1 + rng.below(3) {
            let which = rng.below(nodes.len() as u32 + 1) as usize;
            let byte = rng.below(256) as u8;
            match nodes.get(which) {
                None => {
                    let mut raw = inode.data().raw.lock();
                    let at = rng.below(60) as usize;
                    raw.i_block[at] = byte;
                }
                Some(&block) => sb.bread(block).unwrap().write(|bytes| {
                    let at = rng.below(bytes.len() as u32) as usize;
                    bytes[at] = byte;
                    if round % 2 == 0 {
                        let seed = inode::checksum_seed(&inode);
                        let _ = extent::update_checksum(bytes, seed);
                    }
                }),
            }
        }
        let mut at = 0;
        while at < 130 {
            match map::lookup(&inode, at, 200) {
                Ok(found) => {
                    assert_ne!(found.len, 0);
                    at += found.len;
                    answers += 1;
                }
                Err(_) => {
                    at += 1;
                    errors += 1;
                }
            }
        }
        for _ in 0..10 {
            let handle = Handle::new(sb, u32::MAX);
            let lblk = rng.below(140);
            let mut removing = Handle::freeing(sb, 1 << 20, 1 << 20);
            let _ = match rng.below(4) {
                0 => map::allocate_block(&handle, &inode, lblk).map(drop),
                1 => map::convert(&handle, &inode, lblk, 1 + rng.below(5)),
                2 => map::remove(&mut removing, &inode, lblk, lblk + 1 + rng.below(9)),
                _ => map::reserve(&inode, lblk, 4, true).map(drop),
            };
        }
        inode.size.set(1 << 30);
        let handle = Handle::new(sb, u32::MAX);
        let _ = map::map_delalloc_run(&handle, &inode, 0, u32::MAX, 100, map::Fresh::Unwritten);
    }
    assert!(
        errors > 1000 && answers > 1000,
        "{errors} errors, {answers} answers"
    );
}
