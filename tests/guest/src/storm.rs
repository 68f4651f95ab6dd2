// SPDX-License-Identifier: GPL-2.0

//! Many threads that use the same few names at once. What each answers is chance; that all of them
//! come back, and that the volume is consistent, is what is tested.

use crate::kernel;
use crate::names;
use crate::rng::Rng;
use crate::sys::volume;
use crate::why::{require, Why};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a storm is like.
pub struct Storm {
    /// Threads that use names.
    pub threads: u64,
    /// How long.
    pub seconds: u64,
    /// Everything random follows from it.
    pub seed: u64,
    /// A further thread has the kernel forget what it need not remember, so that much is read from
    /// the disk again.
    pub cold: bool,
    /// The device or the volume fails meanwhile: nothing need succeed.
    pub failing: bool,
}

impl Storm {
    /// Lets it loose in the directory `storm` below `root`.
    pub fn run(&self, root: &Path) -> Result<(), Why> {
        let root = root.join("storm");
        fs::create_dir_all(&root)?;
        println!("# seed {}", self.seed);
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let over = AtomicBool::new(false);
        let counts: Vec<_> = thread::scope(|scope| {
            if self.cold {
                scope.spawn(|| forget(&over));
            }
            let workers: Vec<_> = (0..self.threads)
                .map(|nr| {
                    let (root, rng) = (&root, Rng::new((self.seed << 8) | nr));
                    scope.spawn(move || worker(root, rng, end))
                })
                .collect();
            let counts = workers.into_iter().filter_map(|w| w.join().ok()).collect();
            over.store(true, Ordering::Relaxed);
            counts
        });
        let all: u64 = counts.iter().map(|c: &(u64, u64)| c.0).sum();
        let done: u64 = counts.iter().map(|c| c.1).sum();
        println!("# {all} operations, {done} of them done");
        require(counts.len() as u64 == self.threads, || {
            "a thread did not end well".into()
        })?;
        if self.failing {
            return Ok(());
        }
        require(done > 0, || "nothing could be done".into())?;
        names::look(&root).map(drop)
    }
}

/// Drops caches until it is `over`.
fn forget(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(300));
        let _ = kernel::set("vm/drop_caches", "3");
    }
}

/// Uses names until `end`: how many operations, and how many of them were done.
fn worker(root: &Path, mut rng: Rng, end: Instant) -> (u64, u64) {
    let (mut all, mut done) = (0, 0);
    while Instant::now() < end {
        all += 1;
        done += u64::from(step(root, &mut rng).is_ok());
    }
    (all, done)
}

/// One operation of a storm below `root`. No file stays open.
pub fn step(root: &Path, rng: &mut Rng) -> io::Result<()> {
    match rng.below(10) {
        0 => write(root, rng),
        1 => cut(root, rng),
        2 => list(root, rng),
        _ => names::random(rng).run(root),
    }
}

fn open(root: &Path, rng: &mut Rng) -> io::Result<File> {
    File::options()
        .write(true)
        .create(rng.chance(30))
        .custom_flags(libc::O_NONBLOCK)
        .open(root.join(names::random_name(rng)))
}

fn write(root: &Path, rng: &mut Rng) -> io::Result<()> {
    let file = open(root, rng)?;
    let data = vec![0x66; rng.within(1, 40_000) as usize];
    file.write_all_at(&data, rng.below(100_000))?;
    match rng.below(20) {
        0 => file.sync_all(),
        1 => file.sync_data(),
        2 => volume::syncfs(&file),
        _ => Ok(()),
    }
}

fn cut(root: &Path, rng: &mut Rng) -> io::Result<()> {
    let length = rng.pick(&[0, 0, 1000, 30_000, 90_000]);
    open(root, rng)?.set_len(length)
}

/// Lists a directory and looks at all that is in it; at times brings it to the disk.
fn list(root: &Path, rng: &mut Rng) -> io::Result<()> {
    let path = root.join(rng.pick(&["", "d0", "d1", "d2", "d0/d1"]));
    for entry in fs::read_dir(&path)? {
        // It may be gone.
        let _ = fs::symlink_metadata(entry?.path());
    }
    if rng.chance(10) {
        File::open(&path)?.sync_all()?;
    }
    Ok(())
}
