// SPDX-License-Identifier: GPL-2.0

//! Runs of `make bench`: each on a fresh volume, measured in two phases, and checked afterwards.
//!
//! A plan is a text file with a run on each line: fields `name=value` with tabs between them. What
//! became of a run is printed in lines `@@begin ID`, `@@set ID NAME VALUE`, and `@@end ID
//! ok|failed|unbuilt WHY`, which tests/bench/session.py reads.

mod meter;
mod requests;
mod work;

use crate::kernel::{hold_writeback, release_writeback, set, Messages};
use crate::sys::{extent, volume};
use crate::trace::Trace;
use crate::why::{Why, Within};
use meter::Meter;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the volume of a run is mounted.
const DIR: &str = "/mnt";

/// Runs every line of the plan at `plan`; the module at `module` is loaded where a run wants it.
pub fn run(plan: &Path, module: &Path) -> Result<(), Why> {
    let text = fs::read_to_string(plan).within(|| format!("{}", plan.display()))?;
    let runs: Vec<Run> = text.lines().map(Run::parse).collect();
    if runs.iter().any(|run| run.field("fs") == "ext4rs") {
        volume::load_module(&File::open(module)?).within(|| "the module".into())?;
    }
    // What a mount loads would count as the first run's work.
    shell("modprobe -a ext4 xfs btrfs")?;
    for run in &runs {
        println!("@@begin {}", run.field("id"));
        // The kernel's log then tells which run a message belongs to.
        let _ = fs::write("/dev/kmsg", format!("bench {} begins", run.field("id")));
        let (word, why) = match run.carry_out() {
            Ok(()) => ("ok", String::new()),
            Err(Stop::Unbuilt(why)) => ("unbuilt", why.to_string()),
            Err(Stop::Failed(why)) => ("failed", why.to_string()),
        };
        println!("@@end {} {word} {why}", run.field("id"));
    }
    Ok(())
}

/// Writes to as much of the memory as is free: the host gives a guest's memory at its first use, and
/// that is not to count as a filesystem's work.
pub fn touch_memory() -> Result<(), Why> {
    let kib = meter::meminfo("MemAvailable")?;
    let mut memory = vec![0_u8; (kib / 10 * 9) as usize * 1024];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    println!("# touched {} MiB", memory.len() >> 20);
    Ok(())
}

/// Runs `command` in a shell; its last line of output is the reason of a failure.
fn shell(command: &str) -> Result<(), Why> {
    let done = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let telling = |line: &&str| line.contains("not supported") || line.contains("rror");
    let line = (text.lines().find(telling)).or_else(|| text.lines().last());
    Err(format!("{command}: {}: {}", done.status, line.unwrap_or_default()).into())
}

/// Why a run has no result.
enum Stop {
    /// The filesystem says that it cannot do this.
    Unbuilt(Why),
    /// It went wrong.
    Failed(Why),
}

impl<E: Into<Why>> From<E> for Stop {
    fn from(error: E) -> Self {
        let why: Why = error.into();
        let text = why.to_string();
        if ["os error 95", "not supported"]
            .iter()
            .any(|sign| text.contains(sign))
        {
            return Self::Unbuilt(why);
        }
        Self::Failed(why)
    }
}

/// One line of a plan.
struct Run {
    fields: BTreeMap<String, String>,
}

impl Run {
    fn parse(line: &str) -> Self {
        let pairs = line.split('\t').filter_map(|pair| pair.split_once('='));
        Self {
            fields: pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }

    /// The field `name`; empty where there is none.
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn say(&self, name: &str, value: impl std::fmt::Display) {
        println!("@@set {} {name} {value}", self.field("id"));
    }

    /// True where the run is on a filesystem that lies on the disk.
    fn on_disk(&self) -> bool {
        !matches!(self.field("fs"), "raw" | "tmpfs")
    }

    fn dev(&self) -> PathBuf {
        Path::new("/dev").join(self.field("dev"))
    }

    fn carry_out(&self) -> Result<(), Stop> {
        match self.field("limits") {
            "raised" => hold_writeback()?,
            "low" => {
                release_writeback()?;
                set("vm/dirty_background_bytes", "8388608")?;
                set("vm/dirty_writeback_centisecs", "20")?;
                set("vm/dirty_expire_centisecs", "30")?;
            }
            _ => release_writeback()?,
        }
        // A disk that cannot discard is as good as it was.
        let _ = shell(&format!("blkdiscard -f {}", self.dev().display()));
        if !self.field("mkfs").is_empty() {
            shell(self.field("mkfs"))?;
        }
        self.mount(self.field("options"))?;
        let measured = self.measure();
        let umounted = self.umount();
        let checked = if self.on_disk() {
            umounted.and_then(|()| shell(self.field("fsck")).within(|| "after the run".into()))
        } else {
            umounted
        };
        measured?;
        Ok(checked?)
    }

    fn mount(&self, options: &str) -> Result<(), Stop> {
        if self.field("fs") == "raw" {
            return Ok(());
        }
        let mut messages = Messages::new()?;
        let mounted = volume::mount(&self.dev(), Path::new(DIR), self.field("fs"), 0, options);
        mounted.map_err(|error| {
            let said = messages.take();
            let line = said.into_iter().find(|line| line.contains("EXT4RS-fs"));
            let text = line.unwrap_or_else(|| format!("mount: {error}")).into();
            if self.field("fs") == "ext4rs" {
                return Stop::Unbuilt(text);
            }
            Stop::Failed(text)
        })
    }

    fn umount(&self) -> Result<(), Why> {
        if self.field("fs") == "raw" {
            return Ok(());
        }
        let start = Meter::now(self)?;
        volume::umount(Path::new(DIR)).within(|| "umount".into())?;
        let grown = Meter::now(self)?.since(&start);
        self.say("umount_write_ios", grown.disk.write_ios);
        self.say("umount_write_bytes", grown.disk.write_bytes);
        Ok(())
    }

    fn measure(&self) -> Result<(), Stop> {
        if self.field("direct") == "yes" && self.on_disk() {
            self.probe_direct()?;
        }
        self.steps("setup")?;
        volume::sync();
        if self.field("cold") == "yes" && self.on_disk() {
            self.umount()?;
            self.mount(self.field("options"))?;
        }
        if self.field("warm") != "yes" {
            set("vm/drop_caches", "3")?;
        }
        let trace = (self.field("trace") == "yes")
            .then(|| Trace::start(&self.dev()))
            .transpose()?;
        let start = Meter::now(self)?;
        let bytes = self.steps("work")?;
        let middle = Meter::now(self)?;
        match self.field("sync") {
            "volume" => volume::syncfs(&File::open(DIR)?)?,
            "" => {}
            file => OpenOptions::new()
                .write(true)
                .open(Path::new(DIR).join(file))?
                .sync_all()?,
        }
        let end = Meter::now(self)?;
        self.say_figures(&start, &middle, &end, bytes);
        self.say("slab_bytes", meter::slab(self.field("fs"))?);
        self.say_places(trace.as_ref())
    }

    fn say_figures(&self, start: &Meter, middle: &Meter, end: &Meter, bytes: u64) {
        let (all, sync) = (end.since(start), end.since(middle));
        self.say("bytes", bytes);
        self.say("wall_s", all.wall);
        self.say("user_s", all.user);
        self.say("sys_s", all.system);
        self.say("sync_wall_s", sync.wall);
        self.say("sync_user_s", sync.user);
        self.say("sync_sys_s", sync.system);
        self.say("write_ios", all.disk.write_ios);
        self.say("write_bytes", all.disk.write_bytes);
        self.say("read_ios", all.disk.read_ios);
        self.say("read_bytes", all.disk.read_bytes);
        self.say("flushes", all.disk.flushes);
        for (name, value) in &all.counters {
            self.say(&format!("counters.{name}"), value);
        }
    }

    /// Where the file that the run names lies, and what the trace tells of the requests.
    fn say_places(&self, trace: Option<&Trace>) -> Result<(), Stop> {
        let mut extents = Vec::new();
        let names = self
            .field("files")
            .split(',')
            .filter(|name| !name.is_empty());
        for name in names.filter(|_| self.on_disk()) {
            let file = File::open(Path::new(DIR).join(name))?;
            extents.extend(extent::joined(&extent::fiemap(&file, false)?));
        }
        if !self.field("files").is_empty() && self.on_disk() {
            self.say("extents", extents.len());
        }
        if let Some(trace) = trace {
            for (name, value) in requests::figures(&trace.take()?, &extents) {
                self.say(name, value);
            }
        }
        Ok(())
    }

    /// Finds out whether a file can be opened for direct I/O.
    fn probe_direct(&self) -> Result<(), Stop> {
        let path = Path::new(DIR).join("probe");
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path);
        let _ = fs::remove_file(path);
        match opened {
            Err(error) => Err(Stop::Unbuilt(format!("open with O_DIRECT: {error}").into())),
            Ok(_) => Ok(()),
        }
    }

    /// Carries out the steps of a field, and says how many bytes they moved.
    fn steps(&self, field: &str) -> Result<u64, Why> {
        let steps = self
            .field(field)
            .split(" ; ")
            .filter(|step| !step.is_empty());
        let mut bytes = 0;
        for step in steps {
            bytes += match step.strip_prefix("sh ") {
                Some(command) => {
                    shell(command)?;
                    0
                }
                None => work::carry_out(Path::new(DIR), step).within(|| step.to_owned())?,
            };
        }
        Ok(bytes)
    }
}
