// SPDX-License-Identifier: GPL-2.0

//! A tree as text, one line a node: equal text means equal trees.

use crate::rng::Digest;
use crate::sys::{errno, extent, meta};
use crate::why::{Why, Within};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What a manifest says beside names, types, owners, sizes, times and contents.
#[derive(Clone, Copy, Debug)]
pub struct Details {
    /// Where the data lies: blocks taken, SEEK_HOLE/SEEK_DATA, FIEMAP. To be left out while data
    /// is not written yet.
    pub layout: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Last access and inode number.
    pub access: bool,
}

/// Writes the manifest of everything below `root` to `out`, names sorted in each directory.
/// A node that cannot be read has its error in its line.
pub fn manifest(root: &Path, details: Details, out: &mut impl Write) -> Result<(), Why> {
    let mut writer = Writer {
        root,
        details,
        buffer: vec![0; 1 << 20],
        out,
    };
    writer.directory(Path::new(""))
}

struct Writer<'a, W> {
    root: &'a Path,
    details: Details,
    buffer: Vec<u8>,
    out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    fn directory(&mut self, dir: &Path) -> Result<(), Why> {
        let listed = fs::read_dir(self.root.join(dir)).and_then(Iterator::collect);
        let listed: Vec<_> = listed.within(|| format!("listing {}", dir.display()))?;
        let mut names: Vec<_> = listed.iter().map(fs::DirEntry::file_name).collect();
        names.sort();
        for name in names {
            let path = dir.join(name);
            let is_dir = self.node(&path)?;
            if is_dir {
                self.directory(&path)?;
            }
        }
        Ok(())
    }

    /// Writes the line of `path` and says whether it is a directory.
    fn node(&mut self, path: &Path) -> Result<bool, Why> {
        let mut line = shown(path.as_os_str());
        let full = self.root.join(path);
        let found = match fs::symlink_metadata(&full) {
            Ok(found) => found,
            Err(e) => {
                writeln!(self.out, "{line} unreadable: {e}")?;
                return Ok(false);
            }
        };
        self.attributes(&full, &found, &mut line)?;
        if found.is_file() {
            let content = self.content(&full, &found, &mut line);
            if let Err(e) = content {
                write!(line, " content: {e}").map_err(|_| "no memory")?;
            }
        } else if found.is_symlink() {
            let target = fs::read_link(&full).map_or_else(|e| e.to_string(), |t| shown(t.as_ref()));
            line.push_str(" -> ");
            line.push_str(&target);
        }
        if self.details.xattrs {
            xattrs(&full, &mut line);
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        Ok(found.is_dir())
    }

    fn attributes(&self, path: &Path, found: &Metadata, line: &mut String) -> Result<(), Why> {
        let statx = meta::statx(path)?;
        let time = |s, ns| format!("{s}.{ns:09}");
        let mut text = format!(
            " mode={:o} owner={}:{} links={} rdev={:x} mtime={} ctime={} attributes={:x}",
            found.mode(),
            found.uid(),
            found.gid(),
            found.nlink(),
            found.rdev(),
            time(found.mtime(), found.mtime_nsec()),
            time(found.ctime(), found.ctime_nsec()),
            statx.attributes,
        );
        if let Some(born) = statx.born {
            text.push_str(&format!(" born={}", time(born.seconds, born.nanos)));
        }
        // A directory's size is its blocks: two filesystems that read one volume must agree.
        text.push_str(&format!(" size={}", found.size()));
        if self.details.access {
            let atime = time(found.atime(), found.atime_nsec());
            text.push_str(&format!(" ino={} atime={atime}", found.ino()));
        }
        if self.details.layout {
            text.push_str(&format!(" blocks={}", found.blocks()));
        }
        line.push_str(&text);
        Ok(())
    }

    fn content(&mut self, path: &Path, found: &Metadata, line: &mut String) -> Result<(), Why> {
        if found.size() == 0 && found.blocks() == 0 {
            return Ok(());
        }
        let file = File::open(path)?;
        let ranges = extent::data_ranges(&file)?;
        let digest = digest(&file, found.size(), &ranges, &mut self.buffer)?;
        line.push_str(&format!(" digest={digest:016x}"));
        if !self.details.layout {
            return Ok(());
        }
        let show = |(from, to): (u64, u64)| format!("{from}-{to}");
        let ranges = listed(ranges.into_iter().map(show));
        let show =
            |e: extent::Extent| format!("{}+{}@{}:{:x}", e.logical, e.length, e.physical, e.flags);
        let extents = listed(
            extent::joined(&extent::fiemap(&file, false)?)
                .into_iter()
                .map(show),
        );
        line.push_str(&format!(" data={ranges} extents={extents}"));
        Ok(())
    }
}

/// `items` in a row; for more than eight only their number, their digest and the first ones.
fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    let all = items.join(",");
    if items.len() <= 8 {
        return all;
    }
    let mut digest = Digest::new();
    digest.update(all.as_bytes());
    format!(
        "{}({}:{:016x})",
        items[..4].join(","),
        items.len(),
        digest.finish()
    )
}

/// The digest of the file's bytes. Of a file far larger than its data, only the data ranges and
/// where they start are taken in: reading terabytes of zeros would take the day.
pub fn digest(file: &File, size: u64, ranges: &[(u64, u64)], buffer: &mut [u8]) -> io::Result<u64> {
    /// Holes up to this are read as well.
    const WHOLE: u64 = 256 << 20;
    let mut digest = Digest::new();
    let whole = [(0, size)];
    let parts = if size <= WHOLE { &whole[..] } else { ranges };
    for &(from, to) in parts {
        digest.update(&from.to_le_bytes());
        let mut at = from;
        while at < to.min(size) {
            let length = (to.min(size) - at).min(buffer.len() as u64) as usize;
            let got = read_full(file, &mut buffer[..length], at)?;
            digest.update(&buffer[..got]);
            if got < length {
                return Err(io::Error::other(format!(
                    "the file ends at {}",
                    at + got as u64
                )));
            }
            at += length as u64;
        }
    }
    Ok(digest.finish())
}

/// Reads until `buffer` is full or the file ends.
pub fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

fn xattrs(path: &Path, line: &mut String) {
    let names = match meta::xattr_names(path) {
        Ok(names) => names,
        Err(e) => {
            line.push_str(&format!(" xattrs: errno {}", errno(&e)));
            return;
        }
    };
    for name in names {
        let value = match meta::xattr(path, &name) {
            Ok(value) => {
                let mut digest = Digest::new();
                digest.update(&value);
                format!("{}:{:016x}", value.len(), digest.finish())
            }
            Err(e) => format!("errno {}", errno(&e)),
        };
        line.push_str(&format!(" {}={value}", shown(OsStr::from_bytes(&name))));
    }
}

/// A name with every byte that is not a plain character as `\xx`.
fn shown(name: &OsStr) -> String {
    let mut text = String::new();
    for &byte in name.as_bytes() {
        if byte.is_ascii_graphic() && byte != b'\\' {
            text.push(byte.into());
        } else {
            text.push_str(&format!("\\{byte:02x}"));
        }
    }
    text
}
