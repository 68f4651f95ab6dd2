// SPDX-License-Identifier: GPL-2.0

//! The blocks of a file that wait: RESERVED and DELALLOC for allocation, UNSENT for being written.
//!
//! A block is RESERVED from a write's begin until its data is in the page cache; then it is
//! DELALLOC until write-back has found it a place on disk. Both kinds are holes in the extent tree,
//! both hold one block of the volume's space. Each kind is a set of runs, the longest possible: runs
//! of a set neither overlap nor touch, and no block is in both sets.
//!
//! A block is UNSENT from the handle that allocates it as written (not as unwritten) until its data
//! is on the way to the disk: the handle's transaction may not commit before. It is in the extent
//! tree, and holds no space here.
//!
//! The sets change under a spinlock, so the memory of their nodes is set aside before: see
//! [`Spares`].

use core::mem::replace;
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
};

/// Logical blocks `start..end`; not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first block.
    pub(crate) start: u32,
    /// The block after the last.
    pub(crate) end: u32,
}

impl Run {
    /// The blocks `start..end`, `None` if there are none.
    pub(crate) fn new(start: u32, end: u32) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// `len` blocks from `start`, as far as block numbers go; `None` if there are none.
    pub(crate) fn at(start: u32, len: u32) -> Option<Self> {
        Self::new(start, start.saturating_add(len))
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// The blocks that are also in `other`.
    pub(crate) fn and(&self, other: Run) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

type Node = RBTreeNodeReservation<u32, u32>;

/// No node was set aside. Nothing has been changed.
#[derive(Debug)]
pub(crate) struct NoNode;

/// Memory for nodes, set aside while sleeping is allowed.
#[derive(Default)]
pub(crate) struct Spares {
    nodes: [Option<Node>; Spares::PLACES],
}

impl Spares {
    /// The most nodes that are kept. A change needs two at most, and a reservation leaves two.
    const PLACES: usize = 4;

    /// Allocates memory for `count` nodes. May sleep.
    pub(crate) fn allocate(count: usize) -> Result<Self> {
        let mut spares = Self::default();
        for place in spares.nodes.iter_mut().take(count) {
            *place = Some(Node::new(GFP_KERNEL)?);
        }
        Ok(spares)
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// Takes over nodes of `other`, as many as there is room for.
    pub(crate) fn absorb(&mut self, other: &mut Spares) {
        let full = other.nodes.iter_mut().filter(|place| place.is_some());
        let empty = self.nodes.iter_mut().filter(|place| place.is_none());
        for (to, from) in empty.zip(full) {
            *to = from.take();
        }
    }

    fn take(&mut self) -> Result<Node, NoNode> {
        self.nodes.iter_mut().find_map(Option::take).ok_or(NoNode)
    }

    /// Keeps a node that is free again, or gives its memory back if there are enough.
    fn put(&mut self, node: Node) {
        if let Some(place) = self.nodes.iter_mut().find(|place| place.is_none()) {
            *place = Some(node);
        }
    }
}

/// A set of blocks, as runs that neither overlap nor touch.
#[derive(Default)]
pub(crate) struct RunSet {
    /// The first block of each run, and the block after its last.
    tree: RBTree<u32, u32>,
    blocks: u64,
}

impl RunSet {
    /// The number of blocks in the set.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// The run that holds `block`, or else the first one after it.
    pub(crate) fn next(&self, block: u32) -> Option<Run> {
        let run = |(&start, &end): (&u32, &u32)| Run { start, end };
        let (before, after) = match self.tree.cursor_lower_bound(&block) {
            Some(cursor) => (cursor.peek_prev().map(run), Some(run(cursor.current()))),
            None => (self.tree.cursor_back().map(|c| run(c.current())), None),
        };
        before.filter(|run| run.end > block).or(after)
    }

    /// Adds all blocks of `run`; gives the number of those that were not in the set. Uses one spare
    /// node at most.
    pub(crate) fn insert(&mut self, run: Run, spares: &mut Spares) -> Result<u32, NoNode> {
        let old = self.blocks;
        let mut whole = run;
        let mut node = None;
        // All runs that overlap or touch the new one become one with it.
        while let Some(other) = self
            .next(run.start.saturating_sub(1))
            .filter(|other| other.start <= run.end)
        {
            whole.start = whole.start.min(other.start);
            whole.end = whole.end.max(other.end);
            if let Some(extra) = replace(&mut node, self.unlink(other)) {
                spares.put(extra);
            }
        }
        let node = match node {
            Some(node) => node,
            None => spares.take()?,
        };
        self.link(whole, node);
        let new = self.blocks.saturating_sub(old);
        Ok(u32::try_from(new).unwrap_or(u32::MAX))
    }

    /// Takes out all blocks of `run`; gives the number of those that were in the set. Uses one spare
    /// node at most.
    pub(crate) fn remove(&mut self, run: Run, spares: &mut Spares) -> Result<u32, NoNode> {
        let old = self.blocks;
        while let Some(other) = self.next(run.start).filter(|other| other.start < run.end) {
            let left = Run::new(other.start, run.start);
            let right = Run::new(run.end, other.end);
            // A run with something left on both sides is the only one that overlaps.
            let second = match (left, right) {
                (Some(_), Some(_)) => Some(spares.take()?),
                _ => None,
            };
            let mut nodes = [self.unlink(other), second].into_iter().flatten();
            for rest in [left, right].into_iter().flatten() {
                if let Some(node) = nodes.next() {
                    self.link(rest, node);
                }
            }
            nodes.for_each(|node| spares.put(node));
        }
        let gone = old.saturating_sub(self.blocks);
        Ok(u32::try_from(gone).unwrap_or(u32::MAX))
    }

    /// Takes out a run that is in the tree as it is.
    fn unlink(&mut self, run: Run) -> Option<Node> {
        let node = self.tree.remove_node(&run.start)?;
        self.blocks = self.blocks.saturating_sub(u64::from(run.len()));
        Some(node.into_reservation())
    }

    /// Puts in a run that touches no other.
    fn link(&mut self, run: Run, node: Node) {
        self.tree.insert(node.into_node(run.start, run.end));
        self.blocks = self.blocks.saturating_add(u64::from(run.len()));
    }
}

/// What of a file waits for allocation.
#[derive(Default)]
pub(crate) struct Status {
    /// Space is taken; the data is not there yet. Never allocated (rule 1 of the write-back).
    pub(crate) reserved: RunSet,
    /// Space is taken and the data is in the page cache.
    pub(crate) delalloc: RunSet,
    /// Allocated as written, and nobody has sent the data yet.
    pub(crate) unsent: RunSet,
    /// Nodes for the next changes.
    pub(crate) spares: Spares,
}

/// What becomes of blocks that are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// Their data follows.
    Reserved,
    /// Their data is there, or comes before anybody looks: a write fault.
    Delalloc,
}

impl Status {
    /// The most spare nodes that one change uses.
    pub(crate) const NODES: usize = 2;

    /// What `reserve` would take at the beginning of `run`, whose blocks are all holes in the extent
    /// tree.
    pub(crate) fn look(&self, run: Run) -> Look {
        let mut end = run.end;
        match self.delalloc.next(run.start) {
            Some(next) if next.start <= run.start => {
                let end = end.min(next.end);
                return Look::Delalloc(Run { end, ..run });
            }
            Some(next) => end = end.min(next.start),
            None => {}
        }
        match self.reserved.next(run.start) {
            Some(next) if next.start <= run.start => {
                let end = end.min(next.end);
                return Look::Reserved(Run { end, ..run });
            }
            Some(next) => end = end.min(next.start),
            None => {}
        }
        Look::Hole(Run { end, ..run })
    }

    /// Marks the blocks of `run`, which are holes in the extent tree, and not DELALLOC if they are
    /// to be RESERVED. Gives the number of those that were neither: the space that is used. Uses
    /// [`Status::NODES`] spare nodes at most.
    pub(crate) fn mark(&mut self, run: Run, kind: As) -> Result<u32, NoNode> {
        match kind {
            As::Reserved => self.reserved.insert(run, &mut self.spares),
            As::Delalloc => {
                let had = self.reserved.remove(run, &mut self.spares)?;
                let new = self.delalloc.insert(run, &mut self.spares)?;
                Ok(new.saturating_sub(had))
            }
        }
    }

    /// Makes the RESERVED blocks of `run` DELALLOC. Uses [`Status::NODES`] spare nodes at most:
    /// only the first and the last RESERVED run can stay in part.
    pub(crate) fn commit(&mut self, run: Run) -> Result<(), NoNode> {
        while let Some(part) = self.reserved.next(run.start).and_then(|r| r.and(run)) {
            self.reserved.remove(part, &mut self.spares)?;
            self.delalloc.insert(part, &mut self.spares)?;
        }
        Ok(())
    }

    /// The number of blocks that hold space.
    pub(crate) fn blocks(&self) -> u64 {
        self.reserved
            .blocks()
            .saturating_add(self.delalloc.blocks())
    }

    /// Gives back spare nodes that nobody will use soon.
    pub(crate) fn trim(&mut self) {
        if self.reserved.is_empty() && self.delalloc.is_empty() && self.unsent.is_empty() {
            self.spares = Spares::default();
        }
    }
}

/// What is at the beginning of a run of holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Neither RESERVED nor DELALLOC.
    Hole(Run),
    /// RESERVED.
    Reserved(Run),
    /// DELALLOC.
    Delalloc(Run),
}
