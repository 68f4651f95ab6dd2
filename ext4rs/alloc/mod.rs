// SPDX-License-Identifier: GPL-2.0

//! Allocation: which blocks and inodes are free, who gets them, and how much is promised to whom.
//!
//! | file | what it holds |
//! |---|---|
//! | `groups.rs` | descriptors and bitmaps of the groups: read, checked, changed |
//! | `blocks.rs` | one run of blocks for a file |
//! | `free.rs` | blocks that a file gives back |
//! | `held.rs` | what was freed and waits for the commit |
//! | `buddy.rs`, `windows.rs` | the search in one group's bitmap (pure) |
//! | `inodes.rs` | a new inode |
//! | `orlov.rs` | which group it goes to (pure) |
//! | `space.rs` | counters, promises to delayed allocation, `statfs` |
//! | `zones.rs` | blocks that no file may have (pure) |
//!
//! # Locks
//!
//! A group's bitmaps and descriptor change under the group lock, which is taken under a handle and
//! under mapping locks. Under it a task waits for the device (a bitmap is read) and for jbd2 to
//! have copied a block, never for a commit. The counters of the volume have their own spinlock,
//! innermost.

pub(crate) mod blocks;
mod buddy;
mod free;
mod groups;
mod held;
mod inodes;
mod orlov;
pub(crate) mod space;
mod windows;
mod zones;

pub(crate) use self::{
    groups::{desc as group_desc, valid_blocks, Zones},
    held::{HeldCounts, HeldRuns},
    inodes::{
        allocate as new_inode, free as free_inode, is_in_use as inode_is_in_use,
        table_block_is_unused, table_neighbours, undo as undo_inode, NewIno,
        CREDITS as CREDITS_NEW_INODE, CREDITS_FREE as CREDITS_FREE_INODE,
    },
    space::{commit_freed, statfs},
    windows::Windows,
};

use crate::volume::Sb;
use kernel::prelude::*;

/// Readies allocation at the mount, after the journal is replayed: checks every group descriptor,
/// sums the counts, and lists the blocks that hold the volume's own structures. `journal` lists the
/// runs of the journal's inode, as first block and number.
///
/// # Errors
///
/// `EFSCORRUPTED` or `EFSBADCRC`, having said why, if the descriptors are wrong or two structures
/// share a block. `ENOMEM`.
pub(crate) fn load(sb: &Sb, journal: &[(u64, u32)]) -> Result {
    groups::load(sb)?;
    groups::load_zones(sb, journal)?;
    space::load(sb, journal);
    Ok(())
}
