// SPDX-License-Identifier: GPL-2.0

//! What a task's memory allocations may do to make room.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use crate::bindings;

/// Runs `f`, in which no allocation of this task enters a filesystem to free memory, whatever its
/// own flags say. For code that holds a lock which a filesystem takes to write a folio or to drop
/// an inode.
pub fn with_nofs<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the state that was before, also if `f` unwinds.
    struct Restore(u32);

    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: Same task, and scopes nest: the saved state is that of the matching call.
            unsafe { bindings::memalloc_nofs_restore(self.0) };
        }
    }

    // SAFETY: It changes a flag of the current task only.
    let _restore = Restore(unsafe { bindings::memalloc_nofs_save() });
    f()
}
