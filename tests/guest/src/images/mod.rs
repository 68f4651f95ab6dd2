// SPDX-License-Identifier: GPL-2.0

//! Volumes with changed bytes: mounted, read, written, and used in every other way. Each must end in
//! errors or in the right data, never in a complaint of the kernel's or a hang.

mod change;
mod parts;
mod used;
mod walk;

use crate::kernel::{is_complaint, Messages};
use crate::report::Report;
use crate::rng::{self, Rng};
use crate::sys::{extent, meta, process, volume};
use crate::volumes;
use crate::why::{require, Why, Within};
use change::{Change, SORTS};
use parts::{Kind, Volume};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{symlink, FileExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use walk::Walk;

/// What to try.
pub struct Trial<'a> {
    /// The filesystem.
    pub fs: &'a str,
    /// A small block device, made anew by `mke2fs`.
    pub dev: &'a Path,
    /// Where to mount it.
    pub dir: &'a Path,
    /// Images to make.
    pub count: u64,
    /// Everything random follows from it.
    pub seed: u64,
    /// Only the image of this number, with all that is known of it.
    pub only: Option<u64>,
    /// The filesystem is ext4rs: a listing that leaves names out must say so.
    pub own: bool,
}

/// So long may one image take, in seconds.
const PATIENCE: u64 = 120;

/// What became of the images, and how long that took.
#[derive(Default)]
struct Tally {
    refused: u64,
    erred: u64,
    fine: u64,
    times: BTreeMap<&'static str, Duration>,
}

impl Tally {
    /// Does one step, and adds the time that it takes.
    fn timed<T>(&mut self, step: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        *self.times.entry(step).or_default() += start.elapsed();
        done
    }
}

impl Trial<'_> {
    /// Makes all images and tries each.
    pub fn run(&self, report: &mut Report) -> Result<(), Why> {
        self.fill()?;
        let base = volumes::load(self.dev)?;
        let want = self.mounted("ext4", libc::MS_RDONLY, "", walk::walk)?;
        require(!walk::has_error(&want), || {
            "the good image has errors".into()
        })?;
        let volume = Volume::new(&base)?;
        let parts = volume.parts(&base)?;
        for part in &parts {
            require(volume.is_intact(&base, part)?, || {
                format!("{part:?} has a bad checksum")
            })?;
        }
        let (now, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        watch(Arc::clone(&now), start);
        let (mut failed, mut tally) = (Vec::new(), Tally::default());
        for number in 0..self.count {
            if self.only.is_some_and(|only| only != number) {
                continue;
            }
            now.store(
                (number << 32) | start.elapsed().as_secs(),
                Ordering::Relaxed,
            );
            let mut rng = Rng::new((self.seed << 32) | number);
            let mut image = base.clone();
            let sort = SORTS[(number % SORTS.len() as u64) as usize];
            let resealed = number / SORTS.len() as u64 % 2 == 1;
            let change = change::apply(&mut image, &volume, &parts, sort, resealed, &mut rng)?;
            let broken = !volume.is_intact(&image, &change.part)?;
            let damage = Damage {
                number,
                image: &image,
                broken,
                is_read: change.part.kind.is_read(),
                has_orphans: matches!(change.part.kind, Kind::Orphans(_)),
            };
            let tried = self.try_one(&damage, &want, &mut tally);
            if let Err(why) = tried {
                println!("# image {number}: {why}: {change}");
                failed.push((number, why, change));
            }
        }
        now.store(u64::MAX, Ordering::Relaxed);
        println!(
            "# {} refused, {} with errors, {} without",
            tally.refused, tally.erred, tally.fine
        );
        let times = tally.times.iter();
        let times = times.map(|(step, time)| format!("{step} {:.1} s", time.as_secs_f32()));
        println!("# {}", times.collect::<Vec<_>>().join(", "));
        for (i, sort) in SORTS.iter().enumerate() {
            report.test(sort, || summary(&failed, i as u64));
        }
        Ok(())
    }

    fn mounted<T>(
        &self,
        fs: &str,
        flags: u64,
        options: &str,
        work: impl FnOnce(&Path) -> T,
    ) -> Result<T, Why> {
        volume::mount(self.dev, self.dir, fs, flags, options).within(|| "mount".into())?;
        let done = work(self.dir);
        volume::umount(self.dir).within(|| "umount".into())?;
        Ok(done)
    }

    /// Files that use every structure of the format, made by the kernel's ext4.
    fn fill(&self) -> Result<(), Why> {
        self.mounted("ext4", 0, "", make_files)?
    }

    /// Mounts one image, reads it, and uses it in every way.
    ///
    /// What can be read must be what was there; of an image whose checksums fit, what the kernel's
    /// ext4 reads there. What can be done to it afterwards is chance.
    fn try_one(&self, damage: &Damage, want: &Walk, tally: &mut Tally) -> Result<(), Why> {
        let mut peer = if damage.broken || !self.own {
            None
        } else {
            tally.timed("store", || volumes::store(self.dev, damage.image))?;
            tally.timed("peer", || {
                self.mounted("ext4", libc::MS_RDONLY, "errors=continue", walk::walk)
                    .ok()
            })
        };
        tally.timed("store", || volumes::store(self.dev, damage.image))?;
        let mut messages = Messages::new()?;
        let options = ["errors=continue", "errors=remount-ro"][(damage.number % 2) as usize];
        let mounted = tally.timed("mount", || {
            volume::mount(self.dev, self.dir, self.fs, libc::MS_NOATIME, options)
        });
        let seen = match mounted {
            Ok(()) => {
                let seen = tally.timed("walk", || walk::walk(self.dir));
                let rng = &mut Rng::new((self.seed << 33) | damage.number);
                tally.timed("use", || used::in_every_way(self.dir, want, rng));
                tally
                    .timed("umount", || volume::umount(self.dir))
                    .within(|| "umount".into())?;
                Some(seen)
            }
            Err(_) => None,
        };
        let said = messages.take();
        if self.only.is_some() {
            said.iter().for_each(|line| println!("# {line}"));
        }
        if let Some(line) = said.iter().find(|line| is_complaint(line)) {
            return Err(format!("the kernel complained: {line}").into());
        }
        let complained = said.iter().any(|line| line.contains("-fs error"));
        let Some(mut seen) = seen else {
            tally.refused += 1;
            return Ok(());
        };
        let erred = complained || walk::has_error(&seen);
        if erred {
            tally.erred += 1;
        } else {
            tally.fine += 1;
        }
        require(erred || !damage.broken || !damage.is_read, || {
            "a bad checksum was not noticed".into()
        })?;
        if damage.has_orphans {
            // Those that are cut are changed now; the good image and the peer's had other times.
            walk::forget_times(&mut seen);
            peer.iter_mut().for_each(walk::forget_times);
        }
        let difference = if damage.broken && !damage.has_orphans {
            walk::difference(&seen, want, self.own, None)
        } else {
            let differs = |peer| walk::difference(&seen, peer, false, Some(want));
            peer.as_ref().and_then(differs)
        };
        match difference {
            Some(difference) => Err(format!("wrong data: {difference}").into()),
            None => Ok(()),
        }
    }
}

/// One damaged image.
struct Damage<'a> {
    number: u64,
    image: &'a [u8],
    /// The checksum of what was changed shows it.
    broken: bool,
    /// What was changed is looked at by whoever reads every file.
    is_read: bool,
    /// Inodes are orphans.
    has_orphans: bool,
}

/// Ends the process, loudly, if one image takes too long.
fn watch(now: Arc<AtomicU64>, start: Instant) {
    thread::spawn(move || loop {
        thread::sleep(Duration::from_secs(1));
        let state = now.load(Ordering::Relaxed);
        if state == u64::MAX {
            return;
        }
        let (number, since) = (state >> 32, state & 0xffff_ffff);
        if start.elapsed().as_secs() > since + PATIENCE {
            println!("not ok images-hang: image {number} takes more than {PATIENCE} s");
            let _ = std::io::stdout().flush();
            process::end(1);
        }
    });
}

/// The verdict on one sort of images.
fn summary(failed: &[(u64, Why, Change)], sort: u64) -> Result<(), Why> {
    let mut of_sort = failed
        .iter()
        .filter(|(n, _, _)| n % SORTS.len() as u64 == sort);
    let first = of_sort.next();
    let Some((number, why, change)) = first else {
        return Ok(());
    };
    let more = of_sort.count();
    let kind = change.part.kind;
    Err(format!("image {number} ({kind:?}): {why}; {more} more images fail").into())
}

/// The good image's files: directories of both forms, trees of some depth, links, attributes.
fn make_files(dir: &Path) -> Result<(), Why> {
    let small = dir.join("small");
    fs::create_dir(&small)?;
    for i in 0..12 {
        let file = File::create_new(small.join(format!("file{i}")))?;
        let mut data = vec![0; i * 777];
        rng::fill(i as u64, 0, &mut data);
        file.write_all_at(&data, 0)?;
    }
    let indexed = dir.join("indexed");
    fs::create_dir(&indexed)?;
    for i in 0..60 {
        meta::mknod(
            &indexed.join(format!("{i:0>200}")),
            libc::S_IFIFO | 0o644,
            0,
            0,
        )?;
    }
    let sparse = File::create_new(dir.join("sparse"))?;
    let mut data = vec![0; 1024];
    // Every second block: more extents than one block of a tree has room for.
    let step = 2 * volume::space(dir)?.block as u64;
    for i in 0..400_u64 {
        rng::fill(99, i * step, &mut data);
        sparse.write_all_at(&data, i * step)?;
    }
    let large = File::create_new(dir.join("large"))?;
    let mut data = vec![0; 700_000];
    rng::fill(98, 0, &mut data);
    large.write_all_at(&data, 0)?;
    extent::fallocate(&large, 0, 1_000_000, 300_000)?;
    fs::create_dir_all(dir.join("deep/er/and/deeper"))?;
    File::create_new(dir.join("deep/er/and/deeper/file"))?.write_all(b"bottom")?;
    symlink("small/file3", dir.join("fast"))?;
    symlink("x/".repeat(200), dir.join("slow"))?;
    meta::mknod(&dir.join("device"), libc::S_IFCHR | 0o600, 300, 70_000)?;
    meta::set_xattr(&small, b"user.small", b"value")?;
    meta::set_xattr(&dir.join("large"), b"user.large", &[b'v'; 700])?;
    Ok(())
}
