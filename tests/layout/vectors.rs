// SPDX-License-Identifier: GPL-2.0

//! Checksums, hashes and encodings against numbers that were published elsewhere, and against
//! debugfs.

mod common;

use common::{debugfs, tool_ok, Rng, TempDir};
use ext4rs_layout::checksum::{crc16, crc32c, Seed};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::inode::{Inode, InodeFormat, Time};
use ext4rs_layout::xattr::entry_hash;
use ext4rs_layout::{Compat, Incompat, RoCompat};

/// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
#[test]
fn crc32c_vectors() {
    let up: Vec<u8> = (0..32).collect();
    let down: Vec<u8> = (0..32).rev().collect();
    let read_command = [
        0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0,
        0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
    ];
    for (data, crc) in [
        (&[][..], 0),
        (b"123456789", 0xe306_9283),
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&up, 0x46dd_794e),
        (&down, 0x113f_db5c),
        (&read_command, 0xd996_3a56),
    ] {
        assert_eq!(!crc32c(!0, data), crc, "{data:02x?}");
    }
}

/// CRC-16/ARC and CRC-16/MODBUS of the catalogue differ in the first value only.
#[test]
fn crc16_vectors() {
    assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    assert_eq!(crc16(!0, b"123456789"), 0x4b37);
    assert_eq!(crc16(0x1234, b""), 0x1234);
}

/// The fast loop against one bit at a time, at every length and alignment; pieces chain.
#[test]
fn crc_by_bits() {
    fn slow(mut crc: u32, data: &[u8], poly: u32) -> u32 {
        for &b in data {
            crc ^= u32::from(b);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (poly & 0u32.wrapping_sub(crc & 1));
            }
        }
        crc
    }
    let mut rng = Rng::new(3);
    let data = rng.bytes(300);
    for from in 0..9 {
        for to in from..data.len() {
            let piece = &data[from..to];
            let start = rng.word();
            assert_eq!(crc32c(start, piece), slow(start, piece, 0x82f6_3b78));
            let low = slow(start & 0xffff, piece, 0xa001);
            assert_eq!(u32::from(crc16(start as u16, piece)), low);
            let cut = rng.below(piece.len() + 1);
            assert_eq!(
                crc32c(crc32c(start, &piece[..cut]), &piece[cut..]),
                crc32c(start, piece)
            );
        }
    }
}

#[test]
fn seeds() {
    let uuid = *b"0123456789abcdef";
    let volume = Seed::from_uuid(&uuid);
    assert_eq!(volume.0, crc32c(!0, &uuid));
    let whole = crc32c(crc32c(volume.0, &[1, 2, 3, 4]), &[5, 6, 7, 8]);
    assert_eq!(volume.inode(0x0403_0201, 0x0807_0605), Seed(whole));
}

/// The vectors of the kernel's own test of ext4's hash: version, unsigned, name, seed, hashes.
#[test]
fn hash_vectors() {
    const NONE: [u32; 4] = [0; 4];
    const SOME: [u32; 4] = [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444];
    const HIGH: &[u8] = b"\x80\x81\x82\x83\x84";
    type Vector = (u8, bool, &'static [u8], [u32; 4], u32, u32);
    let vectors: [Vector; 21] = [
        (0, false, b"abc", NONE, 0x75af_d992, 0),
        (0, true, b"abc", NONE, 0x75af_d992, 0),
        (1, false, b"abc", NONE, 0xd196_a868, 0xc420_eb28),
        (1, true, b"abc", NONE, 0xd196_a868, 0xc420_eb28),
        (2, false, b"abc", NONE, 0xb143_5ec4, 0x3f7e_aa0e),
        (2, true, b"abc", NONE, 0xb143_5ec4, 0x3f7e_aa0e),
        (1, false, b"", NONE, 0xefcd_ab88, 0x98ba_dcfe),
        (
            1,
            false,
            b"1234567890123456789012345678901",
            NONE,
            0xc4db_1f78,
            0xea23_921b,
        ),
        (
            1,
            false,
            b"12345678901234567890123456789012",
            NONE,
            0xfa6c_c63e,
            0x2f77_bd1c,
        ),
        (
            1,
            false,
            b"123456789012345678901234567890123",
            NONE,
            0xdc0c_2dec,
            0x5ca2_3365,
        ),
        (
            1,
            true,
            b"1234567890123456789012345678901",
            NONE,
            0xc4db_1f78,
            0xea23_921b,
        ),
        (
            1,
            true,
            b"12345678901234567890123456789012",
            NONE,
            0xfa6c_c63e,
            0x2f77_bd1c,
        ),
        (
            1,
            true,
            b"123456789012345678901234567890123",
            NONE,
            0xdc0c_2dec,
            0x5ca2_3365,
        ),
        (2, false, b"123456789abcdef", NONE, 0xa562_903a, 0x6174_a00f),
        (
            2,
            false,
            b"1234567890abcdef",
            NONE,
            0x8449_f258,
            0x49a1_6d46,
        ),
        (
            2,
            false,
            b"123456789abcdefgh",
            NONE,
            0xf32e_c10c,
            0x58ce_ae61,
        ),
        (1, false, b"same-name", SOME, 0x8aeb_f604, 0x66ce_48fe),
        (1, false, HIGH, NONE, 0x8bab_0498, 0xc326_632d),
        (1, true, HIGH, NONE, 0xbc48_596e, 0xde0f_ad41),
        (2, false, HIGH, NONE, 0x21e3_a154, 0x9011_2c3d),
        (2, true, HIGH, NONE, 0x9b64_8616, 0x011d_d507),
    ];
    for (version, unsigned, name, seed, major, minor) in vectors {
        let hash = Hasher::new(version, unsigned, seed).unwrap().hash(name);
        assert_eq!(
            (hash.major, hash.minor),
            (major, minor),
            "{version} {unsigned} {name:?}"
        );
        assert_eq!(hash.position(), (u64::from(major) << 32) | u64::from(minor));
    }
    for version in 3..=255 {
        assert!(Hasher::new(version, false, NONE).is_err());
    }
}

/// Names of every length, by debugfs.
#[test]
fn hashes_of_debugfs() {
    let dir = TempDir::new();
    let image = dir.path().join("image");
    tool_ok(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", image.to_str().unwrap(), "1M"],
    );
    let mut rng = Rng::new(11);
    let mut commands = Vec::new();
    let mut wanted = Vec::new();
    for len in 1..=255 {
        let name: String = (0..len)
            .map(|_| char::from(b'a' + rng.below(26) as u8))
            .collect();
        for (version, algorithm) in ["legacy", "half_md4", "tea"].iter().enumerate() {
            let bytes: [u8; 16] = rng.bytes(16).try_into().unwrap();
            let seed =
                [0, 4, 8, 12].map(|i| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap()));
            let hex = format!("{:032x}", u128::from_be_bytes(bytes));
            let uuid = [
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..],
            ]
            .join("-");
            commands.push(format!("dx_hash -h {algorithm} -s {uuid} {name}"));
            let hash = Hasher::new(version as u8, false, seed)
                .unwrap()
                .hash(name.as_bytes());
            wanted.push(format!(
                " is 0x{:x} (minor 0x{:x})\n",
                hash.major, hash.minor
            ));
        }
    }
    for (said, wanted) in debugfs(&image, false, &commands).iter().zip(wanted) {
        assert!(said.contains(&wanted), "{said} is not {wanted}");
    }
}

/// The hash that would be the mark of the end of a directory is moved, and all are even.
#[test]
fn hash_range() {
    let mut rng = Rng::new(5);
    for version in 0..3 {
        for _ in 0..2000 {
            let seed = [rng.word(), rng.word(), rng.word(), rng.word()];
            let hasher = Hasher::new(version, rng.chance(2), seed).unwrap();
            let len = rng.below(256);
            let hash = hasher.hash(&rng.bytes(len));
            assert!(hash.major & 1 == 0 && hash.major != 0xffff_fffe);
        }
    }
    // An empty name gives the seed, so that the mark itself can be reached.
    let end = Hasher::new(1, false, [0, 0xffff_ffff, 0, 1]).unwrap();
    assert_eq!(end.hash(b"").major, 0xffff_fffc);
}

/// The table of `Documentation/filesystems/ext4/inodes.rst` and the kernel's own test.
#[test]
fn times() {
    let fmt = InodeFormat {
        inode_size: 256,
        block_bits: 12,
        huge_file: true,
        wide: true,
    };
    for (epoch, low, sec) in [
        (0u32, 0x8000_0000u32, -0x8000_0000i64),
        (0, 0xffff_ffff, -1),
        (0, 0, 0),
        (0, 0x7fff_ffff, 0x7fff_ffff),
        (1, 0x8000_0000, 0x8000_0000),
        (1, 0xffff_ffff, 0xffff_ffff),
        (1, 0, 0x1_0000_0000),
        (1, 0x7fff_ffff, 0x1_7fff_ffff),
        (2, 0x8000_0000, 0x1_8000_0000),
        (2, 0xffff_ffff, 0x1_ffff_ffff),
        (2, 0, 0x2_0000_0000),
        (2, 0x7fff_ffff, 0x2_7fff_ffff),
        (3, 0x8000_0000, 0x2_8000_0000),
        (3, 0xffff_ffff, 0x2_ffff_ffff),
        (3, 0, 0x3_0000_0000),
        (3, 0x7fff_ffff, 0x3_7fff_ffff),
    ] {
        for nsec in [0u32, 1, 999_999_999] {
            let mut raw = [0u8; 256];
            raw[0x80] = 32;
            // The four times, and where their other words are.
            for (at, extra) in [(0x08, 0x8c), (0x0c, 0x84), (0x10, 0x88), (0x90, 0x94)] {
                raw[at..at + 4].copy_from_slice(&low.to_le_bytes());
                raw[extra..extra + 4].copy_from_slice(&((nsec << 2) | epoch).to_le_bytes());
            }
            let node = Inode::decode(&raw, &fmt).unwrap();
            let wanted = Time { sec, nsec };
            assert_eq!(
                [node.atime, node.ctime, node.mtime, node.crtime],
                [wanted; 4]
            );
            let mut again = [0u8; 256];
            node.encode(&mut again, &fmt).unwrap();
            assert!(raw == again);
        }
    }
}

/// An inode of 128 bytes has 32 bits for a time: others are cut to the nearest.
#[test]
fn old_times() {
    let fmt = InodeFormat {
        inode_size: 128,
        block_bits: 12,
        huge_file: true,
        wide: true,
    };
    for (sec, kept) in [
        (0, 0),
        (i64::from(i32::MAX), i64::from(i32::MAX)),
        (i64::from(i32::MIN), i64::from(i32::MIN)),
        (1 << 33, i64::from(i32::MAX)),
        (i64::MIN, i64::from(i32::MIN)),
        (i64::MAX, i64::from(i32::MAX)),
    ] {
        let node = Inode::new(0o100_644, Time { sec, nsec: 5 }, 0, 0);
        let mut raw = [0u8; 128];
        node.encode(&mut raw, &fmt).unwrap();
        let read = Inode::decode(&raw, &fmt).unwrap();
        assert_eq!(read.mtime, Time { sec: kept, nsec: 0 });
        assert_eq!(read.crtime, Time::default());
    }
}

/// Device numbers as `mknod` of the kernel stores them.
#[test]
fn devices() {
    let now = Time::default();
    for (major, minor, word, place) in [
        (5u32, 1u32, 0x0501u32, 0),
        (255, 255, 0xffff, 0),
        (8, 256, 0x0010_0800, 4),
        (259, 3, 0x0001_0303, 4),
        (4095, 0xf_ffff, 0xffff_ffff, 4),
    ] {
        let mut node = Inode::new(0o020_600, now, 0, 32);
        node.set_device(major, minor);
        let stored = u32::from_le_bytes(node.i_block[place..place + 4].try_into().unwrap());
        assert_eq!(stored, word, "{major}:{minor}");
        assert_eq!(node.device(), (major, minor));
    }
}

/// `i_blocks` on both sides of 2^32 and 2^48 sectors.
#[test]
fn block_counts() {
    let fmt = InodeFormat {
        inode_size: 256,
        block_bits: 12,
        huge_file: true,
        wide: true,
    };
    let store = |sectors: u64, fmt: &InodeFormat| {
        let mut node = Inode::new(0o100_644, Time::default(), 0, 32);
        node.sectors = sectors;
        let mut raw = [0u8; 256];
        node.encode(&mut raw, fmt).map(|()| raw)
    };
    for (sectors, low, high, huge) in [
        (0u64, 0u32, 0u16, false),
        (0xffff_ffff, 0xffff_ffff, 0, false),
        (0x1_0000_0000, 0, 1, false),
        (0xffff_ffff_ffff, 0xffff_ffff, 0xffff, false),
        (0x1_0000_0000_0000, 0, 0x2000, true),
        (0x7_ffff_ffff_fff8, 0xffff_ffff, 0xffff, true),
    ] {
        let raw = store(sectors, &fmt).unwrap();
        assert_eq!(u32::from_le_bytes(raw[0x1c..0x20].try_into().unwrap()), low);
        assert_eq!(
            u16::from_le_bytes(raw[0x74..0x76].try_into().unwrap()),
            high
        );
        assert_eq!(raw[0x22] & 4 != 0, huge, "{sectors:x}");
        assert_eq!(Inode::decode(&raw, &fmt).unwrap().sectors, sectors);
    }
    assert!(store(0x8_0000_0000_0000, &fmt).is_err());
    let small = InodeFormat {
        huge_file: false,
        ..fmt
    };
    assert!(store(0xffff_ffff, &small).is_ok());
    assert!(store(0x1_0000_0000, &small).is_err());
}

/// By hand: rotations of 5 for names and of 16 for words of values.
#[test]
fn attribute_hash() {
    assert_eq!(entry_hash(b"", b""), 0);
    assert_eq!(entry_hash(b"a", b""), 0x61);
    assert_eq!(entry_hash(b"ab", b""), (0x61 << 5) ^ 0x62);
    assert_eq!(entry_hash(b"a", b"\x01"), 0x0061_0001);
    // 0x61, then 0x0061_0000 ^ 0x0403_0201, then its halves swapped ^ 5.
    assert_eq!(entry_hash(b"a", b"\x01\x02\x03\x04\x05"), 0x0201_0467);
    assert_eq!(entry_hash(b"\xff", b""), 0xff);
}

#[test]
fn feature_names() {
    assert_eq!(Compat(0).to_string(), "");
    assert_eq!(
        Compat(0x1404).to_string(),
        "has_journal fast_commit orphan_file"
    );
    assert_eq!(Incompat(0x2c2).to_string(), "filetype extent 64bit flex_bg");
    assert_eq!(
        RoCompat(0x1_0400).to_string(),
        "metadata_csum orphan_present"
    );
    assert_eq!(Compat(0x8000_0000).to_string(), "FEATURE_C31");
    assert_eq!(
        Incompat(0x20_0004).to_string(),
        "needs_recovery FEATURE_I21"
    );
    assert_eq!(
        RoCompat(0xfffe_0000)
            .without(RoCompat(0xfff0_0000))
            .to_string(),
        "FEATURE_R17 FEATURE_R18 FEATURE_R19"
    );
    assert!(Incompat::EXTENTS.with(Incompat::MMP).has(Incompat::MMP));
    assert!(!Incompat::EXTENTS.has(Incompat::EXTENTS.with(Incompat::MMP)));
    assert_eq!(RoCompat::NAMED.bits(), 0x1_ffff);
}
