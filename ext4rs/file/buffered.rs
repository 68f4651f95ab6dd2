// SPDX-License-Identifier: GPL-2.0

//! Data in the page cache: how a file is mapped to be read into it, and what a write reserves.
//!
//! A write reserves space before it copies (RESERVED in the inode's status tree), and says with
//! each folio, before that is unlocked, which of it holds data now (DELALLOC). No block is
//! allocated here and no handle is open; write-back does that.

use super::{blocks_over, position, to_iomap};
use crate::{
    alloc,
    inode::{self, Inode},
    journal::{self, Kind as HandleKind},
    map::{self, Extent, Kind},
    volume::Ext4,
    writeback,
};
use ext4rs_vfs::{
    fs::{IoVec, Kiocb},
    iomap::{self, Iomap, IomapOps, MapFlags, Request, WriteOps},
};
use kernel::prelude::*;

/// How many bytes one reservation of a write covers at most. A longer write makes several, so that
/// it gets as far as there is space.
const MAX_RESERVATION: u64 = 8 << 20;

/// How a file is mapped to be read, and to be told of.
pub(crate) enum ReadMap {}

/// How a file is mapped to be written by a call, and zeroed.
pub(crate) enum WriteMap {}

/// How a file is mapped when a page of it is written through memory.
pub(crate) enum FaultMap {}

/// What is noted about each folio that is written to.
pub(crate) enum Copied {}

/// The blocks that a request asks for: the first, and how many.
fn blocks_of(inode: &Inode, request: &Request) -> Result<(u32, u32)> {
    let blocks = blocks_over(inode, request.pos, request.end())?;
    Ok((blocks.start, blocks.end.saturating_sub(blocks.start).max(1)))
}

impl IomapOps<Ext4> for ReadMap {
    fn begin(inode: &Inode, request: &Request) -> Result<Iomap> {
        let (lblk, len) = blocks_of(inode, request)?;
        Ok(to_iomap(inode, &map::lookup(inode, lblk, len)?))
    }
}

impl IomapOps<Ext4> for WriteMap {
    fn begin(inode: &Inode, request: &Request) -> Result<Iomap> {
        inode.super_block().data().check_running()?;
        let (lblk, len) = blocks_of(inode, request)?;
        if !request.is_write() {
            return Ok(to_iomap(inode, &map::lookup(inode, lblk, len)?));
        }
        let max = blocks_over(inode, 0, MAX_RESERVATION)?.end;
        let extent = reserve(inode, lblk, len.min(max))?;
        let mut map = to_iomap(inode, &extent);
        if extent.kind == Kind::Delalloc {
            map.flags = MapFlags::NEW;
        }
        Ok(map)
    }

    fn end(inode: &Inode, request: &Request, done: u64, map: &Iomap) -> Result {
        let end = request.pos.saturating_add(done);
        if map.flags.contains(MapFlags::NEW) {
            release_rest(inode, request, done)?;
        }
        // Blocks that waited may have been allocated since, as written ones in a handle that did not
        // see the new size.
        if map.flags.contains(MapFlags::SIZE_CHANGED) {
            raise_disk_size(inode, end)?;
        }
        Ok(())
    }
}

impl IomapOps<Ext4> for FaultMap {
    /// Under the folio lock: what cannot be reserved now fails, the journal is not waited for. The
    /// page holds data as soon as the lock is gone, so that its blocks are DELALLOC at once.
    fn begin(inode: &Inode, request: &Request) -> Result<Iomap> {
        inode.super_block().data().check_running()?;
        let (lblk, len) = blocks_of(inode, request)?;
        Ok(to_iomap(inode, &map::reserve(inode, lblk, len, true)?))
    }
}

impl WriteOps<Ext4> for Copied {
    fn copied(inode: &Inode, pos: u64, copied: u64) {
        if copied == 0 {
            return;
        }
        // A block that was written in part is written. The range lies within the mapping that
        // `begin` gave, so that it has block numbers.
        if let Ok(blocks) = blocks_over(inode, pos, pos.saturating_add(copied)) {
            map::commit_reserved(inode, blocks.start, blocks.end.saturating_sub(blocks.start));
        }
    }

    fn is_valid(inode: &Inode, map: &Iomap) -> bool {
        u64::from(map::seq(inode)) == map.cookie
    }
}

/// Reserves blocks for a write. No lock is held that a commit might wait for: if there is no space,
/// what was freed is made usable.
fn reserve(inode: &Inode, lblk: u32, len: u32) -> Result<Extent> {
    match map::reserve(inode, lblk, len, false) {
        Err(e) if e == ENOSPC && alloc::commit_freed(inode.super_block()) => {
            map::reserve(inode, lblk, len, false)
        }
        reserved => reserved,
    }
}

/// Gives back what stayed RESERVED of a request of which the first `done` bytes were written.
fn release_rest(inode: &Inode, request: &Request, done: u64) -> Result {
    let mut blocks = blocks_over(inode, request.pos, request.end())?;
    if done != 0 {
        // A block that was written in part is written.
        blocks.start = blocks_over(inode, 0, request.pos.saturating_add(done))?.end;
    }
    if !blocks.is_empty() {
        let len = blocks.end.saturating_sub(blocks.start);
        map::release(inode, blocks.start, len, map::Which::Reserved);
    }
    Ok(())
}

/// After a write that made the file end at byte `end`: raises the size on disk, if the block there
/// is a written one (rule 7), as then nobody else may. If it is unwritten its conversion is still to
/// come, if it waits for allocation that is, and either reads the new size.
fn raise_disk_size(inode: &Inode, end: u64) -> Result {
    if end <= inode.data().raw.lock().disk_size {
        return Ok(());
    }
    let last = blocks_over(inode, end.saturating_sub(1), end)?;
    if !matches!(map::lookup(inode, last.start, 1)?.kind, Kind::Written(_)) {
        return Ok(());
    }
    let sb = inode.super_block();
    let handle = journal::start(sb, inode::CREDITS_DIRTY, HandleKind::Inode)?;
    {
        let mut raw = inode.data().raw.lock();
        raw.disk_size = raw.disk_size.max(end);
    }
    inode::mark_dirty(&handle, inode)?;
    handle.stop()
}

/// Writes to a file through the page cache.
pub(super) fn write(call: &mut Kiocb<'_, Ext4>, from: &mut IoVec<'_>) -> Result<usize> {
    let inode = call.inode();
    let written = {
        let _lock = inode.lock();
        inode.super_block().data().check_running()?;
        if inode.is_immutable() {
            return Err(EPERM);
        }
        if call.write_checks(from)? == 0 {
            return Ok(0);
        }
        call.modified()?;
        zero_tail(inode, call.pos())?;
        let start = call.pos();
        let written = iomap::write::<Ext4, WriteMap, Copied>(call, from)?;
        if !inode.super_block().data().options.lock().delalloc {
            map_written(inode, start, call.pos())?;
        }
        written
    };
    call.write_sync(written)
}

/// Has the blocks of the bytes `start..end`, which were just copied, allocated before the call
/// returns (rule 2).
fn map_written(inode: &Inode, start: u64, end: u64) -> Result {
    writeback::map_now(inode, blocks_over(inode, start, end)?)
}

/// Makes a file larger: `size` bytes, which is more than it has. The caller holds the inode's
/// `i_rwsem` and sets the size on disk afterwards.
///
/// # Errors
///
/// The size is as it was.
pub(crate) fn grow(inode: &Inode, size: u64) -> Result {
    let old = inode.size();
    zero_tail(inode, size)?;
    inode.set_size(size);
    inode.mapping().size_extended(old, size);
    Ok(())
}

/// Zeros what is behind the file's end in the block that it ends in, if that holds data: nobody who
/// makes the file longer shall see it. The caller holds `i_rwsem`, or the only reference, and the
/// invalidate_lock.
///
/// If the block holds data on disk the zeros are on disk too before this returns (rule 10): whoever
/// writes on from there makes the file longer with blocks of its own, which may be on disk before
/// this one is.
pub(crate) fn zero_behind_end(inode: &Inode) -> Result {
    let size = inode.size();
    let block = u64::from(inode.super_block().block_size());
    let end = size.checked_next_multiple_of(block).ok_or(EFBIG)?;
    if size < end && iomap::zero_range::<Ext4, WriteMap, Copied>(inode, size, end)? {
        send_zeros(inode, size, end)?;
    }
    Ok(())
}

/// The bytes `start..end`, which lie in one block, were zeroed in the page cache: brings them to disk
/// if the block holds data there. No handle and no folio lock is held.
fn send_zeros(inode: &Inode, start: u64, end: u64) -> Result {
    let block = blocks_over(inode, start, end)?.start;
    if matches!(map::lookup(inode, block, 1)?.kind, Kind::Written(_)) {
        inode
            .mapping()
            .write_and_wait_range(position(inode, block), end)?;
    }
    Ok(())
}

/// The file is going to extend to byte `end` at least: zeros what lies between its end and `end` in
/// the block that it ends in. A store through memory may have left something there.
///
/// If that block holds data on disk the zeros are on disk too before this returns: the larger size
/// may then be logged at any time (rule 10). An unwritten block is written with its zeros before it
/// is converted.
fn zero_tail(inode: &Inode, end: u64) -> Result {
    let size = inode.size();
    let block = u64::from(inode.super_block().block_size());
    let end = end.min(size.checked_next_multiple_of(block).ok_or(EFBIG)?);
    if size >= end {
        return Ok(());
    }
    let zeroed = {
        let _lock = inode.mapping().invalidate_lock();
        iomap::zero_range::<Ext4, WriteMap, Copied>(inode, size, end)?
    };
    if zeroed {
        send_zeros(inode, size, end)?;
    }
    Ok(())
}
