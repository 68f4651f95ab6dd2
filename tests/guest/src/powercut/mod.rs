// SPDX-License-Identifier: GPL-2.0

//! Power cuts: a volume is written to on a device that logs each write, and then what the device
//! may have held at some moment is mounted: under the filesystem itself and under the kernel's
//! own ext4, whose recovery it must be fit for, too. What a call had promised must be there, the
//! metadata must be as after some operation, and no file may show what is not its own.

mod content;
mod history;
mod judge;
mod log;
mod model;
mod task;
mod tree;
mod work;

use crate::report::Report;
use crate::rng::Rng;
use crate::sys::{map::Aligned, volume};
use crate::volumes;
use crate::why::{require, Why, Within};
use history::History;
use judge::Judge;
use log::Log;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use work::Work;

/// The names of the devices that log: the volume's, and that of a recovery.
const DEVICE: &str = "powercut";
const AGAIN: &str = "powercut-again";
/// States of each recovery that is cut in its turn.
const CUTS_AGAIN: u64 = 2;
/// Files that are written to after a recovery.
const LATER: usize = 12;
/// Failures that are told in full.
const TOLD: usize = 4;

/// What to do.
pub struct Cuts<'a> {
    /// The volume's device, made into a volume already; none to look at a run that was kept.
    pub dev: &'a Path,
    /// The device for the log.
    pub log: &'a Path,
    /// A device as large as the volume's, for what a cut left.
    pub target: &'a Path,
    /// A device for the log of a recovery.
    pub again: &'a Path,
    /// Where to mount.
    pub dir: &'a Path,
    /// The filesystem under test.
    pub fs: &'a str,
    /// Its mount options.
    pub options: &'a str,
    /// Where to keep what is needed to look again at a run with bad states, if anywhere.
    pub keep: Option<&'a Path>,
    /// How long to write, in seconds.
    pub seconds: u64,
    /// Tasks that write.
    pub tasks: usize,
    /// States to look at.
    pub states: u64,
    /// The only one to look at.
    pub only: Option<u64>,
    /// What makes the test.
    pub seed: u64,
    /// Makes states as if the device had not been asked to flush.
    pub blind: bool,
    /// States must be bad: a promise is known to be broken.
    pub losses: bool,
}

/// A run: what was there before, what was done, and what reached the device.
struct Run {
    base: Vec<u8>,
    history: History,
    log: Log,
}

/// How a state is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Look {
    /// Mounted read-write by the filesystem.
    Own,
    /// The same, and written to afterwards.
    Written,
    /// Mounted read-only by the filesystem.
    ReadOnly,
    /// Mounted by the kernel's ext4.
    Ext4,
    /// The recovery by the filesystem is cut in its turn.
    Again,
}

/// A state to look at.
struct Pick {
    place: usize,
    nr: u64,
    look: Look,
    rng: Rng,
}

/// Runs a command that must succeed.
fn command(words: &[&str]) -> Result<(), Why> {
    let out = Command::new(words[0])
        .args(&words[1..])
        // There is no udev that makes the nodes of devices.
        .env("DM_DISABLE_UDEV", "1")
        .output()?;
    require(out.status.success(), || {
        let text = [out.stdout, out.stderr].concat();
        format!("{}: {}", words.join(" "), String::from_utf8_lossy(&text))
    })
}

/// Lets `f` use `dev`, of `bytes` bytes, as a device that logs to `log`.
fn logged<T>(
    name: &str,
    dev: &Path,
    log: &Path,
    bytes: usize,
    f: impl FnOnce(&Path) -> Result<T, Why>,
) -> Result<T, Why> {
    let (dev, log) = (dev.display(), log.display());
    let table = format!("0 {} log-writes {dev} {log}", bytes / 512);
    command(&["dmsetup", "create", name, "--table", &table])?;
    let result = f(&Path::new("/dev/mapper").join(name));
    command(&["dmsetup", "remove", name])?;
    result
}

impl Cuts<'_> {
    /// Writes, cuts and looks.
    pub fn run(&self, report: &mut Report) -> Result<(), Why> {
        let mut run = None;
        report.test("work", || {
            run = Some(if self.dev.as_os_str().is_empty() {
                self.load()?
            } else {
                self.work()?
            });
            Ok(())
        });
        match run {
            Some(run) => self.cut(&run, report),
            None => Ok(()),
        }
    }

    /// The states to look at, in the order of time.
    fn picks(&self, run: &Run) -> Vec<Pick> {
        let begin = run.log.marks.iter().find(|(text, _)| text == "begin");
        let first = begin.map_or(0, |(_, at)| *at);
        let all = self.only.map_or(0..self.states, |nr| nr..nr + 1);
        let mut picks: Vec<Pick> = all
            .map(|nr| {
                let mut rng = Rng::new(self.seed.wrapping_mul(1_000_003) + nr);
                let place = run.log.place(first, &mut rng);
                let look = match rng.below(20) {
                    0..8 => Look::Own,
                    8..11 => Look::Written,
                    11..13 => Look::ReadOnly,
                    13..17 => Look::Ext4,
                    _ => Look::Again,
                };
                Pick {
                    place,
                    nr,
                    look,
                    rng,
                }
            })
            .collect();
        picks.sort_by_key(|pick| (pick.place, pick.nr));
        picks
    }

    /// Looks at all states.
    fn cut(&self, run: &Run, report: &mut Report) -> Result<(), Why> {
        let (mut image, mut done) = (run.base.clone(), 0);
        let mut cut = Aligned::new(image.len())?;
        let marks: BTreeMap<&str, usize> = run
            .log
            .marks
            .iter()
            .map(|(text, at)| (text.as_str(), *at))
            .collect();
        let place = |mark: usize| {
            let at = marks.get(mark.to_string().as_str());
            at.copied().unwrap_or(usize::MAX)
        };
        let mut judge = Judge::new(&run.history, place);
        let mut bad: BTreeMap<Look, Vec<String>> = BTreeMap::new();
        let mut count: BTreeMap<Look, usize> = BTreeMap::new();
        let (mut last, mut failed) = (0, 0);
        let start = Instant::now();
        for mut pick in self.picks(run) {
            let rng = &mut pick.rng;
            let state = run.log.state(
                &mut image,
                &mut done,
                cut.bytes(),
                pick.place,
                self.blind,
                rng,
            )?;
            require(last <= done, || "time goes back".into())?;
            last = done;
            *count.entry(pick.look).or_default() += 1;
            if let (Some(keep), Some(nr)) = (self.keep, self.only) {
                fs::write(keep.join(format!("state-{nr}")), cut.bytes())?;
            }
            let looked = self.look(&mut judge, cut.bytes(), state.past, pick.look, rng);
            if let Err(why) = looked {
                // A failure may leave it mounted.
                let _ = volume::umount(self.dir);
                failed += 1;
                let why = format!("state {} ({}): {why}", pick.nr, state.what);
                bad.entry(pick.look).or_default().push(why);
            }
        }
        let states: usize = count.values().sum();
        println!(
            "# {states} states of seed {} in {:.0} s",
            self.seed,
            start.elapsed().as_secs_f32()
        );
        if self.losses {
            report.test("losses-show", || {
                println!("# {failed} of {states} are bad");
                let some = bad.values().flatten().take(1);
                some.for_each(|why| println!("# {why}"));
                require(failed > 0, || "no state shows a loss".into())
            });
            return Ok(());
        }
        if let (Some(keep), true) = (self.keep, failed > 0 && !self.dev.as_os_str().is_empty()) {
            self.save(run, keep)?;
        }
        for (look, count) in count {
            report.test(&format!("{look:?}").to_lowercase(), || {
                println!("# {count} states");
                let Some(all) = bad.remove(&look) else {
                    return Ok(());
                };
                let told: Vec<_> = all.iter().take(TOLD).cloned().collect();
                Err(format!("{} of {count}: {}", all.len(), told.join("; ")).into())
            });
        }
        Ok(())
    }

    /// Keeps a run.
    fn save(&self, run: &Run, keep: &Path) -> Result<(), Why> {
        fs::write(keep.join("base"), &run.base)?;
        fs::write(keep.join("history"), run.history.save())?;
        run.log.save(&keep.join("log"))
    }

    /// A run that was kept.
    fn load(&self) -> Result<Run, Why> {
        let keep = self.keep.ok_or("nothing was kept")?;
        Ok(Run {
            base: fs::read(keep.join("base"))?,
            history: History::load(&fs::read_to_string(keep.join("history"))?)?,
            log: Log::read(&keep.join("log"))?,
        })
    }

    /// Uses the volume.
    fn work(&self) -> Result<Run, Why> {
        volume::mount(self.dev, self.dir, "ext4", 0, "").within(|| "mount as ext4".into())?;
        work::prepare(self.dir)?;
        volume::umount(self.dir)?;
        let base = volumes::load(self.dev)?;
        let history = logged(DEVICE, self.dev, self.log, base.len(), |device| {
            volume::mount(device, self.dir, self.fs, 0, self.options).within(|| "mount".into())?;
            let history = self.use_it().within(|| format!("seed {}", self.seed));
            volume::umount(self.dir).within(|| "umount".into())?;
            history
        })?;
        command(&["e2fsck", "-fn", &self.dev.display().to_string()])?;
        let log = Log::read(self.log)?;
        let ops: usize = history.tasks.iter().map(Vec::len).sum();
        println!(
            "# {ops} operations, {} promises, {} writes, {} flushes",
            history.promises.len(),
            log.len(),
            log.flushes()
        );
        Ok(Run { base, history, log })
    }

    fn use_it(&self) -> Result<History, Why> {
        let work = Work::new(self.dir, DEVICE, self.tasks, self.seed, self.seconds)?;
        work.run(self.seed)?;
        let history = work.done();
        // While it is still in the page cache.
        Judge::judge_all(&history, self.dir).within(|| "before any cut".into())?;
        Ok(history)
    }

    /// Puts `image`, which is aligned to pages, onto the target.
    fn put(&self, image: &[u8]) -> Result<(), Why> {
        let target = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(self.target)?;
        target.write_all_at(image, 0).within(|| "the target".into())
    }

    /// Looks at what a cut left.
    fn look(
        &self,
        judge: &mut Judge,
        image: &mut [u8],
        past: usize,
        look: Look,
        rng: &mut Rng,
    ) -> Result<(), Why> {
        self.put(image)?;
        let (fs, flags) = match look {
            Look::Again => return self.look_again(judge, image, past, rng),
            Look::Own | Look::Written => (self.fs, 0),
            Look::ReadOnly => (self.fs, libc::MS_RDONLY),
            Look::Ext4 => ("ext4", 0),
        };
        volume::mount(self.target, self.dir, fs, flags, "").within(|| "mount".into())?;
        judge.judge(self.dir, past)?;
        if look == Look::Written {
            return self.write(rng);
        }
        self.close()
    }

    /// Unmounts and checks it.
    fn close(&self) -> Result<(), Why> {
        volume::umount(self.dir).within(|| "umount".into())?;
        command(&["e2fsck", "-fn", &self.target.display().to_string()])
    }

    /// Cuts the recovery; `image` does not stay as it is.
    fn look_again(
        &self,
        judge: &mut Judge,
        image: &mut [u8],
        past: usize,
        rng: &mut Rng,
    ) -> Result<(), Why> {
        logged(AGAIN, self.target, self.again, image.len(), |device| {
            volume::mount(device, self.dir, self.fs, 0, "").within(|| "first mount".into())?;
            Ok(volume::umount(self.dir)?)
        })?;
        let log = Log::read(self.again)?;
        let places = 0..CUTS_AGAIN;
        let mut places: Vec<usize> = places.map(|_| log.place(0, rng)).collect();
        places.sort_unstable();
        let (mut done, mut cut) = (0, Aligned::new(image.len())?);
        for place in places {
            let state = log.state(image, &mut done, cut.bytes(), place, self.blind, rng)?;
            let fs = rng.pick(&[self.fs, self.fs, "ext4"]);
            let within = || format!("cut again ({}), under {fs}", state.what);
            self.put(cut.bytes())?;
            volume::mount(self.target, self.dir, fs, 0, "").within(within)?;
            judge.judge(self.dir, past).within(within)?;
            self.close().within(within)?;
        }
        Ok(())
    }

    /// Writes to some of the files of the mounted volume, and unmounts, checks and reads it.
    fn write(&self, rng: &mut Rng) -> Result<(), Why> {
        let seen = tree::Seen::new(self.dir, self.tasks)?;
        let mut files: Vec<_> = seen.files.into_iter().map(|(_, _, path)| path).collect();
        rng.shuffle(&mut files);
        files.truncate(LATER);
        let mut longer = Vec::new();
        for path in &files {
            longer.push(append(path, rng).within(|| "append".into())?);
        }
        self.close()?;
        volume::mount(self.target, self.dir, "ext4", libc::MS_RDONLY, "")?;
        for (path, want) in files.iter().zip(&longer) {
            let is = fs::read(path)?;
            require(is == *want, || {
                format!("{}: not as written after the recovery", path.display())
            })?;
        }
        Ok(volume::umount(self.dir)?)
    }
}

/// Writes behind the end of a file, with or without a gap; the file's content then.
fn append(path: &Path, rng: &mut Rng) -> io::Result<Vec<u8>> {
    let mut is = fs::read(path)?;
    is.resize(is.len() + rng.pick(&[0, 8, 512, 3000, 9000]), 0);
    let more = vec![0x5a; rng.within(1, 5000) as usize];
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(&more, is.len() as u64)?;
    is.extend_from_slice(&more);
    Ok(is)
}
