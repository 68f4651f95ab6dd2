// SPDX-License-Identifier: GPL-2.0

//! Files found by their handles, as NFS finds them.

use crate::report::Report;
use crate::rng;
use crate::sys::errno;
use crate::sys::handle::Handle;
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{symlink, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A test and its name.
type Test = (&'static str, fn(&Path) -> Result<(), Why>);

const TESTS: &[Test] = &[
    ("found-again", found_again),
    ("stale-when-removed", stale_when_removed),
    ("unlinked-and-open", unlinked_and_open),
    ("place-in-the-tree", place_in_the_tree),
    ("made-up", made_up),
    ("beside-changes", beside_changes),
];

/// Runs all tests below `root`.
pub fn run(root: &Path, report: &mut Report) {
    for (name, test) in TESTS {
        report.test(name, || {
            let dir = root.join(name);
            fs::create_dir(&dir)?;
            test(&dir)
        });
    }
}

/// Has the kernel forget names and inodes that nobody uses.
fn forget() -> Result<(), Why> {
    fs::write("/proc/sys/vm/drop_caches", "3").within(|| "drop_caches".into())
}

fn data(key: u64) -> Vec<u8> {
    let mut data = vec![0; 3000];
    rng::fill(key, 0, &mut data);
    data
}

fn make(path: &Path, key: u64) -> Result<(), Why> {
    let file = File::create_new(path).within(|| format!("making {}", path.display()))?;
    file.write_all_at(&data(key), 0)?;
    Ok(file.sync_all()?)
}

fn content(mut file: File) -> Result<Vec<u8>, Why> {
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    Ok(found)
}

/// Where an open file is, as the kernel has it.
fn place(file: &File) -> Result<PathBuf, Why> {
    Ok(fs::read_link(format!(
        "/proc/self/fd/{}",
        file.as_raw_fd()
    ))?)
}

fn stale(what: &str, mount: &File, handle: &Handle) -> Result<(), Why> {
    let answer = handle.open(mount, libc::O_PATH).err().map(|e| errno(&e));
    equal(what, answer, Some(libc::ESTALE))
}

/// A file, a directory and a symbolic link, with and without memory of them.
fn found_again(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    make(&dir.join("file"), 1)?;
    fs::create_dir(dir.join("directory"))?;
    make(&dir.join("directory/inside"), 2)?;
    symlink("file", dir.join("link"))?;
    for cached in [true, false] {
        for name in ["file", "directory", "link", "directory/inside"] {
            let path = dir.join(name);
            let ino = fs::symlink_metadata(&path)?.ino();
            let handle = Handle::of(&path, false)?;
            if !cached {
                mount.sync_all()?;
                forget()?;
            }
            let file = handle.open(&mount, libc::O_PATH).within(|| name.into())?;
            equal(name, file.metadata()?.ino(), ino)?;
        }
    }
    let file = Handle::of(&dir.join("directory/inside"), false)?.open(&mount, libc::O_RDONLY)?;
    require(content(file)? == data(2), || "other content".into())
}

/// The handle of a file that was removed finds nothing, also when another has its number.
fn stale_when_removed(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    let (file, directory) = (dir.join("file"), dir.join("directory"));
    make(&file, 1)?;
    fs::create_dir(&directory)?;
    let handles = [Handle::of(&file, false)?, Handle::of(&directory, false)?];
    let numbers = [fs::metadata(&file)?.ino(), fs::metadata(&directory)?.ino()];
    fs::remove_file(&file)?;
    fs::remove_dir(&directory)?;
    for handle in &handles {
        stale("removed", &mount, handle)?;
    }
    mount.sync_all()?;
    forget()?;
    for handle in &handles {
        stale("removed and forgotten", &mount, handle)?;
    }
    let mut reused = 0;
    for i in 0..64 {
        let path = dir.join(i.to_string());
        make(&path, 1)?;
        reused += usize::from(numbers.contains(&fs::metadata(&path)?.ino()));
    }
    require(reused > 0, || "no number was used again".into())?;
    for handle in &handles {
        stale("another", &mount, handle)?;
    }
    forget()?;
    for handle in &handles {
        stale("another, forgotten", &mount, handle)?;
    }
    Ok(())
}

/// As long as somebody has it open a file without names has a handle.
fn unlinked_and_open(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    let path = dir.join("file");
    make(&path, 3)?;
    let handle = Handle::of(&path, false)?;
    let held = File::open(&path)?;
    fs::remove_file(&path)?;
    forget()?;
    let file = handle.open(&mount, libc::O_RDONLY)?;
    require(content(file)? == data(3), || "other content".into())?;
    drop(held);
    stale("closed", &mount, &handle)
}

/// A directory's place is found by `..`, a file's by the directory in its handle; also after a move.
fn place_in_the_tree(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    let deep = dir.join("a/b/c");
    fs::create_dir_all(&deep)?;
    // Deep in a directory with an index.
    for i in 0..300 {
        File::create_new(dir.join(format!("a/b/a name of some length {i:0100}")))?;
    }
    make(&deep.join("file"), 4)?;
    let handles = [
        (
            Handle::of(&deep, false)?,
            libc::O_RDONLY | libc::O_DIRECTORY,
        ),
        (Handle::of(&deep.join("file"), true)?, libc::O_RDONLY),
    ];
    let places = |want: [PathBuf; 2]| -> Result<(), Why> {
        for ((handle, flags), want) in handles.iter().zip(want) {
            mount.sync_all()?;
            forget()?;
            let file = handle.open(&mount, *flags)?;
            equal("place", place(&file)?, want)?;
        }
        Ok(())
    };
    places([deep.clone(), deep.join("file")])?;
    let moved = dir.join("moved");
    fs::rename(&deep, &moved)?;
    places([moved.clone(), moved.join("file")])
}

/// Numbers that nobody was given: they find nothing, and are no reason to complain.
fn made_up(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    make(&dir.join("file"), 5)?;
    let handle = Handle::of(&dir.join("file"), false)?;
    // The volume's own inodes, those that cannot be, and one of a table that nobody has written.
    let own = [0, 1].into_iter().chain(3..=10);
    for ino in own.chain([5000, 1 << 24, u32::MAX - 1, u32::MAX]) {
        for generation in [0, 1, u32::MAX] {
            stale(
                &format!("inode {ino} of {generation}"),
                &mount,
                &handle.with_numbers(ino, generation),
            )?;
        }
    }
    let ino = u32::try_from(fs::metadata(dir.join("file"))?.ino()).map_err(|e| e.to_string())?;
    let file = handle.with_numbers(ino, 0).open(&mount, libc::O_RDONLY)?;
    require(content(file)? == data(5), || "other content".into())?;
    make(&dir.join("another"), 5)
}

/// Handles are used while their files come and go: each finds its file or none.
fn beside_changes(dir: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    let handles = std::sync::Mutex::new(Vec::new());
    let done = std::sync::atomic::AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let finders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> Result<u64, Why> {
                    let mut found = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let some: Vec<(Handle, u64)> = handles.lock().map_err(|_| "lock")?.clone();
                        for (handle, ino) in some {
                            match handle.open(&mount, libc::O_PATH) {
                                Ok(file) => equal("inode", file.metadata()?.ino(), ino)?,
                                // The kernel's answer for an inode that is just being made.
                                Err(e) if errno(&e) == libc::ENOMEM => {}
                                Err(e) => equal("errno", errno(&e), libc::ESTALE)?,
                            }
                            found += 1;
                        }
                    }
                    Ok(found)
                })
            })
            .collect();
        let change = || -> Result<(), Why> {
            for round in 0..60 {
                let mut made = Vec::new();
                for i in 0..8 {
                    let path = dir.join(format!("{i}"));
                    if i % 2 == 0 {
                        File::create_new(&path)?;
                    } else {
                        fs::create_dir(&path)?;
                    }
                    made.push((Handle::of(&path, false)?, fs::metadata(&path)?.ino()));
                }
                *handles.lock().map_err(|_| "lock")? = made;
                if round % 8 == 0 {
                    forget()?;
                }
                for i in 0..8 {
                    let path = dir.join(format!("{i}"));
                    if i % 2 == 0 {
                        fs::remove_file(&path)?;
                    } else {
                        fs::remove_dir(&path)?;
                    }
                }
            }
            Ok(())
        };
        let changed = change();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let found: Vec<_> = finders.into_iter().map(|finder| finder.join()).collect();
        changed.map(|()| found)
    })?;
    for finder in found {
        require(finder.map_err(|_| "a thread panicked")?? > 0, || {
            "nothing was looked for".into()
        })?;
    }
    Ok(())
}

/// Prints the handles of all that is below `dir`, with their paths from there.
pub fn print(dir: &Path) -> Result<(), Why> {
    let mut paths = vec![dir.to_path_buf()];
    while let Some(path) = paths.pop() {
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        }
        println!("{} {}", Handle::of(&path, false)?, path.display());
    }
    Ok(())
}

/// Checks that the handles of a list that [`print`] made find what is at the paths.
pub fn find(dir: &Path, list: &Path) -> Result<(), Why> {
    let mount = File::open(dir)?;
    let list = fs::read_to_string(list)?;
    for line in list.lines() {
        let (handle, path) = line.split_once(' ').ok_or("no list of handles")?;
        let handle: Handle = handle.parse()?;
        let file = handle.open(&mount, libc::O_PATH).within(|| path.into())?;
        let (is, want) = (file.metadata()?, fs::symlink_metadata(path)?);
        equal(path, (is.ino(), is.mode()), (want.ino(), want.mode()))?;
    }
    println!("# {} handles", list.lines().count());
    Ok(())
}
