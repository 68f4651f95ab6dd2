// SPDX-License-Identifier: GPL-2.0

//! Orphans: inodes that were to be deleted or truncated when the machine stopped.
//!
//! They are kept on disk in a list that begins in the superblock, or in the orphan file
//! (`Documentation/filesystems/ext4/orphan.rst`). No operation built so far makes an orphan, so
//! what is found here was left by another driver.

use crate::{inode, map, report, volume::Sb};
use ext4rs_layout::{orphan, Compat};
use kernel::prelude::*;

/// Whether the volume has orphans.
///
/// # Errors
///
/// `EFSCORRUPTED` or `EFSBADCRC` if the orphan file cannot be read.
pub(crate) fn present(sb: &Sb) -> Result<bool> {
    let vol = sb.data();
    if vol.super_lock.lock().last_orphan != 0 {
        return Ok(true);
    }
    if !vol.disk.compat.has(Compat::ORPHAN_FILE) {
        return Ok(false);
    }
    let ino = vol.disk.orphan_file_inum;
    let file = inode::iget_internal(sb, ino)?;
    let seed = inode::checksum_seed(&file);
    let blocks = file.size() >> vol.geo.block_bits;
    let blocks = u32::try_from(blocks)
        .ok()
        .filter(|&blocks| blocks <= orphan::MAX_BLOCKS)
        .ok_or_else(|| {
            report::corrupt(
                sb,
                "orphan_present",
                Some(ino.into()),
                None,
                fmt!("orphan file too big: {} blocks", blocks),
            )
        })?;
    for nr in 0..blocks {
        let extent = map::lookup(&file, nr, 1)?;
        let map::Kind::Written(block) = extent.kind else {
            return Err(report::corrupt(
                sb,
                "orphan_present",
                Some(ino.into()),
                None,
                fmt!("orphan file block {} is not mapped", nr),
            ));
        };
        let bh = sb.bread(block)?;
        let found = bh.read(|bytes| {
            orphan::check_block(bytes, block, seed)?;
            Ok(orphan::inodes(bytes).next().is_some())
        });
        match found {
            Ok(false) => {}
            Ok(true) => return Ok(true),
            Err(e) => {
                let ino = Some(ino.into());
                return Err(report::from_layout(
                    sb,
                    "orphan_present",
                    ino,
                    Some(block),
                    e,
                ));
            }
        }
    }
    Ok(false)
}
