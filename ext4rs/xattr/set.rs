// SPDX-License-Identifier: GPL-2.0

//! Setting and removing. An attribute goes into the inode's own space if it fits there, else into
//! the block. Behaviour: `ext4_xattr_set_handle`.
//!
//! Both are changed in copies, which take the place of what is there once it is clear that
//! everything fits: an operation that fails changes nothing.

use super::{
    bad,
    block::{self, Block, Old},
    body::Body,
    values::{self, Outside, Released},
};
use crate::{
    alloc,
    inode::{self, Inode},
    journal::{self, Handle, Kind},
    report, super_block,
    volume::Sb,
};
use ext4rs_layout::{
    xattr::{self as format, Attrs, AttrsMut, Rules},
    Incompat,
};
use ext4rs_vfs::fs::XattrFlags;
use kernel::prelude::*;

/// Blocks that setting one attribute changes: the inode's; a block to be shared that is full when
/// its turn comes; a new block, with the bitmap and the descriptor of its group; the old block, with
/// those of its group.
const CREDITS: u32 = inode::CREDITS_DIRTY + 1 + 3 + 3;

/// Blocks that [`set_in`] changes, and with `ea_inode` the inode of the old value.
pub(crate) fn credits(sb: &Sb) -> u32 {
    let outside = if has_values_outside(sb) {
        values::CREDITS
    } else {
        0
    };
    CREDITS.saturating_add(outside)
}

/// Blocks that [`super::init`] changes in all: a default ACL, an access ACL, and two attributes of
/// security modules.
pub(crate) fn credits_new(sb: &Sb) -> u32 {
    credits(sb).saturating_mul(4)
}

fn has_values_outside(sb: &Sb) -> bool {
    sb.data().disk.incompat.has(Incompat::EA_INODE)
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is done.
    Done,
    /// It was so already.
    Nothing,
    /// It fits neither in the inode nor in a block. Nothing has changed.
    NoRoom,
}

/// What is to be set.
pub(super) struct Target<'a> {
    index: u8,
    name: &'a [u8],
    flags: XattrFlags,
}

impl<'a> Target<'a> {
    /// The attribute with this index (`INDEX_*`) and name.
    ///
    /// # Errors
    ///
    /// `ERANGE` if the name is too long.
    pub(super) fn new(index: u8, name: &'a [u8], flags: XattrFlags) -> Result<Self> {
        if name.len() > usize::from(u8::MAX) {
            return Err(ERANGE);
        }
        Ok(Self { index, name, flags })
    }
}

/// Sets an attribute (`INDEX_*`, and the name without its prefix) or, with `None`, removes it. The
/// inode's `i_rwsem` is held.
///
/// # Errors
///
/// `ENODATA` and `EEXIST` as `flags` say; `ERANGE` for too long a name; `ENOSPC` if the attribute
/// does not fit, or there is no block for it; `EOPNOTSUPP` if its value would have to be in an inode
/// of its own. `EFSCORRUPTED`, `EFSBADCRC` or `EIO`, reported.
pub(crate) fn set(
    inode: &Inode,
    index: u8,
    name: &[u8],
    value: Option<&[u8]>,
    flags: XattrFlags,
) -> Result {
    let target = Target::new(index, name, flags)?;
    in_handle(inode, |handle, released| {
        set_in(handle, inode, &target, value, released)
    })
}

/// Runs `f` in a handle for changing one attribute; once more if there was no block, and freed ones
/// could be had by a commit.
pub(super) fn in_handle(
    inode: &Inode,
    mut f: impl FnMut(&Handle<'_>, &mut Released) -> Result<Change>,
) -> Result {
    let sb = inode.super_block();
    let mut again = true;
    loop {
        // Goes last: with it inodes may be deleted.
        let mut released = Released::new();
        let handle = journal::start(sb, credits(sb), Kind::Xattr)?;
        let result = f(&handle, &mut released);
        if result == Ok(Change::Done) && inode.is_sync() {
            handle.set_sync();
        }
        let stopped = handle.stop();
        match result {
            Ok(Change::NoRoom) => return Err(ENOSPC),
            Err(e) if e == ENOSPC && again && alloc::commit_freed(sb) => again = false,
            Err(e) => return Err(e),
            Ok(_) => return stopped,
        }
    }
}

/// What is to be known of the attribute as it is.
struct Found {
    outside: Option<Outside>,
    same: bool,
}

impl Found {
    fn new(attrs: &Attrs<'_>, target: &Target<'_>, value: Option<&[u8]>) -> Option<Self> {
        let attr = attrs.find(target.index, target.name)?;
        Some(Self {
            outside: Outside::new(&attr),
            same: attr.value_ino == 0 && value == Some(attr.value),
        })
    }
}

/// [`set`] in a handle with [`credits`] to spare.
pub(super) fn set_in(
    handle: &Handle<'_>,
    inode: &Inode,
    target: &Target<'_>,
    value: Option<&[u8]>,
    released: &mut Released,
) -> Result<Change> {
    let _lock = inode.data().xattrs.write();
    let mut work = Work::new(inode, target, value)?;
    if work.in_body.is_none() && work.in_block.is_none() {
        if target.flags.replace {
            return Err(ENODATA);
        }
        if value.is_none() {
            return Ok(Change::Nothing);
        }
    } else if target.flags.create {
        return Err(EEXIST);
    }
    let found = work.in_body.as_ref().or(work.in_block.as_ref());
    if found.is_some_and(|found| found.same) {
        return Ok(Change::Nothing);
    }
    match value {
        Some(value) => {
            if !work.place(target, value)? {
                return Ok(Change::NoRoom);
            }
        }
        None => work.remove(target)?,
    }
    work.store(handle, released)?;
    super_block::note_ext_attr(handle)?;
    {
        let mut raw = inode.data().raw.lock();
        raw.version = raw.version.wrapping_add(1);
    }
    inode.touch(false);
    inode::mark_dirty(handle, inode)?;
    Ok(Change::Done)
}

/// Copies of the places, and what is changed in them.
struct Work<'a> {
    inode: &'a Inode,
    rules: Rules,
    body: Option<(Body, KVec<u8>)>,
    body_changed: bool,
    block: Option<Block>,
    /// The block's new content.
    image: Option<KVec<u8>>,
    in_body: Option<Found>,
    in_block: Option<Found>,
}

impl<'a> Work<'a> {
    /// Finds the attribute. The block is read only if it is not in the inode.
    fn new(inode: &'a Inode, target: &Target<'_>, value: Option<&[u8]>) -> Result<Self> {
        let rules = Rules::new(&inode.super_block().data().disk);
        let body = match Body::new(inode)? {
            Some(body) => {
                let bytes = body.copy(inode)?;
                Some((body, bytes))
            }
            None => None,
        };
        let mut work = Self {
            inode,
            rules,
            body,
            body_changed: false,
            block: None,
            image: None,
            in_body: None,
            in_block: None,
        };
        if let Some((_, bytes)) = &work.body {
            let attrs = format::ibody(bytes, &rules)
                .map_err(|e| bad(inode, "xattr_ibody_find", None, e))?;
            work.in_body = attrs.and_then(|attrs| Found::new(&attrs, target, value));
        }
        if work.in_body.is_none() {
            work.read_block()?;
            if let Some(block) = &work.block {
                let (_, attrs) = format::block(&block.bytes, &rules)
                    .map_err(|e| bad(inode, "xattr_block_find", None, e))?;
                work.in_block = Found::new(&attrs, target, value);
            }
        }
        Ok(work)
    }

    fn read_block(&mut self) -> Result {
        if self.block.is_none() {
            self.block = block::read(self.inode)?;
        }
        Ok(())
    }

    fn bad_edit(&self, e: ext4rs_layout::Error) -> Error {
        let block = self.block.as_ref().map(|block| block.buffer.block());
        bad(self.inode, "xattr_set_entry", block, e)
    }

    /// Changes the copy of the inode's space; `None` if there is none.
    fn edit_body<R>(
        &mut self,
        f: impl FnOnce(&mut AttrsMut<'_>) -> ext4rs_layout::Result<R>,
    ) -> Result<Option<R>> {
        let rules = self.rules;
        let Some((_, bytes)) = &mut self.body else {
            return Ok(None);
        };
        let edited = AttrsMut::ibody(bytes, &rules).and_then(|mut attrs| f(&mut attrs));
        edited.map(Some).map_err(|e| self.bad_edit(e))
    }

    /// Changes a copy of the block, or a new one.
    fn edit_block<R>(
        &mut self,
        f: impl FnOnce(&mut AttrsMut<'_>) -> ext4rs_layout::Result<R>,
    ) -> Result<R> {
        let rules = self.rules;
        let size = usize::try_from(self.inode.super_block().data().geo.block_size)?;
        let mut image = KVec::from_elem(0u8, size, GFP_KERNEL)?;
        let attrs = match &self.block {
            Some(block) => {
                for (to, from) in image.iter_mut().zip(&block.bytes) {
                    *to = *from;
                }
                AttrsMut::block(&mut image, &rules)
            }
            None => AttrsMut::new_block(&mut image),
        };
        let edited = attrs.and_then(|mut attrs| f(&mut attrs));
        let edited = edited.map_err(|e| self.bad_edit(e))?;
        self.image = Some(image);
        Ok(edited)
    }

    /// Sets the attribute in one place, and removes it from the other. `false` if it does not fit.
    fn place(&mut self, target: &Target<'_>, value: &[u8]) -> Result<bool> {
        let sb = self.inode.super_block();
        let (index, name) = (target.index, target.name);
        if has_values_outside(sb) && !format::is_for_block(value.len(), sb.data().geo.block_size) {
            return Err(self.unsupported());
        }
        if self.edit_body(|attrs| attrs.set(index, name, value))? == Some(true) {
            self.body_changed = true;
            if self.in_block.is_some() {
                self.edit_block(|attrs| attrs.remove(index, name))?;
            }
            return Ok(true);
        }
        self.read_block()?;
        if !self.edit_block(|attrs| attrs.set(index, name, value))? {
            return if has_values_outside(sb) && !value.is_empty() {
                Err(self.unsupported())
            } else {
                Ok(false)
            };
        }
        if self.in_body.is_some() {
            self.edit_body(|attrs| attrs.remove(index, name))?;
            self.body_changed = true;
        }
        Ok(true)
    }

    /// ext4 would put the value into an inode.
    fn unsupported(&self) -> Error {
        report::warning(
            self.inode.super_block(),
            "xattr_set",
            fmt!(
                "inode #{}: storing an attribute value in an inode of its own (ea_inode) is not \
                 supported",
                self.inode.ino()
            ),
        );
        EOPNOTSUPP
    }

    /// Removes the attribute from where it is.
    fn remove(&mut self, target: &Target<'_>) -> Result {
        let (index, name) = (target.index, target.name);
        if self.in_body.is_some() {
            self.edit_body(|attrs| attrs.remove(index, name))?;
            self.body_changed = true;
        } else if self.in_block.is_some() {
            self.edit_block(|attrs| attrs.remove(index, name))?;
        }
        Ok(())
    }

    /// Puts the copies in their places. What can fail comes first.
    fn store(&mut self, handle: &Handle<'_>, released: &mut Released) -> Result {
        let outside = |found: &Option<Found>| found.as_ref().and_then(|found| found.outside);
        // Else what others have of the block still has the value.
        let mut counted = true;
        if let Some(mut image) = self.image.take() {
            let (_, attrs) = format::block(&image, &self.rules).map_err(|e| self.bad_edit(e))?;
            let shareable = attrs.iter().all(|attr| attr.value_ino == 0);
            let old = self.block.as_ref().map(|block| &block.buffer);
            let old = block::replace(handle, self.inode, old, &mut image, shareable)?;
            counted = self.in_body.is_some() || old == Old::Gone;
        }
        if let (true, Some((body, bytes))) = (self.body_changed, &self.body) {
            body.store(handle, self.inode, bytes)?;
        }
        match outside(&self.in_body).or(outside(&self.in_block)) {
            Some(value) => values::let_go(handle, self.inode, &value, counted, released),
            None => Ok(()),
        }
    }
}
