// SPDX-License-Identifier: GPL-2.0

//! Each rule of the format broken once, and the answer that names it.

mod common;

use common::small_superblock;
use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::extent::{self, NodeMut};
use ext4rs_layout::inode::{self, Inode, InodeFormat, Time};
use ext4rs_layout::journal::JournalSuper;
use ext4rs_layout::xattr::{self, Rules};
use ext4rs_layout::{acl, group, htree, Error, Geometry, GroupDesc, Result, Seed, SuperBlock};

/// Writes little-endian numbers of 1, 2, 4 or 8 bytes.
fn put(bytes: &mut [u8], at: usize, len: usize, v: u64) {
    bytes[at..at + len].copy_from_slice(&v.to_le_bytes()[..len]);
}

/// One change of a good structure (place, length, value), and the reason that must be given.
type Change = (usize, usize, u64, &'static str);

fn each(good: &[u8], changes: &[Change], decode: impl Fn(&[u8]) -> Result<()>) {
    decode(good).expect("the unchanged bytes are good");
    for &(at, len, value, reason) in changes {
        let mut bytes = good.to_vec();
        put(&mut bytes, at, len, value);
        let error = decode(&bytes).expect_err(reason);
        assert_eq!(error.as_str(), reason, "{value:#x} at {at:#x}");
        assert_eq!(error.to_string(), reason);
    }
}

#[test]
fn superblock() {
    let geometry = |b: &[u8]| SuperBlock::decode(b)?.geometry().map(|_| ());
    let inconsistent = "blocks per group and clusters per group are inconsistent";
    each(
        &small_superblock(2, true),
        &[
            (0x38, 2, 0xef54, "no superblock magic"),
            (0x18, 4, 7, "invalid log block size"),
            (0x18, 4, 0xffff_ffff, "invalid log block size"),
            (0x1c, 4, 19, "invalid log cluster size"),
            (0x1c, 4, 1, "cluster size smaller than block size"),
            (0x1c, 4, 3, "cluster size differs from block size"),
            (0x20, 4, 0, "no blocks in a group"),
            (0x20, 4, 32769, "too many blocks in a group"),
            (0x20, 4, 32760, inconsistent),
            (0x24, 4, 32760, inconsistent),
            (0x24, 4, 32769, "invalid clusters per group"),
            (0x24, 4, 32764, "invalid clusters per group"),
            (0x54, 4, 10, "invalid first inode"),
            (0x58, 2, 64, "unsupported inode size"),
            (0x58, 2, 384, "unsupported inode size"),
            (0x58, 2, 8192, "unsupported inode size"),
            (0x58, 2, 0, "unsupported inode size"),
            (0x15e, 2, 132, "bad s_want_extra_isize"),
            (0x15e, 2, 34, "bad s_want_extra_isize"),
            (0x15c, 2, 132, "bad s_min_extra_isize"),
            (0x28, 4, 0, "invalid inodes per group"),
            (0x28, 4, 8, "invalid inodes per group"),
            (0x28, 4, 1025, "invalid inodes per group"),
            (0x28, 4, 1032, "invalid inodes per group"),
            (0x28, 4, 32784, "invalid inodes per group"),
            (0x48, 4, 1, "64bit volume made by the Hurd"),
            (0xfe, 2, 32, "unsupported descriptor size"),
            (0xfe, 2, 2048, "unsupported descriptor size"),
            (0xfe, 2, 96, "unsupported descriptor size"),
            (0xce, 2, 1025, "too many reserved descriptor blocks"),
            (0x150, 4, 0x8000, "volume too large"),
            (
                0x14,
                4,
                1 << 20,
                "first data block is beyond the end of the volume",
            ),
            (0x14, 4, 1, "first data block does not fit the block size"),
            (
                0x150,
                4,
                1,
                "inodes count does not fit the number of groups",
            ),
            (
                0x00,
                4,
                3073,
                "inodes count does not fit the number of groups",
            ),
        ],
        geometry,
    );
    each(
        &small_superblock(0, false),
        &[
            (0x14, 4, 0, "first data block does not fit the block size"),
            (0x150, 4, 0x2000, "too many groups"),
        ],
        geometry,
    );
    // meta_bg, whose first group is past the end of the descriptors.
    let mut sb = small_superblock(2, true);
    put(&mut sb, 0x60, 4, 0x2d2);
    each(
        &sb,
        &[(0x104, 4, 2, "first meta group too large")],
        geometry,
    );
    // Backups that leave no room in a group.
    let mut sb = small_superblock(0, false);
    for (at, v) in [(0x04, 700), (0x20, 256), (0x24, 256), (0x28, 1024)] {
        put(&mut sb, at, 4, v);
    }
    each(
        &sb,
        &[(0xce, 2, 254, "descriptors do not fit a group")],
        geometry,
    );

    let sums = |b: &[u8]| SuperBlock::decode(b)?.verify_checksum(b);
    each(
        &small_superblock(2, true),
        &[
            (0x175, 1, 2, "unknown checksum algorithm"),
            (0x300, 1, 1, "superblock checksum is wrong"),
            (0x3fc, 1, 1, "superblock checksum is wrong"),
        ],
        sums,
    );
    let short = SuperBlock::decode(&[0; 1023]).unwrap_err();
    assert_eq!(short, Error::Argument("superblock buffer too short"));
    assert!(!short.is_corruption() && Error::Corrupt("").is_corruption());
}

fn small_volume(flex_bg: bool) -> Geometry {
    let mut sb = small_superblock(2, true);
    put(&mut sb, 0x60, 4, if flex_bg { 0x2c2 } else { 0xc2 });
    SuperBlock::decode(&sb).unwrap().geometry().unwrap()
}

#[test]
fn descriptor() {
    let geo = small_volume(false);
    let mut good = vec![0; 64];
    for (at, v) in [(0x00, 32770), (0x04, 32771), (0x08, 32772)] {
        put(&mut good, at, 4, v);
    }
    let validate = |b: &[u8]| GroupDesc::decode(b, &geo)?.validate(1, &geo);
    each(
        &good,
        &[
            (0x00, 4, 32767, "block bitmap not in group"),
            (0x20, 4, 1, "block bitmap not in group"),
            (0x04, 4, 65536, "inode bitmap not in group"),
            (0x08, 4, 65536 - 63, "inode table not in group"),
            (0x08, 4, 0, "inode table not in group"),
            (0x2c, 2, 1, "too many free blocks"),
            (0x0e, 2, 1025, "too many free inodes"),
            (0x1c, 2, 1025, "too many unused inodes"),
            (0x10, 2, 1025, "too many directories"),
        ],
        validate,
    );
    assert!(GroupDesc::decode(&good, &geo)
        .unwrap()
        .validate(3, &geo)
        .is_err());
    let geo = small_volume(true);
    let validate = |b: &[u8]| GroupDesc::decode(b, &geo)?.validate(1, &geo);
    each(
        &good,
        &[
            (
                0x00,
                4,
                0,
                "block bitmap overlaps superblock or descriptors",
            ),
            (
                0x00,
                4,
                1,
                "block bitmap overlaps superblock or descriptors",
            ),
            (
                0x04,
                4,
                1,
                "inode bitmap overlaps superblock or descriptors",
            ),
            (0x08, 4, 1, "inode table overlaps superblock or descriptors"),
            (0x00, 4, 66536, "block bitmap not in group"),
            (0x08, 4, 66536 - 63, "inode table not in group"),
        ],
        validate,
    );
}

#[test]
fn block_bitmap() {
    let geo = small_volume(false);
    let gd = GroupDesc {
        block_bitmap: 32770,
        inode_bitmap: 32771,
        inode_table: 32772,
        ..GroupDesc::decode(&[0; 64], &geo).unwrap()
    };
    let mut good = vec![0; 4096];
    group::init_block_bitmap(&mut good, 1, &gd, &geo).unwrap();
    each(
        &good,
        &[
            (0, 1, 0b1111_1011, "block bitmap is not set in itself"),
            (
                0,
                1,
                0b1111_0111,
                "inode bitmap is not set in the block bitmap",
            ),
            (
                8,
                1,
                0b0000_0111,
                "inode table is not set in the block bitmap",
            ),
        ],
        |b| group::validate_block_bitmap(b, 1, &gd, &geo),
    );
    // The last group has 1000 blocks.
    let gd = GroupDesc {
        block_bitmap: 65536,
        inode_bitmap: 65537,
        inode_table: 65538,
        ..gd
    };
    group::init_block_bitmap(&mut good, 2, &gd, &geo).unwrap();
    let padding = "bits after the end of the group are not set in the block bitmap";
    each(
        &good,
        &[(125, 1, 0xfe, padding), (4095, 1, 0x7f, padding)],
        |b| group::validate_block_bitmap(b, 2, &gd, &geo),
    );
}

#[test]
fn inodes() {
    let fmt = InodeFormat {
        inode_size: 256,
        block_bits: 12,
        huge_file: true,
        wide: true,
    };
    let mut good = vec![0; 256];
    let node = Inode::new(0o100_644, Time::default(), 1, 32);
    node.encode(&mut good, &fmt).unwrap();
    each(
        &good,
        &[
            (0x80, 2, 132, "bad extra_isize"),
            (0x80, 2, 30, "bad extra_isize"),
            (0x80, 2, 0xfffc, "bad extra_isize"),
            (0x6c, 4, 0x101, "bad i_size value"),
            (0x00, 2, 0, "bogus i_mode"),
            (0x00, 2, 0o110_000, "bogus i_mode"),
            (
                0x20,
                4,
                0x1008_0000,
                "inode has both inline data and extents",
            ),
        ],
        |b| Inode::decode(b, &fmt)?.validate(1 << 40),
    );
    put(&mut good, 0x00, 2, 0o120_777);
    each(
        &good,
        &[
            (0x20, 4, 0x10, "immutable or append flag on a symlink"),
            (0x20, 4, 0x20, "immutable or append flag on a symlink"),
        ],
        |b| Inode::decode(b, &fmt)?.validate(1 << 40),
    );
    put(&mut good, 0x04, 4, 3);
    good[0x28..0x2b].copy_from_slice(b"abc");
    each(
        &good,
        &[
            (0x04, 4, 0, "invalid fast symlink length"),
            (0x04, 4, 2, "invalid fast symlink length"),
            (0x04, 4, 4, "invalid fast symlink length"),
            (0x04, 4, 60, "invalid fast symlink length"),
            (0x6c, 4, 1, "invalid fast symlink length"),
            (0x2b, 1, 1, "invalid fast symlink length"),
        ],
        |b| Inode::decode(b, &fmt)?.fast_symlink().map(|_| ()),
    );
    let seed = inode::seed(&good, 12, Some(Seed(1)));
    inode::update_checksum(&mut good, &fmt, seed).unwrap();
    let wrong = "inode checksum is wrong";
    each(
        &good,
        &[
            (0x7c, 2, 1, wrong),
            (0x82, 2, 1, wrong),
            (0xff, 1, 1, wrong),
        ],
        |b| inode::verify(b, &fmt, seed),
    );
}

#[test]
fn extents() {
    let geo = small_volume(true);
    let seed = Some(Seed(9));
    let mut leaf = vec![0; 4096];
    let mut node = NodeMut::format(&mut leaf, 0).unwrap();
    let e = |block, len, start| extent::Extent {
        block,
        len,
        unwritten: false,
        start,
    };
    node.insert_extent(0, &e(100, 10, 2000)).unwrap();
    node.insert_extent(1, &e(110, 10, 3000)).unwrap();
    let check = |b: &[u8]| {
        // Changes are to be met by the rules, not by the checksum.
        let mut b = b.to_vec();
        let _ = extent::update_checksum(&mut b, seed);
        extent::check_block(&b, 0, 100, 120, &geo, seed).map(|_| ())
    };
    each(
        &leaf,
        &[
            (0, 2, 0xf30b, "invalid extent magic"),
            (4, 2, 0, "invalid eh_max"),
            (4, 2, 341, "too large eh_max"),
            (2, 2, 341, "invalid eh_entries"),
            (6, 2, 1, "unexpected eh_depth"),
            (12, 4, 99, "first entry does not match its index"),
            (12, 4, 101, "first entry does not match its index"),
            (16, 2, 0, "extent of length zero"),
            (16, 2, 11, "overlapping extents"),
            (24, 4, 105, "overlapping extents"),
            (28, 2, 11, "extent beyond its limit"),
            (20, 4, 0, "extent outside the volume"),
            (20, 4, 66536 - 9, "extent outside the volume"),
            (18, 2, 1, "extent outside the volume"),
        ],
        check,
    );
    extent::update_checksum(&mut leaf, seed).unwrap();
    let wrong = "extent block checksum is wrong";
    each(&leaf, &[(8, 1, 1, wrong), (4092, 1, 1, wrong)], |b| {
        extent::check_block(b, 0, 100, 120, &geo, seed).map(|_| ())
    });

    let mut root = vec![0; 60];
    let mut node = NodeMut::format(&mut root, 2).unwrap();
    node.insert_index(
        0,
        &extent::Index {
            block: 0,
            leaf: 5000,
        },
    )
    .unwrap();
    node.insert_index(
        1,
        &extent::Index {
            block: 7,
            leaf: 5001,
        },
    )
    .unwrap();
    each(
        &root,
        &[
            (6, 2, 6, "too large eh_depth"),
            (4, 2, 5, "too large eh_max"),
            (2, 2, 0, "eh_entries is 0 but eh_depth is > 0"),
            (24, 4, 0, "overlapping extents"),
            (16, 4, 0, "extent outside the volume"),
            (20, 2, 1, "extent outside the volume"),
        ],
        |b| extent::check_root(b, &geo).map(|_| ()),
    );
}

fn first_error(b: &[u8], fmt: &DirFormat) -> Result<()> {
    dir::entries(b, fmt)?.try_for_each(|e| e.map(|_| ()))
}

#[test]
fn directories() {
    let fmt = DirFormat {
        block_size: 1024,
        checksums: true,
        filetype: true,
        inodes_count: 100,
    };
    let mut good = vec![0; 1024];
    dir::init(&mut good, 12, 2, &fmt).unwrap();
    dir::insert(&mut good, b"name", 13, dir::FT_REG, &fmt)
        .unwrap()
        .unwrap();
    let near = "directory entry too close to block end";
    each(
        &good,
        &[
            (4, 2, 8, "rec_len is smaller than minimal"),
            (4, 2, 13, "directory entry overrun"),
            (4, 2, 0, "'.' directory cannot be the last in data block"),
            (4, 2, 1016, "directory entry overrun"),
            (18, 1, 9, "rec_len is too small for name_len"),
            (28, 2, 992, "directory entry overrun"),
            (28, 2, 980, near),
            (0, 4, 101, "inode out of bounds"),
            (6, 1, 0, "entry without a name"),
            (4, 2, 1012, "'.' directory cannot be the last in data block"),
        ],
        |b| first_error(b, &fmt),
    );
    let seed = Some(Seed(3));
    dir::update_checksum(&mut good, &fmt, seed).unwrap();
    let no_tail = "no room for the directory checksum";
    each(
        &good,
        &[
            (1020, 1, 1, "directory block checksum is wrong"),
            (32, 1, 1, "directory block checksum is wrong"),
            (1016, 2, 16, no_tail),
            (1012, 4, 1, no_tail),
            (1019, 1, 0, no_tail),
        ],
        |b| dir::verify(b, &fmt, seed),
    );
    for (name, ino) in [(&b""[..], 1), (&[b'x'; 256], 1), (b"x", 0), (b"x", 101)] {
        let error = dir::insert(&mut good, name, ino, 1, &fmt).unwrap_err();
        assert_eq!(error, Error::Argument("directory entry out of range"));
    }
}

#[test]
fn indexes() {
    let fmt = DirFormat {
        block_size: 1024,
        checksums: true,
        filetype: true,
        inodes_count: 100,
    };
    // An empty directory whose `..` covers the block, then the index: two subtrees.
    let mut root = vec![0; 1024];
    dir::init(
        &mut root,
        12,
        2,
        &DirFormat {
            checksums: false,
            ..fmt
        },
    )
    .unwrap();
    for (at, len, v) in [(28, 1, 1), (29, 1, 8), (32, 2, 123), (34, 2, 2), (36, 4, 1)] {
        put(&mut root, at, len, v);
    }
    put(&mut root, 40, 8, (2 << 32) | 0x8000_0000);
    let seed = Some(Seed(4));
    htree::update_checksum(&mut root, &fmt, seed).unwrap();
    let count = "count beyond limit in directory index";
    each(
        &root,
        &[
            (6, 1, 2, "invalid '.' in directory index root"),
            (4, 2, 16, "invalid '.' in directory index root"),
            (20, 1, b'x'.into(), "invalid '..' in directory index root"),
            (16, 2, 16, "invalid '..' in directory index root"),
            (24, 4, 1, "invalid directory index root"),
            (29, 1, 16, "invalid directory index root"),
            (31, 1, 1, "unimplemented flags of directory index"),
            (30, 1, 2, "directory index too deep"),
            (32, 2, 124, "wrong limit in directory index"),
            (34, 2, 0, count),
            (34, 2, 124, count),
            (36, 4, 0, "directory index points outside the directory"),
            (44, 4, 3, "directory index points outside the directory"),
            (34, 2, 3, "directory index out of order"),
        ],
        |b| htree::root(b, false, &fmt)?.1.validate(3),
    );
    let wrong = "directory index checksum is wrong";
    each(
        &root,
        &[(36, 1, 2, wrong), (1016, 1, 1, wrong), (1020, 1, 1, wrong)],
        |b| htree::verify(b, &fmt, seed),
    );
    let mut node = vec![0; 1024];
    for (at, len, v) in [(4, 2, 1024), (8, 2, 126), (10, 2, 1), (12, 4, 2)] {
        put(&mut node, at, len, v);
    }
    each(
        &node,
        &[
            (0, 4, 5, "leaf block found instead of index block"),
            (4, 2, 1012, "leaf block found instead of index block"),
            (8, 2, 127, "wrong limit in directory index"),
        ],
        |b| htree::node(b, &fmt)?.validate(3),
    );
    assert!(htree::root(&root, true, &fmt).is_ok());
    leftover(&root, &fmt);
    collisions(&root, &fmt);
    put(&mut root, 30, 1, 2);
    assert_eq!(htree::root(&root, true, &fmt).unwrap().0.levels, 2);
}

/// Names of one hash in two leaves: the second's entry has the lowest bit set.
fn collisions(root: &[u8], fmt: &DirFormat) {
    let look = |stored: u64| {
        let mut root = root.to_vec();
        put(&mut root, 40, 4, stored);
        let (_, top) = htree::root(&root, false, fmt).unwrap();
        let found = [0x7fff_fffe, 0x8000_0000, 0x8000_0002].map(|major| top.search(major));
        let goes_on = [0x7fff_fffe, 0x8000_0000, 0x8000_0002].map(|major| top.continues(1, major));
        (found, goes_on)
    };
    assert_eq!(look(0x8000_0000), ([0, 1, 1], [false; 3]));
    assert_eq!(look(0x8000_0001), ([0, 0, 1], [false, true, false]));
}

/// ext4 makes a root out of a block of entries and leaves that block's checksum entry in place.
fn leftover(root: &[u8], fmt: &DirFormat) {
    let mut root = root.to_vec();
    root[1012..1024].copy_from_slice(&[0, 0, 0, 0, 12, 0, 0, 0xde, 1, 2, 3, 4]);
    assert!(dir::has_tail(&root));
    let seed = Some(Seed(5));
    htree::update_checksum(&mut root, fmt, seed).unwrap();
    htree::verify(&root, fmt, seed).unwrap();
    assert_eq!(htree::root(&root, false, fmt).unwrap().1.count(), 2);
    let names: Vec<_> = dir::entries(&root, fmt)
        .unwrap()
        .map(|e| e.unwrap().name)
        .collect();
    assert_eq!(names, [&b"."[..], b".."]);
    // No name goes there.
    let error = dir::insert(&mut root, b"x", 20, dir::FT_REG, fmt).unwrap_err();
    assert_eq!(error.as_str(), "directory entry overrun");
}

#[test]
fn attributes() {
    let rules = Rules {
        ea_inode: true,
        first_ino: 11,
        inodes_count: 100,
    };
    // One attribute `user.ab` of six bytes at the end.
    let mut good = vec![0; 256];
    put(&mut good, 0, 4, xattr::MAGIC.into());
    put(&mut good, 8, 4, 1);
    for (at, len, v) in [(32, 1, 2), (33, 1, 1), (34, 2, 248), (40, 4, 6)] {
        put(&mut good, at, len, v);
    }
    good[48..50].copy_from_slice(b"ab");
    let overlap = "overlapping e_value";
    each(
        &good,
        &[
            (0, 4, 0, "invalid header of an attribute block"),
            (8, 4, 2, "invalid header of an attribute block"),
            (32, 1, 205, "e_name out of bounds"),
            (48, 1, 0, "bad e_name length"),
            (34, 2, 257, "e_value out of bounds"),
            (34, 2, 52, overlap),
            (34, 2, 252, overlap),
            (40, 4, 9, overlap),
            (40, 4, (1 << 24) + 1, "e_value size too large"),
            (36, 4, 2, "invalid inode of an attribute"),
            (36, 4, 10, "invalid inode of an attribute"),
            (36, 4, 101, "invalid inode of an attribute"),
        ],
        |b| xattr::block(b, &rules).map(|_| ()),
    );
    put(&mut good, 36, 4, 50);
    each(
        &good,
        &[(40, 4, 0, "invalid size of an attribute in an inode")],
        |b| xattr::block(b, &rules).map(|_| ()),
    );
    let none = Rules {
        ea_inode: false,
        ..rules
    };
    let error = xattr::block(&good, &none).unwrap_err();
    assert_eq!(error.as_str(), "attribute in an inode without ea_inode");
    let error = xattr::verify_block(&good, 7, Some(Seed(1))).unwrap_err();
    assert_eq!(
        error,
        Error::BadChecksum("attribute block checksum is wrong")
    );
}

#[test]
fn others() {
    let good = [1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 6, 0, 9, 0, 0, 0];
    each(
        &good,
        &[
            (0, 1, 2, "unknown ACL version"),
            (4, 1, 3, "unknown ACL tag"),
            (8, 1, 64, "unknown ACL tag"),
        ],
        |b| acl::decode(b).map(|_| ()),
    );
    assert_eq!(
        acl::decode(&good[..14]).unwrap_err().as_str(),
        "ACL entry out of bounds"
    );
    assert_eq!(
        acl::decode(&good[..3]).unwrap_err().as_str(),
        "ACL too short"
    );

    let mut journal = vec![0; 1024];
    journal[..4].copy_from_slice(&0xc03b_3998u32.to_be_bytes());
    journal[7] = 4;
    each(
        &journal,
        &[
            (0, 1, 0, "no journal superblock magic"),
            (7, 1, 2, "unrecognised journal superblock"),
            (7, 1, 5, "unrecognised journal superblock"),
            (0x2b, 1, 0x10, "journal superblock checksum is wrong"),
        ],
        |b| JournalSuper::decode(b)?.verify_checksum(b),
    );
    journal[0x2b] = 0x22;
    journal[0x57] = 9;
    let sb = JournalSuper::decode(&journal).unwrap();
    assert!(sb.has_incompat(ext4rs_layout::journal::INCOMPAT_FAST_COMMIT));
    assert_eq!((sb.num_fc_blocks, sb.start), (9, 0));
}
