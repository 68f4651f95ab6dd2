// SPDX-License-Identifier: GPL-2.0

//! Step 3: what was written into unwritten blocks becomes part of the file on disk.

use super::submit::PIECES;
use crate::{
    file::blocks_over,
    inode::{self, Inode},
    journal::{self, Kind},
    map, report,
    volume::{Ext4, Sb},
};
use core::{iter::Peekable, ops::Range};
use ext4rs_vfs::{
    jbd2::ReservedHandle,
    log::Level,
    writeback::{Ranges, WindowOps, Written},
};
use kernel::{prelude::*, workqueue::Queue};

/// The credits that a window reserves: for as many conversions as it may need, and the inode.
pub(super) fn credits(inode: &Inode) -> u32 {
    map::credits_convert(inode)
        .saturating_mul(PIECES)
        .saturating_add(inode::CREDITS_DIRTY)
}

impl WindowOps for Ext4 {
    type Payload = ReservedHandle;

    fn convert(inode: &Inode, reserved: ReservedHandle, written: &Written) -> Result {
        let result = convert(inode, reserved, written);
        if let Err(e) = result {
            let sb = inode.super_block();
            if !sb.data().is_stopped() {
                report::message(
                    sb,
                    Level::Crit,
                    fmt!(
                        "failed to convert unwritten extents to written extents -- potential \
                         data loss!  (inode {}, error {})",
                        inode.ino(),
                        e.to_errno()
                    ),
                );
            }
        }
        result
    }

    fn conversion_queue(sb: &Sb) -> &Queue {
        &sb.data().writeback.queue
    }
}

/// Converts what was written, and raises the size on disk to the end of it, in one handle. If that
/// fails midway, what was converted before has the size that it needs: `e2fsck` would cut it off
/// otherwise.
///
/// The handle is a reserved one (rule 6): it does not wait for room in the log, which may be full
/// of transactions that wait for this very write-back. It is never restarted, and metadata blocks
/// that the tree of extents needs come from the completion pool. If the device failed midway there
/// may be more runs than credits were reserved for: then the rest counts as failed.
fn convert(inode: &Inode, reserved: ReservedHandle, written: &Written) -> Result {
    let mut ranges = written.ranges().peekable();
    if ranges.peek().is_none() {
        // Nothing of it reached the device.
        return Ok(());
    }
    let sb = inode.super_block();
    let need = map::credits_convert(inode).saturating_add(inode::CREDITS_DIRTY);
    let handle = journal::start_reserved(sb, reserved, Kind::ExtentConvert)?;
    let mut done = 0u64;
    let mut result = Ok(());
    while let Some(run) = next_run(inode, &mut ranges)? {
        if done > 0 && handle.credits_left() < need {
            result = Err(EIO);
            break;
        }
        result = map::convert(&handle, inode, run.start, run.end.saturating_sub(run.start));
        if result.is_err() {
            break;
        }
        map::raise_disk_size(inode, run.end);
        done = done.saturating_add(1);
    }
    sb.data().writeback.counters.conversions.add(done);
    inode::mark_dirty(&handle, inode)?;
    handle.stop()?;
    result
}

/// The next run of blocks in what was written. A range that was sent when the file ended within a
/// block ends there; what was sent when it had grown goes on at the next block.
fn next_run(inode: &Inode, ranges: &mut Peekable<Ranges<'_>>) -> Result<Option<Range<u32>>> {
    let Some(first) = ranges.next() else {
        return Ok(None);
    };
    let mut run = blocks_over(inode, first.start, first.end)?;
    while let Some(next) = ranges.peek() {
        let next = blocks_over(inode, next.start, next.end)?;
        if next.start > run.end {
            break;
        }
        run.end = next.end.max(run.end);
        ranges.next();
    }
    Ok(Some(run))
}
