// SPDX-License-Identifier: GPL-2.0

//! What the files of the test hold, and what of that must be there after a power cut.
//!
//! A file is a sequence of words of eight bytes. Each says which file it is of, where it belongs
//! and which write put it there, so that whatever a cut leaves behind can be judged: lost, of
//! another place or another file, or never written at all.

use crate::why::Why;

/// Bytes in a word.
pub const WORD: usize = 8;
/// A page of memory, in words.
pub const PAGE: usize = 4096 / WORD;
/// The file that words beyond the end of a file say they are of: none may ever be seen.
const NOBODY: u16 = u16::MAX;

/// The word number `at` of file `id`, as write number `write` made it. Writes count from 1.
fn word(id: u16, at: usize, write: u16) -> u64 {
    (u64::from(id) << 48) | (u64::from(write) << 32) | at as u64
}

/// The bytes that write `write` puts to the `count` words from `at` on.
pub fn bytes(id: u16, at: usize, count: usize, write: u16) -> Vec<u8> {
    (at..at + count)
        .flat_map(|at| word(id, at, write).to_le_bytes())
        .collect()
}

/// What is stored beyond the end of a file, where nothing counts.
pub fn poison(count: usize) -> Vec<u8> {
    bytes(NOBODY, 0, count, 1)
}

/// Something that happened to a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write, of the next number, covers `count` words from word `at` on.
    Write { at: usize, count: usize, write: u16 },
    /// The file was given that size, in words.
    Size(usize),
    /// All of the file as it is now is promised.
    Promise,
    /// These words are promised, if the file has them.
    PromiseWords { at: usize, count: usize },
}

/// The operations of a task that a state of its metadata holds: at least the first, at most the
/// second number of them.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub least: usize,
    pub most: usize,
}

/// What a file may hold.
#[derive(Default)]
pub struct Allowed {
    /// For each word the write that it was of last; 0: none, it was zero.
    last: Vec<u16>,
    /// For each word the first write that it may be of.
    least: Vec<u16>,
    /// For each word: it may be zero.
    zero: Vec<bool>,
    /// What each write covers, from number 1 on.
    covers: Vec<(usize, usize)>,
    /// The size as the calls made it.
    size: usize,
    /// The sizes that it may have.
    sizes: (usize, usize),
}

impl Allowed {
    /// What a file may hold to which these things happened, each in the operation of that number,
    /// where operations are in `held`.
    pub fn new<'a>(events: impl Iterator<Item = &'a (usize, Event)>, held: Held) -> Self {
        let mut all = Self::default();
        for (nr, event) in events {
            match *event {
                Event::Write { at, count, write } => all.write(at, count, write),
                Event::Size(words) => all.resize(words, *nr, held),
                Event::Promise => {
                    all.promise(0, all.last.len());
                    all.sizes.0 = all.size;
                }
                Event::PromiseWords { at, count } => {
                    let end = (at + count).min(all.size);
                    all.promise(at.min(end), end);
                    all.sizes.0 = all.sizes.0.max(end);
                }
            }
        }
        all
    }

    fn grow(&mut self, words: usize) {
        if self.last.len() < words {
            self.last.resize(words, 0);
            self.least.resize(words, 0);
            self.zero.resize(words, true);
        }
    }

    fn write(&mut self, at: usize, count: usize, write: u16) {
        let end = at + count;
        self.grow(end);
        self.last[at..end].fill(write);
        self.covers.resize(usize::from(write) - 1, (0, 0));
        self.covers.push((at, end));
        self.size = self.size.max(end);
        self.sizes.1 = self.sizes.1.max(end);
    }

    /// No write so far.
    fn next(&self) -> u16 {
        self.covers.len() as u16 + 1
    }

    fn resize(&mut self, words: usize, nr: usize, held: Held) {
        self.grow(words);
        let cut = words < self.size;
        let next = self.next();
        self.last[words..].fill(0);
        if nr <= held.least {
            // It is so for sure.
            self.least[words..].fill(next);
            self.zero[words..].fill(true);
            self.sizes.1 = words;
            self.sizes.0 = if cut { self.sizes.0.min(words) } else { words };
        } else if nr <= held.most {
            self.zero[words..].fill(true);
            self.sizes.1 = self.sizes.1.max(words);
            self.sizes.0 = self.sizes.0.min(words);
        } else {
            // Not in the journal; what is left of the last page may have been cleared already.
            let end = words.next_multiple_of(PAGE).min(self.zero.len());
            self.zero[words.min(end)..end].fill(true);
        }
        self.size = words;
    }

    fn promise(&mut self, at: usize, end: usize) {
        let next = self.next();
        for i in at..end {
            self.zero[i] = self.last[i] == 0;
            self.least[i] = if self.zero[i] { next } else { self.last[i] };
        }
    }

    /// Judges what file `id` holds.
    pub fn judge(&self, id: u16, is: &[u8]) -> Result<(), Why> {
        let words = is.len() / WORD;
        if is.len() % WORD != 0 || words < self.sizes.0 || words > self.sizes.1 {
            let (least, most) = (self.sizes.0 * WORD, self.sizes.1 * WORD);
            let is = is.len();
            return Err(format!("is {is} bytes long, must be {least} to {most}").into());
        }
        for (at, bytes) in is.chunks_exact(WORD).enumerate() {
            let value = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            if !self.fits(id, at, value) {
                let (byte, least) = (at * WORD, self.least[at]);
                let zero = if self.zero[at] { " or zero" } else { "" };
                return Err(format!(
                    "byte {byte} of {}: {value:#018x} where write {least} of file {id} or a later \
                     one{zero} is due",
                    is.len()
                )
                .into());
            }
        }
        Ok(())
    }

    fn fits(&self, id: u16, at: usize, value: u64) -> bool {
        if value == 0 {
            return self.zero[at];
        }
        let write = (value >> 32) as u16;
        let covered = usize::from(write)
            .checked_sub(1)
            .and_then(|i| self.covers.get(i));
        value == word(id, at, write)
            && write >= self.least[at]
            && covered.is_some_and(|&(from, to)| (from..to).contains(&at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Held = Held {
        least: 100,
        most: 100,
    };

    fn judge(events: &[Event], held: Held, is: &[u8]) -> bool {
        let events: Vec<_> = events.iter().copied().enumerate().collect();
        let events: Vec<_> = events.iter().map(|&(nr, event)| (nr + 1, event)).collect();
        Allowed::new(events.iter(), held).judge(7, is).is_ok()
    }

    fn write(at: usize, count: usize, write: u16) -> Event {
        Event::Write { at, count, write }
    }

    #[test]
    fn a_loss_a_stranger_and_a_later_write_tell_apart() {
        let events = [write(0, 4, 1), Event::Promise, write(2, 4, 2)];
        let old = bytes(7, 0, 4, 1);
        assert!(judge(&events, ALL, &old));
        assert!(!judge(&events, ALL, &old[..3 * WORD]));
        let mut new = old.clone();
        new.truncate(2 * WORD);
        new.extend(bytes(7, 2, 4, 2));
        assert!(judge(&events, ALL, &new));
        for bad in [bytes(8, 0, 4, 1), bytes(7, 0, 4, 2), vec![0xa5; 4 * WORD]] {
            assert!(!judge(&events, ALL, &bad));
        }
        let mut lost = old;
        lost[..WORD].fill(0);
        assert!(!judge(&events, ALL, &lost));
        assert!(judge(&events[..1], ALL, &lost));
    }

    #[test]
    fn what_was_cut_off_stays_away_once_the_cut_is_there() {
        let events = [write(0, 1024, 1), Event::Size(2), Event::Size(1024)];
        let whole = bytes(7, 0, 1024, 1);
        let mut cut = whole.clone();
        cut[2 * WORD..].fill(0);
        let [before, after] = [1, 3].map(|n| Held { least: n, most: n });
        assert!(judge(&events, before, &whole) && !judge(&events, after, &whole));
        assert!(judge(&events, after, &cut));
        assert!(!judge(&events, after, &cut[..2 * WORD]));
        let unsure = Held { least: 1, most: 3 };
        assert!(judge(&events, unsure, &whole) && judge(&events, unsure, &cut));
        let promised = [events[0], Event::Promise, Event::Size(1022)];
        let before = Held { least: 2, most: 2 };
        assert!(!judge(&promised, before, &cut) && judge(&promised, before, &whole));
    }

    #[test]
    fn some_words_can_be_promised_alone() {
        let words = Event::PromiseWords { at: 1, count: 2 };
        let events = [write(0, 4, 1), words];
        let mut is = bytes(7, 0, 4, 1);
        is[..WORD].fill(0);
        assert!(judge(&events, ALL, &is) && judge(&events, ALL, &is[..3 * WORD]));
        assert!(!judge(&events, ALL, &is[..2 * WORD]));
        is[WORD..2 * WORD].fill(0);
        assert!(!judge(&events, ALL, &is));
    }
}
