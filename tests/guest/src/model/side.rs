// SPDX-License-Identifier: GPL-2.0

//! One of the two volumes, and how an operation is done on it.

use super::op::{Op, Slot, SLOTS};
use crate::manifest::read_full;
use crate::rng::{fill, Rng};
use crate::sys::dir::{self, Entry};
use crate::sys::map::{memory_file, Map};
use crate::sys::{errno, extent, meta, process, stat, volume, xattr};
use crate::why::{Why, Within};
use crate::xattrs::random_acl;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{lchown, symlink, DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What came of an operation: what was read, or counts, or nothing; or `errno`.
pub type Answer = Result<Vec<u8>, i32>;

/// One volume, mounted.
pub struct Side {
    /// What it is mounted as.
    pub fs: String,
    /// The device.
    pub dev: PathBuf,
    /// Where it is mounted.
    pub root: PathBuf,
    files: [Option<File>; SLOTS as usize],
    listing: Option<Listing>,
    /// Who operations are done as.
    who: (u32, u32),
}

/// A directory that is being listed.
struct Listing {
    dir: File,
    room: usize,
    seen: Vec<OsString>,
}

impl Side {
    /// Mounts `dev` on `root`.
    pub fn mount(fs: &str, dev: &Path, root: &Path) -> Result<Self, Why> {
        let side = Self {
            fs: fs.to_owned(),
            dev: dev.to_owned(),
            root: root.to_owned(),
            files: Default::default(),
            listing: None,
            who: (0, 0),
        };
        side.mount_again(0).within(|| format!("mounting {fs}"))?;
        Ok(side)
    }

    fn mount_again(&self, flags: u64) -> io::Result<()> {
        let flags = flags | libc::MS_NOATIME | libc::MS_NODEV;
        volume::mount(&self.dev, &self.root, &self.fs, flags, "")
    }

    /// Closes all and unmounts.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.files = Default::default();
        self.listing = None;
        volume::umount(&self.root)
    }

    /// Where `path` is.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The open file of a slot.
    pub fn file(&self, slot: u8) -> Option<&File> {
        self.files.get(usize::from(slot))?.as_ref()
    }

    /// Closes a file.
    pub fn close(&mut self, slot: u8) -> Option<File> {
        self.files.get_mut(usize::from(slot))?.take()
    }

    /// An open file again, for reading.
    pub fn reopen(&self, slot: u8) -> Option<io::Result<File>> {
        let file = self.file(slot)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Some(meta::open(Path::new(&path), libc::O_NONBLOCK as u32, 0))
    }

    /// What the listing that is being made has seen, at its end or before.
    pub fn listed(&self) -> Option<&[OsString]> {
        self.listing.as_ref().map(|listing| &listing.seen[..])
    }

    /// Does `op`.
    pub fn run(&mut self, op: &Op) -> Answer {
        process::act_as(self.who.0, self.who.1);
        let done = self.dispatch(op);
        process::act_as(0, 0);
        done.map_err(|e| errno(&e))
    }

    fn dispatch(&mut self, op: &Op) -> io::Result<Vec<u8>> {
        match op {
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. } => self.name(op).map(|()| Vec::new()),
            Op::Crowd { .. } | Op::Thin { .. } | Op::Clear { .. } => self.many(op),
            Op::List { path, room, at } => list(&self.at(&path.0), *room, *at),
            Op::OpenDir { .. } | Op::ReadDir { .. } => self.listing(op),
            Op::Open { .. } | Op::Nameless { .. } | Op::NameOpen { .. } | Op::Close { .. } => {
                self.handle(op).map(|()| Vec::new())
            }
            Op::Write { .. }
            | Op::Append { .. }
            | Op::Put { .. }
            | Op::Map { .. }
            | Op::Read { .. }
            | Op::Seek { .. }
            | Op::Cut { .. }
            | Op::Truncate { .. }
            | Op::Copy { .. }
            | Op::Fsync { .. }
            | Op::Fdatasync { .. }
            | Op::Forget { .. } => self.data(op),
            Op::Chmod { .. }
            | Op::Chown { .. }
            | Op::Times { .. }
            | Op::SetAttr { .. }
            | Op::GetAttr { .. }
            | Op::RemoveAttr { .. }
            | Op::ListAttrs { .. }
            | Op::SetAcl { .. } => self.attribute(op),
            Op::Who { uid, gid } => {
                self.who = (*uid, *gid);
                Ok(Vec::new())
            }
            Op::Umask { mask } => {
                process::umask(mask.0);
                Ok(Vec::new())
            }
            Op::Sync {}
            | Op::Syncfs {}
            | Op::Drop {}
            | Op::ReadOnly {}
            | Op::Writable {}
            | Op::Freeze {}
            | Op::Remount {}
            | Op::Check {} => {
                process::act_as(0, 0);
                self.whole(op)
            }
            Op::Walk {} => Ok(Vec::new()),
        }
    }

    fn name(&self, op: &Op) -> io::Result<()> {
        match op {
            Op::Create { path, mode } => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode.0)
                .open(self.at(&path.0))
                .map(drop),
            Op::Mkdir { path, mode } => DirBuilder::new().mode(mode.0).create(self.at(&path.0)),
            Op::Mknod {
                path,
                mode,
                major,
                minor,
            } => meta::mknod(&self.at(&path.0), mode.0, *major, *minor),
            Op::Symlink { path, length, key } => symlink(letters(*key, *length), self.at(&path.0)),
            Op::Link { from, to } => fs::hard_link(self.at(&from.0), self.at(&to.0)),
            Op::Unlink { path } => fs::remove_file(self.at(&path.0)),
            Op::Rmdir { path } => fs::remove_dir(self.at(&path.0)),
            Op::Rename { from, to, flags } => {
                meta::rename(&self.at(&from.0), &self.at(&to.0), flags.0)
            }
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }

    fn many(&self, op: &Op) -> io::Result<Vec<u8>> {
        match op {
            Op::Crowd {
                path,
                count,
                length,
                key,
            } => {
                for n in 0..*count {
                    File::create_new(self.at(&path.0).join(crowd_name(*key, n, *length)))?;
                }
                Ok(Vec::new())
            }
            Op::Thin {
                path,
                count,
                length,
                key,
                every,
            } => {
                let mut done = 0_u64;
                for n in (0..*count).step_by((*every).max(1) as usize) {
                    match fs::remove_file(self.at(&path.0).join(crowd_name(*key, n, *length))) {
                        Ok(()) => done += 1,
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        Err(e) => return Err(e),
                    }
                }
                Ok(done.to_string().into())
            }
            Op::Clear { path } => fs::remove_dir_all(self.at(&path.0)).map(|()| Vec::new()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }

    fn listing(&mut self, op: &Op) -> io::Result<Vec<u8>> {
        if let Op::OpenDir { path, room } = op {
            let dir = dir::open(&self.at(&path.0))?;
            dir::read_some(&dir, *room as usize)?;
            dir::seek(&dir, 0)?;
            self.listing = Some(Listing {
                dir,
                room: *room as usize,
                seen: Vec::new(),
            });
            return Ok(Vec::new());
        }
        let Op::ReadDir { times } = op else {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        };
        let listing = self.listing.as_mut().ok_or_else(bad_file)?;
        for _ in 0..*times {
            let some = dir::read_some(&listing.dir, listing.room)?;
            if some.is_empty() {
                break;
            }
            listing
                .seen
                .extend(some.into_iter().map(|entry| entry.name));
        }
        Ok(Vec::new())
    }

    fn handle(&mut self, op: &Op) -> io::Result<()> {
        match op {
            Op::Open { slot, path, flags } => {
                let file = meta::open(&self.at(&path.0), flags.0 | libc::O_NONBLOCK as u32, 0o644)?;
                self.put(*slot, file);
            }
            Op::Nameless { slot, path, mode } => {
                let flags = (libc::O_TMPFILE | libc::O_RDWR) as u32;
                let file = meta::open(&self.at(&path.0), flags, mode.0)?;
                self.put(*slot, file);
            }
            Op::NameOpen { slot, path } => {
                meta::link_open(self.have(*slot)?, &self.at(&path.0))?;
            }
            Op::Close { slot } => drop(self.close(slot.0).ok_or_else(bad_file)?),
            _ => return Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
        Ok(())
    }

    fn put(&mut self, slot: Slot, file: File) {
        if let Some(place) = self.files.get_mut(usize::from(slot.0)) {
            *place = Some(file);
        }
    }

    fn have(&self, slot: Slot) -> io::Result<&File> {
        self.file(slot.0).ok_or_else(bad_file)
    }

    fn data(&self, op: &Op) -> io::Result<Vec<u8>> {
        let number = |n: usize| Ok(n.to_string().into());
        match op {
            Op::Write {
                slot,
                offset,
                length,
                key,
            } => number(
                self.have(*slot)?
                    .write_at(&stream(*key, *offset, *length), *offset)?,
            ),
            Op::Append { slot, length, key } => {
                let mut file = self.have(*slot)?;
                number(file.write(&stream(*key, 0, *length))?)
            }
            Op::Put {
                path,
                flags,
                offset,
                length,
                key,
            } => {
                let mut file = meta::open(
                    &self.at(&path.0),
                    flags.0 | (libc::O_WRONLY | libc::O_NONBLOCK) as u32,
                    0o644,
                )?;
                file.seek(SeekFrom::Start(*offset))?;
                number(file.write(&stream(*key, *offset, *length))?)
            }
            Op::Map {
                slot,
                offset,
                length,
                key,
                sync,
            } => map(
                self.have(*slot)?,
                *offset,
                &stream(*key, *offset, *length),
                *sync != 0,
            ),
            Op::Read {
                slot,
                offset,
                length,
            } => {
                let mut buffer = vec![0; *length as usize];
                let got = read_full(self.have(*slot)?, &mut buffer, *offset)?;
                buffer.truncate(got);
                Ok(buffer)
            }
            Op::Seek {
                slot,
                offset,
                whence,
            } => {
                let found = extent::seek(self.have(*slot)?, *offset, *whence as i32)?;
                Ok(format!("{found:?}").into())
            }
            Op::Cut { slot, size } => self.have(*slot)?.set_len(*size).map(|()| Vec::new()),
            Op::Truncate { path, size } => {
                meta::truncate(&self.at(&path.0), *size).map(|()| Vec::new())
            }
            Op::Copy { from, to, range } => {
                copy(&self.at(&from.0), &self.at(&to.0), *range != 0).map(|()| Vec::new())
            }
            Op::Fsync { slot } => self.have(*slot)?.sync_all().map(|()| Vec::new()),
            Op::Fdatasync { slot } => self.have(*slot)?.sync_data().map(|()| Vec::new()),
            Op::Forget { slot } => extent::forget(self.have(*slot)?).map(|()| Vec::new()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }

    fn attribute(&self, op: &Op) -> io::Result<Vec<u8>> {
        match op {
            Op::Chmod { path, mode } => {
                fs::set_permissions(self.at(&path.0), Permissions::from_mode(mode.0))?;
            }
            Op::Chown { path, uid, gid } => {
                let id = |id: u32| (id != u32::MAX).then_some(id);
                lchown(self.at(&path.0), id(*uid), id(*gid))?;
            }
            Op::Times {
                path,
                accessed,
                modified,
                nanos,
            } => {
                let time = |seconds| meta::Time {
                    seconds,
                    nanos: (*nanos).into(),
                };
                meta::set_times(&self.at(&path.0), time(*accessed), time(*modified))?;
            }
            Op::SetAttr {
                path,
                name,
                length,
                key,
                flags,
            } => {
                let value = stream(*key, 0, *length);
                xattr::set(&self.at(&path.0), name.0.as_bytes(), &value, flags.0 as i32)?;
            }
            Op::GetAttr { path, name, room } => {
                return xattr::get(&self.at(&path.0), name.0.as_bytes(), *room as usize);
            }
            Op::RemoveAttr { path, name } => {
                xattr::remove(&self.at(&path.0), name.0.as_bytes())?;
            }
            Op::ListAttrs { path, room } => {
                // In any order.
                let list = xattr::list(&self.at(&path.0), *room as usize)?;
                let mut names: Vec<_> = list.split(|&byte| byte == 0).collect();
                names.sort_unstable();
                return Ok(names.join(&b' '));
            }
            Op::SetAcl { path, name, key } => {
                let acl = random_acl(&mut Rng::new(*key));
                xattr::set(&self.at(&path.0), name.0.as_bytes(), &acl, 0)?;
            }
            _ => return Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
        Ok(Vec::new())
    }

    /// What concerns the whole volume.
    fn whole(&mut self, op: &Op) -> io::Result<Vec<u8>> {
        match op {
            Op::Sync {} => volume::sync(),
            Op::Syncfs {} => volume::syncfs(&File::open(&self.root)?)?,
            Op::Drop {} => fs::write("/proc/sys/vm/drop_caches", "3")?,
            Op::ReadOnly {} => self.mount_again(libc::MS_REMOUNT | libc::MS_RDONLY)?,
            Op::Writable {} => self.mount_again(libc::MS_REMOUNT)?,
            Op::Freeze {} => {
                let root = File::open(&self.root)?;
                volume::freeze(&root)?;
                volume::thaw(&root)?;
            }
            Op::Remount {} => {
                self.unmount()?;
                self.mount_again(0)?;
            }
            Op::Check {} => {
                self.unmount()?;
                let checked = self.fsck()?;
                self.mount_again(0)?;
                return Ok(checked);
            }
            _ => return Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
        Ok(Vec::new())
    }

    /// What `e2fsck` has to say against the volume, which is not mounted: nothing.
    fn fsck(&self) -> io::Result<Vec<u8>> {
        let checked = Command::new("e2fsck").arg("-fn").arg(&self.dev).output()?;
        let clean = checked.status.success();
        Ok(if clean { Vec::new() } else { checked.stdout })
    }

    /// Free blocks, and all.
    pub fn room(&self) -> io::Result<(u64, u64)> {
        volume::space(&self.root).map(|space| (space.free, space.blocks))
    }

    /// Free inodes.
    pub fn free_inodes(&self) -> io::Result<u64> {
        volume::space(&self.root).map(|space| space.free_files)
    }

    /// Removes `path` with all that is in it, and its data under other names.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        let Ok(found) = stat::of(&path) else {
            return Ok(());
        };
        match found.mode & libc::S_IFMT {
            libc::S_IFDIR => fs::remove_dir_all(path),
            libc::S_IFREG => meta::truncate(&path, 0).and_then(|()| fs::remove_file(path)),
            _ => fs::remove_file(path),
        }
    }
}

fn bad_file() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// `length` bytes of stream `key` from `offset` on.
fn stream(key: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    fill(key, offset, &mut bytes);
    bytes
}

/// `length` letters that `key` determines.
fn letters(key: u64, length: u64) -> OsString {
    let mut rng = Rng::new(key);
    let text: String = (0..length)
        // Never an absolute path: that would lead out of the volume.
        .map(|n| rng.pick(&['a', 'b', 'c', if n == 0 { 'a' } else { '/' }]))
        .collect();
    text.into()
}

/// Name number `n` of a crowd.
pub fn crowd_name(key: u64, n: u64, length: u64) -> String {
    let start = format!("{key:x}-{n}-");
    let rest = (length as usize).saturating_sub(start.len());
    start + &"~".repeat(rest)
}

fn map(file: &File, offset: u64, bytes: &[u8], sync: bool) -> io::Result<Vec<u8>> {
    let mut source = memory_file()?;
    source.write_all(bytes)?;
    let lead = (offset % 4096) as usize;
    let map = Map::new(file, offset - lead as u64, lead + bytes.len(), true)?;
    let stored = map.read_from(&source, lead, bytes.len())?;
    if sync {
        map.sync()?;
    }
    Ok(stored.to_string().into())
}

/// Copies the data of `from` to a new or emptied `to`, and leaves holes where it has some.
fn copy(from: &Path, to: &Path, range: bool) -> io::Result<()> {
    let from = meta::open(from, libc::O_NONBLOCK as u32, 0)?;
    let mut to = meta::open(
        to,
        (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NONBLOCK) as u32,
        0o644,
    )?;
    for (start, end) in extent::data_ranges(&from)? {
        let mut at = start;
        while at < end {
            let count = (end - at) as usize;
            let done = if range {
                extent::copy_range(&to, &from, at, count)?
            } else {
                to.seek(SeekFrom::Start(at))?;
                extent::send(&to, &from, at, count)?
            };
            if done == 0 {
                break;
            }
            at += done as u64;
        }
    }
    to.set_len(from.metadata()?.len())
}

/// The names of a directory, sorted, and whether listing it from the place of an entry gives at
/// least all that came after it.
fn list(path: &Path, room: u64, at: u64) -> io::Result<Vec<u8>> {
    let dir = dir::open(path)?;
    let all = dir::read_all(&dir, room as usize)?;
    let shown = |entry: &Entry| (entry.name.clone(), entry.kind);
    let mut names: Vec<_> = all.iter().map(shown).collect();
    names.sort();
    let mut text = Vec::new();
    for (name, kind) in names {
        text.extend(name.as_bytes());
        text.extend(format!(" {kind}\n").as_bytes());
    }
    if let Some(from) = all.get((at % all.len().max(1) as u64) as usize) {
        dir::seek(&dir, from.next)?;
        let again = dir::read_on(&dir, room as usize)?;
        let again: BTreeSet<_> = again.iter().map(|entry| &entry.name).collect();
        let after = all
            .iter()
            .skip_while(|entry| entry.name != from.name)
            .skip(1);
        for entry in after.filter(|entry| !again.contains(&entry.name)) {
            text.extend(format!("not again: {}\n", entry.name.to_string_lossy()).as_bytes());
        }
    }
    Ok(text)
}
