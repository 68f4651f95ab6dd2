// SPDX-License-Identifier: GPL-2.0

//! Encoders and checksums against the bytes that are on the volume.

use crate::common::volume::Volume;
use ext4rs_layout::inode::{self, Inode};
use ext4rs_layout::journal::JournalSuper;
use ext4rs_layout::{dir, extent, group, htree, orphan};
use ext4rs_layout::{Compat, GroupDesc, RoCompat, SuperBlockMut};

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
