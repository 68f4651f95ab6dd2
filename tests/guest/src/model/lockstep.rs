// SPDX-License-Identifier: GPL-2.0

//! Two volumes that everything is done to alike, and compared after each step.

use super::lie::Lie;
use super::listing::Session;
use super::look::{self, shown, Differs, Look};
use super::op::{Op, SLOTS};
use super::side::{Answer, Side};
use super::style::Style;
use super::walk;
use crate::sys::meta::Time;
use crate::sys::{dir, xattr};
use crate::why::{Why, Within};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Of so many blocks of 100 may be free where only one side finds the volume full: the two choose
/// places by other rules, and keep other reserves.
const SLACK: u64 = 12;
/// Bytes of a large directory that are listed after each step; more only now and then.
const LISTED: usize = 8192;
/// How often all of a large directory is.
const SELDOM: u64 = 16;

/// The volume under test and its twin.
pub struct Lockstep<'a> {
    pub sides: [Side; 2],
    pub style: &'a Style,
    /// A deliberate difference.
    lie: Option<Lie>,
    /// When it began.
    since: Time,
    /// Files whose holes the two need not agree on: a store through a mapping fills a whole folio,
    /// and the two do not have the same folios.
    pub vague: BTreeSet<(u64, Option<Time>)>,
    session: Option<Session>,
    steps: u64,
    /// How often one side alone was full.
    pub tolerated: u64,
    /// How often both were.
    pub full: u64,
}

/// `CLOCK_REALTIME`, so much later or earlier.
fn now(later: i64) -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO);
    Time {
        seconds: now.as_secs() as i64 + later,
        nanos: now.subsec_nanos().into(),
    }
}

impl<'a> Lockstep<'a> {
    /// Makes a volume of `style` on both devices and mounts the first as `fs`.
    pub fn new(
        fs: &str,
        devices: [&Path; 2],
        dirs: [&Path; 2],
        style: &'a Style,
        lie: Option<Lie>,
    ) -> Result<Self, Why> {
        let since = now(-1);
        for dev in devices {
            style.make(dev)?;
        }
        let own = Side::mount(fs, devices[0], dirs[0])?;
        let other = Side::mount("ext4", devices[1], dirs[1])?;
        let this = Self {
            sides: [own, other],
            style,
            lie,
            since,
            vague: BTreeSet::new(),
            session: None,
            steps: 0,
            tolerated: 0,
            full: 0,
        };
        for side in &this.sides {
            let root = side.at(".");
            std::os::unix::fs::chown(&root, Some(0), Some(0)).within(|| "chown".into())?;
            std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        }
        crate::sys::process::umask(0);
        Ok(this)
    }

    /// Unmounts both, as well as it can be done.
    pub fn end(&mut self) {
        for side in &mut self.sides {
            // What cannot be unmounted has been reported, or the next run says so.
            let _ = side.unmount();
        }
    }

    /// Directories' sizes are compared: where nobody had no room for a block, and not without
    /// indexes, where the two look for room in another order.
    fn sizes(&self) -> bool {
        !self.style.full && self.style.features != "^dir_index"
    }

    /// Does `op` on both sides; true where it succeeded.
    pub fn step(&mut self, op: &Op) -> Result<bool, Differs> {
        self.steps += 1;
        match op {
            Op::Walk {} => return self.walk(false).map(|()| true),
            Op::Check {} => self.walk(false)?,
            _ => {}
        }
        let before = self.look(op)?;
        let vague = self.is_vague(op);
        let answers = self.run(op);
        self.full += u64::from(answers.iter().all(|answer| *answer == Err(libc::ENOSPC)));
        let levelled = self.one_is_full(op, &answers)?;
        if levelled {
            self.tolerated += 1;
            self.session = None;
            self.level(op)
                .map_err(|e| Differs::new("undoing", format!("{op}: {e}")))?;
        } else {
            compare_answers(op, &answers, vague)?;
        }
        let after = self.look(op)?;
        self.remember(op, &after);
        if !levelled {
            self.compare_times(&before, &after)?;
        }
        self.compare_listings(op)?;
        if self.style.eager && !levelled {
            self.compare_contents(op)?;
        }
        self.follow_session(op, answers[0].is_ok())?;
        if matches!(op, Op::Remount {} | Op::Check {}) {
            self.session = None;
            self.walk(true)?;
        }
        Ok(answers[0].is_ok() && answers[1].is_ok())
    }

    fn run(&mut self, op: &Op) -> [Answer; 2] {
        let [own, other] = &mut self.sides;
        let answer = own.run(op);
        match self.lie {
            Some(lie) => {
                let told = lie.run(other, op, &answer);
                [answer, told]
            }
            None => [answer, other.run(op)],
        }
    }

    /// What `op` is about, on both sides. An open file comes after the paths, without a name.
    fn look(&self, op: &Op) -> Result<Vec<(String, [Look; 2])>, Differs> {
        let mut looks = Vec::new();
        let until = now(1);
        for path in op.paths() {
            let found = look::both(&self.sides, path, self.sizes())
                .map_err(|e| Differs::new("existence", e.to_string()))?;
            let Some(pair) = found else { continue };
            pair[0]
                .compare(&pair[1], self.since, until)
                .map_err(|d| d.of(path))?;
            looks.push((path.to_owned(), pair));
        }
        if let Some(pair) = self.look_open(op) {
            let pair = pair.map_err(|e| Differs::new("open file", e.to_string()))?;
            pair[0]
                .compare(&pair[1], self.since, until)
                .map_err(|d| d.of("the open file"))?;
            looks.push((String::new(), pair));
        }
        Ok(looks)
    }

    fn look_open(&self, op: &Op) -> Option<io::Result<[Look; 2]>> {
        let slot = op.slot()?;
        let [own, other] = self.sides.each_ref().map(|side| side.file(slot));
        let looks = [own?, other?].map(|file| Look::open(file, self.sizes()));
        Some(match looks {
            [Ok(own), Ok(other)] => Ok([own, other]),
            [Err(e), _] | [_, Err(e)] => Err(e),
        })
    }

    /// True where `op` may find other holes on one side than on the other.
    fn is_vague(&self, op: &Op) -> bool {
        matches!(op, Op::Seek { .. })
            && self
                .look_open(op)
                .and_then(Result::ok)
                .is_some_and(|pair| self.vague.contains(&pair[1].identity()))
    }

    /// Takes down whose holes are vague from here on.
    fn remember(&mut self, op: &Op, after: &[(String, [Look; 2])]) {
        let copied = match (op, after) {
            (Op::Map { .. }, _) => true,
            (Op::Copy { .. }, [(_, from), ..]) => self.vague.contains(&from[1].identity()),
            _ => false,
        };
        if let (true, Some((_, last))) = (copied, after.last()) {
            self.vague.insert(last[1].identity());
        }
    }

    /// Where a time changed by this step on one side, it did on the other.
    fn compare_times(
        &self,
        before: &[(String, [Look; 2])],
        after: &[(String, [Look; 2])],
    ) -> Result<(), Differs> {
        // Times of old inodes have whole seconds.
        if self.style.inode < 256 {
            return Ok(());
        }
        for (path, [own, other]) in after {
            let old = before.iter().find(|(old, _)| old == path);
            let Some((_, [own_old, other_old])) = old else {
                continue;
            };
            let same = own.identity() == own_old.identity();
            if !same || other.identity() != other_old.identity() {
                continue;
            }
            let (own, other) = (own.times_changed(own_old), other.times_changed(other_old));
            if own != other {
                let text = format!("{path}: mtime and ctime changed {own:?}\n  against {other:?}");
                return Err(Differs::new("time", text));
            }
        }
        Ok(())
    }

    /// The directories of the paths of `op` hold the same names.
    fn compare_listings(&self, op: &Op) -> Result<(), Differs> {
        let names = matches!(
            op,
            Op::Create { .. }
                | Op::Mkdir { .. }
                | Op::Mknod { .. }
                | Op::Symlink { .. }
                | Op::Link { .. }
                | Op::Unlink { .. }
                | Op::Rmdir { .. }
                | Op::Rename { .. }
                | Op::NameOpen { .. }
                | Op::Clear { .. }
                | Op::Crowd { .. }
                | Op::Thin { .. }
        );
        if !names {
            return Ok(());
        }
        for path in op.paths() {
            let crowd = matches!(op, Op::Crowd { .. } | Op::Thin { .. });
            let parent = if crowd {
                path
            } else {
                path.rsplit_once('/').map_or(".", |(parent, _)| parent)
            };
            let seldom = self.steps % SELDOM == 0;
            let listings = self.sides.each_ref().map(|side| {
                let dir = dir::open(&side.at(parent))?;
                let mut all = dir::read_some(&dir, LISTED)?;
                let more = dir::read_some(&dir, LISTED)?;
                if !more.is_empty() {
                    if !seldom {
                        return Ok(Vec::new());
                    }
                    all.extend(more);
                    all.extend(dir::read_on(&dir, 32 << 10)?);
                }
                let mut names: Vec<_> = all.into_iter().map(|e| (e.name, e.kind)).collect();
                names.sort();
                Ok::<_, io::Error>(names)
            });
            let [own, other] = listings.map(|list| list.map_err(|e| e.raw_os_error()));
            if own != other {
                return Err(Differs::new(
                    "listing",
                    format!("{parent}: {}", walk::name_difference(&own, &other)),
                ));
            }
        }
        Ok(())
    }

    fn compare_contents(&self, op: &Op) -> Result<(), Differs> {
        let (around, path) = match op {
            Op::Write { offset, length, .. } | Op::Map { offset, length, .. } => {
                (Some((*offset, *length)), None)
            }
            Op::Append { .. } => (None, None),
            Op::Cut { size, .. } => (Some((*size, 0)), None),
            Op::Put {
                path,
                offset,
                length,
                ..
            } => (Some((*offset, *length)), Some(path)),
            Op::Truncate { path, size } => (Some((*size, 0)), Some(path)),
            Op::Copy { to, .. } => (None, Some(to)),
            _ => return Ok(()),
        };
        let files = self.sides.each_ref().map(|side| match (path, op.slot()) {
            (Some(path), _) => {
                let path = side.at(&path.0);
                path.is_file().then(|| File::open(path))
            }
            (None, Some(slot)) => side.reopen(slot),
            _ => None,
        });
        match files {
            [Some(Ok(own)), Some(Ok(other))] => look::contents(&own, &other, around),
            [None, None] | [Some(Err(_)), Some(Err(_))] => Ok(()),
            _ => Err(Differs::new("content", "can be opened on one side".into())),
        }
    }

    /// One side alone had no room. That is tolerated where it has little left, and reported
    /// otherwise.
    fn one_is_full(&self, op: &Op, answers: &[Answer; 2]) -> Result<bool, Differs> {
        let [own, other] = answers;
        if !self.style.full || own == other {
            return Ok(false);
        }
        let full = |answer: &Answer| *answer == Err(libc::ENOSPC);
        let writes = matches!(
            op,
            Op::Write { .. } | Op::Append { .. } | Op::Put { .. } | Op::Map { .. }
        );
        // A store through a mapping that finds no room is EFAULT, and a write may be a short one.
        let count = |answer: &Answer| match answer {
            Ok(text) => String::from_utf8_lossy(text).parse().ok(),
            Err(libc::ENOSPC) => Some(0_u64),
            Err(libc::EFAULT) if matches!(op, Op::Map { .. }) => Some(0),
            Err(_) => None,
        };
        let which = match (full(own), full(other)) {
            (true, false) => 0,
            (false, true) => 1,
            _ if writes => match (count(own), count(other)) {
                (Some(own), Some(other)) => usize::from(own > other),
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        let side = &self.sides[which];
        let failed = |e: io::Error| Differs::new("room", e.to_string());
        let (free, blocks) = side.room().map_err(failed)?;
        let wanted = match op {
            Op::Write { length, .. }
            | Op::Append { length, .. }
            | Op::Put { length, .. }
            | Op::Map { length, .. } => length / self.style.block + 2,
            _ => 0,
        };
        if free > blocks * SLACK / 100 + wanted {
            let inodes = side.free_inodes().map_err(failed)?;
            let other = &answers[1 - which];
            // ext4 makes a whiteout before it looks whether the directory in its way is empty.
            if inodes == 0 && other.is_err() {
                return Ok(true);
            }
            let text = format!(
                "{} has no room with {free} of {blocks} blocks and {inodes} inodes free\n  against {}",
                side.fs,
                describe(other)
            );
            return Err(Differs::new("room", text));
        }
        Ok(true)
    }

    /// Takes back on both sides what `op` did on one.
    fn level(&mut self, op: &Op) -> io::Result<()> {
        for side in &mut self.sides {
            match op {
                Op::SetAttr { path, name, .. } | Op::SetAcl { path, name, .. }
                    if path.0 == "." || !name.0.starts_with("system.") =>
                {
                    let gone = xattr::remove(&side.at(&path.0), name.0.as_bytes());
                    gone.or_else(|e| match e.raw_os_error() {
                        Some(libc::ENODATA) => Ok(()),
                        _ => Err(e),
                    })?;
                    continue;
                }
                Op::Open { slot, .. } | Op::Nameless { slot, .. } => drop(side.close(slot.0)),
                _ => {}
            }
            if let Some(file) = op.slot().and_then(|slot| side.file(slot)) {
                file.set_len(0)?;
            }
            for path in op.paths() {
                if path != "." {
                    side.remove(path)?;
                }
            }
        }
        Ok(())
    }

    fn follow_session(&mut self, op: &Op, fine: bool) -> Result<(), Differs> {
        if let Some(session) = &mut self.session {
            session.mention(op);
        }
        match op {
            Op::OpenDir { path, .. } if fine => {
                self.session = Session::begin(&self.sides[1].at(&path.0)).ok();
            }
            Op::Clear { .. } => self.session = None,
            Op::ReadDir { times } if fine && *times >= Session::TO_THE_END => {
                let Some(session) = self.session.take() else {
                    return Ok(());
                };
                for side in &self.sides {
                    let seen = side.listed().unwrap_or_default();
                    session
                        .judge(seen)
                        .map_err(|text| Differs::new("listing", format!("{}: {text}", side.fs)))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares everything. `settled`: all is on the disk.
    fn walk(&self, settled: bool) -> Result<(), Differs> {
        walk::Walk {
            sides: &self.sides,
            sizes: self.sizes(),
            since: self.since,
            until: now(1),
            settled,
            vague: &self.vague,
        }
        .run()?;
        for slot in 0..SLOTS {
            let [own, other] = self.sides.each_ref().map(|side| side.reopen(slot));
            if let (Some(Ok(own)), Some(Ok(other))) = (own, other) {
                if own.metadata().is_ok_and(|found| found.is_file()) {
                    look::contents(&own, &other, None)
                        .map_err(|d| d.of(&format!("open file {slot}")))?;
                }
            }
        }
        Ok(())
    }
}

fn compare_answers(op: &Op, answers: &[Answer; 2], vague: bool) -> Result<(), Differs> {
    let [own, other] = answers;
    if matches!(op, Op::Check {}) {
        for (answer, name) in [(own, "the volume under test"), (other, "the twin")] {
            if !matches!(answer, Ok(said) if said.is_empty()) {
                let text = format!("{name}: {}", describe(answer));
                return Err(Differs::new("e2fsck", text));
            }
        }
    }
    if own == other || vague {
        return Ok(());
    }
    let text = format!("{}\n  against {}", describe(own), describe(other));
    Err(Differs::new("answer", text))
}

fn describe(answer: &Answer) -> String {
    match answer {
        Ok(bytes) if bytes.is_empty() => "ok".into(),
        Ok(bytes) => format!("ok: {}", shown(bytes)),
        Err(errno) => format!("errno {errno} ({})", io::Error::from_raw_os_error(*errno)),
    }
}
