// SPDX-License-Identifier: GPL-2.0

//! Random operations that make sense: on what there is, most of the time.

use super::op::{Key, Name, Octal, Op, Slot, SLOTS};
use super::side::Side;
use super::style::Style;
use crate::rng::Rng;
use crate::sys::stat;
use std::collections::{BTreeMap, VecDeque};

/// Operations between two comparisons of everything.
const WALKS: u64 = 2500;
/// Names at most; crowds are not counted in full.
const NAMES: usize = 700;
/// Bytes of data at most, where the volume is not to get full.
const DATA: u64 = 24 << 20;
/// Attributes that are remembered.
const ATTRIBUTES: usize = 24;
/// A file counts for no more than this, in bytes: the rest are holes.
const COUNTED: u64 = 1 << 20;
/// Names to choose from, so that they are met again; those of the targets of links are among them.
const POOL: &[&str] = &[
    "a",
    "b",
    "c",
    "d1",
    "d2",
    "d3",
    "f1",
    "f2",
    "f3",
    "f4",
    "f5",
    "x",
    "y",
    "z",
    "grüße",
    "名前",
    "-",
    "with.dots..",
    "%41",
    "~",
];

/// A file that is known of.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// `S_IF*`.
    kind: u32,
    /// Bytes.
    size: u64,
}

/// The names of a crowd.
#[derive(Clone, Debug)]
struct Crowd {
    path: String,
    count: u64,
    length: u64,
    key: u64,
}

/// Makes up the operations of a run.
pub struct Generator {
    rng: Rng,
    style: Style,
    /// What is known of; not all is.
    nodes: BTreeMap<String, Node>,
    /// Sizes of the open files.
    open: [Option<u64>; SLOTS as usize],
    crowds: Vec<Crowd>,
    /// The attributes that were set last, and of which file.
    attributes: VecDeque<(Name, Key)>,
    steps: u64,
    /// Operations that come next, the last one first.
    planned: Vec<Op>,
    /// The volume is being emptied.
    emptying: bool,
}

impl Generator {
    /// The generator of a seed.
    pub fn new(seed: u64, style: &Style) -> Self {
        let root = Node {
            kind: libc::S_IFDIR,
            size: 0,
        };
        Self {
            rng: Rng::new(seed),
            style: style.clone(),
            nodes: BTreeMap::from([(".".to_owned(), root)]),
            open: [None; SLOTS as usize],
            crowds: Vec::new(),
            attributes: VecDeque::new(),
            steps: 0,
            planned: Vec::new(),
            emptying: false,
        }
    }

    /// The next operation.
    pub fn next(&mut self) -> Op {
        self.steps += 1;
        if self.steps % WALKS == 0 {
            return Op::Walk {};
        }
        if let Some(op) = self.planned.pop() {
            return op;
        }
        let data: u64 = self.nodes.values().map(|node| node.size.min(COUNTED)).sum();
        let limit = if self.style.full {
            self.style.size << 20
        } else {
            DATA
        };
        if self.nodes.len() > NAMES || data > limit {
            self.emptying = true;
        }
        if self.nodes.len() < NAMES / 3 && data < limit / 2 {
            self.emptying = false;
        }
        if self.emptying && self.rng.chance(40) {
            return self.removal();
        }
        match self.rng.below(1000) {
            0..=379 => self.names(),
            380..=699 => self.data(),
            700..=859 => self.attributes(),
            860..=979 => self.handles(),
            _ => self.volume(),
        }
    }

    /// Takes in what came of an operation, from a side that does it right.
    pub fn learn(&mut self, op: &Op, fine: bool, side: &Side) {
        match op {
            Op::Rename { from, to, flags } if fine => self.moved(&from.0, &to.0, flags.0),
            Op::Clear { path } => {
                let below = format!("{}/", path.0);
                let gone =
                    |name: &String| name.starts_with(&below) && stat::of(&side.at(name)).is_err();
                self.nodes.retain(|name, _| !gone(name));
                self.crowds.retain(|crowd| crowd.path != path.0);
            }
            Op::Crowd {
                path,
                count,
                length,
                key,
            } => {
                // A few of them are known of, and get used.
                for n in (0..*count).step_by(17) {
                    let name = super::side::crowd_name(*key, n, *length);
                    self.learn_path(&format!("{}/{name}", path.0), side);
                }
            }
            Op::Remount {} | Op::Check {} => self.open = [None; SLOTS as usize],
            Op::SetAttr { path, name, .. } if fine => {
                self.attributes.push_front((path.clone(), name.clone()));
                self.attributes.truncate(ATTRIBUTES);
            }
            _ => {}
        }
        for path in op.paths() {
            self.learn_path(path, side);
        }
        for (slot, size) in self.open.iter_mut().enumerate() {
            if op.slot().is_some_and(|of| usize::from(of) == slot) {
                let file = side.file(slot as u8);
                *size = file
                    .and_then(|file| file.metadata().ok())
                    .map(|found| found.len());
            }
        }
    }

    fn learn_path(&mut self, path: &str, side: &Side) {
        match stat::of(&side.at(path)) {
            Ok(found) => {
                let node = Node {
                    kind: found.mode & libc::S_IFMT,
                    size: found.size,
                };
                self.nodes.insert(path.to_owned(), node);
            }
            Err(_) => {
                let below = format!("{path}/");
                self.nodes
                    .retain(|name, _| name != path && !name.starts_with(&below));
            }
        }
    }

    fn moved(&mut self, from: &str, to: &str, flags: u32) {
        let shift = |name: &str, from: &str, to: &str| {
            let rest = name.strip_prefix(from)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        };
        let exchange = flags == libc::RENAME_EXCHANGE;
        let old = std::mem::take(&mut self.nodes);
        for (name, node) in old {
            let moved = shift(&name, from, to).or_else(|| {
                let back = shift(&name, to, from)?;
                exchange.then_some(back)
            });
            self.nodes.insert(moved.unwrap_or(name), node);
        }
        for crowd in &mut self.crowds {
            if let Some(path) = shift(&crowd.path, from, to) {
                crowd.path = path;
            }
        }
        // With fewer names before them, some of the `..` lead too far.
        self.nodes.retain(|name, _| stays_inside(name));
        self.crowds.retain(|crowd| stays_inside(&crowd.path));
    }

    // --- choices ---

    /// One that is known of and of a kind that `wanted` takes.
    fn known(&mut self, wanted: impl Fn(&str, u32) -> bool) -> Option<String> {
        let fits = |(name, node): &(&String, &Node)| wanted(name, node.kind);
        let count = self.nodes.iter().filter(fits).count() as u64;
        let n = self.rng.below(count) as usize;
        self.nodes
            .iter()
            .filter(fits)
            .nth(n)
            .map(|(name, _)| name.clone())
    }

    fn any(&mut self) -> Name {
        self.known(|name, _| name != ".")
            .map_or_else(|| self.fresh(), Name)
    }

    fn directory(&mut self) -> String {
        self.known(|_, kind| kind == libc::S_IFDIR)
            .unwrap_or_else(|| ".".into())
    }

    fn file(&mut self) -> Name {
        self.known(|_, kind| kind == libc::S_IFREG)
            .map_or_else(|| self.fresh(), Name)
    }

    /// A name in some directory, that may be taken.
    fn fresh(&mut self) -> Name {
        let parent = match self.rng.below(100) {
            0..=1 => self.any().0,
            _ => self.directory(),
        };
        let name = match self.rng.below(100) {
            0..=64 => self.rng.pick(POOL).to_owned(),
            65..=84 => format!("n{}", self.rng.below(100_000)),
            85..=90 => {
                let length = self.rng.within(100, 253) as usize;
                format!("{}{}", self.rng.below(100), "l".repeat(length))
            }
            91 => "m".repeat(self.rng.within(254, 257) as usize),
            92..=97 => format!("ü{}", self.rng.below(1000)),
            98 => ".".into(),
            _ => "..".into(),
        };
        // Not too deep, or paths get too long for the kernel; but that, too, now and then.
        if parent.len() > 1500 && !self.rng.chance(5) {
            return Name(name.replace("..", "dots"));
        }
        let path = match parent.as_str() {
            "." => name,
            _ => format!("{parent}/{name}"),
        };
        Name(if stays_inside(&path) {
            path
        } else {
            path.replace("..", "a")
        })
    }

    fn slot(&mut self) -> Slot {
        let open: Vec<u8> = (0..SLOTS)
            .filter(|&n| self.open[usize::from(n)].is_some())
            .collect();
        if open.is_empty() || self.rng.chance(3) {
            return Slot(self.rng.below(SLOTS.into()) as u8);
        }
        Slot(self.rng.pick(&open))
    }

    fn key(&mut self) -> u64 {
        self.rng.below(1 << 32)
    }

    fn mode(&mut self) -> Octal {
        Octal(
            self.rng
                .pick(&[0o644, 0o666, 0o600, 0o640, 0o4755, 0o2755, 0o1777, 0o777, 0]),
        )
    }

    fn length(&mut self) -> u64 {
        let most = match self.rng.below(100) {
            0..=44 => 300,
            45..=74 => 3 * self.style.block,
            75..=94 => 70_000,
            _ => 600_000,
        };
        self.rng.within(1, most)
    }

    /// An offset for a file of `size` bytes.
    fn offset(&mut self, size: u64) -> u64 {
        let block = self.style.block;
        let at = match self.rng.below(100) {
            0..=39 => self.rng.below(size.max(1)),
            40..=59 => size,
            60..=79 => size.saturating_add(self.rng.below(3 * block)),
            80..=92 => size.saturating_add(self.rng.below(300_000)),
            93..=96 => self.rng.below(2 << 20),
            97 | 98 => self.rng.below(1 << 36),
            // About where a file cannot be larger.
            _ => (block << 32) - 2 * block + self.rng.below(4 * block),
        };
        match self.rng.below(4) {
            0 => at / block * block,
            1 => at / 4096 * 4096,
            _ => at,
        }
    }

    fn size_of(&self, path: &Name) -> u64 {
        self.nodes.get(&path.0).map_or(0, |node| node.size)
    }

    fn size_open(&self, slot: Slot) -> u64 {
        self.open[usize::from(slot.0)].unwrap_or(0)
    }

    // --- kinds of operations ---

    fn names(&mut self) -> Op {
        match self.rng.below(100) {
            0..=19 => Op::Create {
                path: self.fresh(),
                mode: self.mode(),
            },
            20..=28 => Op::Mkdir {
                path: self.fresh(),
                mode: Octal(self.rng.pick(&[0o777, 0o777, 0o755, 0o700, 0o2775, 0o1777])),
            },
            29..=31 => Op::Mknod {
                path: self.fresh(),
                mode: Octal(
                    self.rng.pick(&[
                        libc::S_IFIFO,
                        libc::S_IFSOCK,
                        libc::S_IFCHR,
                        libc::S_IFBLK,
                        libc::S_IFREG,
                    ]) | 0o640,
                ),
                major: self.rng.pick(&[0, 1, 7, 255, 256, 4095]),
                minor: self.rng.pick(&[0, 3, 255, 256, 70_000, 0xf_ffff]),
            },
            32..=37 => Op::Symlink {
                path: self.fresh(),
                length: match self.rng.below(10) {
                    0..=5 => self.rng.within(1, 70),
                    6 => self.rng.within(58, 61),
                    7 => self
                        .rng
                        .within(self.style.block - 3, self.style.block + 1)
                        .min(4096),
                    _ => self.rng.within(1, 1000),
                },
                key: self.key(),
            },
            38..=46 => Op::Link {
                from: self.any(),
                to: self.fresh(),
            },
            47..=58 => Op::Unlink {
                path: if self.rng.chance(90) {
                    self.any()
                } else {
                    self.fresh()
                },
            },
            59..=63 => Op::Rmdir {
                path: if self.rng.chance(90) {
                    Name(self.directory())
                } else {
                    self.fresh()
                },
            },
            64..=86 => self.rename(),
            87..=91 => self.crowd(),
            92..=96 => self.thin(),
            _ => Op::List {
                path: Name(self.directory()),
                room: self.rng.pick(&[280, 512, 4096, 32_768]),
                at: self.rng.below(500),
            },
        }
    }

    fn rename(&mut self) -> Op {
        let from = if self.rng.chance(93) {
            self.any()
        } else {
            self.fresh()
        };
        let to = match self.rng.below(100) {
            0..=49 => self.fresh(),
            50..=93 => self.any(),
            94..=96 => Name(format!("{}/below", from.0)),
            _ => from.clone(),
        };
        let flags = match self.rng.below(100) {
            0..=59 => 0,
            60..=72 => libc::RENAME_NOREPLACE,
            73..=87 => libc::RENAME_EXCHANGE,
            88..=97 => libc::RENAME_WHITEOUT,
            _ => libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT,
        };
        Op::Rename {
            from,
            to,
            flags: Octal(flags),
        }
    }

    fn crowd(&mut self) -> Op {
        let crowd = Crowd {
            path: match self.known(|name, kind| kind == libc::S_IFDIR && name != ".") {
                Some(path) => path,
                None => {
                    return Op::Mkdir {
                        path: self.fresh(),
                        mode: Octal(0o777),
                    }
                }
            },
            count: self.rng.within(5, 120),
            length: self.rng.pick(&[12, 30, 120, 200, 250]),
            key: self.key(),
        };
        self.crowds.push(crowd.clone());
        let Crowd {
            path,
            count,
            length,
            key,
        } = crowd;
        Op::Crowd {
            path: Name(path),
            count,
            length,
            key,
        }
    }

    fn thin(&mut self) -> Op {
        if self.crowds.is_empty() {
            return self.crowd();
        }
        let n = self.rng.below(self.crowds.len() as u64) as usize;
        let every = self.rng.pick(&[1, 1, 2, 3, 10]);
        let crowd = if every == 1 {
            self.crowds.swap_remove(n)
        } else {
            self.crowds[n].clone()
        };
        let Crowd {
            path,
            count,
            length,
            key,
        } = crowd;
        Op::Thin {
            path: Name(path),
            count,
            length,
            key,
            every,
        }
    }

    fn removal(&mut self) -> Op {
        match self.rng.below(10) {
            0..=2 => match self.known(|name, kind| kind == libc::S_IFDIR && name != ".") {
                Some(path) => Op::Clear { path: Name(path) },
                None => Op::Unlink { path: self.any() },
            },
            3 => Op::Truncate {
                path: self.file(),
                size: 0,
            },
            4 => self.thin(),
            _ => Op::Unlink { path: self.any() },
        }
    }

    fn data(&mut self) -> Op {
        if self.open.iter().flatten().next().is_none() || self.rng.chance(35) {
            return self.data_by_name();
        }
        let slot = self.slot();
        let size = self.size_open(slot);
        let (offset, length, key) = (self.offset(size), self.length(), self.key());
        match self.rng.below(100) {
            0..=29 => Op::Write {
                slot,
                offset,
                length,
                key,
            },
            30..=39 => Op::Append { slot, length, key },
            40..=51 => {
                let offset = self.rng.below(size.clamp(1, 4 << 20));
                Op::Map {
                    slot,
                    offset,
                    length,
                    key,
                    sync: self.rng.below(2),
                }
            }
            52..=66 => Op::Read {
                slot,
                offset,
                length,
            },
            67..=73 => Op::Seek {
                slot,
                offset,
                whence: self.rng.pick(&[libc::SEEK_HOLE, libc::SEEK_DATA]) as u32,
            },
            74..=85 => Op::Cut { slot, size: offset },
            86..=92 => Op::Fsync { slot },
            93..=96 => Op::Fdatasync { slot },
            _ => Op::Forget { slot },
        }
    }

    fn data_by_name(&mut self) -> Op {
        let path = if self.rng.chance(75) {
            self.file()
        } else {
            self.fresh()
        };
        let size = self.size_of(&path);
        let offset = self.offset(size);
        match self.rng.below(100) {
            0..=64 => {
                let flags = self.rng.pick(&[
                    libc::O_CREAT,
                    libc::O_CREAT,
                    libc::O_CREAT | libc::O_TRUNC,
                    libc::O_CREAT | libc::O_APPEND,
                    libc::O_CREAT | libc::O_SYNC,
                    libc::O_TRUNC,
                ]);
                let (length, key) = (self.length(), self.key());
                Op::Put {
                    path,
                    flags: Octal(flags as u32),
                    offset,
                    length,
                    key,
                }
            }
            65..=84 => Op::Truncate { path, size: offset },
            _ => Op::Copy {
                from: self.file(),
                to: path,
                range: self.rng.below(2),
            },
        }
    }

    fn attribute_name(&mut self) -> Key {
        let start = self.rng.pick(&["user.", "user.", "trusted.", "security."]);
        let length = match self.rng.below(10) {
            0 => 255 - start.len(),
            1 => self.rng.within(1, 200) as usize,
            _ => self.rng.within(1, 5) as usize,
        };
        let letter = self.rng.pick(&["a", "b", "c"]);
        Key(format!("{start}{}", letter.repeat(length)))
    }

    /// An attribute of the file, or one of those that were set last of theirs.
    fn attribute(&mut self, path: Name) -> (Name, Key) {
        let known = self.rng.below(2 * ATTRIBUTES as u64) as usize;
        match self.attributes.get(known) {
            Some(known) => known.clone(),
            None => (path, self.attribute_name()),
        }
    }

    fn attributes(&mut self) -> Op {
        let path = match self.rng.below(20) {
            0 => Name(".".into()),
            1 => self.fresh(),
            _ => self.any(),
        };
        match self.rng.below(100) {
            0..=17 => Op::Chmod {
                path,
                mode: self.mode(),
            },
            18..=29 => Op::Chown {
                path,
                uid: self.rng.pick(&[0, 1000, 1001, 70_000, u32::MAX]),
                gid: self.rng.pick(&[0, 1000, 2000, 70_000, u32::MAX]),
            },
            30..=39 => Op::Times {
                path,
                accessed: self.time(),
                modified: self.time(),
                nanos: self.rng.pick(&[0, 1, 999_999_999, 500_000_000]),
            },
            40..=64 => {
                let (path, name) = self.attribute(path);
                let length = match self.rng.below(12) {
                    0 => self.rng.below(self.style.block + 100),
                    1 => 0,
                    2..=4 => self.rng.within(self.style.block / 2, self.style.block - 30),
                    5..=7 => self.rng.below(300),
                    _ => self.rng.below(40),
                };
                let flags = self
                    .rng
                    .pick(&[0, 0, 0, libc::XATTR_CREATE, libc::XATTR_REPLACE]);
                let key = self.rng.below(3);
                Op::SetAttr {
                    path,
                    name,
                    length,
                    key,
                    flags: Octal(flags as u32),
                }
            }
            65..=70 => {
                let (path, name) = self.attribute(path);
                Op::GetAttr {
                    path,
                    name,
                    room: self.rng.pick(&[0, 1, 20, 65_536]),
                }
            }
            71..=82 => {
                let (path, name) = match self.rng.below(8) {
                    0 => (path, Key("system.posix_acl_access".into())),
                    1 => (path, Key("system.posix_acl_default".into())),
                    _ => self.attribute(path),
                };
                Op::RemoveAttr { path, name }
            }
            83..=86 => Op::ListAttrs {
                path,
                room: self.rng.pick(&[0, 30, 300, 65_536]),
            },
            _ => {
                let default = self.rng.chance(50);
                let name = if default {
                    "system.posix_acl_default"
                } else {
                    "system.posix_acl_access"
                };
                let path = if default {
                    Name(self.directory())
                } else {
                    path
                };
                Op::SetAcl {
                    path,
                    name: Key(name.into()),
                    key: self.key(),
                }
            }
        }
    }

    fn time(&mut self) -> i64 {
        match self.rng.below(6) {
            0 => -1 - self.rng.below(1 << 31) as i64,
            1 => (1 << 31) + self.rng.below(1 << 34) as i64,
            2 => self.rng.pick(&[
                0,
                -1,
                i64::from(i32::MIN),
                i64::from(i32::MAX),
                15_032_385_535,
                15_032_385_536,
            ]),
            // Long before the run, whenever that is.
            _ => self.rng.below(1_600_000_000) as i64,
        }
    }

    fn handles(&mut self) -> Op {
        let slot = Slot(self.rng.below(SLOTS.into()) as u8);
        match self.rng.below(100) {
            0..=39 => {
                let flags = self.rng.pick(&[
                    libc::O_RDWR,
                    libc::O_RDWR,
                    libc::O_RDWR | libc::O_CREAT,
                    libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
                    libc::O_RDWR | libc::O_TRUNC,
                    libc::O_RDWR | libc::O_APPEND,
                    libc::O_RDWR | libc::O_SYNC,
                    libc::O_WRONLY,
                    libc::O_RDONLY,
                    libc::O_RDONLY | libc::O_NOFOLLOW,
                    libc::O_RDONLY | libc::O_DIRECTORY,
                ]);
                let path = if self.rng.chance(75) {
                    self.file()
                } else {
                    self.fresh()
                };
                Op::Open {
                    slot,
                    path,
                    flags: Octal(flags as u32),
                }
            }
            40..=51 => Op::Close { slot: self.slot() },
            52..=62 => {
                // Unlink of a file that stays open, which is then used.
                let path = self.file();
                self.planned.push(Op::Unlink { path: path.clone() });
                Op::Open {
                    slot,
                    path,
                    flags: Octal(libc::O_RDWR as u32),
                }
            }
            63..=70 => Op::Nameless {
                slot,
                path: Name(self.directory()),
                mode: self.mode(),
            },
            71..=78 => Op::NameOpen {
                slot: self.slot(),
                path: self.fresh(),
            },
            79..=86 => Op::OpenDir {
                path: Name(self.directory()),
                room: self.rng.pick(&[280, 600, 4096]),
            },
            87..=95 => Op::ReadDir {
                times: self.rng.within(1, 5),
            },
            _ => Op::ReadDir {
                times: super::listing::Session::TO_THE_END,
            },
        }
    }

    fn volume(&mut self) -> Op {
        match self.rng.below(100) {
            0..=9 => Op::Sync {},
            10..=24 => Op::Syncfs {},
            25..=31 => Op::Remount {},
            32..=34 => Op::Check {},
            35..=42 => Op::Drop {},
            43..=49 => {
                self.planned.push(Op::Writable {});
                for _ in 0..self.rng.below(5) {
                    let op = match self.rng.below(4) {
                        0 => self.names(),
                        1 => self.data_by_name(),
                        2 => self.attributes(),
                        _ => self.data(),
                    };
                    self.planned.push(op);
                }
                // It is refused where files are open for writing.
                if self.rng.chance(70) {
                    self.planned.push(Op::ReadOnly {});
                    for slot in 0..SLOTS {
                        self.planned.push(Op::Close { slot: Slot(slot) });
                    }
                    return Op::Syncfs {};
                }
                Op::ReadOnly {}
            }
            50..=54 => Op::Freeze {},
            55..=89 => {
                self.planned.push(Op::Who { uid: 0, gid: 0 });
                for _ in 0..self.rng.within(5, 25) {
                    let op = match self.rng.below(3) {
                        0 => self.data_by_name(),
                        1 => self.attributes(),
                        _ => self.names(),
                    };
                    self.planned.push(op);
                }
                Op::Who {
                    uid: self.rng.pick(&[1000, 1001]),
                    gid: self.rng.pick(&[1000, 2000]),
                }
            }
            _ => Op::Umask {
                mask: Octal(self.rng.pick(&[0, 0o022, 0o077])),
            },
        }
    }
}

/// Whether `path` cannot lead out of the volume, whatever its directories are: also where one is a
/// symbolic link, which never leads up.
fn stays_inside(path: &str) -> bool {
    let mut depth = 0_usize;
    path.split('/').all(|part| {
        match part {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return false,
            },
            _ => depth += 1,
        }
        true
    })
}
