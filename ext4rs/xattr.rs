// SPDX-License-Identifier: GPL-2.0

//! Extended attributes: in the space behind an inode's fields, and in a block of their own; and the
//! ACLs among them.
//!
//! | file | what it holds |
//! |---|---|
//! | `body.rs` | the inode's own space |
//! | `block.rs` | blocks, shared by inodes with equal attributes |
//! | `values.rs` | values in inodes of their own |
//! | `set.rs` | setting and removing |
//! | `acl.rs` | ACLs, and what a new inode gets |
//!
//! # Locks
//!
//! An inode's attributes change under its attribute lock ([`crate::inode::InodeInfo::xattrs`]) held
//! for writing, which is taken under a handle. Under it come the mapping lock (of an inode that
//! holds a value), the group lock, and content locks of buffers. A block that inodes share changes
//! only in its count, under its content lock.

mod acl;
mod block;
mod body;
mod set;
mod values;

pub(crate) use self::{
    acl::{get_acl, init, set_acl},
    set::{credits_new, set},
    values::Released,
};

use self::{body::Body, values::Outside};
use crate::{
    inode::{self, Inode},
    journal::Handle,
    report,
};
use core::ops::Range;
use ext4rs_layout::xattr::{
    self as format, Attrs, AttrsMut, Rules, INDEX_ACL_ACCESS, INDEX_ACL_DEFAULT, INDEX_SECURITY,
    INDEX_TRUSTED, INDEX_USER,
};
use ext4rs_vfs::{
    cred::is_admin,
    fs::{XattrNames, XattrSpace},
    memalloc::with_nofs,
};
use kernel::prelude::*;

/// Blocks that [`release`] changes at a time: the block of attributes, with the bitmap and the
/// descriptor of its group, or the inode of a value; and the inode.
pub(crate) const CREDITS_RELEASE: u32 = 3 + values::CREDITS + inode::CREDITS_DIRTY;

/// The index of a namespace.
pub(crate) fn index_of(space: XattrSpace) -> u8 {
    match space {
        XattrSpace::User => INDEX_USER,
        XattrSpace::Trusted => INDEX_TRUSTED,
        XattrSpace::Security => INDEX_SECURITY,
    }
}

/// The value of the attribute with this index (`INDEX_*`) and name, `None` if the inode has none.
///
/// # Errors
///
/// `ERANGE` for too long a name, or for a value longer than any program can read; `EFSCORRUPTED`,
/// `EFSBADCRC` or `EIO`, reported.
pub(crate) fn get(inode: &Inode, index: u8, name: &[u8]) -> Result<Option<KVec<u8>>> {
    if name.len() > usize::from(u8::MAX) {
        return Err(ERANGE);
    }
    let mut found = None;
    // Let go when the lock is: with the last reference an inode may have to be deleted.
    let mut holder = None;
    look(inode, || {
        visit(inode, &mut |attrs| {
            let Some(attr) = attrs.find(index, name) else {
                return Ok(true);
            };
            found = Some(match Outside::new(&attr) {
                Some(outside) => {
                    let (value, inode) = values::read(inode, &outside, name)?;
                    holder = Some(inode);
                    value
                }
                None => {
                    let mut value = KVec::with_capacity(attr.value.len(), GFP_KERNEL)?;
                    value.extend_from_slice(attr.value, GFP_KERNEL)?;
                    value
                }
            });
            Ok(false)
        })
    })?;
    drop(holder);
    Ok(found)
}

/// Names the attributes that the current task may know of.
///
/// # Errors
///
/// `ERANGE` if there is no room for a name, or as [`get`].
pub(crate) fn list(inode: &Inode, names: &mut XattrNames<'_>) -> Result {
    let acl = inode.super_block().data().options.lock().acl;
    let mut add = |attrs: &Attrs<'_>| {
        for attr in attrs.iter() {
            let visible = match attr.index {
                INDEX_USER | INDEX_SECURITY => true,
                INDEX_TRUSTED => is_admin(),
                INDEX_ACL_ACCESS | INDEX_ACL_DEFAULT => acl,
                _ => false,
            };
            if let (true, Some(prefix)) = (visible, format::prefix(attr.index)) {
                names.add(prefix.as_bytes(), attr.name)?;
            }
        }
        Ok(true)
    };
    look(inode, || visit(inode, &mut add))
}

/// Where an inode's attributes begin.
pub(crate) enum Place {
    /// In its own space: these bytes of the device.
    Body(Range<u64>),
    /// In this block.
    Block(u64),
}

/// Where an inode's attributes are; of those in both places, where the first ones are. `None` if it
/// has none.
///
/// # Errors
///
/// As [`get`].
pub(crate) fn place(inode: &Inode) -> Result<Option<Place>> {
    let rules = Rules::new(&inode.super_block().data().disk);
    look(inode, || {
        if let Some(body) = Body::new(inode)? {
            if body.copy_list(inode, &rules)?.is_some() {
                return Ok(Some(Place::Body(body.bytes(inode)?)));
            }
        }
        let block = inode.data().raw.lock().file_acl;
        Ok((block != 0).then_some(Place::Block(block)))
    })
}

/// Runs `f` with the attribute lock held for reading, outside of any handle. Who has a handle open
/// may wait for the lock, so that no memory is made free by deleting an inode, which takes one.
fn look<R>(inode: &Inode, f: impl FnOnce() -> R) -> R {
    with_nofs(|| {
        let _lock = inode.data().xattrs.read();
        f()
    })
}

/// Shows `f` the inode's attributes: those in its own space, and if `f` says true those in its
/// block. What `f` sees is a copy, so it may sleep. The attribute lock is held.
fn visit(inode: &Inode, f: &mut dyn FnMut(&Attrs<'_>) -> Result<bool>) -> Result {
    let rules = Rules::new(&inode.super_block().data().disk);
    if let Some(body) = Body::new(inode)? {
        if let Some(list) = body.copy_list(inode, &rules)? {
            let attrs =
                format::ibody(&list, &rules).map_err(|e| bad(inode, "xattr_ibody_get", None, e))?;
            if let Some(attrs) = attrs {
                if !f(&attrs)? {
                    return Ok(());
                }
            }
        }
    }
    if let Some(block) = block::read(inode)? {
        let nr = Some(block.buffer.block());
        let (_, attrs) = format::block(&block.bytes, &rules)
            .map_err(|e| bad(inode, "xattr_block_get", nr, e))?;
        f(&attrs)?;
    }
    Ok(())
}

/// Gives up what the inode's attributes take outside of it: its block, and values in inodes. The
/// inode is being deleted, or did not come into being: nobody else uses it. It is an orphan if
/// `handle` may be restarted on the way. Each step takes [`CREDITS_RELEASE`] and a revoke. What
/// cannot be read is reported and stays, until e2fsck. Behaviour:
/// `ext4_xattr_delete_inode`.
///
/// # Errors
///
/// The volume has stopped.
pub(crate) fn release(handle: &mut Handle<'_>, inode: &Inode, released: &mut Released) -> Result {
    release_values(handle, inode, released)?;
    handle.ensure(CREDITS_RELEASE, 1)?;
    release_block(handle, inode)?;
    // In the same transaction: after the next restart the block may be another's.
    inode::mark_dirty(handle, inode)
}

/// Gives up the inode's block, as [`release`] does. The caller writes the inode.
pub(crate) fn release_block(handle: &Handle<'_>, inode: &Inode) -> Result {
    if let Ok(Some(block)) = block::read(inode) {
        block::give_up(handle, inode, &block.buffer)?;
    }
    inode.data().raw.lock().file_acl = 0;
    Ok(())
}

/// Gives up values in inodes, each with its attribute, so that none is given up twice.
fn release_values(handle: &mut Handle<'_>, inode: &Inode, released: &mut Released) -> Result {
    let rules = Rules::new(&inode.super_block().data().disk);
    // An inode that holds a value has no attributes, unless it is damaged: that would have no end.
    if !rules.ea_inode || values::is_value(inode) {
        return Ok(());
    }
    while let Some((body, mut bytes)) = copy_of_body(inode) {
        let attrs = format::ibody(&bytes, &rules).ok().flatten();
        let Some(value) = attrs.as_ref().map_or(Ok(None), first_outside)? else {
            break;
        };
        handle.ensure(CREDITS_RELEASE, 1)?;
        let edited = AttrsMut::ibody(&mut bytes, &rules)
            .and_then(|mut attrs| attrs.remove(value.index, &value.name));
        if edited != Ok(true) {
            break;
        }
        body.store(handle, inode, &bytes)?;
        values::let_go(handle, inode, &value.outside, true, released)?;
        inode::mark_dirty(handle, inode)?;
    }
    while let Ok(Some(mut block)) = block::read(inode) {
        // The values are those of all who share a block.
        let attrs = format::block(&block.bytes, &rules).ok();
        let attrs = attrs.filter(|(header, _)| header.refcount == 1);
        let Some(value) = attrs.map_or(Ok(None), |(_, attrs)| first_outside(&attrs))? else {
            break;
        };
        handle.ensure(CREDITS_RELEASE, 1)?;
        let edited = AttrsMut::block(&mut block.bytes, &rules)
            .and_then(|mut attrs| attrs.remove(value.index, &value.name));
        if edited != Ok(true) {
            break;
        }
        block::replace(handle, inode, Some(&block.buffer), &mut block.bytes, false)?;
        values::let_go(handle, inode, &value.outside, true, released)?;
        inode::mark_dirty(handle, inode)?;
    }
    Ok(())
}

fn copy_of_body(inode: &Inode) -> Option<(Body, KVec<u8>)> {
    let body = Body::new(inode).ok()??;
    let bytes = body.copy(inode).ok()?;
    Some((body, bytes))
}

/// An attribute whose value is in an inode.
struct WithOutside {
    index: u8,
    name: KVec<u8>,
    outside: Outside,
}

/// The first of these attributes whose value is in an inode.
fn first_outside(attrs: &Attrs<'_>) -> Result<Option<WithOutside>> {
    for attr in attrs.iter() {
        if let Some(outside) = Outside::new(&attr) {
            let mut name = KVec::with_capacity(attr.name.len(), GFP_KERNEL)?;
            name.extend_from_slice(attr.name, GFP_KERNEL)?;
            return Ok(Some(WithOutside {
                index: attr.index,
                name,
                outside,
            }));
        }
    }
    Ok(None)
}

/// Reports attributes that are bad.
fn bad(inode: &Inode, function: &str, block: Option<u64>, e: ext4rs_layout::Error) -> Error {
    let sb = inode.super_block();
    let ino = Some(inode.ino());
    match (e, block) {
        (ext4rs_layout::Error::Corrupt(why), None) => report::corrupt(
            sb,
            function,
            ino,
            None,
            fmt!("corrupted in-inode xattr: {why}"),
        ),
        _ => report::from_layout(sb, function, ino, block, e),
    }
}
