// SPDX-License-Identifier: GPL-2.0

//! Inodes on disk: `struct ext4_inode`, 128 bytes and an extra part whose size each inode tells.

use crate::bytes::{array, high16, high32, join16, join32, le16, le32, low16, low32};
use crate::bytes::{put, put_le16, put_le32};
use crate::checksum::{crc32c, crc32c_without, Seed};
use crate::error::{check, Error, Result};
use crate::geometry::Geometry;
use crate::xattr::{self, AttrsMut, Rules};
use core::ops::Range;

/// List of bad blocks.
pub const BAD_INO: u32 = 1;
/// The root directory.
pub const ROOT_INO: u32 = 2;
/// User quota.
pub const USR_QUOTA_INO: u32 = 3;
/// Group quota.
pub const GRP_QUOTA_INO: u32 = 4;
/// Boot loader.
pub const BOOT_LOADER_INO: u32 = 5;
/// Reserved descriptor blocks for growing.
pub const RESIZE_INO: u32 = 7;
/// The journal.
pub const JOURNAL_INO: u32 = 8;

/// `i_flags`: secure deletion.
pub const FL_SECRM: u32 = 0x0000_0001;
/// `i_flags`: undelete.
pub const FL_UNRM: u32 = 0x0000_0002;
/// `i_flags`: compress.
pub const FL_COMPR: u32 = 0x0000_0004;
/// `i_flags`: synchronous updates.
pub const FL_SYNC: u32 = 0x0000_0008;
/// `i_flags`: immutable.
pub const FL_IMMUTABLE: u32 = 0x0000_0010;
/// `i_flags`: writes may only append.
pub const FL_APPEND: u32 = 0x0000_0020;
/// `i_flags`: not to be dumped.
pub const FL_NODUMP: u32 = 0x0000_0040;
/// `i_flags`: the access time is not updated.
pub const FL_NOATIME: u32 = 0x0000_0080;
/// `i_flags`: no compression.
pub const FL_NOCOMPR: u32 = 0x0000_0400;
/// `i_flags`: encrypted.
pub const FL_ENCRYPT: u32 = 0x0000_0800;
/// `i_flags`: hash-indexed directory.
pub const FL_INDEX: u32 = 0x0000_1000;
/// `i_flags`: AFS directory.
pub const FL_IMAGIC: u32 = 0x0000_2000;
/// `i_flags`: the file's data goes through the journal.
pub const FL_JOURNAL_DATA: u32 = 0x0000_4000;
/// `i_flags`: the tail is not merged.
pub const FL_NOTAIL: u32 = 0x0000_8000;
/// `i_flags`: directory with synchronous updates.
pub const FL_DIRSYNC: u32 = 0x0001_0000;
/// `i_flags`: top of a hierarchy; its subdirectories are spread.
pub const FL_TOPDIR: u32 = 0x0002_0000;
/// `i_flags`: `i_blocks` counts filesystem blocks.
pub const FL_HUGE_FILE: u32 = 0x0004_0000;
/// `i_flags`: mapped by extents.
pub const FL_EXTENTS: u32 = 0x0008_0000;
/// `i_flags`: protected by fs-verity.
pub const FL_VERITY: u32 = 0x0010_0000;
/// `i_flags`: holds the value of an attribute.
pub const FL_EA_INODE: u32 = 0x0020_0000;
/// `i_flags`: direct access.
pub const FL_DAX: u32 = 0x0200_0000;
/// `i_flags`: the data is in the inode.
pub const FL_INLINE_DATA: u32 = 0x1000_0000;
/// `i_flags`: children take the directory's project.
pub const FL_PROJINHERIT: u32 = 0x2000_0000;
/// `i_flags`: case-insensitive directory.
pub const FL_CASEFOLD: u32 = 0x4000_0000;

/// Flags that a user may see.
pub const FL_USER_VISIBLE: u32 = FL_USER_MODIFIABLE
    | 0x0000_0100
    | 0x0000_0200
    | FL_NOCOMPR
    | FL_ENCRYPT
    | FL_INDEX
    | FL_VERITY
    | FL_INLINE_DATA;
/// Flags that a user may change (each under its own rules).
pub const FL_USER_MODIFIABLE: u32 = FL_SECRM
    | FL_UNRM
    | FL_COMPR
    | FL_SYNC
    | FL_IMMUTABLE
    | FL_APPEND
    | FL_NODUMP
    | FL_NOATIME
    | FL_JOURNAL_DATA
    | FL_NOTAIL
    | FL_DIRSYNC
    | FL_TOPDIR
    | FL_EXTENTS
    | 0x0040_0000
    | FL_DAX
    | FL_PROJINHERIT
    | FL_CASEFOLD;
/// Flags that a new inode takes from its directory, before [`mask_flags`].
pub const FL_INHERITED: u32 = FL_SECRM
    | FL_UNRM
    | FL_COMPR
    | FL_SYNC
    | FL_NODUMP
    | FL_NOATIME
    | FL_NOCOMPR
    | FL_JOURNAL_DATA
    | FL_NOTAIL
    | FL_DIRSYNC
    | FL_PROJINHERIT
    | FL_CASEFOLD
    | FL_DAX;

/// `i_mode`: the bits of the file type.
pub const MODE_TYPE: u16 = 0o170_000;
/// `i_mode`: a fifo.
pub const MODE_FIFO: u16 = 0o010_000;
/// `i_mode`: a character device.
pub const MODE_CHAR: u16 = 0o020_000;
/// `i_mode`: a directory.
pub const MODE_DIR: u16 = 0o040_000;
/// `i_mode`: a block device.
pub const MODE_BLOCK: u16 = 0o060_000;
/// `i_mode`: a regular file.
pub const MODE_REG: u16 = 0o100_000;
/// `i_mode`: a symbolic link.
pub const MODE_LINK: u16 = 0o120_000;
/// `i_mode`: a socket.
pub const MODE_SOCK: u16 = 0o140_000;

/// Links of a directory from which on the count is no longer kept (with `dir_nlink`).
pub const LINK_MAX: u32 = 65_000;
/// The earliest time that an inode can hold, in seconds.
pub const TIME_MIN: i64 = i32::MIN as i64;
/// The latest time that an inode with the extra time fields can hold, in seconds.
pub const TIME_MAX: i64 = (1i64 << 34) - 1 + i32::MIN as i64;
/// The latest time that an inode of 128 bytes can hold, in seconds.
pub const TIME_MAX_OLD: i64 = i32::MAX as i64;

/// Bytes of the fixed part.
pub const OLD_SIZE: usize = 128;
/// Bytes of `i_block`.
pub const I_BLOCK_SIZE: usize = 60;
/// Where `i_block` begins.
pub const I_BLOCK_AT: usize = 0x28;
/// `i_extra_isize` that covers every field known here.
pub const KNOWN_EXTRA: u16 = 32;

const EXTRA_ISIZE_AT: usize = 0x80;
const CSUM_LO_AT: usize = 0x7c;
const CSUM_HI_AT: usize = 0x82;
const CTIME_EXTRA_AT: usize = 0x84;
const MTIME_EXTRA_AT: usize = 0x88;
const ATIME_EXTRA_AT: usize = 0x8c;
const CRTIME_AT: usize = 0x90;
const CRTIME_EXTRA_AT: usize = 0x94;
const VERSION_HI_AT: usize = 0x98;
const PROJID_AT: usize = 0x9c;

/// The last nanosecond of a second. The field on disk could hold more.
const NSEC_MAX: u32 = 999_999_999;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds within the second. A decoded time has less than 10^9, whatever is on disk.
    pub nsec: u32,
}

/// What encoding and decoding of an inode depend on besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeFormat {
    /// Bytes of an inode on the volume ([`Geometry::inode_size`]).
    pub inode_size: u32,
    /// log2 of the block size.
    pub block_bits: u32,
    /// The volume has `huge_file`: `i_blocks` is 48 bits wide.
    pub huge_file: bool,
    /// The volume has `64bit`: `i_file_acl` is 48 bits wide.
    pub wide: bool,
}

impl InodeFormat {
    /// The format of the inodes of a volume. `wide` is the `64bit` feature.
    pub fn new(geo: &Geometry, wide: bool) -> Self {
        Self {
            inode_size: geo.inode_size,
            block_bits: geo.block_bits,
            huge_file: geo.huge_file,
            wide,
        }
    }

    fn size(&self) -> usize {
        usize::try_from(self.inode_size).unwrap_or(usize::MAX)
    }
}

/// An inode as it is on disk, with halves joined and units made plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links.
    pub links: u16,
    /// Bytes of the file.
    pub size: u64,
    /// Space in use, in sectors of 512 bytes. [`FL_HUGE_FILE`] is not needed to read it: encoding
    /// chooses the unit and the flag.
    pub sectors: u64,
    /// `FL_*` bits.
    pub flags: u32,
    /// Generation, which also seeds the checksums.
    pub generation: u32,
    /// Time of last access.
    pub atime: Time,
    /// Time of last change of the inode.
    pub ctime: Time,
    /// Time of last change of the data.
    pub mtime: Time,
    /// Time of creation; 0 where the inode has no room for it.
    pub crtime: Time,
    /// Time of deletion in seconds, or the next inode of the orphan list.
    pub dtime: u32,
    /// Block of attributes, or 0.
    pub file_acl: u64,
    /// Change counter; in an attribute's inode part of the reference count.
    pub version: u64,
    /// Project.
    pub projid: u32,
    /// Root of the extent tree, block pointers, device number or short symlink.
    pub i_block: [u8; I_BLOCK_SIZE],
    /// Bytes of the extra part that this inode uses; 0 in inodes of 128 bytes. On decoding,
    /// checked: a multiple of four that fits the inode.
    pub extra_isize: u16,
}

/// True if an inode with `extra_isize` has the four (or two) bytes that end at `end`.
fn has_field(extra_isize: u16, end: usize) -> bool {
    OLD_SIZE.saturating_add(usize::from(extra_isize)) >= end
}

/// Decodes a time. The two low bits of `extra` extend the seconds beyond 2038, the rest is
/// nanoseconds.
fn time(base: u32, extra: u32) -> Time {
    let sec = i64::from(base as i32);
    let epoch = i64::from(extra & 3) << 32;
    Time {
        sec: sec.saturating_add(epoch),
        nsec: (extra >> 2).min(NSEC_MAX),
    }
}

/// The low word and the extra word of a time. Seconds out of range are cut as ext4 cuts them.
fn time_words(t: Time) -> (u32, u32) {
    let base = low32(t.sec as u64);
    let epoch = (t.sec.wrapping_sub(i64::from(base as i32)) >> 32) & 3;
    (base, (t.nsec.min(NSEC_MAX) << 2) | epoch as u32)
}

impl Inode {
    /// Reads an inode, which begins at the first byte of `buf`. The checksum is not looked at;
    /// see [`verify`]. Fails if `i_extra_isize` is not possible.
    pub fn decode(buf: &[u8], fmt: &InodeFormat) -> Result<Self> {
        let b = buf
            .get(..fmt.size())
            .ok_or(Error::Argument("inode buffer too short"))?;
        let extra_isize = extra_isize(b)?;
        let extra = |at: usize| {
            if has_field(extra_isize, at.saturating_add(4)) {
                le32(b, at)
            } else {
                0
            }
        };
        let flags = le32(b, 0x20);
        let mut sectors = u64::from(le32(b, 0x1c));
        if fmt.huge_file {
            sectors |= u64::from(le16(b, 0x74)) << 32;
            if flags & FL_HUGE_FILE != 0 {
                // At most 48 + 7 bits.
                sectors = sectors
                    .checked_shl(fmt.block_bits.saturating_sub(9))
                    .unwrap_or(0);
            }
        }
        let acl_hi = if fmt.wide { le16(b, 0x76) } else { 0 };
        Ok(Self {
            mode: le16(b, 0x00),
            uid: join16(le16(b, 0x78), le16(b, 0x02)),
            gid: join16(le16(b, 0x7a), le16(b, 0x18)),
            links: le16(b, 0x1a),
            size: join32(le32(b, 0x6c), le32(b, 0x04)),
            sectors,
            flags,
            generation: le32(b, 0x64),
            atime: time(le32(b, 0x08), extra(ATIME_EXTRA_AT)),
            ctime: time(le32(b, 0x0c), extra(CTIME_EXTRA_AT)),
            mtime: time(le32(b, 0x10), extra(MTIME_EXTRA_AT)),
            crtime: time(extra(CRTIME_AT), extra(CRTIME_EXTRA_AT)),
            dtime: le32(b, 0x14),
            file_acl: join32(u32::from(acl_hi), le32(b, 0x68)),
            version: join32(extra(VERSION_HI_AT), le32(b, 0x24)),
            projid: extra(PROJID_AT),
            i_block: array(b, I_BLOCK_AT),
            extra_isize,
        })
    }

    /// Writes all fields but the checksum, which [`update_checksum`] does. Fields beyond
    /// `extra_isize` are not written, and bytes that belong to no field stay.
    ///
    /// Fails if `sectors` cannot be stored on this volume or `extra_isize` is not possible.
    pub fn encode(&self, buf: &mut [u8], fmt: &InodeFormat) -> Result<()> {
        let b = buf
            .get_mut(..fmt.size())
            .ok_or(Error::Argument("inode buffer too short"))?;
        valid_extra(self.extra_isize, b.len())?;
        let (sectors, flags) = self.stored_sectors(fmt)?;
        put_le16(b, 0x00, self.mode);
        put_le16(b, 0x02, low16(self.uid));
        put_le32(b, 0x04, low32(self.size));
        put_le32(b, 0x14, self.dtime);
        put_le16(b, 0x18, low16(self.gid));
        put_le16(b, 0x1a, self.links);
        put_le32(b, 0x1c, low32(sectors));
        put_le32(b, 0x20, flags);
        put_le32(b, 0x24, low32(self.version));
        put(b, I_BLOCK_AT, &self.i_block);
        put_le32(b, 0x64, self.generation);
        put_le32(b, 0x68, low32(self.file_acl));
        put_le32(b, 0x6c, high32(self.size));
        put_le16(b, 0x74, low16(high32(sectors)));
        put_le16(b, 0x76, low16(high32(self.file_acl)));
        put_le16(b, 0x78, high16(self.uid));
        put_le16(b, 0x7a, high16(self.gid));
        if b.len() > OLD_SIZE {
            put_le16(b, EXTRA_ISIZE_AT, self.extra_isize);
        }
        self.encode_time(b, self.atime, 0x08, ATIME_EXTRA_AT);
        self.encode_time(b, self.ctime, 0x0c, CTIME_EXTRA_AT);
        self.encode_time(b, self.mtime, 0x10, MTIME_EXTRA_AT);
        if has_field(self.extra_isize, CRTIME_EXTRA_AT) {
            self.encode_time(b, self.crtime, CRTIME_AT, CRTIME_EXTRA_AT);
        }
        if has_field(self.extra_isize, VERSION_HI_AT.saturating_add(4)) {
            put_le32(b, VERSION_HI_AT, high32(self.version));
        }
        if has_field(self.extra_isize, PROJID_AT.saturating_add(4)) {
            put_le32(b, PROJID_AT, self.projid);
        }
        Ok(())
    }

    fn encode_time(&self, b: &mut [u8], t: Time, at: usize, extra_at: usize) {
        let (base, extra) = time_words(t);
        if has_field(self.extra_isize, extra_at.saturating_add(4)) {
            put_le32(b, at, base);
            put_le32(b, extra_at, extra);
        } else {
            let sec = t.sec.clamp(TIME_MIN, TIME_MAX_OLD);
            put_le32(b, at, low32(sec as u64));
        }
    }

    /// `i_blocks` and `i_flags` as stored: the smallest form that holds the count.
    fn stored_sectors(&self, fmt: &InodeFormat) -> Result<(u64, u32)> {
        let plain = self.flags & !FL_HUGE_FILE;
        if self.sectors <= u64::from(u32::MAX) {
            return Ok((self.sectors, plain));
        }
        if !fmt.huge_file {
            return Err(Error::Corrupt("i_blocks too large without huge_file"));
        }
        if self.sectors >> 48 == 0 {
            return Ok((self.sectors, plain));
        }
        let blocks = self
            .sectors
            .checked_shr(fmt.block_bits.saturating_sub(9))
            .unwrap_or(0);
        if blocks >> 48 != 0 {
            return Err(Error::Corrupt("i_blocks too large"));
        }
        Ok((blocks, plain | FL_HUGE_FILE))
    }

    /// A new inode with everything zero but the mode, the times, the generation, one link and the
    /// room for extra fields. Encode it over a zeroed buffer ([`clear`]).
    pub fn new(mode: u16, now: Time, generation: u32, extra_isize: u16) -> Self {
        Self {
            mode,
            uid: 0,
            gid: 0,
            links: 1,
            size: 0,
            sectors: 0,
            flags: 0,
            generation,
            atime: now,
            ctime: now,
            mtime: now,
            crtime: now,
            dtime: 0,
            file_acl: 0,
            version: 1,
            projid: 0,
            i_block: [0; I_BLOCK_SIZE],
            extra_isize,
        }
    }

    /// The file type in the mode: one of `MODE_*`, or anything if the inode is damaged.
    pub fn file_type(&self) -> u16 {
        self.mode & MODE_TYPE
    }

    /// True if all bits of `flag` are set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    /// True if the inode is a symlink whose target is in `i_block`. `ea_inode` tells whether the
    /// volume has that feature, `cluster_size` is in bytes.
    ///
    /// With `ea_inode` the size decides. Without, a short symlink has no blocks but those of its
    /// attributes; that is how old volumes with slow symlinks of any length are read.
    pub fn is_fast_symlink(&self, ea_inode: bool, cluster_size: u32) -> bool {
        if self.file_type() != MODE_LINK {
            return false;
        }
        if ea_inode {
            return self.size != 0 && self.size < I_BLOCK_SIZE as u64;
        }
        let acl = if self.file_acl != 0 {
            u64::from(cluster_size >> 9)
        } else {
            0
        };
        !self.has(FL_INLINE_DATA) && self.sectors == acl
    }

    /// The target of a fast symlink, or an error if its length does not fit what is stored.
    pub fn fast_symlink(&self) -> Result<&[u8]> {
        let len = usize::try_from(self.size).unwrap_or(usize::MAX);
        let target = self.i_block.get(..len).filter(|t| {
            // The target ends with the first zero byte, and there is one.
            !t.is_empty() && t.len() < I_BLOCK_SIZE && !t.contains(&0)
        });
        match (target, self.i_block.get(len)) {
            (Some(t), Some(0)) => Ok(t),
            _ => Err(Error::Corrupt("invalid fast symlink length")),
        }
    }

    /// Major and minor number of a device inode.
    ///
    /// Small numbers are in the first word in the old 16-bit form, others in the second in the
    /// new 32-bit form.
    pub fn device(&self) -> (u32, u32) {
        let old = le32(&self.i_block, 0);
        if old != 0 {
            return ((old >> 8) & 0xff, old & 0xff);
        }
        let new = le32(&self.i_block, 4);
        ((new >> 8) & 0xfff, (new & 0xff) | ((new >> 12) & 0xf_ff00))
    }

    /// Puts a device number into `i_block`. Majors have 12 bits and minors 20; more is cut off.
    pub fn set_device(&mut self, major: u32, minor: u32) {
        self.i_block = [0; I_BLOCK_SIZE];
        if major < 256 && minor < 256 {
            put_le32(&mut self.i_block, 0, (major << 8) | minor);
        } else {
            let (major, minor) = (major & 0xfff, minor & 0xf_ffff);
            let word = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
            put_le32(&mut self.i_block, 4, word);
        }
    }

    /// Rules that an inode in use must keep, those of ext4's `iget` that need nothing else.
    /// `max_size` is the largest file in bytes ([`Geometry::max_file_size`]).
    pub fn validate(&self, max_size: u64) -> Result<()> {
        check(
            !(self.has(FL_INLINE_DATA) && self.has(FL_EXTENTS)),
            "inode has both inline data and extents",
        )?;
        check(self.size <= max_size, "bad i_size value")?;
        match self.file_type() {
            MODE_REG | MODE_DIR | MODE_CHAR | MODE_BLOCK | MODE_FIFO | MODE_SOCK => Ok(()),
            MODE_LINK => check(
                self.flags & (FL_IMMUTABLE | FL_APPEND) == 0,
                "immutable or append flag on a symlink",
            ),
            _ => Err(Error::Corrupt("bogus i_mode")),
        }
    }
}

/// The flags of `flags` that make sense for a file of this mode.
pub fn mask_flags(mode: u16, flags: u32) -> u32 {
    match mode & MODE_TYPE {
        MODE_DIR => flags,
        MODE_REG => flags & !(FL_DIRSYNC | FL_TOPDIR | FL_CASEFOLD | FL_PROJINHERIT),
        _ => flags & (FL_NODUMP | FL_NOATIME),
    }
}

fn valid_extra(extra: u16, inode_size: usize) -> Result<()> {
    let end = OLD_SIZE.saturating_add(usize::from(extra));
    check(end <= inode_size && extra & 3 == 0, "bad extra_isize")
}

/// `i_extra_isize` of the inode that fills `b`, checked; 0 in an inode of 128 bytes.
fn extra_isize(b: &[u8]) -> Result<u16> {
    if b.len() <= OLD_SIZE {
        return Ok(0);
    }
    let extra = le16(b, EXTRA_ISIZE_AT);
    valid_extra(extra, b.len())?;
    Ok(extra)
}

/// The seed of what belongs to the inode in `buf`, whose number is `ino`: made from the
/// generation that is stored there. `seed` is the volume's.
pub fn seed(buf: &[u8], ino: u32, seed: Option<Seed>) -> Option<Seed> {
    seed.map(|s| s.inode(ino, le32(buf, 0x64)))
}

/// The checksum of the inode that fills `b`, and whether it has room for the high half.
fn inode_checksum(b: &[u8], seed: Seed) -> Result<(u32, bool)> {
    let old = b.get(..OLD_SIZE).unwrap_or(b);
    let extra = b.get(OLD_SIZE..).unwrap_or(&[]);
    let crc = crc32c_without(seed.0, old, CSUM_LO_AT, 2);
    if extra.is_empty() {
        return Ok((crc, false));
    }
    if has_field(extra_isize(b)?, CSUM_HI_AT.saturating_add(2)) {
        let at = CSUM_HI_AT.saturating_sub(OLD_SIZE);
        Ok((crc32c_without(crc, extra, at, 2), true))
    } else {
        Ok((crc32c(crc, extra), false))
    }
}

/// Checks the checksum of the inode at the start of `buf`. `seed` is the inode's own
/// ([`seed`]). Inodes of volumes made by other systems than Linux have none: pass `None`.
pub fn verify(buf: &[u8], fmt: &InodeFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let b = buf
        .get(..fmt.size())
        .ok_or(Error::Argument("inode buffer too short"))?;
    let (crc, wide) = inode_checksum(b, seed)?;
    let good = if wide {
        crc == join16(le16(b, CSUM_HI_AT), le16(b, CSUM_LO_AT))
    } else {
        low16(crc) == le16(b, CSUM_LO_AT)
    };
    if !good {
        return Err(Error::BadChecksum("inode checksum is wrong"));
    }
    Ok(())
}

/// Brings the checksum of the inode at the start of `buf` up to date.
pub fn update_checksum(buf: &mut [u8], fmt: &InodeFormat, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    let b = buf
        .get_mut(..fmt.size())
        .ok_or(Error::Argument("inode buffer too short"))?;
    let (crc, wide) = inode_checksum(b, seed)?;
    put_le16(b, CSUM_LO_AT, low16(crc));
    if wide {
        put_le16(b, CSUM_HI_AT, high16(crc));
    }
    Ok(())
}

/// Zeroes the inode at the start of `buf`, for a new one to be encoded over.
pub fn clear(buf: &mut [u8], fmt: &InodeFormat) -> Result<()> {
    let b = buf
        .get_mut(..fmt.size())
        .ok_or(Error::Argument("inode buffer too short"))?;
    b.fill(0);
    Ok(())
}

/// True if the inode at the start of `buf` is free by its own fields: no links and no mode.
pub fn is_unused(buf: &[u8]) -> bool {
    le16(buf, 0x1a) == 0 && le16(buf, 0x00) == 0
}

/// Sets the size in bytes; the checksum is left to [`update_checksum`].
pub fn set_size(buf: &mut [u8], size: u64) {
    put_le32(buf, 0x04, low32(size));
    put_le32(buf, 0x6c, high32(size));
}

/// Sets the deletion time, or the next inode of the orphan list; the checksum is left to
/// [`update_checksum`].
pub fn set_dtime(buf: &mut [u8], dtime: u32) {
    put_le32(buf, 0x14, dtime);
}

/// Lets the inode at the start of `buf` use `want` bytes of the extra part, if it uses fewer and its
/// attributes, which begin behind that, can be moved as far. New fields are zero. Gives what it uses
/// now; the checksum is left to [`update_checksum`]. Behaviour: `ext4_expand_extra_isize_ea`, but
/// that no attribute leaves the inode.
///
/// Fails if `want` is not possible or the attributes are damaged: nothing has changed then.
pub fn grow_extra(buf: &mut [u8], fmt: &InodeFormat, want: u16, rules: &Rules) -> Result<u16> {
    let b = buf
        .get_mut(..fmt.size())
        .ok_or(Error::Argument("inode buffer too short"))?;
    let old = extra_isize(b)?;
    let Some(more) = want.checked_sub(old).filter(|&more| more != 0) else {
        return Ok(old);
    };
    valid_extra(want, b.len())?;
    if let Some(region) = xattr_region_mut(b, fmt)? {
        let has_attributes = xattr::ibody(region, rules)?.is_some();
        if has_attributes && !AttrsMut::ibody(region, rules)?.move_back(more.into())? {
            return Ok(old);
        }
    }
    let start = OLD_SIZE.saturating_add(old.into());
    let end = OLD_SIZE.saturating_add(want.into());
    if let Some(new) = b.get_mut(start..end) {
        new.fill(0);
    }
    put_le16(b, EXTRA_ISIZE_AT, want);
    Ok(want)
}

/// The bytes of the inode at the start of `buf` that hold attributes, magic first: what follows
/// the extra part, if there is room for anything. See [`crate::xattr::ibody`].
pub fn xattr_region<'a>(buf: &'a [u8], fmt: &InodeFormat) -> Result<Option<&'a [u8]>> {
    let range = xattr_range(buf, fmt)?;
    Ok(range.and_then(|range| buf.get(range)))
}

/// [`xattr_region`], to change; the checksum is left to [`update_checksum`].
pub fn xattr_region_mut<'a>(buf: &'a mut [u8], fmt: &InodeFormat) -> Result<Option<&'a mut [u8]>> {
    let range = xattr_range(buf, fmt)?;
    Ok(range.and_then(|range| buf.get_mut(range)))
}

fn xattr_range(buf: &[u8], fmt: &InodeFormat) -> Result<Option<Range<usize>>> {
    let b = buf
        .get(..fmt.size())
        .ok_or(Error::Argument("inode buffer too short"))?;
    let extra = extra_isize(b)?;
    if extra == 0 {
        return Ok(None);
    }
    let start = OLD_SIZE.saturating_add(usize::from(extra));
    // The magic and the mark that ends the list.
    let has_room = b.len().saturating_sub(start) >= 8;
    Ok(has_room.then_some(start..b.len()))
}
