// SPDX-License-Identifier: GPL-2.0

//! Superblock and groups against dumpe2fs.

use super::{fields, number};
use crate::common::image::Image;
use crate::common::tool_ok;
use crate::common::volume::Volume;
use ext4rs_layout::superblock::OnError;
use ext4rs_layout::{bitmap, group};
use std::collections::HashMap;

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
    let sb = &volume.sb;
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

    numbers(volume, &said);
    overhead(volume);
}

/// Fields that are numbers, as far as dumpe2fs prints them for this volume.
fn numbers(volume: &Volume, said: &HashMap<&str, &str>) {
    let (sb, geo) = (&volume.sb, &volume.geo);
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
        "dumpe2fs printed only {compared} of the fields"
    );
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
