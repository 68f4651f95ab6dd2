// SPDX-License-Identifier: GPL-2.0

//! Files that become shorter, and files that go: what is left of them, and the space that comes
//! back.

use crate::report::Report;
use crate::rng::{self, Rng};
use crate::sys::map::Map;
use crate::sys::{errno, extent, volume};
use crate::why::{equal, require, Why, Within};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Where the data of a file is when it is cut.
const PLACES: [&str; 4] = ["cached", "written", "stored", "forgotten"];

/// Bytes of a file that is cut: some pages, and a part of one.
const LENGTH: usize = 5 * 4096 + 100;

/// Runs all tests in `dir`, an empty directory of a volume that nobody else uses.
pub fn run(dir: &Path, report: &mut Report) {
    let block = volume::space(dir).map_or(4096, |space| space.block as usize);
    for place in PLACES {
        report.test(&format!("cut-{place}"), || cut(dir, place, block));
    }
    report.test("cut-holes", || cut_holes(dir, block));
    report.test("emptied-by-open", || emptied_by_open(dir));
    report.test("deep-tree", || deep_tree(dir, block));
    report.test("unnamed", || unnamed(dir));
    report.test("full-again", || full_again(dir));
    report.test("random", || random(dir));
    report.test("beside-write-back", || beside_write_back(dir));
}

fn open(path: &Path) -> Result<File, Why> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .within(|| format!("opening {}", path.display()))
}

fn stream(key: u64, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    rng::fill(key, 0, &mut out);
    out
}

/// The file holds `want` and nothing else.
fn holds(file: &File, want: &[u8]) -> Result<(), Why> {
    equal("size", file.metadata()?.len(), want.len() as u64)?;
    let mut is = vec![0xa5; want.len() + 1];
    let mut got = 0;
    while got < is.len() {
        match file.read_at(&mut is[got..], got as u64)? {
            0 => break,
            n => got += n,
        }
    }
    equal("bytes read", got, want.len())?;
    match is.iter().zip(want).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => Err(format!("byte {i} is {:#x}, must be {:#x}", is[i], want[i]).into()),
    }
}

/// In the cache, and then on the disk.
fn holds_twice(file: &File, want: &[u8]) -> Result<(), Why> {
    holds(file, want).within(|| "in memory".into())?;
    file.sync_all()?;
    extent::forget(file)?;
    holds(file, want).within(|| "on disk".into())
}

/// Free blocks, once all that is under way is done.
fn free(dir: &Path) -> Result<u64, Why> {
    volume::syncfs(&File::open(dir)?)?;
    Ok(volume::space(dir)?.free)
}

/// Where files are cut: everywhere within a page and around the borders of blocks and pages.
fn places_to_cut(block: usize) -> Vec<usize> {
    let mut out: Vec<usize> = (0..4096).step_by(97).map(|i| 2 * 4096 + i).collect();
    for border in (0..=LENGTH).step_by(block) {
        out.extend(border.saturating_sub(1)..=(border + 1).min(LENGTH));
    }
    out.push(LENGTH - 1);
    out
}

/// Cut anywhere, a file keeps what is before the cut and has zeros behind it when it grows again.
fn cut(dir: &Path, place: &str, block: usize) -> Result<(), Why> {
    let path = dir.join(format!("cut-{place}"));
    let file = open(&path)?;
    let before = free(dir)?;
    for (round, at) in places_to_cut(block).into_iter().enumerate() {
        let within = || format!("cut at {at}");
        let mut want = stream(round as u64, LENGTH);
        if place == "stored" {
            file.set_len(LENGTH as u64)?;
            let map = Map::new(&file, 0, LENGTH, true)?;
            map.store(0, &want);
        } else {
            file.write_all_at(&want, 0)?;
        }
        if matches!(place, "written" | "forgotten") {
            file.sync_all()?;
        }
        if place == "forgotten" {
            extent::forget(&file)?;
        }
        file.set_len(at as u64).within(within)?;
        want.truncate(at);
        holds(&file, &want).within(within)?;
        let next = match round % 3 {
            0 => LENGTH,
            1 => (at + block).min(LENGTH),
            _ => at,
        };
        file.set_len(next.max(at) as u64).within(within)?;
        want.resize(next.max(at), 0);
        holds(&file, &want).within(within)?;
        if round % 4 == 0 {
            holds_twice(&file, &want).within(within)?;
        }
        if round % 5 == 0 {
            // Behind a hole.
            let end = LENGTH + 3 * block;
            file.write_all_at(b"x", end as u64)?;
            want.resize(end, 0);
            want.push(b'x');
            holds_twice(&file, &want).within(within)?;
        }
    }
    file.set_len(0)?;
    equal("free blocks", free(dir)?, before)
}

/// A file of holes and data, cut from its end on.
fn cut_holes(dir: &Path, block: usize) -> Result<(), Why> {
    let file = open(&dir.join("cut-holes"))?;
    let before = free(dir)?;
    let mut want = vec![0; 300 * block];
    for i in (0..300).filter(|i| i % 7 < 3 && i % 5 != 0) {
        let at = i * block;
        rng::fill(9, at as u64, &mut want[at..at + block]);
        file.write_all_at(&want[at..at + block], at as u64)?;
        if i % 64 == 0 {
            file.sync_all()?;
        }
    }
    file.set_len(want.len() as u64)?;
    while want.len() > block {
        want.truncate(want.len() - block - block / 3);
        file.set_len(want.len() as u64)?;
        if want.len() % 9 == 0 {
            holds_twice(&file, &want).within(|| format!("cut at {}", want.len()))?;
        }
    }
    holds_twice(&file, &want)?;
    file.set_len(0)?;
    equal("free blocks", free(dir)?, before)
}

/// `O_TRUNC` on a file that is open elsewhere, and mapped.
fn emptied_by_open(dir: &Path) -> Result<(), Why> {
    let path = dir.join("emptied");
    let file = open(&path)?;
    for round in 0..20 {
        let want = stream(round, 10_000 + 977 * round as usize);
        file.write_all_at(&want, 0)?;
        if round % 2 == 0 {
            file.sync_all()?;
        }
        let again = File::create(&path)?;
        equal("size", file.metadata()?.len(), 0)?;
        again.write_all_at(&want[..100], 0)?;
        drop(again);
        holds(&file, &want[..100])?;
        file.set_len(0)?;
    }
    Ok(())
}

/// A file in as many extents as it has blocks is cut again and again, and its tree goes with it.
fn deep_tree(dir: &Path, block: usize) -> Result<(), Why> {
    let file = open(&dir.join("deep"))?;
    let before = free(dir)?;
    // Every other block, so that none joins another; in two directions, so that the second half is
    // inserted between.
    let count = 6000;
    let write = |i: usize| file.write_all_at(&stream(i as u64, block), (i * 2 * block) as u64);
    for i in (0..count).step_by(2) {
        write(i)?;
    }
    file.sync_all()?;
    for i in (1..count).step_by(2) {
        write(i)?;
    }
    file.sync_all()?;
    let used = before - free(dir)?;
    require(used as usize > count, || {
        format!("only {used} blocks are used")
    })?;
    for left in [5999, 5000, 4999, 2500, 900, 84, 5, 4, 3, 1] {
        file.set_len((left * 2 * block) as u64)?;
        extent::forget(&file)?;
        let mut is = vec![0; block];
        file.read_exact_at(&mut is, ((left - 1) * 2 * block) as u64)?;
        require(is == stream(left as u64 - 1, block), || {
            format!("the last block of {left} is another one")
        })?;
    }
    file.set_len(0)?;
    equal("free blocks", free(dir)?, before)
}

/// A file without a name.
pub fn open_unnamed(dir: &Path) -> Result<File, Why> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(dir)
        .within(|| "opening a file without a name".into())
}

/// Files without a name are like others, and nothing is left of them when they are closed.
fn unnamed(dir: &Path) -> Result<(), Why> {
    let before = (free(dir)?, volume::space(dir)?.free_files);
    for round in 0..10 {
        let mut files = Vec::new();
        for i in 0..30 {
            let file = open_unnamed(dir)?;
            equal(
                "links",
                std::os::unix::fs::MetadataExt::nlink(&file.metadata()?),
                0,
            )?;
            let want = stream(i, (i as usize + round) * 3333);
            file.write_all_at(&want, 0)?;
            if i % 3 == 0 {
                holds_twice(&file, &want)?;
            }
            if i % 4 == 1 {
                file.set_len(1234)?;
            }
            files.push(file);
        }
        // In another order than they were made.
        while let Some(file) = (!files.is_empty()).then(|| files.swap_remove(files.len() / 3)) {
            drop(file);
        }
    }
    equal(
        "free blocks and inodes",
        (free(dir)?, volume::space(dir)?.free_files),
        before,
    )
}

/// Writes to a file until there is no space; tells how many bytes fit.
fn fill_up(file: &File, piece: &[u8]) -> Result<u64, Why> {
    let mut at = 0;
    loop {
        match file.write_at(piece, at) {
            Ok(n) => at += n as u64,
            Err(e) if errno(&e) == libc::ENOSPC => return Ok(at),
            Err(e) => return Err(e.into()),
        }
    }
}

/// What one file gives back the next one gets, at once, though no commit has come between: by writing
/// and by storing into a hole.
fn full_again(dir: &Path) -> Result<(), Why> {
    let before = free(dir)?;
    let piece = stream(5, 1 << 20);
    let first = fill_up(&open_unnamed(dir)?, &piece)?;
    for round in 0..8 {
        let files = [open_unnamed(dir)?, open_unnamed(dir)?];
        let fits: u64 = thread::scope(|scope| {
            let writers = files
                .each_ref()
                .map(|file| scope.spawn(|| fill_up(file, &piece)));
            writers
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|_| Err("a thread died".into())))
                .sum::<Result<u64, Why>>()
        })?;
        require(fits >= first - first / 50, || {
            format!("{fits} bytes fit in round {round}, {first} did first")
        })?;
        if round % 3 == 0 {
            files[0].sync_all()?;
        }
        drop(files);
        let file = open_unnamed(dir)?;
        file.set_len(1 << 20)?;
        let map = Map::new(&file, 0, 1 << 20, true)?;
        map.store(0, &piece);
        holds_twice(&file, &piece)?;
    }
    equal("free blocks", free(dir)?, before)
}

/// One step of [`random`] on a file that holds `model`.
fn step(file: &File, model: &mut Vec<u8>, rng: &mut Rng) -> Result<(), Why> {
    const MOST: u64 = 300_000;
    let at = rng.below(MOST) as usize;
    match rng.below(10) {
        0..=2 => {
            let data = stream(rng.next(), 1 + rng.below(40_000) as usize);
            file.write_all_at(&data, at as u64)?;
            model.resize(model.len().max(at + data.len()), 0);
            model[at..at + data.len()].copy_from_slice(&data);
        }
        3..=5 => {
            file.set_len(at as u64)?;
            model.resize(at, 0);
        }
        6 => {
            let shorter = model.len() - (rng.below(5000) as usize).min(model.len());
            file.set_len(shorter as u64)?;
            model.truncate(shorter);
        }
        7 if !model.is_empty() => {
            let map = Map::new(file, 0, model.len(), true)?;
            let at = rng.below(model.len() as u64) as usize;
            let length = (model.len() - at).min(1 + rng.below(20_000) as usize);
            let data = stream(rng.next(), length);
            map.store(at, &data);
            model[at..at + length].copy_from_slice(&data);
        }
        8 => file.sync_all()?,
        _ => {
            if rng.chance(50) {
                holds_twice(file, model)?;
            } else {
                holds(file, model)?;
            }
        }
    }
    Ok(())
}

/// Writing, storing and cutting at random, several files at once.
fn random(dir: &Path) -> Result<(), Why> {
    let names: Vec<_> = (0..4).map(|i| dir.join(format!("random-{i}"))).collect();
    for name in &names {
        open(name)?;
    }
    let before = free(dir)?;
    let results: Vec<Result<(), Why>> = thread::scope(|scope| {
        let threads: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                scope.spawn(move || {
                    let file = open(name)?;
                    let mut rng = Rng::new(77 + i as u64);
                    let mut model = Vec::new();
                    for n in 0..500 {
                        step(&file, &mut model, &mut rng)
                            .within(|| format!("file {i}, step {n}"))?;
                    }
                    holds_twice(&file, &model)?;
                    file.set_len(0)?;
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err("a thread died".into())))
            .collect()
    });
    results.into_iter().collect::<Result<(), Why>>()?;
    equal("free blocks", free(dir)?, before)
}

/// A file is cut while others have it written out: no block of it comes back.
fn beside_write_back(dir: &Path) -> Result<(), Why> {
    let path = dir.join("beside");
    let file = open(&path)?;
    let before = free(dir)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncer = scope.spawn(|| -> Result<(), Why> {
            let file = open(&path)?;
            while !done.load(Relaxed) {
                file.sync_data()?;
            }
            Ok(())
        });
        let cutter = || -> Result<(), Why> {
            for round in 0..150 {
                let want = stream(round, 400_000);
                file.write_all_at(&want, 0)?;
                let at = (round as usize * 7919) % 400_000;
                if round % 3 == 0 {
                    thread::yield_now();
                }
                file.set_len(at as u64)?;
                holds(&file, &want[..at]).within(|| format!("round {round}"))?;
            }
            Ok(())
        };
        let cut = cutter();
        done.store(true, Relaxed);
        let synced = syncer
            .join()
            .unwrap_or_else(|_| Err("a thread died".into()));
        cut.and(synced)
    })?;
    file.set_len(0)?;
    equal("free blocks", free(dir)?, before)
}

/// Makes `count` files without a name of `bytes` bytes, says `ready`, and keeps them open until its
/// input ends.
pub fn hold(dir: &Path, count: u64, bytes: u64) -> Result<(), Why> {
    let mut files = Vec::new();
    for i in 0..count {
        let file = open_unnamed(dir)?;
        file.write_all_at(&stream(i, bytes as usize), 0)?;
        files.push(file);
    }
    volume::syncfs(&File::open(dir)?)?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(files);
    Ok(())
}

/// Makes a file of `count` blocks apart.
pub fn scatter(dir: &Path, count: u64) -> Result<(), Why> {
    let block = volume::space(dir)?.block as u64;
    let file = open(&dir.join("apart"))?;
    let data = stream(1, block as usize);
    for i in 0..count {
        file.write_all_at(&data, i * 2 * block)?;
    }
    Ok(file.sync_all()?)
}

/// Says `ready` and cuts that file to `left` blocks. Beside it another file is synced all the time, so
/// that the cut is in several transactions.
pub fn cut_in_steps(dir: &Path, left: u64) -> Result<(), Why> {
    let block = volume::space(dir)?.block as u64;
    let file = open(&dir.join("apart"))?;
    let other = open(&dir.join("other"))?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncer = scope.spawn(|| -> Result<(), Why> {
            while !done.load(Relaxed) {
                other.write_all_at(b"x", 0)?;
                other.sync_all()?;
            }
            Ok(())
        });
        println!("ready");
        let cut = file.set_len(left * 2 * block);
        done.store(true, Relaxed);
        let synced = syncer
            .join()
            .unwrap_or_else(|_| Err("a thread died".into()));
        cut.map_err(Why::from).and(synced)
    })
}
