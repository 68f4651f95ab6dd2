// SPDX-License-Identifier: GPL-2.0

//! The superblock: `struct ext4_super_block`, 1024 bytes at byte 1024 of the volume.
//!
//! [`SuperBlock::decode`] reads the fields, [`SuperBlock::verify_checksum`] and
//! [`SuperBlock::geometry`] judge them, in the order in which ext4's `fill_super` does;
//! [`SuperBlockMut`] changes single fields in place.

use crate::bytes::{array, byte, high16, high32, join16, join32, le16, le32, le64, low16, low32};
use crate::bytes::{put, put_le16, put_le32, put_le64};
use crate::checksum::{crc32c, Seed};
use crate::error::{check, want, Error, Result};
use crate::features::{Compat, Incompat, RoCompat};
use crate::geometry::Geometry;
use crate::group::GroupChecksum;

/// Where the primary superblock lies on the device, in bytes.
pub const OFFSET: u64 = 1024;
/// Bytes of a superblock.
pub const SIZE: usize = 1024;
/// `s_magic`.
pub const MAGIC: u16 = 0xef53;

/// `s_state`: unmounted cleanly.
pub const STATE_VALID: u16 = 0x0001;
/// `s_state`: errors were found.
pub const STATE_ERROR: u16 = 0x0002;
/// `s_state`: orphans are being recovered.
pub const STATE_ORPHAN: u16 = 0x0004;
/// `s_state`: a fast-commit replay is going on.
pub const STATE_FC_REPLAY: u16 = 0x0020;

/// `s_creator_os` of Linux; metadata checksums of inodes exist only there.
pub const OS_LINUX: u32 = 0;
/// `s_creator_os` of the Hurd, whose inodes differ.
pub const OS_HURD: u32 = 1;

/// `s_flags`: name hashes take bytes as signed.
pub const FLAG_SIGNED_HASH: u32 = 0x0001;
/// `s_flags`: name hashes take bytes as unsigned.
pub const FLAG_UNSIGNED_HASH: u32 = 0x0002;
/// `s_flags`: a volume for testing development code.
pub const FLAG_TEST_FILESYS: u32 = 0x0004;

/// `s_default_mount_opts`: print debugging information.
pub const DEFM_DEBUG: u32 = 0x0001;
/// `s_default_mount_opts`: new files take the group of their directory.
pub const DEFM_BSDGROUPS: u32 = 0x0002;
/// `s_default_mount_opts`: user attributes.
pub const DEFM_XATTR_USER: u32 = 0x0004;
/// `s_default_mount_opts`: POSIX ACLs.
pub const DEFM_ACL: u32 = 0x0008;
/// `s_default_mount_opts`: 16-bit user and group numbers.
pub const DEFM_UID16: u32 = 0x0010;
/// `s_default_mount_opts`: the bits that hold the data mode.
pub const DEFM_JMODE: u32 = 0x0060;
/// `s_default_mount_opts`: `data=journal`.
pub const DEFM_JMODE_DATA: u32 = 0x0020;
/// `s_default_mount_opts`: `data=ordered`.
pub const DEFM_JMODE_ORDERED: u32 = 0x0040;
/// `s_default_mount_opts`: `data=writeback`.
pub const DEFM_JMODE_WBACK: u32 = 0x0060;
/// `s_default_mount_opts`: no write barriers.
pub const DEFM_NOBARRIER: u32 = 0x0100;
/// `s_default_mount_opts`: check blocks against the metadata zones.
pub const DEFM_BLOCK_VALIDITY: u32 = 0x0200;
/// `s_default_mount_opts`: discard freed blocks.
pub const DEFM_DISCARD: u32 = 0x0400;
/// `s_default_mount_opts`: no delayed allocation.
pub const DEFM_NODELALLOC: u32 = 0x0800;

/// `s_checksum_type`: CRC-32C, the only one defined.
const CHECKSUM_CRC32C: u8 = 1;
const CHECKSUM_AT: usize = 0x3fc;
const FIRST_ERROR_AT: usize = 0x198;
const LAST_ERROR_AT: usize = 0x1cc;

/// What to do when an error is found (`s_errors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Go on.
    Continue,
    /// Become read-only.
    ReadOnly,
    /// Panic.
    Panic,
}

/// The numbers that `s_first_error_errcode` and `s_last_error_errcode` use for errnos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorCode {
    /// None of the others.
    Unknown = 1,
    /// `EIO`.
    Io = 2,
    /// `ENOMEM`.
    NoMemory = 3,
    /// `EFSBADCRC`.
    BadCrc = 4,
    /// `EFSCORRUPTED`.
    Corrupted = 5,
    /// `ENOSPC`.
    NoSpace = 6,
    /// `ENOKEY`.
    NoKey = 7,
    /// `EROFS`.
    ReadOnly = 8,
    /// `EFBIG`.
    FileTooBig = 9,
    /// `EEXIST`.
    Exists = 10,
    /// `ERANGE`.
    Range = 11,
    /// `EOVERFLOW`.
    Overflow = 12,
    /// `EBUSY`.
    Busy = 13,
    /// `ENOTDIR`.
    NotDirectory = 14,
    /// `ENOTEMPTY`.
    NotEmpty = 15,
    /// `ESHUTDOWN`.
    Shutdown = 16,
    /// `EFAULT`.
    Fault = 17,
}

/// One of the two error records: the first error since the last check, and the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRecord {
    /// When, in seconds since 1970; 0 if there was none.
    pub time: u64,
    /// The inode involved, or 0.
    pub ino: u32,
    /// The block involved, or 0.
    pub block: u64,
    /// The line of the source file.
    pub line: u32,
    /// The name of the function, filled up with zeros.
    pub func: [u8; 32],
    /// An [`ErrorCode`], or 0.
    pub errcode: u8,
}

impl ErrorRecord {
    /// Puts the first 32 bytes of `name` into a function field.
    pub fn function(name: &str) -> [u8; 32] {
        let mut func = [0; 32];
        for (dst, src) in func.iter_mut().zip(name.bytes()) {
            *dst = src;
        }
        func
    }
}

/// The fields of a superblock. Times are seconds since 1970, counts have their high halves in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperBlock {
    /// Inodes of the volume.
    pub inodes_count: u32,
    /// Blocks of the volume.
    pub blocks_count: u64,
    /// Blocks reserved for the super-user.
    pub reserved_blocks: u64,
    /// Free blocks. Brought up to date at unmount only.
    pub free_blocks: u64,
    /// Free inodes. Brought up to date at unmount only.
    pub free_inodes: u32,
    /// The block that group 0 begins with.
    pub first_data_block: u32,
    /// Block size is `1024 << log_block_size`.
    pub log_block_size: u32,
    /// Cluster size is `1024 << log_cluster_size` bytes.
    pub log_cluster_size: u32,
    /// Blocks of a full group.
    pub blocks_per_group: u32,
    /// Clusters of a full group.
    pub clusters_per_group: u32,
    /// Inodes of every group.
    pub inodes_per_group: u32,
    /// When last mounted.
    pub mtime: u64,
    /// When last written.
    pub wtime: u64,
    /// Mounts since the last check.
    pub mnt_count: u16,
    /// Mounts after which a check is wanted; 0 or negative for never.
    pub max_mnt_count: i16,
    /// `STATE_*` bits.
    pub state: u16,
    /// `s_errors` as stored; see [`SuperBlock::on_error`].
    pub errors: u16,
    /// Minor revision.
    pub minor_rev_level: u16,
    /// When last checked.
    pub lastcheck: u64,
    /// Seconds between checks, or 0.
    pub checkinterval: u32,
    /// Who made the volume: [`OS_LINUX`] ...
    pub creator_os: u32,
    /// 0 (original format) or 1.
    pub rev_level: u32,
    /// User that may use reserved blocks.
    pub resuid: u32,
    /// Group that may use reserved blocks.
    pub resgid: u32,
    /// First inode that is not reserved.
    pub first_ino: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Group that this copy of the superblock lies in.
    pub block_group_nr: u16,
    /// Compatible features.
    pub compat: Compat,
    /// Incompatible features.
    pub incompat: Incompat,
    /// Read-only compatible features.
    pub ro_compat: RoCompat,
    /// The volume's UUID.
    pub uuid: [u8; 16],
    /// The volume's label, filled up with zeros.
    pub label: [u8; 16],
    /// Where it was last mounted, filled up with zeros.
    pub last_mounted: [u8; 64],
    /// Reserved descriptor blocks in each group with a backup.
    pub reserved_gdt_blocks: u16,
    /// UUID of an external journal.
    pub journal_uuid: [u8; 16],
    /// Inode of the journal, or 0.
    pub journal_inum: u32,
    /// Device number of an external journal, or 0.
    pub journal_dev: u32,
    /// Head of the orphan list, or 0.
    pub last_orphan: u32,
    /// Seed of the name hash.
    pub hash_seed: [u32; 4],
    /// The hash that new indexes use, without the signedness (0 to 2).
    pub def_hash_version: u8,
    /// Bytes of a group descriptor as stored; see [`Geometry::desc_size`].
    pub desc_size: u16,
    /// `DEFM_*` bits.
    pub default_mount_opts: u32,
    /// First group whose descriptors lie in meta groups, in descriptor blocks.
    pub first_meta_bg: u32,
    /// When made.
    pub mkfs_time: u64,
    /// Bytes beyond 128 that every inode has.
    pub min_extra_isize: u16,
    /// Bytes beyond 128 that a new inode should have.
    pub want_extra_isize: u16,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// RAID stride, in blocks.
    pub raid_stride: u16,
    /// Seconds between checks of the multiple-mount block.
    pub mmp_update_interval: u16,
    /// The multiple-mount block.
    pub mmp_block: u64,
    /// Blocks on all data disks of a RAID.
    pub raid_stripe_width: u32,
    /// log2 of the groups of a flex group, as stored.
    pub log_groups_per_flex: u8,
    /// Algorithm of the metadata checksums.
    pub checksum_type: u8,
    /// Version of encryption; 0 is the only one.
    pub encryption_level: u8,
    /// Kilobytes ever written.
    pub kbytes_written: u64,
    /// Errors since the last check.
    pub error_count: u32,
    /// The first error since the last check.
    pub first_error: ErrorRecord,
    /// The latest error.
    pub last_error: ErrorRecord,
    /// Mount options as text, filled up with zeros.
    pub mount_opts: [u8; 64],
    /// Inode of user quota, or 0.
    pub usr_quota_inum: u32,
    /// Inode of group quota, or 0.
    pub grp_quota_inum: u32,
    /// Inode of project quota, or 0.
    pub prj_quota_inum: u32,
    /// Clusters that hold metadata, as mke2fs counted them; 0 if it did not.
    pub overhead_clusters: u32,
    /// The two groups with backups under `sparse_super2`.
    pub backup_bgs: [u32; 2],
    /// Inode of `lost+found`, or 0.
    pub lpf_ino: u32,
    /// The checksum seed where `metadata_csum_seed` is set.
    pub checksum_seed: u32,
    /// Encoding of case-insensitive names.
    pub encoding: u16,
    /// Flags of that encoding.
    pub encoding_flags: u16,
    /// Inode of the orphan file, or 0.
    pub orphan_file_inum: u32,
    /// CRC-32C of all bytes before it.
    pub checksum: u32,
}

/// A time of 32 bits with eight more elsewhere.
fn time40(buf: &[u8], lo: usize, hi: usize) -> u64 {
    join32(u32::from(byte(buf, hi)), le32(buf, lo))
}

fn put_time40(buf: &mut [u8], lo: usize, hi: usize, time: u64) {
    put_le32(buf, lo, low32(time));
    put(buf, hi, &[(high32(time) & 0xff) as u8]);
}

impl SuperBlock {
    /// Reads the fields. `buf` begins with the superblock's first byte.
    ///
    /// Fails if `buf` is shorter than [`SIZE`], or with [`Error::Corrupt`] if the magic is not
    /// there (then this is no ext4 volume). Nothing else is judged.
    pub fn decode(buf: &[u8]) -> Result<Self> {
        want(buf, SIZE, "superblock buffer too short")?;
        check(le16(buf, 0x38) == MAGIC, "no superblock magic")?;
        Ok(Self {
            inodes_count: le32(buf, 0x00),
            blocks_count: join32(le32(buf, 0x150), le32(buf, 0x04)),
            reserved_blocks: join32(le32(buf, 0x154), le32(buf, 0x08)),
            free_blocks: join32(le32(buf, 0x158), le32(buf, 0x0c)),
            free_inodes: le32(buf, 0x10),
            first_data_block: le32(buf, 0x14),
            log_block_size: le32(buf, 0x18),
            log_cluster_size: le32(buf, 0x1c),
            blocks_per_group: le32(buf, 0x20),
            clusters_per_group: le32(buf, 0x24),
            inodes_per_group: le32(buf, 0x28),
            mtime: time40(buf, 0x2c, 0x275),
            wtime: time40(buf, 0x30, 0x274),
            mnt_count: le16(buf, 0x34),
            max_mnt_count: le16(buf, 0x36) as i16,
            state: le16(buf, 0x3a),
            errors: le16(buf, 0x3c),
            minor_rev_level: le16(buf, 0x3e),
            lastcheck: time40(buf, 0x40, 0x277),
            checkinterval: le32(buf, 0x44),
            creator_os: le32(buf, 0x48),
            rev_level: le32(buf, 0x4c),
            resuid: join16(le16(buf, 0x284), le16(buf, 0x50)),
            resgid: join16(le16(buf, 0x286), le16(buf, 0x52)),
            first_ino: le32(buf, 0x54),
            inode_size: le16(buf, 0x58),
            block_group_nr: le16(buf, 0x5a),
            compat: Compat(le32(buf, 0x5c)),
            incompat: Incompat(le32(buf, 0x60)),
            ro_compat: RoCompat(le32(buf, 0x64)),
            uuid: array(buf, 0x68),
            label: array(buf, 0x78),
            last_mounted: array(buf, 0x88),
            reserved_gdt_blocks: le16(buf, 0xce),
            journal_uuid: array(buf, 0xd0),
            journal_inum: le32(buf, 0xe0),
            journal_dev: le32(buf, 0xe4),
            last_orphan: le32(buf, 0xe8),
            hash_seed: [
                le32(buf, 0xec),
                le32(buf, 0xf0),
                le32(buf, 0xf4),
                le32(buf, 0xf8),
            ],
            def_hash_version: byte(buf, 0xfc),
            desc_size: le16(buf, 0xfe),
            default_mount_opts: le32(buf, 0x100),
            first_meta_bg: le32(buf, 0x104),
            mkfs_time: time40(buf, 0x108, 0x276),
            min_extra_isize: le16(buf, 0x15c),
            want_extra_isize: le16(buf, 0x15e),
            flags: le32(buf, 0x160),
            raid_stride: le16(buf, 0x164),
            mmp_update_interval: le16(buf, 0x166),
            mmp_block: le64(buf, 0x168),
            raid_stripe_width: le32(buf, 0x170),
            log_groups_per_flex: byte(buf, 0x174),
            checksum_type: byte(buf, 0x175),
            encryption_level: byte(buf, 0x176),
            kbytes_written: le64(buf, 0x178),
            error_count: le32(buf, 0x194),
            first_error: ErrorRecord {
                time: time40(buf, FIRST_ERROR_AT, 0x278),
                ino: le32(buf, 0x19c),
                block: le64(buf, 0x1a0),
                line: le32(buf, 0x1c8),
                func: array(buf, 0x1a8),
                errcode: byte(buf, 0x27a),
            },
            last_error: ErrorRecord {
                time: time40(buf, LAST_ERROR_AT, 0x279),
                ino: le32(buf, 0x1d0),
                block: le64(buf, 0x1d8),
                line: le32(buf, 0x1d4),
                func: array(buf, 0x1e0),
                errcode: byte(buf, 0x27b),
            },
            mount_opts: array(buf, 0x200),
            usr_quota_inum: le32(buf, 0x240),
            grp_quota_inum: le32(buf, 0x244),
            prj_quota_inum: le32(buf, 0x26c),
            overhead_clusters: le32(buf, 0x248),
            backup_bgs: [le32(buf, 0x24c), le32(buf, 0x250)],
            lpf_ino: le32(buf, 0x268),
            checksum_seed: le32(buf, 0x270),
            encoding: le16(buf, 0x27c),
            encoding_flags: le16(buf, 0x27e),
            orphan_file_inum: le32(buf, 0x280),
            checksum: le32(buf, CHECKSUM_AT),
        })
    }

    /// Checks the checksum of `buf`, from which `self` was decoded. A volume without
    /// `metadata_csum` has none and passes.
    pub fn verify_checksum(&self, buf: &[u8]) -> Result<()> {
        if !self.ro_compat.has(RoCompat::METADATA_CSUM) {
            return Ok(());
        }
        want(buf, SIZE, "superblock buffer too short")?;
        if self.checksum_type != CHECKSUM_CRC32C {
            return Err(Error::Unsupported("unknown checksum algorithm"));
        }
        if self.checksum != crc32c(!0, buf.get(..CHECKSUM_AT).unwrap_or(&[])) {
            return Err(Error::BadChecksum("superblock checksum is wrong"));
        }
        Ok(())
    }

    /// Checks every number that says how the volume is laid out against the others, and gives
    /// what follows from them. The rules are ext4's own.
    pub fn geometry(&self) -> Result<Geometry> {
        Geometry::new(self)
    }

    /// The seed of all metadata checksums, or `None` if the volume has none.
    pub fn csum_seed(&self) -> Option<Seed> {
        self.ro_compat
            .has(RoCompat::METADATA_CSUM)
            .then(|| self.seed())
    }

    /// The seed by itself: stored, or made from the UUID. The hash of an attribute whose value is
    /// in an inode uses it on any volume.
    pub fn seed(&self) -> Seed {
        if self.incompat.has(Incompat::CSUM_SEED) {
            Seed(self.checksum_seed)
        } else {
            Seed::from_uuid(&self.uuid)
        }
    }

    /// How group descriptors are checked on this volume.
    pub fn group_checksum(&self) -> GroupChecksum {
        if let Some(seed) = self.csum_seed() {
            GroupChecksum::Crc32c(seed)
        } else if self.ro_compat.has(RoCompat::GDT_CSUM) {
            GroupChecksum::Crc16(self.uuid)
        } else {
            GroupChecksum::None
        }
    }

    /// The policy for errors. A number that is none of the three counts as
    /// [`OnError::Continue`], as in ext4.
    pub fn on_error(&self) -> OnError {
        match self.errors {
            2 => OnError::ReadOnly,
            3 => OnError::Panic,
            _ => OnError::Continue,
        }
    }

    /// True if name hashes take bytes as unsigned. A volume with neither flag was made where
    /// `char` is signed.
    pub fn hash_unsigned(&self) -> bool {
        self.flags & FLAG_UNSIGNED_HASH != 0
    }

    /// True if `ino` may be met in a directory entry: the root, or any inode that is neither
    /// reserved nor the filesystem's own, such as the orphan file's.
    pub fn valid_inum(&self, ino: u32) -> bool {
        let own = ino == self.orphan_file_inum || ino == self.journal_inum;
        let ordinary = ino >= self.first_ino() && ino <= self.inodes_count;
        ino == crate::inode::ROOT_INO || (ordinary && !own)
    }

    /// The first inode that is not reserved; fixed in the original revision.
    pub fn first_ino(&self) -> u32 {
        if self.rev_level == 0 {
            11
        } else {
            self.first_ino
        }
    }
}

/// A superblock in its buffer, for changing single fields.
///
/// The caller holds whatever lock keeps others from the buffer, and calls
/// [`SuperBlockMut::update_checksum`] after the last change.
pub struct SuperBlockMut<'a> {
    buf: &'a mut [u8],
}

impl<'a> SuperBlockMut<'a> {
    /// Takes `buf`, which begins with the superblock's first byte. Fails if it is shorter than
    /// [`SIZE`] or holds no superblock.
    pub fn new(buf: &'a mut [u8]) -> Result<Self> {
        want(buf, SIZE, "superblock buffer too short")?;
        check(le16(buf, 0x38) == MAGIC, "no superblock magic")?;
        Ok(Self { buf })
    }

    /// Sets the `STATE_*` bits.
    pub fn set_state(&mut self, state: u16) {
        put_le16(self.buf, 0x3a, state);
    }

    /// Sets the compatible features.
    pub fn set_compat(&mut self, word: Compat) {
        put_le32(self.buf, 0x5c, word.bits());
    }

    /// Sets the incompatible features.
    pub fn set_incompat(&mut self, word: Incompat) {
        put_le32(self.buf, 0x60, word.bits());
    }

    /// Sets the read-only compatible features.
    pub fn set_ro_compat(&mut self, word: RoCompat) {
        put_le32(self.buf, 0x64, word.bits());
    }

    /// Adds to the compatible features.
    pub fn add_compat(&mut self, word: Compat) {
        put_le32(self.buf, 0x5c, le32(self.buf, 0x5c) | word.bits());
    }

    /// Adds to the read-only compatible features.
    pub fn add_ro_compat(&mut self, word: RoCompat) {
        put_le32(self.buf, 0x64, le32(self.buf, 0x64) | word.bits());
    }

    /// Sets the count of free blocks (blocks, not clusters).
    pub fn set_free_blocks(&mut self, blocks: u64) {
        put_le32(self.buf, 0x0c, low32(blocks));
        put_le32(self.buf, 0x158, high32(blocks));
    }

    /// Sets the count of free inodes.
    pub fn set_free_inodes(&mut self, inodes: u32) {
        put_le32(self.buf, 0x10, inodes);
    }

    /// Sets the time of the last mount, in seconds since 1970.
    pub fn set_mtime(&mut self, time: u64) {
        put_time40(self.buf, 0x2c, 0x275, time);
    }

    /// Sets the time of the last write, in seconds since 1970.
    pub fn set_wtime(&mut self, time: u64) {
        put_time40(self.buf, 0x30, 0x274, time);
    }

    /// Sets the count of mounts since the last check.
    pub fn set_mnt_count(&mut self, count: u16) {
        put_le16(self.buf, 0x34, count);
    }

    /// Sets the mount count after which a check is wanted.
    pub fn set_max_mnt_count(&mut self, count: i16) {
        put_le16(self.buf, 0x36, count as u16);
    }

    /// Sets where the volume was last mounted; only the first 64 bytes of `path` are kept.
    pub fn set_last_mounted(&mut self, path: &[u8]) {
        let mut field = [0u8; 64];
        for (dst, src) in field.iter_mut().zip(path) {
            *dst = *src;
        }
        put(self.buf, 0x88, &field);
    }

    /// Sets the head of the orphan list; 0 ends it.
    pub fn set_last_orphan(&mut self, ino: u32) {
        put_le32(self.buf, 0xe8, ino);
    }

    /// Sets the `FLAG_*` bits.
    pub fn set_flags(&mut self, flags: u32) {
        put_le32(self.buf, 0x160, flags);
    }

    /// Sets the count of kilobytes ever written.
    pub fn set_kbytes_written(&mut self, kbytes: u64) {
        put_le64(self.buf, 0x178, kbytes);
    }

    /// Sets the count of clusters that hold metadata.
    pub fn set_overhead_clusters(&mut self, clusters: u32) {
        put_le32(self.buf, 0x248, clusters);
    }

    /// Sets the count of errors since the last check.
    pub fn set_error_count(&mut self, count: u32) {
        put_le32(self.buf, 0x194, count);
    }

    /// Sets the record of the first error.
    pub fn set_first_error(&mut self, e: &ErrorRecord) {
        put_time40(self.buf, FIRST_ERROR_AT, 0x278, e.time);
        put_le32(self.buf, 0x19c, e.ino);
        put_le64(self.buf, 0x1a0, e.block);
        put(self.buf, 0x1a8, &e.func);
        put_le32(self.buf, 0x1c8, e.line);
        put(self.buf, 0x27a, &[e.errcode]);
    }

    /// Sets the record of the latest error.
    pub fn set_last_error(&mut self, e: &ErrorRecord) {
        put_time40(self.buf, LAST_ERROR_AT, 0x279, e.time);
        put_le32(self.buf, 0x1d0, e.ino);
        put_le32(self.buf, 0x1d4, e.line);
        put_le64(self.buf, 0x1d8, e.block);
        put(self.buf, 0x1e0, &e.func);
        put(self.buf, 0x27b, &[e.errcode]);
    }

    /// Sets the label.
    pub fn set_label(&mut self, label: &[u8; 16]) {
        put(self.buf, 0x78, label);
    }

    /// Sets the user that may use reserved blocks.
    pub fn set_resuid(&mut self, uid: u32) {
        put_le16(self.buf, 0x50, low16(uid));
        put_le16(self.buf, 0x284, high16(uid));
    }

    /// Sets the group that may use reserved blocks.
    pub fn set_resgid(&mut self, gid: u32) {
        put_le16(self.buf, 0x52, low16(gid));
        put_le16(self.buf, 0x286, high16(gid));
    }

    /// Brings the checksum up to date; does nothing on a volume without `metadata_csum`.
    pub fn update_checksum(&mut self) {
        if RoCompat(le32(self.buf, 0x64)).has(RoCompat::METADATA_CSUM) {
            let crc = crc32c(!0, self.buf.get(..CHECKSUM_AT).unwrap_or(&[]));
            put_le32(self.buf, CHECKSUM_AT, crc);
        }
    }
}
