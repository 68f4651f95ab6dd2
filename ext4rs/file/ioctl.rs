// SPDX-License-Identifier: GPL-2.0

//! Commands to open files and directories. Behaviour: `fs/ext4/ioctl.c`.

use crate::{
    inode,
    journal::{self, Kind},
    report,
    shutdown::{self, How},
    super_block,
    volume::Ext4,
};
use ext4rs_vfs::{cred, fs::File};
use kernel::{
    ioctl::{_IOR, _IOW},
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};

/// `FS_IOC_GETVERSION`: the inode's generation. It passes an `int`, whatever its number says.
const GET_VERSION: u32 = _IOR::<i64>('v' as u32, 1);
/// `FS_IOC_SETVERSION`
const SET_VERSION: u32 = _IOW::<i64>('v' as u32, 2);
/// `EXT4_IOC_SHUTDOWN`, `FS_IOC_SHUTDOWN`
const SHUTDOWN: u32 = _IOR::<u32>('X' as u32, 125);
/// `FS_IOC_GETFSLABEL`
const GET_LABEL: u32 = _IOR::<[u8; 256]>(0x94, 49);
/// `FS_IOC_SETFSLABEL`
const SET_LABEL: u32 = _IOW::<[u8; 256]>(0x94, 50);

/// Bytes of a label (`EXT4_LABEL_MAX`); with fewer, a zero ends it.
const LABEL_LEN: usize = 16;

/// Does what `command` says.
///
/// # Errors
///
/// `ENOTTY` for another command than those above; `EPERM`; `EFAULT`.
pub(crate) fn run(file: &File<Ext4>, command: u32, argument: UserPtr) -> Result {
    match command {
        GET_VERSION => write(argument, &file.inode().generation().to_ne_bytes()),
        SET_VERSION => set_version(file, argument),
        SHUTDOWN => {
            require_admin()?;
            let flags = u32::from_ne_bytes(read(argument)?);
            let how = How::new(flags).ok_or(EINVAL)?;
            shutdown::shut_down(file.inode().super_block(), how)
        }
        GET_LABEL => {
            let label = super_block::label(file.inode().super_block())?;
            // With a zero behind it, whatever its length.
            let mut text = [0; LABEL_LEN + 1];
            for (to, from) in text.iter_mut().zip(label) {
                *to = from;
            }
            write(argument, &text)
        }
        SET_LABEL => set_label(file, argument),
        _ => Err(ENOTTY),
    }
}

fn require_admin() -> Result {
    if cred::is_admin() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

fn read<const N: usize>(from: UserPtr) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    UserSlice::new(from, N).reader().read_slice(&mut bytes)?;
    Ok(bytes)
}

fn write(to: UserPtr, bytes: &[u8]) -> Result {
    UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
}

/// Sets an inode's generation: not where checksums depend on it.
fn set_version(file: &File<Ext4>, argument: UserPtr) -> Result {
    let inode = file.inode();
    let sb = inode.super_block();
    if !file.is_owned() {
        return Err(EPERM);
    }
    if sb.data().seed.is_some() {
        report::warning(
            sb,
            "ioctl",
            fmt!("Setting inode version is not supported with metadata_csum enabled."),
        );
        return Err(ENOTTY);
    }
    let _access = file.want_write()?;
    let generation = u32::from_ne_bytes(read(argument)?);
    let _lock = inode.lock();
    let handle = journal::start(sb, inode::CREDITS_DIRTY, Kind::Inode)?;
    inode.touch(false);
    inode.set_generation(generation);
    inode::mark_dirty(&handle, inode)?;
    handle.stop()
}

fn set_label(file: &File<Ext4>, argument: UserPtr) -> Result {
    require_admin()?;
    let text: [u8; LABEL_LEN + 1] = read(argument)?;
    let len = text.iter().position(|&b| b == 0).ok_or(EINVAL)?;
    let mut label = [0; LABEL_LEN];
    for (to, from) in label.iter_mut().zip(text.iter().take(len)) {
        *to = *from;
    }
    let _access = file.want_write()?;
    super_block::set_label(file.inode().super_block(), &label)
}
