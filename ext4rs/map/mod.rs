// SPDX-License-Identifier: GPL-2.0

//! Where the blocks of a file are: the extent tree on disk, and over it the blocks that wait for
//! allocation (see [`status`]).
//!
//! # Locks
//!
//! The mapping lock, [`Map`]'s `lock`, keeps both together: whoever looks at the two holds it
//! shared, whoever changes the tree holds it exclusively. A block goes from hole to RESERVED or
//! DELALLOC with the lock held shared, after the tree was asked, so that it cannot be mapped
//! meanwhile; it goes from DELALLOC to mapped with the lock held exclusively. Between RESERVED,
//! DELALLOC and hole it changes under the status lock alone.
//!
//! Lock order: folio lock or journal handle (never both), mapping lock, group lock, status lock.

mod edit;
mod extent_tree;
mod status;

use self::{
    extent_tree::Found,
    status::{As, Look, Run, Spares, Status},
};
use crate::{
    alloc::{
        blocks::{self, Pool},
        space,
    },
    inode::{self, Inode},
    journal::Handle,
    report,
    volume::Sb,
};
use core::ops::Range;
use ext4rs_layout::extent::{
    Extent as DiskExtent, LBLK_END, MAX_DEPTH, MAX_UNWRITTEN, MAX_WRITTEN,
};
use ext4rs_vfs::{memalloc::with_nofs, rwsem::RwSemaphore};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        lock::{spinlock::SpinLockBackend, Guard},
        SpinLock,
    },
};

/// The mapping of one file, in its inode's data.
#[pin_data]
pub(crate) struct Map {
    /// The mapping lock. It protects the extent tree, whose root is in the inode's `raw.i_block`.
    #[pin]
    lock: RwSemaphore<()>,
    /// Changes when a block is allocated, converted or dropped: see [`seq`].
    seq: Atomic<u32>,
    /// The blocks that wait for allocation.
    #[pin]
    status: SpinLock<Status>,
}

impl Map {
    /// The mapping of an inode that is new in memory: nothing waits for allocation.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            lock <- RwSemaphore::new((), c"ext4rs_map", kernel::static_lock_class!()),
            seq: Atomic::new(0),
            status <- new_spinlock!(Status::default(), "ext4rs_map_status"),
        })
    }

    /// The inode leaves memory: nothing waits for allocation any more. Its page cache is empty.
    pub(crate) fn forget(&self, inode: &Inode) {
        let status = core::mem::take(&mut *self.status.lock());
        space::unreserve(inode.super_block(), status.blocks());
    }

    fn bump(&self) {
        self.seq.fetch_add(1, ordering::Release);
    }

    /// Takes the status lock with `count` spare nodes at hand. Sleeps before it has the lock.
    fn status_with(&self, count: usize) -> Result<Guard<'_, Status, SpinLockBackend>> {
        loop {
            let mut status = self.status.lock();
            let missing = count.saturating_sub(status.spares.len());
            if missing == 0 {
                return Ok(status);
            }
            drop(status);
            let mut fresh = with_nofs(|| Spares::allocate(missing))?;
            status = self.status.lock();
            status.spares.absorb(&mut fresh);
            if status.spares.len() >= count {
                return Ok(status);
            }
        }
    }

    /// As [`Map::status_with`] for one change, for callers that cannot fail. A reservation leaves
    /// the nodes that its end needs, so memory is asked for only where others used them up; so few
    /// bytes can be refused to a task that is being killed only, and not for long.
    fn status_for_change(&self) -> Guard<'_, Status, SpinLockBackend> {
        loop {
            if let Ok(status) = self.status_with(Status::NODES) {
                return status;
            }
        }
    }
}

/// What is at a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing, or space is reserved for data that is not there yet (RESERVED).
    Hole,
    /// Data in the page cache that has no place on disk yet.
    Delalloc,
    /// Allocated and written, from this block on disk.
    Written(u64),
    /// Allocated, from this block on disk; reads as zeros.
    Unwritten(u64),
}

/// Consecutive logical blocks of one kind, and on consecutive blocks of the disk if they are on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first logical block.
    pub(crate) lblk: u32,
    /// The number of blocks, not 0.
    pub(crate) len: u32,
    /// What they are.
    pub(crate) kind: Kind,
    /// The mapping's sequence number ([`seq`]) when this was true.
    pub(crate) seq: u32,
}

/// Which blocks [`release`] drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those whose data never came.
    Reserved,
    /// Also those whose data is being given up.
    All,
}

/// What newly mapped blocks are on disk until their data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// Unwritten: they read as zeros until [`convert`].
    Unwritten,
    /// Written, and noted as UNSENT: the data goes out before the transaction commits
    /// (`data=ordered`).
    Ordered,
    /// Written. After a crash they may show what they held before (`data=writeback`).
    Written,
}

/// The sequence number of the inode's mapping. As long as it stays, what [`lookup`] said stays
/// true, but for holes that become RESERVED or DELALLOC, and RESERVED blocks that become DELALLOC
/// (rule 13).
pub(crate) fn seq(inode: &Inode) -> u32 {
    inode.data().map.seq.load(ordering::Acquire)
}

/// What is at `lblk`: the longest run of one kind, of one extent, but not more than `max` blocks.
/// Takes the mapping lock shared. Sleeps; may be called under a folio lock.
///
/// # Errors
///
/// `EFSCORRUPTED`, `EFSBADCRC` or `EIO` if the extent tree cannot be read: reported. `EINVAL` if
/// `max` is 0.
pub(crate) fn lookup(inode: &Inode, lblk: u32, max: u32) -> Result<Extent> {
    let map = &inode.data().map;
    // A file of the greatest size may have a folio that reaches beyond the last block of any.
    if u64::from(lblk) >= LBLK_END {
        return Ok(Extent {
            lblk,
            len: max,
            kind: Kind::Hole,
            seq: seq(inode),
        });
    }
    let run = in_file(lblk, max)?;
    let _shared = map.lock.read();
    let seq = seq(inode);
    let gap = match extent_tree::lookup(inode, lblk)? {
        Found::Extent(extent) => return on_disk(&extent, run, seq),
        Found::Gap(gap) => gap,
    };
    let run = clip(run, gap.end);
    let next = map.status.lock().delalloc.next(lblk);
    let (kind, end) = match next {
        Some(next) if next.start <= lblk => (Kind::Delalloc, next.end.min(run.end)),
        Some(next) => (Kind::Hole, next.start.min(run.end)),
        None => (Kind::Hole, run.end),
    };
    Ok(Extent {
        lblk,
        len: end.saturating_sub(lblk),
        kind,
        seq,
    })
}

/// `len` blocks from `lblk`, as far as a file can have them.
fn in_file(lblk: u32, len: u32) -> Result<Run> {
    if u64::from(lblk) >= LBLK_END {
        return Err(EFBIG);
    }
    let run = Run::at(lblk, len).ok_or(EINVAL)?;
    Ok(clip(run, LBLK_END))
}

/// The part of `run` below `end`, which is above its start.
fn clip(run: Run, end: u64) -> Run {
    let end = u32::try_from(end).map_or(run.end, |end| end.min(run.end));
    Run { end, ..run }
}

/// The part of an extent of the tree that is in `run`, which begins in the extent.
fn on_disk(extent: &DiskExtent, run: Run, seq: u32) -> Result<Extent> {
    let start = extent.map(run.start).ok_or(EFSCORRUPTED)?;
    let kind = if extent.unwritten {
        Kind::Unwritten(start)
    } else {
        Kind::Written(start)
    };
    Ok(Extent {
        lblk: run.start,
        len: clip(run, extent.end()).len(),
        kind,
        seq,
    })
}

/// Takes space for data that is to come to `lblk`, where a hole is; for at most `len` blocks, as
/// long as they are of one kind. As `as_delalloc` the blocks are DELALLOC at once: for a write
/// fault, which may not find the time to tell that its data is there. Otherwise they are RESERVED,
/// until [`commit_reserved`] or [`release`].
///
/// The result is what is at `lblk` afterwards: [`Kind::Delalloc`], also where blocks are RESERVED;
/// or, unchanged, an extent of the disk. If there is not enough space for `len` blocks, fewer are
/// taken.
///
/// Takes the mapping lock shared, and starts no handle. Sleeps; may be called under a folio lock.
///
/// # Errors
///
/// `ENOSPC` if there is no block left, `ENOMEM`, or as [`lookup`].
pub(crate) fn reserve(inode: &Inode, lblk: u32, len: u32, as_delalloc: bool) -> Result<Extent> {
    let map = &inode.data().map;
    let sb = inode.super_block();
    let asked = in_file(lblk, len)?;
    let _shared = map.lock.read();
    let seq = seq(inode);
    let hole = match extent_tree::lookup(inode, lblk)? {
        Found::Extent(extent) => return on_disk(&extent, asked, seq),
        Found::Gap(gap) => clip(asked, gap.end),
    };
    let waiting = |run: Run| Extent {
        lblk,
        len: run.len(),
        kind: Kind::Delalloc,
        seq,
    };
    let kind = if as_delalloc {
        As::Delalloc
    } else {
        As::Reserved
    };
    loop {
        let look = map.status.lock().look(hole);
        let want = match look {
            Look::Delalloc(run) => return Ok(waiting(run)),
            Look::Reserved(run) if !as_delalloc => return Ok(waiting(run)),
            Look::Reserved(_) => 0,
            Look::Hole(run) => run.len(),
        };
        let have = take_space(sb, want)?;
        // What this change may use, and what the end of the reservation may.
        let mut status = match map.status_with(Status::NODES.saturating_mul(2)) {
            Ok(status) => status,
            Err(e) => {
                space::unreserve(sb, have.into());
                return Err(e);
            }
        };
        // A fault may have been here meanwhile: look again.
        let run = match status.look(hole) {
            Look::Hole(run) => Run::at(lblk, have).and_then(|paid| paid.and(run)),
            Look::Reserved(run) if as_delalloc => Some(run),
            _ => None,
        };
        let marked = match run {
            Some(run) => status.mark(run, kind).map(|used| Some((run, used))),
            None => Ok(None),
        };
        drop(status);
        let used = marked.as_ref().map_or(0, |m| m.map_or(0, |(_, used)| used));
        space::unreserve(sb, have.saturating_sub(used).into());
        match marked {
            Ok(Some((run, _))) => return Ok(waiting(run)),
            Ok(None) => {}
            Err(_) => return Err(ENOMEM),
        }
    }
}

/// Takes space for up to `want` blocks: for all of them, or for as many as a few tries find.
fn take_space(sb: &Sb, want: u32) -> Result<u32> {
    let mut count = want;
    while count > 0 {
        match space::reserve(sb, count.into()) {
            Ok(()) => break,
            Err(e) if count == 1 => return Err(e),
            Err(e) if e == ENOSPC => count /= 2,
            Err(e) => return Err(e),
        }
    }
    Ok(count)
}

/// The data of `len` blocks from `lblk` is in the page cache: those of them that are RESERVED become
/// DELALLOC. Cannot fail. Sleeps, but takes no lock that sleeps: it is called with the folio locked.
pub(crate) fn commit_reserved(inode: &Inode, lblk: u32, len: u32) {
    let Some(run) = Run::at(lblk, len) else {
        return;
    };
    // With the nodes at hand there is nothing to fail.
    let _ = inode.data().map.status_for_change().commit(run);
}

/// Drops what `which` says of `len` blocks from `lblk`, and gives their space back. Cannot fail.
/// Sleeps.
///
/// With [`Which::All`] the caller keeps write-back away, or has made it impossible: the blocks'
/// folios are gone, or locked and not dirty. UNSENT blocks among them have nothing to be sent then.
pub(crate) fn release(inode: &Inode, lblk: u32, len: u32, which: Which) {
    let Some(run) = Run::at(lblk, len) else {
        return;
    };
    let map = &inode.data().map;
    let mut status = map.status_for_change();
    let Status {
        reserved,
        delalloc,
        unsent,
        spares,
    } = &mut *status;
    // With the nodes at hand none can fail.
    let mut blocks = reserved.remove(run, spares).unwrap_or(0);
    if which == Which::All {
        blocks = blocks.saturating_add(delalloc.remove(run, spares).unwrap_or(0));
        let _ = unsent.remove(run, spares);
        map.bump();
    }
    status.trim();
    drop(status);
    space::unreserve(inode.super_block(), blocks.into());
}

/// The number of blocks for which space is taken and that are not allocated yet.
pub(crate) fn delayed_blocks(inode: &Inode) -> u64 {
    inode.data().map.status.lock().blocks()
}

/// Allocates the first run of DELALLOC blocks in `from..end`, or a part of it: not more than `cap`
/// blocks, nothing behind the block that holds the end of the file, and what the allocator finds in
/// one piece. The blocks become one extent, or a part of one, as `fresh` says; written ones raise the
/// size on disk (rule 7). `None` if nothing there waits for allocation; RESERVED blocks do not.
///
/// The handle has [`credits_map`] credits. Takes the mapping lock exclusively.
///
/// # Errors
///
/// `ENOSPC`, `ENOMEM` and `EFBIG` leave everything as it was. Others are reported, and what was
/// DELALLOC still is.
pub(crate) fn map_delalloc_run(
    handle: &Handle<'_>,
    inode: &Inode,
    from: u32,
    end: u32,
    cap: u32,
    fresh: Fresh,
) -> Result<Option<Extent>> {
    let map = &inode.data().map;
    // To cut a run of DELALLOC in two, and for one UNSENT run.
    let mut nodes = with_nofs(|| Spares::allocate(2))?;
    let _alone = map.lock.write();
    // The size is read here because truncate lowers it under the mapping lock: rule 10.
    let Some(range) = Run::new(from, end.min(size_in_blocks(inode))) else {
        return Ok(None);
    };
    let next = map.status.lock().delalloc.next(from);
    let Some(run) = next.and_then(|next| next.and(range)) else {
        return Ok(None);
    };
    let gap = match extent_tree::lookup(inode, run.start)? {
        Found::Gap(gap) => gap,
        Found::Extent(_) => {
            return Err(report::corrupt(
                inode.super_block(),
                "map_delalloc_run",
                Some(inode.ino()),
                None,
                fmt!("block {} is mapped already", run.start),
            ))
        }
    };
    let run = clip(clip(run, gap.end), {
        let cap = u64::from(cap.clamp(1, MAX_UNWRITTEN));
        cap.saturating_add(run.start.into())
    });
    let unwritten = fresh == Fresh::Unwritten;
    let new = allocate(handle, inode, run, gap.near, Pool::Delayed, unwritten)?;
    let seq = {
        let mut status = map.status.lock();
        if let Some(run) = Run::at(new.block, new.len) {
            // One node is enough for one run to be cut, one for one to be added.
            let _ = status.delalloc.remove(run, &mut nodes);
            if fresh == Fresh::Ordered {
                let _ = status.unsent.insert(run, &mut nodes);
            }
        }
        status.trim();
        map.bump();
        seq(inode)
    };
    if !unwritten {
        raise_disk_size(inode, new.block.saturating_add(new.len));
    }
    inode::note_transaction(handle, inode, true);
    inode::mark_dirty(handle, inode)?;
    on_disk(&new, run, seq).map(Some)
}

/// Raises the size on disk over the data that ends with the block before block `end`, to the file's
/// size or the end of the data's last block (rule 7).
///
/// The file's size is read after the blocks became written: a write that extends the file within the
/// last block meanwhile looks, after it has set the size, whether the block is written, and if not
/// leaves the size on disk to this.
pub(crate) fn raise_disk_size(inode: &Inode, end: u32) {
    let bits = inode.super_block().data().geo.block_bits;
    let mut raw = inode.data().raw.lock();
    // Read under the lock: truncation lowers both under it.
    let size = inode.size().min(u64::from(end) << bits);
    raw.disk_size = raw.disk_size.max(size);
}

/// The first run of UNSENT blocks that ends behind `from`.
pub(crate) fn next_unsent(inode: &Inode, from: u32) -> Option<Range<u32>> {
    let run = inode.data().map.status.lock().unsent.next(from)?;
    Some(run.start..run.end)
}

/// The data of `len` blocks from `lblk` is on its way to the disk: they are UNSENT no more. Cannot
/// fail. Sleeps; may be called under a folio lock, by the commit thread, too.
pub(crate) fn sent(inode: &Inode, lblk: u32, len: u32) {
    let map = &inode.data().map;
    if map.status.lock().unsent.is_empty() {
        return;
    }
    let Some(run) = Run::at(lblk, len) else {
        return;
    };
    let mut status = map.status_for_change();
    let Status { unsent, spares, .. } = &mut *status;
    // With the nodes at hand it cannot fail.
    let _ = unsent.remove(run, spares);
    status.trim();
}

/// The number of blocks that the file's size takes, the last one in part.
fn size_in_blocks(inode: &Inode) -> u32 {
    let geo = &inode.super_block().data().geo;
    let blocks = inode.size().div_ceil(geo.block_size.max(1).into());
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Allocates blocks for the beginning of `run`, a gap, and puts them into the tree; all of it or
/// nothing. The mapping lock is held exclusively; the caller dirties the inode afterwards.
fn allocate(
    handle: &Handle<'_>,
    inode: &Inode,
    run: Run,
    near: Option<DiskExtent>,
    pool: Pool,
    unwritten: bool,
) -> Result<DiskExtent> {
    let near = near.map(|extent| (extent.block, extent.start));
    let request = blocks::Request {
        goal: blocks::goal(inode, run.start, near),
        want: run.len(),
        kind: blocks::Kind::Data,
        from: pool,
    };
    let got = blocks::allocate(handle, inode, &request)?;
    let new = DiskExtent {
        block: run.start,
        len: got.len,
        unwritten,
        start: got.start,
    };
    // Data is better off in the file than the pool is full: its blocks serve the tree too.
    let tree_pool = match pool {
        Pool::Free => Pool::Free,
        Pool::Delayed | Pool::Completion => Pool::Completion,
    };
    if let Err(e) = extent_tree::insert(handle, inode, &new, tree_pool) {
        // If even that fails the volume has stopped.
        let _ = blocks::undo(handle, inode.super_block(), got, pool);
        return Err(e);
    }
    let shift = inode.super_block().data().geo.block_bits;
    inode.add_bytes(u64::from(new.len) << shift);
    Ok(new)
}

/// Gives a directory, or another file that is not written through the page cache, its block `lblk`,
/// written; or finds the one that it has. Gives the block on disk and whether it is new: the caller
/// then fills it, in the same handle. The handle has [`credits_map`] credits.
///
/// # Errors
///
/// `ENOSPC`, `ENOMEM` and `EFBIG` leave everything as it was. Others are reported.
pub(crate) fn allocate_block(handle: &Handle<'_>, inode: &Inode, lblk: u32) -> Result<(u64, bool)> {
    let map = &inode.data().map;
    let run = in_file(lblk, 1)?;
    let _alone = map.lock.write();
    let gap = match extent_tree::lookup(inode, lblk)? {
        Found::Extent(extent) => return Ok((extent.map(lblk).ok_or(EFSCORRUPTED)?, false)),
        Found::Gap(gap) => gap,
    };
    let new = allocate(handle, inode, run, gap.near, Pool::Free, false)?;
    map.bump();
    inode::note_transaction(handle, inode, true);
    inode::mark_dirty(handle, inode)?;
    Ok((new.start, true))
}

/// The data of `len` blocks from `lblk` is on disk: those of them that are unwritten become written.
/// The handle has [`credits_convert`] credits. Takes the mapping lock exclusively.
///
/// # Errors
///
/// `ENOMEM`, or `ENOSPC` if even the completion pool is empty: some blocks may have been converted,
/// and trying again is possible. Others are reported: a block that is not mapped among them, if the
/// file still goes so far.
pub(crate) fn convert(handle: &Handle<'_>, inode: &Inode, lblk: u32, len: u32) -> Result {
    let map = &inode.data().map;
    let run = in_file(lblk, len)?;
    let _alone = map.lock.write();
    let file_end = size_in_blocks(inode);
    let inode_changed = extent_tree::convert(handle, inode, run.start, run.end, file_end);
    map.bump();
    inode::note_transaction(handle, inode, true);
    // After an error some extents may have been converted.
    if inode_changed.unwrap_or(true) {
        inode::mark_dirty(handle, inode)?;
    }
    inode_changed.map(drop)
}

/// Makes a file shorter: sets its size, here and in what the disk is told, to `size`. Afterwards
/// write-back allocates nothing beyond it. The caller holds `i_rwsem` and a handle in which the inode
/// is an orphan, and dirties the inode in it. Takes the mapping lock exclusively.
pub(crate) fn lower_size(inode: &Inode, size: u64) {
    let _alone = inode.data().map.lock.write();
    // A conversion that ends meanwhile looks at both under this lock.
    let mut raw = inode.data().raw.lock();
    inode.set_size(size);
    raw.disk_size = size;
}

/// Whether the file has any block from `from` on, on disk or waiting for allocation.
///
/// # Errors
///
/// As [`lookup`].
pub(crate) fn has_blocks_from(inode: &Inode, from: u32) -> Result<bool> {
    // A file of the greatest size has no block behind its end that a tree could be asked for.
    if u64::from(from) >= LBLK_END {
        return Ok(false);
    }
    let map = &inode.data().map;
    let _shared = map.lock.read();
    match extent_tree::lookup(inode, from)? {
        Found::Gap(gap) if gap.end >= LBLK_END => {}
        _ => return Ok(true),
    }
    let status = map.status.lock();
    Ok(status.delalloc.next(from).is_some() || status.reserved.next(from).is_some())
}

/// Removes the blocks `from..end` of a file, allocated or not, and frees them, the last ones first.
/// Their folios are gone, and nobody brings new ones. Takes the mapping lock exclusively, again and
/// again.
///
/// The handle has [`credits_remove`] credits at first. It is extended, or its transaction let go, as
/// often as need be, with the inode written and all that is removed freed: what else the caller has
/// changed in it is consistent by itself. When this returns there may be no credit left but one for
/// the inode.
///
/// # Errors
///
/// `ENOSPC`, `ENOMEM` and `EFBIG` if an extent had to be cut in two; `EFSCORRUPTED`, `EFSBADCRC` or
/// `EIO`, reported, if the extent tree is bad: what comes behind is removed then. Otherwise the
/// volume has stopped.
pub(crate) fn remove(handle: &mut Handle<'_>, inode: &Inode, from: u32, end: u32) -> Result {
    let map = &inode.data().map;
    let cost = removal_cost(inode);
    let credits = credits_remove(inode);
    let mut drop_waiting = true;
    loop {
        handle.ensure(credits, cost.revokes)?;
        let _alone = map.lock.write();
        if core::mem::take(&mut drop_waiting) {
            release(inode, from, end.saturating_sub(from), Which::All);
        }
        let removed = extent_tree::remove(handle, inode, from, end, &cost);
        map.bump();
        inode::note_transaction(handle, inode, true);
        inode::mark_dirty(handle, inode)?;
        if removed? {
            return Ok(());
        }
    }
}

/// What one extent takes to be removed: the nodes that change, are freed or, where an extent is cut
/// in two, added; and the groups that its blocks are in.
fn removal_cost(inode: &Inode) -> extent_tree::Cost {
    /// Blocks of a directory or symlink that are freed at once: each takes a revoke.
    const METADATA: u32 = 512;

    let geo = &inode.super_block().data().geo;
    let blocks = if inode.is_reg() {
        MAX_WRITTEN
    } else {
        METADATA
    };
    // One more at each end.
    let groups = blocks
        .checked_div(geo.blocks_per_group)
        .unwrap_or(0)
        .saturating_add(2);
    let nodes = u32::from(MAX_DEPTH) * 2 + 1;
    extent_tree::Cost {
        credits: credits_of(inode, nodes, groups),
        revokes: nodes.saturating_add(if inode.is_reg() { 0 } else { METADATA }),
        blocks,
    }
}

/// Credits that [`remove`] wants to begin with.
pub(crate) fn credits_remove(inode: &Inode) -> u32 {
    removal_cost(inode)
        .credits
        .saturating_add(inode::CREDITS_DIRTY)
}

/// Revokes that [`remove`] wants to begin with.
pub(crate) fn revokes_remove(inode: &Inode) -> u32 {
    removal_cost(inode).revokes
}

/// Credits for allocating a run of blocks and putting one extent into the tree
/// (`ext4_chunk_trans_blocks`).
pub(crate) fn credits_map(inode: &Inode) -> u32 {
    // Each level may be split in two, and one more comes with a new root.
    credits_of(inode, u32::from(MAX_DEPTH) * 2 + 1, 1)
}

/// Credits for converting one contiguous range of one extent (`ext4_meta_trans_blocks`): two
/// extents come into the same leaf.
pub(crate) fn credits_convert(inode: &Inode) -> u32 {
    credits_of(inode, u32::from(MAX_DEPTH) * 2 + 1, 0)
}

/// Credits for changing or adding `nodes` nodes of the tree and allocating `runs` runs of data: each
/// new one may be in a group of its own, whose bitmap and descriptor change.
fn credits_of(inode: &Inode, nodes: u32, runs: u32) -> u32 {
    /// The inode, the superblock, and what the extended attributes may need
    /// (`EXT4_META_TRANS_BLOCKS`).
    const REST: u32 = 6;

    let geo = &inode.super_block().data().geo;
    let groups = nodes.saturating_add(runs);
    let bitmaps = groups.min(geo.groups_count);
    let descriptors = groups.min(geo.desc_blocks);
    nodes
        .saturating_add(bitmaps)
        .saturating_add(descriptors)
        .saturating_add(REST)
}
