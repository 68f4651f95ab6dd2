// SPDX-License-Identifier: GPL-2.0

//! A reader of whole volumes built on the crate under test, as plain as can be.

use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::extent::{self, Extent, Node};
use ext4rs_layout::group::{self, GroupChecksum};
use ext4rs_layout::inode::{self, Inode, InodeFormat};
use ext4rs_layout::{Geometry, GroupDesc, Incompat, Seed, SuperBlock};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) struct Volume {
    pub(crate) file: File,
    pub(crate) sb_bytes: Vec<u8>,
    pub(crate) sb: SuperBlock,
    pub(crate) geo: Geometry,
    pub(crate) seed: Option<Seed>,
    pub(crate) group_checksum: GroupChecksum,
    pub(crate) inodes: InodeFormat,
    pub(crate) dirs: DirFormat,
    pub(crate) groups: Vec<GroupDesc>,
}

/// An extent node that fills a block, as met on the way down.
pub(crate) struct TreeBlock {
    pub(crate) block: u64,
    pub(crate) bytes: Vec<u8>,
    /// What the node was checked against.
    pub(crate) depth: u16,
    pub(crate) first: u32,
    pub(crate) end: u64,
}

impl Volume {
    /// Opens an image for reading and writing; every descriptor is read and checked.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut sb_bytes = vec![0; 1024];
        file.read_exact_at(&mut sb_bytes, ext4rs_layout::superblock::OFFSET)
            .unwrap();
        let sb = SuperBlock::decode(&sb_bytes).unwrap();
        sb.verify_checksum(&sb_bytes).unwrap();
        let geo = sb.geometry().unwrap();
        let seed = sb.csum_seed();
        let mut volume = Self {
            file,
            sb_bytes,
            sb,
            geo,
            seed,
            group_checksum: sb.group_checksum(),
            inodes: InodeFormat::new(&geo, sb.incompat.has(Incompat::SIXTY_FOUR_BIT)),
            dirs: DirFormat::new(&geo, seed.is_some(), sb.incompat.has(Incompat::FILETYPE)),
            groups: Vec::new(),
        };
        for g in 0..geo.groups_count {
            let raw = volume.desc_bytes(g);
            group::verify(&raw, g, &volume.group_checksum, &geo).unwrap();
            let gd = GroupDesc::decode(&raw, &geo).unwrap();
            gd.validate(g, &geo).unwrap();
            volume.groups.push(gd);
        }
        volume
    }

    pub(crate) fn block(&self, nr: u64) -> Vec<u8> {
        assert!(nr < self.geo.blocks_count);
        let mut buf = vec![0; self.geo.block_size as usize];
        self.file
            .read_exact_at(&mut buf, nr << self.geo.block_bits)
            .unwrap();
        buf
    }

    pub(crate) fn write_block(&self, nr: u64, buf: &[u8]) {
        assert!(nr < self.geo.blocks_count);
        self.file
            .write_all_at(buf, nr << self.geo.block_bits)
            .unwrap();
    }

    pub(crate) fn desc_bytes(&self, g: u32) -> Vec<u8> {
        let (nr, at) = self.geo.desc_place(g).unwrap();
        let block = self.block(self.geo.desc_block(nr).unwrap());
        block[at..at + self.geo.desc_size as usize].to_vec()
    }

    /// Writes a descriptor with its checksum.
    pub(crate) fn write_desc(&mut self, g: u32, gd: GroupDesc) {
        let (nr, at) = self.geo.desc_place(g).unwrap();
        let nr = self.geo.desc_block(nr).unwrap();
        let mut block = self.block(nr);
        gd.encode(&mut block[at..], &self.geo).unwrap();
        group::update_checksum(&mut block[at..], g, &self.group_checksum, &self.geo).unwrap();
        self.write_block(nr, &block);
        self.groups[g as usize] = gd;
    }

    /// The superblock, to be changed by `edit`.
    pub(crate) fn edit_super(&mut self, edit: impl FnOnce(&mut ext4rs_layout::SuperBlockMut<'_>)) {
        let mut sb = ext4rs_layout::SuperBlockMut::new(&mut self.sb_bytes).unwrap();
        edit(&mut sb);
        sb.update_checksum();
        self.file
            .write_all_at(&self.sb_bytes, ext4rs_layout::superblock::OFFSET)
            .unwrap();
        self.sb = SuperBlock::decode(&self.sb_bytes).unwrap();
    }

    fn inode_block(&self, ino: u32) -> (u64, usize) {
        let place = self.geo.inode_place(ino).unwrap();
        let table = self.groups[place.group as usize].inode_table;
        (table + u64::from(place.table_block), place.offset)
    }

    pub(crate) fn inode_bytes(&self, ino: u32) -> Vec<u8> {
        let (block, at) = self.inode_block(ino);
        self.block(block)[at..at + self.geo.inode_size as usize].to_vec()
    }

    pub(crate) fn inode_seed(&self, ino: u32) -> Option<Seed> {
        inode::seed(&self.inode_bytes(ino), ino, self.seed)
    }

    /// An inode in use, checked.
    pub(crate) fn inode(&self, ino: u32) -> Inode {
        let raw = self.inode_bytes(ino);
        inode::verify(&raw, &self.inodes, self.inode_seed(ino)).unwrap();
        Inode::decode(&raw, &self.inodes).unwrap()
    }

    pub(crate) fn write_inode(&self, ino: u32, node: &Inode) {
        let (block, at) = self.inode_block(ino);
        let mut bytes = self.block(block);
        let raw = &mut bytes[at..];
        node.encode(raw, &self.inodes).unwrap();
        let seed = inode::seed(raw, ino, self.seed);
        inode::update_checksum(raw, &self.inodes, seed).unwrap();
        self.write_block(block, &bytes);
    }

    pub(crate) fn write_inode_bytes(&self, ino: u32, raw: &[u8]) {
        let (block, at) = self.inode_block(ino);
        let mut bytes = self.block(block);
        bytes[at..at + raw.len()].copy_from_slice(raw);
        self.write_block(block, &bytes);
    }

    /// The block bitmap of a group: read and checked, or made.
    pub(crate) fn block_bitmap(&self, g: u32) -> Vec<u8> {
        let gd = &self.groups[g as usize];
        let mut map = self.block(gd.block_bitmap);
        if gd.has(group::BLOCK_UNINIT) {
            group::init_block_bitmap(&mut map, g, gd, &self.geo).unwrap();
        } else {
            group::verify_block_bitmap(&map, gd, self.seed, &self.geo).unwrap();
            group::validate_block_bitmap(&map, g, gd, &self.geo).unwrap();
        }
        map
    }

    /// The inode bitmap of a group: read and checked, or made.
    pub(crate) fn inode_bitmap(&self, g: u32) -> Vec<u8> {
        let gd = &self.groups[g as usize];
        let mut map = self.block(gd.inode_bitmap);
        if gd.has(group::INODE_UNINIT) {
            group::init_inode_bitmap(&mut map, &self.geo).unwrap();
        } else {
            group::verify_inode_bitmap(&map, gd, self.seed, &self.geo).unwrap();
        }
        map
    }

    /// Numbers of all inodes in use.
    pub(crate) fn used_inodes(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for g in 0..self.geo.groups_count {
            let map = self.inode_bitmap(g);
            for i in 0..self.geo.inodes_per_group {
                if ext4rs_layout::bitmap::test(&map, i) {
                    all.push(self.geo.inode_number(g, i).unwrap());
                }
            }
        }
        all
    }

    /// All extents of a file, and the blocks of its tree.
    pub(crate) fn tree(&self, ino: u32, node: &Inode) -> (Vec<Extent>, Vec<TreeBlock>) {
        assert!(node.has(inode::FL_EXTENTS), "inode {ino} has no extents");
        extent::check_root(&node.i_block, &self.geo).unwrap();
        let (mut extents, mut blocks) = (Vec::new(), Vec::new());
        let root = Node::new(&node.i_block).unwrap();
        self.descend(
            root,
            extent::LBLK_END,
            self.inode_seed(ino),
            &mut extents,
            &mut blocks,
        );
        (extents, blocks)
    }

    fn descend(
        &self,
        node: Node<'_>,
        end: u64,
        seed: Option<Seed>,
        extents: &mut Vec<Extent>,
        blocks: &mut Vec<TreeBlock>,
    ) {
        extents.extend(node.extents());
        for (i, index) in node.indexes().enumerate() {
            let next = node.first_block(i as u16 + 1).map_or(end, u64::from);
            let bytes = self.block(index.leaf);
            let depth = node.header().depth - 1;
            extent::check_block(&bytes, depth, index.block, next, &self.geo, seed).unwrap();
            self.descend(Node::new(&bytes).unwrap(), next, seed, extents, blocks);
            blocks.push(TreeBlock {
                block: index.leaf,
                bytes,
                depth,
                first: index.block,
                end: next,
            });
        }
    }

    /// The physical blocks of a file, in order; `None` in holes and unwritten parts.
    pub(crate) fn map(&self, ino: u32, node: &Inode) -> Vec<Option<u64>> {
        let blocks = node.size.div_ceil(u64::from(self.geo.block_size)) as usize;
        let mut map = vec![None; blocks];
        for e in self.tree(ino, node).0 {
            for l in u64::from(e.block)..e.end() {
                if let Some(slot) = map.get_mut(l as usize).filter(|_| !e.unwritten) {
                    *slot = e.map(l as u32);
                }
            }
        }
        map
    }

    pub(crate) fn read(&self, ino: u32) -> Vec<u8> {
        let node = self.inode(ino);
        let mut data = Vec::new();
        for block in self.map(ino, &node) {
            match block {
                Some(nr) => data.extend(self.block(nr)),
                None => data.resize(data.len() + self.geo.block_size as usize, 0),
            }
        }
        data.truncate(node.size as usize);
        data
    }

    /// Names, inodes and file types of a directory, every block checked.
    pub(crate) fn list(&self, ino: u32) -> Vec<(Vec<u8>, u32, u8)> {
        let node = self.inode(ino);
        let seed = self.inode_seed(ino);
        let mut all = Vec::new();
        for (lblk, block) in self.map(ino, &node).into_iter().enumerate() {
            let bytes = self.block(block.expect("directories have no holes"));
            let index =
                node.has(inode::FL_INDEX) && dir::is_index_block(&bytes, lblk as u32, &self.dirs);
            if index {
                ext4rs_layout::htree::verify(&bytes, &self.dirs, seed).unwrap();
            } else {
                dir::verify(&bytes, &self.dirs, seed).unwrap();
            }
            for entry in dir::entries(&bytes, &self.dirs).unwrap() {
                let entry = entry.unwrap();
                if entry.ino != 0 {
                    all.push((entry.name.to_vec(), entry.ino, entry.file_type));
                }
            }
        }
        all
    }

    /// The inode of a path.
    pub(crate) fn lookup(&self, path: &str) -> u32 {
        let mut ino = inode::ROOT_INO;
        for part in path.split('/').filter(|p| !p.is_empty()) {
            let entries = self.list(ino);
            let hit = entries.iter().find(|(name, ..)| name == part.as_bytes());
            ino = hit.unwrap_or_else(|| panic!("no {part} in {path}")).1;
        }
        ino
    }
}
