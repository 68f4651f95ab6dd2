// SPDX-License-Identifier: GPL-2.0

//! Where the structures of a volume are, byte for byte, and how each gets its checksum.

use crate::why::Why;
use ext4rs_layout::dir::{self, DirFormat};
use ext4rs_layout::extent::{self, Node};
use ext4rs_layout::group::{self, GroupChecksum};
use ext4rs_layout::inode::{self, InodeFormat};
use ext4rs_layout::{bitmap, checksum, htree, journal, orphan, superblock, xattr};
use ext4rs_layout::{
    Error, Geometry, GroupDesc, Incompat, Inode, RoCompat, Seed, SuperBlock, SuperBlockMut,
};

/// What a structure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The superblock at the start of the volume.
    Super,
    /// The descriptor of this group.
    Group(u32),
    /// This inode.
    Inode(u32),
    /// A block of the extent tree of this inode.
    Extents(u32),
    /// A block of entries of this directory.
    Entries(u32),
    /// A block of the index of this directory.
    Index(u32),
    /// The block of extended attributes that lies at this place.
    Attributes(u64),
    /// The block bitmap of this group.
    BlockMap(u32),
    /// The inode bitmap of this group.
    InodeMap(u32),
    /// The block of the orphan file that lies at this place.
    Orphans(u64),
    /// The journal's own superblock.
    Journal,
}

impl Kind {
    /// Whether reading every file looks at the structure.
    pub fn is_read(self) -> bool {
        !matches!(
            self,
            Kind::BlockMap(_) | Kind::InodeMap(_) | Kind::Orphans(_) | Kind::Journal
        )
    }
}

/// One structure.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// Its first byte in the image.
    pub at: usize,
    /// Its length.
    pub length: usize,
}

/// What is true of a volume, taken from a good image.
pub struct Volume {
    sb: SuperBlock,
    geo: Geometry,
    seed: Option<Seed>,
    groups: GroupChecksum,
    inodes: InodeFormat,
    dirs: DirFormat,
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        error.as_str().into()
    }
}

/// `i_links_count` in an inode.
const LINKS: usize = 0x1a;
/// `s_checksum` in the journal's superblock.
const JOURNAL_CHECKSUM: usize = 0xfc;

/// The start of the superblock.
const SUPER: usize = superblock::OFFSET as usize;

impl Volume {
    /// Reads the superblock of `image`.
    pub fn new(image: &[u8]) -> Result<Self, Why> {
        let raw = slice(image, SUPER, superblock::SIZE)?;
        let sb = SuperBlock::decode(raw)?;
        let (geo, seed) = (sb.geometry()?, sb.csum_seed());
        Ok(Self {
            groups: sb.group_checksum(),
            inodes: InodeFormat::new(&geo, sb.incompat.has(Incompat::SIXTY_FOUR_BIT)),
            dirs: DirFormat::new(&geo, seed.is_some(), sb.incompat.has(Incompat::FILETYPE)),
            sb,
            geo,
            seed,
        })
    }

    /// Bytes in a block.
    fn block(&self) -> usize {
        self.geo.block_size as usize
    }

    fn block_part(&self, kind: Kind, block: u64) -> Part {
        Part {
            kind,
            at: block as usize * self.block(),
            length: self.block(),
        }
    }

    /// All structures that a mount, and reading and writing every file, look at.
    pub fn parts(&self, image: &[u8]) -> Result<Vec<Part>, Why> {
        let mut parts = vec![Part {
            kind: Kind::Super,
            at: SUPER,
            length: superblock::SIZE,
        }];
        for number in 0..self.geo.groups_count {
            let (at, desc) = self.group(image, number)?;
            let length = self.geo.desc_size as usize;
            parts.push(Part {
                kind: Kind::Group(number),
                at,
                length,
            });
            if desc.flags & group::BLOCK_UNINIT == 0 {
                parts.push(self.block_part(Kind::BlockMap(number), desc.block_bitmap));
            }
            let map = self.block_part(Kind::InodeMap(number), desc.inode_bitmap);
            if desc.flags & group::INODE_UNINIT == 0 {
                parts.push(map);
            }
            let map = slice(image, map.at, map.length)?;
            for index in 0..self.geo.inodes_per_group {
                let used = desc.flags & group::INODE_UNINIT == 0 && bitmap::test(map, index);
                let ino = self.geo.inode_number(number, index);
                if let (true, Some(ino)) = (used, ino) {
                    self.inode_parts(image, &desc, ino, &mut parts)?;
                }
            }
        }
        if let Some(&(_, block)) = self.data_of(image, self.sb.journal_inum)?.first() {
            parts.push(Part {
                length: journal::SIZE,
                ..self.block_part(Kind::Journal, block)
            });
        }
        if let Some(ino) = self.orphan_file() {
            for (_, block) in self.data_of(image, ino)? {
                parts.push(self.block_part(Kind::Orphans(block), block));
            }
        }
        Ok(parts)
    }

    /// Where inode `ino` is in `image`.
    fn inode_at(&self, image: &[u8], ino: u32) -> Result<usize, Why> {
        let place = self.geo.inode_place(ino).ok_or("no such inode")?;
        let (_, desc) = self.group(image, place.group)?;
        let block = desc.inode_table + u64::from(place.table_block);
        Ok(block as usize * self.block() + place.offset)
    }

    /// The inode `ino`, in bytes.
    fn raw_inode<'a>(&self, image: &'a [u8], ino: u32) -> Result<&'a [u8], Why> {
        slice(
            image,
            self.inode_at(image, ino)?,
            self.geo.inode_size as usize,
        )
    }

    /// The blocks of a file's data, logical and physical.
    fn data_of(&self, image: &[u8], ino: u32) -> Result<Vec<(u32, u64)>, Why> {
        let found = Inode::decode(self.raw_inode(image, ino)?, &self.inodes)?;
        let (mut parts, mut data) = (Vec::new(), Vec::new());
        let root = Node::new(&found.i_block)?;
        self.tree(image, ino, root, &mut parts, &mut data)?;
        Ok(data)
    }

    /// Inodes that the volume has room for.
    pub fn inodes(&self) -> u32 {
        self.geo.inodes_count
    }

    /// Makes inode `ino` the first of the list of orphans; its own link goes to `next`, and it loses
    /// all names with `nameless`. Checksums fit.
    pub fn add_to_list(
        &self,
        image: &mut [u8],
        ino: u32,
        next: u32,
        nameless: bool,
    ) -> Result<(), Why> {
        let at = self.inode_at(image, ino);
        let raw = &mut image[SUPER..SUPER + superblock::SIZE];
        let mut sb = SuperBlockMut::new(raw)?;
        sb.set_last_orphan(ino);
        sb.update_checksum();
        // There need not be such an inode.
        if let Ok(at) = at {
            let raw = &mut image[at..at + self.geo.inode_size as usize];
            inode::set_dtime(raw, next);
            if nameless {
                raw[LINKS..LINKS + 2].fill(0);
            }
            let seed = inode::seed(raw, ino, self.seed);
            // An inode that was never used may have no place for a checksum.
            let _ = inode::update_checksum(raw, &self.inodes, seed);
        }
        Ok(())
    }

    /// Puts `ino` into place `i` of a block of the orphan file, and says in the superblock that one is
    /// there. The superblock's checksum fits.
    pub fn add_to_file(
        &self,
        image: &mut [u8],
        part: &Part,
        i: usize,
        ino: u32,
    ) -> Result<(), Why> {
        orphan::set(&mut image[part.at..part.at + part.length], i, ino)?;
        let raw = &mut image[SUPER..SUPER + superblock::SIZE];
        let mut sb = SuperBlockMut::new(raw)?;
        sb.add_ro_compat(RoCompat::ORPHAN_PRESENT);
        sb.update_checksum();
        Ok(())
    }

    /// Says in the superblock that the journal holds transactions. Its checksum fits.
    pub fn want_recovery(&self, image: &mut [u8]) -> Result<(), Why> {
        let raw = &mut image[SUPER..SUPER + superblock::SIZE];
        let mut sb = SuperBlockMut::new(raw)?;
        sb.set_incompat(self.sb.incompat.with(Incompat::RECOVER));
        sb.update_checksum();
        Ok(())
    }

    fn group(&self, image: &[u8], number: u32) -> Result<(usize, GroupDesc), Why> {
        let (nr, offset) = self.geo.desc_place(number).ok_or("no such group")?;
        let block = self.geo.desc_block(nr).ok_or("no such descriptor block")?;
        let at = block as usize * self.block() + offset;
        let desc = GroupDesc::decode(slice(image, at, self.geo.desc_size as usize)?, &self.geo)?;
        Ok((at, desc))
    }

    /// The inode itself and the blocks of its tree and, for a directory, of its entries. Of the
    /// reserved inodes only the root is walked over.
    fn inode_parts(
        &self,
        image: &[u8],
        desc: &GroupDesc,
        ino: u32,
        parts: &mut Vec<Part>,
    ) -> Result<(), Why> {
        if ino != inode::ROOT_INO && ino < self.sb.first_ino() {
            return Ok(());
        }
        let place = self.geo.inode_place(ino).ok_or("no such inode")?;
        let block = desc.inode_table + u64::from(place.table_block);
        let at = block as usize * self.block() + place.offset;
        let length = self.geo.inode_size as usize;
        let found = Inode::decode(slice(image, at, length)?, &self.inodes)?;
        // The orphan file has an inode beyond the reserved ones, and no name.
        if found.links == 0 || Some(ino) == self.orphan_file() {
            return Ok(());
        }
        parts.push(Part {
            kind: Kind::Inode(ino),
            at,
            length,
        });
        if found.file_acl != 0 {
            let block = found.file_acl;
            parts.push(self.block_part(Kind::Attributes(block), block));
        }
        if !found.has(inode::FL_EXTENTS) {
            return Ok(());
        }
        let mut data = Vec::new();
        self.tree(image, ino, Node::new(&found.i_block)?, parts, &mut data)?;
        if found.file_type() != inode::MODE_DIR {
            return Ok(());
        }
        for (logical, physical) in data {
            let part = self.block_part(Kind::Entries(ino), physical);
            let bytes = slice(image, part.at, part.length)?;
            let indexed = found.has(inode::FL_INDEX);
            let is_index = indexed && dir::is_index_block(bytes, logical, &self.dirs);
            parts.push(if is_index {
                Part {
                    kind: Kind::Index(ino),
                    ..part
                }
            } else {
                part
            });
        }
        Ok(())
    }

    fn orphan_file(&self) -> Option<u32> {
        (self.sb.orphan_file_inum != 0).then_some(self.sb.orphan_file_inum)
    }

    /// The blocks of a tree go to `parts`, the data's blocks to `data`.
    fn tree(
        &self,
        image: &[u8],
        ino: u32,
        node: Node,
        parts: &mut Vec<Part>,
        data: &mut Vec<(u32, u64)>,
    ) -> Result<(), Why> {
        if node.is_leaf() {
            for extent in node.extents() {
                data.extend(
                    (0..extent.len).map(|i| (extent.block + i, extent.start + u64::from(i))),
                );
            }
            return Ok(());
        }
        for index in node.indexes() {
            let part = self.block_part(Kind::Extents(ino), index.leaf);
            parts.push(part);
            self.tree(
                image,
                ino,
                Node::new(slice(image, part.at, part.length)?)?,
                parts,
                data,
            )?;
        }
        Ok(())
    }

    /// The seed of what belongs to an inode, made from the inode as it is in `image`.
    fn inode_seed(&self, image: &[u8], ino: u32) -> Result<Option<Seed>, Why> {
        Ok(inode::seed(self.raw_inode(image, ino)?, ino, self.seed))
    }

    /// The seed of the orphan file.
    fn orphan_seed(&self, image: &[u8]) -> Result<Option<Seed>, Why> {
        self.inode_seed(image, self.sb.orphan_file_inum)
    }

    /// True where the structure's checksum fits.
    pub fn is_intact(&self, image: &[u8], part: &Part) -> Result<bool, Why> {
        let raw = slice(image, part.at, part.length)?;
        let fits = match part.kind {
            Kind::Super => SuperBlock::decode(raw).and_then(|changed| changed.verify_checksum(raw)),
            Kind::Group(number) => group::verify(raw, number, &self.groups, &self.geo),
            Kind::Inode(ino) => inode::verify(raw, &self.inodes, inode::seed(raw, ino, self.seed)),
            Kind::Extents(ino) => extent::verify(raw, self.inode_seed(image, ino)?),
            Kind::Entries(ino) => dir::verify(raw, &self.dirs, self.inode_seed(image, ino)?),
            Kind::Index(ino) => htree::verify(raw, &self.dirs, self.inode_seed(image, ino)?),
            Kind::Attributes(block) => xattr::verify_block(raw, block, self.seed),
            Kind::BlockMap(number) => {
                let (_, desc) = self.group(image, number)?;
                group::verify_block_bitmap(raw, &desc, self.seed, &self.geo)
            }
            Kind::InodeMap(number) => {
                let (_, desc) = self.group(image, number)?;
                group::verify_inode_bitmap(raw, &desc, self.seed, &self.geo)
            }
            Kind::Orphans(block) => orphan::check_block(raw, block, self.orphan_seed(image)?),
            Kind::Journal => {
                journal::JournalSuper::decode(raw).and_then(|sb| sb.verify_checksum(raw))
            }
        };
        Ok(fits.is_ok())
    }

    /// Makes the structure's checksum fit, where what is left of it still has a place for one.
    pub fn update_checksum(&self, image: &mut [u8], part: &Part) -> Result<(), Why> {
        if let Kind::BlockMap(number) | Kind::InodeMap(number) = part.kind {
            return self.update_map_checksum(image, part, number);
        }
        let seed = match part.kind {
            Kind::Extents(ino) | Kind::Entries(ino) | Kind::Index(ino) => {
                self.inode_seed(image, ino)?
            }
            Kind::Orphans(_) => self.orphan_seed(image)?,
            _ => self.seed,
        };
        let raw = image
            .get_mut(part.at..part.at + part.length)
            .ok_or("outside the image")?;
        // Failure means that there is no such place: the image is one without a good checksum.
        let _ = match part.kind {
            Kind::Super => SuperBlockMut::new(raw).map(|mut sb| sb.update_checksum()),
            Kind::Group(number) => group::update_checksum(raw, number, &self.groups, &self.geo),
            Kind::Inode(ino) => {
                let seed = inode::seed(raw, ino, seed);
                inode::update_checksum(raw, &self.inodes, seed)
            }
            Kind::Extents(_) => extent::update_checksum(raw, seed),
            Kind::Entries(_) => dir::update_checksum(raw, &self.dirs, seed),
            Kind::Index(_) => htree::update_checksum(raw, &self.dirs, seed),
            Kind::Attributes(block) => xattr::update_block_checksum(raw, block, seed),
            Kind::Orphans(block) => {
                orphan::update_checksum(raw, block, seed);
                Ok(())
            }
            Kind::Journal => {
                raw[JOURNAL_CHECKSUM..JOURNAL_CHECKSUM + 4].fill(0);
                let crc = checksum::crc32c(!0, raw);
                raw[JOURNAL_CHECKSUM..JOURNAL_CHECKSUM + 4].copy_from_slice(&crc.to_be_bytes());
                Ok(())
            }
            Kind::BlockMap(_) | Kind::InodeMap(_) => Ok(()),
        };
        Ok(())
    }

    /// The checksum of a bitmap is in its group's descriptor.
    fn update_map_checksum(&self, image: &mut [u8], part: &Part, number: u32) -> Result<(), Why> {
        let (at, mut desc) = self.group(image, number)?;
        let map = slice(image, part.at, part.length)?;
        if part.kind == Kind::BlockMap(number) {
            group::update_block_bitmap_csum(map, &mut desc, self.seed, &self.geo)?;
        } else {
            group::update_inode_bitmap_csum(map, &mut desc, self.seed, &self.geo)?;
        }
        let raw = &mut image[at..at + self.geo.desc_size as usize];
        desc.encode(raw, &self.geo)?;
        Ok(group::update_checksum(
            raw,
            number,
            &self.groups,
            &self.geo,
        )?)
    }
}

/// `length` bytes of `image` from `at`.
fn slice(image: &[u8], at: usize, length: usize) -> Result<&[u8], Why> {
    image
        .get(at..at + length)
        .ok_or_else(|| format!("{length} bytes at {at}: outside").into())
}
