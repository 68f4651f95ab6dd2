// SPDX-License-Identifier: GPL-2.0

//! Volumes changed by the crate's encoders alone; e2fsck must find nothing afterwards. And a
//! journal with something in it.

mod common;
#[macro_use]
#[path = "common/volumes.rs"]
mod volumes;

use common::image::{Config, Image};
use common::volume::Volume;
use common::{debugfs, tool_ok, Rng};
use ext4rs_layout::extent::{self, Extent, Index, Node, NodeMut};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::inode::{self, Inode, Time};
use ext4rs_layout::journal::{self, JournalSuper};
use ext4rs_layout::superblock::{ErrorCode, ErrorRecord};
use ext4rs_layout::{bitmap, dir, group, htree, superblock, Compat, Incompat};

volumes! {
    small_blocks: "1024", "64M", "", [];
    large_blocks: "4096", "512M", "", [];
    no_64bit: "1024", "64M", "^64bit", [];
    gdt_csum: "1024", "64M", "^metadata_csum,^metadata_csum_seed,uninit_bg", [];
    no_csum: "2048", "128M", "^metadata_csum,^metadata_csum_seed", [];
    no_flex_bg: "1024", "64M", "^flex_bg", [];
    inode_128: "1024", "64M", "", ["-I", "128"];
    bigalloc: "4096", "512M", "bigalloc", ["-C", "16384"];
    meta_bg: "1024", "64M", "meta_bg,^resize_inode", ["-g", "1024"];
    fast_commit: "4096", "256M", "fast_commit", [];
}

fn all(config: &Config) {
    let image = Image::filled(config);
    let mut volume = Volume::open(&image.path);
    link_until_full(&image, &mut volume);
    link_by_index(&image, &mut volume);
    make_inodes(&image, &mut volume);
    if volume.geo.cluster_bits == 0 {
        rebuild_tree(&image, &mut volume);
    }
    initialise(&image, &mut volume);
    edit_super(&image, &mut volume);
    journal(&image);
}

/// Takes the first free cluster of the volume and gives its first block.
fn take_block(volume: &mut Volume) -> u64 {
    let geo = volume.geo;
    for g in 0..geo.groups_count {
        let mut gd = volume.groups[g as usize];
        let mut map = volume.block_bitmap(g);
        let Some(bit) = bitmap::find_next_zero(&map, 0, geo.clusters_in_group(g)) else {
            continue;
        };
        assert!(!bitmap::set(&mut map, bit));
        volume.write_block(gd.block_bitmap, &map);
        gd.flags &= !group::BLOCK_UNINIT;
        gd.free_clusters -= 1;
        group::update_block_bitmap_csum(&map, &mut gd, volume.seed, &geo).unwrap();
        volume.write_desc(g, gd);
        let free = volume.sb.free_blocks - (1 << geo.cluster_bits);
        volume.edit_super(|sb| sb.set_free_blocks(free));
        return geo.group_first_block(g) + (u64::from(bit) << geo.cluster_bits);
    }
    panic!("the volume is full");
}

/// Takes the first free inode.
fn take_inode(volume: &mut Volume, directory: bool) -> u32 {
    let geo = volume.geo;
    for g in 0..geo.groups_count {
        let mut gd = volume.groups[g as usize];
        let mut map = volume.inode_bitmap(g);
        let Some(bit) = bitmap::find_next_zero(&map, 0, geo.inodes_per_group) else {
            continue;
        };
        assert!(!bitmap::set(&mut map, bit));
        volume.write_block(gd.inode_bitmap, &map);
        gd.flags &= !group::INODE_UNINIT;
        gd.free_inodes -= 1;
        gd.used_dirs += u32::from(directory);
        if volume.group_checksum != group::GroupChecksum::None {
            let used = geo.inodes_per_group - gd.itable_unused;
            gd.itable_unused = geo.inodes_per_group - used.max(bit + 1);
        }
        group::update_inode_bitmap_csum(&map, &mut gd, volume.seed, &geo).unwrap();
        volume.write_desc(g, gd);
        let free = volume.sb.free_inodes - 1;
        volume.edit_super(|sb| sb.set_free_inodes(free));
        return geo.inode_number(g, bit).unwrap();
    }
    panic!("no inode is free");
}

/// Adds names of one file to a directory's block until there is no room.
fn link_until_full(image: &Image, volume: &mut Volume) {
    let target = volume.lookup("one");
    let parent = volume.lookup("deep/er");
    let block = volume.map(parent, &volume.inode(parent))[0].unwrap();
    let mut bytes = volume.block(block);
    let mut rng = Rng::new(9);
    let mut names: Vec<Vec<u8>> = Vec::new();
    // First long names, then short ones into what is left.
    for len in [200, 100, 30, 8, 3] {
        loop {
            let mut name = format!("{:x}", names.len()).into_bytes();
            name.resize_with(len, || b'g' + rng.below(20) as u8);
            if dir::insert(&mut bytes, &name, target, dir::FT_REG, &volume.dirs)
                .unwrap()
                .is_none()
            {
                break;
            }
            let found = dir::find(&bytes, &name, &volume.dirs).unwrap().unwrap();
            assert_eq!((found.ino, found.name), (target, &name[..]));
            names.push(name);
        }
    }
    assert!(names.len() > 4);
    dir::update_checksum(&mut bytes, &volume.dirs, volume.inode_seed(parent)).unwrap();
    volume.write_block(block, &bytes);
    let mut node = volume.inode(target);
    node.links += names.len() as u16;
    volume.write_inode(target, &node);
    image.check();
    let text = debugfs(&image.path, false, &[format!("ls -p <{parent}>")]).remove(0);
    for name in names {
        assert!(text.contains(std::str::from_utf8(&name).unwrap()));
    }
}

/// Adds a name to the leaf that the index of the large directory gives for it.
fn link_by_index(image: &Image, volume: &mut Volume) {
    let target = volume.lookup("one");
    let parent = volume.lookup("big");
    let node = volume.inode(parent);
    assert!(node.has(inode::FL_INDEX));
    let map = volume.map(parent, &node);
    let block = |lblk: u32| map[lblk as usize].unwrap();
    let root_bytes = volume.block(block(0));
    let (root, top) = htree::root(&root_bytes, false, &volume.dirs).unwrap();
    let hasher = Hasher::new(
        root.hash_version,
        volume.sb.hash_unsigned(),
        volume.sb.hash_seed,
    )
    .unwrap();
    let mut added = 0;
    for i in 0..200u32 {
        let name = format!("by-index-{i}");
        let major = hasher.hash(name.as_bytes()).major;
        let mut lblk = top.block(top.search(major)).unwrap();
        if root.levels == 1 {
            let bytes = volume.block(block(lblk));
            let node = htree::node(&bytes, &volume.dirs).unwrap();
            lblk = node.block(node.search(major)).unwrap();
        }
        let mut leaf = volume.block(block(lblk));
        let put = dir::insert(
            &mut leaf,
            name.as_bytes(),
            target,
            dir::FT_REG,
            &volume.dirs,
        );
        if put.unwrap().is_some() {
            let seed = volume.inode_seed(parent);
            dir::update_checksum(&mut leaf, &volume.dirs, seed).unwrap();
            volume.write_block(block(lblk), &leaf);
            added += 1;
        }
    }
    assert!(added > 20, "only {added} of 200 names had room");
    let mut node = volume.inode(target);
    node.links += added;
    volume.write_inode(target, &node);
    image.check();
}

/// Makes a directory, a file and a device, the way that the filesystem does.
fn make_inodes(image: &Image, volume: &mut Volume) {
    let parent = inode::ROOT_INO;
    let now = Time {
        sec: 1 << 32,
        nsec: 123_456_789,
    };
    let extra = volume.geo.want_extra_isize as u16;
    let sectors = 1u64 << (volume.geo.block_bits + volume.geo.cluster_bits - 9);
    let add = |volume: &mut Volume, name: &str, edit: &dyn Fn(&mut Inode), data: bool| {
        let is_dir = name == "made-dir";
        let ino = take_inode(volume, is_dir);
        let mut node = Inode::new(if is_dir { 0o040_755 } else { 0o100_600 }, now, 99, extra);
        node.flags = inode::FL_EXTENTS;
        NodeMut::format(&mut node.i_block, 0).unwrap();
        edit(&mut node);
        let block = data.then(|| take_block(volume));
        if let Some(start) = block {
            let e = Extent {
                block: 0,
                len: 1,
                unwritten: false,
                start,
            };
            NodeMut::new(&mut node.i_block)
                .unwrap()
                .insert_extent(0, &e)
                .unwrap();
            node.sectors = sectors;
            node.size = u64::from(volume.geo.block_size);
        }
        volume.write_inode(ino, &node);
        if let Some(start) = block.filter(|_| is_dir) {
            let mut bytes = vec![0xaa; volume.geo.block_size as usize];
            dir::init(&mut bytes, ino, parent, &volume.dirs).unwrap();
            dir::update_checksum(&mut bytes, &volume.dirs, volume.inode_seed(ino)).unwrap();
            volume.write_block(start, &bytes);
        }
        let root = volume.map(parent, &volume.inode(parent))[0].unwrap();
        let mut bytes = volume.block(root);
        let file_type = dir::file_type(node.mode);
        let at = dir::insert(&mut bytes, name.as_bytes(), ino, file_type, &volume.dirs).unwrap();
        assert!(at.is_some());
        dir::update_checksum(&mut bytes, &volume.dirs, volume.inode_seed(parent)).unwrap();
        volume.write_block(root, &bytes);
        let read = volume.inode(ino);
        if extra == 0 {
            // No room for all of a time.
            assert_eq!(
                (read.links, read.size, read.i_block),
                (node.links, node.size, node.i_block)
            );
        } else {
            assert_eq!(read, node);
        }
        ino
    };
    add(volume, "made-dir", &|n| n.links = 2, true);
    let mut root = volume.inode(parent);
    root.links += 1;
    volume.write_inode(parent, &root);
    let file = add(volume, "made-file", &|n| n.uid = 123_456, true);
    let device = add(
        volume,
        "made-device",
        &|n| {
            n.mode = inode::MODE_BLOCK | 0o600;
            n.flags = 0;
            n.set_device(259, 65_536);
        },
        false,
    );
    image.check();
    let texts = debugfs(
        &image.path,
        false,
        &[format!("stat <{file}>"), format!("stat <{device}>")],
    );
    assert!(texts[0].contains("User: 123456"), "{}", texts[0]);
    assert!(
        texts[1].contains("(New-style) Device major/minor number: 259:65536"),
        "{}",
        texts[1]
    );
    assert_eq!(volume.inode(device).device(), (259, 65_536));
}

/// Rebuilds the extent tree of a file out of extents of one block each: full leaves, one split in
/// two, and as many levels as that takes.
fn rebuild_tree(image: &Image, volume: &mut Volume) {
    let ino = volume.lookup("random");
    let mut node = volume.inode(ino);
    let before = volume.map(ino, &node);
    let (extents, blocks) = volume.tree(ino, &node);
    assert!(blocks.is_empty(), "the file is in one piece");
    let seed = volume.inode_seed(ino);
    let size = volume.geo.block_size as usize;
    let mut level: Vec<Vec<u8>> = Vec::new();
    for e in extents {
        for l in e.block..e.block + e.len {
            let one = e.part(l, u64::from(l) + 1).unwrap();
            if level
                .last()
                .is_none_or(|leaf| Node::new(leaf).unwrap().is_full())
            {
                let mut leaf = vec![0x55; size];
                NodeMut::format(&mut leaf, 0).unwrap();
                level.push(leaf);
            }
            let mut leaf = NodeMut::new(level.last_mut().unwrap()).unwrap();
            let at = leaf.as_node().len();
            leaf.insert_extent(at, &one).unwrap();
        }
    }
    let mut split = vec![0x55; size];
    let mut right = NodeMut::format(&mut split, 0).unwrap();
    let mut left = NodeMut::new(&mut level[0]).unwrap();
    let middle = left.as_node().len() / 2;
    left.split_into(middle, &mut right).unwrap();
    level.insert(1, split);

    let mut depth = 0;
    while level.len() > usize::from(extent::ROOT_MAX) {
        depth += 1;
        level = raise(volume, &mut node, level, depth, seed);
    }
    let mut root = NodeMut::format(&mut node.i_block, depth + 1).unwrap();
    for (i, child) in level.into_iter().enumerate() {
        let index = store(volume, &mut node.sectors, child, seed);
        root.insert_index(i as u16, &index).unwrap();
    }
    volume.write_inode(ino, &node);
    let (parts, blocks) = volume.tree(ino, &node);
    assert_eq!(parts.len(), before.len());
    assert!(!blocks.is_empty());
    assert!(volume.map(ino, &node) == before);
    image.check();

    // All extents merge again to one.
    let merged = parts
        .iter()
        .skip(1)
        .try_fold(parts[0], |all, next| all.merged(next));
    let merged = merged.expect("the file is in one piece");
    assert_eq!(merged.len as usize, before.len());
}

/// Writes a node to a block of its own and gives the index that points to it.
fn store(
    volume: &mut Volume,
    sectors: &mut u64,
    mut bytes: Vec<u8>,
    seed: Option<ext4rs_layout::Seed>,
) -> Index {
    let leaf = take_block(volume);
    *sectors += 1 << (volume.geo.block_bits - 9);
    extent::update_checksum(&mut bytes, seed).unwrap();
    volume.write_block(leaf, &bytes);
    Index {
        block: Node::new(&bytes).unwrap().first_block(0).unwrap(),
        leaf,
    }
}

/// Stores the nodes of one level and makes the level above.
fn raise(
    volume: &mut Volume,
    node: &mut Inode,
    level: Vec<Vec<u8>>,
    depth: u16,
    seed: Option<ext4rs_layout::Seed>,
) -> Vec<Vec<u8>> {
    let mut above: Vec<Vec<u8>> = Vec::new();
    for child in level {
        let index = store(volume, &mut node.sectors, child, seed);
        if above.last().is_none_or(|b| Node::new(b).unwrap().is_full()) {
            let mut bytes = vec![0x55; volume.geo.block_size as usize];
            NodeMut::format(&mut bytes, depth).unwrap();
            above.push(bytes);
        }
        let mut parent = NodeMut::new(above.last_mut().unwrap()).unwrap();
        let at = parent.as_node().len();
        parent.insert_index(at, &index).unwrap();
    }
    above
}

/// Writes the bitmaps of all groups that have none.
fn initialise(image: &Image, volume: &mut Volume) {
    let mut uninitialised = 0;
    for g in 0..volume.geo.groups_count {
        let mut gd = volume.groups[g as usize];
        uninitialised += u32::from(gd.has(group::BLOCK_UNINIT));
        let blocks = volume.block_bitmap(g);
        let inodes = volume.inode_bitmap(g);
        volume.write_block(gd.block_bitmap, &blocks);
        volume.write_block(gd.inode_bitmap, &inodes);
        gd.flags &= !(group::BLOCK_UNINIT | group::INODE_UNINIT);
        group::update_block_bitmap_csum(&blocks, &mut gd, volume.seed, &volume.geo).unwrap();
        group::update_inode_bitmap_csum(&inodes, &mut gd, volume.seed, &volume.geo).unwrap();
        volume.write_desc(g, gd);
    }
    let expected =
        volume.group_checksum != group::GroupChecksum::None && volume.geo.groups_count > 4;
    assert!(uninitialised > 0 || !expected, "no group was uninitialised");
    image.check();
}

/// Fields that only the running filesystem changes.
fn edit_super(image: &Image, volume: &mut Volume) {
    let error = ErrorRecord {
        time: 0x12_3456_7890,
        ino: 12,
        block: 0x1234_5678_9abc,
        line: 345,
        func: ErrorRecord::function("some_function_with_a_name_too_long_for_the_field"),
        errcode: ErrorCode::BadCrc as u8,
    };
    volume.edit_super(|sb| {
        sb.set_state(superblock::STATE_VALID | superblock::STATE_ERROR);
        sb.set_mnt_count(3);
        sb.set_mtime(0x1_2345_6789);
        sb.set_last_mounted(b"/some/where");
        sb.set_error_count(2);
        sb.set_first_error(&error);
        sb.set_last_error(&ErrorRecord { ino: 13, ..error });
        sb.set_kbytes_written(1 << 40);
    });
    assert_eq!(volume.sb.first_error, error);
    let text = tool_ok("dumpe2fs", &["-h", image.path()]);
    let text: Vec<String> = text
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "Filesystem state: clean with errors",
        "Mount count: 3",
        "Last mounted on: /some/where",
        "FS Error count: 2",
        "First error function: some_function_with_a_name_too_lo",
        "First error line #: 345",
        "First error inode #: 12",
        "First error block #: 20015998343868",
        "First error err: EFSBADCRC",
        "Last error inode #: 13",
        "Lifetime writes: 1024 TB",
    ] {
        assert!(
            text.iter().any(|l| l == line),
            "no {line:?} in\n{}",
            text.join("\n")
        );
    }
    volume.edit_super(|sb| sb.set_state(superblock::STATE_VALID));
}

/// A journal with a transaction to be replayed, written by debugfs with checksums.
fn journal(image: &Image) {
    let data = image.dir.path().join("data");
    std::fs::write(&data, vec![0x5a; 65536]).unwrap();
    let before = Volume::open(&image.path);
    let block = before.map(
        before.lookup("random"),
        &before.inode(before.lookup("random")),
    )[0];
    let write = format!("jw -b {} {}", block.unwrap(), data.display());
    debugfs(
        &image.path,
        true,
        &["jo -c -v 3".into(), write, "jc".into()],
    );

    let volume = Volume::open(&image.path);
    assert!(volume.sb.incompat.has(Incompat::RECOVER));
    let ino = volume.sb.journal_inum;
    let mut bytes = volume.block(volume.map(ino, &volume.inode(ino))[0].unwrap());
    let sb = JournalSuper::decode(&bytes).unwrap();
    sb.verify_checksum(&bytes).unwrap();
    // debugfs gives the journal checksums where the volume has them.
    let sums = volume.seed.is_some();
    assert!(sb.needs_recovery() && sb.has_incompat(journal::INCOMPAT_CSUM_V3) == sums);
    assert_eq!(sb.incompat & !journal::INCOMPAT_KNOWN, 0);
    let text = tool_ok("dumpe2fs", &["-h", image.path()]);
    let said = |key: &str| {
        let line = text.lines().find(|l| l.starts_with(key));
        let line = line.unwrap_or_else(|| panic!("no {key} in\n{text}"));
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(said("Total journal blocks"), sb.maxlen.to_string());
    assert_eq!(said("Journal start"), sb.start.to_string());
    assert_eq!(said("Journal sequence"), format!("0x{:08x}", sb.sequence));
    if sums {
        assert_eq!(said("Journal checksum type"), "crc32c");
        assert_eq!(sb.checksum_type, 4);
    }
    let area = if volume.sb.compat.has(Compat::FAST_COMMIT) {
        64
    } else {
        0
    };
    assert_eq!(said("Fast commit length"), area.to_string());
    assert_eq!(sb.num_fc_blocks, area);
    // No block of that area is in use.
    assert!(!sb.has_incompat(journal::INCOMPAT_FAST_COMMIT));
    bytes[0x1c] ^= 1;
    assert_eq!(sb.verify_checksum(&bytes).is_err(), sums);
}
