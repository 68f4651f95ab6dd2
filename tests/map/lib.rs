// SPDX-License-Identifier: GPL-2.0

//! The mapping of a file, as it is in the module, over models of everything below it: an allocator
//! that hands out short runs, a journal that counts credits, locks that know who may sleep.
//!
//! The crate goes by the names of those it stands in for, so that the module's files find what
//! they import.

#![cfg(test)]
#![allow(dead_code)]
// Two private files of the mapping are tested by themselves, too.
#![allow(clippy::duplicate_mod)]

extern crate self as ext4rs_vfs;
extern crate self as kernel;

#[path = "../../ext4rs/map/edit.rs"]
mod edit;
#[path = "../../ext4rs/map/mod.rs"]
mod map;
#[path = "../../ext4rs/metadata.rs"]
mod metadata;
#[path = "../../ext4rs/map/status.rs"]
mod status;

mod kernel_model;
mod volume_model;

mod pieces;
mod random;
mod sets;
mod tree;

use kernel_model::{fmt, prelude, rbtree, sync};
use volume_model::{alloc, buffer_head, inode, journal, memalloc, report, rwsem, volume};

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

    /// A number from 1 to `n`, small ones as likely as large ones.
    fn length(&mut self, n: u32) -> u32 {
        let bits = self.below(32 - n.leading_zeros());
        self.below((2u32 << bits).min(n)) + 1
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}
