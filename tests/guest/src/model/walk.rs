// SPDX-License-Identifier: GPL-2.0

//! Both trees, compared as a whole.

use super::look::{self, Differs, Look};
use super::side::Side;
use crate::sys::meta::Time;
use crate::sys::{dir, extent, volume};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A file in more pieces than this needs blocks for its map, and the two need not agree how many.
const PIECES: usize = 4;
/// Such blocks that one in fewer pieces may still have, from when it was in more.
const MAP: u64 = 2;

/// A comparison of all there is.
pub struct Walk<'a> {
    pub sides: &'a [Side; 2],
    /// Sizes of directories are compared.
    pub sizes: bool,
    /// Times that nobody set are from here ...
    pub since: Time,
    /// ... to here.
    pub until: Time,
    /// All is on the disk, so that blocks can be compared.
    pub settled: bool,
    /// Files whose holes may differ.
    pub vague: &'a BTreeSet<(u64, Option<Time>)>,
}

/// The names in a directory, with kinds.
type Names = Vec<(OsString, u8)>;

impl Walk<'_> {
    /// Compares.
    pub fn run(&self) -> Result<(), Differs> {
        let mut todo = vec![".".to_owned()];
        // The two number inodes as they like, but what is one file here is one file there.
        let mut twins: BTreeMap<u64, u64> = BTreeMap::new();
        while let Some(path) = todo.pop() {
            let kind = self.node(&path, &mut twins).map_err(|d| d.of(&path))?;
            if kind == libc::S_IFDIR {
                for name in self.names(&path)? {
                    todo.push(format!("{path}/{name}"));
                }
            }
        }
        let own: BTreeSet<_> = twins.values().collect();
        if own.len() != twins.len() {
            return Err(Differs::new(
                "links",
                "one file is two on the other side".into(),
            ));
        }
        self.space()
    }

    /// Compares one file and says what kind it is.
    fn node(&self, path: &str, twins: &mut BTreeMap<u64, u64>) -> Result<u32, Differs> {
        let failed = |e: io::Error| Differs::new("existence", e.to_string());
        let found = look::both(self.sides, path, self.sizes).map_err(failed)?;
        let Some([own, other]) = found else {
            return Err(Differs::new("existence", "listed, and not there".into()));
        };
        own.compare(&other, self.since, self.until)?;
        let twin = *twins.entry(own.stat.inode).or_insert(other.stat.inode);
        if twin != other.stat.inode {
            return Err(Differs::new("links", "is another file on one side".into()));
        }
        let kind = own.stat.mode & libc::S_IFMT;
        let blocks = if kind == libc::S_IFREG {
            self.file(path, &other)?
        } else {
            kind != libc::S_IFDIR || self.sizes
        };
        let mapped = kind == libc::S_IFREG || kind == libc::S_IFDIR;
        let most = if mapped {
            MAP * u64::from(own.stat.block_size) / 512
        } else {
            0
        };
        if self.settled && blocks && own.stat.blocks.abs_diff(other.stat.blocks) > most {
            let text = format!(
                "{} sectors\n  against {}",
                own.stat.blocks, other.stat.blocks
            );
            return Err(Differs::new("blocks", text));
        }
        Ok(kind)
    }

    /// Compares a file's content and holes, and says whether its blocks must be as many.
    fn file(&self, path: &str, other: &Look) -> Result<bool, Differs> {
        let failed = |e: io::Error| Differs::new("content", e.to_string());
        if other.stat.size == 0 && other.stat.blocks == 0 {
            return Ok(true);
        }
        let open = |side: &Side| File::open(side.at(path));
        let (own, twin) = (
            open(&self.sides[0]).map_err(failed)?,
            open(&self.sides[1]).map_err(failed)?,
        );
        look::contents(&own, &twin, None)?;
        if self.vague.contains(&other.identity()) {
            return Ok(false);
        }
        let ranges = |file| extent::data_ranges(file).map_err(failed);
        let (data, wanted) = (ranges(&own)?, ranges(&twin)?);
        if data != wanted {
            let text = format!("{data:?}\n  against {wanted:?}");
            return Err(Differs::new("holes", text));
        }
        if !self.settled {
            return Ok(false);
        }
        let pieces = |file| {
            extent::fiemap(file, false)
                .map(|all| all.len())
                .map_err(failed)
        };
        Ok(pieces(&own)? <= PIECES && pieces(&twin)? <= PIECES)
    }

    /// The names in a directory, which must be the same.
    fn names(&self, path: &str) -> Result<Vec<String>, Differs> {
        let read = |side: &Side| {
            let all = dir::read_all(&dir::open(&side.at(path))?, 32 << 10)?;
            let mut names: Names = all.into_iter().map(|e| (e.name, e.kind)).collect();
            names.sort();
            Ok::<_, io::Error>(names)
        };
        let [own, other] = self
            .sides
            .each_ref()
            .map(|side| read(side).map_err(|e| e.raw_os_error()));
        if own != other {
            let text = name_difference(&own, &other);
            return Err(Differs::new("listing", text).of(path));
        }
        let names = own.unwrap_or_default().into_iter();
        let names = names.map(|(name, _)| String::from_utf8_lossy(name.as_bytes()).into_owned());
        Ok(names.filter(|name| name != "." && name != "..").collect())
    }

    /// Counts of the volumes.
    fn space(&self) -> Result<(), Differs> {
        let space = |side: &Side| {
            let space = volume::space(&side.root);
            space.map(|s| (s.block, s.blocks, s.files, s.free_files, s.name))
        };
        let [own, other] = self.sides.each_ref().map(space);
        match (own, other) {
            (Ok(own), Ok(other)) if own == other => Ok(()),
            (own, other) => Err(Differs::new(
                "statfs",
                format!("{own:?}\n  against {other:?}"),
            )),
        }
    }
}

/// What is in one listing and not in the other.
pub fn name_difference(
    own: &Result<Names, Option<i32>>,
    other: &Result<Names, Option<i32>>,
) -> String {
    let (Ok(own), Ok(other)) = (own, other) else {
        let answer = |r: &Result<Names, Option<i32>>| r.as_ref().map(Vec::len).map_err(|e| *e);
        return format!("{:?}\n  against {:?}", answer(own), answer(other));
    };
    let only = |a: &Names, b: &Names| {
        let b: BTreeSet<_> = b.iter().collect();
        let only: Vec<_> = a.iter().filter(|name| !b.contains(name)).take(4).collect();
        format!("{} names, {only:?} only here", a.len())
    };
    format!("{}\n  against {}", only(own, other), only(other, own))
}
