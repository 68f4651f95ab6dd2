// SPDX-License-Identifier: GPL-2.0

//! File handles: `name_to_handle_at` and `open_by_handle_at`.

use super::{answer, c_path};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// Bytes of the longest handle (`MAX_HANDLE_SZ`).
const MAX: usize = 128;
/// Asks for a handle that tells the file's place (`AT_HANDLE_CONNECTABLE`).
const CONNECTABLE: i32 = 2;

/// `struct file_handle`, with room.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    bytes: u32,
    kind: i32,
    data: [u8; MAX],
}

/// What a file is found by without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    kind: i32,
    data: Vec<u8>,
}

impl Handle {
    /// The handle of `path` itself; with `connectable` its directory is in it too.
    pub fn of(path: &Path, connectable: bool) -> io::Result<Self> {
        let path = c_path(path)?;
        let mut raw = Raw {
            bytes: MAX as u32,
            kind: 0,
            data: [0; MAX],
        };
        let mut mount = 0_i32;
        let flags = if connectable { CONNECTABLE } else { 0 };
        // SAFETY: The path, the handle, which has room for what it says, and the mount's number
        // live over the call.
        answer(unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                path.as_ptr(),
                &mut raw,
                &mut mount,
                flags,
            )
        })?;
        Ok(Self {
            kind: raw.kind,
            data: raw.data[..raw.bytes as usize].to_vec(),
        })
    }

    /// Opens the file on the volume that `mount` is on, with `flags` (`O_*`).
    pub fn open(&self, mount: &File, flags: i32) -> io::Result<File> {
        let mut raw = Raw {
            bytes: self.data.len() as u32,
            kind: self.kind,
            data: [0; MAX],
        };
        raw.data[..self.data.len()].copy_from_slice(&self.data);
        // SAFETY: The handle lives over the call.
        let fd = answer(unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                mount.as_raw_fd(),
                &mut raw,
                flags | libc::O_CLOEXEC,
            )
        })?;
        // SAFETY: The descriptor is fresh and owned by nobody else.
        Ok(unsafe { File::from_raw_fd(fd as i32) })
    }

    /// The handle with other numbers of inode and generation, its first two words.
    pub fn with_numbers(&self, ino: u32, generation: u32) -> Self {
        let mut made = self.clone();
        made.data[..4].copy_from_slice(&ino.to_ne_bytes());
        made.data[4..8].copy_from_slice(&generation.to_ne_bytes());
        made
    }
}

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.kind)?;
        self.data
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Handle {
    type Err = String;

    /// Reads what `Display` wrote.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no handle: {text}");
        let (kind, data) = text.split_once(':').ok_or_else(bad)?;
        let digits = |at| data.get(at..at + 2).ok_or_else(bad);
        let bytes = (0..data.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits(at)?, 16).map_err(|_| bad()));
        Ok(Self {
            kind: kind.parse().map_err(|_| bad())?,
            data: bytes.collect::<Result<_, _>>()?,
        })
    }
}
