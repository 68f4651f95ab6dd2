// SPDX-License-Identifier: GPL-2.0

//! The journal's own superblock, as far as a filesystem must look at it before it hands the
//! journal to jbd2. Everything in it is big-endian.

use crate::bytes::{array, be32, byte};
use crate::checksum::crc32c_without;
use crate::error::{check, want, Error, Result};

/// Bytes of the superblock.
pub const SIZE: usize = 1024;
/// The magic of all journal blocks.
pub const MAGIC: u32 = 0xc03b_3998;

/// `s_feature_compat`: commit blocks have a checksum.
pub const COMPAT_CHECKSUM: u32 = 0x01;
/// `s_feature_incompat`: there may be revoke blocks.
pub const INCOMPAT_REVOKE: u32 = 0x01;
/// `s_feature_incompat`: block numbers have 64 bits.
pub const INCOMPAT_64BIT: u32 = 0x02;
/// `s_feature_incompat`: commit blocks may be written before their transaction is on disk.
pub const INCOMPAT_ASYNC_COMMIT: u32 = 0x04;
/// `s_feature_incompat`: checksums, second form.
pub const INCOMPAT_CSUM_V2: u32 = 0x08;
/// `s_feature_incompat`: checksums, third form.
pub const INCOMPAT_CSUM_V3: u32 = 0x10;
/// `s_feature_incompat`: the fast-commit area is in use.
pub const INCOMPAT_FAST_COMMIT: u32 = 0x20;
/// All incompatible features that jbd2 knows.
pub const INCOMPAT_KNOWN: u32 = 0x3f;

const CHECKSUM_AT: usize = 0xfc;

/// The fields of the journal's superblock. Blocks are the journal's own, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSuper {
    /// 1 or 2. Features, UUID and what follows are valid in version 2 only and zero here in 1.
    pub version: u8,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the journal.
    pub maxlen: u32,
    /// First block of the log.
    pub first: u32,
    /// Number of the first transaction in the log.
    pub sequence: u32,
    /// Block where the log begins; 0 if it is empty.
    pub start: u32,
    /// The negative errno with which the journal was aborted, or 0.
    pub errno: i32,
    /// Compatible features.
    pub compat: u32,
    /// Incompatible features.
    pub incompat: u32,
    /// Read-only compatible features.
    pub ro_compat: u32,
    /// UUID of the journal.
    pub uuid: [u8; 16],
    /// Filesystems that share the journal.
    pub nr_users: u32,
    /// Algorithm of the checksums (4 for CRC-32C).
    pub checksum_type: u8,
    /// Blocks of the fast-commit area, as stored; 0 stands for jbd2's default.
    pub num_fc_blocks: u32,
    /// End of the log, in a clean journal.
    pub head: u32,
}

impl JournalSuper {
    /// Reads the superblock at the start of `buf`, the journal's block 0. Fails if it is not one.
    pub fn decode(buf: &[u8]) -> Result<Self> {
        want(buf, SIZE, "journal superblock buffer too short")?;
        check(be32(buf, 0x00) == MAGIC, "no journal superblock magic")?;
        let version = match be32(buf, 0x04) {
            3 => 1,
            4 => 2,
            _ => return Err(Error::Corrupt("unrecognised journal superblock")),
        };
        let v2 = |at: usize| if version == 2 { be32(buf, at) } else { 0 };
        Ok(Self {
            version,
            block_size: be32(buf, 0x0c),
            maxlen: be32(buf, 0x10),
            first: be32(buf, 0x14),
            sequence: be32(buf, 0x18),
            start: be32(buf, 0x1c),
            errno: be32(buf, 0x20) as i32,
            compat: v2(0x24),
            incompat: v2(0x28),
            ro_compat: v2(0x2c),
            uuid: if version == 2 {
                array(buf, 0x30)
            } else {
                [0; 16]
            },
            nr_users: v2(0x40),
            checksum_type: if version == 2 { byte(buf, 0x50) } else { 0 },
            num_fc_blocks: v2(0x54),
            head: v2(0x58),
        })
    }

    /// True if all bits of an incompatible feature are set.
    pub fn has_incompat(&self, bits: u32) -> bool {
        self.incompat & bits == bits
    }

    /// True if the log holds transactions to be replayed.
    pub fn needs_recovery(&self) -> bool {
        self.start != 0
    }

    /// Checks the checksum of `buf`, from which `self` was decoded; a journal without the second
    /// or third form of checksums has none.
    pub fn verify_checksum(&self, buf: &[u8]) -> Result<()> {
        if self.incompat & (INCOMPAT_CSUM_V2 | INCOMPAT_CSUM_V3) == 0 {
            return Ok(());
        }
        want(buf, SIZE, "journal superblock buffer too short")?;
        let sb = buf.get(..SIZE).unwrap_or(buf);
        if crc32c_without(!0, sb, CHECKSUM_AT, 4) != be32(buf, CHECKSUM_AT) {
            return Err(Error::BadChecksum("journal superblock checksum is wrong"));
        }
        Ok(())
    }
}
