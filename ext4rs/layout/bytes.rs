// SPDX-License-Identifier: GPL-2.0

//! Reading and writing integers at byte offsets.
//!
//! A read outside the slice gives zero and a write outside it does nothing: callers check the
//! length of the whole structure once, before the first field, and these functions stay total.

/// Gives the `N` bytes at `off`, or zeros if they are not all there.
pub(crate) fn array<const N: usize>(buf: &[u8], off: usize) -> [u8; N] {
    match buf.get(off..).and_then(|b| b.first_chunk::<N>()) {
        Some(b) => *b,
        None => [0; N],
    }
}

/// Reads one byte.
pub(crate) fn byte(buf: &[u8], off: usize) -> u8 {
    buf.get(off).copied().unwrap_or(0)
}

/// Reads a little-endian `u16`.
pub(crate) fn le16(buf: &[u8], off: usize) -> u16 {
    u16::from_le_bytes(array(buf, off))
}

/// Reads a little-endian `u32`.
pub(crate) fn le32(buf: &[u8], off: usize) -> u32 {
    u32::from_le_bytes(array(buf, off))
}

/// Reads a little-endian `u64`.
pub(crate) fn le64(buf: &[u8], off: usize) -> u64 {
    u64::from_le_bytes(array(buf, off))
}

/// Reads a big-endian `u32` (the journal's byte order).
pub(crate) fn be32(buf: &[u8], off: usize) -> u32 {
    u32::from_be_bytes(array(buf, off))
}

/// Writes `bytes` at `off`.
pub(crate) fn put(buf: &mut [u8], off: usize, bytes: &[u8]) {
    if let Some(dst) = buf.get_mut(off..).and_then(|b| b.get_mut(..bytes.len())) {
        dst.copy_from_slice(bytes);
    }
}

/// Writes a little-endian `u16`.
pub(crate) fn put_le16(buf: &mut [u8], off: usize, v: u16) {
    put(buf, off, &v.to_le_bytes());
}

/// Writes a little-endian `u32`.
pub(crate) fn put_le32(buf: &mut [u8], off: usize, v: u32) {
    put(buf, off, &v.to_le_bytes());
}

/// Writes a little-endian `u64`.
pub(crate) fn put_le64(buf: &mut [u8], off: usize, v: u64) {
    put(buf, off, &v.to_le_bytes());
}

/// The low 16 bits of `v`.
pub(crate) const fn low16(v: u32) -> u16 {
    (v & 0xffff) as u16
}

/// Bits 16 to 31 of `v`.
pub(crate) const fn high16(v: u32) -> u16 {
    (v >> 16) as u16
}

/// The low 32 bits of `v`.
pub(crate) const fn low32(v: u64) -> u32 {
    (v & 0xffff_ffff) as u32
}

/// Bits 32 to 63 of `v`.
pub(crate) const fn high32(v: u64) -> u32 {
    (v >> 32) as u32
}

/// One number from its high and low halves of 32 bits.
pub(crate) fn join32(hi: u32, lo: u32) -> u64 {
    (u64::from(hi) << 32) | u64::from(lo)
}

/// One number from its high and low halves of 16 bits.
pub(crate) fn join16(hi: u16, lo: u16) -> u32 {
    (u32::from(hi) << 16) | u32::from(lo)
}
