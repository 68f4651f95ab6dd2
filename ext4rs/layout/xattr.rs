// SPDX-License-Identifier: GPL-2.0

//! Extended attributes: a list of names at the front and values at the back, either of the space
//! behind an inode's fields or of a block of its own.

mod edit;

pub use self::edit::AttrsMut;

use crate::bytes::{byte, le16, le32, put_le32};
use crate::checksum::{crc32c, crc32c_without, Seed};
use crate::error::{check, want, Error, Result};
use crate::inode::ROOT_INO;
use crate::superblock::SuperBlock;
use crate::Incompat;

/// `h_magic` of both forms.
pub const MAGIC: u32 = 0xea02_0000;
/// The most inodes that share a block.
pub const REFCOUNT_MAX: u32 = 1024;
/// The longest value that is not taken for damage, in bytes.
pub const VALUE_MAX: u32 = 1 << 24;

/// Name index: `user.`.
pub const INDEX_USER: u8 = 1;
/// Name index: the access ACL; the name is empty.
pub const INDEX_ACL_ACCESS: u8 = 2;
/// Name index: the default ACL of a directory; the name is empty.
pub const INDEX_ACL_DEFAULT: u8 = 3;
/// Name index: `trusted.`.
pub const INDEX_TRUSTED: u8 = 4;
/// Name index: `security.`.
pub const INDEX_SECURITY: u8 = 6;
/// Name index: `system.`, as the data of an inline file.
pub const INDEX_SYSTEM: u8 = 7;
/// Name index: rich ACL.
pub const INDEX_RICHACL: u8 = 8;
/// Name index: context of an encrypted file.
pub const INDEX_ENCRYPTION: u8 = 9;
/// Name index: the Hurd's own.
pub const INDEX_HURD: u8 = 10;

/// Bytes of the header of a block.
const BLOCK_HEADER: usize = 32;
const BLOCK_CSUM_AT: usize = 16;
/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// The word that ends the list of names.
const END: usize = 4;

/// What a value in an inode of its own must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The volume has `ea_inode`; without, no value is in an inode.
    pub ea_inode: bool,
    /// First inode that is not reserved.
    pub first_ino: u32,
    /// Inodes of the volume.
    pub inodes_count: u32,
}

impl Rules {
    /// The rules of a volume.
    pub fn new(sb: &SuperBlock) -> Self {
        Self {
            ea_inode: sb.incompat.has(Incompat::EA_INODE),
            first_ino: sb.first_ino(),
            inodes_count: sb.inodes_count,
        }
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// The name's prefix: one of `INDEX_*`, or one that is not known.
    pub index: u8,
    /// The name without its prefix.
    pub name: &'a [u8],
    /// The value; empty if it is in an inode.
    pub value: &'a [u8],
    /// Bytes of the value.
    pub size: u32,
    /// The inode that holds the value, or 0.
    pub value_ino: u32,
    /// The stored hash of name and value; 0 in an inode's own space.
    pub hash: u32,
}

/// A checked list of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Attrs<'a> {
    /// From the first entry on.
    list: &'a [u8],
    /// What offsets of values count from.
    base: &'a [u8],
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Inodes that share the block.
    pub refcount: u32,
    /// Hash of all attributes; 0 if the block is not shared.
    pub hash: u32,
}

/// What a name of this index begins with. For the ACLs, the whole name.
pub fn prefix(index: u8) -> Option<&'static str> {
    Some(match index {
        INDEX_USER => "user.",
        INDEX_ACL_ACCESS => "system.posix_acl_access",
        INDEX_ACL_DEFAULT => "system.posix_acl_default",
        INDEX_TRUSTED => "trusted.",
        INDEX_SECURITY => "security.",
        INDEX_SYSTEM => "system.",
        INDEX_RICHACL => "system.richacl",
        INDEX_HURD => "gnu.",
        _ => return None,
    })
}

/// Bytes of an entry with a name of `len` bytes.
fn entry_size(len: usize) -> usize {
    len.saturating_add(ENTRY).saturating_add(3) & !3
}

fn is_last(list: &[u8], at: usize) -> bool {
    le32(list, at) == 0
}

fn next(list: &[u8], at: usize) -> usize {
    at.saturating_add(entry_size(usize::from(byte(list, at))))
}

impl<'a> Attrs<'a> {
    /// Checks the list as ext4's `check_xattrs` does. `names_at` is where the list begins in
    /// `base`.
    fn new(base: &'a [u8], names_at: usize, rules: &Rules) -> Result<Self> {
        let list = base.get(names_at..).unwrap_or(&[]);
        check(list.len() >= END, "no room for attributes")?;
        let mut end = 0;
        while !is_last(list, end) {
            let after = next(list, end);
            check(
                after.saturating_add(END) <= list.len(),
                "e_name out of bounds",
            )?;
            let name_len = usize::from(byte(list, end));
            let name = list
                .get(end.saturating_add(ENTRY)..)
                .and_then(|n| n.get(..name_len));
            check(name.is_some_and(|n| !n.contains(&0)), "bad e_name length")?;
            end = after;
        }
        let names_end = names_at.saturating_add(end).saturating_add(END);
        let attrs = Self { list, base };
        let mut at = 0;
        while at < end {
            attrs.check_value(at, names_end, rules)?;
            at = next(list, at);
        }
        Ok(attrs)
    }

    fn check_value(&self, at: usize, names_end: usize, rules: &Rules) -> Result<()> {
        let size = le32(self.list, at.saturating_add(8));
        let ino = le32(self.list, at.saturating_add(4));
        if ino != 0 {
            check(rules.ea_inode, "attribute in an inode without ea_inode")?;
            check(
                ino != ROOT_INO && ino >= rules.first_ino && ino <= rules.inodes_count,
                "invalid inode of an attribute",
            )?;
            check(size != 0, "invalid size of an attribute in an inode")?;
        }
        check(size <= VALUE_MAX, "e_value size too large")?;
        if size != 0 && ino == 0 {
            let start = usize::from(le16(self.list, at.saturating_add(2)));
            // At most 2^24, and rounded up to four.
            let size = usize::try_from(size)
                .unwrap_or(usize::MAX)
                .saturating_add(3)
                & !3;
            check(start <= self.base.len(), "e_value out of bounds")?;
            check(
                start >= names_end && start.saturating_add(size) <= self.base.len(),
                "overlapping e_value",
            )?;
        }
        Ok(())
    }

    /// All attributes, in the order in which they are stored.
    pub fn iter(&self) -> AttrIter<'a> {
        AttrIter {
            attrs: *self,
            at: 0,
        }
    }

    /// The attribute of this name.
    pub fn find(&self, index: u8, name: &[u8]) -> Option<Attr<'a>> {
        self.iter().find(|a| a.index == index && a.name == name)
    }

    /// Whether both lists hold the same, in the same order: then inodes can share a block of it.
    pub fn same(&self, other: &Attrs<'_>) -> bool {
        self.iter().eq(other.iter())
    }

    /// The hash of all attributes that belongs into a block's header: 0 as soon as one has none.
    pub fn hash(&self) -> u32 {
        let mut hash = 0u32;
        for attr in self.iter() {
            if attr.hash == 0 {
                return 0;
            }
            hash = hash.rotate_left(16) ^ attr.hash;
        }
        hash
    }
}

/// Iterates over a list of attributes.
#[derive(Clone, Debug)]
pub struct AttrIter<'a> {
    attrs: Attrs<'a>,
    at: usize,
}

impl<'a> Iterator for AttrIter<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let (list, at) = (self.attrs.list, self.at);
        if is_last(list, at) {
            return None;
        }
        self.at = next(list, at);
        let name_len = usize::from(byte(list, at));
        let size = le32(list, at.saturating_add(8));
        let value_ino = le32(list, at.saturating_add(4));
        let len = if value_ino == 0 {
            usize::try_from(size).unwrap_or(usize::MAX)
        } else {
            0
        };
        let start = usize::from(le16(list, at.saturating_add(2)));
        Some(Attr {
            index: byte(list, at.saturating_add(1)),
            name: list.get(at.saturating_add(ENTRY)..)?.get(..name_len)?,
            value: if len == 0 {
                &[]
            } else {
                self.attrs.base.get(start..)?.get(..len)?
            },
            size,
            value_ino,
            hash: le32(list, at.saturating_add(12)),
        })
    }
}

/// Reads the attributes in an inode's own space ([`crate::inode::xattr_region`]); `None` if there
/// are none, which the missing magic tells.
pub fn ibody<'a>(region: &'a [u8], rules: &Rules) -> Result<Option<Attrs<'a>>> {
    if le32(region, 0) != MAGIC {
        return Ok(None);
    }
    // Offsets of values count from the first entry.
    let base = region.get(END..).unwrap_or(&[]);
    Attrs::new(base, 0, rules).map(Some)
}

/// Reads a block of attributes that fills `buf`. The checksum is not looked at; see
/// [`verify_block`].
pub fn block<'a>(buf: &'a [u8], rules: &Rules) -> Result<(BlockHeader, Attrs<'a>)> {
    want(buf, BLOCK_HEADER, "attribute buffer too short")?;
    check(
        le32(buf, 0) == MAGIC && le32(buf, 8) == 1,
        "invalid header of an attribute block",
    )?;
    let header = BlockHeader {
        refcount: le32(buf, 4),
        hash: le32(buf, 12),
    };
    Ok((header, Attrs::new(buf, BLOCK_HEADER, rules)?))
}

/// Whether a value of `len` bytes is kept with its name. On a volume with `ea_inode` a longer one is
/// kept in an inode, which leaves room in the block for other names.
pub fn is_for_block(len: usize, block_size: u32) -> bool {
    let most = usize::try_from(block_size)
        .unwrap_or(usize::MAX)
        .saturating_sub(BLOCK_HEADER.saturating_add(END))
        // A name of three bytes.
        .saturating_sub(entry_size(3));
    len.saturating_add(3) & !3 <= most
}

/// Checks the checksum of a block of attributes that fills `buf` and lies at `nr`. `seed` is the
/// volume's.
pub fn verify_block(buf: &[u8], nr: u64, seed: Option<Seed>) -> Result<()> {
    let Some(seed) = seed else { return Ok(()) };
    want(buf, BLOCK_HEADER, "attribute buffer too short")?;
    let crc = crc32c(seed.0, &nr.to_le_bytes());
    if crc32c_without(crc, buf, BLOCK_CSUM_AT, 4) != le32(buf, BLOCK_CSUM_AT) {
        return Err(Error::BadChecksum("attribute block checksum is wrong"));
    }
    Ok(())
}

/// Sets the checksum of a block of attributes that fills `buf` and lies at `nr`. `seed` is the
/// volume's.
pub fn update_block_checksum(buf: &mut [u8], nr: u64, seed: Option<Seed>) -> Result<()> {
    want(buf, BLOCK_HEADER, "attribute buffer too short")?;
    if let Some(seed) = seed {
        let crc = crc32c(seed.0, &nr.to_le_bytes());
        let crc = crc32c_without(crc, buf, BLOCK_CSUM_AT, 4);
        put_le32(buf, BLOCK_CSUM_AT, crc);
    }
    Ok(())
}

/// Sets how many inodes share the block of attributes that fills `buf` and lies at `nr`, and its
/// checksum. `seed` is the volume's.
pub fn set_refcount(buf: &mut [u8], refcount: u32, nr: u64, seed: Option<Seed>) -> Result<()> {
    want(buf, BLOCK_HEADER, "attribute buffer too short")?;
    put_le32(buf, 4, refcount);
    update_block_checksum(buf, nr, seed)
}

/// The hash of one attribute in a block: over the name and the words of the value, the last one
/// filled up with zeros. Of a value in an inode it is over the value's own hash, which is a
/// checksum with [`SuperBlock::seed`].
pub fn entry_hash(name: &[u8], value: &[u8]) -> u32 {
    let hash = name
        .iter()
        .fold(0u32, |h, &b| h.rotate_left(5) ^ u32::from(b));
    hash_value(hash, value)
}

/// [`entry_hash`] as kernels computed it for which characters are signed. Attributes whose values
/// are in inodes may have it.
pub fn entry_hash_signed(name: &[u8], value: &[u8]) -> u32 {
    let hash = name.iter().fold(0u32, |h, &b| {
        h.rotate_left(5) ^ i32::from(i8::from_le_bytes([b])) as u32
    });
    hash_value(hash, value)
}

fn hash_value(hash: u32, value: &[u8]) -> u32 {
    value.chunks(4).fold(hash, |h, word| {
        let mut bytes = [0u8; 4];
        for (dst, src) in bytes.iter_mut().zip(word) {
            *dst = *src;
        }
        h.rotate_left(16) ^ u32::from_le_bytes(bytes)
    })
}
