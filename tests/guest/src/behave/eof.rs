// SPDX-License-Identifier: GPL-2.0

//! The end of a file: what lies beyond it in the last page never shows.

use super::{bytes, create, expect, to_disk, Test};
use crate::sys::map::Map;
use crate::why::{equal, Why};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("eof-store-then-grow", store_then_grow),
    ("eof-store-sync-grow", store_sync_grow),
    ("eof-store-then-write-past", store_then_write_past),
    ("eof-store-then-append", store_then_append),
    ("eof-store-then-store-past", store_then_store_past),
    ("eof-grow-in-small-steps", grow_in_small_steps),
    ("eof-grow-after-forget", grow_after_forget),
    ("eof-size-is-durable", size_is_durable),
];

/// The bytes that the file has before something is stored past its end.
const HAS: usize = 100;

/// A file of [`HAS`] bytes whose last page holds stores beyond the file's end.
fn with_stores_past_end(dir: &Path, sync: bool) -> Result<(File, Map), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, HAS), 0)?;
    let map = Map::new(&file, 0, 4096, true)?;
    map.store(HAS, &[0xee; 4096 - HAS]);
    if sync {
        file.sync_all()?;
        map.sync()?;
    }
    Ok((file, map))
}

/// The file's own bytes, zeros up to `size`, and nothing else, in the cache and on the disk.
fn expect_zeros_after(file: &File, size: usize) -> Result<(), Why> {
    let mut want = bytes(1, 0, HAS);
    want.resize(size, 0);
    equal("size", file.metadata()?.len(), size as u64)?;
    expect(file, 0, &want)?;
    to_disk(file)?;
    expect(file, 0, &want)
}

fn store_then_grow(dir: &Path) -> Result<(), Why> {
    let (file, map) = with_stores_past_end(dir, false)?;
    file.set_len(9000)?;
    drop(map);
    expect_zeros_after(&file, 9000)
}

fn store_sync_grow(dir: &Path) -> Result<(), Why> {
    let (file, map) = with_stores_past_end(dir, true)?;
    // Stored again after the write-out, which zeroed the page past the end.
    map.store(HAS, &[0xdd; 4096 - HAS]);
    file.set_len(4096)?;
    drop(map);
    expect_zeros_after(&file, 4096)
}

fn store_then_write_past(dir: &Path) -> Result<(), Why> {
    for (name, sync, at) in [("a", false, 2500), ("b", true, 4096), ("c", true, 300_000)] {
        let dir = dir.join(name);
        std::fs::create_dir(&dir)?;
        let (file, map) = with_stores_past_end(&dir, sync)?;
        map.store(HAS, &[0xcc; 4096 - HAS]);
        file.write_all_at(&bytes(2, at, 700), at)?;
        let mut want = bytes(1, 0, HAS);
        want.resize(at as usize, 0);
        want.extend(bytes(2, at, 700));
        expect(&file, 0, &want)?;
        drop(map);
        to_disk(&file)?;
        expect(&file, 0, &want)?;
    }
    Ok(())
}

fn store_then_append(dir: &Path) -> Result<(), Why> {
    let (file, map) = with_stores_past_end(dir, true)?;
    map.store(HAS, &[0xbb; 4096 - HAS]);
    OpenOptions::new()
        .append(true)
        .open(dir.join("f"))?
        .write_all(&bytes(1, 100, 50))?;
    file.set_len(4000)?;
    let mut want = bytes(1, 0, HAS + 50);
    want.resize(4000, 0);
    expect(&file, 0, &want)?;
    drop(map);
    to_disk(&file)?;
    expect(&file, 0, &want)
}

/// The file grows, and only then is its former tail stored to: those bytes count.
fn store_then_store_past(dir: &Path) -> Result<(), Why> {
    let (file, map) = with_stores_past_end(dir, false)?;
    file.set_len(5000)?;
    map.store(2000, &bytes(3, 2000, 10));
    let mut want = bytes(1, 0, HAS);
    want.resize(5000, 0);
    want[2000..2010].copy_from_slice(&bytes(3, 2000, 10));
    expect(&file, 0, &want)?;
    drop(map);
    to_disk(&file)?;
    expect(&file, 0, &want)
}

fn grow_in_small_steps(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, HAS), 0)?;
    for size in (HAS as u64..20_000).step_by(333) {
        file.set_len(size)?;
        if size % 5 == 0 {
            file.sync_all()?;
        }
    }
    let size = file.metadata()?.len() as usize;
    expect_zeros_after(&file, size)
}

/// Nothing of the file is cached when it grows: the tail comes from the disk.
fn grow_after_forget(dir: &Path) -> Result<(), Why> {
    let (file, map) = with_stores_past_end(dir, true)?;
    drop(map);
    to_disk(&file)?;
    file.set_len(4096)?;
    expect_zeros_after(&file, 4096)
}

/// A tail written into a block that is on the disk already changes no mapping: the size alone
/// must still get there with the next fsync, under `fdatasync` too.
fn size_is_durable(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, HAS), 0)?;
    file.sync_all()?;
    file.write_all_at(&bytes(1, HAS as u64, 300), HAS as u64)?;
    file.sync_data()?;
    file.write_all_at(&bytes(1, HAS as u64 + 300, 300), HAS as u64 + 300)?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, HAS + 600))
}
