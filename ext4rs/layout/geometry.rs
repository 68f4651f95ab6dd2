// SPDX-License-Identifier: GPL-2.0

//! Where things lie on a volume: what follows from the superblock alone.

use crate::error::{check, Error, Result};
use crate::features::{Incompat, RoCompat};
use crate::superblock::{SuperBlock, OS_HURD};

/// log2 of the largest block size.
const MAX_BLOCK_LOG: u32 = 16;
/// log2 of the largest cluster size.
const MAX_CLUSTER_LOG: u32 = 28;
/// log2 of the smallest block size.
const MIN_BLOCK_LOG: u32 = 10;
/// Bytes of an inode in the original revision, and of the fixed part in all.
const GOOD_OLD_INODE_SIZE: u32 = 128;
/// The first inode that is not reserved, in the original revision.
const GOOD_OLD_FIRST_INO: u32 = 11;
/// Bytes that this crate knows of an inode beyond the first 128.
const KNOWN_EXTRA_ISIZE: u32 = 32;

/// Which groups hold a backup of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    /// All groups.
    All,
    /// Groups 0 and 1 and the powers of 3, 5 and 7.
    Sparse,
    /// Group 0 and these two.
    Two([u32; 2]),
}

/// The layout of a volume. Made by [`SuperBlock::geometry`], which has checked that every field
/// agrees with the others; all arithmetic on group and inode numbers lives here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// log2 of the block size, 10 to 16.
    pub block_bits: u32,
    /// Bytes of a block.
    pub block_size: u32,
    /// log2 of the blocks of a cluster; 0 without `bigalloc`.
    pub cluster_bits: u32,
    /// Blocks of the volume.
    pub blocks_count: u64,
    /// The block that group 0 begins with: 1 for 1 KiB blocks without `bigalloc`, else 0.
    pub first_data_block: u32,
    /// Blocks of a full group. Not 0.
    pub blocks_per_group: u32,
    /// Clusters of a full group; a multiple of 8, at most the bits of a block.
    pub clusters_per_group: u32,
    /// Inodes of a group; a multiple of 8, at most the bits of a block, not 0.
    pub inodes_per_group: u32,
    /// Inodes of the volume.
    pub inodes_count: u32,
    /// First inode that is not reserved.
    pub first_ino: u32,
    /// Bytes of an inode: a power of two, 128 up to the block size.
    pub inode_size: u32,
    /// Inodes in a block of the inode table. Not 0.
    pub inodes_per_block: u32,
    /// Blocks of a group's inode table.
    pub itable_blocks: u32,
    /// `i_extra_isize` of a new inode; 0 where inodes have 128 bytes.
    pub want_extra_isize: u32,
    /// Bytes of a group descriptor: 32, or with `64bit` a power of two from 64 to 1024.
    pub desc_size: u32,
    /// Descriptors in a block: a power of two.
    pub descs_per_block: u32,
    /// Blocks of the whole descriptor table.
    pub desc_blocks: u32,
    /// Groups of the volume. Not 0.
    pub groups_count: u32,
    /// Bitmaps and inode tables may lie outside their group.
    pub flex_bg: bool,
    /// log2 of the groups of a flex group; 0 if the volume has none.
    pub log_groups_per_flex: u32,
    /// Reserved descriptor blocks after each copy of the descriptor table.
    pub reserved_gdt_blocks: u32,
    /// Files may have more than 2^32 sectors.
    pub huge_file: bool,
    backups: Backups,
    /// With `meta_bg`: the first descriptor block that lies in its own meta group.
    first_meta_bg: Option<u32>,
}

/// Where an inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodePlace {
    /// Its group.
    pub group: u32,
    /// Its bit in the group's inode bitmap.
    pub index: u32,
    /// Its block, counted from the start of the group's inode table.
    pub table_block: u32,
    /// Its byte within that block.
    pub offset: usize,
}

fn is_power_of(mut n: u32, base: u32) -> bool {
    // `base` is 3, 5 or 7; each turn divides by it.
    while n > base {
        if n.checked_rem(base) != Some(0) {
            return false;
        }
        n = n.checked_div(base).unwrap_or(0);
    }
    n == base
}

impl Geometry {
    /// See [`SuperBlock::geometry`].
    pub(crate) fn new(sb: &SuperBlock) -> Result<Self> {
        let mut g = Self::block_sizes(sb)?;
        g.inodes(sb)?;
        g.descriptors(sb)?;
        g.groups(sb)?;
        g.placement(sb)?;
        Ok(g)
    }

    /// Block and cluster size, and blocks and clusters of a group.
    fn block_sizes(sb: &SuperBlock) -> Result<Self> {
        let block_bits = match sb.log_block_size.checked_add(MIN_BLOCK_LOG) {
            Some(bits) if bits <= MAX_BLOCK_LOG => bits,
            _ => return Err(Error::Corrupt("invalid log block size")),
        };
        let cluster_log = match sb.log_cluster_size.checked_add(MIN_BLOCK_LOG) {
            Some(bits) if bits <= MAX_CLUSTER_LOG => bits,
            _ => return Err(Error::Corrupt("invalid log cluster size")),
        };
        let Some(cluster_bits) = cluster_log.checked_sub(block_bits) else {
            return Err(Error::Corrupt("cluster size smaller than block size"));
        };
        let bigalloc = sb.ro_compat.has(RoCompat::BIGALLOC);
        check(
            bigalloc || cluster_bits == 0,
            "cluster size differs from block size",
        )?;
        // At most 2^16, so all that follows is far from the end of u32.
        let block_size = 1u32.checked_shl(block_bits).unwrap_or(0);
        let bits_per_block = block_size.saturating_mul(8);
        check(sb.blocks_per_group != 0, "no blocks in a group")?;
        check(
            bigalloc || sb.blocks_per_group <= bits_per_block,
            "too many blocks in a group",
        )?;
        check(
            sb.clusters_per_group <= bits_per_block && sb.clusters_per_group & 7 == 0,
            "invalid clusters per group",
        )?;
        let blocks = u64::from(sb.clusters_per_group).checked_shl(cluster_bits);
        check(
            blocks == Some(u64::from(sb.blocks_per_group)),
            "blocks per group and clusters per group are inconsistent",
        )?;
        Ok(Self {
            block_bits,
            block_size,
            cluster_bits,
            blocks_count: sb.blocks_count,
            first_data_block: sb.first_data_block,
            blocks_per_group: sb.blocks_per_group,
            clusters_per_group: sb.clusters_per_group,
            inodes_per_group: sb.inodes_per_group,
            inodes_count: sb.inodes_count,
            first_ino: sb.first_ino(),
            inode_size: GOOD_OLD_INODE_SIZE,
            inodes_per_block: 0,
            itable_blocks: 0,
            want_extra_isize: 0,
            desc_size: 32,
            descs_per_block: 0,
            desc_blocks: 0,
            groups_count: 0,
            flex_bg: sb.incompat.has(Incompat::FLEX_BG),
            log_groups_per_flex: 0,
            reserved_gdt_blocks: u32::from(sb.reserved_gdt_blocks),
            huge_file: sb.ro_compat.has(RoCompat::HUGE_FILE),
            backups: if sb.compat.has(crate::Compat::SPARSE_SUPER2) {
                Backups::Two(sb.backup_bgs)
            } else if sb.ro_compat.has(RoCompat::SPARSE_SUPER) {
                Backups::Sparse
            } else {
                Backups::All
            },
            first_meta_bg: sb
                .incompat
                .has(Incompat::META_BG)
                .then_some(sb.first_meta_bg),
        })
    }

    /// Inode size, and inodes of a group.
    fn inodes(&mut self, sb: &SuperBlock) -> Result<()> {
        check(self.first_ino >= GOOD_OLD_FIRST_INO, "invalid first inode")?;
        if sb.rev_level != 0 {
            self.inode_size = u32::from(sb.inode_size);
            check(
                self.inode_size >= GOOD_OLD_INODE_SIZE
                    && self.inode_size.is_power_of_two()
                    && self.inode_size <= self.block_size,
                "unsupported inode size",
            )?;
        }
        let extra_max = self.inode_size.saturating_sub(GOOD_OLD_INODE_SIZE);
        if extra_max > 0 {
            self.want_extra_isize = KNOWN_EXTRA_ISIZE;
            if sb.ro_compat.has(RoCompat::EXTRA_ISIZE) {
                let want = u32::from(sb.want_extra_isize);
                let min = u32::from(sb.min_extra_isize);
                check(want <= extra_max, "bad s_want_extra_isize")?;
                check(min <= extra_max, "bad s_min_extra_isize")?;
                self.want_extra_isize = KNOWN_EXTRA_ISIZE.max(want).max(min);
            }
            // The size of an inode's extra part is a multiple of four.
            check(self.want_extra_isize & 3 == 0, "bad s_want_extra_isize")?;
        }
        let per_block = self.block_size.checked_div(self.inode_size).unwrap_or(0);
        let per_group = self.inodes_per_group;
        check(
            per_block != 0
                && per_group >= per_block
                && per_group <= self.block_size.saturating_mul(8)
                && per_group & 7 == 0
                && per_group.checked_rem(per_block) == Some(0),
            "invalid inodes per group",
        )?;
        self.inodes_per_block = per_block;
        self.itable_blocks = per_group.checked_div(per_block).unwrap_or(0);
        Ok(())
    }

    /// Size and number of descriptors in a block.
    fn descriptors(&mut self, sb: &SuperBlock) -> Result<()> {
        if sb.incompat.has(Incompat::SIXTY_FOUR_BIT) {
            check(sb.creator_os != OS_HURD, "64bit volume made by the Hurd")?;
            self.desc_size = u32::from(sb.desc_size);
            check(
                self.desc_size >= 64 && self.desc_size <= 1024 && self.desc_size.is_power_of_two(),
                "unsupported descriptor size",
            )?;
        }
        self.descs_per_block = self.block_size.checked_div(self.desc_size).unwrap_or(0);
        Ok(())
    }

    /// Number of groups, and the totals.
    fn groups(&mut self, sb: &SuperBlock) -> Result<()> {
        check(
            self.reserved_gdt_blocks <= self.block_size / 4,
            "too many reserved descriptor blocks",
        )?;
        // A byte offset on the volume fits a signed 64-bit number.
        check(
            self.blocks_count <= (i64::MAX as u64) >> MAX_BLOCK_LOG,
            "volume too large",
        )?;
        let first = u64::from(self.first_data_block);
        check(
            first < self.blocks_count,
            "first data block is beyond the end of the volume",
        )?;
        let one_k = self.block_bits == MIN_BLOCK_LOG && self.cluster_bits == 0;
        check(
            self.first_data_block == u32::from(one_k),
            "first data block does not fit the block size",
        )?;
        let per_group = u64::from(self.blocks_per_group);
        let groups = self
            .blocks_count
            .saturating_sub(first)
            .checked_add(per_group.saturating_sub(1))
            .and_then(|n| n.checked_div(per_group))
            .and_then(|n| u32::try_from(n).ok())
            .filter(|&n| n <= u32::MAX.saturating_sub(self.descs_per_block));
        let Some(groups) = groups else {
            return Err(Error::Corrupt("too many groups"));
        };
        self.groups_count = groups;
        let inodes = u64::from(groups).checked_mul(u64::from(self.inodes_per_group));
        check(
            inodes == Some(u64::from(sb.inodes_count)),
            "inodes count does not fit the number of groups",
        )
    }

    /// Descriptor table, flex groups and backups.
    fn placement(&mut self, sb: &SuperBlock) -> Result<()> {
        self.desc_blocks = self
            .groups_count
            .checked_add(self.descs_per_block.saturating_sub(1))
            .and_then(|n| n.checked_div(self.descs_per_block))
            .unwrap_or(0);
        if let Some(first) = self.first_meta_bg {
            check(first <= self.desc_blocks, "first meta group too large")?;
        }
        let log = u32::from(sb.log_groups_per_flex);
        if self.flex_bg && log < 32 {
            self.log_groups_per_flex = log;
        }
        check(
            u64::from(self.base_meta_blocks(0)) < u64::from(self.blocks_per_group),
            "descriptors do not fit a group",
        )
    }

    /// The block that holds the primary superblock.
    pub fn sb_block(&self) -> u64 {
        u64::from(self.block_bits == MIN_BLOCK_LOG)
    }

    /// Where the superblock begins within [`Geometry::sb_block`], in bytes.
    pub fn sb_offset(&self) -> usize {
        if self.block_bits == MIN_BLOCK_LOG {
            0
        } else {
            1024
        }
    }

    /// The first block of a group. Meaningful for groups of the volume.
    pub fn group_first_block(&self, group: u32) -> u64 {
        u64::from(group)
            .saturating_mul(u64::from(self.blocks_per_group))
            .saturating_add(u64::from(self.first_data_block))
    }

    /// The group of a block, and the block's number within the group; `None` if the volume has no
    /// such block or it lies before the first group.
    pub fn block_group(&self, block: u64) -> Option<(u32, u32)> {
        if block >= self.blocks_count {
            return None;
        }
        let rel = block.checked_sub(u64::from(self.first_data_block))?;
        let group = rel.checked_div(u64::from(self.blocks_per_group))?;
        let off = rel.checked_rem(u64::from(self.blocks_per_group))?;
        Some((u32::try_from(group).ok()?, u32::try_from(off).ok()?))
    }

    /// Blocks of a group; the last one may be short. 0 if the volume has no such group.
    pub fn blocks_in_group(&self, group: u32) -> u32 {
        if group >= self.groups_count {
            return 0;
        }
        let rest = self
            .blocks_count
            .saturating_sub(self.group_first_block(group));
        u32::try_from(rest)
            .unwrap_or(u32::MAX)
            .min(self.blocks_per_group)
    }

    /// Clusters of a group, an incomplete one counted.
    pub fn clusters_in_group(&self, group: u32) -> u32 {
        self.blocks_to_clusters(self.blocks_in_group(group))
    }

    /// Clusters that hold `blocks` blocks, rounded up.
    pub fn blocks_to_clusters(&self, blocks: u32) -> u32 {
        let mask = 1u32
            .checked_shl(self.cluster_bits)
            .unwrap_or(1)
            .saturating_sub(1);
        let whole = blocks.checked_shr(self.cluster_bits).unwrap_or(0);
        whole.saturating_add(u32::from(blocks & mask != 0))
    }

    /// True if the `count` blocks at `block` are all on the volume and behind the first data
    /// block, as blocks of files and of metadata other than the superblock must be.
    pub fn valid_blocks(&self, block: u64, count: u64) -> bool {
        block > u64::from(self.first_data_block)
            && block
                .checked_add(count)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// Where an inode lies, or `None` if the volume has no inode of that number.
    pub fn inode_place(&self, ino: u32) -> Option<InodePlace> {
        if ino > self.inodes_count {
            return None;
        }
        let rel = ino.checked_sub(1)?;
        let index = rel.checked_rem(self.inodes_per_group)?;
        let slot = index.checked_rem(self.inodes_per_block)?;
        Some(InodePlace {
            group: rel.checked_div(self.inodes_per_group)?,
            index,
            table_block: index.checked_div(self.inodes_per_block)?,
            offset: usize::try_from(slot.checked_mul(self.inode_size)?).ok()?,
        })
    }

    /// The number of the inode at bit `index` of `group`'s inode bitmap, or `None` if there is no
    /// such inode.
    pub fn inode_number(&self, group: u32, index: u32) -> Option<u32> {
        if group >= self.groups_count || index >= self.inodes_per_group {
            return None;
        }
        group
            .checked_mul(self.inodes_per_group)?
            .checked_add(index)?
            .checked_add(1)
    }

    /// Groups of a flex group; 1 if the volume has none.
    pub fn groups_per_flex(&self) -> u32 {
        1u32.checked_shl(self.log_groups_per_flex).unwrap_or(1)
    }

    /// True if the group holds the superblock or a backup of it.
    pub fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            return true;
        }
        match self.backups {
            Backups::All => true,
            Backups::Two(groups) => groups.contains(&group),
            Backups::Sparse => group == 1 || [3, 5, 7].iter().any(|&base| is_power_of(group, base)),
        }
    }

    /// True if the group's descriptor lies in a meta group rather than behind the superblock.
    fn in_meta_bg(&self, group: u32) -> bool {
        let desc_block = group.checked_div(self.descs_per_block).unwrap_or(0);
        self.first_meta_bg.is_some_and(|first| desc_block >= first)
    }

    /// Blocks of descriptors (the primary table or a backup) at the start of a group.
    pub fn desc_blocks_in_group(&self, group: u32) -> u32 {
        if self.in_meta_bg(group) {
            // The first, second and last group of a meta group hold its one descriptor block.
            let last = self.descs_per_block.saturating_sub(1);
            let at = group & last;
            return u32::from(at == 0 || at == 1 || at == last);
        }
        if !self.has_super(group) {
            return 0;
        }
        self.first_meta_bg.unwrap_or(self.desc_blocks)
    }

    /// Blocks at the start of a group that hold superblock, descriptors and reserved descriptors.
    pub fn base_meta_blocks(&self, group: u32) -> u32 {
        let sb = u32::from(self.has_super(group));
        let reserved = if sb == 1 && !self.in_meta_bg(group) {
            self.reserved_gdt_blocks
        } else {
            0
        };
        sb.saturating_add(self.desc_blocks_in_group(group))
            .saturating_add(reserved)
    }

    /// Blocks that a group needs for itself, wherever they lie: what
    /// [`Geometry::base_meta_blocks`] counts, two bitmaps and the inode table. The sum over all
    /// groups and [`Geometry::first_data_block`] is the volume's overhead without the journal.
    pub fn overhead_blocks(&self, group: u32) -> u32 {
        self.base_meta_blocks(group)
            .saturating_add(self.itable_blocks)
            .saturating_add(2)
    }

    /// The block of descriptor block number `nr`, or `None` if there is no such one.
    pub fn desc_block(&self, nr: u32) -> Option<u64> {
        if nr >= self.desc_blocks {
            return None;
        }
        if self.first_meta_bg.is_none_or(|first| nr < first) {
            return self.sb_block().checked_add(1)?.checked_add(u64::from(nr));
        }
        let group = nr.checked_mul(self.descs_per_block)?;
        // With 1 KiB clusters of several blocks, group 0 begins one block before the superblock.
        let boot = nr == 0 && self.sb_block() == 1 && self.first_data_block == 0;
        self.group_first_block(group)
            .checked_add(u64::from(self.has_super(group)))?
            .checked_add(u64::from(boot))
    }

    /// Where a group's descriptor lies: the number of the descriptor block (for
    /// [`Geometry::desc_block`]) and the byte in it. `None` if the volume has no such group.
    pub fn desc_place(&self, group: u32) -> Option<(u32, usize)> {
        if group >= self.groups_count {
            return None;
        }
        let nr = group.checked_div(self.descs_per_block)?;
        let slot = group.checked_rem(self.descs_per_block)?;
        Some((nr, usize::try_from(slot.checked_mul(self.desc_size)?).ok()?))
    }

    /// The largest size of a file mapped by extents, in bytes.
    pub fn max_file_size(&self) -> u64 {
        let by_extents = u64::from(u32::MAX)
            .checked_shl(self.block_bits)
            .unwrap_or(u64::MAX);
        if self.huge_file {
            return by_extents.min(i64::MAX as u64);
        }
        // Without huge_file, i_blocks counts at most 2^32 - 1 sectors.
        let blocks = u64::from(u32::MAX)
            .checked_shr(self.block_bits.saturating_sub(9))
            .unwrap_or(0);
        by_extents.min(blocks.checked_shl(self.block_bits).unwrap_or(0))
    }
}
