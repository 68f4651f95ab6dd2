// SPDX-License-Identifier: GPL-2.0

//! A tree that only a complete filesystem can make: what ext4rs must be able to read before it
//! can write it.

use crate::rng::{self, Rng};
use crate::sys::extent::fallocate;
use crate::sys::{errno, meta, volume};
use crate::why::{equal, Why, Within};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{symlink, FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Makes the tree below `root`, which must not exist yet.
pub fn make(root: &Path) -> Result<(), Why> {
    fs::create_dir(root)?;
    type Part = (&'static str, fn(&Path) -> Result<(), Why>);
    let parts: [Part; 8] = [
        ("symlinks", symlinks),
        ("links", hard_links),
        ("gaps", gaps),
        ("unwritten", unwritten),
        ("sparse", sparse),
        ("pieces", pieces),
        ("attributes", attributes),
        ("access", access_lists),
    ];
    for (name, part) in parts {
        let dir = root.join(name);
        fs::create_dir(&dir)?;
        part(&dir).within(|| format!("making {name}"))?;
    }
    // Last: nothing can be added to it any more.
    flags(root).within(|| "making flags".into())
}

/// A new file with `length` bytes of stream `key`.
fn file(path: &Path, key: u64, length: usize) -> Result<File, Why> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let mut data = vec![0; length];
    rng::fill(key, 0, &mut data);
    file.write_all_at(&data, 0)?;
    Ok(file)
}

/// Fast ones (in the inode, up to 59 bytes) and slow ones (in a block).
fn symlinks(dir: &Path) -> Result<(), Why> {
    let block = volume::space(dir)?.block as usize;
    for length in [1, 2, 58, 59, 60, 61, 255, 1000, block - 2, block - 1] {
        let target = "/long/target".bytes().cycle().take(length).map(char::from);
        let made = symlink(
            target.collect::<String>(),
            dir.join(format!("l{length:04}")),
        );
        // The last two lengths are among the others at some block sizes.
        if made.as_ref().err().map(errno) != Some(libc::EEXIST) {
            made.within(|| format!("a link of {length} bytes"))?;
        }
    }
    file(&dir.join("file"), 1, 100)?;
    symlink("file", dir.join("to-file"))?;
    symlink("../symlinks/to-file", dir.join("to-link"))?;
    symlink("loop", dir.join("loop"))?;
    Ok(())
}

fn hard_links(dir: &Path) -> Result<(), Why> {
    file(&dir.join("first"), 2, 5000)?;
    fs::create_dir(dir.join("sub"))?;
    for name in ["second", "sub/third", "sub/fourth"] {
        fs::hard_link(dir.join("first"), dir.join(name))?;
    }
    meta::mknod(&dir.join("pipe"), libc::S_IFIFO | 0o644, 0, 0)?;
    Ok(fs::hard_link(dir.join("pipe"), dir.join("pipe too"))?)
}

/// Directories and space with holes from what was removed.
fn gaps(dir: &Path) -> Result<(), Why> {
    let mut rng = Rng::new(9);
    let holed = dir.join("holed");
    fs::create_dir(&holed)?;
    for i in 0..1200 {
        file(
            &holed.join(format!("{i}-{}", "x".repeat(i % 40))),
            i as u64,
            rng.below(9000) as usize,
        )?;
    }
    for i in (0..1200).filter(|i| i % 3 != 0) {
        fs::remove_file(holed.join(format!("{i}-{}", "x".repeat(i % 40))))?;
    }
    for i in 0..100 {
        file(&holed.join(format!("again{i}")), i, 3000)?;
    }
    fs::rename(
        holed.join("again1"),
        holed.join(format!("renamed{}", "y".repeat(200))),
    )?;
    // Many blocks, three names.
    let emptied = dir.join("emptied");
    fs::create_dir(&emptied)?;
    for i in 0..800 {
        file(&emptied.join(format!("{i:0>100}")), 0, 0)?;
    }
    for i in (0..800).filter(|i| ![5, 400, 799].contains(i)) {
        fs::remove_file(emptied.join(format!("{i:0>100}")))?;
    }
    Ok(())
}

fn unwritten(dir: &Path) -> Result<(), Why> {
    let whole = file(&dir.join("whole"), 0, 0)?;
    fallocate(&whole, 0, 0, 1 << 20)?;
    let odd = file(&dir.join("odd"), 0, 0)?;
    fallocate(&odd, 0, 1000, 100_001)?;
    let middle = file(&dir.join("middle"), 0, 0)?;
    fallocate(&middle, 0, 0, 4 << 20)?;
    middle.write_all_at(&[7; 70_000], 1 << 20)?;
    middle.write_all_at(&[8; 10], 3 << 20)?;
    let beyond = file(&dir.join("beyond"), 3, 10_000)?;
    fallocate(&beyond, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20)?;
    let punched = file(&dir.join("punched"), 4, 1 << 20)?;
    punched.sync_all()?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(&punched, mode, 100_000, 300_000)?;
    let zeroed = file(&dir.join("zeroed"), 5, 1 << 20)?;
    zeroed.sync_all()?;
    fallocate(&zeroed, libc::FALLOC_FL_ZERO_RANGE, 200_000, 300_000)?;
    // Longer than one unwritten extent can be (32,767 blocks).
    let long = file(&dir.join("long"), 0, 0)?;
    let block = volume::space(dir)?.block;
    Ok(fallocate(&long, 0, 0, 33_500 * block)?)
}

/// Far offsets up to the last block that a file can have.
fn sparse(dir: &Path) -> Result<(), Why> {
    let most = ((1 << 32) - 1) * volume::space(dir)?.block as u64;
    let far = file(&dir.join("far"), 0, 0)?;
    for (i, at) in [0, 5000, 1 << 20, 1 << 31, 1 << 32, 1 << 41, most - 3000]
        .iter()
        .enumerate()
    {
        let mut data = vec![0; 3000];
        rng::fill(i as u64, *at, &mut data);
        far.write_all_at(&data, *at)?;
    }
    file(&dir.join("empty-but-large"), 0, 0)?.set_len(most)?;
    Ok(file(&dir.join("cut"), 6, 100_000)?.set_len(50_001)?)
}

/// Extent trees: deep ones, and extents in no order on the disk.
fn pieces(dir: &Path) -> Result<(), Why> {
    let block = volume::space(dir)?.block as u64;
    let deep = file(&dir.join("deep"), 0, 0)?;
    let mut order: Vec<u64> = (0..2500).collect();
    Rng::new(4).shuffle(&mut order);
    for (i, n) in order.into_iter().enumerate() {
        let mut data = vec![0; block as usize];
        rng::fill(7, 2 * n * block, &mut data);
        deep.write_all_at(&data, 2 * n * block)?;
        if i % 500 == 0 {
            deep.sync_all()?;
        }
    }
    let (one, two) = (file(&dir.join("one"), 0, 0)?, file(&dir.join("two"), 0, 0)?);
    for i in (0..60).rev() {
        one.write_all_at(&[i as u8; 9000], i * 9000)?;
        one.sync_all()?;
        two.write_all_at(&[i as u8; 5000], i * 5000)?;
        two.sync_all()?;
    }
    Ok(())
}

/// Extended attributes in the inode and in a block of their own.
fn attributes(dir: &Path) -> Result<(), Why> {
    let block = volume::space(dir)?.block as usize;
    for (name, lengths) in [
        ("small", [3, 10]),
        ("mixed", [20, block / 2]),
        ("large", [30, block / 3]),
    ] {
        let path = dir.join(name);
        file(&path, 8, 5000)?;
        for (i, length) in lengths.into_iter().enumerate() {
            let value = vec![b'v'; length];
            for space in ["user", "trusted", "security"] {
                if i == 0 || space == "user" {
                    meta::set_xattr(&path, format!("{space}.test{i}").as_bytes(), &value)?;
                }
            }
        }
    }
    fs::create_dir(dir.join("sub"))?;
    Ok(meta::set_xattr(
        &dir.join("sub"),
        b"user.on-a-directory",
        b"value",
    )?)
}

/// An ACL as `system.posix_acl_access` holds it; `entries` are tag, permissions, id.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// Nobody, for the entries that are about no user or group of their own.
const NOBODY: u32 = u32::MAX;

/// Files whose ACLs let in users that the mode does not, and keep out some that it would.
fn access_lists(dir: &Path) -> Result<(), Why> {
    let (owner, user, group, in_group, mask, other) = (1, 2, 4, 8, 16, 32);
    let lists = [
        (
            "user-in",
            vec![
                (owner, 6, NOBODY),
                (user, 6, 1000),
                (group, 0, NOBODY),
                (mask, 6, NOBODY),
                (other, 0, NOBODY),
            ],
        ),
        (
            "user-out",
            vec![
                (owner, 6, NOBODY),
                (user, 0, 1000),
                (group, 6, NOBODY),
                (mask, 6, NOBODY),
                (other, 6, NOBODY),
            ],
        ),
        (
            "group-in",
            vec![
                (owner, 7, NOBODY),
                (group, 0, NOBODY),
                (in_group, 5, 2000),
                (mask, 7, NOBODY),
                (other, 0, NOBODY),
            ],
        ),
        (
            "masked",
            vec![
                (owner, 7, NOBODY),
                (user, 7, 1000),
                (group, 7, NOBODY),
                (mask, 4, NOBODY),
                (other, 1, NOBODY),
            ],
        ),
    ];
    for (name, entries) in &lists {
        for is_dir in [false, true] {
            let path = dir.join(format!("{name}{}", if is_dir { ".d" } else { "" }));
            if is_dir {
                fs::create_dir(&path)?;
                file(&path.join("inside"), 9, 10)?;
            } else {
                file(&path, 9, 100)?;
            }
            meta::set_xattr(&path, b"system.posix_acl_access", &acl(entries))?;
        }
    }
    let default = dir.join("default");
    fs::create_dir(&default)?;
    meta::set_xattr(&default, b"system.posix_acl_default", &acl(&lists[0].1))?;
    file(&default.join("inherited"), 9, 100)?;
    Ok(fs::set_permissions(dir, Permissions::from_mode(0o755))?)
}

/// `FS_IMMUTABLE_FL`.
pub const IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`.
pub const APPEND: u32 = 0x20;
/// `FS_JOURNAL_DATA_FL`.
pub const JOURNAL_DATA: u32 = 0x4000;

/// Files and directories that may not be changed, or only added to, and one that journals its
/// data.
fn flags(root: &Path) -> Result<(), Why> {
    let dir = root.join("flags");
    fs::create_dir(&dir)?;
    for (name, flag) in [("immutable", IMMUTABLE), ("append", APPEND)] {
        let (path, sub) = (dir.join(name), dir.join(format!("{name}.d")));
        let one = file(&path, 10, 5000)?;
        fs::create_dir(&sub)?;
        file(&sub.join("inside"), 11, 10)?;
        for open in [one, File::open(&sub)?] {
            meta::set_flags(&open, meta::flags(&open)? | flag)?;
        }
    }
    let journalled = file(&dir.join("journalled"), 12, 5000)?;
    fs::create_dir(dir.join("journalled.d"))?;
    for open in [journalled, File::open(dir.join("journalled.d"))?] {
        meta::set_flags(&open, meta::flags(&open)? | JOURNAL_DATA)?;
    }
    Ok(())
}

/// The flags of [`make`] are obeyed. It adds to the append-only file and directory.
///
/// With `refusing`, a file that journals its data takes no writes.
pub fn check_flags(root: &Path, refusing: bool) -> Result<(), Why> {
    let dir = root.join("flags");
    let denied = |what: &str, result: std::io::Result<()>, want: &[i32]| -> Result<(), Why> {
        match result.as_ref().err().map(errno) {
            Some(code) if want.contains(&code) => Ok(()),
            got => Err(format!("{what}: errno {got:?}, must be one of {want:?}").into()),
        }
    };
    let open = |options: &mut OpenOptions, name: &str| options.open(dir.join(name));
    let eperm = &[libc::EPERM][..];
    let write = open(OpenOptions::new().write(true), "immutable").map(drop);
    denied("opening an immutable file", write, eperm)?;
    let chmod = fs::set_permissions(dir.join("immutable"), Permissions::from_mode(0o777));
    denied("chmod of an immutable file", chmod, eperm)?;
    let made = File::create_new(dir.join("immutable.d/new")).map(drop);
    denied("a file in an immutable directory", made, eperm)?;
    denied(
        "a directory in it",
        fs::create_dir(dir.join("immutable.d/new")),
        eperm,
    )?;
    let write = open(OpenOptions::new().write(true), "append").map(drop);
    denied("opening an append-only file to write", write, eperm)?;
    let append = open(OpenOptions::new().append(true), "append")?;
    let size = append.metadata()?.size();
    std::io::Write::write_all(&mut &append, b"more")?;
    if append.metadata()?.size() != size + 4 {
        return Err("an append-only file did not grow".into());
    }
    denied("truncating it", append.set_len(size + 100), eperm)?;
    File::create_new(dir.join("append.d/new"))
        .within(|| "adding to an append-only directory".into())?;
    let journalled = open(OpenOptions::new().write(true), "journalled");
    let wrote = journalled.and_then(|file| file.write_all_at(b"x", 0));
    let inside = dir.join("journalled.d");
    let made = File::create_new(inside.join("new")).map(drop);
    fs::create_dir(inside.join("directory"))?;
    let left = fs::read_dir(&inside)?.count();
    equal("files made", left, if refusing { 1 } else { 2 })?;
    if refusing {
        let eopnotsupp = &[libc::EOPNOTSUPP];
        denied("making a file that journals its data", made, eopnotsupp)?;
        denied(
            "writing a file that journals its data",
            wrote,
            &[libc::EROFS, libc::EOPNOTSUPP],
        )
    } else {
        made?;
        Ok(wrote?)
    }
}
