// SPDX-License-Identifier: GPL-2.0

//! New versions of files, put in the place of the old ones.

use super::{bytes, create, expect, Test};
use crate::sys::extent::fiemap;
use crate::why::{equal, Why};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("replaced-by-rename-is-written", rename_over_writes),
    ("replaced-file-stays-readable", old_version_stays),
];

/// `FIEMAP_EXTENT_DELALLOC`
const DELAYED: u32 = 4;

/// Whether any of the file's data waits for blocks.
fn is_delayed(path: &Path) -> Result<bool, Why> {
    let extents = fiemap(&File::open(path)?, false)?;
    Ok(extents.iter().any(|extent| extent.flags & DELAYED != 0))
}

/// Renaming a new file over an old one starts its write-back, so that soon after either is on the
/// disk, and nothing between. A rename to a new name does not.
fn rename_over_writes(dir: &Path) -> Result<(), Why> {
    for (name, old, delayed) in [("over", true, false), ("beside", false, true)] {
        let (new, path) = (dir.join(format!("{name}.new")), dir.join(name));
        if old {
            create(&path)?.write_all_at(&bytes(1, 0, 3000), 0)?;
        }
        let file = create(&new)?;
        file.write_all_at(&bytes(2, 0, 200_000), 0)?;
        equal("delayed before", is_delayed(&new)?, true)?;
        fs::rename(&new, &path)?;
        equal(name, is_delayed(&path)?, delayed)?;
        expect(&File::open(&path)?, 0, &bytes(2, 0, 200_000))?;
    }
    Ok(())
}

/// Who has the old version open goes on reading it.
fn old_version_stays(dir: &Path) -> Result<(), Why> {
    let (new, path) = (dir.join("new"), dir.join("file"));
    let old = create(&path)?;
    old.write_all_at(&bytes(1, 0, 50_000), 0)?;
    create(&new)?.write_all_at(&bytes(2, 0, 30_000), 0)?;
    fs::rename(&new, &path)?;
    expect(&old, 0, &bytes(1, 0, 50_000))?;
    super::to_disk(&old)?;
    expect(&old, 0, &bytes(1, 0, 50_000))?;
    expect(&File::open(&path)?, 0, &bytes(2, 0, 30_000))
}
