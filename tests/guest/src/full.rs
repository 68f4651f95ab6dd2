// SPDX-License-Identifier: GPL-2.0

//! A small volume written until nothing more fits: whoever was told "written" keeps his data.

use crate::kernel::Messages;
use crate::manifest::read_full;
use crate::report::Report;
use crate::rng::{self, Rng};
use crate::sys::map::Map;
use crate::sys::process::{become_user, in_child, End};
use crate::sys::{errno, extent, volume};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::thread;

/// A file and how much of it was acknowledged.
struct Written {
    file: File,
    key: u64,
    length: u64,
}

impl Written {
    fn check(&self) -> Result<(), Why> {
        self.file.sync_all().within(|| "fsync".into())?;
        extent::forget(&self.file)?;
        let mut is = vec![0; 1 << 16];
        let mut want = is.clone();
        let mut at = 0;
        while at < self.length {
            let length = (self.length - at).min(1 << 16) as usize;
            let got = read_full(&self.file, &mut is[..length], at)?;
            rng::fill(self.key, at, &mut want[..length]);
            require(is[..got] == want[..length], || {
                format!("other bytes at {at}")
            })?;
            at += length as u64;
        }
        equal("size", self.file.metadata()?.len(), self.length)
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}

/// Writes one file after the other until one write gets no space.
fn fill(dir: &Path, thread: u64) -> Result<Vec<Written>, Why> {
    let mut rng = Rng::new(thread);
    let mut done = Vec::new();
    let mut data = vec![0; 60_000];
    for i in 0.. {
        let file = match create(&dir.join(format!("{thread}-{i}"))) {
            Ok(file) => file,
            Err(e) if errno(&e) == libc::ENOSPC => break,
            Err(e) => return Err(e.into()),
        };
        let mut one = Written {
            file,
            key: rng.next(),
            length: 0,
        };
        let want = rng.within(1, 1_500_000);
        let mut full = false;
        while one.length < want && !full {
            let length = rng.within(1, 60_000) as usize;
            rng::fill(one.key, one.length, &mut data[..length]);
            match one.file.write_at(&data[..length], one.length) {
                Ok(n) => one.length += n as u64,
                Err(e) if errno(&e) == libc::ENOSPC => full = true,
                Err(e) => return Err(e.into()),
            }
        }
        done.push(one);
        if full {
            break;
        }
    }
    Ok(done)
}

/// All tests on the volume mounted at `dir`, which is small and empty.
pub fn run(dir: &Path, report: &mut Report) -> Result<(), Why> {
    let mut messages = Messages::new()?;
    let mut written = Vec::new();
    report.test("written-until-full", || {
        let all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|i| scope.spawn(move || fill(dir, i))).collect();
            threads
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect()
        });
        for one in all {
            written.extend(one.map_err(|_| "a writer panicked")??);
        }
        let bytes: u64 = written.iter().map(|one| one.length).sum();
        println!("# {} files, {} KiB", written.len(), bytes >> 10);
        written.iter().try_for_each(Written::check)
    });
    report.test("space-is-used", || {
        let space = volume::space(dir)?;
        // What is kept for the blocks of extent trees is free, too.
        require(space.free * 30 <= space.blocks, || {
            format!(
                "{} of {} blocks are free, and a write found none",
                space.free, space.blocks
            )
        })
    });
    report.test("overwriting-needs-none", || overwrite(&mut written));
    report.test("store-into-hole-is-sigbus", || store_into_hole(dir));
    report.test("directories-when-full", || directories(dir));
    report.test("still-consistent", || {
        written.iter().try_for_each(Written::check)
    });
    report.test("nothing-was-lost", || {
        let lines = messages.take();
        let bad = |line: &&String| line.contains("-fs error") || line.contains("data loss");
        let found = lines.iter().find(bad);
        found.map_or(Ok(()), |line| Err(line.as_str().into()))
    });
    Ok(())
}

/// The last twentieth is for root.
pub fn reserve(dir: &Path) -> Result<(), Why> {
    let open = dir.join("users");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, Permissions::from_mode(0o777))?;
    // Most of the space goes first, as root, so that the user's part is short.
    let before = volume::space(dir)?;
    let ballast = File::create_new(dir.join("ballast"))?;
    let chunk = vec![0x42; 1 << 16];
    let leave = before.blocks * before.block as u64 / 8;
    let mut at = 0;
    while volume::space(dir)?.available * before.block as u64 > leave {
        ballast.write_all_at(&chunk, at)?;
        at += chunk.len() as u64;
    }
    ballast.sync_all()?;
    let end = in_child(|| {
        become_user(1000, 1000).map_err(|e| e.to_string())?;
        let file = create(&open.join("file")).map_err(|e| e.to_string())?;
        for at in (0..).step_by(1 << 16) {
            match file.write_all_at(&[0x55; 1 << 16], at) {
                Ok(()) => {}
                Err(e) if errno(&e) == libc::ENOSPC => break,
                Err(e) => return Err(e.to_string()),
            }
        }
        file.sync_all().map_err(|e| e.to_string())
    })?;
    equal("the user's part", end, End::Answer(Ok(())))?;
    let after = volume::space(dir)?;
    require(after.available * 40 <= after.blocks, || {
        format!("{} blocks were left for users", after.available)
    })?;
    require(after.free * 30 >= after.blocks, || {
        format!("only {} are left for root", after.free)
    })?;
    File::create_new(dir.join("root"))?
        .write_all_at(&chunk, 0)
        .within(|| "root's write".into())
}

/// Blocks that are on the disk already can be written again.
fn overwrite(written: &mut [Written]) -> Result<(), Why> {
    for one in written
        .iter_mut()
        .filter(|one| one.length > 20_000)
        .take(10)
    {
        one.key ^= 0x5555;
        let mut data = vec![0; one.length as usize];
        rng::fill(one.key, 0, &mut data);
        one.file.write_all_at(&data, 0)?;
        one.check()?;
    }
    Ok(())
}

fn store_into_hole(dir: &Path) -> Result<(), Why> {
    let path = dir.join("hole");
    let file = match create(&path) {
        Ok(file) => file,
        // Not even a name fits: then there is no hole to store into.
        Err(e) if errno(&e) == libc::ENOSPC => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    file.set_len(64 << 20)?;
    let map = Map::new(&file, 0, 64 << 20, true)?;
    let end = in_child(|| {
        for at in (0..64 << 20).step_by(4096) {
            map.store(at, &[1]);
        }
        Ok(())
    })?;
    equal(
        "stores into more hole than there is space",
        end,
        End::Signal(libc::SIGBUS),
    )?;
    drop(map);
    file.sync_all().within(|| "fsync of what was stored".into())
}

/// Names and directories are made or refused, never half.
fn directories(dir: &Path) -> Result<(), Why> {
    let mut refused = 0;
    for i in 0..300 {
        let path = dir.join(format!("directory-{i:0>200}"));
        match fs::create_dir(&path) {
            Ok(()) => require(fs::metadata(&path)?.is_dir(), || "it is not there".into())?,
            Err(e) if errno(&e) == libc::ENOSPC => {
                refused += 1;
                let found = fs::symlink_metadata(&path).err().map(|e| errno(&e));
                equal("a refused directory", found, Some(libc::ENOENT))?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    require(refused > 0, || {
        "300 directories fit on a full volume".into()
    })
}

/// One block in every two until there is no space: each needs room in the extent tree too, and
/// that must have been set aside when the write was acknowledged.
pub fn fragments(dir: &Path) -> Result<(), Why> {
    let mut messages = Messages::new()?;
    let block = volume::space(dir)?.block as u64;
    let file = create(&dir.join("fragments"))?;
    let mut data = vec![0; block as usize];
    let mut count = 0;
    loop {
        rng::fill(5, count * 2 * block, &mut data);
        match file.write_at(&data, count * 2 * block) {
            Ok(n) if n == data.len() => count += 1,
            Ok(_) => break,
            Err(e) if errno(&e) == libc::ENOSPC => break,
            Err(e) => return Err(e.into()),
        }
    }
    file.sync_all().within(|| "fsync".into())?;
    extent::forget(&file)?;
    let mut is = data.clone();
    for i in 0..count {
        rng::fill(5, i * 2 * block, &mut data);
        file.read_exact_at(&mut is, i * 2 * block)?;
        require(is == data, || {
            format!("other bytes in piece {i} of {count}")
        })?;
    }
    println!("# {count} pieces");
    let lost = messages
        .take()
        .into_iter()
        .find(|line| line.contains("data loss"));
    lost.map_or(Ok(()), |line| Err(line.into()))
}

/// Files until there is no inode: as many as were free, and each of them there.
pub fn inodes(dir: &Path) -> Result<(), Why> {
    let free = volume::space(dir)?.free_files;
    let mut made = 0;
    loop {
        match create(&dir.join(format!("{made}"))) {
            Ok(_) => made += 1,
            Err(e) if errno(&e) == libc::ENOSPC => break,
            Err(e) => return Err(e.into()),
        }
    }
    equal("files made", made, free)?;
    equal("free inodes", volume::space(dir)?.free_files, 0)?;
    let refused = fs::create_dir(dir.join("directory"))
        .err()
        .map(|e| errno(&e));
    equal("a directory", refused, Some(libc::ENOSPC))?;
    for i in 0..made {
        fs::metadata(dir.join(format!("{i}"))).within(|| format!("file {i}"))?;
    }
    Ok(())
}
