// SPDX-License-Identifier: GPL-2.0

//! Files changed through memory.

use super::{bytes, create, expect, to_disk, Test};
use crate::rng::Rng;
use crate::sys::map::Map;
use crate::sys::process::{in_child, End};
use crate::why::{equal, require, Why};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("mapped-store-into-hole", store_into_hole),
    (
        "mapped-read-then-store-into-hole",
        read_then_store_into_hole,
    ),
    ("mapped-store-again-after-sync", store_again_after_sync),
    ("mapped-msync", msync),
    ("mapped-and-written", mapped_and_written),
    ("mapped-write-from-itself", write_from_itself),
    ("mapped-write-bad-address", write_bad_address),
    ("mapped-past-end-is-sigbus", past_end_is_sigbus),
    ("mapped-store-changes-mtime", store_changes_mtime),
];

fn store_into_hole(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(1 << 20)?;
    let map = Map::new(&file, 0, 1 << 20, true)?;
    let mut want = vec![0; 1 << 20];
    let mut rng = Rng::new(1);
    for key in 0..40 {
        let at = rng.below((1 << 20) - 5000) as usize;
        let data = bytes(key, 0, rng.within(1, 5000) as usize);
        map.store(at, &data);
        want[at..at + data.len()].copy_from_slice(&data);
    }
    file.sync_all()?;
    expect(&file, 0, &want)?;
    drop(map);
    to_disk(&file)?;
    expect(&file, 0, &want)
}

/// The hole's zero pages are in the cache and mapped when the store comes.
fn read_then_store_into_hole(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(256 << 10)?;
    expect(&file, 0, &[0; 256 << 10])?;
    let map = Map::new(&file, 0, 256 << 10, true)?;
    let mut seen = vec![1; 256 << 10];
    map.load(0, &mut seen);
    require(seen.iter().all(|&b| b == 0), || "a hole is not zero".into())?;
    let mut want = vec![0; 256 << 10];
    for at in [0, 5000, 100_000, 262_000] {
        map.store(at, &bytes(1, at as u64, 100));
        want[at..at + 100].copy_from_slice(&bytes(1, at as u64, 100));
    }
    drop(map);
    to_disk(&file)?;
    expect(&file, 0, &want)
}

/// After a write-out the page is clean and write-protected: the next store must dirty it again.
fn store_again_after_sync(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(65536)?;
    let map = Map::new(&file, 0, 65536, true)?;
    for round in 0..20 {
        for page in 0..16 {
            map.store(page * 4096 + round as usize, &[round]);
        }
        file.sync_data()?;
    }
    drop(map);
    to_disk(&file)?;
    for page in 0..16 {
        expect(&file, page * 4096, &(0..20).collect::<Vec<u8>>())?;
    }
    Ok(())
}

fn msync(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(10_000)?;
    let map = Map::new(&file, 0, 10_000, true)?;
    map.store(0, &bytes(1, 0, 10_000));
    map.sync()?;
    drop(map);
    crate::sys::extent::forget(&file)?;
    expect(&file, 0, &bytes(1, 0, 10_000))
}

/// Stores and writes to the parts of one page, in turn.
fn mapped_and_written(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(16384)?;
    let map = Map::new(&file, 0, 16384, true)?;
    let mut want = vec![0; 16384];
    for i in 0..128_usize {
        let (at, data) = (i * 128, bytes(i as u64, 0, 128));
        if i % 2 == 0 {
            map.store(at, &data);
        } else {
            file.write_all_at(&data, at as u64)?;
        }
        want[at..at + 128].copy_from_slice(&data);
        if i % 29 == 0 {
            file.sync_all()?;
        }
    }
    let mut seen = vec![0; 16384];
    map.load(0, &mut seen);
    require(seen == want, || "the mapping shows other bytes".into())?;
    drop(map);
    to_disk(&file)?;
    expect(&file, 0, &want)
}

/// The source of a `write` is a page of the same file that is not in memory yet.
fn write_from_itself(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, 65536), 0)?;
    to_disk(&file)?;
    let map = Map::new(&file, 0, 65536, true)?;
    equal("to itself", map.write_to(&file, 0, 8192, 0)?, 8192)?;
    equal(
        "one page on",
        map.write_to(&file, 16384, 4096, 20480)?,
        4096,
    )?;
    equal(
        "past the end",
        map.write_to(&file, 32768, 32768, 65536)?,
        32768,
    )?;
    drop(map);
    to_disk(&file)?;
    let mut want = bytes(1, 0, 65536);
    want.copy_within(16384..20480, 20480);
    want.extend_from_within(32768..);
    expect(&file, 0, &want)
}

/// The source ends in memory that is not there: what was copied counts, the rest stays a hole.
fn write_bad_address(dir: &Path) -> Result<(), Why> {
    let other = create(&dir.join("source"))?;
    other.write_all_at(&bytes(1, 0, 8192), 0)?;
    let file = create(&dir.join("f"))?;
    file.set_len(100_000)?;
    // Pages past the end of the source's file cannot be read: a fault there gives EFAULT.
    let map = Map::new(&other, 0, 65536, false)?;
    let wrote = map.write_to(&file, 0, 65536, 20_000)?;
    require(wrote <= 8192, || {
        format!("{wrote} bytes written out of 8192 readable ones")
    })?;
    let none = map.write_to(&file, 12288, 4096, 60_000);
    equal(
        "no source at all",
        none.map_err(|e| crate::sys::errno(&e)),
        Err(libc::EFAULT),
    )?;
    let mut want = vec![0; 100_000];
    want[20_000..20_000 + wrote].copy_from_slice(&bytes(1, 0, wrote));
    expect(&file, 0, &want)?;
    to_disk(&file)?;
    expect(&file, 0, &want)?;
    require(file.metadata()?.blocks() * 512 <= 32768, || {
        "the hole was filled".into()
    })
}

fn past_end_is_sigbus(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.set_len(4096)?;
    let map = Map::new(&file, 0, 16384, true)?;
    let end = in_child(|| {
        map.store(8192, b"x");
        Ok(())
    })?;
    equal("a store past the end", end, End::Signal(libc::SIGBUS))?;
    equal("size", file.metadata()?.len(), 4096)
}

fn store_changes_mtime(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    file.set_len(4096)?;
    file.sync_all()?;
    let old = crate::sys::meta::Time {
        seconds: 1_000_000_000,
        nanos: 5,
    };
    crate::sys::meta::set_times(&path, old, old)?;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    Map::new(&file, 0, 4096, true)?.store(10, b"x");
    file.sync_all()?;
    require(file.metadata()?.mtime() > old.seconds, || {
        "mtime is the old one".into()
    })
}
