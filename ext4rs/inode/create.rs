// SPDX-License-Identifier: GPL-2.0

//! Making a new inode. Source of the rules: `__ext4_new_inode`.

use super::{attribute_flags, is_data_journalled, mark_dirty, set_regular, to_time, Inode};
use crate::{alloc, journal::Handle, volume::Ext4};
use ext4rs_layout::{
    extent,
    inode::{
        mask_flags, FL_EXTENTS, FL_INHERITED, I_BLOCK_SIZE, MODE_DIR, MODE_LINK, MODE_REG,
        MODE_TYPE,
    },
    Inode as DiskInode,
};
use ext4rs_vfs::fs::{random_u32, IdMap, NewINode};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Blocks that [`create`] changes: what taking a number costs, and the block of the inode table.
pub(crate) const CREDITS_CREATE: u32 = alloc::CREDITS_NEW_INODE + super::CREDITS_DIRTY;

/// Makes an inode for a new file in `dir`, with one link (a directory: two), and writes it. It is in
/// no directory yet; whoever drops it without publishing must take back its number with
/// [`alloc::undo_inode`] in the same handle.
///
/// `rdev` is the device number in the kernel's encoding, for device files.
///
/// # Errors
///
/// `EPERM` if the directory was removed; `EOPNOTSUPP` for a file whose data would be journalled;
/// otherwise as [`alloc::new_inode`]. Nothing is changed then.
pub(crate) fn create(
    handle: &Handle<'_>,
    idmap: &IdMap,
    dir: &Inode,
    mode: u16,
    rdev: u32,
) -> Result<NewINode<Ext4>> {
    let sb = dir.super_block();
    if dir.nlink() == 0 {
        return Err(EPERM);
    }
    if mode & MODE_TYPE == MODE_REG && is_data_journalled(dir) {
        // It would take that over, and nobody could write to it.
        return Err(EOPNOTSUPP);
    }
    let fresh = sb.new_inode()?;
    fresh.init_owner(idmap, dir, mode);
    let new = alloc::new_inode(handle, dir, mode)?;
    let inode = match fresh.insert(new.ino.into()) {
        Ok(inode) => inode,
        Err(e) => {
            // The bitmap said free, yet an inode of this number is in memory: the bitmap is wrong.
            crate::report::corrupt(
                sb,
                "new_inode",
                Some(new.ino.into()),
                None,
                fmt!("inode bitmap says free, but the inode is in use"),
            );
            alloc::undo_inode(handle, sb, &new, mode)?;
            return Err(e);
        }
    };
    let kind = inode.mode() & MODE_TYPE;
    inode.set_nlink(if kind == MODE_DIR { 2 } else { 1 });
    inode.set_generation(random_u32());
    let now = inode.touch_all();
    inode.data().block_group.store(new.group, Relaxed);
    init_raw(&inode, dir, kind, rdev, to_time(now))?;
    match kind {
        MODE_REG => set_regular(&inode),
        MODE_DIR => inode.set_directory(),
        MODE_LINK => inode.set_symlink(),
        _ => inode.set_special(rdev),
    }
    if let Err(e) = write_first(handle, &inode, new.ino) {
        alloc::undo_inode(handle, sb, &new, mode)?;
        return Err(e);
    }
    Ok(inode)
}

/// Fills in what only the disk's inode has.
fn init_raw(
    inode: &NewINode<Ext4>,
    dir: &Inode,
    kind: u16,
    rdev: u32,
    now: ext4rs_layout::inode::Time,
) -> Result {
    let geo = &inode.super_block().data().geo;
    let extra = u16::try_from(geo.want_extra_isize)?;
    let mut flags = mask_flags(inode.mode(), super::flags(dir) & FL_INHERITED);
    let mut i_block = [0u8; I_BLOCK_SIZE];
    if matches!(kind, MODE_REG | MODE_DIR | MODE_LINK) {
        flags |= FL_EXTENTS;
        extent::NodeMut::format(&mut i_block, 0).map_err(|_| EINVAL)?;
    } else {
        let mut d = DiskInode::new(inode.mode(), now, 0, extra);
        d.set_device(rdev >> 20, rdev & 0xf_ffff);
        i_block = d.i_block;
    }
    inode.set_attribute_flags(attribute_flags(flags));
    let mut raw = inode.data().raw.lock();
    raw.flags = flags;
    raw.i_block = i_block;
    raw.extra_isize = extra;
    raw.crtime = now;
    Ok(())
}

/// Writes a new inode into the table, whose block the allocator has made if no inode had used it.
/// What an earlier inode left in the slot is cleared first: encoding keeps the bytes that it does
/// not know, and attributes in the body would come back to life.
fn write_first(handle: &Handle<'_>, inode: &Inode, ino: u32) -> Result {
    let sb = inode.super_block();
    let (bh, offset) = super::table_block(sb, ino)?;
    handle
        .modify(&bh, |block| {
            ext4rs_layout::inode::clear(
                block.get_mut(offset..).unwrap_or(&mut []),
                &sb.data().inode_format,
            )
        })?
        .map_err(|_| EFSCORRUPTED)?;
    mark_dirty(handle, inode)
}
