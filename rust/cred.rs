// SPDX-License-Identifier: GPL-2.0

//! What the current task is privileged to do.
//!
//! C headers: [`include/linux/cred.h`](srctree/include/linux/cred.h),
//! [`include/linux/capability.h`](srctree/include/linux/capability.h)

use crate::bindings;
use kernel::ffi;

/// Whether the current task is an administrator: it has `CAP_SYS_ADMIN`.
///
/// As [`may_use_reserve`], to be asked only where the answer decides.
pub fn is_admin() -> bool {
    // SAFETY: Looks at the current task's credentials.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as ffi::c_int) }
}

/// Whether the current task may use a volume's reserved blocks: it runs as the user `uid`, or in
/// the group `gid` unless that is root's, or has `CAP_SYS_RESOURCE`. Both are numbers as the
/// initial user namespace has them.
///
/// Using a capability leaves a mark on the task, so this is asked only where the answer decides.
/// Not under a spinlock.
pub fn may_use_reserve(uid: u32, gid: u32) -> bool {
    // SAFETY: Looks at the current task's credentials.
    unsafe { bindings::cred_may_use_reserve(uid, gid) }
}
