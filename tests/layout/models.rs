// SPDX-License-Identifier: GPL-2.0

//! Random operations on bitmaps, extent nodes and directory blocks beside a plain model.

mod common;

use common::Rng;
use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::extent::{self, Extent, Index, Node, NodeMut};
use ext4rs_layout::{bitmap, orphan, Seed};

fn bits_of(map: &[u8]) -> Vec<bool> {
    (0..map.len() * 8)
        .map(|i| (map[i / 8] >> (i % 8)) & 1 == 1)
        .collect()
}

#[test]
fn bitmaps() {
    let mut rng = Rng::new(21);
    for round in 0..3000 {
        let len = rng.below(40) * if round % 10 == 0 { 8 } else { 1 };
        let mut map = match rng.below(4) {
            0 => vec![0; len],
            1 => vec![0xff; len],
            _ => rng.bytes(len),
        };
        let mut model = bits_of(&map);
        let bits = model.len() as u32;
        assert_eq!(bitmap::len(&map), bits);
        for _ in 0..30 {
            let a = rng.below(model.len() + 20) as u32;
            let b = rng.below(model.len() + 20) as u32;
            let from = a.min(bits) as usize;
            let range = from..(b.min(bits) as usize).max(from);
            let old = model.get(a as usize).copied().unwrap_or(true);
            match rng.below(8) {
                0 => {
                    assert_eq!(bitmap::set(&mut map, a), old);
                    model
                        .iter_mut()
                        .skip(a as usize)
                        .take(1)
                        .for_each(|m| *m = true);
                }
                1 => {
                    assert_eq!(bitmap::clear(&mut map, a), old);
                    model
                        .iter_mut()
                        .skip(a as usize)
                        .take(1)
                        .for_each(|m| *m = false);
                }
                2 => {
                    bitmap::set_range(&mut map, a, b);
                    model[range.clone()].fill(true);
                }
                3 => {
                    bitmap::clear_range(&mut map, a, b);
                    model[range.clone()].fill(false);
                }
                _ => assert_eq!(bitmap::test(&map, a), old),
            }
            assert!(bits_of(&map) == model, "{a}..{b} of {bits}");
            let part = &model[range.clone()];
            let find = |v| part.iter().position(|&m| m == v).map(|p| (from + p) as u32);
            assert_eq!(bitmap::find_next_zero(&map, a, b), find(false));
            assert_eq!(bitmap::find_next_set(&map, a, b), find(true));
            let zeros = part.iter().filter(|m| !**m).count();
            assert_eq!(bitmap::count_zero(&map, a, b) as usize, zeros);
            assert_eq!(bitmap::all_set(&map, a, b), zeros == 0);
            assert_eq!(
                bitmap::all_zero(&map, a, b),
                b <= bits && zeros == part.len()
            );
            runs(&map, &model, a, b);
        }
    }
}

fn runs(map: &[u8], model: &[bool], a: u32, b: u32) {
    let mut all = Vec::new();
    let mut i = a as usize;
    let end = (b as usize).min(model.len());
    while i < end {
        let from = i;
        while i < end && !model[i] {
            i += 1;
        }
        if i > from {
            all.push((from as u32, i as u32));
        }
        i += 1;
    }
    assert_eq!(bitmap::next_zero_run(map, a, b), all.first().copied());
    let longest = all.iter().map(|r| r.1 - r.0).max();
    let first = all.iter().find(|r| Some(r.1 - r.0) == longest).copied();
    assert_eq!(bitmap::longest_zero_run(map, a, b), first);
}

/// A fill of a range is exact, at all alignments.
#[test]
fn bitmap_ranges() {
    for from in 0..70u32 {
        for to in 0..150u32 {
            let mut map = [0u8; 16];
            bitmap::set_range(&mut map, from, to);
            let mut clear = [0xffu8; 16];
            bitmap::clear_range(&mut clear, from, to);
            for bit in 0..128 {
                assert_eq!(bitmap::test(&map, bit), bit >= from && bit < to);
                assert_eq!(bitmap::test(&clear, bit), bit < from || bit >= to);
            }
        }
    }
}

fn random_extent(rng: &mut Rng, span: u32) -> Extent {
    let unwritten = rng.chance(3);
    let len = match rng.below(6) {
        0 => 1,
        1 => Extent::max_len(unwritten),
        _ => 1 + rng.word() % 40,
    };
    Extent {
        block: rng.word() % span,
        len,
        unwritten,
        start: rng.next() >> 17,
    }
}

/// True if `e` fits the list between the entries before `at` and those from `next` on.
fn fits(model: &[Extent], at: usize, next: usize, e: &Extent) -> bool {
    let after = at == 0 || model[at - 1].end() <= u64::from(e.block);
    after
        && model
            .get(next)
            .is_none_or(|n| e.end() <= u64::from(n.block))
}

/// Edits of a leaf beside a sorted list.
#[test]
fn extent_leaves() {
    let mut rng = Rng::new(31);
    for round in 0..300 {
        let len = [60, 1024, 4096][round % 3];
        let span = if len == 60 { 1000 } else { 100_000 };
        let mut bytes = rng.bytes(len);
        let mut node = NodeMut::format(&mut bytes, 0).unwrap();
        let mut model: Vec<Extent> = Vec::new();
        for _ in 0..200 {
            let e = random_extent(&mut rng, span);
            let i = rng.below(model.len() + 1);
            match rng.below(8) {
                0..=4 => {
                    let at = model.partition_point(|m| m.block <= e.block);
                    let room = model.len() < usize::from(extent::capacity(len));
                    let wanted = room && fits(&model, at, at, &e);
                    assert_eq!(node.insert_extent(at as u16, &e).is_ok(), wanted);
                    if wanted {
                        model.insert(at, e);
                    }
                }
                5 => {
                    let to = i + rng.below(4);
                    let wanted = to <= model.len();
                    assert_eq!(node.remove(i as u16, to as u16).is_ok(), wanted);
                    if wanted {
                        model.drain(i..to);
                    }
                }
                6 => {
                    let wanted = i < model.len() && fits(&model, i, i + 1, &e);
                    assert_eq!(node.set_extent(i as u16, &e).is_ok(), wanted);
                    if wanted {
                        model[i] = e;
                    }
                }
                _ => assert!(node.insert_index(0, &Index { block: 0, leaf: 9 }).is_err()),
            }
            check_leaf(&mut rng, node.as_node(), &model);
        }
        // Places that were given up hold nothing.
        assert!(bytes[12 + 12 * model.len()..].iter().all(|&b| b == 0));
        splits(&mut rng, &mut bytes, &model);
    }
}

fn check_leaf(rng: &mut Rng, node: Node<'_>, model: &[Extent]) {
    assert!(node.extents().eq(model.iter().copied()));
    let block = rng.word() % 110_000;
    let before = model.partition_point(|m| m.block <= block).checked_sub(1);
    let found = node.search(block);
    assert_eq!(found.map(usize::from), before);
    let hit = model.iter().find(|m| m.contains(block));
    assert_eq!(
        found
            .and_then(|i| node.extent(i))
            .and_then(|e| e.map(block)),
        hit.map(|m| m.start + u64::from(block - m.block))
    );
}

/// Splits a leaf, puts the halves together again, and copies it.
fn splits(rng: &mut Rng, bytes: &mut [u8], model: &[Extent]) {
    let at = rng.below(model.len() + 1);
    let mut other = vec![0; bytes.len()];
    let mut right = NodeMut::format(&mut other, 0).unwrap();
    let mut left = NodeMut::new(bytes).unwrap();
    left.split_into(at as u16, &mut right).unwrap();
    assert!(left.as_node().extents().eq(model[..at].iter().copied()));
    assert!(right.as_node().extents().eq(model[at..].iter().copied()));
    let mut big = vec![0; 65536];
    let mut copy = NodeMut::format(&mut big, 3).unwrap();
    copy.copy_from(left.as_node()).unwrap();
    assert_eq!(copy.as_node().header().depth, 0);
    right.split_into(0, &mut copy).unwrap();
    assert!(copy.as_node().extents().eq(model.iter().copied()));
    assert!(right.as_node().is_empty());
    if model.is_empty() {
        return;
    }
    // Into a node that is not empty, in the wrong order, and into one that is too small.
    assert!(copy.copy_from(left.as_node()).is_err());
    let mut bytes = vec![0; 65536];
    let mut early = NodeMut::format(&mut bytes, 0).unwrap();
    let last = Extent {
        block: 0xffff_0000,
        len: 1,
        unwritten: false,
        start: 1,
    };
    early.insert_extent(0, &last).unwrap();
    assert!(copy.split_into(0, &mut early).is_err());
    let mut tiny = [0; 24];
    let mut tiny = NodeMut::format(&mut tiny, 0).unwrap();
    assert_eq!(copy.split_into(0, &mut tiny).is_ok(), model.len() == 1);
}

/// Lengths at their ends, and what cannot be stored.
#[test]
fn extent_limits() {
    let mut bytes = [0; 60];
    let mut node = NodeMut::format(&mut bytes, 0).unwrap();
    let e = |block, len, unwritten, start| Extent {
        block,
        len,
        unwritten,
        start,
    };
    for bad in [
        e(0, 0, false, 1),
        e(0, 0, true, 1),
        e(0, 32769, false, 1),
        e(0, 32768, true, 1),
        e(u32::MAX, 1, false, 1),
        e(0xffff_fff0, 16, false, 1),
        e(0, 1, false, 1 << 48),
        e(0, u32::MAX, true, 1),
    ] {
        assert!(node.insert_extent(0, &bad).is_err(), "{bad:?}");
    }
    let good = [
        e(0, 32768, false, (1 << 48) - 1),
        e(32768, 32767, true, 7),
        e(65535, 1, true, 0),
        e(0xffff_ffef, 16, false, 1 << 32),
    ];
    for (i, one) in good.iter().enumerate() {
        node.insert_extent(i as u16, one).unwrap();
    }
    assert!(node.as_node().is_full());
    assert!(node.as_node().extents().eq(good));
    // By the format: a length above 2^15 is unwritten.
    assert_eq!(bytes[12 + 4..12 + 6], [0x00, 0x80]);
    assert_eq!(bytes[24 + 4..24 + 6], [0xff, 0xff]);
    assert_eq!(bytes[36 + 4..36 + 6], [0x01, 0x80]);
    assert_eq!(bytes[48 + 6..48 + 12], [1, 0, 0, 0, 0, 0]);
}

#[test]
fn extent_merging() {
    let mut rng = Rng::new(33);
    for _ in 0..20_000 {
        let mut a = random_extent(&mut rng, 1000);
        let long = if rng.chance(2) { 0 } else { 32_700 };
        a.len = (a.len.min(40) + long).min(Extent::max_len(a.unwritten));
        let b = Extent {
            block: a.block + a.len + u32::from(rng.chance(8)),
            len: 1 + rng.word() % 70,
            unwritten: a.unwritten ^ rng.chance(8),
            start: a.start + u64::from(a.len) + u64::from(rng.chance(8)),
        };
        let joins = b.block == a.block + a.len
            && b.start == a.start + u64::from(a.len)
            && a.unwritten == b.unwritten
            && a.len + b.len <= Extent::max_len(a.unwritten);
        let merged = a.merged(&b);
        assert_eq!(merged.is_some(), joins);
        let Some(m) = merged else { continue };
        assert_eq!(m.part(a.block, a.end()), Some(a));
        assert_eq!(m.part(b.block, b.end()), Some(b));
        assert_eq!(m.part(b.block, b.end() + 1), None);
        assert_eq!(m.part(a.block, u64::from(a.block)), None);
        if let Some(before) = a.block.checked_sub(1) {
            assert_eq!(m.part(before, a.end()), None);
        }
    }
}

/// Names put into a block until it is full.
#[test]
fn directory_blocks() {
    let mut rng = Rng::new(41);
    for round in 0..90 {
        let checksums = rng.chance(2);
        let fmt = DirFormat {
            block_size: [1024u32, 4096, 65536][round % 3],
            checksums,
            filetype: rng.chance(2),
            inodes_count: 1 << 30,
        };
        let seed = checksums.then(|| Seed(rng.word()));
        let mut bytes = rng.bytes(fmt.block_size as usize);
        let mut model: Vec<(Vec<u8>, u32, u8)> = Vec::new();
        if rng.chance(2) {
            dir::init(&mut bytes, 12, 2, &fmt).unwrap();
            model.push((b".".to_vec(), 12, dir::FT_DIR));
            model.push((b"..".to_vec(), 2, dir::FT_DIR));
        } else {
            dir::init_empty(&mut bytes, &fmt).unwrap();
        }
        let long = rng.chance(2);
        loop {
            let len = if long {
                255 - rng.below(100)
            } else {
                1 + rng.below(20)
            };
            let (mut name, ino) = (rng.bytes(len), 1 + rng.word() % (1 << 30));
            // Never `.`, which has a rule of its own.
            name[0] |= 0x40;
            let file_type = 1 + rng.below(7) as u8;
            if dir::insert(&mut bytes, &name, ino, file_type, &fmt)
                .unwrap()
                .is_none()
            {
                // All that is in use and the new name do not fit the block together.
                let used: usize = model.iter().map(|e| dir::entry_size(e.0.len())).sum();
                let limit = fmt.block_size as usize - if checksums { 12 } else { 0 };
                assert!(used + dir::entry_size(len) > limit);
                break;
            }
            model.push((name, ino, file_type));
            dir::update_checksum(&mut bytes, &fmt, seed).unwrap();
            if fmt.block_size == 1024 || rng.chance(100) {
                check_dir(&bytes, &model, &fmt, seed);
            }
        }
        check_dir(&bytes, &model, &fmt, seed);
    }
}

fn check_dir(bytes: &[u8], model: &[(Vec<u8>, u32, u8)], fmt: &DirFormat, seed: Option<Seed>) {
    dir::verify(bytes, fmt, seed).unwrap();
    let all: Vec<_> = dir::entries(bytes, fmt)
        .unwrap()
        .map(|e| e.unwrap())
        .collect();
    let used: Vec<_> = all.iter().filter(|e| e.ino != 0).collect();
    assert_eq!(used.len(), model.len());
    for (entry, (name, ino, file_type)) in used.iter().zip(model) {
        assert_eq!((entry.name, entry.ino), (&name[..], *ino));
        assert_eq!(entry.file_type, if fmt.filetype { *file_type } else { 0 });
    }
    let end = all.last().map(|e| e.offset + e.rec_len);
    let tail = if fmt.checksums { 12 } else { 0 };
    assert_eq!(end, Some(fmt.block_size as usize - tail));
    if let Some(last) = used.last() {
        assert_eq!(
            dir::entry_from(bytes, last.offset, fmt).unwrap(),
            Some(**last)
        );
        assert!(dir::find(bytes, last.name, fmt).unwrap().is_some());
    }
    let wrong = seed.map(|s| Seed(!s.0));
    assert_eq!(dir::verify(bytes, fmt, wrong).is_err(), seed.is_some());
}

#[test]
fn orphan_blocks() {
    let mut rng = Rng::new(81);
    let mut block = vec![0; 1024];
    block[1016..1020].copy_from_slice(&orphan::MAGIC.to_le_bytes());
    let places = orphan::places(block.len());
    assert_eq!(places, 254);
    let mut model = vec![0u32; places];
    let seed = Some(Seed(5));
    for _ in 0..5000 {
        let i = rng.below(places + 5);
        let ino = if rng.chance(3) { 0 } else { rng.word() };
        assert_eq!(orphan::set(&mut block, i, ino).is_ok(), i < places);
        if let Some(place) = model.get_mut(i) {
            *place = ino;
        }
        assert_eq!(orphan::get(&block, i), model.get(i).copied());
        let from = rng.below(places + 5);
        let numbered = || model.iter().copied().enumerate();
        let free = numbered().find(|&(n, ino)| n >= from && ino == 0);
        assert_eq!(orphan::find_free(&block, from), free.map(|f| f.0));
        assert!(orphan::inodes(&block).eq(numbered().filter(|&(_, ino)| ino != 0)));
        orphan::update_checksum(&mut block, 1 << 33, seed);
        orphan::check_block(&block, 1 << 33, seed).unwrap();
        assert!(orphan::check_block(&block, 1 << 34, seed).is_err());
    }
}

/// A node that was never formatted is refused, and one cannot be made where it does not fit.
#[test]
fn unformatted() {
    assert!(Node::new(&[0; 60]).is_err());
    assert!(NodeMut::new(&mut [0; 60]).is_err());
    assert!(NodeMut::format(&mut [0; 23], 0).is_err());
    assert!(NodeMut::format(&mut [0; 60], 6).is_err());
    let places = [24, 60, 1024, 2048, 4096, 65536].map(extent::capacity);
    assert_eq!(places, [1, 4, 84, 169, 340, 5460]);
}
