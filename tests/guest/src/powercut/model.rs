// SPDX-License-Identifier: GPL-2.0

//! What the files of the test hold, and what of that must be there after a power cut.
//!
//! A file is a sequence of words of eight bytes. Each says which file it is of, where it belongs
//! and which write put it there, so that whatever a cut leaves behind can be judged: lost, of
//! another place, or never written to the file at all.

use crate::why::Why;

/// Bytes in a word.
pub const WORD: usize = 8;
/// The file that words beyond the end of a file say they are of: none may ever be seen.
const NOBODY: u16 = 0xdead;

/// The word number `at` of file `id`, as write number `write` made it. Writes count from 1.
fn word(id: u16, at: usize, write: u16) -> u64 {
    (u64::from(id) << 48) | (u64::from(write) << 32) | at as u64
}

/// What a file must hold.
#[derive(Clone, Default)]
pub struct Model {
    /// The number of the write that each word is of; 0: it reads as zero.
    pub writes: Vec<u16>,
    /// The number of the last write.
    pub last: u16,
}

impl Model {
    /// The number of the next write.
    pub fn next(&mut self) -> u16 {
        self.last += 1;
        self.last
    }

    /// Notes that `write` covers `count` words from word `at` on.
    pub fn put(&mut self, at: usize, count: usize, write: u16) {
        self.grow(at + count);
        self.writes[at..at + count].fill(write);
    }

    /// Notes that the file has at least `words` words.
    pub fn grow(&mut self, words: usize) {
        if self.writes.len() < words {
            self.writes.resize(words, 0);
        }
    }

    /// Takes over what `other` promises of the words from `at` on.
    pub fn merge(&mut self, at: usize, other: &[u16]) {
        self.grow(at + other.len());
        for (mine, theirs) in self.writes[at..].iter_mut().zip(other) {
            *mine = (*mine).max(*theirs);
        }
    }
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

/// Judges what file `id` holds: at least what `promised` says, and otherwise zeros and what some
/// write, up to number `last`, put there. No file was ever longer than `longest` words.
pub fn judge(id: u16, is: &[u8], promised: &Model, last: u16, longest: usize) -> Result<(), Why> {
    let words = is.len() / WORD;
    if is.len() % WORD != 0 || words < promised.writes.len() || words > longest {
        return Err(format!(
            "is {} bytes long, must be {} to {}",
            is.len(),
            promised.writes.len() * WORD,
            longest * WORD
        )
        .into());
    }
    for (at, bytes) in is.chunks_exact(WORD).enumerate() {
        let value = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let least = promised.writes.get(at).copied().unwrap_or(0);
        let write = (value >> 32) as u16;
        let fine = if value == 0 {
            least == 0
        } else {
            value == word(id, at, write) && (least.max(1)..=last).contains(&write)
        };
        if !fine {
            return Err(format!(
                "byte {}: {value:#018x} where write {least} or a later one up to {last} is due",
                at * WORD
            )
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_a_stranger_and_a_later_write_tell_apart() {
        let mut promised = Model::default();
        let write = promised.next();
        promised.put(0, 4, write);
        promised.grow(6);
        let mut is = bytes(7, 0, 4, 1);
        is.resize(6 * WORD, 0);
        assert_eq!(judge(7, &is, &promised, 1, 6), Ok(()));
        assert!(judge(8, &is, &promised, 1, 6).is_err());
        assert!(judge(7, &is[..5 * WORD], &promised, 1, 6).is_err());
        assert!(judge(7, &is, &promised, 1, 5).is_err());
        let mut lost = is.clone();
        lost[..WORD].fill(0);
        assert!(judge(7, &lost, &promised, 1, 6).is_err());
        let mut stale = is.clone();
        stale[5 * WORD..].fill(0xa5);
        assert!(judge(7, &stale, &promised, 1, 6).is_err());
        is[4 * WORD..].copy_from_slice(&bytes(7, 4, 2, 2));
        assert_eq!(judge(7, &is, &promised, 2, 6), Ok(()));
        assert!(judge(7, &is, &promised, 1, 6).is_err());
    }
}
