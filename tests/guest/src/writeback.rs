// SPDX-License-Identifier: GPL-2.0

//! How written data reaches the disk: in how many allocations, in which requests, how often.

use crate::kernel::{hold_writeback, memory, release_writeback, set, settle, Memory};
use crate::report::Report;
use crate::rng;
use crate::sys::extent::{self, Extent};
use crate::sys::volume;
use crate::trace::{Request, Trace};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A volume to measure.
pub struct Bench<'a> {
    /// The block device, made anew by `mke2fs`.
    pub dev: &'a Path,
    /// Where to mount it.
    pub dir: &'a Path,
    /// The filesystem.
    pub fs: &'a str,
    /// Mount options.
    pub options: &'a str,
    /// The filesystem is ext4rs: hold its own counters and its promises against the requests.
    pub own: bool,
}

/// Requests of this many bytes are large.
const LARGE: u64 = 512 << 10;

impl Bench<'_> {
    fn mount(&self) -> Result<(), Why> {
        volume::mount(self.dev, self.dir, self.fs, 0, self.options).within(|| "mount".into())
    }

    fn umount(&self) -> Result<(), Why> {
        volume::umount(self.dir).within(|| "umount".into())
    }

    fn counter(&self, name: &str) -> Result<u64, Why> {
        let dev = self.dev.file_name().ok_or("the device has no name")?;
        let folder: PathBuf = [
            Path::new("/sys/fs/ext4rs"),
            dev.as_ref(),
            "writeback".as_ref(),
        ]
        .iter()
        .collect();
        let text = fs::read_to_string(folder.join(name)).within(|| format!("counter {name}"))?;
        text.trim()
            .parse()
            .map_err(|_| format!("counter {name} is {text:?}").into())
    }

    /// The counters now, to see later by how much each grew.
    fn counters(&self) -> Result<Grown<'_>, Why> {
        const NAMES: [&str; 6] = [
            "pages_scanned",
            "pages_written",
            "runs_mapped",
            "bio_bytes",
            "pages_over_budget",
            "wraps_no_budget",
        ];
        let start = NAMES.map(|name| self.counter(name).map(|value| (name, value)));
        Ok(Grown {
            bench: self,
            start: start.into_iter().collect::<Result<_, _>>()?,
        })
    }
}

/// Counters and what they were at the start.
struct Grown<'a> {
    bench: &'a Bench<'a>,
    start: Vec<(&'static str, u64)>,
}

impl Grown<'_> {
    fn of(&self, name: &str) -> Result<u64, Why> {
        let start = self.start.iter().find(|(known, _)| *known == name);
        let (_, start) = start.ok_or_else(|| format!("{name} is not among the counters"))?;
        let now = self.bench.counter(name)?;
        now.checked_sub(*start)
            .ok_or_else(|| format!("{name} went down").into())
    }
}

/// The write requests that carry blocks of `extents`.
fn of_data<'a>(requests: &'a [Request], extents: &[Extent]) -> Vec<&'a Request> {
    let inside = |request: &Request| {
        extents
            .iter()
            .any(|e| (e.physical..e.physical + e.length).contains(&request.start))
    };
    requests
        .iter()
        .filter(|request| request.is_write() && inside(request))
        .collect()
}

/// A large file by `dd`, then `fsync`: allocations, requests, pages looked at, memory.
pub fn large_file(bench: &Bench, mib: u64, report: &mut Report) -> Result<(), Why> {
    let path = bench.dir.join("large");
    let dd = |mib: u64| -> Result<(), Why> {
        let (to, count) = (format!("of={}", path.display()), format!("count={mib}"));
        let mut dd = Command::new("dd");
        dd.args([
            "if=/dev/zero",
            "bs=1M",
            "conv=fsync,notrunc",
            "status=none",
            &count,
            &to,
        ]);
        require(dd.status()?.success(), || "dd failed".into())
    };
    hold_writeback()?;
    // Once before, so that what is only made the first time is there.
    bench.mount()?;
    dd(1)?;
    bench.umount()?;
    settle()?;
    let before = memory()?;

    bench.mount()?;
    let trace = Trace::start(bench.dev)?;
    let grown = bench.own.then(|| bench.counters()).transpose()?;
    dd(mib)?;
    let requests = trace.take()?;
    let file = File::open(&path)?;
    let extents = extent::joined(&extent::fiemap(&file, false)?);
    drop(file);
    let data = of_data(&requests, &extents);
    report.test("large-requests", || large_requests(&data, mib << 20));
    if let Some(grown) = &grown {
        report.test("no-sync", || no_sync(&data));
        report.test("pages-scanned-once", || scanned_once(grown, mib << 20));
        if bench.options.contains("nodelalloc") {
            // Each call of dd allocates for itself, next to what the last one got.
            report.test("few-extents", || few_extents(&extents));
        } else {
            report.test("few-allocations", || {
                few_allocations(bench, grown, &extents, mib << 20)
            });
        }
        report.test("within-budget", || within_budget(grown));
    }
    drop(trace);
    bench.umount()?;
    report.test("memory-back", || memory_back(before, mib << 10));
    release_writeback()
}

fn large_requests(data: &[&Request], bytes: u64) -> Result<(), Why> {
    let all: u64 = data.iter().map(|request| request.length).sum();
    require(all >= bytes, || {
        format!("only {all} of {bytes} bytes were seen on their way")
    })?;
    let large: u64 = data
        .iter()
        .map(|r| r.length)
        .filter(|&length| length >= LARGE)
        .sum();
    let mean = all / data.len() as u64;
    println!("# {} requests, {} KiB on average", data.len(), mean >> 10);
    require(large * 100 >= bytes * 95, || {
        format!("{large} of {bytes} bytes in requests of 512 KiB and more; mean {mean}")
    })
}

fn no_sync(data: &[&Request]) -> Result<(), Why> {
    require(!data.is_empty(), || "no data request was seen".into())?;
    let marked: Vec<_> = data.iter().filter(|request| request.is_sync()).collect();
    require(marked.is_empty(), || {
        format!(
            "{} of {} data requests are marked: {:?}",
            marked.len(),
            data.len(),
            marked[0]
        )
    })
}

/// The first MiB was on the disk already: it is written again, and counts like the rest.
fn scanned_once(grown: &Grown, bytes: u64) -> Result<(), Why> {
    let (scanned, written) = (grown.of("pages_scanned")?, grown.of("pages_written")?);
    equal("pages looked at", scanned, written)?;
    equal("pages written", written, bytes / 4096)?;
    equal("bytes in bios", grown.of("bio_bytes")?, bytes)
}

fn few_allocations(
    bench: &Bench,
    grown: &Grown,
    extents: &[Extent],
    bytes: u64,
) -> Result<(), Why> {
    let cap = bench.counter("cap_bytes")?;
    let block = volume::space(bench.dir)?.block as u64;
    // A group's bitmap is one block.
    let group = block * block * 8;
    let mut groups: Vec<u64> = (extents.iter())
        .flat_map(|e| e.physical / group..=(e.physical + e.length - 1) / group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    let runs = grown.of("runs_mapped")?;
    let most = (bytes * 11).div_ceil(cap * 10) + groups.len() as u64 + 1;
    println!(
        "# {runs} allocations, {most} allowed; cap {cap}, {} groups",
        groups.len()
    );
    require(runs >= 1 && runs <= most, || {
        format!("{runs} allocations, {most} allowed")
    })
}

/// Neighbouring extents became one: what is apart on the disk is so for the disk's reasons.
fn few_extents(extents: &[Extent]) -> Result<(), Why> {
    println!("# {} extents", extents.len());
    require(!extents.is_empty() && extents.len() <= 4, || {
        format!("{} extents", extents.len())
    })
}

fn within_budget(grown: &Grown) -> Result<(), Why> {
    for name in ["pages_over_budget", "wraps_no_budget"] {
        equal(name, grown.of(name)?, 0)?;
    }
    Ok(())
}

/// After umount the file's pages are gone without being asked for, and with them the rest.
/// Numbers in KiB.
fn memory_back(before: Memory, written: u64) -> Result<(), Why> {
    // A hundredth would already be a leak that a day of writing shows.
    let slack = (written / 256).max(1024);
    let now = memory()?;
    require(now.cached <= before.cached + slack, || {
        format!(
            "cached: {} KiB after umount, {} before",
            now.cached, before.cached
        )
    })?;
    settle()?;
    let now = memory()?;
    println!(
        "# free {} -> {} KiB, slab {} -> {}",
        before.free, now.free, before.slab, now.slab
    );
    require(now.slab <= before.slab + slack / 4, || {
        format!("slab: {} KiB after, {} before", now.slab, before.slab)
    })?;
    require(now.free + slack >= before.free, || {
        format!("free: {} KiB after, {} before", now.free, before.free)
    })
}

/// One range written a hundred times and never synced goes to the disk once, at the end.
pub fn over_and_over(bench: &Bench, report: &mut Report) -> Result<(), Why> {
    const SIZE: u64 = 8 << 20;
    hold_writeback()?;
    bench.mount()?;
    let trace = Trace::start(bench.dev)?;
    let file = File::create_new(bench.dir.join("over"))?;
    let mut data = vec![0; 1 << 20];
    let grown = bench.own.then(|| bench.counters()).transpose()?;
    for round in 0..100 {
        rng::fill(round, 0, &mut data);
        for at in (0..SIZE).step_by(1 << 20) {
            file.write_all_at(&data, at)?;
        }
    }
    let early = trace.take()?;
    file.sync_all()?;
    let requests = trace.take()?;
    let extents = extent::fiemap(&file, false)?;
    let sent = |requests: &[Request]| -> u64 {
        of_data(requests, &extents)
            .iter()
            .map(|request| request.length)
            .sum()
    };
    report.test("never-written-early", || equal("bytes", sent(&early), 0));
    report.test("written-once", || {
        equal("bytes", sent(&requests), SIZE)?;
        grown.map_or(Ok(()), |grown| {
            equal("pages", grown.of("pages_written")?, SIZE / 4096)
        })
    });
    report.test("clean-is-not-written", || {
        file.sync_all()?;
        volume::sync();
        equal("bytes", sent(&trace.take()?), 0)
    });
    drop((trace, file));
    bench.umount()?;
    release_writeback()
}

/// More than memory's dirty limits allow, written while the kernel's own flusher runs: it keeps
/// to the pages that it was given.
pub fn background(bench: &Bench, mib: u64, report: &mut Report) -> Result<(), Why> {
    set("vm/dirty_background_bytes", "8388608")?;
    set("vm/dirty_writeback_centisecs", "20")?;
    set("vm/dirty_expire_centisecs", "30")?;
    bench.mount()?;
    let grown = bench.own.then(|| bench.counters()).transpose()?;
    let path = bench.dir.join("background");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let mut order: Vec<u64> = (0..mib).collect();
    rng::Rng::new(2).shuffle(&mut order);
    let mut data = vec![0; 1 << 20];
    // Twice: the second time over pages that are being written, in another order.
    for round in 0..2 {
        for &i in &order {
            rng::fill(round, i << 20, &mut data);
            file.write_all_at(&data, i << 20)?;
        }
        order.reverse();
    }
    report.test("background", || {
        file.sync_all()?;
        extent::forget(&file)?;
        let mut want = vec![0; 1 << 20];
        for i in 0..mib {
            rng::fill(1, i << 20, &mut want);
            file.read_exact_at(&mut data, i << 20)?;
            require(data == want, || format!("wrong bytes in MiB {i}"))?;
        }
        grown.map_or(Ok(()), |grown| within_budget(&grown))
    });
    drop(file);
    bench.umount()?;
    // Setting the ratio switches the bytes off.
    release_writeback()
}
