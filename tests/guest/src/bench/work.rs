// SPDX-License-Identifier: GPL-2.0

//! The steps of a workload that this program takes itself: one process, so that what is counted is
//! the filesystem's.

use crate::args::Args;
use crate::rng::Rng;
use crate::sys::map::{Aligned, Map};
use crate::sys::xattr;
use crate::why::{require, Why};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Files in one directory of a tree.
const CROWD: usize = 100;

/// Takes a step below `dir`, and says how many bytes it moved.
pub fn carry_out(dir: &Path, step: &str) -> Result<u64, Why> {
    let mut words = step.split_whitespace().map(str::to_owned);
    let verb = words.next().unwrap_or_default();
    let args = Args::new(words);
    let path = dir.join(args.path(0)?);
    let count: usize = args.number("count", 1000)?;
    match verb.as_str() {
        "write" => write(&path, &args),
        "read" => read(&path, &args),
        "appends" => appends(&path, count),
        "stores" => stores(&path, args.bytes("bytes", "64M")?),
        "small" => small(&path, count, args.bytes("each", "8K")?),
        "empty" => empty(&path, count),
        "rename" => rename(&path, count),
        "attributes" => attributes(&path, count),
        "remove" => Ok(fs::remove_dir_all(&path).map(|()| 0)?),
        "list" => list(&path).map(|_| 0),
        "read-tree" => read_tree(&path),
        _ => Err(format!("no such step: {verb}").into()),
    }
}

/// The places of the calls of a file's bytes, one after the other or in a random order.
fn places(bytes: u64, call: u64, random: bool) -> Vec<u64> {
    let mut places: Vec<u64> = (0..bytes).step_by(call.max(1) as usize).collect();
    if random {
        Rng::new(1).shuffle(&mut places);
    }
    places
}

fn write(path: &Path, args: &Args) -> Result<u64, Why> {
    let (bytes, call) = (args.bytes("bytes", "64M")?, args.bytes("call", "1M")?);
    let direct = if args.has("direct") {
        libc::O_DIRECT
    } else {
        0
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(direct)
        .open(path)?;
    let mut data = Aligned::new(call as usize)?;
    for at in places(bytes, call, args.has("random")) {
        file.write_all_at(data.bytes(), at)?;
    }
    Ok(bytes)
}

fn read(path: &Path, args: &Args) -> Result<u64, Why> {
    let call = args.bytes("call", "1M")?;
    let direct = if args.has("direct") {
        libc::O_DIRECT
    } else {
        0
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)?;
    let mut data = Aligned::new(call as usize)?;
    // A device tells no size.
    let bytes = args.bytes("bytes", "0")?.max(file.metadata()?.len());
    for at in places(bytes, call, args.has("random")) {
        file.read_exact_at(data.bytes(), at)?;
    }
    Ok(bytes)
}

/// 4 KiB, `fsync`, and again.
fn appends(path: &Path, count: usize) -> Result<u64, Why> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    for _ in 0..count {
        std::io::Write::write_all(&mut &file, &[1; 4096])?;
        file.sync_all()?;
    }
    Ok(count as u64 * 4096)
}

/// A word into each page of a new file, in a random order.
fn stores(path: &Path, bytes: u64) -> Result<u64, Why> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.set_len(bytes)?;
    let map = Map::new(&file, 0, bytes as usize, true)?;
    for at in places(bytes, 4096, true) {
        map.store(at as usize, &at.to_le_bytes());
    }
    Ok(bytes)
}

fn small(dir: &Path, count: usize, each: u64) -> Result<u64, Why> {
    fs::create_dir_all(dir)?;
    let data = vec![1; each as usize];
    for i in 0..count {
        let below = dir.join(format!("d{}", i / CROWD));
        if i % CROWD == 0 {
            fs::create_dir(&below)?;
        }
        fs::write(below.join(format!("f{i}")), &data)?;
    }
    Ok(count as u64 * each)
}

fn empty(dir: &Path, count: usize) -> Result<u64, Why> {
    fs::create_dir(dir)?;
    for i in 0..count {
        File::create_new(dir.join(format!("f{i}")))?;
    }
    Ok(0)
}

/// Makes each file in one directory and gives it a name in another.
fn rename(dir: &Path, count: usize) -> Result<u64, Why> {
    let (from, to) = (dir.join("from"), dir.join("to"));
    fs::create_dir(dir)?;
    fs::create_dir(&from)?;
    fs::create_dir(&to)?;
    for i in 0..count {
        let name = format!("f{i}");
        File::create_new(from.join(&name))?;
        fs::rename(from.join(&name), to.join(&name))?;
    }
    Ok(0)
}

fn attributes(dir: &Path, count: usize) -> Result<u64, Why> {
    fs::create_dir(dir)?;
    for i in 0..count {
        let path = dir.join(format!("f{i}"));
        File::create_new(&path)?;
        for name in [b"user.first", b"user.other"] {
            xattr::set(&path, name, format!("{i:0>40}").as_bytes(), 0)?;
        }
    }
    Ok(0)
}

/// What `find -printf '%s %t'` asks of the filesystem; the number of files.
fn list(dir: &Path) -> Result<u64, Why> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        about.modified()?;
        count += 1;
        if about.is_dir() {
            count += list(&entry.path())?;
        }
    }
    Ok(count)
}

fn read_tree(dir: &Path) -> Result<u64, Why> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bytes += read_tree(&entry.path())?;
        } else if kind.is_file() {
            bytes += fs::read(entry.path())?.len() as u64;
        }
    }
    require(bytes > 0 || dir.exists(), || "nothing to read".into())?;
    Ok(bytes)
}
