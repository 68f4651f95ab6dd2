// SPDX-License-Identifier: GPL-2.0

//! What a task does to the data of its files.

use super::history::Data;
use super::log::BIG;
use super::model::{self, PAGE, WORD};
use super::task::{fits, Live, Task};
use super::tree::Change;
use super::work::Work;
use crate::sys::{errno, extent, map::Map};
use crate::why::{Why, Within};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Words that all files of a task have at most, about.
const ROOM: usize = (5 << 19) / WORD;
/// Words that one write or store may need beyond.
const MOST: usize = 5000;
/// Pieces of a file that is in pieces.
const PIECES: usize = 250;

impl Task {
    fn live(&self, id: u16) -> Live {
        let none = Live {
            size: 0,
            last: 0,
            sized: 0,
        };
        self.files.get(&id).copied().unwrap_or(none)
    }

    /// The number of the file's next write.
    fn next_write(&mut self, id: u16) -> u16 {
        let Some(file) = self.files.get_mut(&id) else {
            return 1;
        };
        file.last += 1;
        file.last
    }

    /// The words of all files that have names.
    fn used(&self) -> usize {
        let inodes = self.tree.inodes.iter();
        let named = inodes.filter(|(&ino, _)| self.tree.links(ino) > 0);
        named.map(|(_, inode)| self.live(inode.id).size).sum()
    }

    /// True where something should go.
    pub fn too_much(&self) -> bool {
        self.used() > ROOM
    }

    /// Cuts or removes the largest files.
    pub fn remove_largest(&mut self, work: &Work) -> Result<(), Why> {
        while self.used() > ROOM / 2 {
            let names = self.tree.names.iter().map(|(key, ino)| {
                let id = self.tree.inodes.get(ino).map_or(0, |inode| inode.id);
                (self.live(id).size, id, key.clone())
            });
            let Some((size, id, key)) = names.max() else {
                return Ok(());
            };
            work.mark(BIG)?;
            if self.rng.chance(40) {
                let path = self.path(work, &key)?;
                let open = OpenOptions::new().write(true).open(path);
                let open = open.within(|| "open to cut".into())?;
                let words = self.rng.below(size as u64 / 2 + 1) as usize;
                self.resize(&open, id, words)?;
            } else {
                self.remove(work, key)?;
            }
        }
        Ok(())
    }

    /// One operation on the data of a file.
    pub fn use_file(&mut self, work: &Work) -> Result<(), Why> {
        let Some((key, ino, id)) = self.some_file() else {
            return Ok(());
        };
        let sync = if self.rng.chance(6) {
            self.rng.pick(&[libc::O_DSYNC, libc::O_SYNC])
        } else {
            0
        };
        let path = self.path(work, &key)?;
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(sync)
            .open(&path)
            .within(|| "open".into())?;
        let sync = sync != 0;
        let size = self.live(id).size;
        if self.live(id).last > u16::MAX / 2 {
            // There are no more numbers.
            return self.resize(&open, id, 0);
        }
        match self.rng.below(100) {
            0..26 => {
                let count = self.rng.pick(&[1, 5, 100, 511, 512, 513, 2500, 4500]);
                self.write(work, &open, id, size, count, sync)
            }
            26..40 if size > 0 => {
                let at = self.rng.below(size as u64) as usize;
                let count = self.rng.pick(&[1, 40, 128, 512, 1500]).min(size - at);
                self.write(work, &open, id, at, count, sync)
            }
            40..45 => {
                let at = size + self.rng.within(1, 3000) as usize;
                let count = self.rng.within(1, 1000) as usize;
                self.write(work, &open, id, at, count, sync)
            }
            45..49 => {
                let words = size + self.rng.within(1, 4000) as usize;
                self.resize(&open, id, words)
            }
            49..56 if size > 0 => {
                if size > MOST {
                    work.mark(BIG)?;
                }
                let words = self.rng.below(size as u64) as usize;
                self.resize(&open, id, words)
            }
            56..60 => self.rewrite(work, &path, id),
            60..63 => self.scatter(work, &open, ino, id),
            63..75 if size > 0 => self.store(work, &open, id),
            75..88 => self.fsync(work, &open, ino, id),
            88..97 => {
                open.sync_data().within(|| "fdatasync".into())?;
                work.promised([self.promise(self.live(id).sized, Data::File(id))])
            }
            97.. => extent::forget(&open).within(|| "fadvise".into()),
            _ => Ok(()),
        }
    }

    /// `fsync` of inode `ino` with file `id`.
    pub fn fsync(&mut self, work: &Work, open: &File, ino: u64, id: u16) -> Result<(), Why> {
        open.sync_all().within(|| "fsync".into())?;
        work.promised([self.promise(self.touched(ino), Data::File(id))])
    }

    /// Gives the file a size in words.
    fn resize(&mut self, open: &File, id: u16, words: usize) -> Result<(), Why> {
        if fits(open.set_len((words * WORD) as u64), "truncate")?.is_some() {
            self.resized(open, id, words)?;
        }
        Ok(())
    }

    /// Notes that the file was given a size in words.
    fn resized(&mut self, open: &File, id: u16, words: usize) -> Result<(), Why> {
        let ino = open.metadata()?.ino();
        let inode = self.tree.inodes.get(&ino).cloned();
        let size = Change::Size { id, words };
        // The inode is as it was, and yet it was changed.
        let same = inode.map(|inode| Change::Inode { ino, inode });
        self.record(same.into_iter().chain([size]).collect());
        Ok(())
    }

    /// Empties the file by opening it, and writes it anew.
    fn rewrite(&mut self, work: &Work, path: &Path, id: u16) -> Result<(), Why> {
        let mut open = OpenOptions::new();
        let Some(open) = fits(open.write(true).truncate(true).open(path), "O_TRUNC")? else {
            return Ok(());
        };
        self.resized(&open, id, 0)?;
        let count = self.rng.pick(&[0, 3, 600, 2000]);
        self.write(work, &open, id, 0, count, false)
    }

    /// Writes `bytes` to word `at` on; how many words fitted.
    fn put(open: &File, at: usize, bytes: &[u8]) -> Result<usize, Why> {
        let mut done = 0;
        while done < bytes.len() {
            match open.write_at(&bytes[done..], (at * WORD + done) as u64) {
                Ok(n) => done += n,
                Err(e) if errno(&e) == libc::ENOSPC => break,
                Err(e) => return Err(e).within(|| "write".into()),
            }
        }
        Ok(done / WORD)
    }

    /// Writes `count` words from word `at` on; with `sync` the file is open for synchronous writes.
    pub fn write(
        &mut self,
        work: &Work,
        open: &File,
        id: u16,
        at: usize,
        count: usize,
        sync: bool,
    ) -> Result<(), Why> {
        let write = self.next_write(id);
        let count = Self::put(open, at, &model::bytes(id, at, count, write))?;
        if count == 0 {
            return Ok(());
        }
        self.record(vec![Change::Write {
            id,
            at,
            count,
            write,
        }]);
        if sync {
            let words = Data::Words { id, at, count };
            work.promised([self.promise(self.live(id).sized, words)])?;
        }
        Ok(())
    }

    /// Writes single blocks with holes between them.
    fn scatter(&mut self, work: &Work, open: &File, ino: u64, id: u16) -> Result<(), Why> {
        let block = self.block / WORD;
        let start = self.live(id).size.next_multiple_of(block);
        let mut changes = Vec::new();
        for piece in 0..self.rng.within(30, PIECES as u64) as usize {
            let (at, write) = (start + 2 * piece * block, self.next_write(id));
            let count = Self::put(open, at, &model::bytes(id, at, block, write))?;
            if count == 0 {
                break;
            }
            changes.push(Change::Write {
                id,
                at,
                count,
                write,
            });
        }
        self.record(changes);
        if self.rng.chance(70) {
            self.fsync(work, open, ino, id)?;
        }
        Ok(())
    }

    /// Stores words through memory; sometimes also beyond the end of the file, in its last page.
    fn store(&mut self, work: &Work, open: &File, id: u16) -> Result<(), Why> {
        let size = self.live(id).size;
        let pages = size.div_ceil(PAGE) as u64;
        let first = self.rng.below(pages) as usize;
        let count = self.rng.within(1, 8).min(pages - first as u64) as usize;
        let from = first * PAGE;
        let map = Map::new(open, (from * WORD) as u64, count * PAGE * WORD, true)
            .within(|| "mmap".into())?;
        let end = from + count * PAGE;
        let mut changes = Vec::new();
        // A store to a hole of a full volume is a signal, not an error: only what is there is
        // stored over.
        let there = extent::data_ranges(open).within(|| "SEEK_DATA".into())?;
        for page in first..first + count {
            let at = page * PAGE + self.rng.below(PAGE as u64 / 2) as usize;
            let words = self.rng.within(1, PAGE as u64 / 2) as usize;
            let words = words.min(size.saturating_sub(at));
            let bytes = (
                (page * PAGE * WORD) as u64,
                ((page + 1) * PAGE * WORD) as u64,
            );
            let whole =
                |&(a, b): &(u64, u64)| a <= bytes.0 && bytes.1.min((size * WORD) as u64) <= b;
            if words == 0 || !there.iter().any(whole) {
                continue;
            }
            let write = self.next_write(id);
            map.store((at - from) * WORD, &model::bytes(id, at, words, write));
            changes.push(Change::Write {
                id,
                at,
                count: words,
                write,
            });
            if page + 1 == first + count && end > size && self.rng.chance(60) {
                map.store((size - from) * WORD, &model::poison(end - size));
            }
        }
        self.record(changes);
        if self.rng.chance(25) {
            map.sync().within(|| "msync".into())?;
            let words = Data::Words {
                id,
                at: from,
                count: end - from,
            };
            work.promised([self.promise(self.live(id).sized, words)])?;
        }
        Ok(())
    }
}
