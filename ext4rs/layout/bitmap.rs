// SPDX-License-Identifier: GPL-2.0

//! Bits of block and inode bitmaps: little-endian, bit 0 is the lowest bit of byte 0.
//!
//! A bit that the slice does not have reads as set ("in use") and is not changed by writing. All
//! scans take 64 bits a step.

/// Bits of `map`.
pub fn len(map: &[u8]) -> u32 {
    u32::try_from(map.len().saturating_mul(8)).unwrap_or(u32::MAX)
}

fn byte_of(bit: u32) -> usize {
    // Lossless: a `u32` fits a `usize` wherever Linux runs.
    (bit / 8) as usize
}

fn mask_of(bit: u32) -> u8 {
    1u8.checked_shl(bit & 7).unwrap_or(0)
}

/// The 64 bits from `bit`, which is a multiple of 64, on. Bits that are not there read as set.
fn word(map: &[u8], bit: u32) -> u64 {
    let bytes = map.get(byte_of(bit)..).unwrap_or(&[]);
    match bytes.first_chunk::<8>() {
        Some(b) => u64::from_le_bytes(*b),
        None => {
            let mut last = [0xff; 8];
            for (dst, src) in last.iter_mut().zip(bytes) {
                *dst = *src;
            }
            u64::from_le_bytes(last)
        }
    }
}

/// A word with bits `from..to` (of 0 to 64) set.
fn window(from: u32, to: u32) -> u64 {
    let below = |n: u32| 1u64.checked_shl(n).map_or(u64::MAX, |b| b.wrapping_sub(1));
    below(to) & !below(from)
}

/// Tests a bit.
pub fn test(map: &[u8], bit: u32) -> bool {
    map.get(byte_of(bit)).is_none_or(|b| b & mask_of(bit) != 0)
}

/// Sets a bit and gives what it was before.
pub fn set(map: &mut [u8], bit: u32) -> bool {
    match map.get_mut(byte_of(bit)) {
        Some(b) => {
            let old = *b & mask_of(bit) != 0;
            *b |= mask_of(bit);
            old
        }
        None => true,
    }
}

/// Clears a bit and gives what it was before.
pub fn clear(map: &mut [u8], bit: u32) -> bool {
    match map.get_mut(byte_of(bit)) {
        Some(b) => {
            let old = *b & mask_of(bit) != 0;
            *b &= !mask_of(bit);
            old
        }
        None => true,
    }
}

/// Sets the bits `from..to`.
pub fn set_range(map: &mut [u8], from: u32, to: u32) {
    fill(map, from, to, true);
}

/// Clears the bits `from..to`.
pub fn clear_range(map: &mut [u8], from: u32, to: u32) {
    fill(map, from, to, false);
}

fn fill(map: &mut [u8], from: u32, to: u32, ones: bool) {
    let to = to.min(len(map));
    let mut bit = from;
    while bit < to {
        let base = bit & !7;
        let end = to.min(base.saturating_add(8));
        if bit == base && end == base.saturating_add(8) {
            // Whole bytes at once.
            let last = to & !7;
            if let Some(bytes) = map.get_mut(byte_of(base)..byte_of(last)) {
                bytes.fill(if ones { 0xff } else { 0 });
            }
            bit = last;
            continue;
        }
        let mask = (window(bit & 7, end.saturating_sub(base)) & 0xff) as u8;
        if let Some(b) = map.get_mut(byte_of(base)) {
            *b = if ones { *b | mask } else { *b & !mask };
        }
        bit = end;
    }
}

/// The first bit of `from..to` for which `pick`, given a word, keeps a one.
fn find(map: &[u8], from: u32, to: u32, pick: impl Fn(u64) -> u64) -> Option<u32> {
    let to = to.min(len(map));
    let mut base = from & !63;
    while base < to {
        let low = from.saturating_sub(base).min(64);
        let high = to.saturating_sub(base).min(64);
        let hits = pick(word(map, base)) & window(low, high);
        if hits != 0 {
            return base.checked_add(hits.trailing_zeros());
        }
        base = base.checked_add(64)?;
    }
    None
}

/// The first clear bit of `from..to`.
pub fn find_next_zero(map: &[u8], from: u32, to: u32) -> Option<u32> {
    find(map, from, to, |w| !w)
}

/// The first set bit of `from..to`.
pub fn find_next_set(map: &[u8], from: u32, to: u32) -> Option<u32> {
    find(map, from, to, |w| w)
}

/// How many bits of `from..to` are clear. Bits that the slice does not have are not.
pub fn count_zero(map: &[u8], from: u32, to: u32) -> u32 {
    let to = to.min(len(map));
    let mut zeros = 0u32;
    let mut base = from & !63;
    while base < to {
        let low = from.saturating_sub(base).min(64);
        let high = to.saturating_sub(base).min(64);
        zeros = zeros.saturating_add((!word(map, base) & window(low, high)).count_ones());
        match base.checked_add(64) {
            Some(next) => base = next,
            None => break,
        }
    }
    zeros
}

/// The first run of clear bits in `from..to`, as its first bit and the bit after its last.
pub fn next_zero_run(map: &[u8], from: u32, to: u32) -> Option<(u32, u32)> {
    let to = to.min(len(map));
    let start = find_next_zero(map, from, to)?;
    Some((start, find_next_set(map, start, to).unwrap_or(to)))
}

/// The longest run of clear bits in `from..to` (the first of equals), as its first bit and the
/// bit after its last.
pub fn longest_zero_run(map: &[u8], from: u32, to: u32) -> Option<(u32, u32)> {
    let mut best: Option<(u32, u32)> = None;
    let mut at = from;
    while let Some((start, end)) = next_zero_run(map, at, to) {
        let longest = best.map_or(0, |(s, e)| e.saturating_sub(s));
        if end.saturating_sub(start) > longest {
            best = Some((start, end));
        }
        at = end;
    }
    best
}

/// True if all bits of `from..to` are clear and on the map.
pub fn all_zero(map: &[u8], from: u32, to: u32) -> bool {
    to <= len(map) && find_next_set(map, from, to).is_none()
}

/// True if all bits of `from..to` are set.
pub fn all_set(map: &[u8], from: u32, to: u32) -> bool {
    find_next_zero(map, from, to).is_none()
}
