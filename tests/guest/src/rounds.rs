// SPDX-License-Identifier: GPL-2.0

//! A volume that is filled and emptied, again and again: no space gets lost, and what was brought to
//! the disk is there.

use crate::manifest::read_full;
use crate::rng::{self, Rng};
use crate::sys::volume::Space;
use crate::sys::{errno, extent, volume};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;

/// A file of a writer.
struct Written {
    path: PathBuf,
    key: u64,
    /// Bytes from its start that an fsync has brought to the disk.
    synced: u64,
}

/// Files are so long, in bytes, at most.
const MOST_BYTES: u64 = 700_000;

/// Fills and empties the volume at `dir` `rounds` times; `writers` threads do it.
pub fn run(dir: &Path, rounds: u64, writers: u64, seed: u64) -> Result<(), Why> {
    println!("# seed {seed}");
    let home = dir.join("rounds");
    fs::create_dir(&home)?;
    volume::sync();
    let before = volume::space(dir)?;
    let (mut files, mut bytes) = (0, 0);
    for round in 0..rounds {
        let (made, synced) = one(&home, &before, writers, (seed << 16) | round)
            .within(|| format!("round {round}"))?;
        files += made;
        bytes += synced;
        // What is in memory only, and gone again, counts as little as what was on the disk.
        if round % 2 == 0 {
            volume::sync();
        }
        let after = volume::space(dir)?;
        equal("space", after, before).within(|| format!("after round {round}"))?;
    }
    println!("# {files} files, {} KiB checked after fsync", bytes >> 10);
    fs::remove_dir(&home)?;
    Ok(())
}

/// One round: the files made, and the bytes that were brought to the disk.
fn one(home: &Path, before: &Space, writers: u64, seed: u64) -> Result<(u64, u64), Why> {
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|nr| scope.spawn(move || fill(home, nr, Rng::new((seed << 4) | nr))))
            .collect();
        threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut written = Vec::new();
    for files in all {
        written.extend(files.map_err(|_| "a writer panicked")??);
    }
    let full = volume::space(home)?;
    require(full.free * 8 <= before.free, || {
        format!("{} of {} blocks are free", full.free, before.free)
    })?;
    written.iter().try_for_each(check)?;
    for one in &written {
        fs::remove_file(&one.path)?;
    }
    Ok((
        written.len() as u64,
        written.iter().map(|one| one.synced).sum(),
    ))
}

/// Writes one file after the other until there is no space.
fn fill(home: &Path, nr: u64, mut rng: Rng) -> Result<Vec<Written>, Why> {
    let mut done = Vec::new();
    let mut data = vec![0; 50_000];
    for i in 0.. {
        let path = home.join(format!("{nr}-{i}"));
        let file = match File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
        {
            Ok(file) => file,
            Err(e) if errno(&e) == libc::ENOSPC => break,
            Err(e) => return Err(e.into()),
        };
        let (key, mut synced) = (rng.next(), 0);
        let (want, mut length) = (rng.within(1, MOST_BYTES), 0);
        let mut full = false;
        while length < want && !full {
            let piece = rng.within(1, data.len() as u64) as usize;
            rng::fill(key, length, &mut data[..piece]);
            match file.write_at(&data[..piece], length) {
                Ok(n) => length += n as u64,
                Err(e) if errno(&e) == libc::ENOSPC => full = true,
                Err(e) => return Err(e.into()),
            }
            if rng.chance(3) {
                file.sync_all().within(|| "fsync".into())?;
                synced = length;
            }
        }
        if rng.chance(20) || full {
            file.sync_all().within(|| "fsync".into())?;
            synced = length;
        }
        done.push(Written { path, key, synced });
        if full {
            break;
        }
    }
    Ok(done)
}

/// What was brought to the disk can be read from there.
fn check(one: &Written) -> Result<(), Why> {
    if one.synced == 0 {
        return Ok(());
    }
    let file = File::open(&one.path)?;
    extent::forget(&file)?;
    let mut is = vec![0; one.synced as usize];
    let mut want = is.clone();
    let got = read_full(&file, &mut is, 0)?;
    equal("bytes that can be read", got, is.len())?;
    rng::fill(one.key, 0, &mut want);
    require(is == want, || {
        format!("other bytes in {}", one.path.display())
    })
}
