// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a structure.

use core::fmt;

/// Why a structure was refused. The text says which field or rule; the caller adds the device, the
/// inode or group and the block number, and turns the variant into an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes break a rule of the format (`EFSCORRUPTED`).
    Corrupt(&'static str),
    /// The stored checksum is not the one that the bytes give (`EFSBADCRC`).
    BadChecksum(&'static str),
    /// The bytes are valid, and something that this crate does not do is needed to read them
    /// (`EOPNOTSUPP`).
    Unsupported(&'static str),
    /// The caller's buffer is too short or an argument is out of its range (`EINVAL`). The disk is
    /// not to blame.
    Argument(&'static str),
}

/// The result of decoding, checking or editing a structure.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// What was wrong, as one short phrase without a full stop.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Corrupt(s) | Self::BadChecksum(s) | Self::Unsupported(s) | Self::Argument(s) => s,
        }
    }

    /// True if the bytes on the disk are to blame, so that the volume's `errors=` policy applies.
    pub const fn is_corruption(self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::BadChecksum(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Fails with [`Error::Argument`] unless `buf` holds at least `len` bytes.
pub(crate) fn want(buf: &[u8], len: usize, what: &'static str) -> Result<()> {
    if buf.len() < len {
        return Err(Error::Argument(what));
    }
    Ok(())
}

/// Fails with [`Error::Corrupt`] unless `ok`.
pub(crate) fn check(ok: bool, what: &'static str) -> Result<()> {
    if ok {
        Ok(())
    } else {
        Err(Error::Corrupt(what))
    }
}
