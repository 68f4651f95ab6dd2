// SPDX-License-Identifier: GPL-2.0

//! What `write` and the calls that make it durable promise.

use super::{bytes, create, expect, to_disk, Test};
use crate::sys::{errno, extent, map::Aligned, volume};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("written-odd-pieces", odd_pieces),
    ("written-over-and-over", over_and_over),
    ("written-vectors", vectors),
    ("written-with-o-sync", with_o_sync),
    ("written-through-many-descriptors", through_many_descriptors),
    (
        "written-fsync-of-directory-and-reader",
        fsync_of_directory_and_reader,
    ),
    ("written-syncfs-and-sync", syncfs_and_sync),
    ("written-direct-or-refused", direct_or_refused),
    (
        "written-free-space-counts-at-once",
        free_space_counts_at_once,
    ),
    ("written-nothing", nothing),
    ("written-same-size-truncate", same_size_truncate),
];

fn odd_pieces(dir: &Path) -> Result<(), Why> {
    let mut file = create(&dir.join("f"))?;
    let mut at = 0;
    for i in 0..700 {
        let length = (i * 37) % 1300 + 1;
        file.write_all(&bytes(1, at, length as usize))?;
        at += length;
        if i % 101 == 0 {
            file.sync_data()?;
        }
    }
    to_disk(&file)?;
    equal("size", file.metadata()?.len(), at)?;
    expect(&file, 0, &bytes(1, 0, at as usize))
}

fn over_and_over(dir: &Path) -> Result<(), Why> {
    let file = create(&dir.join("f"))?;
    for round in 0..30 {
        file.write_all_at(&bytes(round, 0, 200_000), 1234)?;
        if round % 4 == 0 {
            to_disk(&file)?;
        }
        expect(&file, 1234, &bytes(round, 0, 200_000))?;
    }
    to_disk(&file)?;
    expect(&file, 0, &[0; 1234])?;
    expect(&file, 1234, &bytes(29, 0, 200_000))
}

/// `writev` of pieces that cross page ends.
fn vectors(dir: &Path) -> Result<(), Why> {
    let mut file = create(&dir.join("f"))?;
    let all = bytes(1, 0, 50_000);
    let cuts = [0, 1, 4000, 4097, 4098, 12_288, 30_001, 50_000];
    let parts: Vec<_> = cuts
        .windows(2)
        .map(|w| std::io::IoSlice::new(&all[w[0]..w[1]]))
        .collect();
    equal("written", file.write_vectored(&parts)?, all.len())?;
    to_disk(&file)?;
    expect(&file, 0, &all)
}

fn with_o_sync(dir: &Path) -> Result<(), Why> {
    for (name, flag) in [("sync", libc::O_SYNC), ("dsync", libc::O_DSYNC)] {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(flag)
            .open(dir.join(name))?;
        for at in (0..100_000).step_by(10_000) {
            file.write_all_at(&bytes(1, at, 10_000), at)?;
        }
        // All pages are clean already: forgetting them needs no fsync before it.
        extent::forget(&file)?;
        expect(&file, 0, &bytes(1, 0, 100_000))?;
        let delayed = |e: &extent::Extent| e.flags & extent::FIEMAP_EXTENT_DELALLOC != 0;
        require(!extent::fiemap(&file, false)?.iter().any(delayed), || {
            format!("{name}: data is not allocated after the write")
        })?;
    }
    Ok(())
}

fn through_many_descriptors(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    for i in 0..100 {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(&bytes(1, i * 777, 777), i * 777)?;
    }
    let file = File::open(&path)?;
    expect(&file, 0, &bytes(1, 0, 77_700))?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, 77_700))
}

fn fsync_of_directory_and_reader(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?.write_all_at(b"data", 0)?;
    let directory = File::open(dir)?;
    directory
        .sync_all()
        .within(|| "fsync of the directory".into())?;
    directory
        .sync_data()
        .within(|| "fdatasync of the directory".into())?;
    let reader = File::open(&path)?;
    reader.sync_all().within(|| "fsync of a reader".into())?;
    let still = extent::fiemap(&reader, false)?;
    let delayed = |e: &extent::Extent| e.flags & extent::FIEMAP_EXTENT_DELALLOC != 0;
    require(!still.iter().any(delayed), || {
        "its fsync wrote nothing".into()
    })
}

fn syncfs_and_sync(dir: &Path) -> Result<(), Why> {
    let delayed = |file: &File| -> Result<bool, Why> {
        let extents = extent::fiemap(file, false)?;
        Ok(extents
            .iter()
            .any(|e| e.flags & extent::FIEMAP_EXTENT_DELALLOC != 0))
    };
    for (name, all) in [("syncfs", false), ("sync", true)] {
        let files: Result<Vec<_>, Why> = (0..20)
            .map(|i| {
                let file = create(&dir.join(format!("{name}{i}")))?;
                file.write_all_at(&bytes(i, 0, 5000), 0)?;
                Ok(file)
            })
            .collect();
        let files = files?;
        if all {
            volume::sync();
        } else {
            volume::syncfs(&files[0])?;
        }
        for (i, file) in files.iter().enumerate() {
            require(!delayed(file)?, || format!("{name} left data of file {i}"))?;
            extent::forget(file)?;
            expect(file, 0, &bytes(i as u64, 0, 5000))?;
        }
    }
    Ok(())
}

/// Direct I/O is refused at open, or it reads and writes the right bytes.
fn direct_or_refused(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    file.write_all_at(&bytes(1, 0, 65536), 0)?;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path);
    let direct = match opened {
        Ok(direct) => direct,
        Err(e) if [libc::EINVAL, libc::EOPNOTSUPP].contains(&errno(&e)) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let mut buffer = Aligned::new(65536)?;
    equal("a direct read", direct.read_at(buffer.bytes(), 0)?, 65536)?;
    require(*buffer.bytes() == bytes(1, 0, 65536)[..], || {
        "it gave other bytes".into()
    })?;
    buffer.bytes()[..8192].copy_from_slice(&bytes(2, 0, 8192));
    let wrote = match direct.write_at(&buffer.bytes()[..8192], 16384) {
        Err(e) if [libc::EINVAL, libc::EOPNOTSUPP].contains(&errno(&e)) => 0,
        wrote => wrote?,
    };
    let mut want = bytes(1, 0, 65536);
    want[16384..16384 + wrote].copy_from_slice(&bytes(2, 0, wrote));
    expect(&file, 0, &want)?;
    to_disk(&file)?;
    expect(&file, 0, &want)
}

/// Data that has no blocks yet is already off the free count, and stays so when it gets them.
fn free_space_counts_at_once(dir: &Path) -> Result<(), Why> {
    volume::sync();
    let before = volume::space(dir)?;
    let file = create(&dir.join("f"))?;
    for i in 0..8 {
        file.write_all_at(&bytes(1, 0, 1 << 20), i << 20)?;
    }
    let data = (8 << 20) / before.block as u64;
    let taken = |when: &str| -> Result<(), Why> {
        let now = volume::space(dir)?;
        let taken = before.free.saturating_sub(now.free);
        // Extent and directory blocks are few.
        require((data..data + 64).contains(&taken), || {
            format!("{when}: {taken} blocks are off the free count, {data} are written")
        })
    };
    taken("before write-out")?;
    file.sync_all()?;
    taken("after write-out")?;
    equal(
        "inodes",
        before.free_files - volume::space(dir)?.free_files,
        1,
    )
}

fn nothing(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    equal("bytes", file.write_at(&[], 100)?, 0)?;
    equal("size", file.metadata()?.len(), 0)?;
    file.sync_all()?;
    let found = fs::metadata(&path)?;
    equal("size and blocks", (found.size(), found.blocks()), (0, 0))?;
    equal("bytes at the end", file.read_at(&mut [0; 10], 0)?, 0)
}

/// A truncate that changes nothing is no truncate down, nor is O_TRUNC of an empty file.
fn same_size_truncate(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    File::create(&path).within(|| "O_TRUNC of an empty file".into())?;
    file.write_all_at(&bytes(1, 0, 5000), 0)?;
    file.set_len(5000)
        .within(|| "ftruncate to the same size".into())?;
    to_disk(&file)?;
    file.set_len(5000)
        .within(|| "ftruncate to the same size".into())?;
    expect(&file, 0, &bytes(1, 0, 5000))
}
