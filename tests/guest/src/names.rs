// SPDX-License-Identifier: GPL-2.0

//! Operations on names, written down: what each answered and what it changed. Two filesystems that
//! behave alike give the same text.

use crate::rng::Rng;
use crate::sys::{errno, meta};
use crate::why::Why;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{symlink, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Longer than the kernel's clock for file times needs to go on.
const TICK: Duration = Duration::from_millis(20);

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Makes an empty file.
    File(String),
    /// Makes a directory.
    Dir(String),
    /// Makes a device node.
    Node(String),
    /// Removes a name.
    Unlink(String),
    /// Removes a directory.
    Rmdir(String),
    /// Gives the first one the second name, too.
    Link(String, String),
    /// Makes a symbolic link to so many bytes.
    Symlink(String, usize),
    /// Renames the first to the second, with these flags.
    Rename(String, String, u32),
    /// Changes permissions.
    Mode(String, u32),
    /// Makes a file without a name and then gives it one, and if `twice` another.
    Nameless(String, bool),
    /// Removes the name of a file that is open, uses the file, and tries to give it another name.
    UnlinkOpen(String, String),
}

impl Op {
    /// Does it, with names below `root`.
    pub fn run(&self, root: &Path) -> io::Result<()> {
        match self {
            Op::File(a) => File::create_new(root.join(a)).map(drop),
            Op::Dir(a) => fs::create_dir(root.join(a)),
            Op::Node(a) => meta::mknod(&root.join(a), libc::S_IFBLK | 0o600, 7, 300),
            Op::Unlink(a) => fs::remove_file(root.join(a)),
            Op::Rmdir(a) => fs::remove_dir(root.join(a)),
            Op::Link(a, b) => fs::hard_link(root.join(a), root.join(b)),
            Op::Symlink(a, len) => symlink("t".repeat(*len), root.join(a)),
            Op::Rename(a, b, flags) => meta::rename(&root.join(a), &root.join(b), *flags),
            Op::Mode(a, mode) => fs::set_permissions(
                root.join(a),
                std::os::unix::fs::PermissionsExt::from_mode(*mode),
            ),
            Op::Nameless(a, twice) => nameless(root, a, *twice),
            Op::UnlinkOpen(a, b) => unlink_open(&root.join(a), &root.join(b)),
        }
    }
}

fn nameless(root: &Path, name: &str, twice: bool) -> io::Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(root)?;
    file.write_all_at(&[1; 5000], 0)?;
    if file.metadata()?.nlink() != 0 {
        return Err(io::Error::other("a file without a name has links"));
    }
    meta::link_open(&file, &root.join(name))?;
    if twice {
        meta::link_open(&file, &root.join(format!("{name}-again")))?;
    }
    Ok(())
}

fn unlink_open(name: &Path, other: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(name)?;
    file.write_all_at(&[2; 9000], 0)?;
    fs::remove_file(name)?;
    file.write_all_at(&[3; 9000], 9000)?;
    let mut both = [0; 18_000];
    file.read_exact_at(&mut both, 0)?;
    if both[..9000] != [2; 9000] || both[9000..] != [3; 9000] {
        return Err(io::Error::other("a file without a name lost its data"));
    }
    meta::link_open(&file, other)
}

/// What of a file two filesystems must agree on, and its times, which they need not.
pub struct Seen {
    line: String,
    times: (i64, i64, i64, i64),
}

/// Everything below `root`, by path.
pub fn look(root: &Path) -> Result<BTreeMap<PathBuf, Seen>, Why> {
    let mut all = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let at = root.join(&path);
        let found = fs::symlink_metadata(&at)?;
        let kind = found.file_type();
        let mut line = format!(
            "{:o} {} links, {} bytes",
            found.mode(),
            found.nlink(),
            found.size()
        );
        if kind.is_block_device() || kind.is_char_device() {
            line += &format!(", device {}", found.rdev());
        }
        if kind.is_symlink() {
            let target = fs::read_link(&at)?;
            line += &format!(", to {} bytes", target.as_os_str().len());
        }
        if kind.is_dir() {
            for entry in fs::read_dir(&at)? {
                todo.push(path.join(entry?.file_name()));
            }
        }
        let times = (
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        );
        all.insert(path, Seen { line, times });
    }
    Ok(all)
}

fn dump(root: &Path, out: &mut impl Write) -> Result<(), Why> {
    for (path, seen) in look(root)? {
        writeln!(out, "  {} {}", path.display(), seen.line)?;
    }
    Ok(())
}

fn answer(result: io::Result<()>) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(e) => format!("errno {}", errno(&e)),
    }
}

/// Runs `ops` in a new directory `name`; after each, says what files it changed and of which the
/// times.
fn group(root: &Path, name: &str, ops: &[Op], out: &mut impl Write) -> Result<(), Why> {
    let root = root.join(name);
    fs::create_dir(&root)?;
    writeln!(out, "group {name}")?;
    for op in ops {
        let before = look(&root)?;
        sleep(TICK);
        writeln!(out, "{op:?}: {}", answer(op.run(&root)))?;
        for (path, seen) in look(&root)? {
            let Some(old) = before.get(&path) else {
                writeln!(out, "  + {} {}", path.display(), seen.line)?;
                continue;
            };
            let (old, new) = (&old.times, &seen.times);
            let content = (old.0, old.1) != (new.0, new.1);
            let inode = (old.2, old.3) != (new.2, new.3);
            if content || inode {
                let what = (
                    if content { "mtime " } else { "" },
                    if inode { "ctime " } else { "" },
                );
                writeln!(
                    out,
                    "  {} {}{}{}",
                    path.display(),
                    what.0,
                    what.1,
                    seen.line
                )?;
            }
        }
    }
    dump(&root, out)
}

/// Short hands for the lists below.
fn s(text: &str) -> String {
    text.to_owned()
}

fn mv(a: &str, b: &str, flags: u32) -> Op {
    Op::Rename(s(a), s(b), flags)
}

/// A few files and directories that the groups are about.
fn base() -> Vec<Op> {
    let mut ops = Vec::new();
    for dir in ["a", "b", "empty", "full", "a/sub"] {
        ops.push(Op::Dir(s(dir)));
    }
    for file in ["f", "g", "a/f", "b/f", "full/x"] {
        ops.push(Op::File(s(file)));
    }
    ops
}

fn removals() -> Vec<Op> {
    let mut ops = base();
    for name in ["none", "a", "f", "f", "a/none", "f/x", "full/x"] {
        ops.push(Op::Unlink(s(name)));
    }
    ops.push(Op::File(s("full/x")));
    for name in [
        "none", "g", "full", "empty", "empty", "a/sub", "a/.", "a/..", "b",
    ] {
        ops.push(Op::Rmdir(s(name)));
    }
    ops
}

fn links() -> Vec<Op> {
    let mut ops = base();
    for (a, b) in [
        ("f", "a/linked"),
        ("f", "g"),
        ("a", "b/dir"),
        ("none", "x"),
        ("f", "none/x"),
        ("f", "f"),
    ] {
        ops.push(Op::Link(s(a), s(b)));
    }
    ops.push(Op::Node(s("node")));
    ops.push(Op::Link(s("node"), s("b/node")));
    for (name, len) in [
        ("l1", 1),
        ("l59", 59),
        ("l60", 60),
        ("l61", 61),
        ("l500", 500),
        ("l1022", 1022),
        ("l1023", 1023),
        ("l1024", 1024),
        ("l4095", 4095),
        ("f", 5),
    ] {
        ops.push(Op::Symlink(s(name), len));
    }
    for name in ["l59", "l60", "l1023"] {
        ops.push(Op::Link(s(name), format!("a/{name}")));
    }
    for name in ["a/linked", "node", "l59", "a/l59", "l500", "f"] {
        ops.push(Op::Unlink(s(name)));
    }
    ops
}

fn renames() -> Vec<Op> {
    let mut ops = base();
    for (a, b) in [
        ("f", "h"),
        ("h", "h"),
        ("h", "g"),
        ("g", "a/f"),
        ("a/f", "b/new"),
        ("none", "x"),
        ("b/new", "none/x"),
        ("b/f", "a"),
        ("a", "b/f"),
        // Directories.
        ("empty", "moved"),
        ("moved", "a/moved"),
        ("a/moved", "full"),
        ("full", "a/moved"),
        ("a/moved", "b"),
        ("a", "a/sub/x"),
        ("a/sub", "a"),
        ("a", "a"),
        ("a", "b"),
        ("b/f", "a/sub"),
    ] {
        ops.push(mv(a, b, 0));
    }
    ops.extend(["x", "y"].map(|name| Op::Dir(s(name))));
    ops.extend([mv("x", "y", 0), mv("y", "a/y", 0), mv("a/y", "y", 0)]);
    // Two names of one file.
    ops.push(Op::File(s("one")));
    ops.push(Op::Link(s("one"), s("two")));
    ops.push(mv("one", "two", 0));
    ops.push(mv("one", "three", 0));
    ops.push(mv("three", "two", 0));
    ops.push(Op::Symlink(s("slow"), 300));
    ops.push(Op::Symlink(s("fast"), 30));
    ops.push(mv("slow", "fast", 0));
    ops.push(mv("fast", "b/fast", 0));
    ops
}

fn flags() -> Vec<Op> {
    const EXCHANGE: u32 = libc::RENAME_EXCHANGE;
    const NOREPLACE: u32 = libc::RENAME_NOREPLACE;
    const WHITEOUT: u32 = libc::RENAME_WHITEOUT;
    let mut ops = base();
    for (a, b, flags) in [
        ("f", "g", NOREPLACE),
        ("f", "h", NOREPLACE),
        ("h", "f", NOREPLACE | EXCHANGE),
        ("h", "f", EXCHANGE),
        ("h", "g", EXCHANGE),
        ("h", "h", EXCHANGE),
        ("h", "a/f", EXCHANGE),
        ("a", "b", EXCHANGE),
        ("a/f", "b", EXCHANGE),
        ("b", "h", EXCHANGE),
        ("empty", "full", EXCHANGE),
        ("empty", "a/sub", EXCHANGE),
        ("full", "a/sub", EXCHANGE),
        ("a", "a/sub", EXCHANGE),
        ("g", "a/g", EXCHANGE),
        ("g", "a/g", WHITEOUT),
        ("g", "a/g", WHITEOUT | EXCHANGE),
        ("a/g", "g", WHITEOUT),
        ("a/sub", "sub", WHITEOUT),
        ("none", "x", WHITEOUT),
        ("g", "x", WHITEOUT | NOREPLACE),
        ("x", "y", 1 << 5),
    ] {
        ops.push(mv(a, b, flags));
    }
    ops
}

fn nameless_files() -> Vec<Op> {
    let mut ops = base();
    for (name, twice) in [("tmp", false), ("a/tmp", true), ("f", false)] {
        ops.push(Op::Nameless(s(name), twice));
    }
    for (name, other) in [("f", "x"), ("tmp", "y"), ("none", "z"), ("a/tmp", "again")] {
        ops.push(Op::UnlinkOpen(s(name), s(other)));
    }
    ops
}

/// What a directory that may not be written to, or is sticky, allows is the VFS's; that it is asked
/// shows here.
fn modes() -> Vec<Op> {
    let mut ops = base();
    ops.push(Op::Mode(s("a"), 0o555));
    ops.push(Op::Unlink(s("a/f")));
    ops.push(Op::Mode(s("f"), 0o4711));
    ops.push(mv("f", "b/f", 0));
    ops
}

/// One of few names, so that many operations meet.
pub fn random_name(rng: &mut Rng) -> String {
    const DIRS: [&str; 6] = ["", "d0/", "d1/", "d2/", "d0/d1/", "d2/d0/"];
    let dir = rng.pick(&DIRS);
    let kind = rng.pick(&["d", "n", "n"]);
    format!("{dir}{kind}{}", rng.below(if kind == "d" { 3 } else { 10 }))
}

/// A random operation on such names.
pub fn random(rng: &mut Rng) -> Op {
    let (a, b) = (random_name(rng), random_name(rng));
    match rng.below(20) {
        0..=2 => Op::File(a),
        3..=4 => Op::Dir(a),
        5 => Op::Node(a),
        6..=7 => Op::Unlink(a),
        8 => Op::Rmdir(a),
        9..=10 => Op::Link(a, b),
        11 => Op::Symlink(a, rng.within(1, 90) as usize),
        12..=15 => Op::Rename(a, b, 0),
        16 => Op::Rename(a, b, libc::RENAME_NOREPLACE),
        17..=18 => Op::Rename(a, b, libc::RENAME_EXCHANGE),
        _ => Op::Rename(a, b, libc::RENAME_WHITEOUT),
    }
}

/// Writes everything down: the groups, and `count` random operations.
pub fn write(root: &Path, seed: u64, count: usize, out: &mut impl Write) -> Result<(), Why> {
    group(root, "removals", &removals(), out)?;
    group(root, "links", &links(), out)?;
    group(root, "renames", &renames(), out)?;
    group(root, "flags", &flags(), out)?;
    group(root, "nameless", &nameless_files(), out)?;
    group(root, "modes", &modes(), out)?;
    let mut rng = Rng::new(seed);
    let root = root.join("random");
    fs::create_dir(&root)?;
    for i in 0..count {
        let op = random(&mut rng);
        writeln!(out, "{op:?}: {}", answer(op.run(&root)))?;
        if i % 200 == 199 {
            dump(&root, out)?;
        }
    }
    dump(&root, out)
}
