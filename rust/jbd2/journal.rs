// SPDX-License-Identifier: GPL-2.0

//! Loading, committing and destroying a journal.

use super::{inode, Handle, Inner, OrderedData, Tid, Use};
use crate::{
    bindings,
    fs::{FileSystem, INode},
};
use core::ptr::NonNull;
use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_ulong},
    prelude::*,
    sync::{aref::ARef, Arc},
    types::NotThreadSafe,
};

/// What of a journal can be changed while it is in use.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Flush the device's cache where the order of writes matters.
    pub barrier: bool,
    /// The age, in seconds, at which a transaction is committed unasked. Not 0.
    pub commit_interval: u32,
    /// The least and the most time, in microseconds, that a synchronous handle waits for others to
    /// join its transaction.
    pub min_batch_time: u32,
    /// See `min_batch_time`; 0 means no waiting.
    pub max_batch_time: u32,
}

/// The format of what is written to the journal.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Block numbers of 64 bits.
    pub wide: bool,
    /// Checksums, version 3, over all that is logged; without, there are none.
    pub checksum: bool,
}

/// How to load a journal.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The filesystem says that its journal may hold transactions that have not reached their
    /// place. Otherwise its content is stale, and is wiped.
    pub needs_recovery: bool,
    /// The device refuses writes.
    pub device_read_only: bool,
    /// The format for new transactions.
    pub features: Features,
    /// See [`Params`].
    pub params: Params,
}

/// A loaded journal.
///
/// All methods sleep, unless they say otherwise.
pub struct Journal {
    inner: Arc<Inner>,
}

/// The right to be the one journal of the volume on a device.
pub(super) struct Claim(bindings::dev_t);

impl Claim {
    /// Claims the journal of the volume that `inode` is on. `EBUSY` if it has one, or is mounted.
    fn new<T: FileSystem>(inode: &INode<T>) -> Result<Self> {
        // SAFETY: The inode and its superblock are live.
        let (err, dev) = unsafe {
            let sb = (*inode.as_ptr()).i_sb;
            (bindings::jbd2_claim(sb), (*sb).s_dev)
        };
        to_result(err)?;
        Ok(Self(dev))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // SAFETY: Claimed in `new`, and given up once.
        unsafe { bindings::jbd2_unclaim(self.0) };
    }
}

/// A C journal on its way to be loaded; destroyed if that fails. Owns it.
struct Unloaded(NonNull<bindings::journal_t>);

impl Unloaded {
    fn as_ptr(&self) -> *mut bindings::journal_t {
        self.0.as_ptr()
    }

    fn set_features(&self, features: Features) -> Result {
        let wide = u32::from(features.wide) * bindings::JBD2_FEATURE_INCOMPAT_64BIT;
        let checksum = u32::from(features.checksum) * bindings::JBD2_FEATURE_INCOMPAT_CSUM_V3;
        let without = bindings::JBD2_FEATURE_INCOMPAT_CSUM_V2
            | bindings::JBD2_FEATURE_INCOMPAT_CSUM_V3
            | bindings::JBD2_FEATURE_INCOMPAT_ASYNC_COMMIT;
        // SAFETY: The journal is loaded and has no transaction. Clearing first makes jbd2 compute
        // the checksum's seed when it sets the feature, as ext4 has it.
        let ok = unsafe {
            bindings::jbd2_journal_clear_features(
                self.as_ptr(),
                bindings::JBD2_FEATURE_COMPAT_CHECKSUM as c_ulong,
                0,
                without as c_ulong,
            );
            bindings::jbd2_journal_set_features(self.as_ptr(), 0, 0, (wide | checksum) as c_ulong)
        };
        if ok == 0 {
            return Err(EINVAL);
        }
        Ok(())
    }
}

impl Drop for Unloaded {
    fn drop(&mut self) {
        // SAFETY: Owned, and never seen by anybody else. jbd2 writes nothing to the disk as long as
        // the journal is not loaded. This gives back the inode.
        unsafe { bindings::jbd2_journal_destroy(self.as_ptr()) };
    }
}

impl Journal {
    /// Loads the journal that `inode` holds, recovering the volume if it is dirty, and starts its
    /// commit thread. To be called while the volume is being mounted; the blocks read before may
    /// have changed in memory. The inode's address space must be able to map blocks (`bmap`).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the journal is dirty and has fast commits, of which jbd2 alone would drop the
    /// last; `EBUSY` if the volume is mounted already, or has its journal loaded; `EFSCORRUPTED` or
    /// `EFSBADCRC` if the log is damaged; `EINVAL` if there is no journal, or one too old for the
    /// features.
    pub fn load<T: FileSystem>(inode: ARef<INode<T>>, options: &Options) -> Result<Self> {
        Self::load_then(inode, options, |_| ())
    }

    /// As [`Journal::load`], for a filesystem that attaches data to transactions: its
    /// [`OrderedData::ordered_flush`] is called before a commit.
    pub fn load_ordered<T: OrderedData>(inode: ARef<INode<T>>, options: &Options) -> Result<Self> {
        Self::load_then(inode, options, |journal| {
            // SAFETY: The journal is live and of a volume of `T`; no inode is attached yet, so the
            // commit thread has not looked at the callbacks.
            unsafe { inode::set_callbacks::<T>(journal) }
        })
    }

    /// Loads the journal and calls `then` before anybody can use it.
    fn load_then<T: FileSystem>(
        inode: ARef<INode<T>>,
        options: &Options,
        then: impl FnOnce(*mut bindings::journal_t),
    ) -> Result<Self> {
        let claim = Claim::new(&inode)?;
        // SAFETY: The inode is live, on a block device.
        let ptr = from_err_ptr(unsafe { bindings::jbd2_journal_init_inode(inode.as_ptr()) })?;
        let journal = Unloaded(NonNull::new(ptr).ok_or(EINVAL)?);
        // The journal has the inode's reference from here on.
        let _ = ARef::into_raw(inode);

        let revoke = bindings::JBD2_FEATURE_INCOMPAT_REVOKE as c_ulong;
        // SAFETY: The journal is live.
        let (dirty, fast_commit, modern) = unsafe {
            (
                options.needs_recovery && (*journal.as_ptr()).j_tail != 0,
                bindings::jbd2_has_feature_fast_commit(journal.as_ptr()),
                bindings::jbd2_journal_check_available_features(journal.as_ptr(), 0, 0, revoke),
            )
        };
        if modern == 0 {
            return Err(EINVAL);
        }
        if dirty && fast_commit {
            return Err(EOPNOTSUPP);
        }

        set_params(journal.as_ptr(), &options.params);
        // SAFETY: The journal is live and not loaded; the volume's buffers are this task's alone.
        unsafe {
            if !options.needs_recovery {
                let write = c_int::from(!options.device_read_only);
                to_result(bindings::jbd2_journal_wipe(journal.as_ptr(), write))?;
            }
            to_result(bindings::jbd2_journal_load(journal.as_ptr()))?;
        }
        journal.set_features(options.features)?;
        then(journal.as_ptr());

        let inner = Arc::pin_init(Inner::new(journal.0, claim), GFP_KERNEL)?;
        // `inner` owns the C journal now.
        core::mem::forget(journal);
        Ok(Self { inner })
    }

    /// Begins a use of the journal. `EROFS` if it is destroyed.
    fn enter(&self) -> Result<Use<'_>> {
        self.inner.enter().ok_or(EROFS)
    }

    /// Begins a use, for something that waits for a commit: the task must have no handle open, as
    /// the commit waits for that.
    fn enter_to_wait(&self) -> Result<Use<'_>> {
        // SAFETY: Reads a field of the current task.
        if unsafe { bindings::jbd2_handle_is_open() } {
            return Err(EDEADLK);
        }
        self.enter()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Starts a handle that may change up to `credits` blocks and revoke up to `revokes`, waiting
    /// for room in the log. With `reserved` not 0 it also reserves that many blocks for later: see
    /// [`Handle::take_reserved`]. `kind` shows up in jbd2's trace events.
    ///
    /// If the task has a handle of this journal open, the new one is part of it, shares its credits
    /// and reserves nothing.
    ///
    /// # Errors
    ///
    /// `EROFS` if the journal is aborted or destroyed; `ENOSPC` if the request is larger than a
    /// transaction may be (see [`Journal::max_credits`]); `EDEADLK` if the task has a handle of
    /// another journal; `ENOMEM`.
    pub fn start(&self, credits: u32, reserved: u32, revokes: u32, kind: u8) -> Result<Handle<'_>> {
        let journal = self.enter()?;
        // One transaction never has as many blocks; and no sum of three overflows.
        let [credits, reserved, revokes] = [credits, reserved, revokes].map(|n| {
            if n > c_int::MAX as u32 / 4 {
                Err(ENOSPC)
            } else {
                Ok(n as c_int)
            }
        });
        // SAFETY: The use keeps the journal. What `current->journal_info` points to is a handle of
        // jbd2's: no other user of that field calls into a filesystem while it is set.
        let handle = from_err_ptr(unsafe {
            bindings::jbd2_handle_start(
                journal.as_ptr(),
                credits?,
                reserved?,
                revokes?,
                u32::from(kind),
            )
        })?;
        let handle = NonNull::new(handle).ok_or(ENOMEM)?;
        // SAFETY: A reference to the current task's handle, which is ours to stop.
        Ok(unsafe { Handle::from_raw(handle, journal, &self.inner) })
    }

    /// The most credits that one handle can have, reserved ones included. 0 if the journal is
    /// destroyed. Does not sleep.
    pub fn max_credits(&self) -> u32 {
        self.enter()
            // SAFETY: The use keeps the journal.
            .map(|j| unsafe { bindings::jbd2_max_handle_credits(j.as_ptr()) })
            .map_or(0, |n| u32::try_from(n).unwrap_or(0))
    }

    /// Changes the parameters. Does not sleep.
    pub fn set_params(&self, params: &Params) -> Result {
        set_params(self.enter()?.as_ptr(), params);
        Ok(())
    }

    /// Commits the running transaction, if there is one, and waits for it and for the one being
    /// committed.
    ///
    /// # Errors
    ///
    /// `EIO` if the journal is aborted; `EDEADLK` if the task has a handle open.
    pub fn force_commit(&self) -> Result {
        let journal = self.enter_to_wait()?;
        // SAFETY: The use keeps the journal; the task has no handle, which jbd2 insists on.
        to_result(unsafe { bindings::jbd2_journal_force_commit(journal.as_ptr()) })
    }

    /// Asks for the running transaction to be committed, without waiting. Returns it, or the one
    /// being committed; `None` if there is neither. Does not sleep.
    pub fn start_commit(&self) -> Option<Tid> {
        let journal = self.enter().ok()?;
        let mut tid = 0;
        // SAFETY: The use keeps the journal; `tid` is ours.
        let some = unsafe { bindings::jbd2_journal_start_commit(journal.as_ptr(), &raw mut tid) };
        (some != 0).then_some(Tid(tid))
    }

    /// Waits until a transaction is on disk, asking for its commit if nobody did.
    ///
    /// # Errors
    ///
    /// `EIO` if the journal is aborted; `EDEADLK` if the task has a handle open; `EINVAL` if there
    /// has been no such transaction.
    pub fn complete_transaction(&self, tid: Tid) -> Result {
        let journal = self.enter_to_wait()?;
        // SAFETY: The use keeps the journal.
        unsafe {
            if !bindings::jbd2_tid_is_known(journal.as_ptr(), tid.0) {
                return Err(EINVAL);
            }
            to_result(bindings::jbd2_complete_transaction(journal.as_ptr(), tid.0))
        }
    }

    /// Whether a transaction is in the log for good: replay will not undo it. Does not sleep, and
    /// takes no lock.
    pub fn is_committed(&self, tid: Tid) -> bool {
        self.enter().is_ok_and(|j| {
            // SAFETY: The use keeps the journal. A commit that failed also counts, but only after
            // the journal was aborted.
            unsafe {
                bindings::jbd2_transaction_committed(j.as_ptr(), tid.0) != 0
                    && !bindings::is_journal_aborted(j.as_ptr())
            }
        })
    }

    /// Whether the current task has a handle open, of any journal. Does not sleep.
    pub fn is_in_handle() -> bool {
        // SAFETY: Reads a field of the current task.
        unsafe { bindings::jbd2_handle_is_open() }
    }

    /// Whether the commit of a transaction, still to come, will flush the device's cache: if not,
    /// whoever wants data to be durable flushes it himself. Does not sleep.
    pub fn will_flush(&self, tid: Tid) -> bool {
        // SAFETY: The use keeps the journal.
        self.enter().is_ok_and(|j| unsafe {
            bindings::jbd2_tid_is_known(j.as_ptr(), tid.0)
                && bindings::jbd2_trans_will_send_data_barrier(j.as_ptr(), tid.0) != 0
        })
    }

    /// The newest transaction there is. Does not sleep.
    pub fn current_tid(&self) -> Result<Tid> {
        let journal = self.enter()?;
        // SAFETY: The use keeps the journal.
        Ok(Tid(unsafe {
            bindings::jbd2_get_latest_transaction(journal.as_ptr())
        }))
    }

    /// Stops the journal for good: nothing more is committed, and handles fail. `reason` is
    /// recorded on disk.
    pub fn abort(&self, reason: Error) {
        if let Ok(journal) = self.enter() {
            // SAFETY: The use keeps the journal.
            unsafe { bindings::jbd2_journal_abort(journal.as_ptr(), reason.to_errno()) };
        }
    }

    /// Whether the journal is aborted or destroyed. Does not sleep.
    pub fn is_aborted(&self) -> bool {
        // SAFETY: The use keeps the journal.
        self.enter().map_or(true, |j| unsafe {
            bindings::is_journal_aborted(j.as_ptr())
        })
    }

    /// The error that an earlier mount recorded when it aborted the journal, or the reason why this
    /// one did. Does not sleep.
    pub fn recorded_error(&self) -> Option<Error> {
        let journal = self.enter().ok()?;
        // SAFETY: The use keeps the journal. The field comes from the disk.
        match unsafe { (&raw const (*journal.as_ptr()).j_errno).read_volatile() } {
            0 => None,
            n @ -4095..=-1 => Some(Error::from_errno(n)),
            _ => Some(EIO),
        }
    }

    /// Clears the recorded error, in memory and on disk: the filesystem has noted it elsewhere.
    ///
    /// # Errors
    ///
    /// `EROFS` if the journal is aborted.
    pub fn clear_recorded_error(&self) -> Result {
        let journal = self.enter()?;
        // SAFETY: The use keeps the journal.
        unsafe {
            to_result(bindings::jbd2_journal_clear_err(journal.as_ptr()))?;
            bindings::jbd2_journal_update_sb_errno(journal.as_ptr());
        }
        Ok(())
    }

    /// Waits until no handle is open and lets none start until the guard goes. Waits for reserved
    /// handles too.
    ///
    /// # Errors
    ///
    /// `EDEADLK` if the task has a handle open; `EROFS` if the journal is destroyed.
    pub fn lock_updates(&self) -> Result<UpdatesLock<'_>> {
        let journal = self.enter_to_wait()?;
        // SAFETY: The use keeps the journal.
        unsafe { bindings::jbd2_journal_lock_updates(journal.as_ptr()) };
        Ok(UpdatesLock {
            journal,
            _not_send: NotThreadSafe,
        })
    }

    /// Commits and writes everything to its place, marks the log empty, ends the commit thread and
    /// frees the journal, its inode with it. Waits for handles, reserved handles and attached
    /// inodes to go; new ones are refused from now on. The second call does nothing.
    ///
    /// # Errors
    ///
    /// `EIO` or another error if the log could not be emptied: the volume then needs recovery.
    /// `EDEADLK`, and nothing is done, if the task has a handle open.
    pub fn destroy(&self) -> Result {
        // SAFETY: Reads a field of the current task.
        if unsafe { bindings::jbd2_handle_is_open() } {
            return Err(EDEADLK);
        }
        let Some(ptr) = self.inner.close() else {
            return Ok(());
        };
        // SAFETY: Nobody uses the journal, and nobody will.
        to_result(unsafe { bindings::jbd2_journal_destroy(ptr.as_ptr()) })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // What can fail here has failed in `destroy` before, where the caller looked.
        let _ = self.destroy();
    }
}

/// The journal at rest: no handle is open and none starts. See [`Journal::lock_updates`].
pub struct UpdatesLock<'a> {
    journal: Use<'a>,
    _not_send: NotThreadSafe,
}

impl UpdatesLock<'_> {
    /// Commits and writes everything to its place, and marks the log empty on disk.
    ///
    /// # Errors
    ///
    /// `EIO` if the journal is or gets aborted.
    pub fn flush(&self) -> Result {
        // SAFETY: The use keeps the journal. No transaction can start, as jbd2 asserts.
        to_result(unsafe { bindings::jbd2_journal_flush(self.journal.as_ptr(), 0) })
    }
}

impl Drop for UpdatesLock<'_> {
    fn drop(&mut self) {
        // SAFETY: Locked by this task when the guard was made.
        unsafe { bindings::jbd2_journal_unlock_updates(self.journal.as_ptr()) };
    }
}

/// Sets the parameters of a live journal, which the caller keeps.
fn set_params(journal: *mut bindings::journal_t, params: &Params) {
    // SAFETY: By the callers, both in this module, the journal is live.
    unsafe {
        bindings::jbd2_journal_set_params(
            journal,
            params.barrier,
            params.commit_interval,
            params.min_batch_time,
            params.max_batch_time,
        );
    }
}
