// SPDX-License-Identifier: GPL-2.0

//! What is done to the volume before the power goes: several tasks write files of their own in
//! every way there is, and note what they were promised.

use super::model::{self, Model, WORD};
use crate::rng::Rng;
use crate::sys::{dm::Target, extent, map::Map, volume};
use crate::why::{Why, Within};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// Files of each task.
const FILES: usize = 4;
/// A page of memory, in words.
const PAGE: usize = 4096 / WORD;
/// Names that are made at a time.
const STORM: usize = 12;

/// Something that must be there after the mark of its number.
pub enum Promise {
    /// The words from `at` on of file `id`.
    Words {
        id: u16,
        at: usize,
        writes: Vec<u16>,
    },
    /// The first `count` names of task `task`.
    Names { task: usize, count: usize },
}

/// A file of a task.
pub struct Owned {
    pub id: u16,
    pub path: PathBuf,
    pub model: Model,
}

/// A task's part of the volume.
pub struct Task {
    pub files: Vec<Owned>,
    /// How many names there are in its directory of names.
    pub names: usize,
}

/// What the tasks share.
pub struct Work<'a> {
    dir: &'a Path,
    marks: Target,
    /// By the number of the mark.
    promises: Mutex<Vec<Promise>>,
    tasks: Vec<Mutex<Task>>,
    /// Held shared during each operation.
    gate: RwLock<()>,
    /// Held by whoever makes the device flush its cache: dm-log-writes lists what a flush made safe
    /// when that flush is over, even if a later flush, which made it safe, too, was faster. With one
    /// at a time, what was promised is in the log before the mark.
    flushing: Mutex<()>,
    end: Instant,
}

/// The most words that a file of the task has.
fn room(task: usize) -> usize {
    [16, 40, 256, 2048][task % 4] * 1024 / WORD
}

/// The directory in which a task makes names.
pub fn names_dir(dir: &Path, task: usize) -> PathBuf {
    dir.join(format!("names-{task}"))
}

/// Name number `nr`; each third one is a directory.
pub fn name(nr: usize) -> String {
    if nr % 3 == 0 {
        format!("directory-{nr}")
    } else {
        format!("file-{nr}-{}", "x".repeat(nr % 40))
    }
}

impl<'a> Work<'a> {
    /// Makes the files, of `tasks` tasks, on the volume at `dir`; `device` is the name of the
    /// log-writes device below.
    pub fn new(dir: &'a Path, device: &str, tasks: usize, seconds: u64) -> Result<Self, Why> {
        let make = |task: usize| {
            fs::create_dir(names_dir(dir, task))?;
            let files = (0..FILES).map(|nr| {
                let path = dir.join(format!("file-{task}-{nr}"));
                File::create_new(&path)?;
                let id = (task * FILES + nr + 1) as u16;
                let model = Model::default();
                Ok(Owned { id, path, model })
            });
            let files = files.collect::<Result<Vec<_>, Why>>()?;
            Ok(Mutex::new(Task { files, names: 0 }))
        };
        let tasks = (0..tasks).map(make).collect::<Result<Vec<_>, Why>>()?;
        let work = Self {
            dir,
            marks: Target::new(device)?,
            promises: Mutex::default(),
            tasks,
            gate: RwLock::default(),
            flushing: Mutex::default(),
            end: Instant::now() + Duration::from_secs(seconds),
        };
        volume::sync();
        work.promised(work.everything())?;
        Ok(work)
    }

    /// What was promised, by the number of the mark, and what the files hold.
    pub fn done(self) -> (Vec<Promise>, Vec<Task>) {
        let inner = |task: Mutex<Task>| task.into_inner().unwrap_or_else(|e| e.into_inner());
        let promises = self
            .promises
            .into_inner()
            .unwrap_or_else(|e| e.into_inner());
        (promises, self.tasks.into_iter().map(inner).collect())
    }

    /// Everything that was done so far.
    fn everything(&self) -> Vec<Promise> {
        let mut all = Vec::new();
        for (nr, task) in self.tasks.iter().enumerate() {
            let task = task.lock().unwrap_or_else(|e| e.into_inner());
            all.extend(task.files.iter().map(whole));
            all.push(Promise::Names {
                task: nr,
                count: task.names,
            });
        }
        all
    }

    /// Calls `f`, which brings things to stable storage, and notes that `promises` gives what it
    /// promised. Nobody else does so at the same time.
    fn bring(
        &self,
        what: &str,
        f: impl FnOnce() -> std::io::Result<()>,
        promises: impl FnOnce() -> Vec<Promise>,
    ) -> Result<(), Why> {
        let _alone = self.flushing.lock().unwrap_or_else(|e| e.into_inner());
        f().within(|| what.into())?;
        self.promised(promises())
    }

    /// A call returned that promised all of `promises`.
    fn promised(&self, promises: Vec<Promise>) -> Result<(), Why> {
        let mut list = self.promises.lock().unwrap_or_else(|e| e.into_inner());
        for promise in promises {
            self.marks
                .message(&format!("mark {}", list.len()))
                .within(|| "a mark".into())?;
            list.push(promise);
        }
        Ok(())
    }

    /// Runs all tasks, and the one that freezes and remounts, until the time is up.
    pub fn run(&self, seed: u64) -> Result<(), Why> {
        std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..self.tasks.len())
                .map(|task| {
                    let mut rng = Rng::new(seed + task as u64);
                    scope.spawn(move || {
                        while Instant::now() < self.end {
                            self.step(task, &mut rng)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            let mut result = self.disturb(seed);
            for task in tasks {
                let done = task.join().unwrap_or_else(|_| Err("a task died".into()));
                result = result.and(done);
            }
            result
        })
    }

    /// Now and then: sync, freeze, remount.
    fn disturb(&self, seed: u64) -> Result<(), Why> {
        let mut rng = Rng::new(seed ^ 0x5eed);
        while Instant::now() < self.end {
            std::thread::sleep(Duration::from_millis(rng.within(100, 700)));
            if rng.chance(40) {
                // What was done before it began.
                let before = self.everything();
                let sync = || {
                    volume::sync();
                    Ok(())
                };
                self.bring("sync", sync, || before)?;
                continue;
            }
            let _alone = self.gate.write().unwrap_or_else(|e| e.into_inner());
            if rng.chance(50) {
                let dir = File::open(self.dir)?;
                volume::freeze(&dir).within(|| "freeze".into())?;
                self.promised(self.everything())?;
                volume::thaw(&dir).within(|| "thaw".into())?;
            } else {
                let none = Path::new("none");
                let flags = libc::MS_REMOUNT;
                volume::mount(none, self.dir, "none", flags | libc::MS_RDONLY, "")
                    .within(|| "remount,ro".into())?;
                self.promised(self.everything())?;
                volume::mount(none, self.dir, "none", flags, "").within(|| "remount,rw".into())?;
            }
        }
        Ok(())
    }

    /// One operation of a task.
    fn step(&self, nr: usize, rng: &mut Rng) -> Result<(), Why> {
        let _gate = self.gate.read().unwrap_or_else(|e| e.into_inner());
        let mut task = self.tasks[nr].lock().unwrap_or_else(|e| e.into_inner());
        if rng.chance(5) {
            return self.storm(nr, &mut task, rng);
        }
        let file = rng.below(FILES as u64) as usize;
        let owned = &mut task.files[file];
        let sync = if rng.chance(6) {
            rng.pick(&[libc::O_DSYNC, libc::O_SYNC])
        } else {
            0
        };
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(sync)
            .open(&owned.path)
            .within(|| "open".into())?;
        let size = owned.model.writes.len();
        let full = size + 3000 > room(nr);
        match rng.below(100) {
            0..30 if !full => {
                let count = rng.pick(&[1, 5, 100, 511, 512, 513, 2500]);
                self.write(&open, owned, size, count, sync != 0)
            }
            30..45 if size > 0 => {
                let at = rng.below(size as u64) as usize;
                let count = rng.pick(&[1, 40, 128, 512, 1500]).min(size - at);
                self.write(&open, owned, at, count, sync != 0)
            }
            45..52 if !full => {
                let at = size + rng.within(1, 1500) as usize;
                let count = rng.within(1, 1000) as usize;
                self.write(&open, owned, at, count, sync != 0)
            }
            52..58 if !full => {
                let words = size + rng.within(1, 2000) as usize;
                open.set_len((words * WORD) as u64)
                    .within(|| "truncate".into())?;
                owned.model.grow(words);
                Ok(())
            }
            58..75 if size > 0 => self.store(&open, owned, rng),
            75..88 => self.bring("fsync", || open.sync_all(), || vec![whole(owned)]),
            88..96 => self.bring("fdatasync", || open.sync_data(), || vec![whole(owned)]),
            96..98 => {
                let all = task.files.iter().map(whole).collect();
                self.bring("syncfs", || volume::syncfs(&open), || all)
            }
            98.. => Ok(extent::forget(&open)?),
            _ => Ok(()),
        }
    }

    /// Writes `count` words from word `at` on.
    fn write(
        &self,
        open: &File,
        owned: &mut Owned,
        at: usize,
        count: usize,
        sync: bool,
    ) -> Result<(), Why> {
        let write = owned.model.next();
        let bytes = model::bytes(owned.id, at, count, write);
        owned.model.put(at, count, write);
        let call = || open.write_all_at(&bytes, (at * WORD) as u64);
        if !sync {
            return call().within(|| "write".into());
        }
        let id = owned.id;
        let writes = vec![write; count];
        self.bring("write", call, || vec![Promise::Words { id, at, writes }])
    }

    /// Stores words through memory; sometimes also beyond the end of the file, in its last page.
    fn store(&self, open: &File, owned: &mut Owned, rng: &mut Rng) -> Result<(), Why> {
        let size = owned.model.writes.len();
        let pages = size.div_ceil(PAGE) as u64;
        let first = rng.below(pages) as usize;
        let count = rng.within(1, 8).min(pages - first as u64) as usize;
        let map = Map::new(
            open,
            (first * PAGE * WORD) as u64,
            count * PAGE * WORD,
            true,
        )
        .within(|| "mmap".into())?;
        let write = owned.model.next();
        for page in first..first + count {
            let from = page * PAGE + rng.below(PAGE as u64 / 2) as usize;
            let words = (rng.within(1, PAGE as u64 / 2) as usize).min(size.saturating_sub(from));
            if words > 0 {
                map.store(
                    (from - first * PAGE) * WORD,
                    &model::bytes(owned.id, from, words, write),
                );
                owned.model.put(from, words, write);
            }
        }
        let end = (first + count) * PAGE;
        if end > size && rng.chance(60) {
            map.store((size - first * PAGE) * WORD, &model::poison(end - size));
        }
        if rng.chance(25) {
            let (id, at) = (owned.id, first * PAGE);
            let writes = owned.model.writes[at..size.min(end)].to_vec();
            self.bring(
                "msync",
                || map.sync(),
                || vec![Promise::Words { id, at, writes }],
            )?;
        }
        Ok(())
    }

    /// Makes many names.
    fn storm(&self, nr: usize, task: &mut Task, rng: &mut Rng) -> Result<(), Why> {
        let dir = names_dir(self.dir, nr);
        for _ in 0..STORM {
            let path = dir.join(name(task.names));
            if task.names % 3 == 0 {
                fs::create_dir(&path).within(|| "mkdir".into())?;
            } else {
                File::create_new(&path).within(|| "create".into())?;
            }
            task.names += 1;
        }
        if rng.chance(70) {
            let count = task.names;
            let open = File::open(&dir)?;
            let names = || vec![Promise::Names { task: nr, count }];
            self.bring("fsync of a directory", || open.sync_all(), names)?;
        }
        Ok(())
    }
}

/// All of a file.
fn whole(owned: &Owned) -> Promise {
    Promise::Words {
        id: owned.id,
        at: 0,
        writes: owned.model.writes.clone(),
    }
}
