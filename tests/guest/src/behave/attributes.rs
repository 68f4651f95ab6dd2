// SPDX-License-Identifier: GPL-2.0

//! Owners, modes, times, link counts.

use super::{create, Test};
use crate::sys::errno;
use crate::sys::map::Map;
use crate::sys::meta::{self, Time};
use crate::sys::process::{become_user, in_child, umask, End};
use crate::why::{equal, require, Why, Within};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{
    chown, DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("attributes-chown-clears-setuid", chown_clears_setuid),
    ("attributes-write-clears-setuid", write_clears_setuid),
    ("attributes-setgid-of-a-stranger", setgid_of_a_stranger),
    ("attributes-permissions", permissions),
    ("attributes-only-the-owner-may", only_the_owner_may),
    ("attributes-umask-and-mode", umask_and_mode),
    ("attributes-write-times", write_times),
    (
        "attributes-directory-times-and-links",
        directory_times_and_links,
    ),
    ("attributes-change-time", change_time),
    ("attributes-access-time", access_time),
    ("attributes-times-out-of-range", times_out_of_range),
    ("attributes-large-owners", large_owners),
    ("attributes-immutable-while-open", immutable_while_open),
    ("attributes-append-only", append_only),
    ("attributes-known-to-statx", known_to_statx),
];

/// `FS_IMMUTABLE_FL`
const IMMUTABLE: u32 = 0x10;
/// `FS_NODUMP_FL`
const NODUMP: u32 = 0x40;
/// `FS_APPEND_FL`
const APPEND: u32 = 0x20;

/// The user that tests become where root may too much.
const USER: u32 = 1000;

/// Runs `work` as [`USER`].
fn as_user(work: impl FnOnce() -> Result<(), Why>) -> Result<(), Why> {
    let end = in_child(|| {
        become_user(USER, USER).map_err(|e| e.to_string())?;
        work().map_err(|why| why.to_string())
    })?;
    match end {
        End::Answer(answer) => Ok(answer?),
        End::Signal(signal) => Err(format!("the child died of signal {signal}").into()),
    }
}

fn mode(path: &Path, mode: u32) -> Result<(), Why> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .within(|| format!("chmod {mode:o} {}", path.display()))
}

fn refused<T>(what: &str, result: std::io::Result<T>, want: i32) -> Result<(), Why> {
    equal(what, result.err().map(|e| errno(&e)), Some(want))
}

fn chown_clears_setuid(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    mode(&path, 0o6755)?;
    chown(&path, Some(5), Some(6))?;
    equal("mode", fs::metadata(&path)?.mode(), libc::S_IFREG | 0o755)?;
    // Without group execute, setgid is no privilege (it once meant mandatory locks).
    mode(&path, 0o6644)?;
    chown(&path, Some(7), None)?;
    equal("mode", fs::metadata(&path)?.mode(), libc::S_IFREG | 0o2644)
}

fn write_clears_setuid(dir: &Path) -> Result<(), Why> {
    mode(dir, 0o777)?;
    let path = dir.join("f");
    create(&path)?.write_all_at(b"program", 0)?;
    mode(&path, 0o6777)?;
    OpenOptions::new()
        .write(true)
        .open(&path)?
        .write_all_at(b"root", 0)?;
    equal(
        "after root's write",
        fs::metadata(&path)?.mode() & 0o7777,
        0o6777,
    )?;
    as_user(|| {
        Ok(OpenOptions::new()
            .write(true)
            .open(&path)?
            .write_all_at(b"user", 0)?)
    })?;
    equal(
        "after a user's write",
        fs::metadata(&path)?.mode() & 0o7777,
        0o777,
    )?;
    mode(&path, 0o6777)?;
    as_user(|| {
        Ok(OpenOptions::new()
            .write(true)
            .open(&path)?
            .set_len(10_000)?)
    })?;
    equal(
        "after a user's truncate",
        fs::metadata(&path)?.mode() & 0o7777,
        0o777,
    )
}

fn setgid_of_a_stranger(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    chown(&path, Some(USER), Some(77))?;
    as_user(|| mode(&path, 0o2755))?;
    equal(
        "not in the group",
        fs::metadata(&path)?.mode() & 0o7777,
        0o755,
    )?;
    chown(&path, Some(USER), Some(USER))?;
    as_user(|| mode(&path, 0o2755))?;
    equal("in the group", fs::metadata(&path)?.mode() & 0o7777, 0o2755)
}

fn permissions(dir: &Path) -> Result<(), Why> {
    let (secret, closed) = (dir.join("secret"), dir.join("closed"));
    create(&secret)?;
    mode(&secret, 0o600)?;
    fs::create_dir(&closed)?;
    create(&closed.join("inside"))?;
    mode(&closed, 0o700)?;
    mode(dir, 0o755)?;
    as_user(|| {
        refused("reading", File::open(&secret), libc::EACCES)?;
        refused("listing", fs::read_dir(&closed), libc::EACCES)?;
        refused(
            "looking inside",
            fs::metadata(closed.join("inside")),
            libc::EACCES,
        )?;
        refused(
            "making a file",
            File::create_new(dir.join("new")),
            libc::EACCES,
        )?;
        refused(
            "making a directory",
            fs::create_dir(dir.join("new")),
            libc::EACCES,
        )?;
        refused(
            "making a node",
            meta::mknod(&dir.join("new"), libc::S_IFIFO, 0, 0),
            libc::EACCES,
        )
    })?;
    mode(dir, 0o777)?;
    as_user(|| {
        let device = meta::mknod(&dir.join("device"), libc::S_IFCHR, 1, 3);
        refused("making a device", device, libc::EPERM)?;
        create(&dir.join("mine"))?;
        Ok(fs::create_dir(dir.join("mine too"))?)
    })?;
    let mine = fs::metadata(dir.join("mine"))?;
    equal("owner", (mine.uid(), mine.gid()), (USER, USER))
}

fn only_the_owner_may(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    mode(&path, 0o666)?;
    let past = Time {
        seconds: 1,
        nanos: 1,
    };
    as_user(|| {
        let chmod = fs::set_permissions(&path, Permissions::from_mode(0o777));
        refused("chmod", chmod, libc::EPERM)?;
        refused("chown", chown(&path, Some(USER), None), libc::EPERM)?;
        refused("utimes", meta::set_times(&path, past, past), libc::EPERM)
    })?;
    chown(&path, Some(USER), Some(USER))?;
    as_user(|| {
        mode(&path, 0o400)?;
        meta::set_times(&path, past, past)?;
        refused("giving away", chown(&path, Some(0), None), libc::EPERM)?;
        refused(
            "a group of others",
            chown(&path, None, Some(0)),
            libc::EPERM,
        )
    })
}

fn umask_and_mode(dir: &Path) -> Result<(), Why> {
    let old = [
        ("a", 0o000, 0o666),
        ("b", 0o027, 0o640),
        ("c", 0o777, 0o000),
    ];
    for (name, mask, want) in old {
        let (file, directory) = (dir.join(name), dir.join(format!("{name}.d")));
        umask(mask);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(&file);
        let made_dir = fs::DirBuilder::new().mode(0o1777).create(&directory);
        umask(0o022);
        made?;
        made_dir?;
        equal("file", fs::metadata(&file)?.mode() & 0o7777, want)?;
        let want = 0o1000 | (0o777 & !mask);
        equal("directory", fs::metadata(&directory)?.mode() & 0o7777, want)?;
    }
    Ok(())
}

/// Changed and modified, to the nanosecond, in an order that can be compared.
fn stamps(found: &Metadata) -> [(i64, i64); 2] {
    [
        (found.ctime(), found.ctime_nsec()),
        (found.mtime(), found.mtime_nsec()),
    ]
}

/// Long enough for a new time stamp: the kernel's are as coarse as its tick.
fn tick() {
    sleep(Duration::from_millis(20));
}

fn write_times(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    let mut last = stamps(&file.metadata()?);
    let mut later = |what: &str| -> Result<(), Why> {
        let now = stamps(&fs::metadata(&path)?);
        let grew = now[0] > last[0] && now[1] > last[1];
        require(grew, || format!("{what}: {last:?} became {now:?}"))?;
        last = now;
        tick();
        Ok(())
    };
    tick();
    file.write_all_at(b"x", 0)?;
    later("write")?;
    file.write_all_at(b"y", 0)?;
    later("overwrite")?;
    file.set_len(9999)?;
    later("growing truncate")?;
    // `ftruncate` to the same size counts as a change too (POSIX, and ext4).
    file.set_len(9999)?;
    later("truncate to the same size")
}

fn directory_times_and_links(dir: &Path) -> Result<(), Why> {
    let mut last = stamps(&fs::metadata(dir)?);
    let mut links = 2;
    for i in 0..6 {
        tick();
        let path = dir.join(i.to_string());
        if i % 2 == 0 {
            fs::create_dir(&path)?;
            links += 1;
            equal("links of a new directory", fs::metadata(&path)?.nlink(), 2)?;
        } else {
            create(&path)?;
        }
        let found = fs::metadata(dir)?;
        equal("links", found.nlink(), links)?;
        let now = stamps(&found);
        require(now[0] > last[0] && now[1] > last[1], || {
            format!("times stay at {now:?}")
        })?;
        last = now;
    }
    Ok(())
}

/// A change of attributes moves the change time alone.
fn change_time(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    let mut last = stamps(&fs::metadata(&path)?);
    let mut changed = |what: &str| -> Result<(), Why> {
        let now = stamps(&fs::metadata(&path)?);
        require(now[0] > last[0], || format!("{what} left the change time"))?;
        equal("modification time", now[1], last[1])?;
        last = now;
        tick();
        Ok(())
    };
    tick();
    mode(&path, 0o600)?;
    changed("chmod")?;
    chown(&path, Some(9), Some(9))?;
    changed("chown")?;
    let found = fs::metadata(&path)?;
    let modified = Time {
        seconds: found.mtime(),
        nanos: found.mtime_nsec(),
    };
    meta::set_times(
        &path,
        Time {
            seconds: 77,
            nanos: 77,
        },
        modified,
    )?;
    changed("utimes")?;
    equal("access time", fs::metadata(&path)?.atime(), 77)
}

/// `relatime`: the first read after a change moves it, the second does not.
fn access_time(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    file.write_all_at(b"x", 0)?;
    let atime = || fs::metadata(&path).map(|found| (found.atime(), found.atime_nsec()));
    let before = atime()?;
    tick();
    file.read_exact_at(&mut [0], 0)?;
    let first = atime()?;
    require(first > before, || {
        format!("{first:?} after a read, {before:?} before")
    })?;
    tick();
    file.read_exact_at(&mut [0], 0)?;
    equal("after the second read", atime()?, first)
}

/// A time that the disk cannot hold becomes the nearest one, in memory too.
fn times_out_of_range(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    let (low, high) = (-(1_i64 << 31), (1_i64 << 34) - 1 - (1 << 31));
    let set = |seconds| Time { seconds, nanos: 0 };
    meta::set_times(&path, set(low - 1000), set(high + 1000))?;
    let found = fs::metadata(&path)?;
    equal("times", (found.atime(), found.mtime()), (low, high))
}

fn large_owners(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    create(&path)?;
    for owner in [0, 65535, 65536, 0x1234_5678, u32::MAX - 1] {
        chown(&path, Some(owner), Some(owner ^ 2))?;
        let found = fs::metadata(&path)?;
        equal("owner", (found.uid(), found.gid()), (owner, owner ^ 2))?;
    }
    Ok(())
}

/// Who has a file open for writing when it becomes immutable cannot change it any more: neither by
/// a call nor by a store.
fn immutable_while_open(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    file.write_all_at(&[1; 8192], 0)?;
    // Two pages, of which the first is writable in memory already.
    let map = Map::new(&file, 0, 8192, true)?;
    map.store(100, &[2]);
    let store = |at: usize| {
        in_child(|| {
            map.store(at, &[3]);
            Ok(())
        })
    };
    let immutable = || -> Result<(), Why> {
        let before = stamps(&file.metadata()?);
        refused("write", file.write_all_at(b"x", 0), libc::EPERM)?;
        refused("append", file.write_all_at(b"x", 8192), libc::EPERM)?;
        for size in [0, 100, 8192, 9000] {
            refused("ftruncate", file.set_len(size), libc::EPERM)?;
        }
        refused("chmod", mode_of(&file, 0o600), libc::EPERM)?;
        let flags = meta::flags(&file)?;
        let more = meta::set_flags(&file, flags | NODUMP);
        refused("another attribute", more, libc::EPERM)?;
        for at in [100, 5000] {
            equal("a store", store(at)?, End::Signal(libc::SIGBUS))?;
        }
        equal("times", stamps(&file.metadata()?), before)
    };
    meta::set_flags(&file, meta::flags(&file)? | IMMUTABLE)?;
    let done = immutable();
    meta::set_flags(&file, meta::flags(&file)? & !IMMUTABLE)?;
    done?;
    let mut found = [0; 8192];
    file.read_exact_at(&mut found, 0)?;
    equal(
        "what was stored",
        found.iter().filter(|&&b| b != 1).count(),
        1,
    )?;
    equal("a store after", store(100)?, End::Answer(Ok(())))?;
    file.write_all_at(b"x", 0)?;
    file.read_exact_at(&mut found, 0)?;
    equal("the byte", found[100], 3)
}

fn append_only(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    file.write_all_at(&[1; 100], 0)?;
    let past = Time {
        seconds: 1,
        nanos: 1,
    };
    let append = || -> Result<(), Why> {
        refused("ftruncate", file.set_len(10), libc::EPERM)?;
        refused("chmod", mode_of(&file, 0o600), libc::EPERM)?;
        refused("utimes", meta::set_times(&path, past, past), libc::EPERM)?;
        let open = |append| OpenOptions::new().write(true).append(append).open(&path);
        refused("open", open(false), libc::EPERM)?;
        open(true)?.write_all_at(b"more", 0)?;
        equal("size", file.metadata()?.len(), 104)
    };
    meta::set_flags(&file, meta::flags(&file)? | APPEND)?;
    let done = append();
    meta::set_flags(&file, meta::flags(&file)? & !APPEND)?;
    done
}

fn known_to_statx(dir: &Path) -> Result<(), Why> {
    let path = dir.join("f");
    let file = create(&path)?;
    let all = libc::STATX_ATTR_APPEND
        | libc::STATX_ATTR_COMPRESSED
        | libc::STATX_ATTR_ENCRYPTED
        | libc::STATX_ATTR_IMMUTABLE
        | libc::STATX_ATTR_NODUMP;
    let all = all as u64;
    equal("known", meta::statx(&path)?.known & all, all)?;
    meta::set_flags(&file, meta::flags(&file)? | NODUMP)?;
    let set = meta::statx(&path)?.attributes & all;
    equal("set", set, libc::STATX_ATTR_NODUMP as u64)
}

fn mode_of(file: &File, mode: u32) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}
