// SPDX-License-Identifier: GPL-2.0

//! How long a directory of many files takes, step by step, beside another filesystem.

use crate::kernel::set;
use crate::report::Report;
use crate::rng::Rng;
use crate::sys::{dir, volume};
use crate::why::{equal, require, Why, Within};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// Makes `count` empty files in a new directory, finds and lists them in several ways, and removes
/// them. Prints a line for each step: its name and its microseconds.
///
/// What the journal has to write is not waited for, but is written meanwhile.
pub fn run(root: &Path, count: usize, seed: u64) -> Result<(), Why> {
    let many = root.join("many");
    let mut rng = Rng::new(seed);
    let mut names: Vec<_> = (0..count)
        .map(|i| many.join(format!("file-{i:06}-{:04x}", rng.below(1 << 16))))
        .collect();
    fs::create_dir(&many)?;
    timed("create", || {
        for name in &names {
            File::create_new(name).within(|| format!("creating {}", name.display()))?;
        }
        Ok(())
    })?;
    rng.shuffle(&mut names);
    timed("stat", || stat_all(&names))?;
    let open = File::open(&many)?;
    forget(&open)?;
    timed("list-cold", || list(&open, count))?;
    timed("list", || list(&open, count))?;
    forget(&open)?;
    timed("stat-cold", || stat_all(&names))?;
    drop(open);
    rng.shuffle(&mut names);
    timed("unlink", || {
        for name in &names {
            fs::remove_file(name).within(|| format!("removing {}", name.display()))?;
        }
        Ok(())
    })?;
    Ok(fs::remove_dir(&many)?)
}

fn timed(step: &str, work: impl FnOnce() -> Result<(), Why>) -> Result<(), Why> {
    let start = Instant::now();
    work().within(|| step.into())?;
    println!("{step} {}", start.elapsed().as_micros());
    Ok(())
}

fn stat_all(names: &[std::path::PathBuf]) -> Result<(), Why> {
    for name in names {
        let found = fs::symlink_metadata(name).within(|| name.display().to_string())?;
        equal("links", found.nlink(), 1)?;
    }
    Ok(())
}

fn list(open: &File, count: usize) -> Result<(), Why> {
    dir::seek(open, 0)?;
    let mut listed = 0;
    loop {
        let some = dir::read_some(open, 32768)?.len();
        if some == 0 {
            break;
        }
        listed += some;
    }
    equal("entries", listed, count + 2)
}

/// Leaves nothing of the volume in memory but what is open.
fn forget(open: &File) -> Result<(), Why> {
    volume::syncfs(open)?;
    set("vm/drop_caches", "3")
}

/// Holds the lines that [`run`] printed in several rounds against those of the other filesystem: of
/// each step the best round counts, and it may take `limit` hundredths of what the other took.
pub fn compare(is: &Path, want: &Path, limit: u64, report: &mut Report) -> Result<(), Why> {
    let (is, want) = (best(is)?, best(want)?);
    require(!want.is_empty(), || "nothing was measured".into())?;
    equal("steps", is.len(), want.len())?;
    for (step, want) in &want {
        report.test(step, || {
            let is = is.get(step).ok_or("was not measured")?;
            let ratio = is * 100 / want.max(&1);
            println!(
                "# {step:10} {:8.1} ms, {:8.1} ms: {}.{:02} times",
                *is as f64 / 1e3,
                *want as f64 / 1e3,
                ratio / 100,
                ratio % 100
            );
            require(ratio <= limit, || {
                format!("{is} us, more than {limit}% of {want} us")
            })
        });
    }
    Ok(())
}

/// The least number of microseconds of each step.
fn best(path: &Path) -> Result<BTreeMap<String, u64>, Why> {
    let mut steps = BTreeMap::new();
    for line in fs::read_to_string(path)?.lines() {
        let (step, time) = line.split_once(' ').ok_or("a line without a time")?;
        let time: u64 = time.parse().map_err(|_| format!("no time: {line:?}"))?;
        let least = steps.entry(step.to_owned()).or_insert(time);
        *least = time.min(*least);
    }
    Ok(steps)
}
