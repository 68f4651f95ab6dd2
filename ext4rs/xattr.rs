// SPDX-License-Identifier: GPL-2.0

//! Extended attributes, read: in the space behind an inode's fields, and in a block of their own;
//! and the ACLs among them.
//!
//! Attributes do not change while the volume is mounted: no operation sets one. So no lock is
//! needed here beyond the one around a block's bytes.

use crate::{
    inode::{self, Inode},
    metadata, report,
};
use ext4rs_layout::{
    acl::{self, Tag},
    inode as disk,
    xattr::{
        self as format, Attrs, Rules, INDEX_ACL_ACCESS, INDEX_ACL_DEFAULT, INDEX_SECURITY,
        INDEX_TRUSTED, INDEX_USER,
    },
};
use ext4rs_vfs::{
    cred::is_admin,
    fs::{PosixAcl, XattrNames, XattrSpace},
};
use kernel::prelude::*;

/// `POSIX_ACL_XATTR_VERSION`: the form in which the kernel takes an ACL.
const ACL_VERSION: u32 = 2;
/// `ACL_UNDEFINED_ID`: stands where an entry names nobody.
const NO_ID: u32 = u32::MAX;
/// Bytes of that form's header.
const ACL_HEADER: usize = 4;
/// Bytes of an entry of that form.
const ACL_ENTRY: usize = 8;

/// The value of the attribute with this index (`INDEX_*`) and name, `None` if the inode has none.
///
/// # Errors
///
/// `EOPNOTSUPP` for a value that is kept in an inode of its own; `EFSCORRUPTED`, `EFSBADCRC` or
/// `EIO`, reported.
pub(crate) fn get(inode: &Inode, index: u8, name: &[u8]) -> Result<Option<KVec<u8>>> {
    let mut found = None;
    visit(inode, &mut |attrs| {
        found = value(inode, attrs, index, name)?;
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// The value of the attribute of this name in a namespace.
///
/// # Errors
///
/// As [`get`].
pub(crate) fn get_named(inode: &Inode, space: XattrSpace, name: &[u8]) -> Result<Option<KVec<u8>>> {
    let index = match space {
        XattrSpace::User => INDEX_USER,
        XattrSpace::Trusted => INDEX_TRUSTED,
        XattrSpace::Security => INDEX_SECURITY,
    };
    get(inode, index, name)
}

/// Names the attributes that the current task may know of.
///
/// # Errors
///
/// `ERANGE` if there is no room for a name, or as [`get`].
pub(crate) fn list(inode: &Inode, names: &mut XattrNames<'_>) -> Result {
    let acl = inode.super_block().data().options.lock().acl;
    visit(inode, &mut |attrs| {
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
    })
}

/// The access ACL of an inode, or the default ACL of a directory; `None` if it has none.
pub(crate) fn get_acl(inode: &Inode, default: bool) -> Result<Option<PosixAcl>> {
    let index = if default {
        INDEX_ACL_DEFAULT
    } else {
        INDEX_ACL_ACCESS
    };
    let Some(value) = get(inode, index, b"")? else {
        return Ok(None);
    };
    PosixAcl::from_xattr(&kernel_form(inode, &value)?)
}

/// The form of an ACL that the kernel reads (`struct posix_acl_xattr_header` and its entries),
/// from the stored one.
fn kernel_form(inode: &Inode, value: &[u8]) -> Result<KVec<u8>> {
    let stored = acl::decode(value).map_err(|e| bad(inode, "acl_from_disk", None, e))?;
    let len = stored
        .count()
        .checked_mul(ACL_ENTRY)
        .and_then(|len| len.checked_add(ACL_HEADER))
        .ok_or(EFSCORRUPTED)?;
    let mut form = KVec::with_capacity(len, GFP_KERNEL)?;
    form.extend_from_slice(&ACL_VERSION.to_le_bytes(), GFP_KERNEL)?;
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

/// Shows `f` the inode's attributes: those in its own space, and if `f` says true those in its
/// block. What `f` sees is a copy, so it may sleep.
pub(crate) fn visit(inode: &Inode, f: &mut dyn FnMut(&Attrs<'_>) -> Result<bool>) -> Result {
    let vol = inode.super_block().data();
    let rules = Rules::new(&vol.disk);
    if let Some(body) = copy_body(inode, &rules)? {
        let attrs = disk::xattr_region(&body, &vol.inode_format)
            .and_then(|region| region.map_or(Ok(None), |region| format::ibody(region, &rules)))
            .map_err(|e| bad(inode, "xattr_ibody_get", None, e))?;
        if let Some(attrs) = attrs {
            if !f(&attrs)? {
                return Ok(());
            }
        }
    }
    let block = inode.data().raw.lock().file_acl;
    if block != 0 {
        let copy = copy_block(inode, block, &rules)?;
        let (_, attrs) = format::block(&copy, &rules)
            .map_err(|e| bad(inode, "xattr_block_get", Some(block), e))?;
        f(&attrs)?;
    }
    Ok(())
}

/// A copy of the inode as it is in the inode table; `None` if there are no attributes in it.
fn copy_body(inode: &Inode, rules: &Rules) -> Result<Option<KVec<u8>>> {
    if inode.data().raw.lock().extra_isize == 0 {
        return Ok(None);
    }
    let sb = inode.super_block();
    let inode_format = &sb.data().inode_format;
    let size = usize::try_from(inode_format.inode_size)?;
    let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
    let (buffer, offset) = inode::table_block(sb, ino)?;
    // Most inodes have none: then nothing needs to be copied.
    let none =
        buffer.read(
            |b| match disk::xattr_region(b.get(offset..).unwrap_or(&[]), inode_format) {
                Ok(Some(region)) => matches!(format::ibody(region, rules), Ok(None)),
                Ok(None) => true,
                Err(_) => false,
            },
        );
    if none {
        return Ok(None);
    }
    let mut copy = KVec::from_elem(0u8, size, GFP_KERNEL)?;
    buffer.read(|b| {
        for (to, from) in copy.iter_mut().zip(b.get(offset..).unwrap_or(&[])) {
            *to = *from;
        }
    });
    Ok(Some(copy))
}

/// A copy of the block of attributes.
fn copy_block(inode: &Inode, block: u64, rules: &Rules) -> Result<KVec<u8>> {
    let sb = inode.super_block();
    let source = metadata::Source {
        function: "xattr_block_get",
        what: "xattr block",
        ino: Some(inode.ino()),
    };
    let seed = sb.data().seed;
    let buffer = metadata::read(sb, source, block, |b| {
        format::verify_block(b, block, seed)?;
        format::block(b, rules).map(drop)
    })?;
    metadata::copy(&buffer)
}

/// A copy of one value; `None` if the attribute is not among these.
fn value(inode: &Inode, attrs: &Attrs<'_>, index: u8, name: &[u8]) -> Result<Option<KVec<u8>>> {
    let Some(attr) = attrs.find(index, name) else {
        return Ok(None);
    };
    if attr.value_ino != 0 {
        let (ino, value_ino) = (inode.ino(), attr.value_ino);
        report::warning(
            inode.super_block(),
            "xattr_get",
            fmt!("inode #{ino}: attribute value in inode #{value_ino} is not supported"),
        );
        return Err(EOPNOTSUPP);
    }
    let mut value = KVec::with_capacity(attr.value.len(), GFP_KERNEL)?;
    value.extend_from_slice(attr.value, GFP_KERNEL)?;
    Ok(Some(value))
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
