// SPDX-License-Identifier: GPL-2.0

//! ACLs: attributes with a form of their own, which the kernel looks after.

use super::{
    bad, get,
    set::{self, Change, Target},
    Released,
};
use crate::{
    inode::{self, Inode},
    journal::Handle,
    volume::Ext4,
};
use ext4rs_layout::{
    acl::{self, AclEntry, Tag},
    xattr::{INDEX_ACL_ACCESS, INDEX_ACL_DEFAULT, INDEX_SECURITY},
};
use ext4rs_vfs::fs::{Dentry, IdMap, Inherited, PosixAcl, XattrFlags};
use kernel::prelude::*;

/// `POSIX_ACL_XATTR_VERSION`: the form in which the kernel takes and gives an ACL.
const VERSION: u32 = 2;
/// `ACL_UNDEFINED_ID`: stands where an entry names nobody.
const NO_ID: u32 = u32::MAX;
/// Bytes of that form's header.
const HEADER: usize = 4;
/// Bytes of an entry of that form.
const ENTRY: usize = 8;

fn index(default: bool) -> u8 {
    if default {
        INDEX_ACL_DEFAULT
    } else {
        INDEX_ACL_ACCESS
    }
}

/// The access ACL of an inode, or the default ACL of a directory; `None` if it has none.
pub(crate) fn get_acl(inode: &Inode, default: bool) -> Result<Option<PosixAcl>> {
    let Some(value) = get(inode, index(default), b"")? else {
        return Ok(None);
    };
    PosixAcl::from_xattr(&kernel_form(inode, &value)?)
}

/// Sets or removes an ACL; the access ACL sets the mode, too. The inode's `i_rwsem` is held.
/// Behaviour: `ext4_set_acl`.
///
/// # Errors
///
/// As [`set::set`]; `EINVAL` for a list that is no access ACL.
pub(crate) fn set_acl(
    inode: &Inode,
    idmap: &IdMap,
    acl: Option<PosixAcl>,
    default: bool,
) -> Result {
    let (mode, acl) = match acl {
        Some(acl) if !default => {
            let (mode, acl) = acl.update_mode(idmap, inode)?;
            (Some(mode), acl)
        }
        acl => (None, acl),
    };
    let value = acl.as_ref().map(disk_form).transpose()?;
    set::in_handle(inode, |handle, released| {
        let target = Target::new(index(default), b"", ANY)?;
        let change = set::set_in(handle, inode, &target, value.as_deref(), released)?;
        if change != Change::NoRoom {
            inode.cache_acl(default, acl.as_ref());
            if let Some(mode) = mode.filter(|&mode| mode != inode.mode()) {
                inode.set_mode(mode);
                inode.touch(false);
                inode::mark_dirty(handle, inode)?;
            }
        }
        Ok(change)
    })
}

const ANY: XattrFlags = XattrFlags {
    create: false,
    replace: false,
};

const NEW: XattrFlags = XattrFlags {
    create: true,
    replace: false,
};

/// Gives a new inode the ACLs that it inherits, and what the security modules want it to have. It is
/// made in `dir`, under the name of `dentry` if it gets one. Takes [`super::credits_new`]. Behaviour:
/// `ext4_init_acl`, `ext4_init_security`.
///
/// # Errors
///
/// The inode must not come into being then: it may have some of them ([`super::release`]).
pub(crate) fn init(
    handle: &Handle<'_>,
    inode: &Inode,
    dir: &Inode,
    dentry: Option<&Dentry<Ext4>>,
    inherited: &Inherited,
) -> Result {
    // A new inode has no value in another, so that none can be released.
    let mut released = Released::new();
    let mut store = |index: u8, name: &[u8], value: &[u8]| {
        let target = Target::new(index, name, NEW)?;
        match set::set_in(handle, inode, &target, Some(value), &mut released)? {
            Change::NoRoom => Err(ENOSPC),
            _ => Ok(()),
        }
    };
    for (default, acl) in [(true, &inherited.default), (false, &inherited.access)] {
        if let Some(acl) = acl {
            store(index(default), b"", &disk_form(acl)?)?;
        }
    }
    inode.init_security(dir, dentry, &mut |name, value| {
        store(INDEX_SECURITY, name, value)
    })?;
    inode.cache_acl(true, inherited.default.as_ref());
    inode.cache_acl(false, inherited.access.as_ref());
    Ok(())
}

/// The form of an ACL that the kernel reads (`struct posix_acl_xattr_header` and its entries),
/// from the stored one.
fn kernel_form(inode: &Inode, value: &[u8]) -> Result<KVec<u8>> {
    let stored = acl::decode(value).map_err(|e| bad(inode, "acl_from_disk", None, e))?;
    let len = stored
        .count()
        .checked_mul(ENTRY)
        .and_then(|len| len.checked_add(HEADER))
        .ok_or(EFSCORRUPTED)?;
    let mut form = KVec::with_capacity(len, GFP_KERNEL)?;
    form.extend_from_slice(&VERSION.to_le_bytes(), GFP_KERNEL)?;
    for entry in stored.iter() {
        // The tags have the same numbers in both forms.
        let (tag, id) = match entry.tag {
            Tag::UserObj => (0x01u16, NO_ID),
            Tag::User(id) => (0x02, id),
            Tag::GroupObj => (0x04, NO_ID),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, NO_ID),
            Tag::Other => (0x20, NO_ID),
        };
        form.extend_from_slice(&tag.to_le_bytes(), GFP_KERNEL)?;
        form.extend_from_slice(&entry.perm.to_le_bytes(), GFP_KERNEL)?;
        form.extend_from_slice(&id.to_le_bytes(), GFP_KERNEL)?;
    }
    Ok(form)
}

/// The stored form of an ACL.
fn disk_form(acl: &PosixAcl) -> Result<KVec<u8>> {
    let form = acl.to_xattr()?;
    let mut entries = KVec::new();
    for entry in form.get(HEADER..).unwrap_or(&[]).chunks_exact(ENTRY) {
        let half = |at: usize| {
            let bytes = entry.get(at..).and_then(|b| b.first_chunk::<2>());
            bytes.map_or(0, |b| u16::from_le_bytes(*b))
        };
        let id = (u32::from(half(6)) << 16) | u32::from(half(4));
        let tag = match half(0) {
            0x01 => Tag::UserObj,
            0x02 => Tag::User(id),
            0x04 => Tag::GroupObj,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return Err(EINVAL),
        };
        let perm = half(2);
        entries.push(AclEntry { tag, perm }, GFP_KERNEL)?;
    }
    let mut value = KVec::from_elem(0u8, acl::encoded_len(&entries), GFP_KERNEL)?;
    acl::encode(&entries, &mut value).map_err(|_| EINVAL)?;
    Ok(value)
}
