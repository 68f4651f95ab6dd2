// SPDX-License-Identifier: GPL-2.0

//! What is done to the volume before the power goes: several tasks use it in every way there is,
//! and note what they did and what they were promised.

use super::history::{History, Promise};
use super::task::Task;
use crate::rng::Rng;
use crate::sys::{dm::Target, meta, volume};
use crate::why::{Why, Within};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Directories that all tasks use. In the first, changes are there when a call returns.
const SHARED: [&str; 4] = ["synchronous", "shared-1", "shared-2", "shared-3"];
/// Steps that are done at least, however slow the machine is,
const STEPS: usize = 600;
/// but in no more than so many times the seconds asked for.
const PATIENCE: u32 = 10;
/// `FS_DIRSYNC_FL`.
const DIRSYNC: u32 = 0x0001_0000;

/// A directory that all tasks use.
pub struct Shared {
    pub ino: u64,
    pub path: PathBuf,
    /// Changes are there when a call returns.
    pub sync: bool,
}

/// What the tasks share.
pub struct Work<'a> {
    dir: &'a Path,
    marks: Target,
    promises: Mutex<(usize, Vec<Promise>)>,
    tasks: Vec<Mutex<Task>>,
    /// Held shared during each operation.
    gate: RwLock<()>,
    pub shared: Vec<Shared>,
    begin: Instant,
    length: Duration,
    /// Steps that were begun.
    steps: AtomicUsize,
}

/// What a poisoned lock holds is as good: the error that poisoned it ends the test.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the directories that all tasks use, on a volume mounted at `dir`.
pub fn prepare(dir: &Path) -> Result<(), Why> {
    for (i, name) in SHARED.iter().enumerate() {
        let path = dir.join(name);
        fs::create_dir(&path)?;
        if i == 0 {
            // ext4 would move the directory from extents to block pointers if their flag went.
            let dir = File::open(&path)?;
            meta::set_flags(&dir, meta::flags(&dir)? | DIRSYNC)?;
        }
    }
    Ok(())
}

impl<'a> Work<'a> {
    /// `tasks` tasks on the volume at `dir`; `device` is the name of the log-writes device below.
    pub fn new(
        dir: &'a Path,
        device: &str,
        tasks: usize,
        seed: u64,
        seconds: u64,
    ) -> Result<Self, Why> {
        let block = volume::space(dir).within(|| "statfs".into())?.block as usize;
        let shared = SHARED.iter().enumerate().map(|(i, name)| {
            let path = dir.join(name);
            Ok(Shared {
                ino: fs::metadata(&path)?.ino(),
                path,
                sync: i == 0,
            })
        });
        let work = Self {
            dir,
            marks: Target::new(device).within(|| "dm".into())?,
            promises: Mutex::default(),
            tasks: (0..tasks)
                .map(|nr| Mutex::new(Task::new(nr, block, seed)))
                .collect(),
            gate: RwLock::default(),
            shared: shared.collect::<Result<_, Why>>()?,
            begin: Instant::now(),
            length: Duration::from_secs(seconds),
            steps: AtomicUsize::new(0),
        };
        work.mark("begin")?;
        Ok(work)
    }

    /// The time is up.
    fn is_over(&self) -> bool {
        let enough = self.steps.load(Ordering::Relaxed) >= STEPS;
        let time = self.begin.elapsed();
        time >= self.length && (enough || time >= self.length * PATIENCE)
    }

    /// What was done and promised.
    pub fn done(self) -> History {
        let tasks = self.tasks.into_iter();
        let tasks = tasks.map(|task| task.into_inner().unwrap_or_else(PoisonError::into_inner));
        let promises = self.promises.into_inner();
        History {
            tasks: tasks.map(|task| task.ops).collect(),
            promises: promises.unwrap_or_else(PoisonError::into_inner).1,
        }
    }

    /// What all tasks have done so far.
    fn everything(&self) -> Vec<Promise> {
        let all = self.tasks.iter().enumerate();
        let all = all.map(|(task, state)| Promise::of_all(task, lock(state).ops.len()));
        all.collect()
    }

    /// Puts a mark into the log.
    pub fn mark(&self, text: &str) -> Result<(), Why> {
        self.marks
            .message(&format!("mark {text}"))
            .within(|| "a mark".into())
    }

    /// A call returned that promised all of `promises`.
    pub fn promised(&self, promises: impl IntoIterator<Item = Promise>) -> Result<(), Why> {
        let mut all = lock(&self.promises);
        let mark = all.0;
        self.mark(&mark.to_string())?;
        all.0 += 1;
        let promises = promises.into_iter();
        all.1
            .extend(promises.map(|promise| Promise { mark, ..promise }));
        Ok(())
    }

    /// Runs all tasks, and the one that freezes and remounts, until the time is up.
    pub fn run(&self, seed: u64) -> Result<(), Why> {
        std::thread::scope(|scope| {
            let tasks: Vec<_> = self
                .tasks
                .iter()
                .map(|task| {
                    scope.spawn(move || {
                        while !self.is_over() {
                            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
                            self.steps.fetch_add(1, Ordering::Relaxed);
                            lock(task).step(self)?;
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
        while !self.is_over() {
            std::thread::sleep(Duration::from_millis(rng.within(200, 900)));
            if rng.chance(50) {
                // What was done before it began.
                let before = self.everything();
                volume::sync();
                self.promised(before)?;
                continue;
            }
            let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            if rng.chance(50) {
                let dir = File::open(self.dir)?;
                volume::freeze(&dir).within(|| "freeze".into())?;
                self.promised(self.everything())?;
                volume::thaw(&dir).within(|| "thaw".into())?;
            } else {
                for task in &self.tasks {
                    lock(task).let_go();
                }
                let none = Path::new("none");
                let flags = libc::MS_REMOUNT;
                volume::mount(none, self.dir, "none", flags | libc::MS_RDONLY, "")
                    .within(|| "remount,ro".into())?;
                self.promised(self.everything())?;
                volume::mount(none, self.dir, "none", flags, "").within(|| "remount,rw".into())?;
            }
        }
        for task in &self.tasks {
            // The last step of each is over when its lock is free; the next finds the time up.
            lock(task).let_go();
        }
        Ok(())
    }
}
