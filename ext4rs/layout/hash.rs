// SPDX-License-Identifier: GPL-2.0

//! The hash of a file name, by which directories are indexed.

use crate::bytes::join32;
use crate::error::{Error, Result};

/// A hash algorithm. The number is `hash_version` of an index root; that a byte above 127 is
/// taken as signed or unsigned is a property of the whole volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The oldest one (0).
    Legacy,
    /// MD4 cut down (1), the default.
    HalfMd4,
    /// Tiny encryption algorithm (2).
    Tea,
}

/// A name's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash {
    /// What indexes are ordered by. Always even: the low bit of an index entry marks a hash that
    /// goes on from the leaf before.
    pub major: u32,
    /// Orders names of equal `major` when a directory is read; not stored.
    pub minor: u32,
}

impl Hash {
    /// Both as one number, as a directory position.
    pub fn position(self) -> u64 {
        join32(self.major, self.minor)
    }
}

/// The largest major hash: one less than the mark of the end of a directory.
const EOF_MAJOR: u32 = 0xffff_fffe;
/// What a name that hashes to the mark gets instead.
const LAST_MAJOR: u32 = 0xffff_fffc;

/// All that the hash of a name depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hasher {
    /// Which hash.
    pub algorithm: Algorithm,
    /// Bytes above 127 count as unsigned.
    pub unsigned: bool,
    /// `s_hash_seed`; all zeros stand for a fixed default.
    pub seed: [u32; 4],
}

impl Hasher {
    /// Makes a hasher from an index root's (or the superblock's default) version number and the
    /// volume's signedness and seed.
    ///
    /// Versions 3 to 5 are those that ext4 uses in memory for unsigned bytes; they never are on
    /// disk in a root, and are refused here. SipHash (6) needs the key of an encrypted directory.
    pub fn new(version: u8, unsigned: bool, seed: [u32; 4]) -> Result<Self> {
        let algorithm = match version {
            0 => Algorithm::Legacy,
            1 => Algorithm::HalfMd4,
            2 => Algorithm::Tea,
            6 => return Err(Error::Unsupported("directory hashed with SipHash")),
            _ => return Err(Error::Corrupt("unrecognised directory hash")),
        };
        Ok(Self {
            algorithm,
            unsigned,
            seed,
        })
    }

    /// Hashes a name.
    pub fn hash(&self, name: &[u8]) -> Hash {
        let mut state = if self.seed == [0; 4] {
            [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]
        } else {
            self.seed
        };
        let (major, minor) = match self.algorithm {
            Algorithm::Legacy => (self.legacy(name), 0),
            Algorithm::HalfMd4 => {
                let mut rest = name;
                while !rest.is_empty() {
                    half_md4(&mut state, &self.words::<8>(rest));
                    rest = rest.get(32..).unwrap_or(&[]);
                }
                (state[1], state[2])
            }
            Algorithm::Tea => {
                let mut rest = name;
                while !rest.is_empty() {
                    tea(&mut state, &self.words::<4>(rest));
                    rest = rest.get(16..).unwrap_or(&[]);
                }
                (state[0], state[1])
            }
        };
        let major = match major & !1 {
            EOF_MAJOR => LAST_MAJOR,
            other => other,
        };
        Hash { major, minor }
    }

    /// A byte as the number that the hash adds.
    fn value(&self, byte: u8) -> u32 {
        if self.unsigned {
            u32::from(byte)
        } else {
            i32::from(byte as i8) as u32
        }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut h0, mut h1) = (0x12a3_fe2du32, 0x37ab_e8f9u32);
        for &b in name {
            let mut h = h1.wrapping_add(h0 ^ self.value(b).wrapping_mul(7_152_373));
            if h & 0x8000_0000 != 0 {
                h = h.wrapping_sub(0x7fff_ffff);
            }
            h1 = h0;
            h0 = h;
        }
        h0 << 1
    }

    /// The next `N` words of input. Bytes are shifted in from the top; what the name does not
    /// fill is filled with its remaining length.
    fn words<const N: usize>(&self, rest: &[u8]) -> [u32; N] {
        let len = (rest.len() & 0xff) as u32;
        let pad = len.wrapping_mul(0x0101_0101);
        let mut words = [pad; N];
        for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
            *word = bytes
                .iter()
                .fold(pad, |w, &b| (w << 8).wrapping_add(self.value(b)));
        }
        words
    }
}

fn half_md4(state: &mut [u32; 4], input: &[u32; 8]) {
    const K2: u32 = 0x5a82_7999;
    const K3: u32 = 0x6ed9_eba1;
    let f = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let g = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let h = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let [i0, i1, i2, i3, i4, i5, i6, i7] = *input;
    let mut s = *state;
    let round = |s: &mut [u32; 4], mix: &dyn Fn(u32, u32, u32) -> u32, x: u32, rot: u32| {
        let [a, b, c, d] = *s;
        let a = a
            .wrapping_add(mix(b, c, d))
            .wrapping_add(x)
            .rotate_left(rot);
        // The roles turn by one place each step.
        *s = [d, a, b, c];
    };
    for (x, rot) in [
        (i0, 3),
        (i1, 7),
        (i2, 11),
        (i3, 19),
        (i4, 3),
        (i5, 7),
        (i6, 11),
        (i7, 19),
    ] {
        round(&mut s, &f, x, rot);
    }
    for (x, rot) in [
        (i1, 3),
        (i3, 5),
        (i5, 9),
        (i7, 13),
        (i0, 3),
        (i2, 5),
        (i4, 9),
        (i6, 13),
    ] {
        round(&mut s, &g, x.wrapping_add(K2), rot);
    }
    for (x, rot) in [
        (i3, 3),
        (i7, 9),
        (i2, 11),
        (i6, 15),
        (i1, 3),
        (i5, 9),
        (i0, 11),
        (i4, 15),
    ] {
        round(&mut s, &h, x.wrapping_add(K3), rot);
    }
    for (old, new) in state.iter_mut().zip(s) {
        *old = old.wrapping_add(new);
    }
}

fn tea(state: &mut [u32; 4], input: &[u32; 4]) {
    const DELTA: u32 = 0x9e37_79b9;
    let [mut b0, mut b1, _, _] = *state;
    let [a, b, c, d] = *input;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        b0 = b0.wrapping_add(
            (b1 << 4).wrapping_add(a) ^ b1.wrapping_add(sum) ^ (b1 >> 5).wrapping_add(b),
        );
        b1 = b1.wrapping_add(
            (b0 << 4).wrapping_add(c) ^ b0.wrapping_add(sum) ^ (b0 >> 5).wrapping_add(d),
        );
    }
    state[0] = state[0].wrapping_add(b0);
    state[1] = state[1].wrapping_add(b1);
}
