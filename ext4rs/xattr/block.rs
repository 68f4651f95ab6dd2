// SPDX-License-Identifier: GPL-2.0

//! Blocks of attributes. One that holds the same as another is shared: it counts the inodes that
//! have it, up to [`REFCOUNT_MAX`].
//!
//! The volume's cache ([`crate::volume::Volume::xattr_cache`]) finds blocks by the hash of what they
//! hold. A block's content changes, and a block is freed, only while one inode has it and nobody who
//! found it in the cache is about to take it for another: both are decided under the block's content
//! lock, under which the entry is taken out of the cache. Behaviour: `ext4_xattr_block_set`,
//! `ext4_xattr_release_block`.

use super::bad;
use crate::{
    alloc::{
        self,
        blocks::{Kind, Pool, Request, Run},
    },
    inode::Inode,
    journal::Handle,
    metadata, report,
    volume::Sb,
};
use ext4rs_layout::xattr::{self as format, Rules, REFCOUNT_MAX};
use ext4rs_vfs::{buffer_head::BufferHead, mbcache::Removal};
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};

/// A block, and a copy of what it holds.
pub(super) struct Block {
    pub(super) buffer: BufferHead,
    pub(super) bytes: KVec<u8>,
}

/// The block of an inode's attributes, `None` if there is none. From then on others can find it, to
/// share it. The inode's attribute lock is held.
pub(super) fn read(inode: &Inode) -> Result<Option<Block>> {
    let sb = inode.super_block();
    let nr = inode.data().raw.lock().file_acl;
    if nr == 0 {
        return Ok(None);
    }
    let buffer = read_buffer(sb, Some(inode.ino()), nr)?;
    let bytes = metadata::copy(&buffer)?;
    let (header, _) = format::block(&bytes, &Rules::new(&sb.data().disk))
        .map_err(|e| bad(inode, "xattr_block_get", Some(nr), e))?;
    offer(sb, nr, header.hash, header.refcount);
    Ok(Some(Block { buffer, bytes }))
}

fn read_buffer(sb: &Sb, ino: Option<u64>, nr: u64) -> Result<BufferHead> {
    let source = metadata::Source {
        function: "xattr_block_get",
        what: "xattr block",
        ino,
    };
    let (rules, seed) = (Rules::new(&sb.data().disk), sb.data().seed);
    metadata::read(sb, source, nr, |b| {
        format::verify_block(b, nr, seed)?;
        format::block(b, &rules).map(drop)
    })
}

/// Lets others find a block. A hash of 0 says that it is not to be shared.
fn offer(sb: &Sb, nr: u64, hash: u32, refcount: u32) {
    if hash != 0 {
        let cache = &sb.data().xattr_cache;
        cache.insert(hash, nr, refcount < REFCOUNT_MAX);
    }
}

/// What became of an inode's old block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Old {
    /// It was the inode's alone: what it held is nowhere any more.
    Gone,
    /// Other inodes have it, or there was none.
    Kept,
}

/// Gives the inode the attributes in `image`, in place of those in the block `old`: in a block that
/// holds just these already, in its own block if nobody shares it, or in a new one. `image` is as
/// large as a block; `shareable` says that no value of it is in an inode. The inode is written by
/// the caller.
///
/// # Errors
///
/// `ENOSPC`, with nothing changed. `EOPNOTSUPP` if a block would have to be copied whose values are
/// in inodes. Otherwise the volume has stopped.
pub(super) fn replace(
    handle: &Handle<'_>,
    inode: &Inode,
    old: Option<&BufferHead>,
    image: &mut [u8],
    shareable: bool,
) -> Result<Old> {
    let sb = inode.super_block();
    let (header, attrs) = format::block(image, &Rules::new(&sb.data().disk))
        .map_err(|e| bad(inode, "xattr_block_set", None, e))?;
    let (hash, empty) = (header.hash, attrs.iter().next().is_none());
    let old_nr = old.map(BufferHead::block);
    let shared = if empty || !shareable {
        None
    } else {
        share(handle, sb, image, hash, old_nr)?
    };
    let new = if empty {
        0
    } else if let Some(nr) = shared {
        nr
    } else {
        if let Some(old) = old {
            if rewrite(handle, sb, old, image, hash)? {
                return Ok(Old::Gone);
            }
            if !shareable {
                report::warning(
                    sb,
                    "xattr_block_set",
                    fmt!(
                        "inode #{}: copying attributes whose values are in inodes is not supported",
                        inode.ino()
                    ),
                );
                return Err(EOPNOTSUPP);
            }
        }
        create(handle, inode, image, hash)?
    };
    inode.data().raw.lock().file_acl = new;
    if new != 0 {
        inode.add_bytes(sb.data().geo.block_size.into());
    }
    old.map_or(Ok(Old::Kept), |old| give_up(handle, inode, old))
}

/// Finds a block that holds what `image` does, and counts one more inode for it.
fn share(
    handle: &Handle<'_>,
    sb: &Sb,
    image: &[u8],
    hash: u32,
    own: Option<u64>,
) -> Result<Option<u64>> {
    let vol = sb.data();
    let rules = Rules::new(&vol.disk);
    if hash == 0 {
        return Ok(None);
    }
    // The count that a block has if it can be shared.
    let count = |b: &[u8]| {
        let (header, attrs) = format::block(b, &rules).ok()?;
        let (_, wanted) = format::block(image, &rules).ok()?;
        let room = (1..REFCOUNT_MAX).contains(&header.refcount);
        (room && attrs.same(&wanted)).then_some(header.refcount)
    };
    let mut candidate = vol.xattr_cache.find(hash);
    while let Some(entry) = candidate {
        let nr = entry.value();
        if own != Some(nr) {
            // One that is bad has been reported.
            let buffer = read_buffer(sb, None, nr).ok();
            if let Some(buffer) = buffer.filter(|buffer| buffer.read(count).is_some()) {
                let taken = handle.modify(&buffer, |b| {
                    let refcount = count(b)?.checked_add(1)?;
                    format::set_refcount(b, refcount, nr, vol.seed).ok()?;
                    if refcount >= REFCOUNT_MAX {
                        entry.set_reusable(false);
                    }
                    Some(())
                })?;
                if taken.is_some() {
                    entry.touch();
                    return Ok(Some(nr));
                }
                // Others took what was left of it. Each further try would cost a credit.
                return Ok(None);
            }
        }
        candidate = entry.next();
    }
    Ok(None)
}

/// Changes a block in place, if it is one inode's alone and nobody else is about to take it.
fn rewrite(
    handle: &Handle<'_>,
    sb: &Sb,
    old: &BufferHead,
    image: &mut [u8],
    hash: u32,
) -> Result<bool> {
    let vol = sb.data();
    let nr = old.block();
    format::set_refcount(image, 1, nr, vol.seed).map_err(|_| EFSCORRUPTED)?;
    let rules = Rules::new(&vol.disk);
    let done = handle.modify(old, |b| {
        let alone = format::block(b, &rules).is_ok_and(|(header, _)| {
            header.refcount == 1 && vol.xattr_cache.remove(header.hash, nr) == Removal::Gone
        });
        if alone {
            for (to, from) in b.iter_mut().zip(image.iter()) {
                *to = *from;
            }
        }
        alone
    })?;
    if done {
        offer(sb, nr, hash, 1);
    }
    Ok(done)
}

/// Makes a new block.
fn create(handle: &Handle<'_>, inode: &Inode, image: &mut [u8], hash: u32) -> Result<u64> {
    let sb = inode.super_block();
    let request = Request {
        goal: alloc::blocks::metadata_goal(inode),
        want: 1,
        kind: Kind::Metadata,
        from: Pool::Free,
    };
    let nr = alloc::blocks::allocate(handle, inode, &request)?.start;
    format::set_refcount(image, 1, nr, sb.data().seed).map_err(|_| EFSCORRUPTED)?;
    handle.create(nr, |b| {
        for (to, from) in b.iter_mut().zip(image.iter()) {
            *to = *from;
        }
    })?;
    offer(sb, nr, hash, 1);
    Ok(nr)
}

/// What is done with a block that an inode gives up.
enum Step {
    /// Others have it.
    Kept,
    /// It is to be freed.
    Free,
    /// Somebody may be about to take it.
    Wait,
    /// Its count is wrong.
    Bad,
}

/// The inode has this block no more: counts it off, or frees the block.
pub(super) fn give_up(handle: &Handle<'_>, inode: &Inode, buffer: &BufferHead) -> Result<Old> {
    let sb = inode.super_block();
    let vol = sb.data();
    let (nr, rules) = (buffer.block(), Rules::new(&vol.disk));
    let step = loop {
        let step = handle.modify(buffer, |b| {
            let Ok((header, _)) = format::block(b, &rules) else {
                return Step::Bad;
            };
            match header.refcount {
                0 => Step::Bad,
                1 => match vol.xattr_cache.remove(header.hash, nr) {
                    Removal::Gone => Step::Free,
                    Removal::InUse => Step::Wait,
                },
                n => {
                    let left = n.saturating_sub(1);
                    if format::set_refcount(b, left, nr, vol.seed).is_err() {
                        return Step::Bad;
                    }
                    if n == REFCOUNT_MAX {
                        if let Some(entry) = vol.xattr_cache.get(header.hash, nr) {
                            entry.set_reusable(true);
                        }
                    }
                    Step::Kept
                }
            }
        })?;
        if !matches!(step, Step::Wait) {
            break step;
        }
        // Whoever has it takes it, or leaves it, in a moment.
        fsleep(Delta::from_millis(1));
    };
    inode.sub_bytes(vol.geo.block_size.into());
    match step {
        Step::Free => {
            let run = Run { start: nr, len: 1 };
            alloc::blocks::free(handle, inode, run, Kind::Metadata)?;
            Ok(Old::Gone)
        }
        Step::Kept | Step::Wait => Ok(Old::Kept),
        Step::Bad => {
            // It stays in use, until e2fsck.
            report::corrupt(
                sb,
                "xattr_release_block",
                Some(inode.ino()),
                Some(nr),
                fmt!("bad header or reference count of an xattr block"),
            );
            Ok(Old::Kept)
        }
    }
}
