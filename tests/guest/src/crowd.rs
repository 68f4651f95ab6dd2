// SPDX-License-Identifier: GPL-2.0

//! Crowded directories: so many names that their index is split, and split again.
//!
//! The names are links to a few files, so that no inode has to be made for each.

use crate::report::Report;
use crate::rng::Rng;
use crate::sys::{dir, errno, meta};
use crate::why::{equal, require, Why, Within};
use ext4rs_layout::hash::Hasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links that one file gets: ext4 allows 65,000.
const LINKS: usize = 60_000;

/// Name number `i`, of `len` bytes if its number is not longer.
fn name(i: usize, len: usize) -> String {
    format!("{i:x}{:x<width$}", "", width = len.saturating_sub(8))
}

/// The file that name number `i` is a link to.
fn target(root: &Path, i: usize) -> PathBuf {
    root.join(format!("target{}", i / LINKS))
}

/// Makes up to `count` names in `root/crowd`; how many fit.
pub fn fill(root: &Path, count: usize, len: usize) -> Result<usize, Why> {
    let crowd = root.join("crowd");
    fs::create_dir(&crowd)?;
    for i in 0..count {
        if i % LINKS == 0 {
            File::create_new(target(root, i))?;
        }
        match fs::hard_link(target(root, i), crowd.join(name(i, len))) {
            Ok(()) => {}
            Err(e) if errno(&e) == libc::ENOSPC => {
                // The names before are all there, and the directory is still one to work with.
                let again = fs::hard_link(target(root, i), crowd.join(name(i, len)));
                let again = again.err().map(|e| errno(&e));
                equal("once more", again, Some(libc::ENOSPC))?;
                return Ok(i);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(count)
}

/// The names numbered `numbers` are in `root/crowd`, and no others.
fn is_exactly(root: &Path, numbers: impl Iterator<Item = usize>, len: usize) -> Result<(), Why> {
    let crowd = root.join("crowd");
    let listed = dir::read_all(&File::open(&crowd)?, 32768)?;
    let mut names: HashSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
    equal("names listed twice", listed.len() - names.len(), 0)?;
    for dots in [".", ".."] {
        require(names.remove(&OsString::from(dots)), || {
            format!("{dots} is not listed")
        })?;
    }
    let mut inodes = BTreeMap::new();
    for i in numbers {
        let want = match inodes.get(&(i / LINKS)) {
            Some(&ino) => ino,
            None => {
                let ino = fs::metadata(target(root, i))?.ino();
                inodes.insert(i / LINKS, ino);
                ino
            }
        };
        let name = name(i, len);
        require(names.remove(&OsString::from(&name)), || {
            format!("name {i} is not listed")
        })?;
        let found = fs::symlink_metadata(crowd.join(&name)).within(|| format!("finding {i}"))?;
        equal("inode", found.ino(), want)?;
    }
    equal("names too many", names.len(), 0)
}

/// All of the first `count` names are there.
pub fn check(root: &Path, count: usize, len: usize) -> Result<(), Why> {
    is_exactly(root, 0..count, len)
}

/// Removes the first `count` names in a random order, looking at what is left on the way.
pub fn empty(root: &Path, count: usize, len: usize, seed: u64) -> Result<(), Why> {
    let crowd = root.join("crowd");
    let mut order: Vec<_> = (0..count).collect();
    Rng::new(seed).shuffle(&mut order);
    for (done, i) in order.iter().enumerate() {
        fs::remove_file(crowd.join(name(*i, len))).within(|| format!("removing {i}"))?;
        if done == count / 2 {
            let left: BTreeSet<_> = order[done + 1..].iter().copied().collect();
            is_exactly(root, left.into_iter(), len)?;
        }
    }
    is_exactly(root, 0..0, len)?;
    fs::remove_dir(&crowd)?;
    for i in (0..count).step_by(LINKS) {
        equal("links", fs::metadata(target(root, i))?.nlink(), 1)?;
        fs::remove_file(target(root, i))?;
    }
    Ok(())
}

/// What ends names of 247 bytes that have one hash under the legacy algorithm, which knows no seed:
/// more names than fit into one block, and into two.
const ENDS: [&str; 14] = [
    "aaaaaaa", "aj32hrk", "a8s9wzJ", "a901fde", "bd7u5qA", "c9dspns", "dv3n19X", "es1g9zK",
    "eyfpudW", "fb9hutK", "fdjcqae", "ffb0vcx", "fhys68J", "f68yft6",
];

/// Names of one hash in several blocks, among others, on a volume whose hash is the legacy one.
pub fn collide(root: &Path) -> Result<(), Why> {
    let one = |end: &str| format!("{}{end}", "c".repeat(240));
    let hasher = Hasher::new(0, false, [0; 4]).map_err(|e| format!("hasher: {e}"))?;
    let hash = hasher.hash(one(ENDS[0]).as_bytes()).major;
    for end in ENDS {
        equal("hash", hasher.hash(one(end).as_bytes()).major, hash)?;
    }
    let dir = root.join("collide");
    fs::create_dir(&dir)?;
    let file = root.join("collide-target");
    File::create_new(&file)?;
    let mut all = BTreeSet::new();
    for (i, end) in ENDS.iter().enumerate() {
        for other in 0..5 {
            let other = name(i * 5 + other, 200);
            fs::hard_link(&file, dir.join(&other))?;
            all.insert(other);
        }
        fs::hard_link(&file, dir.join(one(end))).within(|| format!("linking {end}"))?;
        all.insert(one(end));
        are_there(&dir, &all)?;
    }
    // Taken out and put back in, in another order.
    for end in ENDS.iter().rev().step_by(2) {
        fs::remove_file(dir.join(one(end))).within(|| format!("removing {end}"))?;
        all.remove(&one(end));
        are_there(&dir, &all)?;
    }
    for end in ENDS.iter().rev().step_by(2) {
        meta::rename(&dir.join(one(end)), &dir.join("absent"), 0)
            .err()
            .ok_or("an absent name was renamed")?;
        fs::hard_link(&file, dir.join(one(end)))?;
        all.insert(one(end));
    }
    are_there(&dir, &all)
}

/// These names are in the directory, found and listed, and no others.
fn are_there(path: &Path, names: &BTreeSet<String>) -> Result<(), Why> {
    for name in names {
        fs::symlink_metadata(path.join(name)).within(|| format!("finding {name}"))?;
    }
    for room in [300, 32768] {
        let listed = dir::read_all(&File::open(path)?, room)?;
        equal("names listed", listed.len(), names.len() + 2)?;
        for entry in listed.iter().filter(|e| e.name != "." && e.name != "..") {
            let name = entry.name.to_string_lossy();
            require(names.contains(&*name), || format!("{name} is listed"))?;
        }
    }
    Ok(())
}

/// Directories that change while they are listed.
pub fn listings(root: &Path, report: &mut Report) {
    for (name, stable, room) in [
        ("one-block", 8, 120),
        ("small", 300, 300),
        ("large", 4000, 1000),
    ] {
        report.test(&format!("listed-while-changed-{name}"), || {
            changing(&root.join(name), stable, room)
        });
    }
    report.test("listed-from-old-positions", || positions(&root.join("old")));
}

/// Reads a directory a few entries at a time. Between, names come and go, more than there are old
/// ones; each that stays is listed exactly once.
fn changing(path: &Path, stable: usize, room: usize) -> Result<(), Why> {
    fs::create_dir(path)?;
    for i in 0..stable {
        File::create_new(path.join(format!("stays{i}")))?;
    }
    let file = path.join("stays0");
    let open = File::open(path)?;
    let mut rng = Rng::new(stable as u64);
    let (mut seen, mut present, mut next) = (Vec::new(), Vec::new(), 0);
    loop {
        let some = dir::read_some(&open, room)?;
        if some.is_empty() {
            break;
        }
        seen.extend(some.into_iter().map(|entry| entry.name));
        for _ in 0..rng.below(40) {
            if rng.chance(65) || present.is_empty() {
                fs::hard_link(&file, path.join(name(next, 60)))?;
                present.push(next);
                next += 1;
            } else {
                let i = rng.below(present.len() as u64) as usize;
                fs::remove_file(path.join(name(present.swap_remove(i), 60)))?;
            }
        }
    }
    let unique: HashSet<_> = seen.iter().collect();
    equal("listed twice", seen.len() - unique.len(), 0)?;
    let stays = |name: &&OsString| name.to_string_lossy().starts_with("stays");
    equal("names that stay", seen.iter().filter(stays).count(), stable)
}

/// Positions from a listing still lead to the rest of it after the directory has grown and shrunk.
fn positions(path: &Path) -> Result<(), Why> {
    fs::create_dir(path)?;
    for i in 0..200 {
        File::create_new(path.join(format!("stays{i}")))?;
    }
    let file = path.join("stays0");
    let mut before = dir::read_all(&File::open(path)?, 32768)?;
    // These two are at other positions in a directory with an index.
    before.retain(|entry| entry.name != "." && entry.name != "..");
    for round in 0..3 {
        for i in 0..700 {
            fs::hard_link(&file, path.join(name(round * 700 + i, 90)))?;
        }
        for i in (0..700).step_by(3) {
            fs::remove_file(path.join(name(round * 700 + i, 90)))?;
        }
        for at in (0..before.len()).step_by(17) {
            let open = File::open(path)?;
            dir::seek(&open, before[at].next)?;
            let rest: HashSet<_> = dir::read_on(&open, 4096)?
                .into_iter()
                .map(|entry| entry.name)
                .collect();
            for entry in &before[at + 1..] {
                require(rest.contains(&entry.name), || {
                    format!("{:?} is lost behind position {at}", entry.name)
                })?;
            }
            for entry in &before[..=at] {
                require(!rest.contains(&entry.name), || {
                    format!("{:?} comes again behind position {at}", entry.name)
                })?;
            }
        }
    }
    Ok(())
}

/// Makes and removes subdirectories of `root/many`, which counts nearly as many as it can, and says
/// what each call answered and how many links that gave.
pub fn subdirectories(root: &Path) -> Result<(), Why> {
    let many = root.join("many");
    let links = || fs::metadata(&many).map(|m| m.nlink());
    let answer = |result: io::Result<()>| result.err().map_or(0, |e| errno(&e));
    for i in 0..6 {
        let done = answer(fs::create_dir(many.join(format!("extra{i}"))));
        println!("mkdir {done}, {} links", links()?);
    }
    fs::create_dir(root.join("outside"))?;
    let done = answer(fs::rename(root.join("outside"), many.join("inside")));
    println!("rename {done}, {} links", links()?);
    for i in 0..6 {
        let done = answer(fs::remove_dir(many.join(format!("extra{i}"))));
        println!("rmdir {done}, {} links", links()?);
    }
    Ok(())
}
