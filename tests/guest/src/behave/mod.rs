// SPDX-License-Identifier: GPL-2.0

//! What a program may rely on, one test each. Every test works in a directory of its own.

mod attributes;
mod eof;
mod holes;
mod mapped;
mod names;
mod parallel;
mod replaced;
mod written;

use crate::manifest::read_full;
use crate::report::Report;
use crate::rng;
use crate::sys::extent;
use crate::why::{Why, Within};
use std::fs::{self, File, OpenOptions};
use std::path::Path;

/// A test and its name.
type Test = (&'static str, fn(&Path) -> Result<(), Why>);

/// Runs all tests below `root`, which must exist.
pub fn run(root: &Path, report: &mut Report) -> Result<(), Why> {
    let rooms = [
        attributes::TESTS,
        eof::TESTS,
        holes::TESTS,
        mapped::TESTS,
        names::TESTS,
        parallel::TESTS,
        replaced::TESTS,
        written::TESTS,
    ];
    for (name, test) in rooms.concat() {
        report.test(name, || {
            let dir = root.join(name);
            fs::create_dir(&dir).within(|| format!("making {}", dir.display()))?;
            test(&dir)
        });
    }
    Ok(())
}

/// A new file, open for reading and writing.
fn create(path: &Path) -> Result<File, Why> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .within(|| format!("creating {}", path.display()))
}

/// `length` bytes of stream `key` from `offset` on.
fn bytes(key: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    rng::fill(key, offset, &mut out);
    out
}

/// Fails unless the file holds `want` from `offset` on, and as much of it.
fn expect(file: &File, offset: u64, want: &[u8]) -> Result<(), Why> {
    let mut is = vec![0xa5; want.len()];
    let got = read_full(file, &mut is, offset).within(|| format!("reading at {offset}"))?;
    if got != want.len() {
        return Err(format!("only {got} of {} bytes at {offset}", want.len()).into());
    }
    match is.iter().zip(want).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => {
            let place = offset + i as u64;
            Err(format!("byte {place} is {:#x}, must be {:#x}", is[i], want[i]).into())
        }
    }
}

/// Writes the file out and forgets its pages, so that the next read comes from the disk.
fn to_disk(file: &File) -> Result<(), Why> {
    file.sync_all().within(|| "fsync".into())?;
    extent::forget(file).within(|| "fadvise".into())
}
