// SPDX-License-Identifier: GPL-2.0

//! Attributes set and removed in an inode's space and in blocks: beside a plain model, on damaged
//! lists, and on volumes that debugfs and e2fsck then read.

mod common;
#[macro_use]
#[path = "common/volumes.rs"]
mod volumes;

use common::image::{Config, Image};
use common::volume::Volume;
use common::{debugfs, Rng};
use ext4rs_layout::acl::{self, AclEntry, Tag};
use ext4rs_layout::inode;
use ext4rs_layout::xattr::{self, entry_hash, AttrsMut, Rules};
use std::collections::BTreeMap;

const RULES: Rules = Rules {
    ea_inode: false,
    first_ino: 11,
    inodes_count: 1000,
};

/// Attributes by index, length of the name, and name: the order in a block.
type Model = BTreeMap<(u8, usize, Vec<u8>), Vec<u8>>;

fn padded(len: usize) -> usize {
    len.div_ceil(4) * 4
}

/// Bytes that the attributes take, without what begins and ends a list.
fn bytes_of(model: &Model) -> usize {
    model
        .iter()
        .map(|((_, _, name), value)| padded(16 + name.len()) + padded(value.len()))
        .sum()
}

fn name(rng: &mut Rng) -> Vec<u8> {
    // Few different ones, so that they meet again.
    let len = [1, 1, 2, 5, 30, 255][rng.below(6)];
    vec![b'a' + rng.below(4) as u8; len]
}

fn value(rng: &mut Rng, most: usize) -> Vec<u8> {
    let len = match rng.below(4) {
        0 => 0,
        1 => rng.below(9),
        2 => rng.below(100),
        _ => rng.below(most + 20),
    };
    rng.bytes(len)
}

/// Compares a list with the model, and looks at what the list's own checks do not: order, hashes,
/// and that values lie without a gap and are filled up with zeros.
fn compare(buf: &[u8], is_block: bool, model: &Model) {
    let (attrs, list_at, base_at) = if is_block {
        let (header, attrs) = xattr::block(buf, &RULES).unwrap();
        assert_eq!(header.hash, attrs.hash());
        (attrs, 32, 0)
    } else {
        match xattr::ibody(buf, &RULES).unwrap() {
            Some(attrs) => (attrs, 4, 4),
            None => {
                assert!(model.is_empty());
                assert!(buf.iter().all(|&b| b == 0));
                return;
            }
        }
    };
    let found: Vec<_> = attrs.iter().collect();
    assert_eq!(found.len(), model.len());
    for attr in &found {
        let key = (attr.index, attr.name.len(), attr.name.to_vec());
        assert_eq!(model[&key], attr.value);
        let hash = if is_block {
            entry_hash(attr.name, attr.value)
        } else {
            0
        };
        assert_eq!(attr.hash, hash);
    }
    if is_block {
        let order = found
            .iter()
            .map(|a| (a.index, a.name.len(), a.name.to_vec()));
        assert!(order.eq(model.keys().cloned()));
    }
    // The values fill the end, each as long as it has to be.
    let mut at = list_at;
    let mut values = Vec::new();
    while buf[at..at + 4] != [0; 4] {
        let offset = u16::from_le_bytes(buf[at + 2..at + 4].try_into().unwrap());
        let size = u32::from_le_bytes(buf[at + 8..at + 12].try_into().unwrap()) as usize;
        if size > 0 {
            let start = base_at + usize::from(offset);
            assert!(buf[start + size..start + padded(size)]
                .iter()
                .all(|&b| b == 0));
            values.push((start, padded(size)));
        }
        at += padded(16 + usize::from(buf[at]));
    }
    values.sort_unstable();
    let first = buf.len() - values.iter().map(|v| v.1).sum::<usize>();
    let mut next = first;
    for (start, len) in values {
        assert_eq!(start, next);
        next += len;
    }
    assert!(
        buf[at..first].iter().all(|&b| b == 0),
        "the room between is clean"
    );
}

fn round(rng: &mut Rng, size: usize, is_block: bool) -> (u32, u32) {
    // What a space without a list holds does not count.
    let mut buf = rng.bytes(size);
    buf[..4].fill(0);
    if is_block {
        AttrsMut::new_block(&mut buf).unwrap();
    }
    let room = size - if is_block { 36 } else { 8 };
    let mut model = Model::new();
    let (mut stored, mut refused) = (0, 0);
    for _ in 0..60 {
        let before = buf.clone();
        let mut attrs = if is_block {
            AttrsMut::block(&mut buf, &RULES).unwrap()
        } else {
            AttrsMut::ibody(&mut buf, &RULES).unwrap()
        };
        let index = 1 + rng.below(3) as u8;
        let name = name(rng);
        let key = (index, name.len(), name.clone());
        if rng.chance(3) {
            let removed = attrs.remove(index, &name).unwrap();
            assert_eq!(removed, model.remove(&key).is_some());
        } else {
            let value = value(rng, room);
            let mut after = model.clone();
            after.insert(key, value.clone());
            let fits = bytes_of(&after) <= room;
            assert_eq!(attrs.set(index, &name, &value).unwrap(), fits);
            if fits {
                model = after;
                stored += 1;
            } else {
                refused += 1;
                if is_block || !model.is_empty() {
                    assert_eq!(buf, before, "what does not fit changes nothing");
                }
            }
        }
        compare(&buf, is_block, &model);
    }
    (stored, refused)
}

#[test]
fn beside_a_model() {
    let mut rng = Rng::new(71);
    let (mut stored, mut refused) = (0, 0);
    for n in 0..3000 {
        let (is_block, size) = match n % 6 {
            0 => (false, 8),
            1 => (false, 96),
            2 => (false, 4 * (2 + rng.below(200))),
            3 => (true, 1024),
            4 => (true, 4096),
            _ => (true, 65536),
        };
        // Few of the large ones.
        if size == 65536 && n % 60 != 5 {
            continue;
        }
        let (s, r) = round(&mut rng, size, is_block);
        stored += s;
        refused += r;
    }
    assert!(
        stored > 30_000 && refused > 10_000,
        "{stored} stored, {refused} refused"
    );
}

/// The same attributes, set in any order, make the same list: inodes can share the block.
#[test]
fn blocks_of_equal_attributes_are_equal() {
    let mut rng = Rng::new(72);
    for _ in 0..200 {
        let mut wanted = Model::new();
        for _ in 0..rng.below(12) {
            let name = name(&mut rng);
            wanted.insert(
                (1 + rng.below(3) as u8, name.len(), name),
                value(&mut rng, 80),
            );
        }
        let mut blocks = [vec![0; 4096], vec![0; 4096]];
        for buf in &mut blocks {
            let mut attrs = AttrsMut::new_block(buf).unwrap();
            let mut order: Vec<_> = wanted.iter().collect();
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i + 1));
            }
            attrs.set(2, b"gone", b"soon").unwrap();
            for ((index, _, name), value) in order {
                attrs.set(*index, name, b"another").unwrap();
                assert!(attrs.set(*index, name, value).unwrap());
            }
            assert!(attrs.remove(2, b"gone").unwrap());
            assert_eq!(attrs.is_empty(), wanted.is_empty());
        }
        let [a, b] = blocks.each_ref().map(|b| xattr::block(b, &RULES).unwrap());
        assert_eq!(a.0, b.0);
        assert!(a.1.same(&b.1));
        if !wanted.is_empty() {
            let (index, _, name) = wanted.keys().next().unwrap();
            let [mut a, b] = blocks;
            AttrsMut::block(&mut a, &RULES)
                .unwrap()
                .set(*index, name, b"other")
                .unwrap();
            let [a, b] = [a, b]
                .each_ref()
                .map(|b| xattr::block(b, &RULES).unwrap().1.hash());
            assert_ne!(a, b);
        }
    }
}

#[test]
fn arguments() {
    let mut buf = [0; 128];
    let mut attrs = AttrsMut::new_block(&mut buf).unwrap();
    assert!(attrs.set(1, &[b'x'; 256], b"").is_err());
    assert!(attrs.set(1, b"a\0b", b"").is_err());
    assert!(attrs.is_empty());
    assert!(AttrsMut::new_block(&mut [0; 35]).is_err());
    assert!(AttrsMut::ibody(&mut [0; 7], &RULES).is_err());
    assert!(AttrsMut::block(&mut [0; 1024], &RULES).is_err());
}

/// Lists that are damaged and still pass the checks, such as those with values that overlap: what
/// is done to them stays in bounds.
#[test]
fn damaged_lists() {
    let mut rng = Rng::new(73);
    let mut changed = 0;
    for n in 0..60_000 {
        let is_block = n % 2 == 0;
        let mut buf = vec![0; if is_block { 1024 } else { 160 }];
        {
            let mut attrs = if is_block {
                AttrsMut::new_block(&mut buf).unwrap()
            } else {
                AttrsMut::ibody(&mut buf, &RULES).unwrap()
            };
            for _ in 0..4 {
                let _ = attrs.set(1, &name(&mut rng), &value(&mut rng, 60)).unwrap();
            }
        }
        rng.damage(&mut buf);
        let rules = Rules {
            ea_inode: rng.chance(2),
            ..RULES
        };
        for _ in 0..6 {
            let attrs = if is_block {
                AttrsMut::block(&mut buf, &rules)
            } else {
                AttrsMut::ibody(&mut buf, &rules)
            };
            let Ok(mut attrs) = attrs else { break };
            let (index, name) = (1 + rng.below(2) as u8, name(&mut rng));
            let done = if rng.chance(2) {
                attrs.remove(index, &name)
            } else {
                attrs.set(index, &name, &value(&mut rng, 60))
            };
            changed += u32::from(done == Ok(true));
            let _ = attrs.attrs().iter().count();
        }
    }
    assert!(changed > 20_000, "only {changed} changes");
}

/// An inode gets more fields: its attributes stay as they are, or it stays as it is.
#[test]
fn attributes_make_room_for_fields() {
    let mut rng = Rng::new(75);
    let (mut grown, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let size = [256_u16, 512][rng.below(2)];
        let fmt = inode::InodeFormat {
            inode_size: size.into(),
            block_bits: 12,
            huge_file: true,
            wide: true,
        };
        let (old, want) = (4 * rng.below(8) as u16, 4 * rng.below(17) as u16);
        let mut raw = rng.bytes(size.into());
        raw[128..130].copy_from_slice(&old.to_le_bytes());
        let mut model = Model::new();
        if let Some(region) = inode::xattr_region_mut(&mut raw, &fmt).unwrap() {
            region[..4].fill(0);
            if rng.chance(4) {
                continue;
            }
            for _ in 0..rng.below(6) {
                let (name, value) = (name(&mut rng), value(&mut rng, 120));
                let mut attrs = AttrsMut::ibody(region, &RULES).unwrap();
                if attrs.set(1, &name, &value).unwrap() {
                    model.insert((1, name.len(), name), value);
                }
            }
        }
        let before = raw.clone();
        let is = inode::grow_extra(&mut raw, &fmt, want, &RULES).unwrap();
        let room = usize::from(size) - 128 - usize::from(want) - 8;
        if is == old {
            assert_eq!(raw, before);
            assert!(want <= old || bytes_of(&model) > room, "{want} {old}");
            refused += u32::from(want > old);
            continue;
        }
        assert_eq!(is, want);
        assert!(want > old && (model.is_empty() || bytes_of(&model) <= room));
        grown += u32::from(!model.is_empty());
        // The old fields but for the number of bytes, and the new ones.
        let (fields, end) = (128 + usize::from(old), 128 + usize::from(want));
        assert_eq!(raw[..128], before[..128]);
        assert_eq!(raw[128..130], want.to_le_bytes());
        assert_eq!(
            raw[130.min(fields)..fields],
            before[130.min(fields)..fields]
        );
        assert!(raw[fields.max(130)..end].iter().all(|&b| b == 0));
        if !model.is_empty() {
            let region = inode::xattr_region(&raw, &fmt).unwrap().unwrap();
            compare(region, false, &model);
        }
    }
    assert!(grown > 2000 && refused > 500, "{grown}, {refused}");
}

#[test]
fn access_lists() {
    let mut rng = Rng::new(74);
    for _ in 0..2000 {
        let entries: Vec<AclEntry> = (0..rng.below(12))
            .map(|_| AclEntry {
                tag: match rng.below(6) {
                    0 => Tag::UserObj,
                    1 => Tag::User(rng.word()),
                    2 => Tag::GroupObj,
                    3 => Tag::Group(rng.word()),
                    4 => Tag::Mask,
                    _ => Tag::Other,
                },
                perm: rng.below(8) as u16,
            })
            .collect();
        let mut out = vec![0xff; acl::encoded_len(&entries)];
        acl::encode(&entries, &mut out).unwrap();
        assert!(acl::decode(&out)
            .unwrap()
            .iter()
            .eq(entries.iter().copied()));
        let short = out.len() - 1;
        assert!(acl::encode(&entries, &mut out[..short]).is_err());
    }
}

fn all(config: &Config) {
    let image = Image::filled(config);
    let volume = Volume::open(&image.path);
    let rules = Rules::new(&volume.sb);
    let (one, random) = (volume.lookup("one"), volume.lookup("random"));

    // In the inode, where there is room.
    let mut raw = volume.inode_bytes(one);
    let seed = volume.inode_seed(one);
    if let Some(region) = inode::xattr_region_mut(&mut raw, &volume.inodes).unwrap() {
        let mut attrs = AttrsMut::ibody(region, &rules).unwrap();
        assert!(attrs.set(1, b"added", b"inside").unwrap());
        assert!(attrs.set(1, b"small", b"val").unwrap());
        assert!(attrs.remove(4, b"none").unwrap());
        assert!(!attrs.set(1, b"too long", &[7; 200]).unwrap());
        inode::update_checksum(&mut raw, &volume.inodes, seed).unwrap();
        volume.write_inode_bytes(one, &raw);
        image.check();
        let got = debugfs(
            &image.path,
            false,
            &[
                "ea_get one user.added".to_owned(),
                "ea_get one user.small".to_owned(),
                "ea_list one".to_owned(),
            ],
        );
        assert!(got[0].contains("\"inside\""), "{got:?}");
        assert!(got[1].contains("\"val\""), "{got:?}");
        assert!(!got[2].contains("trusted.none"), "{got:?}");
    }

    // In a block that debugfs made.
    let nr = volume.inode(random).file_acl;
    assert_ne!(nr, 0);
    let mut block = volume.block(nr);
    let mut attrs = AttrsMut::block(&mut block, &rules).unwrap();
    let (long, short) = ("n".repeat(200), "in the block");
    assert!(attrs.set(1, long.as_bytes(), b"1").unwrap());
    assert!(attrs.set(1, b"large", short.as_bytes()).unwrap());
    assert!(attrs.set(4, b"empty", b"").unwrap());
    xattr::update_block_checksum(&mut block, nr, volume.seed).unwrap();
    xattr::verify_block(&block, nr, volume.seed).unwrap();
    volume.write_block(nr, &block);
    image.check();
    let got = debugfs(
        &image.path,
        false,
        &[
            format!("ea_get random user.{long}"),
            "ea_get random user.large".to_owned(),
            "ea_list random".to_owned(),
        ],
    );
    assert!(got[0].contains("\"1\""), "{got:?}");
    assert!(got[1].contains(&format!("\"{short}\"")), "{got:?}");
    assert!(got[2].contains("trusted.empty (0)"), "{got:?}");
}

volumes! {
    small_blocks: "1024", "64M", "", [];
    large_blocks: "4096", "512M", "", [];
    no_csum: "2048", "128M", "^metadata_csum,^metadata_csum_seed", [];
    inode_128: "1024", "64M", "", ["-I", "128"];
}
