// SPDX-License-Identifier: GPL-2.0

//! What a run costs: time, processor time of the whole guest, and the disk's own counts.

use super::Run;
use crate::why::{Why, Within};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The units of `/proc/stat` in a second.
const TICKS: f64 = 100.0;

/// A disk's counts since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disk {
    /// Read requests.
    pub read_ios: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub write_ios: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes of the disk's cache.
    pub flushes: u64,
}

/// Everything at one moment.
pub struct Meter {
    at: Instant,
    /// Seconds of the whole guest.
    user: f64,
    system: f64,
    disk: Disk,
    counters: BTreeMap<String, u64>,
}

/// What went by between two moments, times in seconds.
pub struct Grown {
    /// By the clock.
    pub wall: f64,
    /// In programs.
    pub user: f64,
    /// In the kernel, interrupts too.
    pub system: f64,
    /// Requests.
    pub disk: Disk,
    /// The module's own.
    pub counters: BTreeMap<String, u64>,
}

impl Meter {
    /// Reads everything.
    pub(super) fn now(run: &Run) -> Result<Self, Why> {
        let (user, system) = processors(&fs::read_to_string("/proc/stat")?)?;
        let dev = run.field("dev");
        Ok(Self {
            disk: disk(&fs::read_to_string(format!("/sys/block/{dev}/stat"))?)?,
            counters: counters(Path::new("/sys/fs/ext4rs").join(dev).as_path())?,
            user,
            system,
            at: Instant::now(),
        })
    }

    /// What went by since `start`.
    pub(super) fn since(&self, start: &Self) -> Grown {
        let (now, then) = (&self.disk, &start.disk);
        let past = |name: &String| start.counters.get(name).copied().unwrap_or(0);
        // What is a size, not a count, is said as it is.
        let grown = |(name, value): (&String, &u64)| {
            let same = name == "cap_bytes";
            let grown = if same {
                *value
            } else {
                value.saturating_sub(past(name))
            };
            (name.clone(), grown)
        };
        Grown {
            wall: (self.at - start.at).as_secs_f64(),
            user: self.user - start.user,
            system: self.system - start.system,
            disk: Disk {
                read_ios: now.read_ios - then.read_ios,
                read_bytes: now.read_bytes - then.read_bytes,
                write_ios: now.write_ios - then.write_ios,
                write_bytes: now.write_bytes - then.write_bytes,
                flushes: now.flushes - then.flushes,
            },
            counters: self.counters.iter().map(grown).collect(),
        }
    }
}

/// Seconds in programs and in the kernel, from `/proc/stat`.
fn processors(text: &str) -> Result<(f64, f64), Why> {
    let line = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "));
    let numbers: Vec<f64> = line
        .unwrap_or_default()
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [user, nice, system, _, _, irq, soft, ..] => {
            Ok(((user + nice) / TICKS, (system + irq + soft) / TICKS))
        }
        _ => Err("/proc/stat has no line that begins with cpu".into()),
    }
}

/// A disk's `stat` file (Documentation/block/stat.rst of the kernel).
fn disk(text: &str) -> Result<Disk, Why> {
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [read_ios, _, read, _, write_ios, _, written, ..] = numbers[..] else {
        return Err(format!("a disk's stat is {text:?}").into());
    };
    Ok(Disk {
        read_ios,
        read_bytes: read * 512,
        write_ios,
        write_bytes: written * 512,
        flushes: numbers.get(15).copied().unwrap_or(0),
    })
}

/// The numbers in the files below `folder/writeback`; none where there is no such folder.
fn counters(folder: &Path) -> Result<BTreeMap<String, u64>, Why> {
    let Ok(files) = fs::read_dir(folder.join("writeback")) else {
        return Ok(BTreeMap::new());
    };
    let mut out = BTreeMap::new();
    for file in files {
        let file = file?;
        let text = fs::read_to_string(file.path())?;
        if let Ok(number) = text.trim().parse() {
            out.insert(file.file_name().to_string_lossy().into_owned(), number);
        }
    }
    Ok(out)
}

/// A line of `/proc/meminfo`, in KiB.
pub fn meminfo(name: &str) -> Result<u64, Why> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    Ok(number.ok_or_else(|| format!("no {name} in meminfo"))?)
}

/// Bytes in the slab caches whose names begin with the filesystem's.
pub fn slab(fs: &str) -> Result<u64, Why> {
    let text = fs::read_to_string("/proc/slabinfo").within(|| "slabinfo".into())?;
    let mine = |name: &str| {
        name.strip_prefix(fs)
            .is_some_and(|rest| rest.starts_with('_'))
    };
    let lines = text.lines().map(|line| line.split_whitespace().collect());
    let bytes = lines.filter_map(|words: Vec<&str>| match words[..] {
        [name, _, count, size, ..] if mine(name) => {
            Some(count.parse::<u64>().ok()? * size.parse::<u64>().ok()?)
        }
        _ => None,
    });
    Ok(bytes.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files() {
        let text = "cpu  100 20 300 4000 50 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n";
        let (user, system) = processors(text).unwrap();
        assert!((user - 1.2).abs() < 1e-9 && (system - 3.13).abs() < 1e-9);
        assert!(processors("intr 1\n").is_err());
        let text = " 1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 3 0\n";
        let want = Disk {
            read_ios: 1,
            read_bytes: 4096,
            write_ios: 2,
            write_bytes: 8192,
            flushes: 3,
        };
        assert_eq!(disk(text).unwrap(), want);
        assert!(disk("").is_err());
    }
}
