// SPDX-License-Identifier: GPL-2.0

//! The search for free blocks in the bitmap of one group.
//!
//! Pure code on the bitmap's bytes: it runs under a buffer's content lock, so it neither sleeps nor
//! allocates. Positions are block numbers within the group.
//!
//! A file is best continued where it ends; failing that it is best put into the first hole that
//! takes the whole request and what is likely to follow, nearest after the goal; failing that into
//! the longest one. The name is
//! that of the structure which ext4 keeps for the same question. There is none here: a scan of the
//! bitmap takes 64 blocks a step, and a group that was scanned in vain is remembered by its longest
//! run.

use super::windows::{Cut, Windows};
use ext4rs_layout::bitmap;

/// Blocks of a group, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first block, counted from the start of the group.
    pub(super) start: u32,
    /// How many. Not 0.
    pub(super) len: u32,
}

impl Span {
    /// The block after the last.
    pub(super) fn end(self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

/// What is wanted of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Where the span should begin.
    pub(super) goal: u32,
    /// Its greatest length. Not 0.
    pub(super) want: u32,
    /// The length of a hole that would be good to begin in: more than `want` if more is likely to
    /// follow.
    pub(super) room: u32,
    /// Nothing shorter will do, except at the goal.
    pub(super) need: u32,
    /// At the goal itself this length will do: enough for a large request to the device, so that
    /// going on where the file ends is worth more than a longer span elsewhere.
    pub(super) stay: u32,
    /// Nowhere but at the goal.
    pub(super) only_goal: bool,
}

/// What the search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Free blocks that fulfil the wish.
    pub(super) span: Span,
    /// The blocks from the start of the span that are as free: at least the span's own, at most
    /// [`Wish::room`] or [`Wish::want`].
    pub(super) room: u32,
}

/// Looks for what `wish` asks for among the first `end` blocks of `map`, outside the `windows` of
/// owners other than `owner`.
pub(super) fn find(
    map: &[u8],
    end: u32,
    wish: &Wish,
    windows: Option<&Windows>,
    owner: Option<u32>,
) -> Option<Found> {
    let cut = cutter(windows, owner);
    let room = wish.room.max(wish.want);
    let found = |hole: Span| {
        Some(Found {
            span: Span {
                len: hole.len.min(wish.want),
                ..hole
            },
            room: hole.len,
        })
    };
    let goal = if wish.goal < end { wish.goal } else { 0 };
    if let Some(hole) = at(map, end, goal, room, cut) {
        // At the end of the group the next group may well continue the span.
        if hole.len >= wish.stay.min(wish.want) || hole.end() == end {
            return found(hole);
        }
    }
    if wish.only_goal {
        return None;
    }
    let after = fit(map, goal, end, room, cut);
    if let Some(hole) = after.filter(|hole| hole.len >= room) {
        return found(hole);
    }
    let anywhere = fit(map, 0, end, room, cut);
    let best = match (after, anywhere) {
        // Of holes that take it all, or of equals, the one after the goal.
        (Some(a), Some(b)) if a.len >= b.len => Some(a),
        (Some(a), Some(b)) if a.len >= wish.want && b.len < room => Some(a),
        (a, b) => b.or(a),
    };
    best.filter(|hole| hole.len >= wish.need.min(wish.want))
        .and_then(found)
}

/// Cuts runs for `owner`.
fn cutter<'a>(
    windows: Option<&'a Windows>,
    owner: Option<u32>,
) -> impl Fn(u32, u32) -> Cut<'a> + Copy {
    move |from, to| Cut::new(windows, owner, from, to)
}

/// The length of the longest free run among the first `end` blocks of `map`.
pub(super) fn longest(map: &[u8], end: u32) -> u32 {
    bitmap::longest_zero_run(map, 0, end).map_or(0, |(from, to)| to.saturating_sub(from))
}

/// The hole of at most `room` blocks that begins exactly at `start`.
fn at<'a>(
    map: &[u8],
    end: u32,
    start: u32,
    room: u32,
    cut: impl Fn(u32, u32) -> Cut<'a>,
) -> Option<Span> {
    if bitmap::test(map, start) {
        return None;
    }
    let limit = start.saturating_add(room).min(end);
    let to = bitmap::find_next_set(map, start, limit).unwrap_or(limit);
    let (from, to) = cut(start, to).next()?;
    (from == start).then_some(Span {
        start,
        len: to.saturating_sub(start),
    })
}

/// The first `room` blocks of the first hole in `from..to` that has as many, or else the longest
/// hole (the first of equals).
fn fit<'a>(
    map: &[u8],
    from: u32,
    to: u32,
    room: u32,
    cut: impl Fn(u32, u32) -> Cut<'a>,
) -> Option<Span> {
    let mut best: Option<Span> = None;
    let mut at = from;
    while let Some((start, end)) = bitmap::next_zero_run(map, at, to) {
        for (start, end) in cut(start, end) {
            let len = end.saturating_sub(start).min(room);
            if best.is_none_or(|b| len > b.len) {
                best = Some(Span { start, len });
            }
            if len >= room {
                return best;
            }
        }
        at = end;
    }
    best
}
