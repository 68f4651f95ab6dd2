// SPDX-License-Identifier: GPL-2.0

//! Messages to device-mapper targets.

use super::answer;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `DM_TARGET_MSG`, `_IOWR(0xfd, 14, struct dm_ioctl)`.
const DM_TARGET_MSG: libc::Ioctl = 0xc138_fd0e_u32 as libc::Ioctl;
/// Bytes of `struct dm_ioctl` (`include/uapi/linux/dm-ioctl.h`).
const HEADER: usize = 312;
/// Where its fields lie, in bytes: sizes and flags in the first, then the name.
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const NAME: usize = 48;
/// Bytes of the name, the zero at its end among them.
const NAME_LEN: usize = 128;

/// A device, to send messages to.
pub struct Target {
    control: File,
    name: String,
}

impl Target {
    /// The device `name`, which exists.
    pub fn new(name: &str) -> io::Result<Self> {
        if name.len() >= NAME_LEN {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Self {
            control: File::open("/dev/mapper/control")?,
            name: name.to_owned(),
        })
    }

    /// Sends `text` to the target of the device's first sector.
    pub fn message(&self, text: &str) -> io::Result<()> {
        // `struct dm_target_msg`: a sector, then the text.
        let length = (HEADER + 8 + text.len() + 1).next_multiple_of(8);
        let mut request = vec![0_u64; length / 8];
        let mut put = |at: usize, bytes: &[u8]| {
            for (i, byte) in bytes.iter().enumerate() {
                let at = at + i;
                request[at / 8] |= u64::from(*byte) << (at % 8 * 8);
            }
        };
        put(0, &4_u32.to_le_bytes());
        put(DATA_SIZE, &(length as u32).to_le_bytes());
        put(DATA_START, &(HEADER as u32).to_le_bytes());
        put(NAME, self.name.as_bytes());
        put(HEADER + 8, text.as_bytes());
        answer(
            // SAFETY: The request says how long it is, and lives over the call, which writes no more
            // than that.
            unsafe {
                libc::ioctl(
                    self.control.as_raw_fd(),
                    DM_TARGET_MSG,
                    request.as_mut_ptr(),
                )
            }
            .into(),
        )
        .map(drop)
    }
}
