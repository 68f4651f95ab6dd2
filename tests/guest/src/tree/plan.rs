// SPDX-License-Identifier: GPL-2.0

//! The tree's nodes: which directories, which names, which owners and times.

use super::{style, Kind, Node, Params, Spec};
use crate::rng::Rng;
use crate::sys::meta::Time;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The longest name of a file, in bytes.
pub const NAME_MAX: usize = 255;
/// Directories below one another in the deep chain.
const DEPTH: usize = 60;
/// Directories of the longest names below one another.
const LONG_DEPTH: usize = 8;
/// The least that a file of the big kind holds.
const BIG: u64 = (1 << 20) + 1;

/// All nodes of the tree, the root first and every parent before its children.
pub fn plan(params: &Params) -> Vec<Node> {
    let mut planner = Planner::new(params);
    planner.add_dirs();
    let special = planner.add_special();
    let files = planner.add_files();
    planner.ordered(files, special)
}

/// A node before its place in the order is known.
struct Draft {
    parent: usize,
    node: Node,
}

struct Planner<'a> {
    params: &'a Params,
    rng: Rng,
    /// Directories first, then the rest; parents are indices into it.
    drafts: Vec<Draft>,
    /// The directories that files are spread over.
    homes: Vec<usize>,
    /// The directory of the longest names.
    wide: usize,
}

impl<'a> Planner<'a> {
    fn new(params: &'a Params) -> Self {
        let mut planner = Self {
            params,
            rng: Rng::new(params.seed),
            drafts: Vec::new(),
            homes: Vec::new(),
            wide: 0,
        };
        planner.add(0, OsString::new(), Kind::Dir);
        planner
    }

    fn add(&mut self, parent: usize, name: OsString, kind: Kind) -> usize {
        let rng = &mut self.rng;
        let any_mode = rng.below(0o10000) as u32;
        // A directory keeps its owner's bits, and no setgid bit unless it is given one on purpose.
        let is_dir = matches!(kind, Kind::Dir);
        let mode = if is_dir {
            any_mode & 0o1777 | 0o700
        } else {
            any_mode
        };
        let node = Node {
            parent: 0,
            name,
            path: PathBuf::new(),
            kind,
            mode,
            uid: owner(rng),
            gid: owner(rng),
            inherits: false,
            atime: time(rng),
            mtime: time(rng),
        };
        self.drafts.push(Draft { parent, node });
        self.drafts.len() - 1
    }

    fn add_dirs(&mut self) {
        for i in 0..16 {
            let dir = self.add(0, format!("d{i:02}").into(), Kind::Dir);
            self.homes.push(dir);
            if i % 4 == 3 {
                self.drafts[dir].node.mode |= 0o2000;
            }
            for j in 0..self.rng.below(4) {
                let name = name(&mut self.rng, 's', j as usize);
                let sub = self.add(dir, name, Kind::Dir);
                self.homes.push(sub);
            }
        }
        let mut dir = self.add(0, "deep".into(), Kind::Dir);
        for i in 0..DEPTH {
            dir = self.add(dir, i.to_string().into(), Kind::Dir);
            if i % 6 == 5 {
                self.homes.push(dir);
            }
        }
        let mut dir = self.add(0, "long".into(), Kind::Dir);
        for i in 0..LONG_DEPTH {
            let name = long_name(&mut self.rng, i);
            dir = self.add(dir, name, Kind::Dir);
        }
        self.homes.push(dir);
        self.wide = self.add(0, "wide".into(), Kind::Dir);
        self.add(0, "empty".into(), Kind::Dir);
    }

    fn add_special(&mut self) -> Vec<usize> {
        let dir = self.add(0, "special".into(), Kind::Dir);
        // Device numbers of the old 16-bit encoding and of the new one.
        let devices = [
            (0, 0),
            (1, 3),
            (255, 255),
            (255, 256),
            (256, 1),
            (4095, 1_048_575),
        ];
        let mut kinds: Vec<_> = vec![(libc::S_IFIFO, 0, 0), (libc::S_IFSOCK, 0, 0)];
        for format in [libc::S_IFCHR, libc::S_IFBLK] {
            kinds.extend(devices.map(|(major, minor)| (format, major, minor)));
        }
        let add = |(i, (format, major, minor))| {
            let name = format!("{i}").into();
            self.add(
                dir,
                name,
                Kind::Special {
                    format,
                    major,
                    minor,
                },
            )
        };
        kinds.into_iter().enumerate().map(add).collect()
    }

    fn add_files(&mut self) -> Vec<usize> {
        let Params {
            files,
            bytes,
            fragments,
            ..
        } = *self.params;
        let big = (files / 10).max(4);
        let mean = bytes.saturating_sub(4096 * fragments) * 4 / 5 / big as u64;
        let mut made = Vec::new();
        let mut data = 0;
        for i in 0..files.saturating_sub(3) {
            let length = if i < big {
                self.rng.within(mean / 2, mean * 3 / 2).max(BIG)
            } else {
                style::small_size(&mut self.rng)
            };
            let spec = style::any(&mut self.rng, length);
            data += spec.data();
            made.push(self.add_file(i, spec));
        }
        for spec in [
            style::fragmented(&mut self.rng, fragments),
            style::shared(&mut self.rng, bytes / 40),
        ] {
            data += spec.data();
            let name = if spec.shared { "shared" } else { "fragmented" };
            made.push(self.add(0, name.into(), Kind::File(spec)));
        }
        let spec = style::long(&mut self.rng, bytes.saturating_sub(data).max(BIG));
        made.push(self.add(0, "longest".into(), Kind::File(spec)));
        made
    }

    fn add_file(&mut self, index: usize, spec: Spec) -> usize {
        if self.rng.chance(20) {
            let name = long_name(&mut self.rng, index);
            return self.add(self.wide, name, Kind::File(spec));
        }
        let home = self.rng.below(self.homes.len() as u64) as usize;
        let name = name(&mut self.rng, 'f', index);
        self.add(self.homes[home], name, Kind::File(spec))
    }

    /// The final order: files at random, each directory just before the first thing in it, so
    /// that directories are made while others write.
    fn ordered(mut self, mut files: Vec<usize>, special: Vec<usize>) -> Vec<Node> {
        files.extend(special);
        self.rng.shuffle(&mut files);
        let mut place = vec![None; self.drafts.len()];
        let mut order = Vec::new();
        for draft in files.into_iter().chain(0..self.drafts.len()) {
            self.emit(draft, &mut place, &mut order);
        }
        order
    }

    fn emit(&self, draft: usize, place: &mut [Option<usize>], order: &mut Vec<Node>) -> usize {
        if let Some(at) = place[draft] {
            return at;
        }
        let Draft { parent, node } = &self.drafts[draft];
        let mut node = node.clone();
        if draft != *parent {
            node.parent = self.emit(*parent, place, order);
            let above = &order[node.parent];
            node.path = above.path.join(&node.name);
            if above.mode & 0o2000 != 0 {
                // As the kernel does it: the group, and for directories the bit itself too.
                node.inherits = true;
                node.gid = above.gid;
                node.mode |= if node.is_dir() { 0o2000 } else { 0 };
            }
        }
        order.push(node);
        place[draft] = Some(order.len() - 1);
        order.len() - 1
    }
}

/// A user or group number, many of them beyond 16 bits.
fn owner(rng: &mut Rng) -> u32 {
    rng.pick(&[
        0,
        1,
        1000,
        65534,
        65535,
        65536,
        70_000,
        0x0123_4567,
        4_000_000_000,
    ])
}

/// A time that ext4's 34 bits of seconds can hold (1901 to 2446), with nanoseconds.
fn time(rng: &mut Rng) -> Time {
    let edges = [
        (-(1_i64 << 31), 0),
        (-1, 999_999_999),
        (0, 0),
        ((1 << 31) - 1, 999_999_999),
        (1 << 31, 1),
        ((1 << 32) - 1, 500_000_000),
        (1 << 32, 0),
        // At the very last second (and the first) the kernel keeps no nanoseconds.
        ((1 << 34) - 1 - (1 << 31), 0),
        ((1 << 34) - 2 - (1 << 31), 999_999_999),
    ];
    let (seconds, nanos) = if rng.chance(30) {
        rng.pick(&edges)
    } else {
        let span = (1_u64 << 34) - 1;
        (
            rng.below(span) as i64 - (1 << 31),
            rng.below(1_000_000_000) as i64,
        )
    };
    Time { seconds, nanos }
}

/// A name that no other `index` of the same directory and `tag` has: mostly short, some with
/// bytes beyond ASCII, some as long as can be.
pub fn name(rng: &mut Rng, tag: char, index: usize) -> OsString {
    let mut name = format!("{tag}{index}").into_bytes();
    match rng.below(10) {
        0 => return long_name(rng, index),
        1 => name.extend((0..rng.within(1, 60)).map(|_| rng.within(0x80, 0xff) as u8)),
        2 => name.extend_from_slice(b". a\tb\n"),
        _ => name.extend((0..rng.below(24)).map(|_| rng.within(b'a'.into(), b'z'.into()) as u8)),
    }
    OsString::from_vec(name)
}

/// A name of [`NAME_MAX`] bytes that no other `index` has.
fn long_name(rng: &mut Rng, index: usize) -> OsString {
    let mut name = format!("L{index}.").into_bytes();
    name.resize_with(NAME_MAX, || rng.within(b'a'.into(), b'z'.into()) as u8);
    OsString::from_vec(name)
}

/// The children of every node of `nodes`, by index.
pub fn children(nodes: &[Node]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate().skip(1) {
        out[node.parent].push(i);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_plan_holds_what_its_parameters_ask_for() {
        let params = Params {
            seed: 1,
            files: 2000,
            bytes: 1 << 30,
            threads: 4,
            fragments: 3000,
        };
        let nodes = plan(&params);
        let files: Vec<_> = (nodes.iter())
            .filter_map(|node| {
                if let Kind::File(spec) = &node.kind {
                    Some(spec)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(files.len(), 2000);
        assert!(files.iter().map(|spec| spec.data()).sum::<u64>() >= 1 << 30);
        assert!(files.iter().filter(|spec| spec.data() > 1 << 20).count() >= 200);
        assert!(files.iter().filter(|spec| spec.is_mapped()).count() >= 200);
        assert!(
            nodes
                .iter()
                .filter(|node| node.name.len() == NAME_MAX)
                .count()
                >= 300
        );
        let paths: HashSet<_> = nodes.iter().map(|node| &node.path).collect();
        assert_eq!(paths.len(), nodes.len());
        assert!(nodes
            .iter()
            .enumerate()
            .skip(1)
            .all(|(i, node)| node.parent < i));
    }
}
