// SPDX-License-Identifier: GPL-2.0

//! A volume that is made read-only, and writable again, while many threads use it.
//!
//! The kernel refuses to make a volume read-only as long as anybody is within an operation that
//! writes, or has a file open for writing. Threads that never pause would be at it most of the
//! time, and it would be chance whether anything is tested. So they all stand still for a moment,
//! between two operations, with what they did still to be written to the disk.

use crate::rng::Rng;
use crate::storm;
use crate::sys::volume;
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Operations that are done before each change: the volume is never idle then.
const WORK: u64 = 40;

/// How long one of these things may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The volume, and how often it is made read-only.
pub struct Remounts<'a> {
    /// Its device.
    pub dev: &'a Path,
    /// Where it is mounted.
    pub dir: &'a Path,
    /// Threads that use it.
    pub threads: u64,
    /// Times that it is made read-only.
    pub count: u64,
    /// Everything random follows from it.
    pub seed: u64,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    /// Held for reading within an operation.
    gate: RwLock<()>,
    /// Operations that were done.
    done: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    /// Uses names below `root` until it is over.
    fn work(&self, root: &Path, mut rng: Rng) {
        while !self.over.load(Ordering::Relaxed) {
            let _turn = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            if storm::step(root, &mut rng).is_ok() {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until everybody is between two operations.
    fn stand_still(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until more has been done to the volume.
    fn wait_for_work(&self) -> Result<(), Why> {
        let (start, before) = (Instant::now(), self.done.load(Ordering::Relaxed));
        while self.done.load(Ordering::Relaxed) < before + WORK {
            require(start.elapsed() < PATIENCE, || "nothing gets done".into())?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Remounts<'_> {
    /// Does it.
    pub fn run(&self) -> Result<(), Why> {
        let root = self.dir.join("storm");
        fs::create_dir_all(&root)?;
        let shared = Shared::default();
        let result = thread::scope(|scope| {
            for nr in 0..self.threads {
                let rng = Rng::new((self.seed << 8) | nr);
                let (shared, root) = (&shared, &root);
                scope.spawn(move || shared.work(root, rng));
            }
            let result = (0..self.count).try_fold(Found::default(), |mut found, i| {
                self.round(&shared, &mut found)
                    .within(|| format!("round {i}"))?;
                Ok::<_, Why>(found)
            });
            shared.over.store(true, Ordering::Relaxed);
            result
        });
        let Found { at_once, sectors } = result?;
        let (count, done) = (self.count, shared.done.into_inner());
        println!("# {done} operations; read-only {count} times, {at_once} of them against others");
        println!("# {} KiB written for that", sectors / 2);
        Ok(())
    }

    /// Makes the volume read-only, looks at it, and makes it writable again.
    fn round(&self, shared: &Shared, found: &mut Found) -> Result<(), Why> {
        shared.wait_for_work()?;
        let before = self.sectors_written()?;
        // First with everybody about to go on; that may be refused. Then before they can.
        drop(shared.stand_still());
        match self.remount(libc::MS_RDONLY) {
            Ok(()) => found.at_once += 1,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => self.catch(shared)?,
            Err(e) => Err(e).within(|| "making it read-only".into())?,
        }
        let after = self.sectors_written()?;
        found.sectors += after - before;
        require(after > before, || "there was nothing to write".into())?;
        // The others go on, and what they want to change is refused.
        let refused = File::create(self.dir.join("refused")).err();
        let errno = refused.and_then(|e| e.raw_os_error());
        equal("the answer to create", errno, Some(libc::EROFS))?;
        self.check()?;
        equal("sectors written at the end", self.sectors_written()?, after)?;
        self.remount(0).within(|| "making it writable".into())
    }

    /// Makes it read-only while everybody stands still. What they removed may still be on its way
    /// out of memory: that has to come to an end.
    fn catch(&self, shared: &Shared) -> Result<(), Why> {
        let start = Instant::now();
        loop {
            shared.wait_for_work()?;
            let _still = shared.stand_still();
            match self.remount(libc::MS_RDONLY) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < PATIENCE => {}
                result => return result.within(|| "making it read-only".into()),
            }
        }
    }

    fn remount(&self, flags: u64) -> io::Result<()> {
        volume::mount(self.dev, self.dir, "", libc::MS_REMOUNT | flags, "")
    }

    /// A volume that is read-only is whole and needs no recovery.
    fn check(&self) -> Result<(), Why> {
        let checked = Command::new("e2fsck").arg("-fn").arg(self.dev).output()?;
        require(checked.status.success(), || {
            String::from_utf8_lossy(&checked.stdout).into_owned()
        })
    }

    /// Sectors that have been written to the device since it was made.
    fn sectors_written(&self) -> Result<u64, Why> {
        let dev = fs::metadata(self.dev)?.rdev();
        let (major, minor) = (libc::major(dev), libc::minor(dev));
        let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"))?;
        // `Documentation/block/stat.rst`: the seventh number.
        let field = text.split_whitespace().nth(6);
        let count = field.and_then(|field| field.parse().ok());
        count.ok_or_else(|| format!("no statistics in {text}").into())
    }
}

/// What the rounds found.
#[derive(Default)]
struct Found {
    /// Times that it became read-only with others about to use it.
    at_once: u64,
    /// Sectors that were written to make it read-only.
    sectors: u64,
}
