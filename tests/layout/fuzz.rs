// SPDX-License-Identifier: GPL-2.0

//! Any bytes and any arguments: no panic, no overflow, no endless loop, and what is accepted keeps
//! its promises. Bytes are random, or those of a real volume with some of them changed.

mod common;

use common::samples::{fuzz, samples};
use common::Rng;
use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::extent::{self, Extent, Index, Node, NodeMut};
use ext4rs_layout::group::{self, GroupChecksum};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::inode::{self, Inode, InodeFormat};
use ext4rs_layout::journal::JournalSuper;
use ext4rs_layout::xattr::{self, Rules};
use ext4rs_layout::{acl, bitmap, htree, orphan, split};
use ext4rs_layout::{Geometry, GroupDesc, Result, Seed, SuperBlock, SuperBlockMut};

/// A seed of checksums, or none.
fn some_seed(rng: &mut Rng) -> Option<Seed> {
    (!rng.chance(3)).then(|| Seed(rng.word()))
}

/// What was just summed is right; a change of any byte that is summed is found.
fn seals(
    bytes: &mut [u8],
    update: impl Fn(&mut [u8]) -> Result<()>,
    verify: impl Fn(&[u8]) -> Result<()>,
) {
    if update(bytes).is_ok() {
        verify(bytes).unwrap();
    }
}

#[test]
fn superblocks() {
    let mut accepted = 0;
    fuzz(101, 150_000, &samples().superblocks, |rng, mut bytes| {
        if let Ok(mut sb) = SuperBlockMut::new(&mut bytes) {
            sb.update_checksum();
        }
        let Ok(sb) = SuperBlock::decode(&bytes) else {
            return;
        };
        assert!(sb.verify_checksum(&bytes).is_ok() || sb.checksum_type != 1);
        let _ = (
            sb.csum_seed(),
            sb.group_checksum(),
            sb.on_error(),
            sb.hash_unsigned(),
        );
        let _ = (
            sb.valid_inum(rng.odd()),
            format!("{} {} {}", sb.compat, sb.incompat, sb.ro_compat),
        );
        if let Ok(geo) = sb.geometry() {
            accepted += 1;
            geometry(rng, &geo);
        }
    });
    assert!(
        accepted > 10_000,
        "only {accepted} geometries were accepted"
    );
}

/// What a geometry promises, for any arguments.
fn geometry(rng: &mut Rng, geo: &Geometry) {
    assert_eq!(1 << geo.block_bits, geo.block_size);
    assert_eq!(geo.inodes_per_block * geo.inode_size, geo.block_size);
    assert_eq!(geo.descs_per_block * geo.desc_size, geo.block_size);
    assert_eq!(
        geo.itable_blocks * geo.inodes_per_block,
        geo.inodes_per_group
    );
    assert!(geo.want_extra_isize <= geo.inode_size - 128);
    assert!(geo.max_file_size() <= i64::MAX as u64 && geo.max_file_size() > 0);
    assert!(geo.group_first_block(geo.groups_count - 1) < geo.blocks_count);
    assert!(geo.sb_block() < geo.blocks_count);
    for g in [
        0,
        1,
        geo.groups_count - 1,
        geo.groups_count,
        rng.odd(),
        rng.word() % geo.groups_count,
    ] {
        let first = geo.group_first_block(g);
        let blocks = geo.blocks_in_group(g);
        if g < geo.groups_count {
            assert!(blocks > 0 && blocks <= geo.blocks_per_group);
            assert_eq!(geo.block_group(first), Some((g, 0)));
            assert_eq!(
                geo.block_group(first + u64::from(blocks) - 1),
                Some((g, blocks - 1))
            );
            let (nr, at) = geo.desc_place(g).unwrap();
            assert!(at + geo.desc_size as usize <= geo.block_size as usize);
            assert!(geo.desc_block(nr).unwrap() > geo.sb_block() || nr > 0);
            let index = rng.word() % geo.inodes_per_group;
            let place = geo
                .inode_place(geo.inode_number(g, index).unwrap())
                .unwrap();
            assert_eq!((place.group, place.index), (g, index));
            assert!(place.table_block < geo.itable_blocks);
            assert!(place.offset + geo.inode_size as usize <= geo.block_size as usize);
        } else {
            assert_eq!(
                (blocks, geo.desc_place(g), geo.inode_number(g, 0)),
                (0, None, None)
            );
        }
        assert!(geo.clusters_in_group(g) <= geo.clusters_per_group);
        assert!(geo.overhead_blocks(g) >= geo.base_meta_blocks(g));
        let _ = (
            geo.has_super(g),
            geo.desc_blocks_in_group(g),
            geo.desc_block(g),
        );
        let _ = (
            geo.inode_place(g),
            geo.inode_number(g, rng.odd()),
            geo.blocks_to_clusters(g),
        );
    }
    let block = rng.next() >> rng.below(64);
    if let Some((g, off)) = geo.block_group(block) {
        assert_eq!(geo.group_first_block(g) + u64::from(off), block);
        assert!(off < geo.blocks_in_group(g));
    }
    let count = rng.next() >> rng.below(64);
    if geo.valid_blocks(block, count) {
        assert!(block > 0 && block + count <= geo.blocks_count);
    }
    let _ = geo.groups_per_flex();
    if geo.block_size <= 4096 {
        bitmaps_of(rng, geo);
    }
}

/// Descriptors and bitmaps under any geometry.
fn bitmaps_of(rng: &mut Rng, geo: &Geometry) {
    let raw = rng.bytes(1024);
    let mut gd = GroupDesc::decode(&raw, geo).unwrap();
    let g = if rng.chance(4) {
        rng.odd()
    } else {
        rng.word() % geo.groups_count
    };
    if rng.chance(2) {
        // Somewhere near the group.
        let near = |rng: &mut Rng| {
            geo.group_first_block(g)
                .wrapping_add(u64::from(rng.word() % 4096))
                .wrapping_sub(100)
        };
        gd.block_bitmap = near(rng);
        gd.inode_bitmap = near(rng);
        gd.inode_table = near(rng);
    }
    let valid = gd.validate(g, geo).is_ok();
    let mut map = rng.bytes(geo.block_size as usize);
    let seed = some_seed(rng);
    let _ = group::validate_block_bitmap(&map, g, &gd, geo);
    if group::init_block_bitmap(&mut map, g, &gd, geo).is_ok() {
        let clusters = geo.clusters_in_group(g);
        assert!(bitmap::all_set(&map, clusters, bitmap::len(&map)));
        assert!(bitmap::all_set(
            &map,
            0,
            geo.blocks_to_clusters(geo.base_meta_blocks(g))
        ));
        let used = clusters - bitmap::count_zero(&map, 0, clusters);
        assert!(
            used <= geo.overhead_blocks(g),
            "{used} of {}",
            geo.overhead_blocks(g)
        );
        if valid && !geo.flex_bg {
            group::validate_block_bitmap(&map, g, &gd, geo).unwrap();
        }
    }
    group::update_block_bitmap_csum(&map, &mut gd, seed, geo).unwrap();
    group::verify_block_bitmap(&map, &gd, seed, geo).unwrap();
    group::init_inode_bitmap(&mut map, geo).unwrap();
    assert_eq!(bitmap::find_next_set(&map, 0, geo.inodes_per_group), None);
    group::update_inode_bitmap_csum(&map, &mut gd, seed, geo).unwrap();
    group::verify_inode_bitmap(&map, &gd, seed, geo).unwrap();
    map[rng.below(geo.inodes_per_group as usize / 8)] ^= 1;
    let caught = group::verify_inode_bitmap(&map, &gd, seed, geo).is_err();
    assert_eq!(caught, seed.is_some());
    for short in [0, 7, 1023] {
        let map = &mut map[..short.min(geo.inodes_per_group as usize / 8 - 1)];
        assert!(group::init_block_bitmap(map, 0, &gd, geo).is_err());
        assert!(group::init_inode_bitmap(map, geo).is_err());
        let _ = group::verify_block_bitmap(map, &gd, seed, geo);
        assert!(group::update_inode_bitmap_csum(map, &mut gd, Some(Seed(0)), geo).is_err());
    }
}

#[test]
fn descriptors() {
    let geo = &samples().geo;
    let mut valid = 0;
    fuzz(102, 150_000, &samples().descriptors, |rng, mut bytes| {
        let g = if rng.chance(3) {
            rng.odd()
        } else {
            rng.word() % geo.groups_count
        };
        for kind in [
            GroupChecksum::None,
            GroupChecksum::Crc16([7; 16]),
            GroupChecksum::Crc32c(Seed(rng.word())),
        ] {
            seals(
                &mut bytes,
                |b| group::update_checksum(b, g, &kind, geo),
                |b| group::verify(b, g, &kind, geo),
            );
        }
        let Ok(gd) = GroupDesc::decode(&bytes, geo) else {
            return;
        };
        valid += u32::from(gd.validate(g, geo).is_ok());
        gd.encode(&mut bytes, geo).unwrap();
        assert_eq!(GroupDesc::decode(&bytes, geo).unwrap(), gd);
        if bytes.len() >= 64 {
            // Every byte of a descriptor is summed.
            let kind = GroupChecksum::Crc32c(Seed(1));
            group::update_checksum(&mut bytes, g, &kind, geo).unwrap();
            let at = rng.below(64);
            bytes[at] ^= 0x10;
            assert!(group::verify(&bytes, g, &kind, geo).is_err());
        }
    });
    assert!(valid > 1000, "only {valid} descriptors were accepted");
}

#[test]
fn inodes() {
    let mut decoded = 0;
    fuzz(103, 200_000, &samples().inodes, |rng, mut bytes| {
        let fmt = InodeFormat {
            inode_size: [128, 256, 256, 256, 512][rng.below(5)],
            block_bits: 10 + rng.below(7) as u32,
            huge_file: rng.chance(2),
            wide: rng.chance(2),
        };
        let seed = inode::seed(&bytes, rng.odd(), some_seed(rng));
        seals(
            &mut bytes,
            |b| inode::update_checksum(b, &fmt, seed),
            |b| inode::verify(b, &fmt, seed),
        );
        let rules = rules(rng);
        if let Ok(Some(region)) = inode::xattr_region(&bytes, &fmt) {
            attributes_in(xattr::ibody(region, &rules));
        }
        let _ = inode::is_unused(&bytes);
        let Ok(node) = Inode::decode(&bytes, &fmt) else {
            return;
        };
        decoded += 1;
        let _ = (
            node.validate(rng.next()),
            node.device(),
            node.fast_symlink(),
        );
        let _ = node.is_fast_symlink(rng.chance(2), 1 << rng.below(32));
        let _ = inode::mask_flags(node.mode, node.flags);
        assert!(usize::from(node.extra_isize) + 128 <= fmt.inode_size as usize);
        assert!([node.atime, node.ctime, node.mtime, node.crtime]
            .iter()
            .all(|t| {
                t.nsec < 1_000_000_000 && (inode::TIME_MIN..=inode::TIME_MAX).contains(&t.sec)
            }));
        tree(rng, &node.i_block);
        // Encoding chooses the unit of the block count anew.
        node.encode(&mut bytes, &fmt).unwrap();
        let again = Inode::decode(&bytes, &fmt).unwrap();
        let plain = |n: Inode| Inode {
            flags: n.flags & !inode::FL_HUGE_FILE,
            ..n
        };
        assert_eq!(plain(again), plain(node));
    });
    assert!(decoded > 100_000, "only {decoded} inodes were decoded");
}

/// Every view of a node, whatever it holds.
fn tree(rng: &mut Rng, bytes: &[u8]) {
    let geo = &samples().geo;
    let (depth, first, end) = (rng.below(7) as u16, rng.odd(), u64::from(rng.odd()));
    let _ = extent::check_root(bytes, geo);
    let Ok(node) = Node::new(bytes) else { return };
    let header = node.header();
    let _ = extent::check_block(bytes, depth, first, end, geo, None);
    let first = node.first_block(0).unwrap_or(0);
    let good = extent::check_block(bytes, header.depth, first, extent::LBLK_END, geo, None);
    assert!(header.entries <= header.max);
    let all: Vec<Extent> = node.extents().collect();
    let indexes: Vec<Index> = node.indexes().collect();
    assert_eq!(all.len() + indexes.len(), usize::from(node.len()));
    assert!(all.iter().all(|e| e.len <= Extent::max_len(e.unwritten)));
    if good.is_ok() {
        assert!(all.windows(2).all(|w| w[0].end() <= u64::from(w[1].block)));
        assert!(indexes.windows(2).all(|w| w[0].block < w[1].block));
        assert!(all
            .iter()
            .all(|e| e.len > 0 && geo.valid_blocks(e.start, e.len.into())));
        assert!(indexes.iter().all(|x| geo.valid_blocks(x.leaf, 1)));
    }
    for i in [rng.odd() as u16, header.entries, u16::MAX] {
        let _ = (
            node.extent(i),
            node.index(i),
            node.first_block(i),
            node.search(rng.odd()),
        );
    }
    for pair in all.windows(2) {
        let _ = (
            pair[0].merged(&pair[1]),
            pair[0].map(rng.odd()),
            pair[0].contains(rng.odd()),
        );
        let _ = pair[0].part(rng.odd(), u64::from(rng.odd()));
    }
}

#[test]
fn extents() {
    let mut nodes = 0;
    fuzz(104, 60_000, &samples().extents, |rng, mut bytes| {
        tree(rng, &bytes);
        let seed = some_seed(rng);
        seals(
            &mut bytes,
            |b| extent::update_checksum(b, seed),
            |b| extent::verify(b, seed),
        );
        // Edits of a node that nobody has checked.
        let mut other = vec![0; 1024];
        let Ok(mut node) = NodeMut::new(&mut bytes) else {
            return;
        };
        nodes += 1;
        for _ in 0..6 {
            let i = if rng.chance(2) {
                rng.odd() as u16
            } else {
                rng.word() as u16 % 90
            };
            let block = rng.odd();
            let e = Extent {
                block,
                len: rng.odd(),
                unwritten: rng.chance(2),
                start: rng.next() >> rng.below(64),
            };
            let x = Index {
                block,
                leaf: e.start,
            };
            let _ = match rng.below(6) {
                0 => node.insert_extent(i, &e),
                1 => node.set_extent(i, &e),
                2 => node.insert_index(i, &x),
                3 => node.set_index(i, &x),
                4 => node.remove(i, i.saturating_add(rng.below(4) as u16)),
                _ => {
                    let depth = node.as_node().header().depth;
                    match NodeMut::format(&mut other, depth % 6) {
                        Ok(mut dst) => node.split_into(i, &mut dst),
                        Err(_) => Ok(()),
                    }
                }
            };
            let header = node.as_node().header();
            assert!(header.entries <= header.max);
        }
        tree(rng, &bytes);
        tree(rng, &other);
    });
    assert!(nodes > 40_000, "only {nodes} nodes were accepted");
}

fn dir_format(rng: &mut Rng, len: usize) -> DirFormat {
    DirFormat {
        block_size: if rng.chance(20) {
            rng.odd()
        } else {
            len as u32
        },
        checksums: !rng.chance(4),
        filetype: !rng.chance(4),
        inodes_count: if rng.chance(4) { rng.odd() } else { 16384 },
    }
}

#[test]
fn directories() {
    let mut inserted = 0;
    fuzz(105, 60_000, &samples().dirs, |rng, mut bytes| {
        let fmt = dir_format(rng, bytes.len());
        let seed = some_seed(rng);
        seals(
            &mut bytes,
            |b| dir::update_checksum(b, &fmt, seed),
            |b| dir::verify(b, &fmt, seed),
        );
        let _ = (
            dir::is_index_block(&bytes, rng.odd(), &fmt),
            dir::has_tail(&bytes),
        );
        let _ = dir::entry_from(&bytes, rng.odd() as usize, &fmt);
        let Ok(entries) = dir::entries(&bytes, &fmt) else {
            return;
        };
        let mut end = 0;
        for entry in entries {
            let Ok(entry) = entry else { break };
            assert_eq!(entry.offset, end);
            end = entry.offset + entry.rec_len;
            assert!(entry.ino == 0 || !entry.name.is_empty());
            assert!(dir::entry_size(entry.name.len()) <= entry.rec_len);
        }
        shared_out(rng, &bytes, &fmt);
        let len = rng.below(300);
        let (mut name, ino) = (rng.bytes(len), rng.odd());
        name.iter_mut().for_each(|b| *b |= 0x40);
        match dir::insert(&mut bytes, &name, ino, rng.word() as u8, &fmt) {
            Ok(Some(at)) => {
                inserted += 1;
                let found = dir::find(&bytes, &name, &fmt).unwrap().unwrap();
                assert_eq!((found.offset, found.ino), (at, ino));
            }
            Ok(None) => assert_eq!(dir::find(&bytes, &name, &fmt).unwrap(), None),
            Err(_) => {}
        }
    });
    assert!(inserted > 500, "only {inserted} names were inserted");
}

/// Removes, changes and shares out the entries of a block that may be damaged: what is accepted keeps
/// the others.
fn shared_out(rng: &mut Rng, bytes: &[u8], fmt: &DirFormat) {
    let used = |block: &[u8]| {
        let entries = dir::entries(block, fmt).into_iter().flatten().flatten();
        entries.filter(|e| e.ino != 0).count()
    };
    let entries: Vec<_> = dir::entries(bytes, fmt)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    if let Some(entry) = entries.get(rng.below(entries.len().max(1))) {
        let mut changed = bytes.to_vec();
        if dir::remove(&mut changed, entry.name, entry.ino, fmt) == Ok(true) {
            assert!(used(&changed) + 1 >= used(bytes));
        }
        let mut changed = bytes.to_vec();
        let _ = dir::redirect(&mut changed, entry.name, entry.ino, rng.odd(), 1, fmt);
    }
    let mut changed = bytes.to_vec();
    let _ = dir::set_parent(&mut changed, rng.odd(), rng.odd(), fmt);
    let _ = dir::is_empty(bytes, rng.below(4), fmt);
    let _ = dir::has_room(bytes, rng.below(300), fmt);
    let hasher = Hasher::new(1, false, [0; 4]).unwrap();
    let (mut low, mut high) = (bytes.to_vec(), bytes.to_vec());
    let mut scratch = vec![split::Hashed::default(); split::max_entries(bytes.len())];
    let cut = split::split(bytes, &hasher, &mut scratch, &mut low, &mut high, fmt);
    if cut.is_ok() {
        assert_eq!(used(&low) + used(&high), used(bytes));
    }
    let _ = split::without_dots(bytes, rng.odd(), &mut low, fmt);
}

#[test]
fn making_directories() {
    let mut rng = Rng::new(115);
    for _ in 0..2000 {
        let mut bytes = rng.bytes(1024);
        let len = if rng.chance(2) { 1024 } else { rng.below(1025) };
        let fmt = dir_format(&mut rng, len);
        let (ino, parent) = (rng.odd(), rng.odd());
        if dir::init(&mut bytes[..len], ino, parent, &fmt).is_ok() && fmt.block_size == 1024 {
            let names = dir::entries(&bytes, &fmt).unwrap().flatten().count();
            assert!(names == 2 || ino > fmt.inodes_count || parent > fmt.inodes_count);
        }
        if dir::init_empty(&mut bytes[..len], &fmt).is_ok() && fmt.block_size == 1024 {
            assert!(dir::entries(&bytes, &fmt)
                .unwrap()
                .all(|e| e.unwrap().ino == 0));
        }
    }
}

#[test]
fn indexes() {
    let mut accepted = 0;
    fuzz(106, 80_000, &samples().indexes, |rng, mut bytes| {
        let fmt = dir_format(rng, bytes.len());
        let seed = some_seed(rng);
        let large = rng.chance(2);
        seals(
            &mut bytes,
            |b| htree::update_checksum(b, &fmt, seed),
            |b| htree::verify(b, &fmt, seed),
        );
        let (i, number) = (rng.odd() as u16, rng.odd());
        let mut other = bytes.clone();
        let _ = htree::init_node(&mut other, &bytes, i, &fmt);
        for edit in [
            htree::insert(&mut bytes.clone(), i, number, number, &fmt),
            htree::truncate(&mut bytes.clone(), i, &fmt),
            htree::deepen(&mut bytes.clone(), number, &fmt),
            htree::init_root(&mut bytes.clone(), number, 1, number, &fmt),
        ] {
            let _ = edit;
        }
        let root = htree::root(&bytes, large, &fmt);
        if let Ok((root, _)) = &root {
            assert!(root.levels <= htree::max_levels(large));
        }
        let node = htree::node(&bytes, &fmt);
        for index in [root.map(|r| r.1), node].into_iter().flatten() {
            accepted += 1;
            let hash = rng.odd();
            let i = index.search(hash);
            assert!(i < index.count() && index.count() <= index.limit());
            if index.validate(rng.odd()).is_ok() {
                assert!(index.hash(i).unwrap() <= hash);
                assert!(index.hash(i + 1).is_none_or(|h| h > hash));
            }
            let _ = (
                index.continues(i, hash),
                index.block(i),
                index.block(u16::MAX),
            );
            assert_eq!(index.hash(index.count()), None);
        }
    });
    assert!(accepted > 20_000, "only {accepted} indexes were accepted");
}

fn rules(rng: &mut Rng) -> Rules {
    let sb = &samples().sb;
    Rules {
        ea_inode: rng.chance(2),
        ..Rules::new(sb)
    }
}

fn attributes_in(attrs: Result<Option<xattr::Attrs<'_>>>) -> bool {
    let Ok(Some(attrs)) = attrs else { return false };
    for attr in attrs.iter() {
        assert!(attr.value.len() == attr.size as usize || attr.value_ino != 0);
        assert!(attr.value_ino == 0 || attr.value.is_empty());
        let _ = (
            xattr::prefix(attr.index),
            xattr::entry_hash(attr.name, attr.value),
        );
        let found = attrs.find(attr.index, attr.name).unwrap();
        assert_eq!((found.index, found.name), (attr.index, attr.name));
        let _ = acl::decode(attr.value);
    }
    let _ = attrs.hash();
    true
}

#[test]
fn attribute_blocks() {
    let mut accepted = 0;
    fuzz(107, 150_000, &samples().attributes, |rng, bytes| {
        let rules = rules(rng);
        let _ = xattr::verify_block(&bytes, rng.next(), some_seed(rng));
        let attrs = xattr::block(&bytes, &rules).map(|b| Some(b.1));
        accepted += u32::from(attributes_in(attrs));
        attributes_in(xattr::ibody(&bytes, &rules));
    });
    assert!(accepted > 10_000, "only {accepted} blocks were accepted");
}

#[test]
fn access_lists() {
    let stored = |entries: &[(u16, u16, Option<u32>)]| {
        let mut v = 1u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            v.extend(tag.to_le_bytes());
            v.extend(perm.to_le_bytes());
            v.extend(id.map(u32::to_le_bytes).into_iter().flatten());
        }
        v
    };
    let samples = [
        stored(&[(1, 7, None), (4, 5, None), (32, 4, None)]),
        stored(&[
            (1, 6, None),
            (2, 4, Some(9)),
            (4, 4, None),
            (8, 1, Some(8)),
            (16, 7, None),
            (32, 0, None),
        ]),
        stored(&[]),
    ];
    let mut accepted = 0;
    fuzz(108, 100_000, &samples, |_, bytes| {
        let Ok(list) = acl::decode(&bytes) else {
            return;
        };
        accepted += 1;
        assert_eq!(list.iter().count(), list.count());
        let len: usize = list
            .iter()
            .map(|e| match e.tag {
                acl::Tag::User(_) | acl::Tag::Group(_) => 8,
                _ => 4,
            })
            .sum();
        assert_eq!(len + 4, bytes.len());
    });
    assert!(accepted > 5000, "only {accepted} lists were accepted");
}

#[test]
fn orphan_blocks() {
    fuzz(109, 20_000, &samples().orphans, |rng, mut bytes| {
        let (nr, seed) = (rng.next(), some_seed(rng));
        orphan::update_checksum(&mut bytes, nr, seed);
        let magic =
            bytes.len() >= 8 && bytes[bytes.len() - 8..][..4] == orphan::MAGIC.to_le_bytes();
        assert_eq!(orphan::check_block(&bytes, nr, seed).is_ok(), magic);
        let count = orphan::inodes(&bytes).count();
        assert!(count <= orphan::places(bytes.len()));
        let at = rng.odd() as usize;
        let _ = (orphan::get(&bytes, at), orphan::find_free(&bytes, at));
        let _ = orphan::set(&mut bytes, at, 5);
    });
}

#[test]
fn journal_superblocks() {
    let mut accepted = 0;
    fuzz(110, 60_000, &samples().journals, |rng, bytes| {
        let Ok(journal) = JournalSuper::decode(&bytes) else {
            return;
        };
        accepted += 1;
        let _ = (journal.needs_recovery(), journal.has_incompat(rng.odd()));
        let _ = journal.verify_checksum(&bytes);
        assert!(journal.version == 2 || (journal.incompat == 0 && journal.uuid == [0; 16]));
    });
    assert!(
        accepted > 20_000,
        "only {accepted} superblocks were accepted"
    );
}

#[test]
fn bitmap_arguments() {
    fuzz(111, 30_000, &samples().bitmaps, |rng, mut bytes| {
        let (from, to) = (rng.odd(), rng.odd());
        let _ = bitmap::set(&mut bytes, from);
        let _ = bitmap::clear(&mut bytes, to);
        bitmap::set_range(&mut bytes, from, to);
        bitmap::clear_range(&mut bytes, to, from);
        let zeros = bitmap::count_zero(&bytes, from, to);
        assert_eq!(
            zeros == 0,
            bitmap::find_next_zero(&bytes, from, to).is_none()
        );
        if let Some((start, end)) = bitmap::longest_zero_run(&bytes, from, to) {
            assert!(from <= start && start < end && end <= to.min(bitmap::len(&bytes)));
            assert!(end - start <= zeros && bitmap::all_zero(&bytes, start, end));
        }
        let _ = bitmap::find_next_set(&bytes, to, from);
    });
}
