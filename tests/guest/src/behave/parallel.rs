// SPDX-License-Identifier: GPL-2.0

//! Several threads on one file or one directory.

use super::{bytes, create, expect, to_disk, Test};
use crate::manifest::read_full;
use crate::rng::Rng;
use crate::sys::{dir as directory, map::Map, xattr};
use crate::why::{equal, require, Why};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

pub const TESTS: &[Test] = &[
    ("parallel-append", append),
    ("parallel-readers-beside-writer", readers_beside_writer),
    ("parallel-writers-and-fsync", writers_and_fsync),
    ("parallel-stores-writes-and-fsync", stores_writes_and_fsync),
    ("parallel-grow-and-write", grow_and_write),
    ("parallel-create-in-one-directory", create_in_one_directory),
    ("parallel-same-name", same_name),
    ("parallel-link-beside-attributes", link_beside_attributes),
];

/// Runs `work(0)` to `work(count - 1)` at once and gives the first failure.
fn at_once(count: u64, work: impl Fn(u64) -> Result<(), Why> + Sync) -> Result<(), Why> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|i| scope.spawn(move || work(i))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })
}

/// Two writers with O_APPEND: every record is there, whole, once, in its writer's order.
fn append(dir: &Path) -> Result<(), Why> {
    const RECORD: usize = 1001;
    const EACH: u64 = 600;
    let path = dir.join("f");
    let file = create(&path)?;
    at_once(2, |writer| {
        let mut file = OpenOptions::new().append(true).open(&path)?;
        for i in 0..EACH {
            let mut record = bytes((writer << 32) | i, 0, RECORD);
            record[0] = writer as u8;
            file.write_all(&record)?;
        }
        Ok(())
    })?;
    to_disk(&file)?;
    equal("size", file.metadata()?.len(), 2 * EACH * RECORD as u64)?;
    let mut seen = [0; 2];
    for at in (0..2 * EACH).map(|i| i * RECORD as u64) {
        let mut first = [0];
        file.read_exact_at(&mut first, at)?;
        let writer = u64::from(first[0]);
        let count = seen.get_mut(writer as usize).ok_or("a record of nobody")?;
        let mut want = bytes((writer << 32) | *count, 0, RECORD);
        want[0] = first[0];
        expect(&file, at, &want)?;
        *count += 1;
    }
    equal("records", seen, [EACH; 2])
}

/// Readers see all that the writer has finished, and never anything else than its bytes.
fn readers_beside_writer(dir: &Path) -> Result<(), Why> {
    const SIZE: u64 = 6 << 20;
    let file = create(&dir.join("f"))?;
    let done = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let write = || {
        let mut rng = Rng::new(8);
        let mut at = 0;
        while at < SIZE && !failed.load(Ordering::Relaxed) {
            let length = rng.within(1, 60_000).min(SIZE - at);
            file.write_all_at(&bytes(1, at, length as usize), at)?;
            at += length;
            done.store(at, Ordering::Release);
            if rng.chance(5) {
                file.sync_data()?;
            }
        }
        Ok(())
    };
    let read = |reader: u64| {
        let mut rng = Rng::new(reader);
        let mut buffer = vec![0; 50_000];
        while done.load(Ordering::Acquire) < SIZE && !failed.load(Ordering::Relaxed) {
            let sure = done.load(Ordering::Acquire);
            // Often the very end, where a reader meets the writer.
            let at = if rng.chance(50) {
                sure.saturating_sub(5000)
            } else {
                rng.below(sure)
            };
            let got = read_full(&file, &mut buffer, at)?;
            let must = (sure - at).min(buffer.len() as u64);
            require(got as u64 >= must, || {
                format!("{got} bytes at {at}, {sure} are written")
            })?;
            if rng.chance(10) {
                crate::sys::extent::forget(&file)?;
            }
            // All of it, also what was written after `sure` was asked for.
            require(buffer[..got] == bytes(1, at, got)[..], || {
                format!("wrong bytes at {at}, {sure} are written")
            })?;
        }
        Ok(())
    };
    at_once(3, |i| {
        let ended = if i == 0 { write() } else { read(i) };
        if ended.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        ended
    })?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, SIZE as usize))
}

/// Four writers on their own stripes of one file, and one thread that only syncs.
fn writers_and_fsync(dir: &Path) -> Result<(), Why> {
    const STRIPE: u64 = 3000;
    const ROUNDS: u64 = 120;
    let path = dir.join("f");
    let file = create(&path)?;
    let running = AtomicU64::new(4);
    at_once(5, |i| {
        let file = OpenOptions::new().write(true).open(&path)?;
        if i == 4 {
            while running.load(Ordering::Relaxed) > 0 {
                file.sync_all()?;
            }
            return Ok(());
        }
        let wrote = (0..ROUNDS).try_for_each(|round| {
            let at = (round * 4 + i) * STRIPE;
            file.write_all_at(&bytes(1, at, STRIPE as usize), at)
        });
        running.fetch_sub(1, Ordering::Relaxed);
        Ok(wrote?)
    })?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, (ROUNDS * 4 * STRIPE) as usize))
}

/// Each page is stored to and written to at once while a third thread syncs it.
fn stores_writes_and_fsync(dir: &Path) -> Result<(), Why> {
    const PAGES: u64 = 64;
    let path = dir.join("f");
    let file = create(&path)?;
    file.set_len(PAGES * 4096)?;
    let running = AtomicU64::new(2);
    at_once(3, |i| {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if i == 2 {
            while running.load(Ordering::Relaxed) > 0 {
                file.sync_data()?;
            }
            return Ok(());
        }
        let work = || -> Result<(), Why> {
            let map = Map::new(&file, 0, (PAGES * 4096) as usize, true)?;
            for round in 0..10 {
                for page in 0..PAGES {
                    let at = page * 4096 + i * 2048;
                    let data = bytes(round, at, 2048);
                    if i == 0 {
                        map.store(at as usize, &data);
                    } else {
                        file.write_all_at(&data, at)?;
                    }
                }
            }
            Ok(())
        };
        let done = work();
        running.fetch_sub(1, Ordering::Relaxed);
        done
    })?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(9, 0, (PAGES * 4096) as usize))
}

/// One thread makes the file larger while another writes inside it.
fn grow_and_write(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    at_once(2, |i| {
        let file = OpenOptions::new().write(true).open(&path)?;
        for step in 0..200_u64 {
            if i == 0 {
                file.write_all_at(&bytes(1, step * 1500, 1500), step * 1500)?;
            } else {
                // Never below what the writer can have reached.
                file.set_len((1 << 20) + step * 700)?;
            }
        }
        Ok(())
    })?;
    let size = (1 << 20) + 199 * 700;
    equal("size", file.metadata()?.len(), size)?;
    to_disk(&file)?;
    expect(&file, 0, &bytes(1, 0, 300_000))?;
    expect(&file, 300_000, &vec![0; size as usize - 300_000])
}

fn create_in_one_directory(dir: &Path) -> Result<(), Why> {
    at_once(4, |thread| {
        for i in 0..150 {
            let path = dir.join(format!("{thread}-{i}"));
            if i % 10 == 0 {
                fs::create_dir(&path)?;
            } else {
                create(&path)?.write_all_at(&bytes(thread, i, 100), 0)?;
            }
            fs::symlink_metadata(&path)?;
        }
        Ok(())
    })?;
    let mut names: Vec<_> = (directory::read_all(&File::open(dir)?, 4096)?.into_iter())
        .map(|entry| entry.name)
        .collect();
    names.sort();
    names.dedup();
    equal("names", names.len(), 2 + 4 * 150)
}

/// Of several threads that make the same name exclusively, one alone succeeds.
fn same_name(dir: &Path) -> Result<(), Why> {
    let won = AtomicU64::new(0);
    at_once(4, |_| {
        for i in 0..100 {
            match File::create_new(dir.join(format!("{i}"))) {
                Ok(_) => won.fetch_add(1, Ordering::Relaxed),
                Err(e) if crate::sys::errno(&e) == libc::EEXIST => 0,
                Err(e) => return Err(e.into()),
            };
        }
        Ok(())
    })?;
    equal("files made", won.into_inner(), 100)
}

/// A symbolic link is read while it gets a block of attributes, and another one, and loses it.
fn link_beside_attributes(dir: &Path) -> Result<(), Why> {
    let link = dir.join("link");
    std::os::unix::fs::symlink("target", &link)?;
    let running = AtomicBool::new(true);
    at_once(2, |i| {
        if i == 1 {
            while running.load(Ordering::Relaxed) {
                equal("target", fs::read_link(&link)?, "target".into())?;
            }
            return Ok(());
        }
        let change = || -> Result<(), Why> {
            for round in 0..400_u64 {
                // Longer than the space in the inode.
                xattr::set(&link, b"trusted.long", &bytes(round, 0, 500), 0)?;
                if round % 3 == 0 {
                    xattr::remove(&link, b"trusted.long")?;
                }
            }
            Ok(())
        };
        let changed = change();
        running.store(false, Ordering::Relaxed);
        changed
    })
}
