// SPDX-License-Identifier: GPL-2.0

//! One comparison each of what the crate reads and what e2fsprogs prints.

use crate::common::image::{acl_value, long_value, names, source, Image};
use crate::common::volume::Volume;
use crate::common::{debugfs, tool_ok};
use ext4rs_layout::dir::{self, FT_DIR};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::inode::{self, Inode, Time};
use ext4rs_layout::journal::JournalSuper;
use ext4rs_layout::superblock::OnError;
use ext4rs_layout::xattr::{self, Attr, Attrs, Rules};
use ext4rs_layout::{acl, bitmap, extent, group, htree, orphan};
use ext4rs_layout::{Compat, GroupDesc, Incompat, RoCompat, SuperBlockMut};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;

/// `Key: value` lines.
fn fields(text: &str) -> HashMap<&str, &str> {
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .map(|(k, v)| (k.trim(), v.trim()))
        .collect()
}

/// The number at the start of `text`, in hexadecimal if it says so.
fn number(text: &str) -> u64 {
    let text = text.trim_start();
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(rest) => (rest, 16),
        None => (text, 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).unwrap_or_else(|_| panic!("no number in {text:?}"))
}

fn uuid(bytes: &[u8]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(bytes.try_into().unwrap()));
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

pub(crate) fn superblock(image: &Image, volume: &Volume) {
    let text = tool_ok("dumpe2fs", &["-h", image.path()]);
    let said = fields(&text);
    let (sb, geo) = (&volume.sb, &volume.geo);
    let words = format!("{} {} {}", sb.compat, sb.incompat, sb.ro_compat);
    let words: Vec<_> = words.split_whitespace().collect();
    assert_eq!(
        said["Filesystem features"]
            .split_whitespace()
            .collect::<Vec<_>>(),
        words
    );
    assert_eq!(said["Filesystem UUID"], uuid(&sb.uuid));
    let seed: Vec<u8> = sb.hash_seed.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(said["Directory Hash Seed"], uuid(&seed));
    let hash = ["legacy", "half_md4", "tea"][usize::from(sb.def_hash_version)];
    assert_eq!(said["Default directory hash"], hash);
    let sign = if sb.hash_unsigned() {
        "unsigned"
    } else {
        "signed"
    };
    assert_eq!(said["Filesystem flags"], format!("{sign}_directory_hash"));
    assert_eq!(said["Filesystem state"], "clean");
    assert_eq!(sb.state, ext4rs_layout::superblock::STATE_VALID);
    assert_eq!(
        (said["Errors behavior"], sb.on_error()),
        ("Continue", OnError::Continue)
    );
    assert_eq!(
        number(said["Maximum mount count"].trim_start_matches('-')),
        1
    );
    assert_eq!(sb.max_mnt_count, -1);

    let per_flex = if geo.flex_bg {
        u64::from(geo.groups_per_flex())
    } else {
        0
    };
    let numbers = [
        ("Inode count", u64::from(sb.inodes_count)),
        ("Block count", sb.blocks_count),
        ("Reserved block count", sb.reserved_blocks),
        ("Free blocks", sb.free_blocks),
        ("Free inodes", u64::from(sb.free_inodes)),
        ("First block", u64::from(geo.first_data_block)),
        ("Block size", u64::from(geo.block_size)),
        ("Group descriptor size", u64::from(geo.desc_size)),
        ("Reserved GDT blocks", u64::from(geo.reserved_gdt_blocks)),
        ("Blocks per group", u64::from(geo.blocks_per_group)),
        ("Clusters per group", u64::from(geo.clusters_per_group)),
        (
            "Cluster size",
            u64::from(geo.block_size) << geo.cluster_bits,
        ),
        ("Inodes per group", u64::from(geo.inodes_per_group)),
        ("Inode blocks per group", u64::from(geo.itable_blocks)),
        ("Flex block group size", per_flex),
        ("First inode", u64::from(geo.first_ino)),
        ("Inode size", u64::from(geo.inode_size)),
        ("Required extra isize", u64::from(sb.min_extra_isize)),
        ("Desired extra isize", u64::from(geo.want_extra_isize)),
        ("Journal inode", u64::from(sb.journal_inum)),
        ("Orphan file inode", u64::from(sb.orphan_file_inum)),
        ("Overhead clusters", u64::from(sb.overhead_clusters)),
        ("Mount count", u64::from(sb.mnt_count)),
        ("Reserved blocks uid", u64::from(sb.resuid)),
        ("Checksum", u64::from(sb.checksum)),
        ("Checksum seed", u64::from(sb.checksum_seed)),
        ("User quota inode", u64::from(sb.usr_quota_inum)),
        ("Group quota inode", u64::from(sb.grp_quota_inum)),
        ("Project quota inode", u64::from(sb.prj_quota_inum)),
    ];
    let mut compared = 0;
    for (key, value) in numbers {
        if let Some(text) = said.get(key) {
            assert_eq!(number(text), value, "{key}");
            compared += 1;
        }
    }
    assert!(
        compared >= 17,
        "dumpe2fs printed only {compared} of the fields:\n{text}"
    );
    overhead(volume);
}

/// What mke2fs counted as overhead is what the geometry gives, with the journal.
fn overhead(volume: &Volume) {
    let (sb, geo) = (&volume.sb, &volume.geo);
    if geo.cluster_bits != 0 || sb.journal_inum == 0 {
        return;
    }
    let groups: u64 = (0..geo.groups_count)
        .map(|g| u64::from(geo.overhead_blocks(g)))
        .sum();
    let journal = volume.inode(sb.journal_inum).sectors >> (geo.block_bits - 9);
    let counted = u64::from(geo.first_data_block) + groups + journal;
    // mke2fs counts before it knows that the last group is too short to hold a backup.
    assert_eq!(u64::from(sb.overhead_clusters), counted);
}

/// One group as dumpe2fs prints it.
fn group_text(text: &str, g: u32) -> Vec<&str> {
    let head = format!("Group {g}: ");
    let mut lines = text.lines().skip_while(|l| !l.starts_with(&head));
    let first = lines.next().unwrap_or_else(|| panic!("no group {g}"));
    let mut found = vec![first];
    found.extend(lines.take_while(|l| l.starts_with(' ')));
    found
}

/// The number behind `what` in the line that has it.
fn after(lines: &[&str], what: &str) -> Option<u64> {
    let text = lines.iter().find_map(|l| l.split_once(what))?.1;
    Some(number(text))
}

/// Clear bits as dumpe2fs prints them: `a-b, c, d-e`, times `ratio`.
fn runs(map: &[u8], bits: u32, first: u64, ratio: u64) -> String {
    let mut text = Vec::new();
    let mut at = 0;
    while let Some((from, to)) = bitmap::next_zero_run(map, at, bits) {
        let (a, b) = (
            first + u64::from(from) * ratio,
            first + u64::from(to) * ratio - 1,
        );
        text.push(if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        });
        at = to;
    }
    text.join(", ")
}

pub(crate) fn groups(image: &Image, volume: &Volume) {
    let text = tool_ok("dumpe2fs", &[image.path()]);
    let geo = &volume.geo;
    let (mut free_blocks, mut free_inodes) = (0u64, 0u64);
    for g in 0..geo.groups_count {
        let lines = group_text(&text, g);
        let gd = &volume.groups[g as usize];
        let first = geo.group_first_block(g);
        let last = first + u64::from(geo.blocks_in_group(g)) - 1;
        assert!(
            lines[0].contains(&format!("(Blocks {first}-{last})")),
            "{}",
            lines[0]
        );
        if volume.group_checksum != group::GroupChecksum::None {
            assert_eq!(
                after(&lines[..1], "csum "),
                Some(u64::from(gd.checksum)),
                "{}",
                lines[0]
            );
        }
        for (flag, name) in [
            (group::INODE_UNINIT, "INODE_UNINIT"),
            (group::BLOCK_UNINIT, "BLOCK_UNINIT"),
            (group::INODE_ZEROED, "ITABLE_ZEROED"),
        ] {
            assert_eq!(gd.has(flag), lines[0].contains(name), "{}", lines[0]);
        }
        backups(volume, g, &lines);
        assert_eq!(after(&lines, "Block bitmap at "), Some(gd.block_bitmap));
        assert_eq!(after(&lines, "Inode bitmap at "), Some(gd.inode_bitmap));
        assert_eq!(after(&lines, "Inode table at "), Some(gd.inode_table));

        let blocks = volume.block_bitmap(g);
        let clusters = geo.clusters_in_group(g);
        let ratio = 1u64 << geo.cluster_bits;
        assert_eq!(
            bitmap::count_zero(&blocks, 0, clusters),
            gd.free_clusters,
            "group {g}"
        );
        assert!(
            lines.contains(
                &format!("  Free blocks: {}", runs(&blocks, clusters, first, ratio)).as_str()
            ),
            "free blocks of group {g}:\n{}\n{}",
            lines.join("\n"),
            runs(&blocks, clusters, first, ratio),
        );
        let inodes = volume.inode_bitmap(g);
        let per_group = geo.inodes_per_group;
        assert_eq!(
            bitmap::count_zero(&inodes, 0, per_group),
            gd.free_inodes,
            "group {g}"
        );
        let first_ino = u64::from(geo.inode_number(g, 0).unwrap());
        let said = format!("  Free inodes: {}", runs(&inodes, per_group, first_ino, 1));
        assert!(
            lines.contains(&said.as_str()),
            "free inodes of group {g}: {said}"
        );
        let counts = format!(
            "{} free inodes, {} directories",
            gd.free_inodes, gd.used_dirs
        );
        assert!(
            lines.iter().any(|l| l.contains(&counts)),
            "group {g}: {counts}"
        );
        if gd.itable_unused != 0 {
            let unused = format!(", {} unused inodes", gd.itable_unused);
            assert!(
                lines.iter().any(|l| l.contains(&unused)),
                "group {g}: {unused}"
            );
        }
        free_blocks += u64::from(gd.free_clusters) << geo.cluster_bits;
        free_inodes += u64::from(gd.free_inodes);
    }
    assert_eq!(volume.sb.free_blocks, free_blocks);
    assert_eq!(u64::from(volume.sb.free_inodes), free_inodes);
}

/// Superblock and descriptors of a group, as printed and as calculated.
fn backups(volume: &Volume, g: u32, lines: &[&str]) {
    let geo = &volume.geo;
    let has = lines.iter().any(|l| l.contains("superblock at "));
    assert_eq!(geo.has_super(g), has, "superblock in group {g}");
    if has && g != 0 {
        let at = after(lines, "superblock at ").unwrap();
        assert_eq!(at, geo.group_first_block(g));
        let mut copy = volume.block(at);
        copy.truncate(1024);
        let backup = ext4rs_layout::SuperBlock::decode(&copy).unwrap();
        backup.verify_checksum(&copy).unwrap();
        assert_eq!(u32::from(backup.block_group_nr), g);
        assert_eq!(backup.uuid, volume.sb.uuid);
    }
    let range = lines.iter().find_map(|l| {
        l.split_once("Group descriptors at ")
            .or_else(|| l.split_once("Group descriptor at "))
    });
    let count = range.map_or(0, |(_, text)| {
        let first = number(text);
        let last = text.split_once('-').map_or(first, |(_, t)| number(t));
        last - first + 1
    });
    assert_eq!(
        u64::from(geo.desc_blocks_in_group(g)),
        count,
        "descriptors in group {g}"
    );
}

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

pub(crate) fn directories(image: &Image, volume: &Volume) {
    let mut pending = vec![(inode::ROOT_INO, String::from("/"))];
    let mut seen = 0;
    while let Some((ino, path)) = pending.pop() {
        let text = debugfs(&image.path, false, &[format!("ls -p <{ino}>")]).remove(0);
        let list = volume.list(ino);
        // Names with bytes above 127 are not printed as they are; numbers and order are.
        let said: Vec<(u32, String)> = text
            .lines()
            .filter(|l| l.starts_with('/'))
            .map(|l| {
                let parts: Vec<_> = l.split('/').collect();
                (parts[1].parse().unwrap(), parts[5].to_owned())
            })
            .filter(|(ino, _)| *ino != 0)
            .collect();
        assert_eq!(said.len(), list.len(), "{path}");
        for ((name, child, file_type), (said_ino, said_name)) in list.iter().zip(&said) {
            assert_eq!(child, said_ino);
            if name.is_ascii() {
                assert_eq!(&String::from_utf8(name.clone()).unwrap(), said_name);
            }
            if volume.dirs.filetype {
                assert_eq!(*file_type, dir::file_type(volume.inode(*child).mode));
            } else {
                assert_eq!(*file_type, dir::FT_UNKNOWN);
            }
            seen += 1;
            let is_dir = dir::file_type(volume.inode(*child).mode) == FT_DIR;
            if is_dir && name != b"." && name != b".." {
                pending.push((*child, format!("{path}{said_name}/")));
            }
        }
    }
    assert!(seen > 1200, "only {seen} entries");
    // The large directory against the folder that it was made from.
    let mut there: Vec<Vec<u8>> = std::fs::read_dir(source().join("big"))
        .unwrap()
        .map(|e| e.unwrap().file_name().as_bytes().to_vec())
        .collect();
    there.extend([b".".to_vec(), b"..".to_vec()]);
    let mut read: Vec<Vec<u8>> = volume
        .list(volume.lookup("big"))
        .into_iter()
        .map(|e| e.0)
        .collect();
    there.sort();
    read.sort();
    assert!(there == read);
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

/// Looks every name of the large directory up by the index, and holds index and hashes against
/// `htree_dump`.
pub(crate) fn index(image: &Image, volume: &Volume) {
    let ino = volume.lookup("big");
    let node = volume.inode(ino);
    if !node.has(inode::FL_INDEX) {
        // All entries fit one block.
        assert!(volume.geo.block_size > 4096);
        return;
    }
    let large_dir = volume.sb.incompat.has(Incompat::LARGEDIR);
    let map = volume.map(ino, &node);
    let block = |lblk: u32| volume.block(map[lblk as usize].unwrap());
    let root_bytes = block(0);
    let (root, top) = htree::root(&root_bytes, large_dir, &volume.dirs).unwrap();
    top.validate(map.len() as u32).unwrap();
    let hasher = Hasher::new(
        root.hash_version,
        volume.sb.hash_unsigned(),
        volume.sb.hash_seed,
    )
    .unwrap();

    let text = debugfs(&image.path, false, &[format!("htree_dump <{ino}>")]).remove(0);
    let said = fields(&text);
    assert_eq!(number(said["Hash Version"]), u64::from(root.hash_version));
    assert_eq!(number(said["Indirect levels"]), u64::from(root.levels));
    let said_limit = text
        .lines()
        .find_map(|l| l.split_once("(limit): "))
        .unwrap()
        .1;
    assert_eq!(number(said_limit), u64::from(top.limit()));
    for i in 0..top.count() {
        let (hash, block) = (top.hash(i).unwrap(), top.block(i).unwrap());
        let line = format!("Entry #{i}: Hash 0x{hash:08x}, block {block}");
        assert!(text.contains(&line), "no {line}");
    }
    // A leaf line is `inode 0xmajor-minor (rec_len) name`.
    let mut hashes: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for word in text.split(" 0x").collect::<Vec<_>>().windows(2) {
        let ino = word[0]
            .rsplit(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap();
        let (major, rest) = word[1].split_at(8.min(word[1].len()));
        if let (Ok(ino), Some(minor)) =
            (ino.parse(), rest.strip_prefix('-').and_then(|r| r.get(..8)))
        {
            let parse = |t| u32::from_str_radix(t, 16).unwrap();
            hashes.insert(ino, (parse(major), parse(minor)));
        }
    }

    let linear: HashMap<Vec<u8>, u32> = volume
        .list(ino)
        .into_iter()
        .map(|(name, ino, _)| (name, ino))
        .collect();
    let mut checked = 0;
    for name in names() {
        let hash = hasher.hash(&name);
        if let Some(&(major, minor)) = hashes.get(&linear[&name]) {
            assert_eq!(
                (hash.major, hash.minor),
                (major, minor),
                "{:?}",
                String::from_utf8_lossy(&name)
            );
            checked += 1;
        }
        let found = by_index(volume, &block, root.levels, hash.major, &name);
        assert_eq!(
            found,
            Some(linear[&name]),
            "{:?}",
            String::from_utf8_lossy(&name)
        );
    }
    assert!(
        checked > names().len() / 2,
        "htree_dump named only {checked} hashes"
    );
    assert_eq!(
        by_index(
            volume,
            &block,
            root.levels,
            hasher.hash(b"no such").major,
            b"no such"
        ),
        None
    );
    if volume.geo.block_size == 1024 {
        assert_eq!(root.levels, 1, "the index of small blocks has two levels");
    }
}

fn by_index(
    volume: &Volume,
    block: &impl Fn(u32) -> Vec<u8>,
    levels: u8,
    major: u32,
    name: &[u8],
) -> Option<u32> {
    // Leaves in order of their hashes, as the index gives them; small enough to be listed whole.
    let mut leaves: Vec<(u32, u32)> = Vec::new();
    let root = block(0);
    let (_, top) = htree::root(&root, true, &volume.dirs).unwrap();
    let i = top.search(major);
    for i in i..top.count() {
        if levels == 0 {
            leaves.push((top.hash(i).unwrap(), top.block(i).unwrap()));
            continue;
        }
        let node = block(top.block(i).unwrap());
        let node = htree::node(&node, &volume.dirs).unwrap();
        let from = if i == top.search(major) {
            node.search(major)
        } else {
            0
        };
        for j in from..node.count() {
            let hash = if j == 0 {
                top.hash(i).unwrap()
            } else {
                node.hash(j).unwrap()
            };
            leaves.push((hash, node.block(j).unwrap()));
        }
        if i > top.search(major) {
            break;
        }
    }
    for (n, (hash, leaf)) in leaves.into_iter().enumerate() {
        // Beyond the first only those that say that they go on with this hash.
        if n > 0 && !(hash & 1 != 0 && hash & !1 == major) {
            break;
        }
        let bytes = block(leaf);
        if let Some(entry) = dir::find(&bytes, name, &volume.dirs).unwrap() {
            return Some(entry.ino);
        }
    }
    None
}

/// Attributes of an inode, from both places.
fn attributes_of(volume: &Volume, ino: u32, mut each: impl FnMut(Attr<'_>)) {
    let rules = Rules::new(&volume.sb);
    let raw = volume.inode_bytes(ino);
    if let Some(region) = inode::xattr_region(&raw, &volume.inodes).unwrap() {
        if let Some(attrs) = xattr::ibody(region, &rules).unwrap() {
            attrs.iter().for_each(&mut each);
        }
    }
    let node = volume.inode(ino);
    if node.file_acl != 0 {
        let block = volume.block(node.file_acl);
        xattr::verify_block(&block, node.file_acl, volume.seed).unwrap();
        let (header, attrs) = xattr::block(&block, &rules).unwrap();
        assert_eq!(header.refcount, 1);
        check_hashes(&attrs, header.hash);
        attrs.iter().for_each(&mut each);
    }
}

fn check_hashes(attrs: &Attrs<'_>, whole: u32) {
    for attr in attrs.iter().filter(|a| a.value_ino == 0) {
        assert_eq!(attr.hash, xattr::entry_hash(attr.name, attr.value));
    }
    // e2fsprogs stores no hash of a whole block; one that is there must be right.
    assert!(whole == 0 || whole == attrs.hash());
}

pub(crate) fn attributes(volume: &Volume) {
    let mut found: BTreeMap<(&str, String), Vec<u8>> = BTreeMap::new();
    let mut inside = 0;
    for path in ["one", "random", "deep"] {
        attributes_of(volume, volume.lookup(path), |attr| {
            let name = format!(
                "{}{}",
                xattr::prefix(attr.index).unwrap(),
                String::from_utf8_lossy(attr.name)
            );
            assert_eq!(attr.value.len(), attr.size as usize);
            inside += usize::from(attr.hash == 0);
            found.insert((path, name), attr.value.to_vec());
        });
    }
    let get = |path, name: &str| found.get(&(path, name.to_owned())).map(Vec::as_slice);
    assert_eq!(get("one", "user.small"), Some(&b"value"[..]));
    assert_eq!(get("one", "trusted.none"), Some(&b""[..]));
    assert_eq!(get("random", "user.large"), Some(&long_value()[..]));
    assert_eq!(get("random", "security.label"), Some(&b"l"[..]));
    let stored = get("deep", "system.posix_acl_access").unwrap();
    let list: Vec<_> = acl::decode(stored).unwrap().iter().collect();
    let wanted = acl_value();
    assert_eq!(list.len(), (wanted.len() - 4) / 8);
    for (entry, raw) in list.iter().zip(wanted[4..].chunks(8)) {
        let id = u32::from_le_bytes(raw[4..].try_into().unwrap());
        let tag = match raw[0] {
            1 => acl::Tag::UserObj,
            2 => acl::Tag::User(id),
            4 => acl::Tag::GroupObj,
            8 => acl::Tag::Group(id),
            16 => acl::Tag::Mask,
            _ => acl::Tag::Other,
        };
        assert_eq!((entry.tag, entry.perm), (tag, u16::from(raw[2])));
    }
    assert_eq!(found.len(), 5);
    assert_eq!(
        inside > 0,
        volume.geo.inode_size > 128,
        "attributes in inodes"
    );
}

/// Reading and writing everything back changes no byte: fields, unknown bytes and checksums.
pub(crate) fn unchanged(volume: &Volume) {
    let mut bytes = volume.sb_bytes.clone();
    rewrite_super(volume, &mut bytes);
    assert!(bytes == volume.sb_bytes, "superblock");

    for g in 0..volume.geo.groups_count {
        let old = volume.desc_bytes(g);
        let mut new = old.clone();
        let mut gd = GroupDesc::decode(&old, &volume.geo).unwrap();
        if !gd.has(group::BLOCK_UNINIT) {
            let map = volume.block_bitmap(g);
            group::update_block_bitmap_csum(&map, &mut gd, volume.seed, &volume.geo).unwrap();
        }
        if !gd.has(group::INODE_UNINIT) {
            let map = volume.inode_bitmap(g);
            group::update_inode_bitmap_csum(&map, &mut gd, volume.seed, &volume.geo).unwrap();
        }
        gd.encode(&mut new, &volume.geo).unwrap();
        group::update_checksum(&mut new, g, &volume.group_checksum, &volume.geo).unwrap();
        assert!(old == new, "descriptor {g}");
    }

    for ino in volume.used_inodes() {
        let old = volume.inode_bytes(ino);
        let node = volume.inode(ino);
        let mut new = old.clone();
        node.encode(&mut new, &volume.inodes).unwrap();
        let seed = volume.inode_seed(ino);
        inode::update_checksum(&mut new, &volume.inodes, seed).unwrap();
        assert!(old == new, "inode {ino}");
        if node.has(inode::FL_EXTENTS) {
            for block in volume.tree(ino, &node).1 {
                let mut new = block.bytes.clone();
                extent::update_checksum(&mut new, seed).unwrap();
                assert!(block.bytes == new, "extent block {} of {ino}", block.block);
            }
        }
        if node.file_type() == inode::MODE_DIR {
            unchanged_dir(volume, ino, &node);
        }
    }
}

fn unchanged_dir(volume: &Volume, ino: u32, node: &Inode) {
    let seed = volume.inode_seed(ino);
    for (lblk, block) in volume.map(ino, node).into_iter().enumerate() {
        let old = volume.block(block.unwrap());
        let mut new = old.clone();
        let index =
            node.has(inode::FL_INDEX) && dir::is_index_block(&old, lblk as u32, &volume.dirs);
        if index {
            htree::update_checksum(&mut new, &volume.dirs, seed).unwrap();
        } else {
            dir::update_checksum(&mut new, &volume.dirs, seed).unwrap();
        }
        assert!(old == new, "block {lblk} of directory {ino}");
    }
}

/// Sets every field that can be set to what it is.
fn rewrite_super(volume: &Volume, bytes: &mut [u8]) {
    let sb = &volume.sb;
    let mut new = SuperBlockMut::new(bytes).unwrap();
    new.set_state(sb.state);
    new.set_compat(sb.compat);
    new.set_incompat(sb.incompat);
    new.set_ro_compat(sb.ro_compat);
    new.set_free_blocks(sb.free_blocks);
    new.set_free_inodes(sb.free_inodes);
    new.set_mtime(sb.mtime);
    new.set_wtime(sb.wtime);
    new.set_mnt_count(sb.mnt_count);
    new.set_max_mnt_count(sb.max_mnt_count);
    new.set_last_mounted(&sb.last_mounted);
    new.set_last_orphan(sb.last_orphan);
    new.set_flags(sb.flags);
    new.set_kbytes_written(sb.kbytes_written);
    new.set_overhead_clusters(sb.overhead_clusters);
    new.set_error_count(sb.error_count);
    new.set_first_error(&sb.first_error);
    new.set_last_error(&sb.last_error);
    new.set_label(&sb.label);
    new.set_resuid(sb.resuid);
    new.set_resgid(sb.resgid);
    new.update_checksum();
}

/// The blocks of the orphan file, and the journal's superblock.
pub(crate) fn special_blocks(volume: &Volume) {
    let sb = &volume.sb;
    if sb.compat.has(Compat::ORPHAN_FILE) {
        let ino = sb.orphan_file_inum;
        let node = volume.inode(ino);
        let seed = volume.inode_seed(ino);
        for block in volume.map(ino, &node) {
            let nr = block.unwrap();
            let mut bytes = volume.block(nr);
            orphan::check_block(&bytes, nr, seed).unwrap();
            assert_eq!(orphan::inodes(&bytes).count(), 0);
            assert_eq!(orphan::find_free(&bytes, 0), Some(0));
            let old = bytes.clone();
            orphan::update_checksum(&mut bytes, nr, seed);
            assert!(bytes == old);
            orphan::set(&mut bytes, 3, 77).unwrap();
            assert_eq!(
                orphan::check_block(&bytes, nr, seed).is_err(),
                seed.is_some()
            );
            orphan::update_checksum(&mut bytes, nr, seed);
            orphan::check_block(&bytes, nr, seed).unwrap();
            assert_eq!(orphan::inodes(&bytes).collect::<Vec<_>>(), [(3, 77)]);
        }
    }
    if sb.journal_inum != 0 {
        let node = volume.inode(sb.journal_inum);
        let map = volume.map(sb.journal_inum, &node);
        let bytes = volume.block(map[0].unwrap());
        let journal = JournalSuper::decode(&bytes).unwrap();
        journal.verify_checksum(&bytes).unwrap();
        assert_eq!(journal.version, 2);
        assert_eq!(journal.block_size, volume.geo.block_size);
        assert_eq!(
            u64::from(journal.maxlen),
            node.size / u64::from(volume.geo.block_size)
        );
        assert!(!journal.needs_recovery() && journal.errno == 0);
    }
    assert!(!sb.ro_compat.has(RoCompat::ORPHAN_PRESENT));
}
