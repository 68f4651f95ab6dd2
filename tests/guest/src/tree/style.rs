// SPDX-License-Identifier: GPL-2.0

//! The ways in which a file comes to be.

use super::{Op, Piece, Spec};
use crate::rng::Rng;

/// The longest piece: what one `write` call of the tests carries.
pub const PIECE: u64 = 1 << 20;
/// A page of the machine.
const PAGE: u64 = 4096;

/// Sizes at which something is likely to be off by one.
const EDGES: [u64; 16] = [
    0, 1, 511, 512, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8191, 8192, 12288, 65535, 65537,
];

/// A size for a small file.
pub fn small_size(rng: &mut Rng) -> u64 {
    if rng.chance(40) {
        rng.pick(&EDGES)
    } else {
        rng.below(40_000)
    }
}

/// A file of about `length` bytes of data (exactly, unless pieces overlap), made in a random way.
pub fn any(rng: &mut Rng, length: u64) -> Spec {
    let ways = [
        whole,
        whole,
        appended,
        overwritten,
        overwritten,
        sparse,
        sparse,
        mapped,
        mapped_over,
        mapped_over,
        grown,
        backwards,
    ];
    let mut ops = rng.pick(&ways)(rng, length);
    match rng.below(10) {
        0..=1 => ops.push(Op::Sync),
        2 => ops.push(Op::DataSync),
        _ => {}
    }
    Spec { ops, shared: false }
}

/// `length` bytes from `offset` cut into pieces of `least..=most` bytes.
fn cut(rng: &mut Rng, offset: u64, length: u64, least: u64, most: u64) -> Vec<Piece> {
    let key = rng.next();
    let (mut at, end) = (offset, offset + length);
    let mut pieces = Vec::new();
    while at < end {
        let length = rng.within(least, most).min(end - at);
        pieces.push(Piece {
            offset: at,
            length,
            key,
        });
        at += length;
    }
    pieces
}

/// A few random pieces inside `0..length`, each of another stream.
fn scattered(rng: &mut Rng, length: u64) -> Vec<Piece> {
    let count = rng.within(1, 12);
    let piece = |rng: &mut Rng| {
        let offset = rng.below(length);
        let most = [300, PAGE, 70_000][rng.below(3) as usize];
        Piece {
            offset,
            length: rng.within(1, most).min(length - offset),
            key: rng.next(),
        }
    };
    (0..if length == 0 { 0 } else { count })
        .map(|_| piece(rng))
        .collect()
}

/// From start to end, in even or in odd pieces.
fn whole(rng: &mut Rng, length: u64) -> Vec<Op> {
    let pieces = if rng.chance(50) {
        cut(rng, 0, length, PIECE, PIECE)
    } else {
        cut(rng, 0, length, 30_000, 300_000)
    };
    pieces.into_iter().map(Op::Write).collect()
}

/// By O_APPEND, in pieces of odd sizes.
fn appended(rng: &mut Rng, length: u64) -> Vec<Op> {
    let most = (length / 40).clamp(700, 200_000);
    cut(rng, 0, length, 1, most)
        .into_iter()
        .map(Op::Append)
        .collect()
}

/// Written whole, then here and there again, with or without a sync between.
fn overwritten(rng: &mut Rng, length: u64) -> Vec<Op> {
    let mut ops = whole(rng, length);
    if rng.chance(50) {
        ops.push(rng.pick(&[Op::Sync, Op::DataSync]));
    }
    ops.extend(scattered(rng, length).into_iter().map(Op::Write));
    ops
}

/// In pieces with gaps between them, in random order.
fn sparse(rng: &mut Rng, length: u64) -> Vec<Op> {
    let most = (length / 30).clamp(2_000, 200_000);
    let mut pieces = cut(rng, 0, length, 1, most);
    let mut gaps = 0;
    for piece in &mut pieces {
        if rng.chance(70) {
            gaps += rng.below(150_000);
        }
        piece.offset += gaps;
    }
    rng.shuffle(&mut pieces);
    let mut ops: Vec<_> = pieces.into_iter().map(Op::Write).collect();
    if rng.chance(50) {
        ops.insert(ops.len() / 2, Op::Sync);
    }
    ops
}

/// Grown by `ftruncate` and stored through a mapping, holes left between.
fn mapped(rng: &mut Rng, length: u64) -> Vec<Op> {
    let most = (length / 20).clamp(2_000, 300_000);
    let mut pieces = cut(rng, 0, length, 1, most);
    let mut gaps = rng.below(3 * PAGE);
    for piece in &mut pieces {
        if rng.chance(50) {
            gaps += rng.below(200_000);
        }
        piece.offset += gaps;
    }
    let end = pieces.last().map_or(0, Piece::end) + rng.below(3 * PAGE);
    rng.shuffle(&mut pieces);
    let mut ops = vec![Op::Grow(end)];
    ops.extend(pieces.into_iter().map(Op::Store));
    if rng.chance(30) {
        ops.insert(ops.len() / 2, Op::DataSync);
    }
    ops
}

/// Written whole, then stored to here and there through a mapping.
fn mapped_over(rng: &mut Rng, length: u64) -> Vec<Op> {
    let mut ops = whole(rng, length);
    if rng.chance(50) {
        ops.push(Op::Sync);
    }
    ops.extend(scattered(rng, length).into_iter().map(Op::Store));
    ops
}

/// Written, grown by `ftruncate`, written past the end, grown again.
fn grown(rng: &mut Rng, length: u64) -> Vec<Op> {
    let half = length / 2;
    let mut ops = whole(rng, half);
    if rng.chance(30) {
        ops.push(Op::Sync);
    }
    let first = half + rng.below(500_000);
    ops.push(Op::Grow(first));
    let second = first + rng.below(100_000);
    ops.extend(
        cut(rng, second, length - half, 50_000, PIECE)
            .into_iter()
            .map(Op::Write),
    );
    ops.push(Op::Grow(second + length - half + rng.below(300_000)));
    ops
}

/// From end to start.
fn backwards(rng: &mut Rng, length: u64) -> Vec<Op> {
    let least = (length / 60).clamp(500, 100_000);
    let mut pieces = cut(rng, 0, length, least, least * 2);
    pieces.reverse();
    pieces.into_iter().map(Op::Write).collect()
}

/// One block of 4 KiB in every two, `count` of them, in random order, synced now and then: as
/// many extents as pieces, and a tree of depth 2 where they are enough.
pub fn fragmented(rng: &mut Rng, count: u64) -> Spec {
    let key = rng.next();
    let piece = |i| Piece {
        offset: 2 * PAGE * i,
        length: PAGE,
        key,
    };
    let mut pieces: Vec<_> = (0..count).map(piece).collect();
    rng.shuffle(&mut pieces);
    let mut ops = Vec::new();
    for (i, piece) in pieces.into_iter().enumerate() {
        ops.push(Op::Write(piece));
        if i % 701 == 700 {
            ops.push(rng.pick(&[Op::Sync, Op::DataSync]));
        }
    }
    Spec { ops, shared: false }
}

/// A file of `length` bytes that all threads write at once, in odd pieces.
pub fn shared(rng: &mut Rng, length: u64) -> Spec {
    let mut pieces = cut(rng, 0, length, 5_000, 150_000);
    for group in pieces.chunks_mut(32) {
        rng.shuffle(group);
    }
    Spec {
        ops: pieces.into_iter().map(Op::Write).collect(),
        shared: true,
    }
}

/// A file of `length` bytes written from start to end in calls of 1 MiB.
pub fn long(rng: &mut Rng, length: u64) -> Spec {
    let pieces = cut(rng, 0, length, PIECE, PIECE);
    Spec {
        ops: pieces.into_iter().map(Op::Write).collect(),
        shared: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_data_asked_for_inside_the_size() {
        let mut rng = Rng::new(3);
        for length in [0, 1, 4096, 40_000, 3_000_000] {
            for _ in 0..100 {
                let spec = any(&mut rng, length);
                assert_eq!(spec.data(), length);
                let mut size = 0;
                for op in &spec.ops {
                    match op {
                        Op::Grow(to) => assert!(*to >= size),
                        Op::Append(piece) => assert_eq!(piece.offset, size),
                        Op::Store(piece) => assert!(piece.end() <= size),
                        _ => {}
                    }
                    let grown = if let Op::Grow(to) = op { *to } else { 0 };
                    size = size.max(grown).max(op.piece().map_or(0, Piece::end));
                    assert!(op.piece().is_none_or(|piece| piece.length <= PIECE));
                }
                assert_eq!(size, spec.size());
            }
        }
    }
}
