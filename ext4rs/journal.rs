// SPDX-License-Identifier: GPL-2.0

//! The journal as the filesystem sees it: loading it, handles, commits. Credits are counted where
//! the blocks are: in `map`, `dir` and `inode`.
//!
//! A handle is started on the volume, not on the journal: it is refused when the volume takes no
//! more changes, and what goes wrong under it is reported and stops the volume. Behaviour:
//! `fs/ext4/ext4_jbd2.c`, `ext4_load_journal`, `ext4_fsync_journal`.

use crate::{
    inode::{self, Inode},
    report, super_block,
    volume::{Sb, Volume},
};
use core::ops::Deref;
use ext4rs_layout::{Incompat, RoCompat};
use ext4rs_vfs::{
    buffer_head::BufferHead,
    jbd2::{self, Features, Journal, Params, ReservedHandle, Tid},
    log::Level,
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, atomic::ordering},
};

/// What a handle is for, as jbd2's trace events show it (`EXT4_HT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// What is like nothing else (`EXT4_HT_MISC`).
    Misc = 0,
    /// An inode's own fields (`EXT4_HT_INODE`).
    Inode = 1,
    /// Mapping in write-back (`EXT4_HT_WRITE_PAGE`).
    WritePage = 2,
    /// A directory and what is created in it (`EXT4_HT_DIR`).
    Dir = 4,
    /// A file being cut short or deleted (`EXT4_HT_TRUNCATE`).
    Truncate = 5,
    /// Extended attributes (`EXT4_HT_XATTR`).
    Xattr = 10,
    /// Unwritten to written (`EXT4_HT_EXT_CONVERT`).
    ExtentConvert = 11,
}

/// Revokes that every handle can make: for the few blocks of metadata that an operation frees
/// beside what it is for (`ext4_trans_default_revoke_credits`).
const DEFAULT_REVOKES: u32 = 8;

/// A handle on the volume. See [`jbd2::Handle`], whose methods it has.
///
/// Lock order: a handle comes before the mapping lock, and is never open in a task that holds a
/// folio lock or waits for one.
pub(crate) struct Handle<'a> {
    inner: jbd2::Handle<'a>,
    sb: &'a Sb,
}

impl<'a> Deref for Handle<'a> {
    type Target = jbd2::Handle<'a>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl<'a> Handle<'a> {
    /// Takes an error of the journal. A change may be in memory and in no transaction, so the
    /// volume stops, whatever `errors=` says.
    fn failed(&self, function: &str, block: u64, e: Error) -> Error {
        if !self.sb.data().is_stopped() {
            report::abort(
                self.sb,
                function,
                e,
                fmt!("block {}: error {}", block, e.to_errno()),
            );
        }
        e
    }

    /// Changes a block of metadata in the transaction. Costs a credit the first time. Sleeps before
    /// it calls `f`, which runs under a spinlock: no sleeping, and no other block's content in it.
    ///
    /// # Errors
    ///
    /// The volume has stopped.
    pub(crate) fn modify<R>(&self, bh: &BufferHead, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.inner
            .modify(bh, f)
            .map_err(|e| self.failed("journal_modify", bh.block(), e))
    }

    /// Makes a block of metadata from nothing: `f`, under the rules of [`Handle::modify`], sees
    /// zeros. The block counts as verified. Costs a credit.
    ///
    /// # Errors
    ///
    /// `EIO` if `block` is not on the device; otherwise the volume has stopped.
    pub(crate) fn create<R>(
        &self,
        block: u64,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<(BufferHead, R)> {
        let blank = self.sb.getblk(block)?;
        let made = self
            .inner
            .create(blank, f)
            .map_err(|e| self.failed("journal_create", block, e))?;
        made.0.set_verified();
        Ok(made)
    }

    /// The volume.
    pub(crate) fn super_block(&self) -> &'a Sb {
        self.sb
    }

    /// Frees a block of metadata in the transaction: it is forgotten, and replay of an older
    /// transaction does not write it. Costs a revoke.
    ///
    /// # Errors
    ///
    /// The volume has stopped.
    pub(crate) fn revoke(&self, block: u64) -> Result {
        self.inner
            .revoke(block)
            .map_err(|e| self.failed("journal_revoke", block, e))
    }

    /// Makes sure of `credits` and `revokes`: asks for more, or lets the transaction go and joins the
    /// next one. What was changed so far is consistent by itself, and no lock is held that another
    /// handle's owner might wait for.
    ///
    /// # Errors
    ///
    /// `EROFS` if the journal is aborted; `EBUSY` if the handle is part of an outer one and its
    /// transaction is full.
    pub(crate) fn ensure(&mut self, credits: u32, revokes: u32) -> Result {
        let more = credits.saturating_sub(self.inner.credits_left());
        let more_revokes = revokes.saturating_sub(self.inner.revokes_left());
        if (more == 0 && more_revokes == 0) || self.inner.extend(more, more_revokes)? {
            return Ok(());
        }
        self.inner.restart(credits, revokes)
    }

    /// Ends the handle; waits for the commit if it was made synchronous.
    ///
    /// # Errors
    ///
    /// `EIO` if the journal was aborted meanwhile.
    pub(crate) fn stop(self) -> Result {
        let sb = self.sb;
        self.inner.stop().inspect_err(|&e| {
            if !sb.data().is_stopped() {
                report::abort(sb, "journal_stop", e, fmt!("Detected aborted journal"));
            }
        })
    }
}

/// Whether the volume takes a handle now (`ext4_journal_check_start`).
fn check_start(sb: &Sb) -> Result<&Journal> {
    let vol = sb.data();
    vol.check_running()?;
    if sb.is_read_only() && !vol.cleaning.load(ordering::Relaxed) {
        return Err(EROFS);
    }
    let journal = vol.journal.as_ref().ok_or(EROFS)?;
    if journal.is_aborted() {
        // It gave up behind our back, in the commit thread.
        report::abort(
            sb,
            "journal_check_start",
            journal.recorded_error().unwrap_or(EROFS),
            fmt!("Detected aborted journal"),
        );
        return Err(EROFS);
    }
    Ok(journal)
}

/// Starts a handle that may change `credits` blocks. Waits for room in the log, so the caller holds
/// no folio lock, no mapping lock, and nothing else that a transaction's end may wait for. If the
/// task has a handle open, the new one is part of it and shares its credits.
///
/// # Errors
///
/// `EROFS` if the volume takes no changes; `ENOSPC` if no transaction is that large; `ENOMEM`.
pub(crate) fn start(sb: &Sb, credits: u32, kind: Kind) -> Result<Handle<'_>> {
    let journal = check_start(sb)?;
    let inner = journal.start(credits, 0, DEFAULT_REVOKES, kind as u8)?;
    Ok(Handle { inner, sb })
}

/// As [`start`], for a handle that may also free `revokes` blocks of metadata.
///
/// # Errors
///
/// As [`start`].
pub(crate) fn start_freeing(sb: &Sb, credits: u32, revokes: u32, kind: Kind) -> Result<Handle<'_>> {
    let journal = check_start(sb)?;
    let inner = journal.start(credits, 0, revokes, kind as u8)?;
    Ok(Handle { inner, sb })
}

/// As [`start`], and reserves `reserved` blocks for a handle to be started later, when waiting for
/// the log is not possible: by [`start_reserved`].
///
/// # Errors
///
/// As [`start`]; `EDEADLK` if the task has a handle open.
pub(crate) fn start_reserving(
    sb: &Sb,
    credits: u32,
    reserved: u32,
    kind: Kind,
) -> Result<(Handle<'_>, ReservedHandle)> {
    let journal = check_start(sb)?;
    let inner = journal.start(credits, reserved, 0, kind as u8)?;
    let reserved = inner.take_reserved().ok_or(EDEADLK)?;
    Ok((Handle { inner, sb }, reserved))
}

/// Starts a handle on reserved credits. Does not wait for the log.
///
/// # Errors
///
/// `EROFS` if the volume takes no changes. The reservation is given back.
pub(crate) fn start_reserved(sb: &Sb, reserved: ReservedHandle, kind: Kind) -> Result<Handle<'_>> {
    let journal = check_start(sb)?;
    let inner = reserved.start(journal, kind as u8)?;
    Ok(Handle { inner, sb })
}

/// The newest transaction, as [`Tid::to_raw`] numbers it; 0 without a journal. An inode read now has
/// been changed by no later one.
pub(crate) fn current_tid(sb: &Sb) -> u32 {
    sb.data()
        .journal
        .as_ref()
        .and_then(|journal| journal.current_tid().ok())
        .map_or(0, Tid::to_raw)
}

/// Whether the transaction `tid` is in the log for good, or there is no log. Takes no lock.
pub(crate) fn is_committed(vol: &Volume, tid: u32) -> bool {
    vol.journal
        .as_ref()
        .is_none_or(|journal| journal.is_committed(Tid::from_raw(tid)))
}

/// Waits until the transaction `tid` is in the log. The caller has no handle open.
///
/// # Errors
///
/// `EDEADLK` if it has; `EIO` if the journal is aborted.
pub(crate) fn complete(sb: &Sb, tid: u32) -> Result {
    match sb.data().journal.as_ref() {
        Some(journal) => journal.complete_transaction(Tid::from_raw(tid)),
        None => Ok(()),
    }
}

/// Brings the transaction `tid`, and all data written before, to stable storage. The caller has no
/// handle open.
///
/// # Errors
///
/// `EROFS` if the volume has stopped, `EIO` if the journal is aborted or the device cannot flush.
pub(crate) fn commit(sb: &Sb, tid: u32) -> Result {
    let vol = sb.data();
    vol.check_running()?;
    let tid = Tid::from_raw(tid);
    let barrier = vol.options.lock().barrier;
    let Some(journal) = vol.journal.as_ref() else {
        return Ok(());
    };
    // A commit that is still to come flushes the device itself; one that is past may have done so
    // before our data was there.
    let flush = barrier && !journal.will_flush(tid);
    journal.complete_transaction(tid)?;
    if journal.is_aborted() {
        return Err(EIO);
    }
    if flush {
        sb.flush_device()?;
    }
    Ok(())
}

/// Commits what is running, and with `wait` brings it and all data written before to stable storage
/// (`ext4_sync_fs`).
pub(crate) fn sync(sb: &Sb, wait: bool) -> Result {
    let vol = sb.data();
    let barrier = vol.options.lock().barrier;
    let committing = vol.journal.as_ref().and_then(Journal::start_commit);
    if !wait {
        return Ok(());
    }
    match committing {
        Some(tid) => commit(sb, tid.to_raw()),
        None if barrier && !sb.is_device_read_only() => sb.flush_device(),
        None => Ok(()),
    }
}

/// Commits, writes everything to its place and marks the log empty on disk: the volume could be
/// mounted without recovery. Waits for all handles to stop.
///
/// # Errors
///
/// `EIO` if the journal is aborted.
pub(crate) fn checkpoint(sb: &Sb) -> Result {
    match sb.data().journal.as_ref() {
        Some(journal) => journal.lock_updates()?.flush(),
        None => Ok(()),
    }
}

fn params(sb: &Sb) -> Params {
    let options = sb.data().options.lock();
    Params {
        barrier: options.barrier,
        commit_interval: options.commit_seconds,
        min_batch_time: options.min_batch_time(),
        max_batch_time: options.max_batch_time(),
    }
}

/// Gives the journal the options in force.
pub(crate) fn apply_options(sb: &Sb) {
    let params = params(sb);
    if let Some(journal) = sb.data().journal.as_ref() {
        // A journal that is destroyed needs none.
        let _ = journal.set_params(&params);
    }
}

/// The inode that holds the journal.
fn journal_inode(sb: &Sb) -> Result<ARef<Inode>> {
    inode::iget_internal(sb, sb.data().disk.journal_inum)
        .inspect_err(|_| report::message(sb, Level::Err, fmt!("no journal found")))
}

/// Loads the journal, while the volume is being mounted, and replays it if `needs_recovery`. The
/// blocks read so far may have changed afterwards, in memory and on disk.
///
/// # Errors
///
/// Anything that is wrong with the journal; a line in the log says what.
pub(crate) fn load(sb: &Sb, needs_recovery: bool) -> Result {
    let vol = sb.data();
    let options = jbd2::Options {
        needs_recovery,
        device_read_only: sb.is_device_read_only(),
        features: Features {
            wide: vol.disk.incompat.has(Incompat::SIXTY_FOUR_BIT),
            checksum: vol.disk.ro_compat.has(RoCompat::METADATA_CSUM),
        },
        params: params(sb),
    };
    if !options.params.barrier {
        report::message(sb, Level::Info, fmt!("barriers disabled"));
    }
    let journal = Journal::load_ordered(journal_inode(sb)?, &options).inspect_err(|&e| {
        let why = if e == EOPNOTSUPP {
            "recovery of a journal with fast commits is not built yet"
        } else {
            "error loading journal"
        };
        report::message(sb, Level::Err, fmt!("{}", why));
    })?;
    if !vol.journal.populate(journal) {
        return Err(EBUSY);
    }
    Ok(())
}

/// The journal was aborted on an earlier mount: the superblock takes the note over, so that `e2fsck`
/// looks, and the journal can be used again (`ext4_clear_journal_err`).
pub(crate) fn take_over_error(sb: &Sb) -> Result {
    let vol = sb.data();
    let Some(e) = vol.journal.as_ref().and_then(Journal::recorded_error) else {
        return Ok(());
    };
    report::message(
        sb,
        Level::Warning,
        fmt!(
            "Filesystem error recorded from previous mount: error {}",
            e.to_errno()
        ),
    );
    vol.errors.found.store(true, ordering::Relaxed);
    if sb.is_device_read_only() {
        return Ok(());
    }
    super_block::commit(sb)?;
    report::message(
        sb,
        Level::Warning,
        fmt!("Marked fs in need of filesystem check."),
    );
    vol.journal
        .as_ref()
        .map_or(Ok(()), Journal::clear_recorded_error)
}
