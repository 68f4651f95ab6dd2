// SPDX-License-Identifier: GPL-2.0

//! Real structures to be damaged.

use super::image::{Config, Image};
use super::volume::Volume;
use super::{small_superblock, Rng};
use ext4rs_layout::{dir, inode, Geometry, SuperBlock};
use std::sync::OnceLock;

/// Real blocks of each kind, all of 1024 bytes unless said otherwise.
pub(crate) struct Samples {
    pub(crate) superblocks: Vec<Vec<u8>>,
    /// Of 64 bytes.
    pub(crate) descriptors: Vec<Vec<u8>>,
    pub(crate) bitmaps: Vec<Vec<u8>>,
    /// Of 256 bytes.
    pub(crate) inodes: Vec<Vec<u8>>,
    pub(crate) extents: Vec<Vec<u8>>,
    pub(crate) dirs: Vec<Vec<u8>>,
    pub(crate) indexes: Vec<Vec<u8>>,
    pub(crate) attributes: Vec<Vec<u8>>,
    pub(crate) orphans: Vec<Vec<u8>>,
    pub(crate) journals: Vec<Vec<u8>>,
    pub(crate) geo: Geometry,
    pub(crate) sb: SuperBlock,
}

pub(crate) fn samples() -> &'static Samples {
    static SAMPLES: OnceLock<Samples> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let image = Image::filled(&Config {
            name: "samples",
            block: "1024",
            size: "64M",
            features: "",
            options: &[],
            hash: ("half_md4", false),
        });
        let volume = Volume::open(&image.path);
        let mut all = Samples {
            superblocks: vec![volume.sb_bytes.clone()],
            descriptors: (0..volume.geo.groups_count)
                .map(|g| volume.desc_bytes(g))
                .collect(),
            bitmaps: (0..volume.geo.groups_count)
                .map(|g| volume.block_bitmap(g))
                .collect(),
            inodes: Vec::new(),
            extents: Vec::new(),
            dirs: Vec::new(),
            indexes: Vec::new(),
            attributes: Vec::new(),
            orphans: Vec::new(),
            journals: Vec::new(),
            geo: volume.geo,
            sb: volume.sb,
        };
        for log in 0..=6 {
            all.superblocks.push(small_superblock(log, log % 2 == 0));
        }
        for ino in volume.used_inodes().into_iter().take(60) {
            all.inodes.push(volume.inode_bytes(ino));
        }
        for path in [
            "/", "big", "deep", "sparse", "random", "one", "slow", "fast", "blk",
        ] {
            let ino = volume.lookup(path);
            let node = volume.inode(ino);
            all.inodes.push(volume.inode_bytes(ino));
            if node.file_acl != 0 {
                all.attributes.push(volume.block(node.file_acl));
            }
            if node.has(inode::FL_EXTENTS) {
                let blocks = volume.tree(ino, &node).1;
                all.extents.extend(blocks.into_iter().map(|b| b.bytes));
            }
            if node.file_type() == inode::MODE_DIR {
                for (lblk, nr) in volume.map(ino, &node).into_iter().enumerate() {
                    let bytes = volume.block(nr.unwrap());
                    let index = node.has(inode::FL_INDEX)
                        && dir::is_index_block(&bytes, lblk as u32, &volume.dirs);
                    if index {
                        &mut all.indexes
                    } else {
                        &mut all.dirs
                    }
                    .push(bytes);
                }
            }
        }
        for (ino, list) in [
            (volume.sb.orphan_file_inum, &mut all.orphans),
            (volume.sb.journal_inum, &mut all.journals),
        ] {
            let node = volume.inode(ino);
            list.push(volume.block(volume.map(ino, &node)[0].unwrap()));
        }
        assert!(!all.attributes.is_empty() && !all.extents.is_empty());
        assert!(all.indexes.len() > 1 && all.dirs.len() > 100);
        all
    })
}

/// Runs `poke` on many byte strings: damaged samples, cut ones, and random bytes.
pub(crate) fn fuzz(
    seed: u64,
    rounds: usize,
    samples: &[Vec<u8>],
    mut poke: impl FnMut(&mut Rng, Vec<u8>),
) {
    let mut rng = Rng::new(seed);
    for sample in samples.iter().take(20) {
        for len in (0..sample.len()).step_by(1 + sample.len() / 200) {
            poke(&mut rng, sample[..len].to_vec());
        }
    }
    for _ in 0..rounds {
        let mut bytes = samples[rng.below(samples.len())].clone();
        match rng.below(16) {
            0 => rng.fill(&mut bytes),
            1 => bytes.truncate(rng.below(2000)),
            2 => {}
            _ => rng.damage(&mut bytes),
        }
        poke(&mut rng, bytes);
    }
}
