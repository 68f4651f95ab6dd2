// SPDX-License-Identifier: GPL-2.0

//! Handles: permission to change metadata.

use super::{Inner, Journal, OwnedUse, Tid, Use};
use crate::{
    bindings,
    buffer_head::{BlankBuffer, BufferHead},
    fs::{FileSystem, INode},
};
use core::{mem::ManuallyDrop, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_ulonglong},
    prelude::*,
    sync::Arc,
    types::NotThreadSafe,
};

/// A part of the running transaction, with a number of blocks that it may change.
///
/// The transaction cannot commit while the handle is open, so: no waiting for a commit, a folio or
/// write-back, and nothing that takes long. The task allocates memory without entering filesystems
/// (`memalloc_nofs`). Dropping the handle stops it; [`Handle::stop`] also tells of errors. A handle
/// that is leaked stays open in its task.
///
/// # Invariants
///
/// `ptr` is a handle of `journal`, which `current->journal_info` of the task that made this value
/// points to unless it lost its transaction, and of whose references this value owns one.
pub struct Handle<'j> {
    ptr: NonNull<bindings::handle_t>,
    journal: Use<'j>,
    inner: &'j Arc<Inner>,
    tid: Tid,
    _not_send: NotThreadSafe,
}

impl<'j> Handle<'j> {
    /// Wraps a started handle.
    ///
    /// # Safety
    ///
    /// The caller owns one reference to `ptr`, a handle with a transaction that the current task
    /// has open, of `journal`'s journal, which is `inner`'s.
    pub(super) unsafe fn from_raw(
        ptr: NonNull<bindings::handle_t>,
        journal: Use<'j>,
        inner: &'j Arc<Inner>,
    ) -> Self {
        // SAFETY: By the caller's promise there is a transaction.
        let tid = Tid(unsafe { bindings::jbd2_handle_tid(ptr.as_ptr()) });
        // INVARIANT: By the caller's promise.
        Self {
            ptr,
            journal,
            inner,
            tid,
            _not_send: NotThreadSafe,
        }
    }

    fn as_ptr(&self) -> *mut bindings::handle_t {
        self.ptr.as_ptr()
    }

    /// Takes an error of jbd2 for one of the handle: what was changed so far must not go on alone.
    fn check(&self, err: c_int) -> Result {
        if err != 0 {
            // SAFETY: The handle is live.
            unsafe { bindings::jbd2_handle_abort(self.as_ptr()) };
        }
        to_result(err)
    }

    /// Checks that the buffer is of the volume whose journal this is.
    fn check_buffer(&self, bh: *mut bindings::buffer_head) -> Result {
        // SAFETY: Handle and buffer are live.
        if unsafe { bindings::jbd2_handle_covers(self.as_ptr(), bh) } {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Ends the handle. If it was synchronous, waits for the commit.
    ///
    /// # Errors
    ///
    /// `EIO` if the journal or the handle was aborted meanwhile.
    pub fn stop(self) -> Result {
        let me = ManuallyDrop::new(self);
        // SAFETY: By the invariant the reference is ours, and this is the handle's task.
        let err = unsafe { bindings::jbd2_journal_stop(me.as_ptr()) };
        // SAFETY: `me` is not used again. The use ends after the handle.
        drop(unsafe { core::ptr::read(&me.journal) });
        to_result(err)
    }

    /// The transaction that the handle belongs to. Does not sleep.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// How many more blocks the handle may change. Does not sleep.
    pub fn credits_left(&self) -> u32 {
        // SAFETY: The handle is live.
        let credits = unsafe { bindings::jbd2_handle_credits(self.as_ptr()) };
        u32::try_from(credits).unwrap_or(0)
    }

    /// Whether the handle can do no more: it, or the journal, was aborted. Does not sleep.
    pub fn is_aborted(&self) -> bool {
        // SAFETY: The handle is live.
        unsafe { bindings::jbd2_handle_is_aborted(self.as_ptr()) }
    }

    /// Asks for `credits` blocks and `revokes` revokes more. `false` if the transaction has no room
    /// for them: then restart. Does not sleep.
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted.
    pub fn extend(&self, credits: u32, revokes: u32) -> Result<bool> {
        let (credits, revokes) = to_counts(credits, revokes)?;
        // SAFETY: The handle is live.
        match unsafe { bindings::jbd2_journal_extend(self.as_ptr(), credits, revokes) } {
            0 => Ok(true),
            err if err < 0 => Err(Error::from_errno(err)),
            _ => Ok(false),
        }
    }

    /// Lets the transaction go, to be committed, and joins whichever is running then, with new
    /// credits. The volume must be consistent as it is, and the caller hold nothing that another
    /// handle's owner might wait for. Waits for room in the log.
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted; `EBUSY` if it is part of an outer one; `ENOSPC` if the
    /// request is larger than a transaction may be. After another error the handle has no
    /// transaction, and all it can do is stop.
    pub fn restart(&mut self, credits: u32, revokes: u32) -> Result {
        let (credits, revokes) = to_counts(credits, revokes)?;
        // SAFETY: The handle is live, and nobody has bytes of a buffer through it: `&mut self`.
        to_result(unsafe { bindings::jbd2_handle_restart(self.as_ptr(), credits, revokes) })?;
        // SAFETY: A restarted handle has a transaction.
        self.tid = Tid(unsafe { bindings::jbd2_handle_tid(self.as_ptr()) });
        Ok(())
    }

    /// Makes the handle synchronous: stopping it commits its transaction and waits. Does not sleep.
    pub fn set_sync(&self) {
        // SAFETY: The handle is live and only this task uses it.
        unsafe { bindings::jbd2_handle_set_sync(self.as_ptr()) };
    }

    /// Takes the reserved part out of the handle, which otherwise gives it back when it stops.
    /// `None` if there is none. Does not sleep.
    pub fn take_reserved(&self) -> Option<ReservedHandle> {
        // SAFETY: The handle is live and only this task uses it.
        let ptr = unsafe { bindings::jbd2_handle_take_reserved(self.as_ptr()) };
        // INVARIANT: A reserved handle belongs to whoever takes it out.
        Some(ReservedHandle {
            ptr: NonNull::new(ptr)?,
            journal: OwnedUse::beside(&self.journal, self.inner),
        })
    }

    /// Gets the right to change a block in this transaction, without changing it yet. Sleeps: may
    /// wait until the commit has copied the block, or has it on disk.
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted; `EIO` if the volume's device lost a write; `EINVAL` if the
    /// block is of another volume. The handle is aborted then.
    pub fn write_access(&self, buffer: &BufferHead) -> Result {
        self.check_buffer(buffer.as_ptr())?;
        // SAFETY: Handle and buffer are live.
        self.check(unsafe {
            bindings::jbd2_journal_get_write_access(self.as_ptr(), buffer.as_ptr())
        })
    }

    /// Checks that a block, to which the handle has access, can be changed: it was before in the
    /// transaction, or there is a credit for it.
    fn check_credit(&self, bh: *mut bindings::buffer_head) -> Result {
        // SAFETY: Handle and buffer are live, and the handle has access to it.
        if unsafe { bindings::jbd2_handle_can_dirty(self.as_ptr(), bh) } {
            Ok(())
        } else {
            self.check(ENOSPC.to_errno())
        }
    }

    /// Says that a block has changed and belongs to the transaction.
    fn dirty(&self, bh: *mut bindings::buffer_head) -> Result {
        // SAFETY: Handle and buffer are live, and the handle has access to it.
        self.check(unsafe {
            bindings::set_buffer_meta(bh);
            bindings::jbd2_journal_dirty_metadata(self.as_ptr(), bh)
        })
    }

    /// Changes a block. The first time in a transaction costs one credit. Sleeps before it calls
    /// `f`, as [`Handle::write_access`] does.
    ///
    /// `f` itself runs under a spinlock: it does not sleep, and touches no other buffer's content
    /// nor this one's again.
    ///
    /// # Errors
    ///
    /// As [`Handle::write_access`], before `f` is called; also `ENOSPC` if the handle has no credit
    /// left. If the journal is aborted meanwhile, `EROFS`, with the change in memory alone.
    pub fn modify<R>(&self, buffer: &BufferHead, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.write_access(buffer)?;
        self.check_credit(buffer.as_ptr())?;
        // SAFETY: This handle has write access, and stays in its transaction during the call.
        let result = unsafe { buffer.modify_granted(f) };
        self.dirty(buffer.as_ptr())?;
        Ok(result)
    }

    /// Fills a block whose old content does not count: `f` sees zeros. Costs one credit. Sleeps
    /// before it calls `f`, which runs as [`Handle::modify`]'s does.
    ///
    /// # Errors
    ///
    /// As [`Handle::modify`]. `EROFS` also if the block is in use by a transaction for something
    /// else, which aborts the journal.
    pub fn create<R>(
        &self,
        buffer: BlankBuffer,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<(BufferHead, R)> {
        let access = |bh| {
            self.check_buffer(bh)?;
            // SAFETY: Handle and buffer are live, and the buffer is locked.
            self.check(unsafe { bindings::jbd2_journal_get_create_access(self.as_ptr(), bh) })?;
            self.check_credit(bh)
        };
        // SAFETY: `access` gets create access for this handle.
        let (buffer, result) = unsafe { buffer.fill(access, f)? };
        self.dirty(buffer.as_ptr())?;
        Ok((buffer, result))
    }

    /// Drops a block from the transaction: it is being freed, and what it holds need not be written
    /// any more. Sleeps.
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted; `EIO` if the block cannot be freed now.
    pub fn forget(&self, buffer: BufferHead) -> Result {
        self.check_buffer(buffer.as_ptr())?;
        // SAFETY: Handle and buffer are live; the reference passes on.
        self.check(unsafe { bindings::jbd2_handle_forget(self.as_ptr(), buffer.into_raw()) })
    }

    /// Keeps recovery from writing older logged contents of a block of metadata, which is being
    /// freed, over its next user's; and forgets the block, if it is in memory. Costs one revoke.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted; `ENOSPC` if it has no revoke left; `EIO` if the block is
    /// revoked already.
    pub fn revoke(&self, block: u64) -> Result {
        // SAFETY: The handle is live. The callee finds the buffer itself, on the volume's device.
        self.check(unsafe { bindings::jbd2_handle_revoke(self.as_ptr(), c_ulonglong::from(block)) })
    }

    /// How many more blocks the handle may revoke. Does not sleep.
    pub fn revokes_left(&self) -> u32 {
        // SAFETY: The handle is live.
        u32::try_from(unsafe { bindings::jbd2_handle_revokes(self.as_ptr()) }).unwrap_or(0)
    }

    /// Has the transaction's commit write out `len` bytes of a file from `start` before it
    /// completes, and wait for them: blocks given to the file in this transaction never show what
    /// they held before. Kept in pages; ranges of one inode merge into one. See [`OrderedData`].
    ///
    /// # Errors
    ///
    /// `EROFS` if the handle is aborted; `EINVAL` if the inode is of another volume, or holds the
    /// journal, or the range ends beyond what a file can have.
    pub fn ranged_write<T: FileSystem>(&self, inode: &INode<T>, start: u64, len: u64) -> Result {
        if len == 0 {
            return Ok(());
        }
        let end = start.checked_add(len).ok_or(EINVAL)?;
        i64::try_from(end).map_err(|_| EINVAL)?;
        // SAFETY: The use keeps the journal, the journal its inode; `i_sb` is constant.
        let ours = unsafe {
            let journal_inode = (*self.journal.as_ptr()).j_inode;
            !core::ptr::eq(journal_inode, inode.as_ptr())
                && core::ptr::eq((*journal_inode).i_sb, (*inode.as_ptr()).i_sb)
        };
        if !ours {
            return Err(EINVAL);
        }
        let jbd = inode.jbd();
        jbd.attach(|| OwnedUse::beside(&self.journal, self.inner));
        // SAFETY: The handle is live. The inode's part stays, and is taken off the transaction
        // before the inode goes, because it is attached.
        self.check(unsafe {
            bindings::jbd2_journal_inode_ranged_write(
                self.as_ptr(),
                jbd.as_ptr(),
                start as i64,
                len as i64,
            )
        })
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant the reference is ours, and this is the handle's task. An abort
        // meanwhile shows at the next start.
        unsafe { bindings::jbd2_journal_stop(self.as_ptr()) };
    }
}

/// Turns a request into jbd2's numbers; no transaction is a quarter as large as they go.
fn to_counts(credits: u32, revokes: u32) -> Result<(c_int, c_int)> {
    if credits.max(revokes) > c_int::MAX as u32 / 4 {
        return Err(ENOSPC);
    }
    Ok((credits as c_int, revokes as c_int))
}

/// Log space set aside for a handle to come. Starting it does not wait for room in the log, so it
/// can be done where others wait for the one who starts it. It holds up [`Journal::lock_updates`]
/// and [`Journal::destroy`]; dropping it gives the space back.
///
/// # Invariants
///
/// `ptr` is a reserved handle of `journal`, owned.
pub struct ReservedHandle {
    ptr: NonNull<bindings::handle_t>,
    journal: OwnedUse,
}

// SAFETY: A reserved handle is attached to no transaction and no task.
unsafe impl Send for ReservedHandle {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl Sync for ReservedHandle {}

impl ReservedHandle {
    /// Starts the handle, in the running transaction or in one that is about to commit. `journal`
    /// is the one that it was reserved in. `kind` shows up in jbd2's trace events. Sleeps, but not
    /// for log space.
    ///
    /// # Errors
    ///
    /// The space is given back. `EROFS` if the journal is aborted; `EDEADLK` if the task has a
    /// handle open; `EINVAL` for another journal.
    pub fn start(self, journal: &Journal, kind: u8) -> Result<Handle<'_>> {
        // SAFETY: Reads a field of the current task.
        if unsafe { bindings::jbd2_handle_is_open() } {
            return Err(EDEADLK);
        }
        if !Arc::ptr_eq(&self.journal.0, journal.inner()) {
            return Err(EINVAL);
        }
        let me = ManuallyDrop::new(self);
        let ptr = me.ptr;
        // SAFETY: `me` is not used again.
        let owned = unsafe { core::ptr::read(&me.journal) };
        let used = owned.borrowed(journal.inner()).ok_or(EINVAL)?;
        // SAFETY: The handle is reserved and ours, and the task has none. On an error it is freed.
        to_result(unsafe {
            bindings::jbd2_journal_start_reserved(ptr.as_ptr(), u32::from(kind), 0)
        })?;
        // SAFETY: Started just now.
        Ok(unsafe { Handle::from_raw(ptr, used, journal.inner()) })
    }
}

impl Drop for ReservedHandle {
    fn drop(&mut self) {
        // SAFETY: By the invariant the handle is reserved and ours; the use keeps its journal.
        unsafe { bindings::jbd2_journal_free_reserved(self.ptr.as_ptr()) };
    }
}
