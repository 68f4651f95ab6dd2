// SPDX-License-Identifier: GPL-2.0

//! Every encoder read back by its decoder: the same fields, and no byte changed that belongs to
//! none.

mod common;

use common::{small_superblock, Rng};
use ext4rs_layout::inode::{self, Inode, InodeFormat, Time, TIME_MAX, TIME_MIN};
use ext4rs_layout::superblock::{ErrorRecord, SuperBlockMut};
use ext4rs_layout::{Compat, GroupDesc, Incompat, RoCompat, Seed, SuperBlock};

fn random_time(rng: &mut Rng, whole: bool) -> Time {
    if !whole {
        return Time {
            sec: i64::from(rng.word() as i32),
            nsec: 0,
        };
    }
    let span = (TIME_MAX - TIME_MIN) as u64 + 1;
    Time {
        sec: TIME_MIN + (rng.next() % span) as i64,
        nsec: rng.word() % 1_000_000_000,
    }
}

fn random_inode(rng: &mut Rng, fmt: &InodeFormat) -> Inode {
    // Room for some of the known fields, for all, and for more than are known.
    let places = (fmt.inode_size as usize - 128) / 4 + 1;
    let extra = (rng.below(places) * 4).min(64) as u16;
    let room = |end: u16| extra >= end;
    let sectors = match rng.below(3) {
        0 => u64::from(rng.word()),
        _ if !fmt.huge_file => u64::from(rng.word()),
        1 => rng.next() >> 16,
        // In units of blocks.
        _ => (rng.next() >> 16) << (fmt.block_bits - 9),
    };
    let flags = rng.word() & !inode::FL_HUGE_FILE;
    let huge = if sectors >> 48 != 0 {
        inode::FL_HUGE_FILE
    } else {
        0
    };
    Inode {
        mode: rng.word() as u16,
        uid: rng.word(),
        gid: rng.word(),
        links: rng.word() as u16,
        size: rng.next(),
        sectors,
        flags: flags | huge,
        generation: rng.word(),
        atime: random_time(rng, room(0x10)),
        ctime: random_time(rng, room(0x08)),
        mtime: random_time(rng, room(0x0c)),
        crtime: if room(0x14) {
            random_time(rng, room(0x18))
        } else {
            Time::default()
        },
        dtime: rng.word(),
        file_acl: if fmt.wide {
            rng.next() >> 16
        } else {
            u64::from(rng.word())
        },
        version: if room(0x1c) {
            rng.next()
        } else {
            u64::from(rng.word())
        },
        projid: if room(0x20) { rng.word() } else { 0 },
        i_block: rng.bytes(60).try_into().unwrap(),
        extra_isize: extra,
    }
}

/// Inodes of all shapes, with a checksum over every byte.
#[test]
fn inodes() {
    let mut rng = Rng::new(51);
    for _ in 0..30_000 {
        let fmt = InodeFormat {
            inode_size: [128, 256, 512, 1024][rng.below(4)],
            block_bits: 10 + rng.below(7) as u32,
            huge_file: rng.chance(2),
            wide: rng.chance(2),
        };
        let size = fmt.inode_size as usize;
        let node = random_inode(&mut rng, &fmt);
        let mut bytes = rng.bytes(size + 4);
        let before = bytes.clone();
        node.encode(&mut bytes, &fmt).unwrap();
        assert_eq!(Inode::decode(&bytes, &fmt).unwrap(), node);
        // i_obso_faddr, the low half of the checksum and l_i_reserved.
        assert_eq!(bytes[0x70..0x74], before[0x70..0x74]);
        assert_eq!(bytes[0x7c..0x80], before[0x7c..0x80]);
        // Behind the fields that are known, and behind those that this inode has room for.
        let end = if size == 128 {
            128
        } else {
            0x82.max(128 + usize::from(node.extra_isize))
        };
        assert_eq!(bytes[end.min(0xa0)..], before[end.min(0xa0)..]);

        let seed = inode::seed(&bytes, 77, Some(Seed(rng.word())));
        inode::update_checksum(&mut bytes, &fmt, seed).unwrap();
        inode::verify(&bytes, &fmt, seed).unwrap();
        assert_eq!(Inode::decode(&bytes, &fmt).unwrap(), node);
        let at = rng.below(size);
        bytes[at] ^= 1 << rng.below(8);
        assert!(
            inode::verify(&bytes, &fmt, seed).is_err(),
            "byte {at} is not summed"
        );
    }
}

#[test]
fn inode_setters() {
    let mut rng = Rng::new(52);
    let fmt = InodeFormat {
        inode_size: 256,
        block_bits: 12,
        huge_file: true,
        wide: true,
    };
    for _ in 0..1000 {
        let mut node = random_inode(&mut rng, &fmt);
        let mut bytes = vec![0; 256];
        node.encode(&mut bytes, &fmt).unwrap();
        (node.size, node.dtime) = (rng.next(), rng.word());
        inode::set_size(&mut bytes, node.size);
        inode::set_dtime(&mut bytes, node.dtime);
        assert_eq!(Inode::decode(&bytes, &fmt).unwrap(), node);
        assert_eq!(inode::is_unused(&bytes), node.links == 0 && node.mode == 0);
        inode::clear(&mut bytes, &fmt).unwrap();
        assert!(bytes.iter().all(|&b| b == 0));
    }
}

#[test]
fn descriptors() {
    let mut rng = Rng::new(61);
    for wide in [false, true] {
        let bytes = small_superblock(2, wide);
        let sb = SuperBlock::decode(&bytes).unwrap();
        sb.verify_checksum(&bytes).unwrap();
        let geo = sb.geometry().unwrap();
        assert_eq!(geo.groups_count, 3);
        assert_eq!(geo.desc_size, if wide { 64 } else { 32 });
        // What a descriptor of 32 bytes has no room for.
        let block = |v: u64| if wide { v } else { v & 0xffff_ffff };
        let count = |v: u32| if wide { v } else { v & 0xffff };
        for _ in 0..5000 {
            let mut raw = rng.bytes(64);
            let before = raw.clone();
            let gd = GroupDesc {
                block_bitmap: block(rng.next()),
                inode_bitmap: block(rng.next()),
                inode_table: block(rng.next()),
                free_clusters: count(rng.word()),
                free_inodes: count(rng.word()),
                used_dirs: count(rng.word()),
                itable_unused: count(rng.word()),
                flags: rng.word() as u16,
                block_bitmap_csum: count(rng.word()),
                inode_bitmap_csum: count(rng.word()),
                checksum: u16::from_le_bytes([raw[0x1e], raw[0x1f]]),
            };
            gd.encode(&mut raw, &geo).unwrap();
            assert_eq!(GroupDesc::decode(&raw, &geo).unwrap(), gd);
            // bg_exclude_bitmap and bg_reserved.
            assert_eq!(raw[0x14..0x18], before[0x14..0x18]);
            assert_eq!(raw[0x34..0x38], before[0x34..0x38]);
            assert_eq!(raw[0x3c..], before[0x3c..]);
            if !wide {
                assert_eq!(raw[32..], before[32..]);
            }
        }
    }
}

/// Changes one field by its setter, and the same in the decoded structure.
fn set_one(rng: &mut Rng, sb: &mut SuperBlockMut<'_>, wanted: &mut SuperBlock) {
    let error = ErrorRecord {
        time: rng.next() >> 24,
        ino: rng.word(),
        block: rng.next(),
        line: rng.word(),
        func: rng.bytes(32).try_into().unwrap(),
        errcode: rng.word() as u8,
    };
    let (v64, v40, v32, v16) = (rng.next(), rng.next() >> 24, rng.word(), rng.word() as u16);
    macro_rules! set {
        ($($setter:ident: $field:ident = $value:expr;)*) => {
            let mut setters: Vec<&mut dyn FnMut(&mut SuperBlockMut<'_>, &mut SuperBlock)> = vec![];
            $(
                let mut one = |sb: &mut SuperBlockMut<'_>, wanted: &mut SuperBlock| {
                    sb.$setter($value);
                    wanted.$field = $value;
                };
                setters.push(&mut one);
            )*
            let n = rng.below(setters.len() + 4);
            match n.checked_sub(setters.len()) {
                None => setters[n](sb, wanted),
                Some(0) => {
                    sb.set_first_error(&error);
                    wanted.first_error = error;
                }
                Some(1) => {
                    sb.set_last_error(&error);
                    wanted.last_error = error;
                }
                Some(2) => {
                    sb.set_label(b"sixteen bytes ..");
                    wanted.label = *b"sixteen bytes ..";
                }
                Some(_) => {
                    sb.set_last_mounted(&[b'm'; 100]);
                    wanted.last_mounted = [b'm'; 64];
                }
            }
        };
    }
    set! {
        set_state: state = v16;
        set_compat: compat = Compat(v32);
        set_incompat: incompat = Incompat(v32);
        set_ro_compat: ro_compat = RoCompat(v32);
        set_free_blocks: free_blocks = v64;
        set_free_inodes: free_inodes = v32;
        set_mtime: mtime = v40;
        set_wtime: wtime = v40;
        set_mnt_count: mnt_count = v16;
        set_max_mnt_count: max_mnt_count = v16 as i16;
        set_last_orphan: last_orphan = v32;
        set_flags: flags = v32;
        set_kbytes_written: kbytes_written = v64;
        set_overhead_clusters: overhead_clusters = v32;
        set_error_count: error_count = v32;
        set_resuid: resuid = v32;
        set_resgid: resgid = v32;
    }
}

#[test]
fn superblock_setters() {
    let mut rng = Rng::new(71);
    for _ in 0..5000 {
        let mut bytes = small_superblock(2, true);
        rng.fill(&mut bytes[0x288..0x3fc]);
        let before = bytes.clone();
        let mut wanted = SuperBlock::decode(&bytes).unwrap();
        let mut sb = SuperBlockMut::new(&mut bytes).unwrap();
        set_one(&mut rng, &mut sb, &mut wanted);
        assert_eq!(SuperBlock::decode(&bytes).unwrap(), wanted);
        let changed = before.iter().zip(&bytes).filter(|(a, b)| a != b).count();
        assert!(changed <= 64, "{changed} bytes for one field");
        SuperBlockMut::new(&mut bytes).unwrap().update_checksum();
        SuperBlock::decode(&bytes)
            .unwrap()
            .verify_checksum(&bytes)
            .unwrap();
        // Without checksums, updating does nothing.
        let mut sb = SuperBlockMut::new(&mut bytes).unwrap();
        sb.set_ro_compat(RoCompat::NONE);
        sb.set_flags(rng.word());
        let old = bytes.clone();
        SuperBlockMut::new(&mut bytes).unwrap().update_checksum();
        assert!(old == bytes);
    }
}
