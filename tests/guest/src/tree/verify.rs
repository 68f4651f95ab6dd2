// SPDX-License-Identifier: GPL-2.0

//! Holds a tree on a volume against its plan: every byte, every attribute, every name.

use super::{plan, Kind, Node, Params, Spec};
use crate::sys::{dir, extent, meta, volume};
use crate::why::{equal, require, shortened, Why, Within};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// Bytes read in one call.
const CHUNK: usize = 1 << 20;
/// Failures shown before the rest is only counted.
const SHOWN: usize = 4;
/// No file of a test was made before this (2020): change and birth times must be later.
const EARLIEST: i64 = 1_577_836_800;

/// Checks all `nodes` below `root`. The volume must be mounted read-only or without access times,
/// and written out.
pub fn verify(root: &Path, params: &Params, nodes: &[Node]) -> Result<(), Why> {
    let checker = Checker {
        root,
        nodes,
        children: plan::children(nodes),
        block: volume::space(root)?.block as u64,
        next: AtomicUsize::new(0),
        failures: Mutex::new(Vec::new()),
    };
    thread::scope(|scope| {
        for _ in 0..params.threads {
            scope.spawn(|| checker.check_all());
        }
    });
    let failures = checker
        .failures
        .into_inner()
        .map_err(|_| "a checker panicked")?;
    for why in failures.iter().take(SHOWN) {
        println!("# {why}");
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} of {} nodes: {first}", failures.len(), nodes.len()).into()),
    }
}

struct Checker<'a> {
    root: &'a Path,
    nodes: &'a [Node],
    children: Vec<Vec<usize>>,
    /// Bytes in a block of the volume.
    block: u64,
    next: AtomicUsize,
    failures: Mutex<Vec<Why>>,
}

impl Checker<'_> {
    fn check_all(&self) {
        let (mut is, mut want) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= self.nodes.len() {
                return;
            }
            let done = self.check(i, &mut is, &mut want);
            let done = done.within(|| shortened(&self.nodes[i].path));
            if let (Err(why), Ok(mut failures)) = (done, self.failures.lock()) {
                failures.push(why);
            }
        }
    }

    fn check(&self, i: usize, is: &mut [u8], want: &mut [u8]) -> Result<(), Why> {
        let node = &self.nodes[i];
        let path = self.root.join(&node.path);
        let found = fs::symlink_metadata(&path)?;
        let format = match &node.kind {
            Kind::Dir => libc::S_IFDIR,
            Kind::File(_) => libc::S_IFREG,
            Kind::Special { format, .. } => *format,
        };
        equal(
            "mode",
            format!("{:o}", found.mode()),
            format!("{:o}", format | node.mode),
        )?;
        equal("owner", (found.uid(), found.gid()), (node.uid, node.gid))?;
        let time = |seconds, nanos| meta::Time { seconds, nanos };
        equal("atime", time(found.atime(), found.atime_nsec()), node.atime)?;
        equal("mtime", time(found.mtime(), found.mtime_nsec()), node.mtime)?;
        check_own_times(&path, &found)?;
        match &node.kind {
            Kind::Dir => self.check_dir(i, &path, &found),
            Kind::File(spec) => {
                equal("links", found.nlink(), 1)?;
                self.check_file(&path, spec, &found, is, want)
            }
            Kind::Special { major, minor, .. } => {
                equal("links", found.nlink(), 1)?;
                equal("size and blocks", (found.size(), found.blocks()), (0, 0))?;
                let device = libc::makedev(*major, *minor);
                equal("device", found.rdev(), device)
            }
        }
    }

    fn check_dir(&self, i: usize, path: &Path, found: &Metadata) -> Result<(), Why> {
        let children = &self.children[i];
        let dirs = children
            .iter()
            .filter(|&&child| self.nodes[child].is_dir())
            .count();
        equal("links", found.nlink(), 2 + dirs as u64)?;
        let mut names = BTreeMap::new();
        for entry in dir::read_all(&File::open(path)?, 32768)? {
            let twice = names.insert(entry.name.clone(), entry);
            require(twice.is_none(), || format!("{twice:?} is listed twice"))?;
        }
        for dots in [".", ".."] {
            require(names.remove(OsStr::new(dots)).is_some(), || {
                format!("no {dots}")
            })?;
        }
        for &child in children {
            let node = &self.nodes[child];
            let entry = names.remove(&node.name);
            let entry = entry.ok_or_else(|| format!("{:?} is not listed", node.name))?;
            let child = fs::symlink_metadata(path.join(&node.name))?;
            equal("listed inode", entry.ino, child.ino())?;
            equal(
                "listed type",
                u32::from(entry.kind),
                (child.mode() & libc::S_IFMT) >> 12,
            )?;
        }
        require(names.is_empty(), || {
            format!("{:?} should not be there", names.keys())
        })
    }

    fn check_file(
        &self,
        path: &Path,
        spec: &Spec,
        found: &Metadata,
        is: &mut [u8],
        want: &mut [u8],
    ) -> Result<(), Why> {
        equal("size", found.size(), spec.size())?;
        let file = File::open(path)?;
        let mut at = 0;
        while at < spec.size() {
            let length = (spec.size() - at).min(CHUNK as u64) as usize;
            let (is, want) = (&mut is[..length], &mut want[..length]);
            file.read_exact_at(is, at)
                .within(|| format!("reading at {at}"))?;
            spec.content(at, want);
            if let Some(i) = is.iter().zip(want.iter()).position(|(a, b)| a != b) {
                let place = at + i as u64;
                return Err(format!("byte {place} is {}, must be {}", is[i], want[i]).into());
            }
            at += length as u64;
        }
        self.check_holes(&file, spec, found)
    }

    /// The blocks taken are those with data and few more, and the holes are holes.
    fn check_holes(&self, file: &File, spec: &Spec, found: &Metadata) -> Result<(), Why> {
        // A store through a mapping fills whole folios.
        let unit = if spec.is_mapped() {
            self.block.max(65536)
        } else {
            self.block
        };
        let blocks = |ranges: &[(u64, u64)]| {
            ranges
                .iter()
                .map(|(start, end)| (end - start) / self.block)
                .sum::<u64>()
        };
        let least = blocks(&spec.covered(self.block));
        let most = blocks(&spec.covered(unit));
        let most = most + most / 30 + 8;
        let taken = found.blocks() * 512 / self.block;
        require((least..=most).contains(&taken), || {
            format!("{taken} blocks taken, must be {least} to {most}")
        })?;
        if spec.is_mapped() {
            return Ok(());
        }
        let size = spec.size();
        let want: Vec<_> = (spec.covered(self.block).into_iter())
            .map(|(start, end)| (start, end.min(size)))
            .collect();
        equal("data by SEEK_DATA", extent::data_ranges(file)?, want)
    }
}

/// The change time is recent, and the birth time, where there is one, not after it.
fn check_own_times(path: &Path, found: &Metadata) -> Result<(), Why> {
    require(found.ctime() > EARLIEST, || {
        format!("ctime is {}", found.ctime())
    })?;
    let changed = meta::Time {
        seconds: found.ctime(),
        nanos: found.ctime_nsec(),
    };
    if let Some(born) = meta::statx(path)?.born {
        require(born.seconds > EARLIEST && born <= changed, || {
            format!("born at {born:?}, changed at {changed:?}")
        })?;
    }
    Ok(())
}
