// SPDX-License-Identifier: GPL-2.0

//! Holes and where data lies.

use super::{bytes, create, expect, to_disk, Test};
use crate::sys::extent::{self, FIEMAP_EXTENT_DELALLOC};
use crate::sys::{errno, volume};
use crate::why::{equal, require, Why};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("holes-seek", seek),
    ("holes-delayed-data-is-data", delayed_data_is_data),
    ("holes-stay-holes", stay_holes),
    ("holes-far-offsets", far_offsets),
    ("holes-overwrite-keeps-blocks", overwrite_keeps_blocks),
    ("holes-one-run-is-one-extent", one_run_is_one_extent),
    ("holes-filled-in-any-order", filled_in_any_order),
];

fn seek(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    equal(
        "an empty file",
        extent::seek(&file, 0, libc::SEEK_DATA)?,
        None,
    )?;
    file.set_len(1 << 20)?;
    equal("a hole", extent::seek(&file, 0, libc::SEEK_DATA)?, None)?;
    equal(
        "its hole",
        extent::seek(&file, 5, libc::SEEK_HOLE)?,
        Some(5),
    )?;
    file.write_all_at(&bytes(1, 0, 65536), 128 << 10)?;
    file.write_all_at(&bytes(1, 0, 4096), 512 << 10)?;
    let want = vec![(128 << 10, 192 << 10), (512 << 10, 516 << 10)];
    equal(
        "before write-out",
        extent::data_ranges(&file)?,
        want.clone(),
    )?;
    to_disk(&file)?;
    equal("after write-out", extent::data_ranges(&file)?, want)?;
    let inside = extent::seek(&file, (128 << 10) + 77, libc::SEEK_DATA)?;
    equal("from inside data", inside, Some((128 << 10) + 77))?;
    equal(
        "at the end",
        extent::seek(&file, 1 << 20, libc::SEEK_HOLE)?,
        None,
    )?;
    let end = extent::seek(&file, (1 << 20) - 1, libc::SEEK_HOLE)?;
    equal("the last byte", end, Some((1 << 20) - 1))
}

fn delayed_data_is_data(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, 40_000), 0)?;
    let before = extent::fiemap(&file, false)?;
    let delayed = before.iter().all(|e| e.flags & FIEMAP_EXTENT_DELALLOC != 0);
    require(!before.is_empty() && delayed, || {
        format!("not delayed: {before:?}")
    })?;
    require(file.metadata()?.blocks() >= 40_000 / 512, || {
        "no blocks are counted yet".into()
    })?;
    let after = extent::fiemap(&file, true)?;
    require(
        after
            .iter()
            .all(|e| e.flags & FIEMAP_EXTENT_DELALLOC == 0 && e.physical > 0),
        || format!("still delayed: {after:?}"),
    )?;
    expect(&file, 0, &bytes(1, 0, 40_000))
}

fn stay_holes(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, 4096), 10 << 20)?;
    file.set_len(30 << 20)?;
    to_disk(&file)?;
    expect(&file, (10 << 20) - 8192, &[0; 8192])?;
    expect(&file, (10 << 20) + 4096, &[0; 8192])?;
    require(file.metadata()?.blocks() <= 64, || {
        "a hole takes blocks".into()
    })
}

/// The last byte that a file can have, and the first that it cannot.
fn far_offsets(dir: &Path) -> Result<(), Why> {
    let block = volume::space(dir)?.block as u64;
    let most = ((1 << 32) - 1) * block;
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, 10), most - 10)?;
    equal("size", file.metadata()?.len(), most)?;
    let beyond = file.write_at(b"x", most);
    equal(
        "writing beyond",
        beyond.err().map(|e| errno(&e)),
        Some(libc::EFBIG),
    )?;
    let beyond = file.set_len(most + 1);
    equal(
        "growing beyond",
        beyond.err().map(|e| errno(&e)),
        Some(libc::EFBIG),
    )?;
    equal("a write across", file.write_at(&[9; 20], most - 5)?, 5)?;
    to_disk(&file)?;
    expect(&file, most - 10, &bytes(1, 0, 5))?;
    expect(&file, most - 5, &[9; 5])?;
    file.write_all_at(&bytes(2, 0, 5000), 1 << 40)?;
    to_disk(&file)?;
    expect(&file, 1 << 40, &bytes(2, 0, 5000))?;
    expect(&file, 1 << 41, &[0; 5000])
}

fn overwrite_keeps_blocks(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    file.write_all_at(&bytes(1, 0, 1 << 20), 0)?;
    let before = extent::joined(&extent::fiemap(&file, true)?);
    for (key, at) in [(2, 0), (3, 4000), (4, 900_000)] {
        file.write_all_at(&bytes(key, at, 70_000), at)?;
        file.sync_data()?;
    }
    equal(
        "extents",
        extent::joined(&extent::fiemap(&file, true)?),
        before,
    )
}

/// 16 MiB written in one go on a volume with room lie in few pieces.
fn one_run_is_one_extent(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    for i in 0..16 {
        file.write_all_at(&bytes(1, i << 20, 1 << 20), i << 20)?;
    }
    let extents = extent::joined(&extent::fiemap(&file, true)?);
    // Groups are 8 MiB at blocks of 1 KiB, and their first blocks are often taken.
    require(extents.len() <= 8, || {
        format!("{} extents: {extents:?}", extents.len())
    })
}

/// A hole of 64 blocks filled block by block from all sides ends as one run of data.
fn filled_in_any_order(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    let mut order: Vec<u64> = (0..64).collect();
    crate::rng::Rng::new(5).shuffle(&mut order);
    for (i, at) in order.into_iter().map(|block| block * 4096).enumerate() {
        file.write_all_at(&bytes(1, at, 4096), at)?;
        if i % 7 == 0 {
            file.sync_all()?;
        }
    }
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, 64 * 4096))?;
    equal("data", extent::data_ranges(&file)?, vec![(0, 64 * 4096)])
}
