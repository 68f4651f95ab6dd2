// SPDX-License-Identifier: GPL-2.0

//! The decisions of the allocator, held against slow and obvious ones.

#![cfg(test)]

#[path = "../../ext4rs/alloc/buddy.rs"]
mod buddy;
#[path = "../../ext4rs/alloc/orlov.rs"]
mod orlov;
#[path = "../../ext4rs/alloc/windows.rs"]
mod windows;
#[path = "../../ext4rs/alloc/zones.rs"]
mod zones;

mod groups;
mod inodes;
mod runs;
mod writers;

/// A small generator (xorshift64*), so that a failure can be repeated from its seed.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as u32) % n
    }

    /// A number up to `n`, small ones as likely as large ones.
    fn skewed(&mut self, n: u32) -> u32 {
        let bits = self.below(33 - n.leading_zeros());
        self.below((1u32 << bits).min(n) + 1)
    }
}

/// A bitmap of `bits` bits, used in runs of any length.
fn fragmented(rng: &mut Rng, bits: u32) -> Vec<u8> {
    let mut map = vec![0xff; bits as usize / 8];
    let mut at = 0;
    while at < bits {
        let used = rng.skewed(bits / 4);
        let free = rng.skewed(bits / 4);
        let from = (at + used).min(bits);
        let to = (from + free).min(bits);
        ext4rs_layout::bitmap::clear_range(&mut map, from, to);
        at = to + 1;
    }
    map
}
