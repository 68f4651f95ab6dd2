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
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// What of a write can be lost alone, in bytes.
const PIECE: usize = 4096;

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
}

/// What a device may hold after a cut.
pub struct State {
    /// The device's content.
    pub image: Vec<u8>,
    /// The number of entries in the log that had happened for sure.
    pub past: usize,
    /// In words.
    pub what: String,
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
        };
        let mut at = sector;
        for _ in 0..number(&head, 16) {
            let mut entry = vec![0; sector as usize];
            log.file.read_exact_at(&mut entry, at)?;
            let flags = number(&entry, 16);
            at += sector;
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
                from: at,
                len: len as usize,
            });
            at += len;
        }
        log.flushes.push(log.entries.len());
        Ok(log)
    }

    /// The number of entries, marks left out.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Applies entry number `nr`; with `lose`, each piece of it only with that chance in 100.
    fn apply(&self, image: &mut [u8], nr: usize, lose: Option<(&mut Rng, u64)>) -> Result<(), Why> {
        let entry = &self.entries[nr];
        let mut data = vec![0; entry.len];
        self.file.read_exact_at(&mut data, entry.from)?;
        let to = image
            .get_mut(entry.to..entry.to + entry.len)
            .ok_or("a write beyond the device")?;
        match lose {
            None => to.copy_from_slice(&data),
            Some((rng, percent)) => {
                for (to, from) in to.chunks_mut(PIECE).zip(data.chunks(PIECE)) {
                    if !rng.chance(percent) {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes `count` states that the device, which held `image` before the first entry, may have
    /// been in at some time from entry `first` on, in the order of time, and calls `f` with each.
    pub fn states(
        &self,
        mut image: Vec<u8>,
        first: usize,
        count: usize,
        rng: &mut Rng,
        mut f: impl FnMut(State) -> Result<(), Why>,
    ) -> Result<(), Why> {
        let span = (self.entries.len() - first) as u64;
        let mut places: Vec<usize> = (0..count)
            .map(|_| first + rng.below(span) as usize)
            .collect();
        places.sort_unstable();
        let mut done = 0;
        for place in places {
            // The flushes before and after.
            let after = self.flushes.partition_point(|&flush| flush <= place);
            let start = after.checked_sub(1).map_or(0, |i| self.flushes[i] + 1);
            let end = self.flushes[after];
            for nr in done..start {
                self.apply(&mut image, nr, None)?;
            }
            done = done.max(start);
            let mut state = State {
                image: image.clone(),
                past: place,
                what: format!("entry {place}"),
            };
            if rng.chance(40) {
                // As the log has it.
                for nr in start..place {
                    self.apply(&mut state.image, nr, None)?;
                }
            } else {
                // Just before the next flush: of what it would make safe, anything may be lost.
                state.past = end;
                let percent = rng.pick(&[5, 50, 90]);
                state.what += &format!(" and up to {end} with {percent} % lost");
                for nr in start..end {
                    let safe = self.entries[nr].flags & FUA != 0;
                    let lose = (!safe).then_some((&mut *rng, percent));
                    self.apply(&mut state.image, nr, lose)?;
                }
            }
            f(state)?;
        }
        Ok(())
    }
}
