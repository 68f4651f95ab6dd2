// SPDX-License-Identifier: GPL-2.0

//! The volume's free space: promised, taken and reported.
//!
//! A block is free, or promised (to delayed allocation, or to an allocation under way) and still
//! free in the bitmaps, or taken, or held: freed by a transaction that is not committed yet
//! ([`super::held`]). What is held is reported as free, and promised to nobody. A promise is only made where the block can be had, so that a
//! write which succeeded finds its space at write-back. Two parts of the free space are kept back:
//! the super-user's (`s_r_blocks_count`) and the completion pool, which only metadata of write-back
//! may enter (ext4's `s_resv_clusters`). The rules are those of ext4's `ext4_has_free_clusters`.

use crate::{
    journal,
    volume::{Sb, Space, Volume},
};
use ext4rs_layout::Geometry;
use ext4rs_vfs::{cred, fs::StatFs};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// The greatest completion pool, in blocks.
const COMPLETION_POOL_MAX: u64 = 4096;

/// The greatest length of a name in bytes (`EXT4_NAME_LEN`).
const NAME_LEN: u32 = 255;

/// `f_type` (`EXT4_SUPER_MAGIC`).
const MAGIC: u64 = 0xef53;

/// How far into the free space a promise may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Not into what is kept back, unless the task is privileged.
    Ordinary,
    /// Into all of it.
    Pool,
}

impl Space {
    /// What of the free blocks can be used now.
    fn usable(&mut self, vol: &Volume) -> u64 {
        self.held.release(|tid| journal::is_committed(vol, tid));
        self.free.saturating_sub(self.held.total())
    }

    /// Promises `blocks` if `keep` remain.
    fn promise(&mut self, vol: &Volume, blocks: u64, keep: u64) -> bool {
        let usable = self.usable(vol);
        let after = self.delayed.checked_add(blocks);
        let fits = after
            .and_then(|n| n.checked_add(keep))
            .is_some_and(|n| n <= usable);
        if let (true, Some(after)) = (fits, after) {
            self.delayed = after;
        }
        fits
    }
}

/// Sets the pool and the overhead.
pub(super) fn load(sb: &Sb, journal: &[(u64, u32)]) {
    let vol = sb.data();
    let pool = (vol.geo.blocks_count / 50).min(COMPLETION_POOL_MAX);
    vol.completion_pool.store(pool, Relaxed);
    let log = journal
        .iter()
        .fold(0u64, |sum, run| sum.saturating_add(u64::from(run.1)));
    vol.overhead
        .store(overhead(&vol.geo).saturating_add(log), Relaxed);
}

/// Blocks of the volume's structures but for the journal (`ext4_calculate_overhead`).
fn overhead(geo: &Geometry) -> u64 {
    (0..geo.groups_count).fold(u64::from(geo.first_data_block), |sum, group| {
        sum.saturating_add(u64::from(geo.overhead_blocks(group)))
    })
}

/// Promises `blocks` blocks to the task.
pub(super) fn promise(vol: &Volume, blocks: u64, depth: Depth) -> Result {
    let pool = vol.completion_pool.load(Relaxed);
    let keep = match depth {
        Depth::Ordinary => pool.saturating_add(vol.disk.reserved_blocks),
        Depth::Pool => 0,
    };
    if vol.space.lock().promise(vol, blocks, keep) {
        return Ok(());
    }
    let (uid, gid) = {
        let options = vol.options.lock();
        (options.resuid, options.resgid)
    };
    // Asked only now: it may mark the task as one that used its privilege.
    let privileged = depth == Depth::Ordinary && cred::may_use_reserve(uid, gid);
    if privileged && vol.space.lock().promise(vol, blocks, pool) {
        return Ok(());
    }
    Err(ENOSPC)
}

/// Promises `blocks` blocks to delayed allocation. Takes no handle and waits for nothing.
///
/// # Errors
///
/// `ENOSPC`: the space does not exist, or is kept back.
pub(crate) fn reserve(sb: &Sb, blocks: u64) -> Result {
    promise(sb.data(), blocks, Depth::Ordinary)
}

/// Takes back the promise of `blocks` blocks.
pub(crate) fn unreserve(sb: &Sb, blocks: u64) {
    let mut space = sb.data().space.lock();
    space.delayed = space.delayed.saturating_sub(blocks);
}

/// `taken` blocks were allocated out of a promise of `promised`, which ends.
pub(super) fn claim(vol: &Volume, promised: u64, taken: u64) {
    let mut space = vol.space.lock();
    space.delayed = space.delayed.saturating_sub(promised);
    space.free = space.free.saturating_sub(taken);
}

/// `blocks` allocated blocks are free again; `promised` of them are promised again.
pub(super) fn give_back(vol: &Volume, blocks: u64, promised: u64) {
    let mut space = vol.space.lock();
    space.free = space.free.saturating_add(blocks);
    space.delayed = space.delayed.saturating_add(promised);
}

/// `blocks` blocks are free, and can be used when the transaction `tid`, the running one, is
/// committed.
pub(super) fn hold(vol: &Volume, blocks: u64, tid: u32) {
    let mut space = vol.space.lock();
    space.held.release(|tid| journal::is_committed(vol, tid));
    space.free = space.free.saturating_add(blocks);
    space.held.add(tid, blocks);
}

/// There was no space: makes what has been freed usable, by a commit. `true` if there was something,
/// so that it is worth trying again, once. Waits for the journal: the caller holds no handle, no
/// folio lock and no mapping lock.
pub(crate) fn commit_freed(sb: &Sb) -> bool {
    let newest = sb.data().space.lock().held.newest();
    newest.is_some_and(|tid| journal::complete(sb, tid).is_ok())
}

/// The numbers that `statfs` gives, as `ext4_statfs` computes them.
pub(crate) fn statfs(sb: &Sb) -> Result<StatFs> {
    let vol = sb.data();
    let (free, files) = {
        let space = vol.space.lock();
        (space.free.saturating_sub(space.delayed), space.free_inodes)
    };
    let overhead = if vol.options.lock().minixdf {
        0
    } else {
        vol.overhead.load(Relaxed)
    };
    let kept = vol
        .disk
        .reserved_blocks
        .saturating_add(vol.completion_pool.load(Relaxed));
    // The two halves of the UUID, folded (`uuid_to_fsid`).
    let (low, high) = vol.disk.uuid.split_at(8);
    let half = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    Ok(StatFs {
        magic: MAGIC,
        block_size: sb.block_size(),
        blocks: vol.geo.blocks_count.saturating_sub(overhead),
        free,
        available: free.saturating_sub(kept),
        files: u64::from(vol.geo.inodes_count),
        free_files: files,
        fsid: half(low) ^ half(high),
        name_len: NAME_LEN,
    })
}
