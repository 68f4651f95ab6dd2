// SPDX-License-Identifier: GPL-2.0

//! Calls that ext4rs does not do yet: each says EOPNOTSUPP and changes nothing.

use crate::manifest::{manifest, Details};
use crate::report::Report;
use crate::rng;
use crate::sys::extent::fallocate;
use crate::sys::{errno, meta};
use crate::why::{equal, require, Why};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A call on the files of [`prepare`].
type Call = (&'static str, fn(&Path) -> io::Result<()>);

/// All calls that must be refused.
const CALLS: &[Call] = &[
    ("fallocate", |dir| fallocate(&open(dir)?, 0, 0, 50_000)),
    ("fallocate-keep-size", |dir| {
        fallocate(&open(dir)?, libc::FALLOC_FL_KEEP_SIZE, 0, 50_000)
    }),
    ("punch-hole", |dir| {
        fallocate(
            &open(dir)?,
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            0,
            4096,
        )
    }),
    ("zero-range", |dir| {
        fallocate(&open(dir)?, libc::FALLOC_FL_ZERO_RANGE, 0, 4096)
    }),
    ("collapse-range", |dir| {
        fallocate(&open(dir)?, libc::FALLOC_FL_COLLAPSE_RANGE, 0, 4096)
    }),
    ("insert-range", |dir| {
        fallocate(&open(dir)?, libc::FALLOC_FL_INSERT_RANGE, 0, 4096)
    }),
];

fn open(dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.join("file"))
}

/// The files that the calls are about.
fn prepare(dir: &Path) -> Result<(), Why> {
    fs::create_dir(dir)?;
    for (name, key) in [("file", 1), ("other", 2)] {
        let mut data = vec![0; 20_000];
        rng::fill(key, 0, &mut data);
        let file = File::create_new(dir.join(name))?;
        file.write_all_at(&data, 0)?;
        file.sync_all()?;
    }
    meta::mknod(&dir.join("pipe"), libc::S_IFIFO | 0o600, 0, 0)?;
    fs::create_dir(dir.join("empty"))?;
    fs::create_dir(dir.join("full"))?;
    File::create_new(dir.join("full/inside"))?;
    Ok(())
}

fn state(dir: &Path) -> Result<Vec<u8>, Why> {
    let mut out = Vec::new();
    manifest(
        dir,
        Details {
            layout: true,
            xattrs: false,
            access: false,
        },
        &mut out,
    )?;
    Ok(out)
}

/// Makes every call in a directory of its own below `root`. With `allowed`, on a filesystem that
/// does them all, each must succeed: then a refusal is not one of a wrong call.
pub fn run(root: &Path, allowed: bool, report: &mut Report) {
    for (name, call) in CALLS {
        report.test(name, || {
            let dir = root.join(name);
            prepare(&dir)?;
            let before = state(&dir)?;
            let answer = call(&dir).err().map(|e| errno(&e));
            if allowed {
                return equal("errno", answer, None);
            }
            equal("errno", answer, Some(libc::EOPNOTSUPP))?;
            require(state(&dir)? == before, || {
                "the refused call changed something".into()
            })
        });
    }
}
