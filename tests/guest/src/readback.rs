// SPDX-License-Identifier: GPL-2.0

//! One file read in every way there is: each must give the same bytes.

use crate::manifest::read_full;
use crate::rng::{Digest, Rng};
use crate::sys::map::{memory_file, Aligned, Map};
use crate::sys::{errno, extent};
use crate::why::{require, shortened, Why, Within};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Files larger than this are left out.
const LARGEST: u64 = 24 << 20;

/// Reads every file below `dir` in every way, and says how many files and bytes that was.
pub fn check(dir: &Path) -> Result<(usize, u64), Why> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            let below = check(&path)?;
            (files, bytes) = (files + below.0, bytes + below.1);
        } else if kind.is_file() {
            let size = entry.metadata()?.len();
            if (1..=LARGEST).contains(&size) {
                check_file(&path, size as usize).within(|| shortened(&path))?;
                (files, bytes) = (files + 1, bytes + size);
            }
        }
    }
    Ok((files, bytes))
}

/// A way to read a whole file of some size.
type Way = (&'static str, fn(&File, usize) -> io::Result<u64>);

fn check_file(path: &Path, size: usize) -> Result<(), Why> {
    let file = File::open(path)?;
    let want = in_large_calls(&file, size)?;
    let ways: [Way; 6] = [
        ("in odd pieces", in_odd_pieces),
        ("in random order", in_random_order),
        ("mapped", mapped),
        ("mapped in random order", mapped_in_random_order),
        ("sent", sent),
        ("to the end", to_the_end),
    ];
    for (name, way) in ways {
        extent::forget(&file)?;
        let is = way(&file, size).within(|| format!("read {name}"))?;
        require(is == want, || format!("read {name} gives other bytes"))?;
    }
    match OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
    {
        Ok(file) => {
            let is = direct(&file, size).within(|| "read directly".into())?;
            require(is == want, || "read directly gives other bytes".into())
        }
        Err(e) if [libc::EINVAL, libc::EOPNOTSUPP].contains(&errno(&e)) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new();
    digest.update(bytes);
    digest.finish()
}

fn in_large_calls(file: &File, size: usize) -> io::Result<u64> {
    let mut all = vec![0; size];
    file.read_exact_at(&mut all, 0)?;
    Ok(digest(&all))
}

fn in_odd_pieces(file: &File, size: usize) -> io::Result<u64> {
    extent::advise(file, libc::POSIX_FADV_SEQUENTIAL)?;
    let mut all = vec![0; size];
    let piece = (size / 50).clamp(333, 77_777);
    for (i, part) in all.chunks_mut(piece).enumerate() {
        file.read_exact_at(part, (i * piece) as u64)?;
    }
    Ok(digest(&all))
}

fn in_random_order(file: &File, size: usize) -> io::Result<u64> {
    extent::advise(file, libc::POSIX_FADV_RANDOM)?;
    let mut all = vec![0; size];
    let piece = (size / 60).max(1000);
    let mut parts: Vec<_> = all.chunks_mut(piece).enumerate().collect();
    Rng::new(size as u64).shuffle(&mut parts);
    for (i, part) in parts {
        file.read_exact_at(part, (i * piece) as u64)?;
    }
    extent::advise(file, libc::POSIX_FADV_NORMAL)?;
    Ok(digest(&all))
}

fn mapped(file: &File, size: usize) -> io::Result<u64> {
    let map = Map::new(file, 0, size, false)?;
    let mut all = vec![0; size];
    map.load(0, &mut all);
    Ok(digest(&all))
}

fn mapped_in_random_order(file: &File, size: usize) -> io::Result<u64> {
    let map = Map::new(file, 0, size, false)?;
    map.advise(libc::MADV_RANDOM)?;
    let mut all = vec![0; size];
    let mut pages: Vec<_> = all.chunks_mut(4096).enumerate().collect();
    Rng::new(size as u64).shuffle(&mut pages);
    for (i, page) in pages {
        map.load(i * 4096, page);
    }
    Ok(digest(&all))
}

/// By `sendfile` into memory: the pages go out without being copied by `read`.
fn sent(file: &File, size: usize) -> io::Result<u64> {
    let memory = memory_file()?;
    let mut at = 0;
    while at < size {
        match extent::send(&memory, file, at as u64, size - at)? {
            0 => break,
            n => at += n,
        }
    }
    in_large_calls(&memory, size)
}

/// By `read` until it says that the file ends, which must be where its size says.
fn to_the_end(file: &File, size: usize) -> io::Result<u64> {
    let mut all = Vec::new();
    let mut reader = file;
    io::Seek::seek(&mut reader, io::SeekFrom::Start(0))?;
    reader.read_to_end(&mut all)?;
    if all.len() != size {
        return Err(io::Error::other(format!(
            "{} bytes instead of {size}",
            all.len()
        )));
    }
    Ok(digest(&all))
}

fn direct(file: &File, size: usize) -> io::Result<u64> {
    let mut memory = Aligned::new(1 << 20)?;
    let mut all = Vec::with_capacity(size);
    while all.len() < size {
        let got = read_full_once(file, memory.bytes(), all.len() as u64)?;
        all.extend_from_slice(&memory.bytes()[..got]);
        if got < 1 << 20 {
            break;
        }
    }
    Ok(digest(&all))
}

/// Direct reads must start at whole blocks: one that ends early is the last.
fn read_full_once(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let got = file.read_at(buffer, at)?;
    if got % 4096 == 0 && got < buffer.len() && got > 0 {
        return Ok(got + read_full(file, &mut buffer[got..], at + got as u64)?);
    }
    Ok(got)
}
