// SPDX-License-Identifier: GPL-2.0

//! Messages in the kernel log under a prefix of the filesystem's own choosing.
//!
//! The kernel crate's `pr_*` macros put the module's name before every line; users of a filesystem
//! look for lines of its own shape (`EXT4-fs (vda): ...`).
//!
//! C headers: [`include/linux/printk.h`](srctree/include/linux/printk.h),
//! [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h)

use crate::bindings;
use core::{ffi::CStr, ptr::from_ref};
use kernel::{fmt::Arguments, prelude::*, types::Opaque};

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `KERN_ALERT`: the volume is given up.
    Alert,
    /// `KERN_CRIT`: the volume is damaged or stops working.
    Crit,
    /// `KERN_ERR`: what was asked for cannot be done.
    Err,
    /// `KERN_WARNING`: the administrator should know.
    Warning,
    /// `KERN_NOTICE`
    Notice,
    /// `KERN_INFO`
    Info,
}

impl Level {
    /// The format: level, then one Rust argument and a line end.
    const fn format(self) -> &'static CStr {
        match self {
            Level::Alert => c"\x011%pA\n",
            Level::Crit => c"\x012%pA\n",
            Level::Err => c"\x013%pA\n",
            Level::Warning => c"\x014%pA\n",
            Level::Notice => c"\x015%pA\n",
            Level::Info => c"\x016%pA\n",
        }
    }
}

/// Prints one line.
pub fn print(level: Level, args: Arguments<'_>) {
    // SAFETY: The format takes one pointer to `fmt::Arguments` for `%pA`, and gets it.
    unsafe {
        bindings::_printk(
            level.format().as_char_ptr(),
            from_ref(&args).cast::<kernel::ffi::c_void>(),
        )
    };
}

/// Stops the machine, as `errors=panic` asks.
pub fn panic(args: Arguments<'_>) -> ! {
    // SAFETY: As in `print`.
    unsafe {
        bindings::panic(
            c"%pA\n".as_char_ptr(),
            from_ref(&args).cast::<kernel::ffi::c_void>(),
        )
    }
}

/// Lets a burst of messages through, and then few.
#[pin_data]
pub struct RateLimit {
    #[pin]
    state: Opaque<bindings::ratelimit_state>,
}

// SAFETY: `___ratelimit` locks; the state has no owner.
unsafe impl Send for RateLimit {}
// SAFETY: As above.
unsafe impl Sync for RateLimit {}

impl RateLimit {
    /// At most `burst` messages in `seconds`.
    pub fn new(seconds: u16, burst: u16) -> impl PinInit<Self> {
        pin_init!(Self {
            state <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for one state that stays where it is.
                unsafe {
                    bindings::ratelimit_state_init_seconds(slot, seconds.into(), burst.into())
                }
            }),
        })
    }

    /// Whether a message may be printed now. Callable in any context.
    pub fn allow(&self, what: &'static kernel::str::CStr) -> bool {
        // SAFETY: The state was initialised by `new`.
        unsafe { bindings::___ratelimit(self.state.get(), what.as_char_ptr()) != 0 }
    }
}
