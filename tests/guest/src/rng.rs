// SPDX-License-Identifier: GPL-2.0

//! Everything random in the tests comes from here, so that a seed names a test.

/// Added between two outputs of the generator (the golden ratio in 64 bits).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the bits of `x` over the whole word (the finaliser of splitmix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A small deterministic generator (splitmix64).
pub struct Rng(u64);

impl Rng {
    /// A generator whose whole sequence is given by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The next 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number in `0..n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next().checked_rem(n).unwrap_or(0)
    }

    /// A number in `lo..=hi`.
    pub fn within(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    /// True in `percent` of 100 calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One element of `items`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// The eight bytes of stream `key` that start at byte `8 * word`.
fn word(key: u64, word: u64) -> u64 {
    let x = key.wrapping_add(word.wrapping_mul(STEP));
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

/// Fills `buf` with the bytes of stream `key` from byte `offset` on.
///
/// A byte depends on the key and its own offset alone: a file written in any pieces and any order
/// holds the same bytes, and a reader can compute any part of it.
pub fn fill(key: u64, offset: u64, buf: &mut [u8]) {
    let lead = ((8 - offset % 8) % 8).min(buf.len() as u64) as usize;
    let (head, rest) = buf.split_at_mut(lead);
    fill_bytes(key, offset, head);
    let mut at = offset + lead as u64;
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(key, at / 8).to_le_bytes());
        at += 8;
    }
    fill_bytes(key, at, words.into_remainder());
}

/// [`fill`] for the few bytes that do not make a whole word.
fn fill_bytes(key: u64, offset: u64, buf: &mut [u8]) {
    for (i, byte) in buf.iter_mut().enumerate() {
        let at = offset + i as u64;
        *byte = word(key, at / 8).to_le_bytes()[(at % 8) as usize];
    }
}

/// A running 64-bit digest of bytes. It tells files apart; it is no defence against an adversary.
pub struct Digest {
    state: u64,
    length: u64,
}

impl Digest {
    /// The digest of no bytes.
    pub fn new() -> Self {
        Self {
            state: STEP,
            length: 0,
        }
    }

    /// Takes `bytes` in. Every call but the last must be a multiple of eight bytes long, so that
    /// the pieces do not show in the result.
    pub fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let mut words = bytes.chunks_exact(8);
        for chunk in &mut words {
            self.step(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let tail = words.remainder();
        if !tail.is_empty() {
            let mut last = [0; 8];
            last[..tail.len()].copy_from_slice(tail);
            self.step(u64::from_le_bytes(last));
        }
    }

    fn step(&mut self, word: u64) {
        self.state = (self.state ^ word)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
            .rotate_left(29);
    }

    /// The digest of all bytes so far and of how many they were.
    pub fn finish(&self) -> u64 {
        mix(self.state ^ self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_same_bytes_as_the_whole() {
        let mut whole = vec![0; 1000];
        fill(7, 13, &mut whole);
        for cut in [0, 1, 3, 8, 499, 993, 1000] {
            let mut parts = vec![0; 1000];
            fill(7, 13, &mut parts[..cut]);
            fill(7, 13 + cut as u64, &mut parts[cut..]);
            assert_eq!(whole, parts, "cut at {cut}");
        }
    }

    #[test]
    fn keys_and_lengths_tell_apart() {
        let (mut a, mut b) = ([0; 64], [0; 64]);
        fill(1, 0, &mut a);
        fill(2, 0, &mut b);
        assert_ne!(a, b);
        let digest = |bytes: &[u8]| {
            let mut d = Digest::new();
            d.update(bytes);
            d.finish()
        };
        assert_ne!(digest(&[0; 8]), digest(&[0; 16]));
        assert_ne!(digest(&[0; 3]), digest(&[0; 4]));
    }
}
