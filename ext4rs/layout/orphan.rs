// SPDX-License-Identifier: GPL-2.0

//! Blocks of the orphan file: inode numbers, then a magic and a checksum.

use crate::bytes::{le32, put_le32};
use crate::checksum::{crc32c, Seed};
use crate::error::{check, want, Error, Result};

/// `ob_magic`.
pub const MAGIC: u32 = 0x0b10_ca04;
/// The most blocks that an orphan file has (`EXT4_MAX_ORPHAN_FILE_BLOCKS`).
pub const MAX_BLOCKS: u32 = 512;

/// Bytes of magic and checksum.
const TAIL: usize = 8;
const ENTRY: usize = 4;

/// Places for inodes in a block of `block_size` bytes.
pub fn places(block_size: usize) -> usize {
    block_size.saturating_sub(TAIL) / ENTRY
}

fn tail_at(block: &[u8]) -> usize {
    block.len().saturating_sub(TAIL)
}

fn block_checksum(block: &[u8], nr: u64, seed: Seed) -> u32 {
    let crc = crc32c(seed.0, &nr.to_le_bytes());
    crc32c(crc, block.get(..tail_at(block)).unwrap_or(&[]))
}

/// Checks magic and checksum of a block that fills `block` and lies at block `nr` of the volume.
/// `seed` is that of the orphan file's inode.
pub fn check_block(block: &[u8], nr: u64, seed: Option<Seed>) -> Result<()> {
    want(block, TAIL, "orphan file buffer too short")?;
    let tail = tail_at(block);
    check(le32(block, tail) == MAGIC, "bad magic of orphan file block")?;
    match seed {
        Some(seed) if block_checksum(block, nr, seed) != le32(block, tail.saturating_add(4)) => {
            Err(Error::BadChecksum("orphan file block checksum is wrong"))
        }
        _ => Ok(()),
    }
}

/// Brings the checksum of a block up to date.
pub fn update_checksum(block: &mut [u8], nr: u64, seed: Option<Seed>) {
    if let Some(seed) = seed {
        let crc = block_checksum(block, nr, seed);
        let at = tail_at(block).saturating_add(4);
        put_le32(block, at, crc);
    }
}

/// The inode in place `i`: 0 if the place is free, `None` if the block has no such place.
pub fn get(block: &[u8], i: usize) -> Option<u32> {
    (i < places(block.len())).then(|| le32(block, i.saturating_mul(ENTRY)))
}

/// Puts an inode (0 to free it) into place `i`; fails if the block has no such place. The checksum
/// is left to [`update_checksum`].
pub fn set(block: &mut [u8], i: usize, ino: u32) -> Result<()> {
    if i >= places(block.len()) {
        return Err(Error::Argument("no such place in the orphan file"));
    }
    put_le32(block, i.saturating_mul(ENTRY), ino);
    Ok(())
}

/// All inodes of a block with their places.
pub fn inodes(block: &[u8]) -> impl Iterator<Item = (usize, u32)> + '_ {
    (0..places(block.len()))
        .filter_map(|i| get(block, i).map(|ino| (i, ino)))
        .filter(|&(_, ino)| ino != 0)
}

/// The first free place at or behind `from`.
pub fn find_free(block: &[u8], from: usize) -> Option<usize> {
    (from..places(block.len())).find(|&i| get(block, i) == Some(0))
}
