// SPDX-License-Identifier: GPL-2.0

//! A directory of many names: made, found one by one, listed in every way.

use crate::rng::Rng;
use crate::sys::{dir, errno};
use crate::tree::plan;
use crate::why::{equal, require, Why, Within};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The names that `seed` stands for, all different.
pub fn names(seed: u64, count: usize) -> Vec<OsString> {
    let mut rng = Rng::new(seed);
    (0..count).map(|i| plan::name(&mut rng, 'n', i)).collect()
}

/// Makes the directory and an empty file for every name.
pub fn make(path: &Path, seed: u64, count: usize) -> Result<(), Why> {
    fs::create_dir(path)?;
    for name in names(seed, count) {
        File::create_new(path.join(&name)).within(|| format!("creating {name:?}"))?;
    }
    Ok(())
}

/// Finds every name, finds none of as many absent ones (up to 3,000), and holds the listings
/// against them: with large and small buffers, and resumed in the middle.
pub fn check(path: &Path, seed: u64, count: usize) -> Result<(), Why> {
    let names = names(seed, count);
    let mut inodes = HashMap::new();
    for name in &names {
        let found = fs::symlink_metadata(path.join(name));
        inodes.insert(
            name.clone(),
            found.within(|| format!("finding {name:?}"))?.ino(),
        );
    }
    let mut rng = Rng::new(seed ^ 1);
    for i in 0..count.min(3000) {
        let name = plan::name(&mut rng, 'z', i);
        let found = fs::symlink_metadata(path.join(&name))
            .err()
            .map(|e| errno(&e));
        equal("an absent name", found, Some(libc::ENOENT))?;
    }
    let open = File::open(path)?;
    let whole = dir::read_all(&open, 1 << 20)?;
    compare(&whole, &inodes)?;
    for room in [280, 1000, 4096] {
        let again = dir::read_all(&open, room)?;
        require(again == whole, || {
            format!("buffers of {room} bytes give another listing")
        })?;
    }
    resume(&open, &whole, &mut rng)
}

/// The names that are added to those of `seed`.
fn more_names(seed: u64, more: usize) -> Vec<OsString> {
    let mut rng = Rng::new(!seed);
    (0..more).map(|i| plan::name(&mut rng, 'm', i)).collect()
}

/// Adds `more` names to the directory that [`make`] made: files, every seventh a directory. One
/// whose place in the index is full may be refused with `ENOSPC`, and is then not there; some
/// must fit. Tells how many did.
pub fn add(path: &Path, seed: u64, count: usize, more: usize) -> Result<usize, Why> {
    let mut added = 0;
    for (i, name) in more_names(seed, more).into_iter().enumerate() {
        let full = path.join(&name);
        let made = if i % 7 == 0 {
            fs::create_dir(&full)
        } else {
            File::create_new(&full).map(drop)
        };
        match made {
            Ok(()) => added += 1,
            Err(e) if errno(&e) == libc::ENOSPC => {
                let found = fs::symlink_metadata(&full).err().map(|e| errno(&e));
                equal("a refused name", found, Some(libc::ENOENT))?;
            }
            Err(e) => return Err(e).within(|| format!("adding {name:?}")),
        }
    }
    require(added * 10 >= more, || {
        format!("only {added} of {more} names fit")
    })?;
    added_are_there(path, seed, count, more)?;
    Ok(added)
}

/// Every name of `seed` is still there; every added one is found if and only if it is listed.
pub fn added_are_there(path: &Path, seed: u64, count: usize, more: usize) -> Result<(), Why> {
    let listed = dir::read_all(&File::open(path)?, 32768)?;
    let listed: HashMap<_, _> = listed.into_iter().map(|e| (e.name, e.ino)).collect();
    let find = |name: &OsString| fs::symlink_metadata(path.join(name)).map(|found| found.ino());
    for name in names(seed, count) {
        let ino = find(&name).within(|| format!("finding {name:?}"))?;
        require(listed.get(&name) == Some(&ino), || {
            format!("{name:?} is not listed")
        })?;
    }
    for name in more_names(seed, more) {
        let ino = match find(&name) {
            Ok(ino) => Some(ino),
            Err(e) if errno(&e) == libc::ENOENT => None,
            Err(e) => return Err(e).within(|| format!("finding {name:?}")),
        };
        equal("found and listed", ino.as_ref(), listed.get(&name))?;
    }
    Ok(())
}

/// The listing has each name once, with the inode that looking it up gives.
fn compare(listed: &[dir::Entry], inodes: &HashMap<OsString, u64>) -> Result<(), Why> {
    let real: Vec<_> = listed.iter().filter(|entry| !is_dots(entry)).collect();
    equal("entries", real.len(), inodes.len())?;
    let mut seen = HashMap::new();
    for entry in real {
        require(seen.insert(&entry.name, entry.ino).is_none(), || {
            format!("{:?} is listed twice", entry.name)
        })?;
        let ino = inodes.get(&entry.name);
        require(ino == Some(&entry.ino), || {
            format!(
                "{:?} is listed as inode {}, found as {ino:?}",
                entry.name, entry.ino
            )
        })?;
    }
    Ok(())
}

fn is_dots(entry: &dir::Entry) -> bool {
    entry.name == "." || entry.name == ".."
}

/// From the position after any entry the listing goes on with the next one.
fn resume(open: &File, whole: &[dir::Entry], rng: &mut Rng) -> Result<(), Why> {
    for _ in 0..50 {
        let i = rng.below(whole.len() as u64) as usize;
        dir::seek(open, whole[i].next)?;
        let some = dir::read_some(open, 2000)?;
        let rest = &whole[i + 1..];
        require(
            rest.starts_with(&some) && some.is_empty() == rest.is_empty(),
            || format!("the listing does not go on after entry {i}"),
        )?;
    }
    Ok(())
}
