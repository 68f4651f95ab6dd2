// SPDX-License-Identifier: GPL-2.0

//! CRC-32C and CRC-16 as ext4 uses them, and the seeds of its metadata checksums.

use crate::bytes::le64;

/// The reflected CRC-32C (Castagnoli) polynomial.
const CRC32C_POLY: u32 = 0x82f6_3b78;
/// The reflected CRC-16 (ANSI) polynomial.
const CRC16_POLY: u16 = 0xa001;

/// `TABLES[k][b]`: the remainder of byte `b` followed by `k` zero bytes. Eight of them let the
/// loop take eight bytes a step.
static CRC32C_TABLES: [[u32; 256]; 8] = crc32c_tables();
static CRC16_TABLE: [u16; 256] = crc16_table();

// Evaluated by the compiler, where an index or a sum out of range is a build error.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut b = 0;
    while b < 256 {
        let mut crc = b as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { CRC32C_POLY } else { 0 };
            bit += 1;
        }
        t[0][b] = crc;
        b += 1;
    }
    b = 0;
    while b < 256 {
        let mut k = 1;
        while k < 8 {
            let prev = t[k - 1][b];
            t[k][b] = (prev >> 8) ^ t[0][(prev & 0xff) as usize];
            k += 1;
        }
        b += 1;
    }
    t
}

// Evaluated by the compiler, where an index or a sum out of range is a build error.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
const fn crc16_table() -> [u16; 256] {
    let mut t = [0u16; 256];
    let mut b = 0;
    while b < 256 {
        let mut crc = b as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { CRC16_POLY } else { 0 };
            bit += 1;
        }
        t[b] = crc;
        b += 1;
    }
    t
}

/// Looks byte `n` (counted from the least significant) of `word` up in table `k`.
// `k` and `n` are constants below 8 in every call, and the index of a table of 256 is one byte.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
#[inline(always)]
fn fold(k: usize, word: u64, n: u32) -> u32 {
    CRC32C_TABLES[k & 7][((word >> (8 * (n & 7))) & 0xff) as usize]
}

/// CRC-32C of `data` continued from `crc`, with neither the first nor the last inversion: what the
/// kernel's `crc32c()` and ext4's `ext4_chksum()` compute.
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    let mut crc = crc;
    let mut chunks = data.chunks_exact(8);
    for chunk in &mut chunks {
        let w = le64(chunk, 0) ^ u64::from(crc);
        crc = fold(7, w, 0)
            ^ fold(6, w, 1)
            ^ fold(5, w, 2)
            ^ fold(4, w, 3)
            ^ fold(3, w, 4)
            ^ fold(2, w, 5)
            ^ fold(1, w, 6)
            ^ fold(0, w, 7);
    }
    for &b in chunks.remainder() {
        crc = (crc >> 8) ^ fold(0, u64::from(crc) ^ u64::from(b), 0);
    }
    crc
}

/// CRC-16 (ANSI, reflected) of `data` continued from `crc`: the kernel's `crc16()`.
pub fn crc16(crc: u16, data: &[u8]) -> u16 {
    data.iter().fold(crc, |crc, &b| {
        let i = usize::from((crc ^ u16::from(b)) & 0xff);
        (crc >> 8) ^ CRC16_TABLE.get(i).copied().unwrap_or(0)
    })
}

/// The state from which a metadata checksum goes on.
///
/// A volume has one seed ([`SuperBlock::csum_seed`](crate::SuperBlock::csum_seed)); what belongs to
/// an inode (the inode itself, its extent and directory blocks) uses one made from that by
/// [`Seed::inode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u32);

impl Seed {
    /// The volume's seed where `metadata_csum_seed` is off: CRC-32C of its UUID.
    pub fn from_uuid(uuid: &[u8; 16]) -> Self {
        Self(crc32c(!0, uuid))
    }

    /// The seed of what belongs to inode number `ino` with generation `generation`. `self` is the
    /// volume's seed.
    pub fn inode(self, ino: u32, generation: u32) -> Self {
        let crc = crc32c(self.0, &ino.to_le_bytes());
        Self(crc32c(crc, &generation.to_le_bytes()))
    }

    /// The checksum of `data`.
    pub fn checksum(self, data: &[u8]) -> u32 {
        crc32c(self.0, data)
    }
}

/// CRC-32C of `buf` with the `len` bytes at `at` read as zeros: how a structure that holds its own
/// checksum is summed. Bytes outside `buf` count as absent.
pub(crate) fn crc32c_without(crc: u32, buf: &[u8], at: usize, len: usize) -> u32 {
    let at = at.min(buf.len());
    let end = at.saturating_add(len).min(buf.len());
    let zeros = [0u8; 4];
    let crc = crc32c(crc, buf.get(..at).unwrap_or(&[]));
    let crc = crc32c(crc, zeros.get(..len).unwrap_or(&zeros));
    crc32c(crc, buf.get(end..).unwrap_or(&[]))
}
