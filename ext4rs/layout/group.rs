// SPDX-License-Identifier: GPL-2.0

//! Group descriptors, and the bitmaps that they point to.

use crate::bitmap;
use crate::bytes::{high16, high32, join16, join32, le16, le32, low16, low32, put_le16, put_le32};
use crate::checksum::{crc16, crc32c, crc32c_without, Seed};
use crate::error::{check, want, Error, Result};
use crate::geometry::Geometry;

/// `bg_flags`: the inode table and bitmap are not in use; the bitmap on disk means nothing.
pub const INODE_UNINIT: u16 = 0x0001;
/// `bg_flags`: the block bitmap on disk means nothing; [`init_block_bitmap`] makes it.
pub const BLOCK_UNINIT: u16 = 0x0002;
/// `bg_flags`: the unused part of the inode table is zeroed on disk.
pub const INODE_ZEROED: u16 = 0x0004;

const CHECKSUM_AT: usize = 0x1e;
/// Descriptor size from which on a descriptor has high halves.
const SIZE_64BIT: u32 = 64;
/// Bytes of the first, always present part.
const SIZE_MIN: usize = 32;

/// How the descriptors of a volume are checked;
/// [`SuperBlock::group_checksum`](crate::SuperBlock::group_checksum) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChecksum {
    /// Not at all. No group of such a volume is uninitialised.
    None,
    /// CRC-16 over UUID, group and descriptor (`uninit_bg`).
    Crc16([u8; 16]),
    /// The low half of a CRC-32C (`metadata_csum`).
    Crc32c(Seed),
}

/// A group descriptor. Counts of blocks are counts of clusters under `bigalloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// Block of the block bitmap.
    pub block_bitmap: u64,
    /// Block of the inode bitmap.
    pub inode_bitmap: u64,
    /// First block of the inode table.
    pub inode_table: u64,
    /// Free clusters.
    pub free_clusters: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub used_dirs: u32,
    /// Inodes at the end of the table that were never used.
    pub itable_unused: u32,
    /// [`INODE_UNINIT`] and others.
    pub flags: u16,
    /// CRC-32C of the block bitmap; the low 16 bits only in a descriptor of 32 bytes.
    pub block_bitmap_csum: u32,
    /// CRC-32C of the inode bitmap; the low 16 bits only in a descriptor of 32 bytes.
    pub inode_bitmap_csum: u32,
    /// The descriptor's own checksum.
    pub checksum: u16,
}

fn desc<'a>(buf: &'a [u8], geo: &Geometry) -> Result<&'a [u8]> {
    let size = usize::try_from(geo.desc_size).unwrap_or(usize::MAX);
    buf.get(..size)
        .ok_or(Error::Argument("group descriptor buffer too short"))
}

impl GroupDesc {
    /// Reads a descriptor, which begins at the first byte of `buf`. Nothing is judged; see
    /// [`GroupDesc::validate`] and [`verify`].
    pub fn decode(buf: &[u8], geo: &Geometry) -> Result<Self> {
        let d = desc(buf, geo)?;
        // In a descriptor of 32 bytes the high halves lie beyond the slice and read as zero.
        Ok(Self {
            block_bitmap: join32(le32(d, 0x20), le32(d, 0x00)),
            inode_bitmap: join32(le32(d, 0x24), le32(d, 0x04)),
            inode_table: join32(le32(d, 0x28), le32(d, 0x08)),
            free_clusters: join16(le16(d, 0x2c), le16(d, 0x0c)),
            free_inodes: join16(le16(d, 0x2e), le16(d, 0x0e)),
            used_dirs: join16(le16(d, 0x30), le16(d, 0x10)),
            itable_unused: join16(le16(d, 0x32), le16(d, 0x1c)),
            flags: le16(d, 0x12),
            block_bitmap_csum: join16(le16(d, 0x38), le16(d, 0x18)),
            inode_bitmap_csum: join16(le16(d, 0x3a), le16(d, 0x1a)),
            checksum: le16(d, CHECKSUM_AT),
        })
    }

    /// Writes all fields but the checksum, which [`update_checksum`] does; other bytes stay.
    pub fn encode(&self, buf: &mut [u8], geo: &Geometry) -> Result<()> {
        desc(buf, geo)?;
        let hi = geo.desc_size >= SIZE_64BIT;
        put_le32(buf, 0x00, low32(self.block_bitmap));
        put_le32(buf, 0x04, low32(self.inode_bitmap));
        put_le32(buf, 0x08, low32(self.inode_table));
        put_le16(buf, 0x0c, low16(self.free_clusters));
        put_le16(buf, 0x0e, low16(self.free_inodes));
        put_le16(buf, 0x10, low16(self.used_dirs));
        put_le16(buf, 0x12, self.flags);
        put_le16(buf, 0x18, low16(self.block_bitmap_csum));
        put_le16(buf, 0x1a, low16(self.inode_bitmap_csum));
        put_le16(buf, 0x1c, low16(self.itable_unused));
        if hi {
            put_le32(buf, 0x20, high32(self.block_bitmap));
            put_le32(buf, 0x24, high32(self.inode_bitmap));
            put_le32(buf, 0x28, high32(self.inode_table));
            put_le16(buf, 0x2c, high16(self.free_clusters));
            put_le16(buf, 0x2e, high16(self.free_inodes));
            put_le16(buf, 0x30, high16(self.used_dirs));
            put_le16(buf, 0x32, high16(self.itable_unused));
            put_le16(buf, 0x38, high16(self.block_bitmap_csum));
            put_le16(buf, 0x3a, high16(self.inode_bitmap_csum));
        }
        Ok(())
    }

    /// True if all bits of `flag` are set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag == flag
    }

    /// Checks where the bitmaps and the inode table lie, and the counts. The rules are those of
    /// ext4's `ext4_check_descriptors`, and that no count is larger than the group.
    pub fn validate(&self, group: u32, geo: &Geometry) -> Result<()> {
        check(group < geo.groups_count, "no such group")?;
        // Without flex_bg all three lie in the group itself.
        let (first, end) = if geo.flex_bg {
            (u64::from(geo.first_data_block), geo.blocks_count)
        } else {
            let first = geo.group_first_block(group);
            (
                first,
                first.saturating_add(u64::from(geo.blocks_in_group(group))),
            )
        };
        let within = |block: u64, count: u32| {
            block >= first
                && block
                    .checked_add(u64::from(count))
                    .is_some_and(|e| e <= end)
        };
        check(within(self.block_bitmap, 1), "block bitmap not in group")?;
        check(within(self.inode_bitmap, 1), "inode bitmap not in group")?;
        check(
            within(self.inode_table, geo.itable_blocks),
            "inode table not in group",
        )?;
        // The primary superblock and descriptors.
        let sb = geo.sb_block();
        let meta_end = sb
            .saturating_add(1)
            .saturating_add(u64::from(geo.desc_blocks_in_group(0)));
        let clear = |block: u64, count: u32| {
            block >= meta_end || block.saturating_add(u64::from(count)) <= sb
        };
        check(
            clear(self.block_bitmap, 1),
            "block bitmap overlaps superblock or descriptors",
        )?;
        check(
            clear(self.inode_bitmap, 1),
            "inode bitmap overlaps superblock or descriptors",
        )?;
        check(
            clear(self.inode_table, geo.itable_blocks),
            "inode table overlaps superblock or descriptors",
        )?;
        check(
            self.free_clusters <= geo.clusters_in_group(group),
            "too many free blocks",
        )?;
        check(
            self.free_inodes <= geo.inodes_per_group,
            "too many free inodes",
        )?;
        check(
            self.itable_unused <= geo.inodes_per_group,
            "too many unused inodes",
        )?;
        check(
            self.used_dirs <= geo.inodes_per_group,
            "too many directories",
        )
    }
}

/// The checksum that the descriptor in `buf` should have; 0 where descriptors have none.
pub fn checksum(buf: &[u8], group: u32, kind: &GroupChecksum, geo: &Geometry) -> Result<u16> {
    let d = desc(buf, geo)?;
    Ok(match kind {
        GroupChecksum::None => 0,
        GroupChecksum::Crc32c(seed) => {
            let crc = crc32c(seed.0, &group.to_le_bytes());
            low16(crc32c_without(crc, d, CHECKSUM_AT, 2))
        }
        GroupChecksum::Crc16(uuid) => {
            let crc = crc16(crc16(!0, uuid), &group.to_le_bytes());
            let crc = crc16(crc, d.get(..CHECKSUM_AT).unwrap_or(&[]));
            crc16(crc, d.get(SIZE_MIN..).unwrap_or(&[]))
        }
    })
}

/// Checks the checksum of the descriptor in `buf`.
pub fn verify(buf: &[u8], group: u32, kind: &GroupChecksum, geo: &Geometry) -> Result<()> {
    let calculated = checksum(buf, group, kind, geo)?;
    if *kind != GroupChecksum::None && calculated != le16(buf, CHECKSUM_AT) {
        return Err(Error::BadChecksum("group descriptor checksum is wrong"));
    }
    Ok(())
}

/// Brings the checksum of the descriptor in `buf` up to date; does nothing where descriptors have
/// none.
pub fn update_checksum(
    buf: &mut [u8],
    group: u32,
    kind: &GroupChecksum,
    geo: &Geometry,
) -> Result<()> {
    let crc = checksum(buf, group, kind, geo)?;
    if *kind != GroupChecksum::None {
        put_le16(buf, CHECKSUM_AT, crc);
    }
    Ok(())
}

/// CRC-32C of a bitmap of `bits` bits, cut to what a descriptor of this volume stores.
fn bitmap_csum(map: &[u8], bits: u32, seed: Seed, geo: &Geometry) -> Result<u32> {
    let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
    let map = map
        .get(..bytes)
        .ok_or(Error::Argument("bitmap buffer too short"))?;
    let crc = seed.checksum(map);
    Ok(if geo.desc_size >= SIZE_64BIT {
        crc
    } else {
        crc & 0xffff
    })
}

/// Checks a block bitmap against its descriptor.
pub fn verify_block_bitmap(
    map: &[u8],
    gd: &GroupDesc,
    seed: Option<Seed>,
    geo: &Geometry,
) -> Result<()> {
    match seed {
        Some(seed)
            if bitmap_csum(map, geo.clusters_per_group, seed, geo)? != gd.block_bitmap_csum =>
        {
            Err(Error::BadChecksum("block bitmap checksum is wrong"))
        }
        _ => Ok(()),
    }
}

/// Checks an inode bitmap against its descriptor.
pub fn verify_inode_bitmap(
    map: &[u8],
    gd: &GroupDesc,
    seed: Option<Seed>,
    geo: &Geometry,
) -> Result<()> {
    match seed {
        Some(seed)
            if bitmap_csum(map, geo.inodes_per_group, seed, geo)? != gd.inode_bitmap_csum =>
        {
            Err(Error::BadChecksum("inode bitmap checksum is wrong"))
        }
        _ => Ok(()),
    }
}

/// Puts the checksum of a changed block bitmap into `gd`, which the caller then encodes.
pub fn update_block_bitmap_csum(
    map: &[u8],
    gd: &mut GroupDesc,
    seed: Option<Seed>,
    geo: &Geometry,
) -> Result<()> {
    if let Some(seed) = seed {
        gd.block_bitmap_csum = bitmap_csum(map, geo.clusters_per_group, seed, geo)?;
    }
    Ok(())
}

/// Puts the checksum of a changed inode bitmap into `gd`, which the caller then encodes.
pub fn update_inode_bitmap_csum(
    map: &[u8],
    gd: &mut GroupDesc,
    seed: Option<Seed>,
    geo: &Geometry,
) -> Result<()> {
    if let Some(seed) = seed {
        gd.inode_bitmap_csum = bitmap_csum(map, geo.inodes_per_group, seed, geo)?;
    }
    Ok(())
}

/// Sets the bits of the blocks `block..block + count` that lie in `group`.
fn mark_blocks(map: &mut [u8], group: u32, block: u64, count: u32, geo: &Geometry) {
    let first = geo.group_first_block(group);
    let end = first.saturating_add(u64::from(geo.blocks_in_group(group)));
    let from = block.max(first);
    let to = block.saturating_add(u64::from(count)).min(end);
    if from >= to {
        return;
    }
    let bit = |b: u64| {
        let rel = b
            .saturating_sub(first)
            .checked_shr(geo.cluster_bits)
            .unwrap_or(0);
        u32::try_from(rel).unwrap_or(u32::MAX)
    };
    // `to` is above `from`, so there is a last block.
    bitmap::set_range(map, bit(from), bit(to.saturating_sub(1)).saturating_add(1));
}

/// Makes the block bitmap of a group whose bitmap on disk is not in use ([`BLOCK_UNINIT`]).
///
/// `map` is one block. Set are: superblock backup, descriptors and reserved descriptors; the
/// group's own bitmaps and inode table as far as they lie in it; and the padding after the
/// group's last cluster. Bitmaps and tables of *other* groups never lie in an uninitialised group
/// (mke2fs and resize clear the flag where they place one), so they are not looked for; ext4
/// relies on the same.
pub fn init_block_bitmap(map: &mut [u8], group: u32, gd: &GroupDesc, geo: &Geometry) -> Result<()> {
    let size = usize::try_from(geo.block_size).unwrap_or(usize::MAX);
    want(map, size, "bitmap buffer too short")?;
    check(group < geo.groups_count, "no such group")?;
    let base = geo.base_meta_blocks(group);
    check(
        base < geo.blocks_in_group(group),
        "descriptors do not fit the group",
    )?;
    let map = map
        .get_mut(..size)
        .ok_or(Error::Argument("bitmap buffer too short"))?;
    map.fill(0);
    bitmap::set_range(map, 0, geo.blocks_to_clusters(base));
    mark_blocks(map, group, gd.block_bitmap, 1, geo);
    mark_blocks(map, group, gd.inode_bitmap, 1, geo);
    mark_blocks(map, group, gd.inode_table, geo.itable_blocks, geo);
    let bits = bitmap::len(map);
    bitmap::set_range(map, geo.clusters_in_group(group), bits);
    Ok(())
}

/// Makes the inode bitmap of a group whose bitmap on disk is not in use ([`INODE_UNINIT`]): no
/// inode, and the padding after the last inode set. `map` is one block.
pub fn init_inode_bitmap(map: &mut [u8], geo: &Geometry) -> Result<()> {
    let size = usize::try_from(geo.block_size).unwrap_or(usize::MAX);
    let map = map
        .get_mut(..size)
        .ok_or(Error::Argument("bitmap buffer too short"))?;
    map.fill(0);
    let bits = bitmap::len(map);
    bitmap::set_range(map, geo.inodes_per_group, bits);
    Ok(())
}

/// Checks what a block bitmap that was read must hold, beyond its checksum: the padding after the
/// last cluster is set, and without flex_bg the group's own bitmaps and inode table are too.
pub fn validate_block_bitmap(map: &[u8], group: u32, gd: &GroupDesc, geo: &Geometry) -> Result<()> {
    let size = usize::try_from(geo.block_size).unwrap_or(usize::MAX);
    let map = map
        .get(..size)
        .ok_or(Error::Argument("bitmap buffer too short"))?;
    check(
        bitmap::all_set(map, geo.clusters_in_group(group), bitmap::len(map)),
        "bits after the end of the group are not set in the block bitmap",
    )?;
    if geo.flex_bg {
        return Ok(());
    }
    let in_use = |block: u64, count: u32| {
        let from = block.checked_sub(geo.group_first_block(group));
        let bit = |b: u64| {
            b.checked_shr(geo.cluster_bits)
                .and_then(|b| u32::try_from(b).ok())
        };
        let last = from.and_then(|b| b.checked_add(u64::from(count.saturating_sub(1))));
        match (from.and_then(bit), last.and_then(bit)) {
            (Some(from), Some(last)) => {
                last < geo.clusters_per_group && bitmap::all_set(map, from, last.saturating_add(1))
            }
            _ => false,
        }
    };
    check(
        in_use(gd.block_bitmap, 1),
        "block bitmap is not set in itself",
    )?;
    check(
        in_use(gd.inode_bitmap, 1),
        "inode bitmap is not set in the block bitmap",
    )?;
    check(
        in_use(gd.inode_table, geo.itable_blocks),
        "inode table is not set in the block bitmap",
    )
}
