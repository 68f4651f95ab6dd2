// SPDX-License-Identifier: GPL-2.0

//! What of a file both sides must agree on.

use super::side::Side;
use crate::manifest::read_full;
use crate::sys::meta::{self, Time};
use crate::sys::{errno, extent, stat};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Files up to this are read whole, in bytes.
const WHOLE: u64 = 128 << 10;

/// A difference between the two sides.
#[derive(Clone, Debug)]
pub struct Differs {
    /// What kind of it, in a word.
    pub kind: &'static str,
    /// What it is.
    pub text: String,
}

impl Differs {
    /// A difference of this kind.
    pub fn new(kind: &'static str, text: String) -> Self {
        Self { kind, text }
    }

    /// The same, with what it is about.
    pub fn of(self, what: &str) -> Self {
        Self {
            text: format!("{what}: {}", self.text),
            ..self
        }
    }
}

/// A file as one side shows it. What two filesystems need not agree on is kept apart.
#[derive(Debug)]
pub struct Look {
    /// Mode, links, owner and the like, as text; what a link points to; all attributes.
    line: String,
    /// As `statx` gives it.
    pub stat: stat::Stat,
}

impl Look {
    /// At `path`, a link itself.
    pub fn at(path: &Path, sizes: bool) -> io::Result<Self> {
        let found = stat::of(path)?;
        let mut look = Self::new(found, sizes);
        if found.mode & libc::S_IFMT == libc::S_IFLNK {
            let target = fs::read_link(path)?;
            let _ = write!(look.line, " to {}", target.display());
        }
        look.attributes(path)?;
        Ok(look)
    }

    /// An open file, without its attributes.
    pub fn open(file: &File, sizes: bool) -> io::Result<Self> {
        Ok(Self::new(stat::of_open(file)?, sizes))
    }

    fn new(stat: stat::Stat, sizes: bool) -> Self {
        let mut line = format!(
            "mode {:o}, {} links, owner {}:{}, device {:?}, attributes {:x}, blocks of {}",
            stat.mode,
            stat.links,
            stat.uid,
            stat.gid,
            stat.device,
            stat.attributes,
            stat.block_size
        );
        if sizes || stat.mode & libc::S_IFMT != libc::S_IFDIR {
            let _ = write!(line, ", {} bytes", stat.size);
        }
        Self { line, stat }
    }

    fn attributes(&mut self, path: &Path) -> io::Result<()> {
        for name in meta::xattr_names(path)? {
            let value = match meta::xattr(path, &name) {
                Ok(value) => shown(&value),
                Err(e) => format!("errno {}", errno(&e)),
            };
            let _ = write!(self.line, ", {}={value}", String::from_utf8_lossy(&name));
        }
        Ok(())
    }

    /// The file's identity: its number may be used again, but then the file is younger.
    pub fn identity(&self) -> (u64, Option<Time>) {
        (self.stat.inode, self.stat.born)
    }

    /// Which of its times the file `older` did not have yet: of its content, of its inode.
    pub fn times_changed(&self, older: &Look) -> (bool, bool) {
        (
            self.stat.modified != older.stat.modified,
            self.stat.changed != older.stat.changed,
        )
    }

    /// Compares with the other side's. Times are the same if somebody set them, and of this run if
    /// nobody did.
    pub fn compare(&self, other: &Look, since: Time, until: Time) -> Result<(), Differs> {
        if self.line != other.line {
            let text = format!("{}\n  against {}", self.line, other.line);
            return Err(Differs::new("stat", text));
        }
        let times = |look: &Look| {
            let s = &look.stat;
            let born = s.born.unwrap_or(since);
            [
                ("atime", s.accessed),
                ("mtime", s.modified),
                ("ctime", s.changed),
                ("birth time", born),
            ]
        };
        for ((name, own), (_, other)) in times(self).into_iter().zip(times(other)) {
            let ours = |time: Time| (since..=until).contains(&time);
            if own != other && !(ours(own) && ours(other)) {
                let text = format!("{name} {own:?}\n  against {other:?}");
                return Err(Differs::new("time", text));
            }
        }
        Ok(())
    }
}

/// A value, cut to what tells it apart.
pub fn shown(value: &[u8]) -> String {
    let text: String = value.escape_ascii().take(160).map(char::from).collect();
    if value.len() <= 40 {
        return text;
    }
    let mut digest = crate::rng::Digest::new();
    digest.update(value);
    format!("{} bytes {:016x} {text}", value.len(), digest.finish())
}

/// Compares what both files hold; of large ones, and with `around` only what may have changed
/// there: so many bytes from this one on.
pub fn contents(own: &File, other: &File, around: Option<(u64, u64)>) -> Result<(), Differs> {
    let failed = |e: io::Error| Differs::new("content", format!("not readable: {e}"));
    let size = own.metadata().map_err(failed)?.len();
    if size <= WHOLE {
        return range(own, other, 0, size + 1);
    }
    if let Some((from, length)) = around {
        let from = from.saturating_sub(4096).min(size);
        range(own, other, from, (length + 8192).min(size - from))?;
        return range(own, other, size - 4096, 8192);
    }
    for file in [own, other] {
        for (from, to) in extent::data_ranges(file).map_err(failed)? {
            range(own, other, from, to.min(size).saturating_sub(from))?;
        }
    }
    Ok(())
}

/// Compares `length` bytes from `from` on, or up to the end of the files.
fn range(own: &File, other: &File, from: u64, length: u64) -> Result<(), Differs> {
    let (mut at, end) = (from, from.saturating_add(length));
    while at < end {
        let some = (end - at).min(64 << 10) as usize;
        let read = |file: &File| {
            let mut buffer = vec![0; some];
            let got = read_full(file, &mut buffer, at);
            got.map(|n| {
                buffer.truncate(n);
                buffer
            })
            .map_err(|e| errno(&e))
        };
        let (own, other) = (read(own), read(other));
        if own != other {
            return Err(Differs::new("content", first_difference(at, own, other)));
        }
        at += some as u64;
    }
    Ok(())
}

fn first_difference(at: u64, own: Result<Vec<u8>, i32>, other: Result<Vec<u8>, i32>) -> String {
    let (own, other) = match (own, other) {
        (Ok(own), Ok(other)) => (own, other),
        (own, other) => {
            let answer = |r: Result<Vec<u8>, i32>| r.map(|bytes| bytes.len());
            return format!(
                "reading at {at}: {:?}\n  against {:?}",
                answer(own),
                answer(other)
            );
        }
    };
    let same = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let differing = own.iter().zip(&other).filter(|(a, b)| a != b).count();
    let part = |bytes: &[u8]| {
        format!(
            "{:02x?}",
            bytes.iter().skip(same).take(16).collect::<Vec<_>>()
        )
    };
    format!(
        "from byte {} on ({differing} bytes differ, {} and {} were read): {}\n  against {}",
        at + same as u64,
        own.len(),
        other.len(),
        part(&own),
        part(&other)
    )
}

/// What is at `path` on both sides, if it is there at all; an error where it is on one alone.
pub fn both(sides: &[Side; 2], path: &str, sizes: bool) -> io::Result<Option<[Look; 2]>> {
    let looks = sides.each_ref().map(|side| Look::at(&side.at(path), sizes));
    let gone = |e: &io::Error| {
        [libc::ENOENT, libc::ENOTDIR, libc::ENAMETOOLONG, libc::ELOOP].contains(&errno(e))
    };
    match looks {
        [Ok(own), Ok(other)] => Ok(Some([own, other])),
        [Err(own), Err(other)] if gone(&own) && errno(&own) == errno(&other) => Ok(None),
        [own, other] => {
            let answer = |r: io::Result<Look>| r.map_or_else(|e| e.to_string(), |_| "there".into());
            Err(io::Error::other(format!(
                "{path}: {}\n  against {}",
                answer(own),
                answer(other)
            )))
        }
    }
}
