// SPDX-License-Identifier: GPL-2.0

//! Directories and the names in them.

use super::{create, Test};
use crate::sys::{dir as directory, errno, meta};
use crate::tree::plan::NAME_MAX;
use crate::why::{equal, require, Why, Within};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub const TESTS: &[Test] = &[
    ("names-linear-directory-grows", linear_directory_grows),
    ("names-longest", longest),
    ("names-any-byte", any_byte),
    ("names-errors", errors),
    ("names-special-files", special_files),
    ("names-listed-while-made", listed_while_made),
    ("names-deep", deep),
    ("names-in-a-removed-directory", in_a_removed_directory),
];

/// Names of 60 bytes in a directory that starts with one block: it grows block by block.
fn linear_directory_grows(dir: &Path) -> Result<(), Why> {
    const COUNT: usize = 1500;
    let name = |i: usize| format!("{i:0>60}");
    let start = fs::metadata(dir)?.size();
    for i in 0..COUNT {
        create(&dir.join(name(i))).within(|| format!("name {i} of {COUNT}"))?;
    }
    require(fs::metadata(dir)?.size() > start, || {
        "the directory did not grow".into()
    })?;
    let listed: BTreeSet<_> = (directory::read_all(&File::open(dir)?, 32768)?.into_iter())
        .filter_map(|entry| entry.name.into_string().ok())
        .collect();
    equal("names", listed.len(), COUNT + 2)?;
    for i in 0..COUNT {
        require(listed.contains(&name(i)), || format!("{i} is not listed"))?;
        fs::symlink_metadata(dir.join(name(i))).within(|| format!("finding name {i}"))?;
    }
    let absent = fs::symlink_metadata(dir.join(name(COUNT)));
    equal(
        "an absent name",
        absent.err().map(|e| errno(&e)),
        Some(libc::ENOENT),
    )
}

fn longest(dir: &Path) -> Result<(), Why> {
    for i in 0..40 {
        let mut name = vec![b'n'; NAME_MAX];
        name[NAME_MAX - 1] = b'A' + i;
        create(&dir.join(OsString::from_vec(name.clone())))?;
        name[0] = b'd';
        fs::create_dir(dir.join(OsString::from_vec(name)))?;
    }
    let too_long = dir.join("x".repeat(NAME_MAX + 1));
    for result in [
        File::create_new(&too_long).map(drop),
        fs::create_dir(&too_long),
    ] {
        equal(
            "too long",
            result.err().map(|e| errno(&e)),
            Some(libc::ENAMETOOLONG),
        )?;
    }
    let found = fs::metadata(&too_long).err().map(|e| errno(&e));
    equal("looking for it", found, Some(libc::ENAMETOOLONG))?;
    equal("names", fs::read_dir(dir)?.count(), 80)
}

/// Every byte that a name can have, alone and in the middle.
fn any_byte(dir: &Path) -> Result<(), Why> {
    let mut made = BTreeSet::new();
    for byte in (1..=255).filter(|&b| b != b'/') {
        for name in [vec![byte], vec![b'a', byte, b'z']] {
            if name == b"." {
                continue;
            }
            create(&dir.join(OsString::from_vec(name.clone())))?;
            made.insert(name);
        }
    }
    let listed: Result<BTreeSet<_>, _> = fs::read_dir(dir)?
        .map(|entry| Ok::<_, Why>(entry?.file_name().into_vec()))
        .collect();
    require(listed? == made, || "other names are listed".into())
}

fn errors(dir: &Path) -> Result<(), Why> {
    let (file, sub, none) = (dir.join("file"), dir.join("sub"), dir.join("none"));
    create(&file)?;
    fs::create_dir(&sub)?;
    let code = |result: std::io::Result<()>| result.err().map(|e| errno(&e));
    equal(
        "file again",
        code(File::create_new(&file).map(drop)),
        Some(libc::EEXIST),
    )?;
    equal(
        "directory again",
        code(fs::create_dir(&sub)),
        Some(libc::EEXIST),
    )?;
    equal(
        "over a file",
        code(fs::create_dir(&file)),
        Some(libc::EEXIST),
    )?;
    let node = meta::mknod(&file, libc::S_IFIFO, 0, 0);
    equal("node again", code(node), Some(libc::EEXIST))?;
    equal(
        "nothing there",
        code(fs::metadata(&none).map(drop)),
        Some(libc::ENOENT),
    )?;
    let below_none = File::create_new(none.join("x")).map(drop);
    equal("in nothing", code(below_none), Some(libc::ENOENT))?;
    let below_file = File::create_new(file.join("x")).map(drop);
    equal("in a file", code(below_file), Some(libc::ENOTDIR))?;
    let written = File::options().write(true).open(&sub).map(drop);
    equal("writing a directory", code(written), Some(libc::EISDIR))?;
    equal(
        "dots",
        code(fs::create_dir(sub.join(".."))),
        Some(libc::EEXIST),
    )?;
    equal(
        "parent",
        fs::metadata(sub.join(".."))?.ino(),
        fs::metadata(dir)?.ino(),
    )
}

fn special_files(dir: &Path) -> Result<(), Why> {
    let nodes = [
        ("null", libc::S_IFCHR, 1, 3),
        ("wide", libc::S_IFCHR, 300, 70_000),
        ("disk", libc::S_IFBLK, 8, 300),
        ("pipe", libc::S_IFIFO, 0, 0),
        ("socket", libc::S_IFSOCK, 0, 0),
    ];
    for (name, format, major, minor) in nodes {
        meta::mknod(&dir.join(name), format | 0o640, major, minor)?;
        let found = fs::symlink_metadata(dir.join(name))?;
        let want = (format | 0o640, libc::makedev(major, minor), 1, 0);
        equal(
            name,
            (found.mode(), found.rdev(), found.nlink(), found.size()),
            want,
        )?;
    }
    // It is the real thing.
    let null = File::options()
        .read(true)
        .write(true)
        .open(dir.join("null"))?;
    let read = std::io::Read::read(&mut &null, &mut [0; 10])?;
    equal("bytes from null", read, 0)
}

/// A reader that takes a few entries at a time while names are added meets every old name once.
fn listed_while_made(dir: &Path) -> Result<(), Why> {
    for i in 0..300 {
        create(&dir.join(format!("old{i}")))?;
    }
    let open = File::open(dir)?;
    let mut seen = Vec::new();
    for i in 0.. {
        let some = directory::read_some(&open, 300)?;
        if some.is_empty() {
            break;
        }
        seen.extend(some.into_iter().map(|entry| entry.name));
        if i < 100 {
            create(&dir.join(format!("new{i}")))?;
        }
    }
    let old: Vec<_> = seen
        .iter()
        .filter(|name| name.to_string_lossy().starts_with("old"))
        .collect();
    equal("old names", old.len(), 300)?;
    let unique: BTreeSet<_> = seen.iter().collect();
    equal("all names, once", unique.len(), seen.len())
}

fn deep(dir: &Path) -> Result<(), Why> {
    let mut path = dir.to_path_buf();
    for i in 0..120 {
        path.push(format!("level{i}"));
        fs::create_dir(&path)?;
    }
    create(&path.join("bottom"))?;
    for _ in 0..120 {
        path.push("..");
    }
    equal(
        "back at the top",
        fs::metadata(&path)?.ino(),
        fs::metadata(dir)?.ino(),
    )
}

/// In a directory that was removed nothing is made, not even a file without a name.
fn in_a_removed_directory(dir: &Path) -> Result<(), Why> {
    let gone = dir.join("gone");
    fs::create_dir(&gone)?;
    let open = File::open(&gone)?;
    fs::remove_dir(&gone)?;
    let still = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(&still);
    let answers = [
        nameless.map(drop),
        File::create_new(still.join("file")).map(drop),
        fs::create_dir(still.join("directory")),
        fs::hard_link(dir.join("names"), still.join("link")),
    ];
    let answers = answers.map(|answer| answer.err().map(|e| errno(&e)));
    equal(
        "answers",
        answers,
        [libc::EPERM, libc::ENOENT, libc::ENOENT, libc::ENOENT].map(Some),
    )?;
    let listed = directory::read_all(&open, 4096).err().map(|e| errno(&e));
    equal("listing", listed, Some(libc::ENOENT))
}
