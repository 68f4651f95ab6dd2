// SPDX-License-Identifier: GPL-2.0

//! Giving a volume up while it is mounted: from then on whoever uses it gets `EIO`, and nothing more
//! is written to it. It can be unmounted, and the next mount recovers it. For tests of recovery, and
//! for devices that are gone. Behaviour: `ext4_force_shutdown`.

use crate::{report, volume::Sb};
use ext4rs_vfs::log::Level;
use kernel::{prelude::*, sync::atomic::ordering};

/// What is still done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// All data and metadata is written, and the volume is one that needs no recovery
    /// (`EXT4_GOING_FLAGS_DEFAULT`).
    Frozen = 0,
    /// What has been changed is in the log (`EXT4_GOING_FLAGS_LOGFLUSH`).
    LogFlushed = 1,
    /// Nothing (`EXT4_GOING_FLAGS_NOLOGFLUSH`).
    AtOnce = 2,
}

impl How {
    /// The way of this number.
    pub(crate) fn new(flags: u32) -> Option<Self> {
        [How::Frozen, How::LogFlushed, How::AtOnce]
            .into_iter()
            .find(|&how| how as u32 == flags)
    }
}

/// Gives the volume up. The caller has no handle open, holds no lock of the volume, and is no writer.
///
/// # Errors
///
/// Those of freezing the device; the volume goes on then.
pub(crate) fn shut_down(sb: &Sb, how: How) -> Result {
    let vol = sb.data();
    if vol.is_shut_down() {
        return Ok(());
    }
    report::message(
        sb,
        Level::Alert,
        fmt!("shut down requested ({})", how as u32),
    );
    let mark = || vol.errors.shut_down.store(true, ordering::Release);
    if how == How::Frozen {
        return sb.while_frozen(mark);
    }
    let journal = vol.journal.as_ref();
    if let Some(journal) = journal.filter(|_| how == How::LogFlushed) {
        // What cannot be logged now is lost, as it would be without.
        let _ = journal.force_commit();
    }
    mark();
    if let Some(journal) = journal.filter(|journal| !journal.is_aborted()) {
        // The one reason that calls for no check.
        journal.abort(ESHUTDOWN);
    }
    Ok(())
}
