// SPDX-License-Identifier: GPL-2.0

//! Real volumes of many kinds, read by the crate and held against what dumpe2fs and debugfs say.

mod common;
#[macro_use]
#[path = "common/volumes.rs"]
mod volumes;
mod held;

use common::image::{Config, Image};
use common::volume::Volume;

volumes! {
    default_1k: "1024", "64M", "", [];
    default_2k: "2048", "128M", "", [];
    default_4k: "4096", "512M", "", [];
    block_64k: "65536", "256M", "", [];
    no_64bit: "1024", "64M", "^64bit", [];
    seed_from_uuid: "4096", "300M", "^metadata_csum_seed", [];
    gdt_csum: "1024", "64M", "^metadata_csum,^metadata_csum_seed,uninit_bg", [];
    gdt_csum_no_64bit: "1024", "64M", "^metadata_csum,^metadata_csum_seed,uninit_bg,^64bit", [];
    no_csum: "1024", "64M", "^metadata_csum,^metadata_csum_seed", [];
    no_flex_bg: "1024", "64M", "^flex_bg", [];
    all_backups: "1024", "64M", "^sparse_super,^resize_inode", [];
    two_backups: "1024", "64M", "sparse_super2,^resize_inode", ["-E", "num_backup_sb=2"];
    meta_bg: "1024", "64M", "meta_bg,^resize_inode", ["-g", "1024"];
    small_groups: "1024", "64M", "", ["-g", "2048", "-G", "4"];
    eager: "1024", "64M", "", ["-E", "lazy_itable_init=0,lazy_journal_init=0"];
    lazy: "4096", "600M", "", ["-E", "lazy_itable_init=1"];
    inode_128: "1024", "64M", "", ["-I", "128"];
    inode_1024: "4096", "300M", "", ["-I", "1024"];
    bigalloc: "4096", "512M", "bigalloc", ["-C", "16384"];
    bigalloc_1k: "1024", "128M", "bigalloc,^resize_inode", ["-C", "4096"];
    no_filetype: "1024", "64M", "^filetype", [];
    large_dir: "1024", "64M", "large_dir", [];
    no_huge_file: "2048", "64M", "^huge_file,^dir_nlink", [];
    no_journal: "4096", "256M", "^has_journal,^orphan_file", [];
    quota_project: "4096", "256M", "quota,project", [];
    ea_inode: "1024", "64M", "ea_inode", [];
    tea_hash: "1024", "64M", "", ["-E", "hash_seed=0a0b0c0d-0102-0304-0506-0708090a0b0c"],
        ("tea", false);
    tea_unsigned: "1024", "64M", "", [], ("tea", true);
    legacy_hash: "1024", "64M", "", [], ("legacy", false);
    legacy_unsigned: "2048", "64M", "", [], ("legacy", true);
    half_md4_unsigned: "1024", "64M", "", [], ("half_md4", true);
}

fn all(config: &Config) {
    let image = Image::filled(config);
    let volume = Volume::open(&image.path);
    held::groups::superblock(&image, &volume);
    held::groups::groups(&image, &volume);
    held::files::inodes(&image, &volume);
    held::files::extents(&image, &volume);
    held::names::directories(&image, &volume);
    held::files::contents(&volume);
    held::names::index(&image, &volume);
    held::names::attributes(&volume);
    held::rewrite::unchanged(&volume);
    held::rewrite::special_blocks(&volume);
}
