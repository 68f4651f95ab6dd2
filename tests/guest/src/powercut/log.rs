// SPDX-License-Identifier: GPL-2.0

//! The log of dm-log-writes, and what the device may hold when the power goes.
//!
//! Source of the format: `drivers/md/dm-log-writes.c`. The log lists a write when it is known to be
//! safe: one with FUA when it is done, others when the next flush is done, before that. So the
//! entries between two flushes are first those with FUA, and the marks, in their order; then those
//! that the second flush made safe, in the order in which they were done.

use crate::rng::Rng;
use crate::why::{require, Why, Within};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// What a disk writes as one, in bytes: the sectors of most disks, and those of old ones.
const SECTORS: [usize; 2] = [4096, 512];
/// The superblock, in bytes from the start. It is not in the journal, and ext4 counts on it being
/// written as one.
const SUPERBLOCK: usize = 1024;
/// Flushes that are left out before a state of [`Log::state`] that is made without them.
const BLIND: usize = 8;
/// The start of a mark at which something big begins.
pub const BIG: &str = "big";

/// One entry.
struct Entry {
    flags: u64,
    /// Where the data belongs on the device, in bytes.
    to: usize,
    /// Where it lies in the log, in bytes.
    from: u64,
    len: usize,
}

/// The whole log.
pub struct Log {
    file: File,
    entries: Vec<Entry>,
    /// The marks: each one's text and the number of entries before it.
    pub marks: Vec<(String, usize)>,
    /// For each flush the number of entries before it; then the number of all.
    flushes: Vec<usize>,
    /// Bytes of the log.
    bytes: u64,
}

/// What a device may hold after a cut, beside the content.
pub struct State {
    /// The number of entries in the log that had happened for sure.
    pub past: usize,
    /// In words.
    pub what: String,
}

/// What of the writes that no flush made safe is lost.
enum Loss {
    /// Each piece of so many bytes, with that chance in 100.
    Pieces(usize, u64),
    /// This entry alone.
    One(usize),
    /// All but this entry.
    Others(usize),
}

impl Log {
    /// Reads the list of entries from the log device.
    pub fn read(path: &Path) -> Result<Self, Why> {
        let file = File::open(path).within(|| format!("{}", path.display()))?;
        let mut head = [0; 28];
        file.read_exact_at(&mut head, 0)?;
        let number = |bytes: &[u8], at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
        };
        require(number(&head, 0) == MAGIC, || {
            "no log of dm-log-writes".into()
        })?;
        let sector = u64::from(u32::from_le_bytes([head[24], head[25], head[26], head[27]]));
        let mut log = Self {
            file,
            entries: Vec::new(),
            marks: Vec::new(),
            flushes: Vec::new(),
            bytes: sector,
        };
        for _ in 0..number(&head, 16) {
            let mut entry = vec![0; sector as usize];
            log.file.read_exact_at(&mut entry, log.bytes)?;
            let flags = number(&entry, 16);
            log.bytes += sector;
            if flags & MARK != 0 {
                let text = &entry[32..32 + number(&entry, 24) as usize];
                let text = String::from_utf8_lossy(text)
                    .trim_end_matches('\0')
                    .to_owned();
                log.marks.push((text, log.entries.len()));
                continue;
            }
            let len = if flags & DISCARD == 0 {
                number(&entry, 8) * sector
            } else {
                0
            };
            if flags & FLUSH != 0 {
                log.flushes.push(log.entries.len());
            }
            log.entries.push(Entry {
                flags,
                to: (number(&entry, 0) * sector) as usize,
                from: log.bytes,
                len: len as usize,
            });
            log.bytes += len;
        }
        log.flushes.push(log.entries.len());
        Ok(log)
    }

    /// The number of entries, marks left out.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of flushes.
    pub fn flushes(&self) -> usize {
        self.flushes.len() - 1
    }

    /// Copies the log to a file.
    pub fn save(&self, path: &Path) -> Result<(), Why> {
        let mut from = File::open(format!("/proc/self/fd/{}", self.fd()))?.take(self.bytes);
        std::io::copy(&mut from, &mut File::create(path)?)?;
        Ok(())
    }

    fn fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.file)
    }

    /// Where to cut: anywhere from entry `first` on, or soon after something big began.
    pub fn place(&self, first: usize, rng: &mut Rng) -> usize {
        let span = (self.entries.len() - first) as u64;
        let place = first + rng.below(span) as usize;
        let big = self.marks.iter().filter(|(text, _)| text == BIG);
        let big: Vec<usize> = big.map(|mark| mark.1).collect();
        if big.is_empty() || rng.chance(70) {
            return place;
        }
        let after = rng.pick(&big) + rng.below(60) as usize;
        after.clamp(first, self.entries.len() - 1)
    }

    /// Applies entry number `nr` but for what the loss takes.
    fn apply(
        &self,
        image: &mut [u8],
        nr: usize,
        loss: Option<(&Loss, &mut Rng)>,
    ) -> Result<(), Why> {
        let entry = &self.entries[nr];
        let mut data = vec![0; entry.len];
        self.file.read_exact_at(&mut data, entry.from)?;
        let to = image
            .get_mut(entry.to..entry.to + entry.len)
            .ok_or("a write beyond the device")?;
        match loss {
            Some((Loss::One(one), _)) if *one == nr => {}
            Some((Loss::Others(one), _)) if *one != nr => {}
            Some((Loss::Pieces(unit, percent), rng)) => {
                let mut at = 0;
                while at < entry.len {
                    let len = if entry.to + at == SUPERBLOCK {
                        SUPERBLOCK.max(*unit)
                    } else {
                        *unit
                    };
                    let end = (at + len).min(entry.len);
                    if !rng.chance(*percent) {
                        to[at..end].copy_from_slice(&data[at..end]);
                    }
                    at = end;
                }
            }
            _ => to.copy_from_slice(&data),
        }
        Ok(())
    }

    /// The flushes around `place`: the number of the first entry after the one before, and that of
    /// the one after.
    fn epoch(&self, place: usize) -> (usize, usize) {
        let after = self.flushes.partition_point(|&flush| flush <= place);
        let start = after.checked_sub(1).map_or(0, |i| self.flushes[i] + 1);
        (start, self.flushes[after.min(self.flushes.len() - 1)])
    }

    /// Makes `out` a state of the device with the cut at `place`, of those that there may have been.
    /// In `image` the first `done` entries are there, which are no more than are safe by then; they
    /// are more afterwards. With `blind` the state is one that would be possible if the device had not been
    /// asked to flush for some time.
    pub fn state(
        &self,
        image: &mut [u8],
        done: &mut usize,
        out: &mut [u8],
        place: usize,
        blind: bool,
        rng: &mut Rng,
    ) -> Result<State, Why> {
        let (mut start, end) = self.epoch(place);
        if blind {
            let before = self.flushes.partition_point(|&flush| flush <= place);
            let first = before.checked_sub(BLIND).map(|i| self.flushes[i] + 1);
            start = first.unwrap_or(0);
        }
        for nr in *done..start {
            self.apply(image, nr, None)?;
        }
        *done = (*done).max(start);
        out.copy_from_slice(image);
        let mut state = State {
            past: place,
            what: format!("entry {place}"),
        };
        let safe = |nr: usize| !blind && self.entries[nr].flags & FUA != 0;
        if !blind && rng.chance(30) {
            // As the log has it; what the disk was writing then may be there in part.
            for nr in start..place {
                self.apply(out, nr, None)?;
            }
            if rng.chance(50) {
                state.what += " in part";
                self.apply(out, place, Some((&Loss::Pieces(SECTORS[1], 50), rng)))?;
            }
            return Ok(state);
        }
        // Just before the next flush: of what it would make safe, anything may be lost.
        state.past = end;
        let unsafe_ones: Vec<usize> = (start..end).filter(|&nr| !safe(nr)).collect();
        let one = (!unsafe_ones.is_empty()).then(|| rng.pick(&unsafe_ones));
        let loss = match (rng.below(10), one) {
            (0, Some(one)) => Loss::One(one),
            (1, Some(one)) => Loss::Others(one),
            _ => Loss::Pieces(rng.pick(&SECTORS), rng.pick(&[5, 50, 50, 90, 100])),
        };
        let lost = match loss {
            Loss::Pieces(unit, percent) => format!("{percent} % of {unit} bytes each"),
            Loss::One(one) => format!("entry {one}"),
            Loss::Others(one) => format!("all but entry {one}"),
        };
        state.what += &format!(", {start} to {end} without {lost}");
        for nr in start..end {
            let loss = (!safe(nr)).then_some((&loss, &mut *rng));
            self.apply(out, nr, loss)?;
        }
        Ok(state)
    }
}
