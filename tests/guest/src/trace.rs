// SPDX-License-Identifier: GPL-2.0

//! The requests that reach a disk, by the block layer's tracepoint.

use crate::why::{Why, Within};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One request as it was given to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is: R, W, F (flush), and what it is marked with (S: sync, M: metadata ...).
    pub flags: String,
    /// Where it starts, in bytes.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The task that issued it.
    pub task: String,
}

impl Request {
    /// True for one that writes data.
    pub fn is_write(&self) -> bool {
        self.flags.contains('W') && self.length > 0
    }

    /// True where it is marked as one that somebody waits for.
    pub fn is_sync(&self) -> bool {
        self.flags.contains('S')
    }
}

/// A trace of one disk; it ends when it is dropped.
pub struct Trace {
    folder: PathBuf,
}

impl Trace {
    /// Starts to record the requests of the block device at `dev`.
    pub fn start(dev: &Path) -> Result<Self, Why> {
        let id = fs::metadata(dev)?.rdev();
        // The kernel's own number of a device, unlike `stat`'s.
        let id = (u64::from(libc::major(id)) << 20) | u64::from(libc::minor(id));
        let folder = Path::new("/sys/kernel/tracing/instances/guest").to_path_buf();
        if !folder.exists() {
            fs::create_dir(&folder).within(|| "a trace instance".into())?;
        }
        let trace = Self { folder };
        trace.set("buffer_size_kb", "4096")?;
        trace.set(
            "events/block/block_rq_issue/filter",
            &format!("dev == {id}"),
        )?;
        trace.set("events/block/block_rq_issue/enable", "1")?;
        trace.set("tracing_on", "1")?;
        Ok(trace)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Why> {
        fs::write(self.folder.join(name), value).within(|| format!("{name} = {value}"))
    }

    /// The requests since the start or the last call.
    pub fn take(&self) -> Result<Vec<Request>, Why> {
        let text = fs::read(self.folder.join("trace"))?;
        let text = String::from_utf8_lossy(&text);
        if text.contains("LOST") {
            return Err("the trace lost requests".into());
        }
        self.set("trace", "")?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| parse(line).ok_or_else(|| format!("trace line {line:?}").into()))
            .collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // What is left behind is an idle instance; there is nobody to tell.
        let _ = self.set("events/block/block_rq_issue/enable", "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// `... block_rq_issue: 254,16 W 1310720 () 12345 + 2560 none,0,0 [task]`
fn parse(line: &str) -> Option<Request> {
    let (_, event) = line.split_once("block_rq_issue: ")?;
    let (event, task) = event.split_once('[')?;
    let (head, place) = event.split_once('(')?;
    let flags = head.split_whitespace().nth(1)?.to_owned();
    let mut place = place.split_once(')')?.1.split_whitespace();
    let start: u64 = place.next()?.parse().ok()?;
    let count: u64 = place.nth(1)?.parse().ok()?;
    let task = task.trim_end().trim_end_matches(']').to_owned();
    // A flush alone has no place: all ones.
    Some(Request {
        flags,
        start: start.saturating_mul(512),
        length: count * 512,
        task,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tracepoint() {
        let line = " kworker/u8:2-47 [001] d..1. 12.5: block_rq_issue: \
                    254,16 WS 1310720 () 12345 + 2560 none,0,0 [kworker/u8:2]";
        let request = parse(line).unwrap();
        assert_eq!((request.start, request.length), (12345 * 512, 2560 * 512));
        assert!(request.is_write() && request.is_sync());
        assert_eq!(request.task, "kworker/u8:2");
        let flush = " a-1 [000] ..... 1.0: block_rq_issue: \
                     254,16 FF 0 () 18446744073709551615 + 0 none,0,0 [a]";
        assert!(!parse(flush).unwrap().is_write());
        assert_eq!(parse("CPU 0 is empty"), None);
    }
}
