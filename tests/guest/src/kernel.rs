// SPDX-License-Identifier: GPL-2.0

//! What the kernel says of itself: memory, settings, slab caches, messages.

use crate::sys::volume;
use crate::why::{Why, Within};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Writes a setting below `/proc/sys`.
pub fn set(name: &str, value: &str) -> Result<(), Why> {
    let path = Path::new("/proc/sys").join(name);
    fs::write(&path, value).within(|| format!("{} = {value}", path.display()))
}

/// Writes nothing early: what is dirty stays so until somebody asks.
pub fn hold_writeback() -> Result<(), Why> {
    set("vm/dirty_ratio", "80")?;
    set("vm/dirty_background_ratio", "75")?;
    set("vm/dirty_expire_centisecs", "360000")?;
    set("vm/dirty_writeback_centisecs", "0")
}

/// The kernel's defaults again.
pub fn release_writeback() -> Result<(), Why> {
    set("vm/dirty_ratio", "20")?;
    set("vm/dirty_background_ratio", "10")?;
    set("vm/dirty_expire_centisecs", "3000")?;
    set("vm/dirty_writeback_centisecs", "500")
}

/// Memory in use, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Used for nothing, the processors' own lists of free pages included.
    pub free: u64,
    /// The page cache, block devices' own included.
    pub cached: u64,
    /// The kernel's objects.
    pub slab: u64,
}

/// `/proc/meminfo`.
pub fn memory() -> Result<Memory, Why> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let value = |name: &str| -> Result<u64, Why> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| format!("no {name} in meminfo").into())
    };
    Ok(Memory {
        free: value("MemFree")? + 4 * pages_on_lists()?,
        cached: value("Cached")? + value("Buffers")?,
        slab: value("Slab")?,
    })
}

/// Free pages that processors keep for themselves: `/proc/meminfo` does not count them as free.
fn pages_on_lists() -> Result<u64, Why> {
    let text = fs::read_to_string("/proc/zoneinfo")?;
    let counts = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("count:"));
    Ok(counts
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum())
}

/// Frees all that can be freed: caches of pages and objects, and what each processor keeps of
/// every slab cache. Memory that is freed after a grace period gets the time for it.
pub fn settle() -> Result<(), Why> {
    volume::sync();
    for _ in 0..2 {
        set("vm/drop_caches", "3")?;
        sleep(Duration::from_millis(150));
    }
    for cache in fs::read_dir("/sys/kernel/slab")? {
        // A cache may go away meanwhile.
        let _ = fs::write(cache?.path().join("shrink"), "1");
    }
    Ok(())
}

/// Objects in use in every slab cache.
pub fn slabs() -> Result<BTreeMap<String, u64>, Why> {
    let text = fs::read_to_string("/proc/slabinfo")?;
    let mut out = BTreeMap::new();
    for line in text.lines().skip(2) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(active))) = (words.next(), words.next().map(str::parse)) else {
            return Err(format!("slabinfo line {line:?}").into());
        };
        let active: u64 = active;
        *out.entry(name.to_owned()).or_insert(0) += active;
    }
    Ok(out)
}

/// The kernel's messages from the time of opening on.
pub struct Messages(File);

impl Messages {
    /// Starts to listen.
    pub fn new() -> Result<Self, Why> {
        let mut log = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        log.seek(SeekFrom::End(0))?;
        Ok(Self(log))
    }

    /// The lines since the last call.
    pub fn take(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        // One record a read; an error is either the end or a record that was overwritten.
        while let Ok(got @ 1..) = self.0.read(&mut record) {
            let text = String::from_utf8_lossy(&record[..got]);
            let text = text.split_once(';').map_or("", |(_, text)| text);
            lines.extend(text.lines().next().map(str::to_owned));
        }
        lines
    }
}

/// True for a line that a healthy kernel never prints.
pub fn is_complaint(line: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "WARNING: ",
        "BUG: ",
        "kernel BUG",
        "Oops",
        "Call Trace:",
        "blocked for more than",
        "general protection fault",
        "UBSAN:",
    ];
    SIGNS.iter().any(|sign| line.contains(sign))
}
