// SPDX-License-Identifier: GPL-2.0

//! Everything that can be done to the files of a volume. What fails fails: only the kernel's
//! behaviour counts.

use super::walk::{Content, Walk};
use crate::kernel;
use crate::rng::Rng;
use crate::sys::{meta, volume, xattr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{symlink, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Operations on names and files that were chosen by chance.
const OPERATIONS: u64 = 70;

/// What there is to use: the good image's files, and those that were made since.
struct Names {
    dirs: Vec<PathBuf>,
    all: Vec<PathBuf>,
}

impl Names {
    fn new(root: &Path, want: &Walk) -> Self {
        let is_dir = |path: &PathBuf| matches!(want[path].content, Ok(Content::Names(_)));
        let full = |path: &PathBuf| root.join(path);
        Self {
            dirs: want.keys().filter(|p| is_dir(p)).map(full).collect(),
            // Of many names alike some are enough.
            all: want
                .keys()
                .filter(|path| !path.as_os_str().is_empty())
                .filter(|path| path.parent() != Some(Path::new("indexed")) || is_tenth(path))
                .map(full)
                .collect(),
        }
    }

    fn dir(&self, rng: &mut Rng) -> &Path {
        &self.dirs[rng.below(self.dirs.len() as u64) as usize]
    }

    fn any(&self, rng: &mut Rng) -> &Path {
        &self.all[rng.below(self.all.len() as u64) as usize]
    }

    /// A name that is not there, for all that is known.
    fn free(&self, rng: &mut Rng) -> PathBuf {
        let length = rng.pick(&[1, 20, 200]);
        self.dir(rng).join(format!("{:0>length$}", rng.next()))
    }
}

fn is_tenth(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().last() == Some(&b'7')
}

/// Uses the volume that is mounted at `root` and was made with what `want` has.
pub fn in_every_way(root: &Path, want: &Walk, rng: &mut Rng) {
    let mut names = Names::new(root, want);
    write_all(&names, want, root);
    for i in 0..OPERATIONS {
        if let Ok(Some(new)) = one(&names, rng) {
            names.all.push(new);
        }
        if i == OPERATIONS / 2 {
            volume::sync();
            if rng.chance(25) {
                // What is used from now on is read from the disk again.
                let _ = kernel::set("vm/drop_caches", "3");
            }
        }
    }
    if rng.chance(50) {
        remove_all(root, 0);
    }
    volume::sync();
}

/// Writes to every file and into every directory.
fn write_all(names: &Names, want: &Walk, root: &Path) {
    for dir in &names.dirs {
        let _ = write_file(&dir.join("new file"), true);
        let _ = fs::create_dir(dir.join("new directory"));
        let _ = meta::mknod(&dir.join("new node"), libc::S_IFIFO, 0, 0);
    }
    let is_file = |path: &PathBuf| {
        let relative = path.strip_prefix(root).unwrap_or(path);
        matches!(
            want.get(relative).map(|node| &node.content),
            Some(Ok(Content::Bytes(_)))
        )
    };
    for path in names.all.iter().filter(|path| is_file(path)) {
        let _ = write_file(path, false);
    }
    volume::sync();
}

/// Opens a file to write to, new or not; waits for nobody if it is a pipe.
fn open(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(new)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

fn write_file(path: &Path, new: bool) -> io::Result<()> {
    let file = open(path, new)?;
    let size = file.metadata()?.len();
    let data = [0x77; 5000];
    // At the start, in the middle (for the sparse file: into a hole), at the end, beyond it.
    for at in [0, size / 2, size, size.saturating_add(20_000)] {
        let _ = file.write_at(&data, at);
    }
    if new {
        return Ok(());
    }
    file.sync_all()
}

/// One operation; a name that it has made is returned.
fn one(names: &Names, rng: &mut Rng) -> io::Result<Option<PathBuf>> {
    let (a, b) = (names.any(rng), names.any(rng));
    let new = names.free(rng);
    match rng.below(16) {
        0 => {
            let file = File::create_new(&new)?;
            file.write_all_at(&vec![0x33; rng.below(30_000) as usize], rng.below(100_000))?;
        }
        1 => fs::create_dir(&new)?,
        2 => symlink("s".repeat(rng.within(1, 900) as usize), &new)?,
        3 => fs::hard_link(a, &new)?,
        4..=5 => fs::rename(a, &new)?,
        6 => {
            fs::rename(a, b)?;
            return Ok(None);
        }
        7 => {
            let flags = rng.pick(&[
                libc::RENAME_EXCHANGE,
                libc::RENAME_NOREPLACE,
                libc::RENAME_WHITEOUT,
            ]);
            meta::rename(a, b, flags)?;
            return Ok(None);
        }
        8..=9 => {
            fs::remove_file(a)?;
            return Ok(None);
        }
        10 => {
            fs::remove_dir(names.dir(rng))?;
            return Ok(None);
        }
        11 => {
            unlink_open(a, rng)?;
            return Ok(None);
        }
        12..=13 => {
            let file = open(a, false)?;
            let size = file.metadata()?.len();
            let length = rng.pick(&[0, size / 2, size.saturating_sub(1), size + 5000]);
            file.set_len(length)?;
            if rng.chance(30) {
                file.sync_all()?;
            }
            return Ok(None);
        }
        14 => {
            let length = rng.pick(&[1, 30, 400, 900, 3000]);
            let name = rng.pick(&[b"user.small", b"user.large", b"user.other"]);
            xattr::set(a, name, &vec![0x44; length], 0)?;
            return Ok(None);
        }
        _ => {
            for name in meta::xattr_names(a)? {
                xattr::remove(a, &name)?;
            }
            return Ok(None);
        }
    }
    Ok(Some(new))
}

/// The file goes when it is closed, with what was written last.
fn unlink_open(path: &Path, rng: &mut Rng) -> io::Result<()> {
    let file = open(path, false)?;
    fs::remove_file(path)?;
    file.write_all_at(&[0x55; 9000], rng.below(60_000))
}

/// Removes what can be removed, a few levels deep.
fn remove_all(dir: &Path, level: u32) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten().take(400) {
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && level < 6 {
            remove_all(&path, level + 1);
            let _ = fs::remove_dir(&path);
        } else {
            let _ = fs::remove_file(&path);
        }
    }
}
