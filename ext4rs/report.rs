// SPDX-License-Identifier: GPL-2.0

//! What is said, written down and done when something is found wrong.
//!
//! A message has ext4's shape, so that whoever watches logs for ext4 needs to learn one word. The
//! superblock keeps the first and the latest error, and the `errors=` policy decides what follows:
//! ext4's behaviour is in `__ext4_error_inode` and `ext4_handle_error`.

use crate::{
    options::OnError,
    super_block,
    volume::{Sb, Volume},
};
use ext4rs_layout::superblock::{ErrorCode, ErrorRecord};
use ext4rs_vfs::{
    fs::now_seconds,
    log::{self, Level, RateLimit},
};
use kernel::{
    fmt::{Arguments, Display, Formatter},
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{ordering, AtomicFlag},
        SpinLock,
    },
};

/// Errors found and not yet in the superblock on disk.
#[derive(Default)]
pub(crate) struct NewErrors {
    /// How many.
    pub(crate) count: u32,
    /// The first one.
    pub(crate) first: Option<ErrorRecord>,
    /// The latest one.
    pub(crate) last: Option<ErrorRecord>,
}

/// The error state of one volume.
#[pin_data]
pub(crate) struct Errors {
    /// Bursts of messages are cut.
    #[pin]
    limit: RateLimit,
    /// What the next write of the superblock records.
    #[pin]
    pub(crate) new: SpinLock<NewErrors>,
    /// An error was found since the mount, or before and not yet repaired: `STATE_ERROR`.
    pub(crate) found: AtomicFlag,
    /// The volume takes no more changes: the policy said so (ext4's `EXT4_FLAGS_EMERGENCY_RO`).
    pub(crate) emergency_read_only: AtomicFlag,
    /// The volume was given up (ext4's `EXT4_FLAGS_SHUTDOWN`): see [`crate::shutdown`].
    pub(crate) shut_down: AtomicFlag,
}

impl Errors {
    /// No errors; `found` if the superblock says that there were some.
    pub(crate) fn new(found: bool) -> impl PinInit<Self> {
        pin_init!(Self {
            limit <- RateLimit::new(5, 10),
            new <- new_spinlock!(NewErrors::default(), "ext4rs_errors"),
            found: AtomicFlag::new(found),
            emergency_read_only: AtomicFlag::new(false),
            shut_down: AtomicFlag::new(false),
        })
    }
}

/// Where an error was found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    /// The inode, if it is about one.
    pub(crate) ino: Option<u64>,
    /// The block on disk, if it is about one.
    pub(crate) block: Option<u64>,
}

/// Prints a line about a volume, whatever its state: `EXT4RS-fs (vdb): ...`.
pub(crate) fn message(sb: &Sb, level: Level, args: Arguments<'_>) {
    log::print(level, fmt!("EXT4RS-fs ({}): {}", sb.id(), args));
}

/// As [`message`], a warning, and not too often.
pub(crate) fn warning(sb: &Sb, function: &str, args: Arguments<'_>) {
    if sb.data().errors.limit.allow(c"EXT4RS-fs warning") {
        log::print(
            Level::Warning,
            fmt!(
                "EXT4RS-fs warning (device {}): {}: {}",
                sb.id(),
                function,
                args
            ),
        );
    }
}

/// A structure on disk is bad: says so, records it, and does what `errors=` asks. The caller gets
/// the errno to return. May sleep; may be called under a handle and under any mutex, but not under a
/// spinlock.
pub(crate) fn corrupt(
    sb: &Sb,
    function: &str,
    ino: Option<u64>,
    block: Option<u64>,
    args: Arguments<'_>,
) -> Error {
    error(sb, function, Place { ino, block }, EFSCORRUPTED, args)
}

/// As [`corrupt`], for what a decoder of the layout crate said.
pub(crate) fn from_layout(
    sb: &Sb,
    function: &str,
    ino: Option<u64>,
    block: Option<u64>,
    e: ext4rs_layout::Error,
) -> Error {
    let errno = match e {
        ext4rs_layout::Error::BadChecksum(_) => EFSBADCRC,
        ext4rs_layout::Error::Corrupt(_) => EFSCORRUPTED,
        ext4rs_layout::Error::Unsupported(_) => return EOPNOTSUPP,
        ext4rs_layout::Error::Argument(_) => return EINVAL,
    };
    error(
        sb,
        function,
        Place { ino, block },
        errno,
        fmt!("{}", Shown(e)),
    )
}

/// Reports an error of the volume and returns `errno`.
pub(crate) fn error(
    sb: &Sb,
    function: &str,
    place: Place,
    errno: Error,
    args: Arguments<'_>,
) -> Error {
    let vol = sb.data();
    if vol.is_stopped() {
        return errno;
    }
    if vol.errors.limit.allow(c"EXT4RS-fs error") {
        print(sb, function, place, args);
    }
    handle(sb, record(function, place, errno), false);
    errno
}

/// The journal gave up, or the volume cannot go on for another reason: it becomes read-only
/// whatever the policy (ext4's `__ext4_abort`).
pub(crate) fn abort(sb: &Sb, function: &str, errno: Error, args: Arguments<'_>) {
    let vol = sb.data();
    if vol.is_stopped() {
        return;
    }
    log::print(
        Level::Crit,
        fmt!(
            "EXT4RS-fs error (device {}): {}: {}",
            sb.id(),
            function,
            args
        ),
    );
    handle(sb, record(function, Place::default(), errno), true);
}

fn print(sb: &Sb, function: &str, place: Place, args: Arguments<'_>) {
    log::print(
        Level::Crit,
        fmt!(
            "EXT4RS-fs error (device {}): {}: {}{}",
            sb.id(),
            function,
            place,
            args
        ),
    );
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> kernel::fmt::Result {
        if let Some(ino) = self.ino {
            write!(f, "inode #{ino}: ")?;
        }
        if let Some(block) = self.block {
            write!(f, "block {block}: ")?;
        }
        Ok(())
    }
}

/// Prints something of the layout crate, which knows only `core`'s trait for it.
pub(crate) struct Shown<T>(pub(crate) T);

impl<T: core::fmt::Display> Display for Shown<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> kernel::fmt::Result {
        self.0.fmt(f)
    }
}

fn record(function: &str, place: Place, errno: Error) -> ErrorRecord {
    ErrorRecord {
        time: now_seconds(),
        ino: place.ino.and_then(|i| u32::try_from(i).ok()).unwrap_or(0),
        block: place.block.unwrap_or(0),
        line: 0,
        func: ErrorRecord::function(function),
        errcode: code(errno) as u8,
    }
}

/// The number that the superblock uses for an errno (`ext4_errno_to_code`).
fn code(errno: Error) -> ErrorCode {
    match errno {
        e if e == EIO => ErrorCode::Io,
        e if e == ENOMEM => ErrorCode::NoMemory,
        e if e == EFSBADCRC => ErrorCode::BadCrc,
        e if e == EFSCORRUPTED => ErrorCode::Corrupted,
        e if e == ENOSPC => ErrorCode::NoSpace,
        e if e == EROFS => ErrorCode::ReadOnly,
        e if e == EFBIG => ErrorCode::FileTooBig,
        e if e == EEXIST => ErrorCode::Exists,
        e if e == ERANGE => ErrorCode::Range,
        e if e == EOVERFLOW => ErrorCode::Overflow,
        e if e == EBUSY => ErrorCode::Busy,
        _ => ErrorCode::Unknown,
    }
}

/// Keeps the record and applies the policy.
fn handle(sb: &Sb, record: ErrorRecord, force_read_only: bool) {
    let vol = sb.data();
    let policy = vol.options.lock().errors;
    vol.errors.found.store(true, ordering::Relaxed);
    {
        let mut new = vol.errors.new.lock();
        new.count = new.count.saturating_add(1);
        new.first.get_or_insert(record);
        new.last = Some(record);
    }
    let stop = force_read_only || policy != OnError::Continue;
    if stop {
        vol.errors
            .emergency_read_only
            .store(true, ordering::Release);
        if let Some(journal) = vol.journal.as_ref() {
            journal.abort(EIO);
        }
    }
    if !sb.is_device_read_only() {
        // The record is kept in memory; a failed write is reported there, and tried again when
        // the superblock is written next.
        let _ = super_block::commit(sb);
    }
    if policy == OnError::Panic {
        log::panic(fmt!(
            "EXT4RS-fs (device {}): panic forced after error",
            sb.id()
        ));
    }
    if stop {
        message(sb, Level::Crit, fmt!("Remounting filesystem read-only"));
    }
}

impl Volume {
    /// Whether the volume takes no more changes.
    pub(crate) fn is_stopped(&self) -> bool {
        self.errors.emergency_read_only.load(ordering::Acquire) || self.is_shut_down()
    }

    /// Whether the volume was given up.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.errors.shut_down.load(ordering::Acquire)
    }

    /// `EIO` if the volume was given up, `EROFS` if it takes no more changes for another reason.
    pub(crate) fn check_running(&self) -> Result {
        self.check_readable()?;
        if self.is_stopped() {
            return Err(EROFS);
        }
        Ok(())
    }

    /// `EIO` if the volume was given up.
    pub(crate) fn check_readable(&self) -> Result {
        if self.is_shut_down() {
            return Err(EIO);
        }
        Ok(())
    }
}
