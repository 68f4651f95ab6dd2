// SPDX-License-Identifier: GPL-2.0

//! How long a directory of many files takes, step by step, beside another filesystem.

use crate::kernel::set;
use crate::report::Report;
use crate::rng::Rng;
use crate::sys::{dir, volume};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that are worked on without a break, before it is the other volume's turn. So short that
/// what else the machine does meets both alike.
const TURN: usize = 500;

/// A new directory on one of the volumes, and what was counted in it.
struct Side {
    path: PathBuf,
    open: File,
    listed: usize,
}

impl Side {
    fn new(root: &Path) -> Result<Self, Why> {
        let path = root.join("many");
        fs::create_dir(&path)?;
        let open = File::open(&path)?;
        let listed = 0;
        Ok(Self { path, open, listed })
    }

    fn create(&mut self, name: &str) -> Result<(), Why> {
        File::create_new(self.path.join(name))?;
        Ok(())
    }

    fn stat(&mut self, name: &str) -> Result<(), Why> {
        let found = fs::symlink_metadata(self.path.join(name))?;
        equal("links", found.nlink(), 1)
    }

    fn unlink(&mut self, name: &str) -> Result<(), Why> {
        Ok(fs::remove_file(self.path.join(name))?)
    }

    /// Goes on listing; tells whether that was the end.
    fn list_some(&mut self) -> Result<bool, Why> {
        let some = dir::read_some(&self.open, 32768)?.len();
        self.listed += some;
        Ok(some == 0)
    }
}

/// Both volumes, the one under test first.
struct Race<'a> {
    sides: [Side; 2],
    names: Vec<String>,
    /// The hundredths of the other's time that a step may take.
    limit: u64,
    report: &'a mut Report,
}

/// Makes `count` empty files in a new directory of `root` and of `other`, finds and lists them in
/// several ways, and removes them, on the two in turn. No step may take more than `limit`
/// hundredths of the time that it takes on `other`.
///
/// What the journals have to write is not waited for, but is written meanwhile.
pub fn run(
    root: &Path,
    other: &Path,
    count: usize,
    seed: u64,
    limit: u64,
    report: &mut Report,
) -> Result<(), Why> {
    let mut rng = Rng::new(seed);
    let names = (0..count)
        .map(|i| format!("file-{i:06}-{:04x}", rng.below(1 << 16)))
        .collect();
    let mut race = Race {
        sides: [Side::new(root)?, Side::new(other)?],
        names,
        limit,
        report,
    };
    race.each("create", Side::create)?;
    rng.shuffle(&mut race.names);
    race.each("stat", Side::stat)?;
    race.forget()?;
    race.list("list-cold")?;
    race.list("list")?;
    race.forget()?;
    race.each("stat-cold", Side::stat)?;
    rng.shuffle(&mut race.names);
    race.each("unlink", Side::unlink)?;
    for side in &race.sides {
        fs::remove_dir(&side.path)?;
    }
    Ok(())
}

impl Race<'_> {
    /// Does something with every name.
    fn each(
        &mut self,
        step: &str,
        work: fn(&mut Side, &str) -> Result<(), Why>,
    ) -> Result<(), Why> {
        let names = std::mem::take(&mut self.names);
        let mut turns = [names.chunks(TURN), names.chunks(TURN)];
        self.step(step, |side, i| {
            let Some(turn) = turns[i].next() else {
                return Ok(true);
            };
            for name in turn {
                work(side, name).within(|| name.clone())?;
            }
            Ok(false)
        })?;
        self.names = names;
        Ok(())
    }

    /// Lists both directories.
    fn list(&mut self, step: &str) -> Result<(), Why> {
        for side in &mut self.sides {
            dir::seek(&side.open, 0)?;
            side.listed = 0;
        }
        self.step(step, |side, _| side.list_some())?;
        for side in &self.sides {
            equal("entries", side.listed, self.names.len() + 2)?;
        }
        Ok(())
    }

    /// Lets both sides have turns until both are done, and reports how long each took in all. The
    /// closure gets a side and its number, and tells whether it was done before.
    fn step(
        &mut self,
        step: &str,
        mut turn: impl FnMut(&mut Side, usize) -> Result<bool, Why>,
    ) -> Result<(), Why> {
        let (mut times, mut done, mut first) = ([Duration::ZERO; 2], [false; 2], 0);
        while done != [true; 2] {
            // Who comes second has a warmer cache of what both use, so they take turns at that.
            for i in [first, 1 - first] {
                let start = Instant::now();
                done[i] = turn(&mut self.sides[i], i).within(|| format!("{step}, side {i}"))?;
                times[i] += start.elapsed();
            }
            first = 1 - first;
        }
        let [is, want] = times.map(|time| time.as_micros() as u64);
        let ratio = is * 100 / want.max(1);
        println!("# {step}: {} ms, {} ms: {ratio}%", is / 1000, want / 1000);
        let limit = self.limit;
        self.report.test(step, || {
            require(ratio <= limit, || format!("{is} us, {ratio}% of {want} us"))
        });
        Ok(())
    }

    /// Leaves nothing of the volumes in memory but what is open.
    fn forget(&self) -> Result<(), Why> {
        for side in &self.sides {
            volume::syncfs(&side.open)?;
        }
        set("vm/drop_caches", "3")
    }
}
