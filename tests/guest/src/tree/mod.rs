// SPDX-License-Identifier: GPL-2.0

//! A tree of files that a seed describes in full: what to do to make it, and what must be there
//! afterwards.

pub mod plan;
pub mod populate;
pub mod style;
pub mod verify;

use crate::rng;
use crate::sys::meta::Time;
use std::ffi::OsString;
use std::path::PathBuf;

/// What names one tree.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Everything random follows from it.
    pub seed: u64,
    /// Ordinary files.
    pub files: usize,
    /// Bytes of data, holes not counted; at least this many come out.
    pub bytes: u64,
    /// Threads that make or check the tree.
    pub threads: usize,
    /// Pieces of the file that is in pieces: one block of 4 KiB in every two.
    pub fragments: u64,
}

/// One thing done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `pwrite`.
    Write(Piece),
    /// `write` on a descriptor opened with O_APPEND; the piece starts at the file's end.
    Append(Piece),
    /// Stores through a shared mapping.
    Store(Piece),
    /// `ftruncate` to a larger size.
    Grow(u64),
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    DataSync,
}

/// A range of a file that gets the bytes of one stream (see [`rng::fill`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes; 1 MiB at most.
    pub length: u64,
    /// Stream of the content.
    pub key: u64,
}

impl Piece {
    /// The first byte after the piece.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl Op {
    /// The data that the operation puts into the file.
    pub fn piece(&self) -> Option<&Piece> {
        match self {
            Op::Write(piece) | Op::Append(piece) | Op::Store(piece) => Some(piece),
            Op::Grow(_) | Op::Sync | Op::DataSync => None,
        }
    }
}

/// An ordinary file: what is done to it, in this order.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The operations.
    pub ops: Vec<Op>,
    /// All threads write to it at once, each its share of `ops`, which do not overlap.
    pub shared: bool,
}

impl Spec {
    /// The size after all operations.
    pub fn size(&self) -> u64 {
        let end = |op: &Op| match op {
            Op::Grow(size) => *size,
            op => op.piece().map_or(0, Piece::end),
        };
        self.ops.iter().map(end).max().unwrap_or(0)
    }

    /// The final content from `offset` on, as far as `buf` goes.
    pub fn content(&self, offset: u64, buf: &mut [u8]) {
        buf.fill(0);
        let end = offset + buf.len() as u64;
        for piece in self.ops.iter().filter_map(Op::piece) {
            let (from, to) = (piece.offset.max(offset), piece.end().min(end));
            if from < to {
                let part = (from - offset) as usize..(to - offset) as usize;
                rng::fill(piece.key, from, &mut buf[part]);
            }
        }
    }

    /// The ranges that hold data, rounded outwards to `unit` bytes, sorted and joined.
    pub fn covered(&self, unit: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> = (self.ops.iter().filter_map(Op::piece))
            .filter(|piece| piece.length > 0)
            .map(|piece| {
                (
                    piece.offset / unit * unit,
                    piece.end().next_multiple_of(unit),
                )
            })
            .collect();
        ranges.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (start, end) in ranges {
            match out.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => out.push((start, end)),
            }
        }
        out
    }

    /// Bytes of data, holes not counted.
    pub fn data(&self) -> u64 {
        self.covered(1).iter().map(|(start, end)| end - start).sum()
    }

    /// True where part of the file is stored through a mapping. The kernel may then fill a hole
    /// in whole folios.
    pub fn is_mapped(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Store(_)))
    }
}

/// What a node of the tree is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A directory.
    Dir,
    /// An ordinary file.
    File(Spec),
    /// `S_IFCHR`, `S_IFBLK`, `S_IFIFO` or `S_IFSOCK`, with a device number.
    Special {
        /// `S_IF*`.
        format: u32,
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    },
}

/// One node of the tree. Its parent comes before it in the plan.
#[derive(Clone, Debug)]
pub struct Node {
    /// Index of the parent; the root is its own.
    pub parent: usize,
    /// The name in the parent.
    pub name: OsString,
    /// Path from the root, which has the empty one.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, setuid, setgid and sticky included.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The group comes from the parent's setgid bit, not from a `chown`.
    pub inherits: bool,
    /// Last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
}

impl Node {
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, length: u64, key: u64) -> Piece {
        Piece {
            offset,
            length,
            key,
        }
    }

    #[test]
    fn later_operations_win_and_holes_are_zero() {
        let ops = vec![
            Op::Write(piece(10, 20, 1)),
            Op::Store(piece(15, 5, 2)),
            Op::Grow(100),
        ];
        let spec = Spec { ops, shared: false };
        let mut got = vec![9; 100];
        spec.content(0, &mut got);
        let mut want = vec![0; 100];
        rng::fill(1, 10, &mut want[10..30]);
        rng::fill(2, 15, &mut want[15..20]);
        assert_eq!(got, want);
        assert_eq!(spec.size(), 100);
        assert_eq!(spec.data(), 20);
        assert_eq!(spec.covered(16), [(0, 32)]);
    }
}
