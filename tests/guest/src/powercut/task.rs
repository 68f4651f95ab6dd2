// SPDX-License-Identifier: GPL-2.0

//! A task: what it does to its names. What it does to data stands in `content.rs`.

use super::history::{Data, Promise};
use super::tree::{describe, Change, Inode, Key, Spot, Tree};
use super::work::{Shared, Work};
use crate::rng::Rng;
use crate::sys::{errno, meta, volume, xattr};
use crate::why::{Why, Within};
use crate::xattrs;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{symlink, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Names that a task has at most.
const NAMES: usize = 220;
/// Files that a task makes at most.
const FILES: usize = 8000;
/// Directories in directories.
const DEEP: usize = 4;
/// Names that are made at a time.
const CROWD: usize = 25;
/// Files without a name that are kept open.
const KEPT: usize = 3;

/// A file of the task.
#[derive(Clone, Copy)]
pub struct Live {
    /// Its size, in words.
    pub size: usize,
    /// The number of its last write.
    pub last: u16,
    /// The number of the last operation that changed its size otherwise than by writing.
    pub sized: usize,
}

/// A task and what it did.
pub struct Task {
    nr: usize,
    pub rng: Rng,
    /// Bytes in a block of the volume.
    pub block: usize,
    /// What each operation changed.
    pub ops: Vec<Vec<Change>>,
    pub tree: Tree,
    pub files: BTreeMap<u16, Live>,
    /// The number of the last operation that changed an inode or the names in a directory.
    touched: BTreeMap<u64, usize>,
    /// Open files whose last name was removed.
    kept: Vec<File>,
    /// Files and names made so far.
    made: usize,
}

/// Nothing where there was no space for it.
pub fn fits<T>(result: io::Result<T>, what: &str) -> Result<Option<T>, Why> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if errno(&e) == libc::ENOSPC => Ok(None),
        Err(e) => Err(e).within(|| what.into()),
    }
}

impl Task {
    /// Task number `nr` on a volume with blocks of `block` bytes.
    pub fn new(nr: usize, block: usize, seed: u64) -> Self {
        Self {
            nr,
            rng: Rng::new(seed.wrapping_mul(31) + nr as u64),
            block,
            ops: Vec::new(),
            tree: Tree::default(),
            files: BTreeMap::new(),
            touched: BTreeMap::new(),
            kept: Vec::new(),
            made: 0,
        }
    }

    /// Closes the files that have no names.
    pub fn let_go(&mut self) {
        self.kept.clear();
    }

    /// Notes an operation.
    pub fn record(&mut self, changes: Vec<Change>) {
        let nr = self.ops.len() + 1;
        for spot in self.tree.run(&changes) {
            match spot {
                Spot::Name(key) => self.touched.insert(key.0, nr),
                Spot::Inode(ino) => self.touched.insert(ino, nr),
            };
        }
        for change in &changes {
            match *change {
                Change::Write {
                    id,
                    at,
                    count,
                    write,
                } => {
                    if let Some(file) = self.files.get_mut(&id) {
                        file.size = file.size.max(at + count);
                        file.last = write;
                    }
                }
                Change::Size { id, words } => {
                    if let Some(file) = self.files.get_mut(&id) {
                        file.size = words;
                        file.sized = nr;
                    }
                }
                _ => {}
            }
        }
        self.ops.push(changes);
    }

    /// A promise of data and of at least so many operations.
    pub fn promise(&self, least: usize, data: Data) -> Promise {
        Promise {
            mark: 0,
            task: self.nr,
            least,
            upto: self.ops.len(),
            own: true,
            data,
        }
    }

    /// The number of the last operation that changed an inode.
    pub fn touched(&self, ino: u64) -> usize {
        self.touched.get(&ino).copied().unwrap_or(0)
    }

    /// The path of a directory, and how deep it is.
    fn dir(&self, shared: &[Shared], ino: u64) -> Option<(PathBuf, usize)> {
        if let Some(dir) = shared.iter().find(|dir| dir.ino == ino) {
            return Some((dir.path.clone(), 0));
        }
        let (key, _) = self.tree.names.iter().find(|(_, &is)| is == ino)?;
        let (path, deep) = self.dir(shared, key.0)?;
        Some((path.join(&key.1), deep + 1))
    }

    /// The path of a name.
    pub fn path(&self, work: &Work, key: &Key) -> Result<PathBuf, Why> {
        let dir = self.dir(&work.shared, key.0).ok_or("a lost directory")?;
        Ok(dir.0.join(&key.1))
    }

    fn is(&self, ino: u64, kind: &str) -> bool {
        let inode = self.tree.inodes.get(&ino);
        inode.is_some_and(|inode| inode.what.starts_with(kind))
    }

    fn is_dir(&self, ino: u64) -> bool {
        self.is(ino, "40")
    }

    /// A directory: a shared one, or one of the task's own.
    fn some_dir(&mut self, work: &Work) -> u64 {
        let own: Vec<u64> = self.tree.names.values().copied().collect();
        let own: Vec<u64> = own.into_iter().filter(|&ino| self.is_dir(ino)).collect();
        if own.is_empty() || self.rng.chance(40) {
            let nr = self.rng.below(work.shared.len() as u64) as usize;
            return work.shared[nr].ino;
        }
        self.rng.pick(&own)
    }

    /// A name of the task for whose inode `want` holds.
    fn some(&mut self, want: impl Fn(&Self, u64) -> bool) -> Option<(Key, u64)> {
        let names = self.tree.names.values();
        let count = names.filter(|&&ino| want(self, ino)).count();
        let nr = self.rng.below(count as u64) as usize;
        let mut names = self.tree.names.iter();
        let found = names.by_ref().filter(|(_, &ino)| want(self, ino)).nth(nr)?;
        Some((found.0.clone(), *found.1))
    }

    /// A file's name, inode and number.
    pub fn some_file(&mut self) -> Option<(Key, u64, u16)> {
        let (key, ino) = self.some(|task, ino| task.is(ino, "100"))?;
        let id = self.tree.inodes.get(&ino)?.id;
        Some((key, ino, id))
    }

    /// A name in a directory that is not there yet; often a long one.
    fn fresh(&mut self, dir: u64) -> Key {
        self.made += 1;
        let pad = self.rng.pick(&[0, 0, 3, 20, 90, 200, 230]);
        (
            dir,
            format!("{}.{:x}{}", self.nr, self.made, "x".repeat(pad)),
        )
    }

    /// Where an operation on names in a synchronous directory is over, it is promised.
    fn settle(&self, work: &Work, dirs: &[u64]) -> Result<(), Why> {
        let mut shared = work.shared.iter();
        if shared.any(|dir| dir.sync && dirs.contains(&dir.ino)) {
            work.promised([self.promise(self.ops.len(), Data::None)])?;
        }
        Ok(())
    }

    /// The change that makes the model know what has the name `key`.
    fn known(&self, work: &Work, key: &Key, id: u16) -> Result<Change, Why> {
        let path = self.path(work, key)?;
        let (ino, what) = describe(&path).within(|| path.display().to_string())?;
        let inode = Inode { id, what };
        Ok(Change::Inode { ino, inode })
    }

    /// The number of a new file.
    fn number(&mut self) -> u16 {
        let id = self.nr + 1 + 8 * (self.files.len() + 1);
        let id = id as u16;
        let live = Live {
            size: 0,
            last: 0,
            sized: self.ops.len() + 1,
        };
        self.files.insert(id, live);
        id
    }

    /// Notes that `key` is new.
    fn made(&mut self, work: &Work, key: Key, id: u16) -> Result<(), Why> {
        let inode = self.known(work, &key, id)?;
        let Change::Inode { ino, .. } = inode else {
            return Err("no inode".into());
        };
        let dir = key.0;
        self.record(vec![inode, Change::Name { key, ino }]);
        self.settle(work, &[dir])
    }

    /// One operation, or a few that belong together.
    pub fn step(&mut self, work: &Work) -> Result<(), Why> {
        if self.files.len() > FILES {
            // There are no more numbers.
            return self.sync_all(work);
        }
        if self.tree.names.len() > NAMES {
            return self.thin_out(work);
        }
        if self.too_much() {
            return self.remove_largest(work);
        }
        match self.rng.below(100) {
            0..10 => self.create(work).map(drop),
            10..12 => self.make_dir(work),
            12..14 => self.make_symlink(work),
            14..17 => self.link(work),
            17..23 => self.unlink(work),
            23..25 => self.remove_dir(work),
            25..34 => self.rename(work),
            34..38 => self.replace(work),
            38..41 => self.nameless(work),
            41..47 => self.attribute(work),
            47..49 => self.crowd(work),
            49..54 => self.sync_dir(work),
            54..55 => self.sync_all(work),
            _ => self.use_file(work),
        }
    }

    fn create(&mut self, work: &Work) -> Result<Option<(Key, u16)>, Why> {
        let dir = self.some_dir(work);
        let key = self.fresh(dir);
        let path = self.path(work, &key)?;
        let mode = 0o600 | self.rng.below(0o200) as u32;
        let mut open = OpenOptions::new();
        open.write(true).create_new(true).mode(mode);
        if fits(open.open(path), "create")?.is_none() {
            return Ok(None);
        }
        let id = self.number();
        self.made(work, key.clone(), id)?;
        Ok(Some((key, id)))
    }

    fn make_dir(&mut self, work: &Work) -> Result<(), Why> {
        let dir = self.some_dir(work);
        let key = self.fresh(dir);
        let deep = self.dir(&work.shared, dir).map_or(0, |found| found.1);
        if deep >= DEEP || fits(fs::create_dir(self.path(work, &key)?), "mkdir")?.is_none() {
            return Ok(());
        }
        self.made(work, key, 0)
    }

    fn make_symlink(&mut self, work: &Work) -> Result<(), Why> {
        let dir = self.some_dir(work);
        let key = self.fresh(dir);
        let length = self.rng.pick(&[5, 59, 60, 300, 1000]);
        let target = format!("{}{}", self.made, "t".repeat(length));
        let path = self.path(work, &key)?;
        let target = &target[..length.min(self.block - 1)];
        match fits(symlink(target, path), "symlink")? {
            Some(()) => self.made(work, key, 0),
            None => Ok(()),
        }
    }

    fn link(&mut self, work: &Work) -> Result<(), Why> {
        let Some((old, ino)) = self.some(|task, ino| !task.is_dir(ino)) else {
            return Ok(());
        };
        let dir = self.some_dir(work);
        let key = self.fresh(dir);
        let linked = fs::hard_link(self.path(work, &old)?, self.path(work, &key)?);
        if fits(linked, "link")?.is_some() {
            self.record(vec![Change::Name { key, ino }]);
            self.settle(work, &[dir])?;
        }
        Ok(())
    }

    /// Removes a name that is not of a directory.
    pub fn remove(&mut self, work: &Work, key: Key) -> Result<(), Why> {
        let removed = fs::remove_file(self.path(work, &key)?);
        if fits(removed, "unlink")?.is_some() {
            let dir = key.0;
            self.record(vec![Change::Name { key, ino: 0 }]);
            self.settle(work, &[dir])?;
        }
        Ok(())
    }

    fn unlink(&mut self, work: &Work) -> Result<(), Why> {
        if self.rng.chance(30) {
            return self.unlink_open(work);
        }
        match self.some(|task, ino| !task.is_dir(ino)) {
            Some((key, _)) => self.remove(work, key),
            None => Ok(()),
        }
    }

    /// Removes a file that is open, goes on to write to it, and keeps it for a while.
    fn unlink_open(&mut self, work: &Work) -> Result<(), Why> {
        let Some((key, _, id)) = self.some_file() else {
            return Ok(());
        };
        let path = self.path(work, &key)?;
        let open = OpenOptions::new().read(true).write(true).open(path);
        let open = open.within(|| "open to unlink".into())?;
        self.remove(work, key)?;
        let size = self.files.get(&id).map_or(0, |file| file.size);
        self.write(work, &open, id, size, 700, false)?;
        self.kept.push(open);
        if self.kept.len() > KEPT {
            self.kept.remove(0);
        }
        Ok(())
    }

    fn is_empty(&self, dir: u64) -> bool {
        let mut names = self.tree.names.range((dir, String::new())..);
        names.next().is_none_or(|(key, _)| key.0 != dir)
    }

    fn remove_dir(&mut self, work: &Work) -> Result<(), Why> {
        let found = self.some(|task, ino| task.is_dir(ino) && task.is_empty(ino));
        let Some((key, _)) = found else {
            return Ok(());
        };
        if fits(fs::remove_dir(self.path(work, &key)?), "rmdir")?.is_some() {
            let dir = key.0;
            self.record(vec![Change::Name { key, ino: 0 }]);
            self.settle(work, &[dir])?;
        }
        Ok(())
    }

    /// True where directory `inner` is `outer` or below it.
    fn is_within(&self, mut inner: u64, outer: u64) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            let mut names = self.tree.names.iter();
            match names.find(|(_, &ino)| ino == inner) {
                Some((key, _)) => inner = key.0,
                None => return false,
            }
        }
    }

    fn rename(&mut self, work: &Work) -> Result<(), Why> {
        let Some((old, ino)) = self.some(|_, _| true) else {
            return Ok(());
        };
        if self.rng.chance(25) {
            return self.exchange(work, old, ino);
        }
        let whiteout = self.rng.chance(20);
        let (new, over) = match self.some(|_, _| true) {
            Some((key, over)) if self.rng.chance(40) => (key, Some(over)),
            _ => {
                let dir = self.some_dir(work);
                (self.fresh(dir), None)
            }
        };
        let dir = self.is_dir(ino);
        let replaces = over.is_none_or(|over| {
            over != ino && self.is_dir(over) == dir && (!dir || self.is_empty(over))
        });
        if !replaces || dir && self.is_within(new.0, ino) {
            return Ok(());
        }
        let flags = if whiteout { libc::RENAME_WHITEOUT } else { 0 };
        let (from, to) = (self.path(work, &old)?, self.path(work, &new)?);
        if fits(meta::rename(&from, &to, flags), "rename")?.is_none() {
            return Ok(());
        }
        let dirs = [old.0, new.0];
        let mut changes = vec![Change::Name { key: new, ino }];
        if whiteout {
            let (ino, what) = describe(&from).within(|| "a whiteout".into())?;
            let inode = Inode { id: 0, what };
            changes.push(Change::Inode { ino, inode });
            changes.push(Change::Name { key: old, ino });
        } else {
            changes.push(Change::Name { key: old, ino: 0 });
        }
        self.record(changes);
        self.settle(work, &dirs)
    }

    fn exchange(&mut self, work: &Work, old: Key, ino: u64) -> Result<(), Why> {
        let Some((new, other)) = self.some(|_, other| other != ino) else {
            return Ok(());
        };
        let apart = |task: &Self, dir: u64, ino| !task.is_dir(ino) || !task.is_within(dir, ino);
        if !apart(self, new.0, ino) || !apart(self, old.0, other) {
            return Ok(());
        }
        let (from, to) = (self.path(work, &old)?, self.path(work, &new)?);
        if fits(meta::rename(&from, &to, libc::RENAME_EXCHANGE), "exchange")?.is_some() {
            let dirs = [old.0, new.0];
            let back = Change::Name {
                key: old,
                ino: other,
            };
            self.record(vec![Change::Name { key: new, ino }, back]);
            self.settle(work, &dirs)?;
        }
        Ok(())
    }

    /// Writes a new version of a file beside it and renames it over the old one.
    fn replace(&mut self, work: &Work) -> Result<(), Why> {
        let Some((old, over, _)) = self.some_file() else {
            return Ok(());
        };
        let Some((key, id)) = self.create(work)? else {
            return Ok(());
        };
        let Some(ino) = self.tree.names.get(&key).copied() else {
            return Ok(());
        };
        let path = self.path(work, &key)?;
        let open = OpenOptions::new().write(true).open(&path);
        let open = open.within(|| "open to replace".into())?;
        let count = self.rng.pick(&[1, 512, 700, 4000]);
        self.write(work, &open, id, 0, count, false)?;
        if self.rng.chance(50) {
            self.fsync(work, &open, ino, id)?;
        }
        let done = meta::rename(&path, &self.path(work, &old)?, 0);
        if over == ino || fits(done, "replace")?.is_none() {
            return Ok(());
        }
        let dirs = [old.0, key.0];
        self.record(vec![
            Change::Name { key: old, ino },
            Change::Name { key, ino: 0 },
        ]);
        self.settle(work, &dirs)
    }

    /// Makes a file without a name, writes to it and gives it one.
    fn nameless(&mut self, work: &Work) -> Result<(), Why> {
        let dir = self.some_dir(work);
        let key = self.fresh(dir);
        let path = self.path(work, &key)?;
        let mut open = OpenOptions::new();
        open.read(true).write(true).custom_flags(libc::O_TMPFILE);
        let parent = path.parent().ok_or("no parent")?;
        let Some(open) = fits(open.open(parent), "O_TMPFILE")? else {
            return Ok(());
        };
        let id = self.number();
        let ino = open.metadata().within(|| "stat".into())?.ino();
        let what = String::new();
        let inode = Inode { id, what };
        self.record(vec![Change::Inode { ino, inode }]);
        self.write(work, &open, id, 0, 900, false)?;
        if self.rng.chance(50) {
            self.fsync(work, &open, ino, id)?;
        }
        if self.rng.chance(20) || fits(meta::link_open(&open, &path), "linkat")?.is_none() {
            return Ok(());
        }
        self.made(work, key, id)
    }

    /// Sets or removes an attribute, the mode or an ACL.
    fn attribute(&mut self, work: &Work) -> Result<(), Why> {
        let Some((key, ino)) = self.some(|task, ino| task.is_dir(ino) || task.is(ino, "100"))
        else {
            return Ok(());
        };
        let path = self.path(work, &key)?;
        let name = self.rng.pick(&["user.a", "user.b", "user.c", "trusted.d"]);
        let done = match self.rng.below(10) {
            0..5 => {
                let length = self.rng.pick(&[1, 30, 200, 600, self.block - 200]);
                // A few values, so that blocks get equal and are shared.
                let value = vec![self.rng.below(3) as u8 + 1; length];
                xattr::set(&path, name.as_bytes(), &value, 0)
            }
            5 => xattr::remove(&path, name.as_bytes()),
            6 | 7 => {
                let mode = 0o600 | self.rng.below(0o200) as u32;
                fs::set_permissions(&path, Permissions::from_mode(mode))
            }
            _ => {
                let kind = if self.is_dir(ino) && self.rng.chance(60) {
                    "system.posix_acl_default"
                } else {
                    "system.posix_acl_access"
                };
                let user = 1000 + self.rng.below(5) as u32;
                let acl = xattrs::acl(6, &[(2, 5, user)], 4, Some(5), 0);
                xattr::set(&path, kind.as_bytes(), &acl, 0)
            }
        };
        match done {
            Err(e) if errno(&e) == libc::ENODATA => return Ok(()),
            done => {
                if fits(done, "an attribute")?.is_none() {
                    return Ok(());
                }
            }
        }
        let id = self.tree.inodes.get(&ino).map_or(0, |inode| inode.id);
        let known = self.known(work, &key, id)?;
        self.record(vec![known]);
        Ok(())
    }

    /// Makes many names in one directory.
    fn crowd(&mut self, work: &Work) -> Result<(), Why> {
        let dir = self.some_dir(work);
        for _ in 0..CROWD {
            let key = self.fresh(dir);
            if fits(File::create_new(self.path(work, &key)?), "create")?.is_none() {
                return Ok(());
            }
            let id = self.number();
            self.made(work, key, id)?;
        }
        Ok(())
    }

    /// Removes most names.
    fn thin_out(&mut self, work: &Work) -> Result<(), Why> {
        while self.tree.names.len() > NAMES / 2 {
            match self.some(|task, ino| !task.is_dir(ino)) {
                Some((key, _)) => self.remove(work, key)?,
                None => self.remove_dir(work)?,
            }
        }
        Ok(())
    }

    fn sync_dir(&mut self, work: &Work) -> Result<(), Why> {
        let dir = self.some_dir(work);
        let (path, _) = self.dir(&work.shared, dir).ok_or("a lost directory")?;
        File::open(path)?
            .sync_all()
            .within(|| "fsync of a directory".into())?;
        work.promised([self.promise(self.touched(dir), Data::None)])
    }

    fn sync_all(&mut self, work: &Work) -> Result<(), Why> {
        let dir = File::open(&work.shared[1].path)?;
        volume::syncfs(&dir).within(|| "syncfs".into())?;
        work.promised([self.promise(self.ops.len(), Data::All)])
    }
}
