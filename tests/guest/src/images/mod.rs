// SPDX-License-Identifier: GPL-2.0

//! Volumes with changed bytes: mounted, read and written. Each must end in errors or in the right
//! data, never in a complaint of the kernel's or a hang.

mod change;
mod parts;
mod walk;

use crate::kernel::{is_complaint, Messages};
use crate::report::Report;
use crate::rng::{self, Rng};
use crate::sys::{extent, meta, process, volume};
use crate::volumes;
use crate::why::{require, Why, Within};
use change::{Change, SORTS};
use parts::Volume;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{symlink, FileExt};
use std::path::{Path, PathBuf};
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

/// What became of an image.
#[derive(Default)]
struct Tally {
    refused: u64,
    erred: u64,
    fine: u64,
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
            let tried = self.try_one(number, &image, broken, &want, &mut tally);
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

    /// Mounts, reads and writes one image. `broken`: its checksum shows the change.
    ///
    /// What can be read must be what was there; of an image whose checksums fit, what the kernel's
    /// ext4 reads there.
    fn try_one(
        &self,
        number: u64,
        image: &[u8],
        broken: bool,
        want: &Walk,
        tally: &mut Tally,
    ) -> Result<(), Why> {
        let peer = if broken || !self.own {
            None
        } else {
            volumes::store(self.dev, image)?;
            self.mounted("ext4", libc::MS_RDONLY, "errors=continue", walk::walk)
                .ok()
        };
        volumes::store(self.dev, image)?;
        let mut messages = Messages::new()?;
        let options = ["errors=continue", "errors=remount-ro"][(number % 2) as usize];
        let seen = match volume::mount(self.dev, self.dir, self.fs, libc::MS_NOATIME, options) {
            Ok(()) => {
                let seen = walk::walk(self.dir);
                write_all(self.dir, want);
                volume::umount(self.dir).within(|| "umount".into())?;
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
        let Some(seen) = seen else {
            tally.refused += 1;
            return Ok(());
        };
        let erred = complained || walk::has_error(&seen);
        if erred {
            tally.erred += 1;
        } else {
            tally.fine += 1;
        }
        require(erred || !broken, || "a bad checksum was not noticed".into())?;
        let difference = if broken {
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
    for i in 0..150 {
        meta::mknod(
            &indexed.join(format!("{i:0>60}")),
            libc::S_IFIFO | 0o644,
            0,
            0,
        )?;
    }
    let sparse = File::create_new(dir.join("sparse"))?;
    let mut data = vec![0; 1024];
    // Every second block of 4 KiB, or every eighth of 1 KiB.
    for i in 0..400_u64 {
        rng::fill(99, i * 8192, &mut data);
        sparse.write_all_at(&data, i * 8192)?;
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

/// Writes to every file and into every directory. What fails fails: only the kernel's behaviour
/// and what can be read afterwards count.
fn write_all(dir: &Path, want: &Walk) {
    for (path, node) in want {
        let full = dir.join(path);
        match &node.content {
            Ok(walk::Content::Names(_)) => {
                let _ = write_file(&full.join("new file"), true);
                let _ = fs::create_dir(full.join("new directory"));
                let _ = meta::mknod(&full.join("new node"), libc::S_IFIFO, 0, 0);
            }
            // Of many files alike some are enough.
            Ok(walk::Content::Bytes(_)) if !is_one_of_many(path) => {
                let _ = write_file(&full, false);
            }
            _ => {}
        }
    }
    volume::sync();
}

fn is_one_of_many(path: &Path) -> bool {
    path.starts_with("small") && !path.ends_with("file3") && !path.ends_with("file11")
}

fn write_file(path: &PathBuf, new: bool) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(new).open(path)?;
    let size = file.metadata()?.len();
    let data = [0x77; 5000];
    // At the start, in the middle (for the sparse file: into a hole), at the end, beyond it.
    for at in [0, size / 2, size, size.saturating_add(20_000)] {
        let _ = file.write_at(&data, at);
    }
    file.sync_all()
}
