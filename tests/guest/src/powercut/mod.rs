// SPDX-License-Identifier: GPL-2.0

//! Power cuts: a volume is written to on a device that logs each write, and then what the device
//! may have held at some moment is mounted: under the filesystem itself and under the kernel's
//! own ext4, whose recovery it must be fit for, too. What a call had promised must be there, and
//! nothing that the device held before the volume was made may show.

mod log;
mod model;
mod work;

use crate::report::Report;
use crate::rng::Rng;
use crate::sys::volume;
use crate::why::{require, Why, Within};
use log::{Log, State};
use model::{Model, WORD};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use work::{Promise, Task, Work};

/// The name of the device that logs.
const DEVICE: &str = "powercut";

/// What to do.
pub struct Cuts<'a> {
    /// The volume's device, made into a volume already.
    pub dev: &'a Path,
    /// The device for the log.
    pub log: &'a Path,
    /// A device as large as the volume's, for what a cut left.
    pub target: &'a Path,
    /// Where to mount.
    pub dir: &'a Path,
    /// The filesystem under test.
    pub fs: &'a str,
    /// Where to keep the first bad state, if anywhere.
    pub keep: Option<&'a Path>,
    /// How long to write, in seconds.
    pub seconds: u64,
    /// Tasks that write.
    pub tasks: usize,
    /// States to look at.
    pub states: usize,
    /// What makes the test.
    pub seed: u64,
}

/// What was done and promised.
struct History {
    promises: Vec<Promise>,
    tasks: Vec<Task>,
    /// For each promise the number of entries of the log before its mark.
    places: Vec<usize>,
}

/// How a state is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Look {
    /// Mounted read-write by the filesystem, and written to afterwards.
    Own,
    /// Mounted read-only by the filesystem.
    OwnReadOnly,
    /// Mounted by the kernel's ext4.
    Ext4,
}

/// Runs a command that must succeed.
fn command(words: &[&str]) -> Result<(), Why> {
    let out = Command::new(words[0])
        .args(&words[1..])
        // There is no udev that makes the nodes of devices.
        .env("DM_DISABLE_UDEV", "1")
        .output()?;
    require(out.status.success(), || {
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        format!("{}: {text}", words.join(" "))
    })
}

impl Cuts<'_> {
    /// Writes, cuts and looks.
    pub fn run(&self, report: &mut Report) -> Result<(), Why> {
        let mut base = Vec::new();
        File::open(self.dev)?.read_to_end(&mut base)?;
        let mut history = None;
        report.test("work", || {
            history = Some(self.work(base.len())?);
            Ok(())
        });
        let Some((history, log)) = history else {
            return Ok(());
        };
        println!(
            "# {} writes, {} promises",
            log.len(),
            history.promises.len()
        );
        let mut bad: BTreeMap<Look, Vec<String>> = BTreeMap::new();
        let mut looks: BTreeMap<Look, usize> = BTreeMap::new();
        let mut rng = Rng::new(self.seed);
        let first = history.places.first().copied().unwrap_or(0);
        let all = [Look::Own, Look::Ext4, Look::Own, Look::OwnReadOnly];
        let mut nr = 0;
        let mut dice = Rng::new(self.seed + 1);
        log.states(base, first, self.states, &mut rng, |state| {
            let look = all[nr % all.len()];
            nr += 1;
            *looks.entry(look).or_default() += 1;
            if let Err(why) = self.look(&history, &state, look, &mut dice) {
                // A failure may leave it mounted.
                let _ = volume::umount(self.dir);
                if let (Some(keep), true) = (self.keep, bad.is_empty()) {
                    fs::write(keep, &state.image)?;
                }
                let why = format!("{}: {why}", state.what);
                bad.entry(look).or_default().push(why);
            }
            Ok(())
        })?;
        for (look, count) in looks {
            report.test(&format!("{look:?}").to_lowercase(), || {
                println!("# {count} states");
                match bad.remove(&look) {
                    None => Ok(()),
                    Some(all) => {
                        Err(format!("{} of {count}: {}", all.len(), all.join("; ")).into())
                    }
                }
            });
        }
        Ok(())
    }

    /// Writes to the volume; the device is `bytes` long.
    fn work(&self, bytes: usize) -> Result<(History, Log), Why> {
        let (dev, log) = (self.dev.display(), self.log.display());
        let table = format!("0 {} log-writes {dev} {log}", bytes / 512);
        command(&["dmsetup", "create", DEVICE, "--table", &table])?;
        let device = Path::new("/dev/mapper").join(DEVICE);
        volume::mount(&device, self.dir, self.fs, 0, "").within(|| "mount".into())?;
        let work = Work::new(self.dir, DEVICE, self.tasks, self.seconds)?;
        work.run(self.seed)?;
        let (promises, tasks) = work.done();
        // While it is still in the page cache.
        for task in &tasks {
            for owned in &task.files {
                let is = fs::read(&owned.path)?;
                model::judge(
                    owned.id,
                    &is,
                    &owned.model,
                    owned.model.last,
                    owned.model.writes.len(),
                )
                .within(|| format!("{}", owned.path.display()))?;
            }
        }
        volume::umount(self.dir).within(|| "umount".into())?;
        command(&["dmsetup", "remove", DEVICE])?;
        command(&["e2fsck", "-fn", &dev.to_string()])?;
        let log = Log::read(self.log)?;
        let marks: BTreeMap<&str, usize> = log
            .marks
            .iter()
            .map(|(text, at)| (text.as_str(), *at))
            .collect();
        let places = (0..promises.len())
            .map(|nr| {
                marks
                    .get(nr.to_string().as_str())
                    .copied()
                    .unwrap_or(usize::MAX)
            })
            .collect();
        Ok((
            History {
                promises,
                tasks,
                places,
            },
            log,
        ))
    }

    /// Looks at what a cut left.
    fn look(&self, history: &History, state: &State, look: Look, rng: &mut Rng) -> Result<(), Why> {
        let mut target = OpenOptions::new().write(true).open(self.target)?;
        target.write_all(&state.image)?;
        target.sync_all()?;
        volume::forget_buffers(&target)?;
        drop(target);
        let (fs, flags) = match look {
            Look::Own => (self.fs, 0),
            Look::OwnReadOnly => (self.fs, libc::MS_RDONLY),
            Look::Ext4 => ("ext4", 0),
        };
        volume::mount(self.target, self.dir, fs, flags, "").within(|| "mount".into())?;
        self.judge(history, state)?;
        let more = look == Look::Own && rng.chance(60);
        let mut longer = Vec::new();
        if more {
            for owned in history.tasks.iter().flat_map(|task| &task.files) {
                longer.push(append(self.dir, owned, rng).within(|| "append".into())?);
            }
        }
        volume::umount(self.dir).within(|| "umount".into())?;
        command(&["e2fsck", "-fn", &self.target.display().to_string()])?;
        if more {
            volume::mount(self.target, self.dir, "ext4", libc::MS_RDONLY, "")?;
            for (owned, want) in history
                .tasks
                .iter()
                .flat_map(|task| &task.files)
                .zip(&longer)
            {
                let is = fs::read(&owned.path)?;
                require(is == *want, || {
                    format!(
                        "{}: not what was written after the cut",
                        owned.path.display()
                    )
                })?;
            }
            volume::umount(self.dir)?;
        }
        Ok(())
    }

    /// Compares what is mounted with what had been promised.
    fn judge(&self, history: &History, state: &State) -> Result<(), Why> {
        let mut files: BTreeMap<u16, Model> = BTreeMap::new();
        let mut names = vec![0; history.tasks.len()];
        for (promise, &place) in history.promises.iter().zip(&history.places) {
            if place > state.past {
                continue;
            }
            match promise {
                Promise::Words { id, at, writes } => {
                    files.entry(*id).or_default().merge(*at, writes);
                }
                Promise::Names { task, count } => names[*task] = names[*task].max(*count),
            }
        }
        for owned in history.tasks.iter().flat_map(|task| &task.files) {
            let Some(promised) = files.get(&owned.id) else {
                continue;
            };
            let within = || format!("{}", owned.path.display());
            let is = fs::read(&owned.path).within(within)?;
            let longest = owned.model.writes.len();
            model::judge(owned.id, &is, promised, owned.model.last, longest).within(within)?;
        }
        for (task, count) in names.into_iter().enumerate() {
            let dir = work::names_dir(self.dir, task);
            let there = fs::read_dir(&dir).within(|| "names".into())?;
            let there = there.collect::<Result<Vec<_>, _>>()?.len();
            require(there >= count, || format!("{there} of {count} names"))?;
            for nr in 0..count {
                let path = dir.join(work::name(nr));
                let kind = fs::symlink_metadata(&path).within(|| work::name(nr))?;
                require(kind.is_dir() == (nr % 3 == 0), || {
                    format!("{}: type", work::name(nr))
                })?;
            }
        }
        Ok(())
    }
}

/// Writes behind the end of a file, with or without a gap; the file's content then.
fn append(dir: &Path, owned: &work::Owned, rng: &mut Rng) -> Result<Vec<u8>, Why> {
    let path = dir.join(owned.path.file_name().unwrap_or_default());
    let mut is = fs::read(&path)?;
    is.resize(is.len() + rng.pick(&[0, 8, 512, 3000, 9000]), 0);
    let more = model::bytes(
        owned.id,
        is.len() / WORD,
        rng.within(1, 700) as usize,
        u16::MAX,
    );
    let file = OpenOptions::new().write(true).open(&path)?;
    file.write_all_at(&more, is.len() as u64)?;
    is.extend_from_slice(&more);
    Ok(is)
}
