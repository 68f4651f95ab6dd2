// SPDX-License-Identifier: GPL-2.0

//! Extended attributes and ACLs: random operations on two volumes of one kind, step by step; what
//! files inherit; and calls on damaged ones.

use crate::rng::Rng;
use crate::sys::{errno, meta, process, xattr};
use crate::why::{equal, Why, Within};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The files of a round, a folder first.
const FILES: &[&str] = &["dir", "dir/in", "a", "b", "c", "link"];

/// The attributes of a file, by name.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn make(dir: &Path) -> Result<(), Why> {
    fs::create_dir(dir.join("dir"))?;
    for name in ["dir/in", "a", "b", "c"] {
        File::create_new(dir.join(name))?;
    }
    Ok(())
}

/// An operation on a file.
#[derive(Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>, i32),
    Remove(Vec<u8>),
    Get(Vec<u8>, usize),
    List(usize),
    Chmod(u32),
}

/// The value of an ACL attribute with users and groups of these ids.
pub fn acl(
    owner: u16,
    named: &[(u16, u16, u32)],
    group: u16,
    mask: Option<u16>,
    other: u16,
) -> Vec<u8> {
    let none = u32::MAX;
    let mut entries = vec![(1, owner, none)];
    entries.extend(named.iter().filter(|e| e.0 == 2));
    entries.push((4, group, none));
    entries.extend(named.iter().filter(|e| e.0 == 8));
    entries.extend(mask.map(|mask| (16, mask, none)));
    entries.push((32, other, none));
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// An ACL attribute of any kind.
pub fn random_acl(rng: &mut Rng) -> Vec<u8> {
    let mut perm = || rng.below(8) as u16;
    let (owner, group, other, mask) = (perm(), perm(), perm(), perm());
    let named: Vec<_> = (0..rng.below(6))
        .map(|n| (rng.pick(&[2, 8]), rng.below(8) as u16, 1000 + n as u32))
        .collect();
    let mask = (!named.is_empty() || rng.chance(30)).then_some(mask);
    acl(owner, &named, group, mask, other)
}

fn random_name(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(12) {
        return rng.pick(&[ACCESS, DEFAULT]).to_vec();
    }
    let mut name = rng
        .pick(&["user.", "user.", "trusted.", "security.x"])
        .as_bytes()
        .to_vec();
    let len = match rng.below(10) {
        0 => 255 - name.len(),
        1 => rng.within(1, 200) as usize,
        _ => rng.within(1, 6) as usize,
    };
    name.extend(vec![b'a' + rng.below(4) as u8; len]);
    name
}

fn random_step(rng: &mut Rng, block: u64) -> Step {
    match rng.below(20) {
        0..=10 => {
            let name = random_name(rng);
            let value = if name.starts_with(b"system.") && !rng.chance(5) {
                random_acl(rng)
            } else {
                let len = match rng.below(12) {
                    0 => rng.below(block + 100),
                    1 => 0,
                    2..=4 => rng.within(block / 2, block - 30),
                    5..=7 => rng.below(300),
                    _ => rng.below(40),
                };
                let byte = rng.below(3) as u8;
                vec![byte; len as usize]
            };
            let flags = rng.pick(&[0, 0, 0, libc::XATTR_CREATE, libc::XATTR_REPLACE]);
            Step::Set(name, value, flags)
        }
        11..=14 => Step::Remove(random_name(rng)),
        15 | 16 => Step::Get(random_name(rng), rng.pick(&[0, 1, 20, 65536])),
        17 | 18 => Step::List(rng.pick(&[0, 30, 300, 65536])),
        _ => Step::Chmod(rng.below(0o1000) as u32),
    }
}

/// Does a step and says what came of it, as bytes or `errno`.
fn run_step(path: &Path, step: &Step) -> Result<Vec<u8>, i32> {
    let result = match step {
        Step::Set(name, value, flags) => xattr::set(path, name, value, *flags).map(|()| Vec::new()),
        Step::Remove(name) => xattr::remove(path, name).map(|()| Vec::new()),
        Step::Get(name, room) => xattr::get(path, name, *room),
        Step::List(room) => xattr::list(path, *room),
        Step::Chmod(mode) => {
            // Not the target of a link.
            if path.is_symlink() {
                return Ok(Vec::new());
            }
            fs::set_permissions(path, Permissions::from_mode(*mode)).map(|()| Vec::new())
        }
    };
    result.map_err(|e| errno(&e))
}

/// All attributes of a file, and its mode and blocks.
fn look(path: &Path) -> Result<(Model, u32, u64), Why> {
    let mut found = Model::new();
    for name in meta::xattr_names(path)? {
        let value = meta::xattr(path, &name)
            .within(|| format!("{} of {}", String::from_utf8_lossy(&name), path.display()))?;
        found.insert(name, value);
    }
    let stat = fs::symlink_metadata(path)?;
    Ok((found, stat.mode(), stat.blocks()))
}

/// Runs `count` random operations on the volume under test, mounted on `dir`, and on another of the
/// same kind on `other`, and beside a model: each must give the same, and leave the same. Each has a
/// symbolic link called `link`.
pub fn compare(dir: &Path, other: &Path, seed: u64, count: u64, block: u64) -> Result<(), Why> {
    for root in [dir, other] {
        make(root)?;
    }
    let mut models: BTreeMap<&str, Model> = FILES.iter().map(|&f| (f, Model::new())).collect();
    let mut rng = Rng::new(seed);
    let (mut done, mut full) = (0, 0);
    for n in 0..count {
        let file = rng.pick(FILES);
        let step = random_step(&mut rng, block);
        let what = || format!("seed {seed}, step {n}, {file}: {step:.300?}");
        let paths = [dir.join(file), other.join(file)];
        let [got, want] = paths.each_ref().map(|path| run_step(path, &step));
        equal("result", &got, &want).within(what)?;
        let model = models.get_mut(file).ok_or("no model")?;
        match (&step, &got) {
            (Step::Set(name, value, _), Ok(_)) if !name.starts_with(b"system.") => {
                model.insert(name.clone(), value.clone());
                done += 1;
            }
            (Step::Remove(name), Ok(_)) if !name.starts_with(b"system.") => {
                model.remove(name);
                done += 1;
            }
            (Step::Set(..), Err(libc::ENOSPC)) => full += 1,
            _ => {}
        }
        let [got, want] = [look(&paths[0]).within(what)?, look(&paths[1]).within(what)?];
        equal("attributes, mode and blocks", &got, &want).within(what)?;
        let plain = got
            .0
            .iter()
            .filter(|(name, _)| !name.starts_with(b"system."));
        equal(
            "the model",
            &plain.map(|(n, v)| (n.clone(), v.clone())).collect(),
            model,
        )
        .within(what)?;
    }
    println!("# {count} steps: {done} changes, {full} times no room");
    if done < count / 10 || full < count / 100 {
        return Err(format!("only {done} changes, {full} times no room").into());
    }
    Ok(())
}

fn describe(path: &Path) -> Result<String, Why> {
    let mode = fs::symlink_metadata(path)?.mode();
    let hex = |name: &[u8]| match meta::xattr(path, name) {
        Ok(value) => format!("{value:02x?}"),
        Err(e) => format!("errno {}", errno(&e)),
    };
    Ok(format!(
        "{mode:o} access {} default {}",
        hex(ACCESS),
        hex(DEFAULT)
    ))
}

/// Prints what files of all kinds inherit from default ACLs, and what `chmod` makes of ACLs.
pub fn acls(dir: &Path, seed: u64) -> Result<(), Why> {
    let mut rng = Rng::new(seed);
    for n in 0..40 {
        let folder = dir.join(format!("d{n}"));
        fs::create_dir(&folder)?;
        fs::set_permissions(
            &folder,
            Permissions::from_mode(rng.pick(&[0o755, 0o2775, 0o700])),
        )?;
        let default = random_acl(&mut rng);
        if rng.chance(80) {
            let set = xattr::set(&folder, DEFAULT, &default, 0).map_err(|e| errno(&e));
            println!("{n} default {set:?}");
        }
        let mask = rng.pick(&[0o022, 0, 0o077]);
        process::umask(mask);
        let file = folder.join("file");
        drop(File::create_new(&file)?);
        fs::create_dir(folder.join("sub"))?;
        fs::create_dir(folder.join("sub/sub"))?;
        meta::mknod(&folder.join("fifo"), libc::S_IFIFO | 0o666, 0, 0)?;
        drop(File::create_new(folder.join("sub/sub/file"))?);
        process::umask(0o022);
        let paths: Vec<PathBuf> = ["", "file", "sub", "sub/sub", "fifo", "sub/sub/file"]
            .map(|name| folder.join(name))
            .to_vec();
        for path in &paths {
            println!(
                "{n} {} {}",
                path.strip_prefix(dir).unwrap_or(path).display(),
                describe(path)?
            );
        }
        for path in &paths {
            let mode = rng.below(0o10000) as u32 & 0o7777;
            let changed = fs::set_permissions(path, Permissions::from_mode(mode | 0o700));
            let changed = changed.map_err(|e| errno(&e));
            println!("{n} chmod {mode:o} {changed:?} {}", describe(path)?);
            let wanted = random_acl(&mut rng);
            let set = xattr::set(path, ACCESS, &wanted, 0).map_err(|e| errno(&e));
            println!("{n} access {set:?} {}", describe(path)?);
        }
        let gone = xattr::remove(&file, ACCESS).map_err(|e| errno(&e));
        println!("{n} removed {gone:?} {}", describe(&file)?);
    }
    Ok(())
}

/// Tries everything on a file whose attributes may be damaged. What comes of it does not matter,
/// but that there is an answer. `--writing` also changes them.
pub fn poke(path: &Path, writing: bool) -> Result<(), Why> {
    for _ in 0..2 {
        let names = meta::xattr_names(path).unwrap_or_default();
        for name in names
            .iter()
            .map(Vec::as_slice)
            .chain([&b"user.none"[..], ACCESS])
        {
            let _ = xattr::get(path, name, 65536);
        }
        if writing {
            let _ = xattr::set(path, b"user.poked", &[1; 100], 0);
            let _ = xattr::set(path, b"user.shared", &[2; 500], 0);
            let _ = xattr::set(path, b"user.long", &[3; 700], 0);
            let _ = fs::set_permissions(path, Permissions::from_mode(0o640));
            for name in &names {
                let _ = xattr::remove(path, name);
            }
        }
    }
    Ok(())
}

/// Sets an attribute of each of `files` to `bytes` times `letter`.
pub fn set_all(files: &[PathBuf], name: &str, bytes: usize, letter: &str) -> Result<(), Why> {
    let value = letter.repeat(bytes);
    for file in files {
        xattr::set(file, name.as_bytes(), value.as_bytes(), 0)
            .within(|| file.display().to_string())?;
    }
    Ok(())
}

/// Removes an attribute from each of `files`.
pub fn remove_all(files: &[PathBuf], name: &str) -> Result<(), Why> {
    for file in files {
        xattr::remove(file, name.as_bytes()).within(|| file.display().to_string())?;
    }
    Ok(())
}

/// Reads all attributes of each of `files`.
pub fn read_all(files: &[PathBuf]) -> Result<(), Why> {
    for file in files {
        look(file)?;
    }
    Ok(())
}
