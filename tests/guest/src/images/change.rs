// SPDX-License-Identifier: GPL-2.0

//! Changed bytes in good structures.

use super::parts::{Kind, Part, Volume};
use crate::rng::Rng;
use crate::why::Why;
use std::fmt;

/// What was done to an image.
#[derive(Debug)]
pub struct Change {
    /// The structure.
    pub part: Part,
    /// Offset in the structure, the byte before and after.
    pub bytes: Vec<(usize, u8, u8)>,
    /// The checksum was made to fit again.
    pub resealed: bool,
    /// What was done to other structures, so that this one is looked at.
    pub also: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { kind, at, .. } = self.part;
        write!(f, "{kind:?} at byte {at} of the volume")?;
        for (offset, before, after) in &self.bytes {
            write!(f, ", +{offset:#x}: {before:#04x} -> {after:#04x}")?;
        }
        f.write_str(if self.resealed {
            ", checksum made to fit"
        } else {
            ""
        })?;
        f.write_str(&self.also)
    }
}

/// The sorts of structures: so many images are made of each.
pub const SORTS: [&str; 10] = [
    "superblock",
    "descriptor",
    "inode",
    "extents",
    "directory",
    "index",
    "attributes",
    "bitmap",
    "orphans",
    "journal",
];

/// True where `kind` is of this sort.
fn is_of(sort: &str, kind: Kind) -> bool {
    match kind {
        Kind::Super => sort == "superblock",
        Kind::Group(_) => sort == "descriptor",
        Kind::Inode(_) => sort == "inode",
        Kind::Extents(_) => sort == "extents",
        Kind::Entries(_) => sort == "directory",
        Kind::Index(_) => sort == "index",
        Kind::Attributes(_) => sort == "attributes",
        Kind::BlockMap(_) | Kind::InodeMap(_) => sort == "bitmap",
        Kind::Orphans(_) => sort == "orphans",
        Kind::Journal => sort == "journal",
    }
}

/// Where the superblock says what to do on an error.
const ERRORS: usize = 0x3c;
/// "Panic", which would end the test.
const PANIC: u8 = 3;

/// Changes bytes of one structure of that sort in `image`.
pub fn apply(
    image: &mut [u8],
    volume: &Volume,
    parts: &[Part],
    sort: &str,
    resealed: bool,
    rng: &mut Rng,
) -> Result<Change, Why> {
    let fitting: Vec<_> = parts
        .iter()
        .filter(|part| is_of(sort, part.kind))
        .copied()
        .collect();
    if fitting.is_empty() {
        return Err(format!("the image has no {sort}").into());
    }
    let part = rng.pick(&fitting);
    let also = match part.kind {
        Kind::Orphans(_) if rng.chance(50) => {
            return Ok(Change {
                part,
                bytes: Vec::new(),
                resealed: true,
                also: list_orphans(image, volume, rng)?,
            })
        }
        Kind::Orphans(_) => file_orphans(image, volume, &part, rng)?,
        Kind::Journal if rng.chance(50) => {
            volume.want_recovery(image)?;
            ", recovery wanted".into()
        }
        _ => String::new(),
    };
    let mut bytes = Vec::new();
    for _ in 0..rng.pick(&[1, 1, 1, 2, 4]) {
        let offset = rng.below(used(&part, image) as u64) as usize;
        let byte = &mut image[part.at + offset];
        let before = *byte;
        *byte = match rng.below(5) {
            0 => 0,
            1 => 0xff,
            2 => before ^ (1 << rng.below(8)),
            3 => before.wrapping_add(1),
            _ => rng.below(256) as u8,
        };
        if part.kind == Kind::Super && offset == ERRORS && *byte == PANIC {
            *byte = 1;
        }
        bytes.push((offset, before, *byte));
    }
    // All of them may have become what they were.
    if bytes.iter().all(|(_, before, after)| before == after) {
        let (offset, before, after) = &mut bytes[0];
        *after = !*before;
        image[part.at + *offset] = *after;
    }
    if resealed {
        volume.update_checksum(image, &part)?;
    }
    Ok(Change {
        part,
        bytes,
        resealed,
        also,
    })
}

/// An inode to make an orphan of: one of a file, for the most part; a reserved one; none at all.
fn any_inode(volume: &Volume, rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => rng.below(u64::from(volume.inodes()) + 3) as u32,
        1 => rng.below(12) as u32,
        _ => rng.within(11, 60) as u32,
    }
}

/// Makes orphans of inodes that are none, by the list. Returns what was done, in words.
fn list_orphans(image: &mut [u8], volume: &Volume, rng: &mut Rng) -> Result<String, Why> {
    let (ino, next) = (any_inode(volume, rng), any_inode(volume, rng));
    let nameless = rng.chance(60);
    volume.add_to_list(image, ino, next, nameless)?;
    let names = if nameless { " without names" } else { "" };
    Ok(format!(
        ", inode {ino}{names} is the first orphan, then {next}"
    ))
}

/// The same by the orphan file, whose block is `part`.
fn file_orphans(
    image: &mut [u8],
    volume: &Volume,
    part: &Part,
    rng: &mut Rng,
) -> Result<String, Why> {
    let mut said = String::from(", orphans");
    for _ in 0..rng.within(1, 4) {
        let (place, ino) = (rng.below(200) as usize, any_inode(volume, rng));
        volume.add_to_file(image, part, place, ino)?;
        said += &format!(" {ino}");
    }
    Ok(said)
}

/// The part of a structure in which a change is likely to mean something.
fn used(part: &Part, image: &[u8]) -> usize {
    let at = part.at;
    match part.kind {
        Kind::Super => 0x278,
        Kind::Group(_) => part.length,
        Kind::Inode(_) => 0xa0,
        // The header and as many entries as it says.
        Kind::Extents(_) => 12 + 12 * usize::from(image[at + 2]),
        Kind::Entries(_) => part.length,
        // The two dot entries or the fake one, and the first pointers.
        Kind::Index(_) => 80,
        // The header and the first entries.
        Kind::Attributes(_) => 128,
        Kind::BlockMap(_) | Kind::InodeMap(_) => part.length.min(128),
        Kind::Orphans(_) => part.length,
        Kind::Journal => 0x60,
    }
}
