// SPDX-License-Identifier: GPL-2.0

//! Where things lie, against numbers worked out by hand from the format's description.

mod common;

use common::small_superblock;
use ext4rs_layout::{bitmap, group, Geometry, GroupDesc, SuperBlock};

/// A geometry from a small superblock with some words changed.
fn geometry(log: u32, words: &[(usize, u32)]) -> Geometry {
    let mut sb = small_superblock(log, true);
    for &(at, v) in words {
        sb[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    SuperBlock::decode(&sb).unwrap().geometry().unwrap()
}

/// A volume of `groups` full groups of 8192 blocks of 1 KiB.
fn one_k(groups: u32, words: &[(usize, u32)]) -> Geometry {
    let mut all = vec![(0x00, groups * 1024), (0x04, groups * 8192 + 1)];
    all.extend(words);
    geometry(0, &all)
}

fn with_super(geo: &Geometry) -> Vec<u32> {
    (0..geo.groups_count)
        .filter(|&g| geo.has_super(g))
        .collect()
}

#[test]
fn backups() {
    let sparse = one_k(130, &[]);
    assert_eq!(with_super(&sparse), [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    let all = one_k(9, &[(0x64, 0x46a)]);
    assert_eq!(with_super(&all), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let two = one_k(20, &[(0x5c, 0x200), (0x24c, 1), (0x250, 19)]);
    assert_eq!(with_super(&two), [0, 1, 19]);
    assert!(sparse.has_super(3u32.pow(20)) && !sparse.has_super(3u32.pow(20) + 2));
    assert!(!sparse.has_super(15) && !sparse.has_super(6) && !sparse.has_super(u32::MAX));
}

/// 40 groups, 16 descriptors in a block: three blocks of descriptors.
#[test]
fn descriptor_tables() {
    let geo = one_k(40, &[(0xcc, 20 << 16)]);
    assert_eq!((geo.descs_per_block, geo.desc_blocks), (16, 3));
    assert_eq!(
        [0, 1, 2, 3].map(|n| geo.desc_block(n)),
        [Some(2), Some(3), Some(4), None]
    );
    assert_eq!([0, 2, 9].map(|g| geo.desc_blocks_in_group(g)), [3, 0, 3]);
    assert_eq!([0, 2, 9].map(|g| geo.base_meta_blocks(g)), [24, 0, 24]);
    assert_eq!(
        [0, 2].map(|g| geo.overhead_blocks(g)),
        [24 + 256 + 2, 256 + 2]
    );
    assert_eq!(geo.desc_place(17), Some((1, 64)));
    assert_eq!([39, 40].map(|g| geo.desc_place(g).is_some()), [true, false]);
}

/// The same with all descriptors in meta groups, and with those from the second block on.
#[test]
fn meta_groups() {
    let geo = one_k(40, &[(0x60, 0x2d2)]);
    // Groups 0, 16 and 32 begin at 1, 131073 and 262145; group 0 has a superblock before.
    assert_eq!(
        [0, 1, 2].map(|n| geo.desc_block(n)),
        [Some(2), Some(131_073), Some(262_145)]
    );
    let copies: Vec<u32> = (0..40)
        .filter(|&g| geo.desc_blocks_in_group(g) == 1)
        .collect();
    assert_eq!(copies, [0, 1, 15, 16, 17, 31, 32, 33]);
    assert_eq!([0, 2, 9, 15].map(|g| geo.base_meta_blocks(g)), [2, 0, 1, 1]);

    let geo = one_k(40, &[(0x60, 0x2d2), (0x104, 1), (0xcc, 20 << 16)]);
    assert_eq!(
        [0, 1, 2].map(|n| geo.desc_block(n)),
        [Some(2), Some(131_073), Some(262_145)]
    );
    assert_eq!([0, 9, 15].map(|g| geo.base_meta_blocks(g)), [22, 22, 0]);
    // 25 is a power of 5: a superblock, but no descriptors and none reserved.
    assert_eq!([16, 25, 31].map(|g| geo.base_meta_blocks(g)), [1, 1, 1]);
}

/// Clusters of four blocks; the last group ends within one.
#[test]
fn clusters() {
    let words = [
        (0x04, 2 * 131_072 + 999),
        (0x1c, 4),
        (0x20, 131_072),
        (0x64, 0x66b),
    ];
    let geo = geometry(2, &words);
    assert_eq!(
        (geo.cluster_bits, geo.groups_count, geo.clusters_per_group),
        (2, 3, 32768)
    );
    assert_eq!(
        [0, 1, 3, 4, 5, 8].map(|n| geo.blocks_to_clusters(n)),
        [0, 1, 1, 1, 2, 2]
    );
    assert_eq!(
        (geo.blocks_in_group(2), geo.clusters_in_group(2)),
        (999, 250)
    );
    let gd = GroupDesc {
        block_bitmap: 2 * 131_072 + 9,
        inode_bitmap: 2 * 131_072 + 13,
        inode_table: 2 * 131_072 + 30,
        ..GroupDesc::decode(&[0; 64], &geo).unwrap()
    };
    let mut map = vec![0; 4096];
    group::init_block_bitmap(&mut map, 2, &gd, &geo).unwrap();
    // Bitmaps in clusters 2 and 3; 64 blocks of table, from block 30 to 93, in 7 to 23.
    let used: Vec<u32> = (0..250).filter(|&c| bitmap::test(&map, c)).collect();
    let wanted: Vec<u32> = [2, 3].into_iter().chain(7..=23).collect();
    assert_eq!(used, wanted);
    assert!(bitmap::all_set(&map, 250, 32768));
    // A backup and one block of descriptors are half a cluster.
    let gd = GroupDesc {
        block_bitmap: 0,
        inode_bitmap: 0,
        inode_table: 0,
        ..gd
    };
    group::init_block_bitmap(&mut map, 1, &gd, &geo).unwrap();
    assert_eq!(bitmap::find_next_zero(&map, 0, 32768), Some(1));
    assert_eq!(bitmap::count_zero(&map, 0, 32768), 32767);
}

#[test]
fn file_sizes() {
    // 2^32 - 1 blocks, as ee_block and ee_len can say.
    for log in [0, 1, 2, 6] {
        let geo = geometry(log, &[]);
        assert_eq!(geo.max_file_size(), 0xffff_ffff << (10 + log));
    }
    // Without huge_file, 2^32 - 1 sectors in whole blocks.
    let geo = geometry(2, &[(0x64, 0x463)]);
    assert_eq!(geo.max_file_size(), (1 << 41) - 4096);
}

#[test]
fn inode_places() {
    let geo = geometry(2, &[]);
    let place = |ino| {
        geo.inode_place(ino)
            .map(|p| (p.group, p.index, p.table_block, p.offset))
    };
    assert_eq!(place(0), None);
    assert_eq!(place(1), Some((0, 0, 0, 0)));
    assert_eq!(place(17), Some((0, 16, 1, 0)));
    assert_eq!(place(1024), Some((0, 1023, 63, 15 * 256)));
    assert_eq!(place(1025), Some((1, 0, 0, 0)));
    assert_eq!(place(3072), Some((2, 1023, 63, 15 * 256)));
    assert_eq!(place(3073), None);
    assert_eq!(geo.inode_number(2, 1023), Some(3072));
    assert_eq!(
        (geo.inode_number(3, 0), geo.inode_number(0, 1024)),
        (None, None)
    );
}

#[test]
fn blocks() {
    let geo = geometry(0, &[]);
    assert_eq!((geo.sb_block(), geo.sb_offset()), (1, 0));
    assert_eq!(
        [0, 1, 8192, 8193].map(|b| geo.block_group(b)),
        [None, Some((0, 0)), Some((0, 8191)), Some((1, 0)),]
    );
    let end = geo.blocks_count;
    assert_eq!(geo.block_group(end - 1), Some((2, 999)));
    assert_eq!(geo.block_group(end), None);
    // The first data block holds the superblock.
    assert!(!geo.valid_blocks(1, 1) && geo.valid_blocks(2, 1));
    assert!(geo.valid_blocks(end - 5, 5) && !geo.valid_blocks(end - 5, 6));
    assert!(!geo.valid_blocks(u64::MAX, 1) && !geo.valid_blocks(2, u64::MAX));
    let geo = geometry(2, &[]);
    assert_eq!((geo.sb_block(), geo.sb_offset()), (0, 1024));
}

#[test]
fn flex_groups() {
    let mut sb = small_superblock(2, true);
    for (log, groups) in [(0, 1), (4, 16), (31, 1 << 31), (32, 1), (255, 1)] {
        sb[0x174] = log;
        let geo = SuperBlock::decode(&sb).unwrap().geometry().unwrap();
        assert_eq!(geo.groups_per_flex(), groups);
    }
}
