// SPDX-License-Identifier: GPL-2.0

//! The search for free blocks in the bitmap of one group.
//!
//! Pure code on the bitmap's bytes: it runs under a buffer's content lock, so it neither sleeps nor
//! allocates. Positions are block numbers within the group.
//!
//! A file is best continued where it ends; failing that it is best put into the first hole that
//! takes the whole request, nearest after the goal; failing that into the longest one. The name is
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

    /// The span `from..to` cut to `max` blocks, or `None` if that is nothing.
    fn between(from: u32, to: u32, max: u32) -> Option<Self> {
        let len = to.saturating_sub(from).min(max);
        (len > 0).then_some(Self { start: from, len })
    }
}

/// What is wanted of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Where the span should begin.
    pub(super) goal: u32,
    /// Its greatest length. Not 0.
    pub(super) want: u32,
    /// Nothing shorter will do, except at the goal.
    pub(super) need: u32,
    /// At the goal itself this length will do: enough for a large request to the device, so that
    /// going on where the file ends is worth more than a longer span elsewhere.
    pub(super) stay: u32,
    /// Nowhere but at the goal.
    pub(super) only_goal: bool,
}

/// What the search gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Free blocks that fulfil the wish.
    Span(Span),
    /// There are none. The longest free run of the group has this length, windows not considered.
    Longest(u32),
}

/// Looks for what `wish` asks for among the first `end` blocks of `map`, outside the `windows` of
/// owners other than `owner`.
pub(super) fn find(
    map: &[u8],
    end: u32,
    wish: &Wish,
    windows: Option<&Windows>,
    owner: Option<u32>,
) -> Found {
    let cut = cutter(windows, owner);
    let goal = if wish.goal < end { wish.goal } else { 0 };
    let stay = wish.stay.min(wish.want);
    if let Some(at_goal) = at(map, end, goal, wish.want, cut) {
        // At the end of the group the next group may well continue the span.
        if at_goal.len >= stay || at_goal.end() == end {
            return Found::Span(at_goal);
        }
    }
    if wish.only_goal {
        return Found::Longest(longest(map, end));
    }
    let after = fit(map, goal, end, wish.want, cut);
    if let Some(span) = after.filter(|s| s.len >= wish.want) {
        return Found::Span(span);
    }
    let anywhere = fit(map, 0, end, wish.want, cut);
    let best = match (after, anywhere) {
        // Of equals the one after the goal.
        (Some(a), Some(b)) if a.len >= b.len => Some(a),
        (a, b) => b.or(a),
    };
    match best {
        Some(span) if span.len >= wish.need.min(wish.want) => Found::Span(span),
        _ => Found::Longest(longest(map, end)),
    }
}

/// Cuts runs for `owner`.
fn cutter<'a>(
    windows: Option<&'a Windows>,
    owner: Option<u32>,
) -> impl Fn(u32, u32) -> Cut<'a> + Copy {
    move |from, to| Cut::new(windows, owner, from, to)
}

/// The length of the longest free run among the first `end` blocks of `map`.
fn longest(map: &[u8], end: u32) -> u32 {
    bitmap::longest_zero_run(map, 0, end).map_or(0, |(from, to)| to.saturating_sub(from))
}

/// The free span that begins exactly at `start`.
fn at<'a>(
    map: &[u8],
    end: u32,
    start: u32,
    want: u32,
    cut: impl Fn(u32, u32) -> Cut<'a>,
) -> Option<Span> {
    if bitmap::test(map, start) {
        return None;
    }
    let limit = start.saturating_add(want).min(end);
    let to = bitmap::find_next_set(map, start, limit).unwrap_or(limit);
    let (from, to) = cut(start, to).next()?;
    if from != start {
        return None;
    }
    Span::between(from, to, want)
}

/// The first free span of `want` blocks in `from..to`, or else the longest (the first of equals).
fn fit<'a>(
    map: &[u8],
    from: u32,
    to: u32,
    want: u32,
    cut: impl Fn(u32, u32) -> Cut<'a>,
) -> Option<Span> {
    let mut best: Option<Span> = None;
    let mut at = from;
    while let Some((start, end)) = bitmap::next_zero_run(map, at, to) {
        for (start, end) in cut(start, end) {
            let Some(span) = Span::between(start, end, want) else {
                continue;
            };
            if span.len >= want {
                return Some(span);
            }
            if best.is_none_or(|b| span.len > b.len) {
                best = Some(span);
            }
        }
        at = end;
    }
    best
}
