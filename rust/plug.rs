// SPDX-License-Identifier: GPL-2.0

//! Plugging: requests that a task makes one after the other are gathered and merged.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use crate::bindings;
use kernel::types::Opaque;

/// Runs `f` with the task's block requests gathered: they are merged with their neighbours, and
/// sent when `f` returns, when enough have come together, or when the task sleeps.
///
/// A plug within a plug does nothing.
pub fn with_plug<R>(f: impl FnOnce() -> R) -> R {
    /// Sends what was gathered, also if `f` unwinds.
    struct Finish(*mut bindings::blk_plug);

    impl Drop for Finish {
        fn drop(&mut self) {
            // SAFETY: The plug was started by this task and lives in the caller's frame.
            unsafe { bindings::blk_finish_plug(self.0) };
        }
    }

    let plug = Opaque::<bindings::blk_plug>::uninit();
    // SAFETY: The callee initialises the plug, which stays in this frame until it is finished.
    unsafe { bindings::blk_start_plug(plug.get()) };
    let _finish = Finish(plug.get());
    f()
}
