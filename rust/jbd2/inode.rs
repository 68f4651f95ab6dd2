// SPDX-License-Identifier: GPL-2.0

//! Inodes whose data a transaction waits for.

use super::OwnedUse;
use crate::{
    bindings,
    fs::{FileSystem, INode},
};
use kernel::{ffi::c_int, new_spinlock, prelude::*, sync::SpinLock, types::Opaque};

/// A filesystem that writes file data before the transaction that maps it commits.
pub trait OrderedData: FileSystem {
    /// Submits what has to be on disk of a file's bytes `start` to `end` (inclusive) before the
    /// transaction commits. jbd2's thread calls it, and waits for the range's write-back itself.
    ///
    /// It starts no handle of any kind, and waits for nobody who might. The inode may be on its way
    /// out: no reference to it may be taken.
    fn ordered_flush(inode: &INode<Self>, start: u64, end: u64) -> Result;
}

/// jbd2's part of an inode. It stands beside the VFS inode, in its slab object.
///
/// # Invariants
///
/// While `raw` is on a transaction's list, `journal` holds a use of that transaction's journal.
#[pin_data]
pub(crate) struct JbdInode {
    #[pin]
    raw: Opaque<bindings::jbd2_inode>,
    /// The journal that the inode has been attached to, from then until it is released.
    #[pin]
    journal: SpinLock<Option<OwnedUse>>,
}

impl JbdInode {
    /// The part of `inode`, attached to nothing.
    ///
    /// # Safety
    ///
    /// The part lies in the same object as `inode`, and is released before the inode goes.
    pub(crate) unsafe fn new(inode: *mut bindings::inode) -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is ours; jbd2 only stores the inode's address.
                unsafe { bindings::jbd2_journal_init_jbd_inode(slot, inode) }
            }),
            journal <- new_spinlock!(None),
        })
    }

    /// jbd2's structure.
    pub(super) fn as_ptr(&self) -> *mut bindings::jbd2_inode {
        self.raw.get()
    }

    /// Prepares the inode for being put on a transaction of the journal that `make` uses. All
    /// inodes of a volume have the same.
    pub(super) fn attach(&self, make: impl FnOnce() -> OwnedUse) {
        self.journal.lock().get_or_insert_with(make);
    }

    /// Takes the inode off the transaction that it is on, waiting while the commit is at its data.
    /// For an inode that is being evicted: nobody attaches it any more. Sleeps.
    pub(crate) fn release(&self) {
        let journal = self.journal.lock().take();
        if let Some(journal) = journal {
            // SAFETY: The use keeps the journal, which is the one of any transaction of the inode.
            unsafe {
                bindings::jbd2_journal_release_jbd_inode(journal.as_ptr(), self.as_ptr());
            }
        }
    }
}

/// Tells jbd2 whom to call for ordered data.
///
/// # Safety
///
/// `journal` is live, in use by nobody yet, and of a volume of `T`.
pub(super) unsafe fn set_callbacks<T: OrderedData>(journal: *mut bindings::journal_t) {
    // SAFETY: By the caller's promise.
    unsafe {
        (*journal).j_submit_inode_data_buffers = Some(submit::<T>);
        (*journal).j_finish_inode_data_buffers =
            Some(bindings::jbd2_journal_finish_inode_data_buffers);
    }
}

/// jbd2 asks for an inode's data to be written.
///
/// # Safety
///
/// jbd2's own: `jinode` is attached to the committing transaction and marked so, and its inode is
/// one of `T`'s.
unsafe extern "C" fn submit<T: OrderedData>(jinode: *mut bindings::jbd2_inode) -> c_int {
    let (mut start, mut end) = (0, 0);
    // SAFETY: jbd2 gives an inode that it has marked as being committed, which `release` waits for.
    unsafe {
        if !bindings::jbd2_jinode_get_dirty_range(jinode, &raw mut start, &raw mut end) {
            return 0;
        }
    }
    // SAFETY: As above; the inode is of `T` because its volume's journal is.
    let inode = unsafe { INode::<T>::from_raw((*jinode).i_vfs_inode) };
    let (Ok(start), Ok(end)) = (u64::try_from(start), u64::try_from(end)) else {
        return EINVAL.to_errno();
    };
    crate::fs::from_result(|| T::ordered_flush(inode, start, end))
}
