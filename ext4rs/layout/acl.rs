// SPDX-License-Identifier: GPL-2.0

//! The stored form of POSIX ACLs: version 1, entries of 4 bytes, or 8 where a user or group is
//! named.

use crate::bytes::{le16, le32, put_le16, put_le32};
use crate::error::{check, Error, Result};

const VERSION: u32 = 1;
const HEADER: usize = 4;
const SHORT: usize = 4;
const LONG: usize = 8;

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The owner (1).
    UserObj,
    /// This user (2).
    User(u32),
    /// The file's group (4).
    GroupObj,
    /// This group (8).
    Group(u32),
    /// The most that all but owner and others may have (16).
    Mask,
    /// Everybody else (32).
    Other,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom it is about.
    pub tag: Tag,
    /// Permission bits; only read (4), write (2) and execute (1) mean something.
    pub perm: u16,
}

/// A checked ACL.
#[derive(Clone, Copy, Debug)]
pub struct Acl<'a> {
    entries: &'a [u8],
    count: usize,
}

/// Reads an entry and gives its length.
fn read(entries: &[u8]) -> Result<(AclEntry, usize)> {
    check(entries.len() >= SHORT, "ACL entry out of bounds")?;
    let id = le32(entries, SHORT);
    let (tag, len) = match le16(entries, 0) {
        1 => (Tag::UserObj, SHORT),
        2 => (Tag::User(id), LONG),
        4 => (Tag::GroupObj, SHORT),
        8 => (Tag::Group(id), LONG),
        16 => (Tag::Mask, SHORT),
        32 => (Tag::Other, SHORT),
        _ => return Err(Error::Corrupt("unknown ACL tag")),
    };
    check(entries.len() >= len, "ACL entry out of bounds")?;
    Ok((
        AclEntry {
            tag,
            perm: le16(entries, 2),
        },
        len,
    ))
}

/// Checks the value of an ACL attribute. Whether the entries make a valid ACL together is for the
/// kernel's `posix_acl_valid` to say.
pub fn decode(value: &[u8]) -> Result<Acl<'_>> {
    check(value.len() >= HEADER, "ACL too short")?;
    check(le32(value, 0) == VERSION, "unknown ACL version")?;
    let entries = value.get(HEADER..).unwrap_or(&[]);
    let (mut rest, mut count) = (entries, 0usize);
    while !rest.is_empty() {
        let (_, len) = read(rest)?;
        rest = rest.get(len..).unwrap_or(&[]);
        count = count.saturating_add(1);
    }
    Ok(Acl { entries, count })
}

/// Bytes of the value of an ACL attribute with these entries.
pub fn encoded_len(entries: &[AclEntry]) -> usize {
    entries.iter().fold(HEADER, |len, entry| {
        len.saturating_add(entry_len(entry.tag))
    })
}

fn entry_len(tag: Tag) -> usize {
    match tag {
        Tag::User(_) | Tag::Group(_) => LONG,
        _ => SHORT,
    }
}

/// Writes the value of an ACL attribute to `out`, which has [`encoded_len`] bytes for it.
pub fn encode(entries: &[AclEntry], out: &mut [u8]) -> Result<()> {
    if out.len() < encoded_len(entries) {
        return Err(Error::Argument("ACL buffer too short"));
    }
    put_le32(out, 0, VERSION);
    let mut at = HEADER;
    for entry in entries {
        let (tag, id) = match entry.tag {
            Tag::UserObj => (1, None),
            Tag::User(id) => (2, Some(id)),
            Tag::GroupObj => (4, None),
            Tag::Group(id) => (8, Some(id)),
            Tag::Mask => (16, None),
            Tag::Other => (32, None),
        };
        put_le16(out, at, tag);
        put_le16(out, at.saturating_add(2), entry.perm);
        if let Some(id) = id {
            put_le32(out, at.saturating_add(SHORT), id);
        }
        at = at.saturating_add(entry_len(entry.tag));
    }
    Ok(())
}

impl<'a> Acl<'a> {
    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The entries, as stored.
    pub fn iter(&self) -> impl Iterator<Item = AclEntry> + 'a {
        let mut rest = self.entries;
        core::iter::from_fn(move || {
            let (entry, len) = read(rest).ok()?;
            rest = rest.get(len..).unwrap_or(&[]);
            Some(entry)
        })
    }
}
