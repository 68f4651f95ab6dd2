// SPDX-License-Identifier: GPL-2.0

//! Names and inodes: what a task made of its part of the volume, and what is found there.
//!
//! Each name starts with the number of the task that it belongs to and a dot, so the tasks can
//! share directories and still know their own.

use crate::rng::Digest;
use crate::sys::xattr;
use crate::why::{require, Why, Within};
use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A name: its directory's inode number, and the name in it.
pub type Key = (u64, String);

/// What of an inode there is in one place of its journalled metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The number of the file in its data; 0 where it is no file or is not known.
    pub id: u16,
    /// Its kind, owner, target and attributes, in words.
    pub what: String,
}

/// What an operation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A name now is of that inode; of none for 0.
    Name { key: Key, ino: u64 },
    /// An inode is new, or is now so.
    Inode { ino: u64, inode: Inode },
    /// Words of a file are of a write.
    Write {
        id: u16,
        at: usize,
        count: usize,
        write: u16,
    },
    /// A file was given a size, in words.
    Size { id: u16, words: usize },
}

/// A place where two trees can differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    Name(Key),
    Inode(u64),
}

/// The names and inodes of a task.
#[derive(Clone, Default)]
pub struct Tree {
    pub names: BTreeMap<Key, u64>,
    /// Those without a name may be there, too.
    pub inodes: BTreeMap<u64, Inode>,
    links: BTreeMap<u64, u32>,
}

impl Tree {
    /// The names that an inode has.
    pub fn links(&self, ino: u64) -> u32 {
        self.links.get(&ino).copied().unwrap_or(0)
    }

    /// Makes the change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Name { key, ino } => {
                let old = match ino {
                    0 => self.names.remove(key),
                    ino => self.names.insert(key.clone(), *ino),
                };
                if let Some(old) = old {
                    let links = self.links.entry(old).or_default();
                    *links = links.saturating_sub(1);
                }
                if *ino != 0 {
                    *self.links.entry(*ino).or_default() += 1;
                }
            }
            Change::Inode { ino, inode } => {
                self.inodes.insert(*ino, inode.clone());
            }
            Change::Write { .. } | Change::Size { .. } => {}
        }
    }

    /// Where the tree will differ from what it was after this change.
    fn spots(&self, change: &Change) -> Vec<Spot> {
        match change {
            Change::Name { key, ino } => {
                let old = self.names.get(key).copied();
                let inos = old.into_iter().chain((*ino != 0).then_some(*ino));
                std::iter::once(Spot::Name(key.clone()))
                    .chain(inos.map(Spot::Inode))
                    .collect()
            }
            Change::Inode { ino, .. } => vec![Spot::Inode(*ino)],
            Change::Write { .. } | Change::Size { .. } => Vec::new(),
        }
    }

    /// Makes the changes of one operation; where the tree may now differ from what it was.
    pub fn run(&mut self, op: &[Change]) -> Vec<Spot> {
        let mut spots = Vec::new();
        for change in op {
            spots.extend(self.spots(change));
            self.apply(change);
        }
        for spot in &spots {
            if let Spot::Inode(ino) = spot {
                let made =
                    |change: &Change| matches!(change, Change::Inode { ino: i, .. } if i == ino);
                if self.links(*ino) == 0 && !op.iter().any(made) {
                    // Its last name is gone.
                    self.inodes.remove(ino);
                    self.links.remove(ino);
                }
            }
        }
        spots
    }

    /// All places where something is.
    pub fn all_spots(&self) -> impl Iterator<Item = Spot> + '_ {
        let names = self.names.keys().cloned().map(Spot::Name);
        names.chain(self.inodes.keys().copied().map(Spot::Inode))
    }

    /// What is at that place, in words.
    pub fn show(&self, spot: &Spot) -> String {
        match spot {
            Spot::Name(key) => self
                .names
                .get(key)
                .map_or("none".into(), |ino| format!("inode {ino}")),
            Spot::Inode(ino) => match self.links(*ino) {
                0 => "none".into(),
                links => {
                    let what = self.inodes.get(ino).map_or("unknown", |i| &i.what);
                    format!("{what}, {links} names")
                }
            },
        }
    }

    /// True where both trees have the same in that place.
    pub fn agrees(&self, other: &Self, spot: &Spot) -> bool {
        match spot {
            Spot::Name(key) => self.names.get(key) == other.names.get(key),
            Spot::Inode(ino) => {
                let links = self.links(*ino);
                let what = |tree: &Self| tree.inodes.get(ino).map(|i| i.what.clone());
                links == other.links(*ino) && (links == 0 || what(self) == what(other))
            }
        }
    }
}

/// The number and the words of what has the name `path`.
pub fn describe(path: &Path) -> io::Result<(u64, String)> {
    let found = fs::symlink_metadata(path)?;
    let mut what = format!("{:o} {}:{}", found.mode(), found.uid(), found.gid());
    if found.rdev() != 0 {
        what += &format!(" device {}", found.rdev());
    }
    if found.is_symlink() {
        what += &format!(" to {}", brief(fs::read_link(path)?.as_os_str().as_bytes()));
    }
    let list = xattr::list(path, 4096)?;
    let mut names: Vec<_> = list.split(|&b| b == 0).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    for name in names {
        let value = xattr::get(path, name, 8192)?;
        what += &format!(" {}={}", String::from_utf8_lossy(name), brief(&value));
    }
    Ok((found.ino(), what))
}

/// Bytes by length and digest.
fn brief(bytes: &[u8]) -> String {
    let mut digest = Digest::new();
    digest.update(bytes);
    format!("{}:{:x}", bytes.len(), digest.finish())
}

/// What is found on a volume.
pub struct Seen {
    /// The part of each task.
    pub trees: Vec<Tree>,
    /// Each file with data: its task, its inode and one of its names.
    pub files: Vec<(usize, u64, PathBuf)>,
}

/// The task that a name belongs to.
fn owner(name: &str) -> Option<usize> {
    name.split_once('.')?.0.parse().ok()
}

impl Seen {
    /// Looks at everything below `root`, in the parts of `tasks` tasks.
    pub fn new(root: &Path, tasks: usize) -> Result<Self, Why> {
        let mut seen = Self {
            trees: vec![Tree::default(); tasks],
            files: Vec::new(),
        };
        let mut links = BTreeMap::new();
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            let ino = fs::metadata(&dir)?.ino();
            let entries = fs::read_dir(&dir).within(|| dir.display().to_string())?;
            for entry in entries {
                let entry = entry.within(|| dir.display().to_string())?;
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    todo.push(path.clone());
                }
                if let Some(task) = owner(&name) {
                    let tree = seen.trees.get_mut(task);
                    let tree = tree.ok_or_else(|| format!("a name of nobody: {name}"))?;
                    if let Some(file) = add(tree, (ino, name), &path, kind, &mut links)? {
                        seen.files.push((task, file, path));
                    }
                }
            }
        }
        for (ino, (task, links)) in links {
            let names = seen.trees[task].links(ino);
            require(names == links, || {
                format!("inode {ino} has {names} names and says {links}")
            })?;
        }
        Ok(seen)
    }
}

/// Takes a name into the tree; the inode's number where it is a file that was not known.
fn add(
    tree: &mut Tree,
    key: Key,
    path: &Path,
    kind: FileType,
    links: &mut BTreeMap<u64, (usize, u32)>,
) -> Result<Option<u64>, Why> {
    let within = || path.display().to_string();
    let task = owner(&key.1).unwrap_or(0);
    let found = fs::symlink_metadata(path).within(within)?;
    let ino = found.ino();
    let new = !tree.inodes.contains_key(&ino);
    if new {
        let (_, what) = describe(path).within(within)?;
        let inode = Inode { id: 0, what };
        tree.apply(&Change::Inode { ino, inode });
        if !kind.is_dir() {
            links.insert(ino, (task, found.nlink() as u32));
        }
    }
    tree.apply(&Change::Name { key, ino });
    Ok((new && kind.is_file()).then_some(ino))
}
