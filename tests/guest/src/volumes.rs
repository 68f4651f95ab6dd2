// SPDX-License-Identifier: GPL-2.0

//! Block devices as rows of bytes: what is really on the disk, past every cache.

use crate::rng::Digest;
use crate::sys::map::Aligned;
use crate::sys::volume::device_size;
use crate::why::{require, Why, Within};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes in one transfer.
const CHUNK: u64 = 1 << 20;

fn open(dev: &Path, write: bool) -> Result<File, Why> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_DIRECT)
        .open(dev)
        .within(|| dev.display().to_string())
}

/// Hands all of the device to `take`, piece by piece, with the offset of each.
fn read_all(
    dev: &Path,
    mut take: impl FnMut(u64, &mut Aligned) -> Result<(), Why>,
) -> Result<(), Why> {
    let file = open(dev, false)?;
    let size = device_size(&file)?;
    let mut at = 0;
    while at < size {
        let mut piece = Aligned::new(CHUNK.min(size - at) as usize)?;
        file.read_exact_at(piece.bytes(), at)?;
        take(at, &mut piece)?;
        at += CHUNK;
    }
    Ok(())
}

/// All bytes of a small device.
pub fn load(dev: &Path) -> Result<Vec<u8>, Why> {
    let mut all = Vec::new();
    read_all(dev, |_, piece| {
        all.extend_from_slice(piece.bytes());
        Ok(())
    })?;
    Ok(all)
}

/// Writes `image` over the start of the device.
pub fn store(dev: &Path, image: &[u8]) -> Result<(), Why> {
    let file = open(dev, true)?;
    for (i, part) in image.chunks(CHUNK as usize).enumerate() {
        let mut piece = Aligned::new(part.len())?;
        piece.bytes().copy_from_slice(part);
        file.write_all_at(piece.bytes(), i as u64 * CHUNK)?;
    }
    Ok(())
}

/// Copies what is on one device, which may be mounted, to another of its size or more.
pub fn copy(from: &Path, to: &Path) -> Result<(), Why> {
    let target = open(to, true)?;
    let room = device_size(&target)?;
    read_all(from, |at, piece| {
        let bytes = piece.bytes();
        require(at + bytes.len() as u64 <= room, || {
            "the target is too small".into()
        })?;
        Ok(target.write_all_at(bytes, at)?)
    })
}

/// A digest of all bytes of a device.
pub fn digest(dev: &Path) -> Result<u64, Why> {
    let mut digest = Digest::new();
    read_all(dev, |_, piece| {
        digest.update(piece.bytes());
        Ok(())
    })?;
    Ok(digest.finish())
}

/// Writes 0xa5 over the first `bytes` of the device, over all of it where that is 0.
pub fn fill(dev: &Path, bytes: u64) -> Result<(), Why> {
    let file = open(dev, true)?;
    let size = device_size(&file)?;
    let end = if bytes == 0 { size } else { bytes.min(size) };
    let mut garbage = Aligned::new(CHUNK as usize)?;
    garbage.bytes().fill(0xa5);
    let mut at = 0;
    while at < end {
        let length = CHUNK.min(end - at) as usize;
        file.write_all_at(&garbage.bytes()[..length], at)?;
        at += CHUNK;
    }
    Ok(())
}
