// SPDX-License-Identifier: GPL-2.0

//! Blocks of metadata: read once, checked once.
//!
//! Whoever needs a block says what it is, and how to tell that it is good. The check runs when the
//! block comes into memory, not each time it is used; the buffer remembers ([`BufferHead`]'s
//! verified bit). A block that a handle makes is good from the start.
//!
//! That a block was found good says nothing of what it was taken for: a damaged volume can use a
//! block twice. So decoding a verified block still checks whatever it reads.

use crate::{report, volume::Sb};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// What is being read, for the message if it turns out bad.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The function that wants it, as the message names it.
    pub(crate) function: &'static str,
    /// What the block is: `"extent tree block"`.
    pub(crate) what: &'static str,
    /// The inode that it belongs to, if to one.
    pub(crate) ino: Option<u64>,
}

/// Reads a block of metadata. `check` looks at its content unless somebody did before, under a
/// spinlock: it does not sleep.
///
/// # Errors
///
/// `EFSCORRUPTED` if the block cannot be one of the volume's, `EFSCORRUPTED` or `EFSBADCRC` if
/// `check` says so, `EIO` if it cannot be read. All are reported here.
pub(crate) fn read(
    sb: &Sb,
    source: Source,
    block: u64,
    check: impl FnOnce(&[u8]) -> ext4rs_layout::Result<()>,
) -> Result<BufferHead> {
    let vol = sb.data();
    if !vol.geo.valid_blocks(block, 1) {
        return Err(report::corrupt(
            sb,
            source.function,
            source.ino,
            Some(block),
            fmt!("{} out of range", source.what),
        ));
    }
    let bh = sb.bread(block).map_err(|e| {
        let place = report::Place {
            ino: source.ino,
            block: Some(block),
        };
        report::error(
            sb,
            source.function,
            place,
            e,
            fmt!("unable to read {}", source.what),
        )
    })?;
    if !bh.is_verified() {
        bh.read(check)
            .map_err(|e| report::from_layout(sb, source.function, source.ino, Some(block), e))?;
        bh.set_verified();
    }
    Ok(bh)
}

/// Copies a block's content, for those who must sleep while they look at it.
pub(crate) fn copy(bh: &BufferHead) -> Result<KVec<u8>> {
    let mut bytes = KVec::from_elem(0u8, bh.size(), GFP_KERNEL)?;
    bh.read(|block| {
        for (to, from) in bytes.iter_mut().zip(block) {
            *to = *from;
        }
    });
    Ok(bytes)
}
