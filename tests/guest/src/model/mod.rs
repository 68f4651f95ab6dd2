// SPDX-License-Identifier: GPL-2.0

//! Random operations on a volume under test and on its twin, which the in-tree ext4 keeps: answers,
//! files, listings and contents must be the same after each.
//!
//! Not compared: places on the disk, inode numbers, the order of listings, free blocks; where data
//! lies in files that were written through a mapping; and all that needs what ext4rs does not
//! have: fallocate, direct I/O, attribute values in inodes of their own, flags set by chattr. The
//! volumes are mounted with noatime.

mod generate;
mod lie;
mod listing;
mod lockstep;
mod look;
mod op;
mod shrink;
mod side;
mod style;
mod walk;

pub use lie::Lie;

use crate::why::{require, Why, Within};
use lockstep::Lockstep;
use look::Differs;
use op::Op;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use style::Style;

/// Runs of this many operations or more must have had every kind of them succeed.
const ENOUGH: usize = 10_000;

/// Operations of a failing list that are shown.
const SHOWN: usize = 40;

/// Where runs are made.
pub struct Model<'a> {
    /// What the first device is mounted as; the second is always ext4.
    pub fs: &'a str,
    pub devices: [&'a Path; 2],
    pub dirs: [&'a Path; 2],
    /// Failing lists of operations are kept here.
    pub keep: Option<&'a Path>,
    /// How long a failing list is made shorter.
    pub shrink: Duration,
}

/// A run that failed.
struct Failure {
    /// What was done, the failing operation last.
    done: Vec<Op>,
    differs: Differs,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.done.last() {
            write!(f, "{op}: ")?;
        }
        write!(f, "{}: {}", self.differs.kind, self.differs.text)
    }
}

/// What was done in a run without a difference.
struct Counts {
    steps: usize,
    succeeded: BTreeMap<&'static str, usize>,
    full: u64,
    alone: u64,
}

impl Model<'_> {
    /// Runs `count` operations of `seed`.
    pub fn random(&self, seed: u64, count: usize) -> Result<(), Why> {
        let style = Style::of_seed(seed);
        println!("# seed {seed}: {style}");
        let counts = match self.attempt(seed, count, &style, None)? {
            Ok(counts) => counts,
            Err(failure) => return self.failed(&format!("seed-{seed}"), &style, failure, None),
        };
        let succeeded: usize = counts.succeeded.values().sum();
        println!(
            "# seed {seed}: {} steps, {succeeded} succeeded, {} found no room, and {} on one side alone",
            counts.steps, counts.full, counts.alone
        );
        if style.full && count >= ENOUGH && counts.full == 0 {
            return Err("the volume never got full".into());
        }
        match counts.succeeded.iter().find(|(_, &times)| times == 0) {
            Some((verb, _)) if count >= ENOUGH => Err(format!("{verb} never succeeded").into()),
            _ => Ok(()),
        }
    }

    /// Runs the operations in `file`.
    pub fn replay(&self, file: &Path) -> Result<(), Why> {
        let text = fs::read_to_string(file).within(|| file.display().to_string())?;
        let (mut style, mut ops) = (Style::of_seed(1), Vec::new());
        for line in text.lines().map(str::trim) {
            if line.starts_with("style") {
                style = line.parse().within(|| line.to_owned())?;
            } else if !line.is_empty() && !line.starts_with('#') {
                ops.push(line.parse::<Op>().within(|| line.to_owned())?);
            }
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        match self.run(&style, &ops, None)? {
            None => Ok(()),
            Some(failure) => self.failed(&name, &style, failure, None),
        }
    }

    /// A difference that `lie` makes is found, and not too late.
    pub fn notices(&self, lie: Lie) -> Result<(), Why> {
        // Small, so that it takes no time.
        let style = Style {
            size: 16,
            eager: true,
            ..Style::of_seed(1)
        };
        let Err(failure) = self.attempt(1, 1200, &style, Some(lie))? else {
            return Err("1,200 operations, and no difference was found".into());
        };
        let (kind, step) = (failure.differs.kind, failure.done.len());
        println!("# {lie:?}: {kind} at step {step}");
        if lie != Lie::Skip {
            return Ok(());
        }
        let least = self.least(&style, failure, Some(lie)).0;
        require(least.len() <= 2, || {
            format!("{} operations are left, which one shows", least.len())
        })
    }

    /// Makes up operations and does them; gives the failure, if there is one.
    fn attempt(
        &self,
        seed: u64,
        count: usize,
        style: &Style,
        lie: Option<Lie>,
    ) -> Result<Result<Counts, Failure>, Why> {
        let mut lockstep = self.lockstep(style, lie)?;
        let mut generator = generate::Generator::new(seed, style);
        let mut done = Vec::new();
        let mut succeeded: BTreeMap<&str, usize> = BTreeMap::new();
        let end = [Op::Writable {}, Op::Sync {}, Op::Walk {}, Op::Check {}];
        while done.len() < count + end.len() {
            let op = match done.len().checked_sub(count) {
                None => generator.next(),
                Some(n) => end[n].clone(),
            };
            done.push(op.clone());
            match lockstep.step(&op) {
                Ok(fine) => {
                    *succeeded.entry(op.verb()).or_default() += usize::from(fine);
                    generator.learn(&op, fine, &lockstep.sides[1]);
                }
                Err(differs) => {
                    lockstep.end();
                    return Ok(Err(Failure { done, differs }));
                }
            }
        }
        lockstep.end();
        Ok(Ok(Counts {
            steps: done.len(),
            succeeded,
            full: lockstep.full,
            alone: lockstep.tolerated,
        }))
    }

    fn lockstep<'s>(&self, style: &'s Style, lie: Option<Lie>) -> Result<Lockstep<'s>, Why> {
        Lockstep::new(self.fs, self.devices, self.dirs, style, lie)
    }

    /// Runs `ops`, and compares everything at the end.
    fn run(&self, style: &Style, ops: &[Op], lie: Option<Lie>) -> Result<Option<Failure>, Why> {
        let mut lockstep = self.lockstep(style, lie)?;
        let mut failure = None;
        let mut done = Vec::new();
        for op in ops.iter().chain(&[Op::Walk {}, Op::Check {}]) {
            done.push(op.clone());
            if let Err(differs) = lockstep.step(op) {
                failure = Some(Failure { done, differs });
                break;
            }
        }
        lockstep.end();
        Ok(failure)
    }

    /// Says what failed, keeps the operations, and looks for fewer that fail alike.
    fn failed(
        &self,
        name: &str,
        style: &Style,
        failure: Failure,
        lie: Option<Lie>,
    ) -> Result<(), Why> {
        let step = failure.done.len();
        let told = format!("step {step}: {failure}");
        println!("# {}", told.replace('\n', "\n# "));
        self.keep(style, &failure.done, &format!("{name}.ops"))?;
        if !self.shrink.is_zero() {
            let (least, last) = self.least(style, failure, lie);
            println!("# {} operations are enough:", least.len());
            println!("# {style}");
            for op in least.iter().take(SHOWN) {
                println!("# {:.160}", op.to_string());
            }
            if let Some(last) = last {
                println!("# {}", last.to_string().replace('\n', "\n# "));
            }
            self.keep(style, &least, &format!("{name}-least.ops"))?;
        }
        Err(told.into())
    }

    /// The fewest operations that fail as `failure` did, and how they did the last time; nothing
    /// where none did again.
    fn least(
        &self,
        style: &Style,
        failure: Failure,
        lie: Option<Lie>,
    ) -> (Vec<Op>, Option<Failure>) {
        let deadline = Instant::now() + self.shrink;
        let kind = failure.differs.kind;
        let mut last = None;
        let least = shrink::shrink(failure.done, deadline, |ops| {
            let failed = self.run(style, ops, lie).ok().flatten();
            match failed.filter(|failed| failed.differs.kind == kind) {
                Some(alike) => {
                    last = Some(alike);
                    true
                }
                None => false,
            }
        });
        (least, last)
    }

    fn keep(&self, style: &Style, ops: &[Op], name: &str) -> Result<(), Why> {
        let Some(folder) = self.keep else {
            return Ok(());
        };
        let path = folder.join(name);
        let mut text = format!("{style}\n");
        for op in ops {
            text += &format!("{op}\n");
        }
        fs::write(&path, text).within(|| path.display().to_string())?;
        println!("# kept as {}", path.display());
        Ok(())
    }
}
