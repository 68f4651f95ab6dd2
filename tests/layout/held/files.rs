// SPDX-License-Identifier: GPL-2.0

//! Inodes, extents and contents of files against debugfs and the source folder.

use super::number;
use crate::common::debugfs;
use crate::common::image::{source, Image};
use crate::common::volume::Volume;
use ext4rs_layout::inode::{self, Inode, Time};
use ext4rs_layout::{extent, Incompat};
use std::os::unix::ffi::OsStrExt;

/// The raw words of a time, calculated apart from the crate.
fn words(t: Time) -> (u64, u64) {
    let low = t.sec.rem_euclid(1 << 32);
    let signed = if low >= 1 << 31 { low - (1 << 32) } else { low };
    let epoch = (t.sec - signed) >> 32;
    (low as u64, (u64::from(t.nsec) << 2) | epoch as u64)
}

fn check_time(text: &str, key: &str, t: Time, extra: bool) {
    let line = text.lines().find(|l| l.trim_start().starts_with(key));
    let line = line.unwrap_or_else(|| panic!("no {key} in\n{text}"));
    let value = line.split_once(": ").unwrap().1;
    let (low, high) = words(t);
    assert_eq!(number(value), low, "{line}");
    if extra {
        let said = value.split_once(':').unwrap().1;
        assert_eq!(u64::from_str_radix(&said[..8], 16).unwrap(), high, "{line}");
    }
}

fn check_inode(volume: &Volume, ino: u32, node: &Inode, text: &str) {
    let said = |key: &str| {
        let rest = text
            .split_once(key)
            .unwrap_or_else(|| panic!("no {key} in\n{text}"))
            .1;
        rest.trim_start()
    };
    let kind = match node.file_type() {
        inode::MODE_REG => "regular",
        inode::MODE_DIR => "directory",
        inode::MODE_LINK => "symlink",
        inode::MODE_CHAR => "character special",
        inode::MODE_BLOCK => "block special",
        inode::MODE_FIFO => "FIFO",
        _ => "bad type",
    };
    assert!(
        said("Type:").starts_with(kind),
        "inode {ino} is {kind}:\n{text}"
    );
    let mode = said("Mode:").split_whitespace().next().unwrap();
    assert_eq!(u16::from_str_radix(mode, 8).unwrap(), node.mode & 0o7777);
    assert_eq!(number(said("Flags:")), u64::from(node.flags));
    assert_eq!(number(said("Generation:")), u64::from(node.generation));
    assert_eq!(number(said("User:")), u64::from(node.uid), "inode {ino}");
    assert_eq!(number(said("Group:")), u64::from(node.gid), "inode {ino}");
    assert_eq!(number(said("Size:")), node.size);
    assert_eq!(number(said("File ACL:")), node.file_acl);
    assert_eq!(number(said("Links:")), u64::from(node.links));
    assert_eq!(number(said("Blockcount:")), node.sectors);
    let extra = node.extra_isize != 0;
    let version = said("Version:").split_whitespace().next().unwrap();
    let version = version.rsplit("0x").next().unwrap().replace(':', "");
    assert_eq!(
        u64::from_str_radix(&version, 16).unwrap(),
        node.version,
        "inode {ino}"
    );
    check_time(text, "ctime:", node.ctime, extra);
    check_time(text, "atime:", node.atime, extra);
    check_time(text, "mtime:", node.mtime, extra);
    if extra {
        check_time(text, "crtime:", node.crtime, extra);
        assert_eq!(number(said("Project:")), u64::from(node.projid));
        assert_eq!(
            number(said("Size of extra inode fields:")),
            u64::from(node.extra_isize)
        );
    }
    if let Some(seed) = volume.inode_seed(ino) {
        let mut raw = volume.inode_bytes(ino);
        inode::update_checksum(&mut raw, &volume.inodes, Some(seed)).unwrap();
        let low = u16::from_le_bytes([raw[0x7c], raw[0x7d]]);
        let mut sum = u64::from(low);
        if extra {
            sum |= u64::from(u16::from_le_bytes([raw[0x82], raw[0x83]])) << 16;
        }
        assert_eq!(number(said("Inode checksum:")), sum, "inode {ino}");
    }
    if matches!(node.file_type(), inode::MODE_CHAR | inode::MODE_BLOCK) {
        let (major, minor) = node.device();
        let numbers = format!("{major:02}:{minor:02} ");
        assert!(
            said("Device major/minor number:").starts_with(&numbers),
            "{text}"
        );
    }
}

pub(crate) fn inodes(image: &Image, volume: &Volume) {
    let used = volume.used_inodes();
    let stats: Vec<String> = used.iter().map(|i| format!("stat <{i}>")).collect();
    let texts = debugfs(&image.path, false, &stats);
    let mut in_use = 0;
    for (&ino, text) in used.iter().zip(&texts) {
        let node = volume.inode(ino);
        check_inode(volume, ino, &node, text);
        if node.links != 0 && !inode::is_unused(&volume.inode_bytes(ino)) {
            node.validate(volume.geo.max_file_size()).unwrap();
            in_use += 1;
        }
    }
    assert!(in_use > 1200, "only {in_use} inodes");
    let one = volume.inode(volume.lookup("one"));
    assert_eq!((one.uid, one.gid), (100_001, 1_500_000_000));
    assert_eq!(
        (one.generation, one.version & 0xffff_ffff),
        (0xdead_beef, 77)
    );
    assert_eq!(volume.inode(volume.lookup("chr")).device(), (5, 1));
    assert_eq!(volume.inode(volume.lookup("blk")).device(), (200, 77));
    if one.extra_isize != 0 {
        assert_eq!((one.mtime.nsec, one.mtime.sec >> 32), (0x1234_5679 >> 2, 1));
        assert_eq!(volume.inode(volume.lookup("random")).projid, 1234);
    }
}

/// A line of `dump_extents`: level, depth, first logical, first physical, blocks, unwritten.
type Line = (u16, u16, u64, u64, u64, bool);

fn extent_lines(text: &str) -> Vec<Line> {
    let lines = text.lines().skip_while(|l| !l.starts_with("Level")).skip(1);
    lines
        .map(|l| {
            let words: Vec<u64> = l
                .split(|c: char| !c.is_ascii_digit())
                .filter(|w| !w.is_empty())
                .map(|w| w.parse().unwrap())
                .collect();
            let (level, depth) = (words[0] as u16, words[1] as u16);
            let len = words[words.len() - 1];
            (level, depth, words[4], words[6], len, l.contains("Uninit"))
        })
        .collect()
}

/// The same from the tree in `buf`, in the order of `dump_extents`.
fn walk(volume: &Volume, buf: &[u8], level: u16, total: u16, end: u64, lines: &mut Vec<Line>) {
    let node = extent::Node::new(buf).unwrap();
    for e in node.extents() {
        lines.push((
            level,
            total,
            e.block.into(),
            e.start,
            e.len.into(),
            e.unwritten,
        ));
    }
    for (i, x) in node.indexes().enumerate() {
        let next = node.first_block(i as u16 + 1).map_or(end, u64::from);
        lines.push((
            level,
            total,
            x.block.into(),
            x.leaf,
            next - u64::from(x.block),
            false,
        ));
        walk(volume, &volume.block(x.leaf), level + 1, total, next, lines);
    }
}

pub(crate) fn extents(image: &Image, volume: &Volume) {
    let paths = [
        "/sparse",
        "/random",
        "/deep/er/data",
        "/empty",
        "/big",
        "/slow",
    ];
    let mut inodes: Vec<u32> = paths.iter().map(|p| volume.lookup(p)).collect();
    inodes.extend(Some(volume.sb.journal_inum).filter(|&i| i != 0));
    let dumps: Vec<String> = inodes
        .iter()
        .map(|i| format!("dump_extents <{i}>"))
        .collect();
    let texts = debugfs(&image.path, false, &dumps);
    for (&ino, text) in inodes.iter().zip(&texts) {
        let node = volume.inode(ino);
        let root = extent::check_root(&node.i_block, &volume.geo).unwrap();
        let said = extent_lines(text);
        let last = said.iter().map(|l| l.2 + l.4).max().unwrap_or(0);
        let mut lines = Vec::new();
        walk(volume, &node.i_block, 0, root.depth, last, &mut lines);
        // The length of an index is a guess of debugfs; all else must be equal.
        let plain = |all: &[Line]| -> Vec<Line> {
            all.iter()
                .map(|&(l, d, a, b, n, u)| (l, d, a, b, if l == d { n } else { 0 }, u))
                .collect()
        };
        assert_eq!(plain(&said), plain(&lines), "inode {ino}:\n{text}");
        // And by single look-ups.
        let (extents, blocks) = volume.tree(ino, &node);
        for e in &extents {
            assert_eq!(e.map(e.block), Some(e.start));
            assert_eq!(look_up(volume, &node, e.block), Some(*e));
            assert_eq!(look_up(volume, &node, e.block + e.len - 1), Some(*e));
        }
        assert!(blocks.iter().all(|b| b.depth < root.depth));
    }
    if volume.geo.block_size <= 4096 && volume.geo.cluster_bits == 0 {
        let root = volume.inode(volume.lookup("/sparse")).i_block;
        assert_eq!(extent::Node::new(&root).unwrap().header().depth, 2);
    }
    let empty = volume.lookup("/empty");
    let (parts, _) = volume.tree(empty, &volume.inode(empty));
    assert!(parts.iter().all(|e| e.unwritten) && !parts.is_empty());
}

/// The extent that holds a logical block, found from the root by binary search.
fn look_up(volume: &Volume, node: &Inode, block: u32) -> Option<extent::Extent> {
    let mut buf = node.i_block.to_vec();
    loop {
        let at = extent::Node::new(&buf).unwrap();
        let i = at.search(block)?;
        if at.is_leaf() {
            return at.extent(i).filter(|e| e.contains(block));
        }
        let leaf = at.index(i)?.leaf;
        buf = volume.block(leaf);
    }
}

/// Every file of the source folder has the same bytes on the volume.
pub(crate) fn contents(volume: &Volume) {
    for path in ["one", "random", "sparse", "deep/er/data"] {
        let wanted = std::fs::read(source().join(path)).unwrap();
        assert!(volume.read(volume.lookup(path)) == wanted, "{path} differs");
    }
    let ea_inode = volume.sb.incompat.has(Incompat::EA_INODE);
    let cluster = volume.geo.block_size << volume.geo.cluster_bits;
    for path in ["fast", "longest-fast", "shortest-slow", "slow"] {
        let target = std::fs::read_link(source().join(path)).unwrap();
        let target = target.as_os_str().as_bytes();
        let ino = volume.lookup(path);
        let node = volume.inode(ino);
        let fast = node.is_fast_symlink(ea_inode, cluster);
        assert_eq!(fast, target.len() < 60, "{path}");
        if fast {
            assert_eq!(node.fast_symlink().unwrap(), target);
        } else {
            assert_eq!(volume.read(ino), target);
        }
    }
}
