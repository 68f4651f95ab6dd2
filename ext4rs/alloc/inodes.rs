// SPDX-License-Identifier: GPL-2.0

//! Allocation of inodes.
//!
//! What `__ext4_new_inode` does on disk, in one handle: the inode bitmap, which may have to be made
//! first; the descriptor's counts, flags and checksums; and the block bitmap where that was not in
//! use yet, since a group with inodes has to have one.
//!
//! The part of an inode table that was never used (`bg_itable_unused`) may hold anything. It is not
//! read: the first inode that comes to lie in one of its blocks has the block made, all zero, in
//! the same handle and under the group lock, so that inodes created at once in one block find it
//! in memory.

use super::{
    groups::{self, Fault, Which},
    orlov::{ring, Counts, View},
};
use crate::{
    inode::Inode,
    journal::Handle,
    volume::{Group, GroupState, Sb},
};
use ext4rs_layout::{
    bitmap, group,
    inode::{FL_TOPDIR, MODE_DIR, MODE_TYPE, ROOT_INO},
    GroupDesc,
};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Credits that one [`allocate`] takes: inode bitmap, descriptor, block bitmap and the block of the
/// inode table, which the inode itself then has for nothing. An [`undo`] in the same handle takes
/// none.
pub(crate) const CREDITS: u32 = 4;

/// Credits that one [`free`] takes: inode bitmap and descriptor.
pub(crate) const CREDITS_FREE: u32 = 2;

/// A new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewIno {
    /// Its number.
    pub(crate) ino: u32,
    /// Its group.
    pub(crate) group: u32,
}

/// Whether `mode` is a directory's.
fn is_dir(mode: u16) -> bool {
    mode & MODE_TYPE == MODE_DIR
}

/// Takes an inode for a new file of `mode` (type and permissions) in the directory `dir`.
///
/// Its block of the inode table can be read afterwards, whether or not it had ever been used; the
/// inode's own bytes may be those of one that was deleted. The group lock is taken. Sleeps. Takes
/// [`CREDITS`].
///
/// # Errors
///
/// `ENOSPC` if there is none; `ENOMEM`; `EROFS` if the handle is aborted. Groups that are found
/// corrupt are reported and passed over.
pub(crate) fn allocate(handle: &Handle<'_>, dir: &Inode, mode: u16) -> Result<NewIno> {
    let sb = dir.super_block();
    let vol = sb.data();
    let first = choose_group(sb, dir, is_dir(mode)).ok_or(ENOSPC)?;
    for number in ring(first, vol.geo.groups_count) {
        let group = groups::get(vol, number)?;
        if group.free_inodes.load(Relaxed) == 0 {
            continue;
        }
        if let Some(index) = take(handle, sb, group, number, is_dir(mode))? {
            let ino = vol.geo.inode_number(number, index).ok_or(EINVAL)?;
            let mut space = vol.space.lock();
            space.free_inodes = space.free_inodes.saturating_sub(1);
            if is_dir(mode) {
                space.dirs = space.dirs.saturating_add(1);
            }
            return Ok(NewIno { ino, group: number });
        }
    }
    Err(ENOSPC)
}

/// The group to begin with, by the counts in memory. `None` if no inode is free.
fn choose_group(sb: &Sb, dir: &Inode, is_dir: bool) -> Option<u32> {
    let vol = sb.data();
    let total = {
        let space = vol.space.lock();
        Counts {
            free_inodes: space.free_inodes,
            free_blocks: space.free,
            dirs: space.dirs,
        }
    };
    let parent_ino = u32::try_from(dir.ino()).ok()?;
    let parent = vol.geo.inode_place(parent_ino)?.group;
    let view = View {
        groups: vol.geo.groups_count,
        per_flex: vol.geo.groups_per_flex(),
        inodes_per_group: vol.geo.inodes_per_group,
        blocks_per_group: vol.geo.blocks_per_group,
        total,
        group: |number| match groups::get(vol, number) {
            Ok(group) => Counts {
                free_inodes: u64::from(group.free_inodes.load(Relaxed)),
                free_blocks: u64::from(group.free.load(Relaxed)),
                dirs: u64::from(group.dirs.load(Relaxed)),
            },
            Err(_) => Counts::default(),
        },
    };
    if !is_dir {
        return view.for_file(parent, parent_ino);
    }
    let top = parent_ino == ROOT_INO || dir.data().raw.lock().flags & FL_TOPDIR != 0;
    // Any number will do that is another one for the next directory.
    let salt = u32::try_from(total.dirs).unwrap_or(0);
    view.for_directory(parent, top, salt)
}

/// Takes the first free inode of a group; gives its bit, or `None` if the group has none after
/// all.
fn take(
    handle: &Handle<'_>,
    sb: &Sb,
    group: &Group,
    number: u32,
    is_dir: bool,
) -> Result<Option<u32>> {
    let vol = sb.data();
    let state = group.lock.lock();
    if state.inodes_corrupt {
        return Ok(None);
    }
    let desc = groups::desc(sb, number)?;
    let map = match groups::inode_bitmap(sb, number, &desc) {
        Ok(map) => map,
        Err(fault) => {
            let block = desc.inode_bitmap;
            return pass_over(sb, group, number, state, Which::Inodes, block, fault);
        }
    };
    let from = groups::first_ordinary(vol, number);
    let all = vol.geo.inodes_per_group;
    let Some(index) = map.read(|bytes| bitmap::find_next_zero(bytes, from, all)) else {
        return Ok(None);
    };
    let mut sums = desc;
    groups::desc_access(handle, sb, number)?;
    if groups::blocks_uninit(vol, &desc) {
        match groups::block_bitmap(sb, number, &desc) {
            Ok(blocks) => {
                blocks
                    .modify(handle, desc.block_bitmap, |bytes| {
                        group::update_block_bitmap_csum(bytes, &mut sums, vol.seed, &vol.geo)
                    })?
                    .map_err(|_| EINVAL)?;
            }
            Err(fault) => {
                let block = desc.block_bitmap;
                return pass_over(sb, group, number, state, Which::Blocks, block, fault);
            }
        }
    }
    make_table_block(handle, sb, &desc, index)?;
    map.modify(handle, desc.inode_bitmap, |bytes| {
        bitmap::set(bytes, index);
        group::update_inode_bitmap_csum(bytes, &mut sums, vol.seed, &vol.geo)
    })?
    .map_err(|_| EINVAL)?;
    let used = index
        .saturating_add(1)
        .max(groups::first_unused(vol, &desc));
    groups::modify_desc(handle, sb, number, |desc| {
        desc.block_bitmap_csum = sums.block_bitmap_csum;
        desc.inode_bitmap_csum = sums.inode_bitmap_csum;
        if groups::has_flags(vol) {
            desc.flags &= !(group::BLOCK_UNINIT | group::INODE_UNINIT);
            desc.itable_unused = all.saturating_sub(used);
        }
        desc.free_inodes = desc.free_inodes.saturating_sub(1);
        if is_dir {
            desc.used_dirs = desc.used_dirs.saturating_add(1);
        }
    })?;
    group
        .free_inodes
        .store(desc.free_inodes.saturating_sub(1), Relaxed);
    if is_dir {
        group.dirs.store(desc.used_dirs.saturating_add(1), Relaxed);
    }
    Ok(Some(index))
}

/// Takes a group out of use and reports why, without the lock.
fn pass_over(
    sb: &Sb,
    group: &Group,
    number: u32,
    mut state: impl core::ops::DerefMut<Target = GroupState>,
    which: Which,
    block: u64,
    fault: Fault,
) -> Result<Option<u32>> {
    groups::mark_fault(sb.data(), group, &mut state, which, &fault);
    if which == Which::Blocks {
        // Inodes cannot be had either in a group that would need the bitmap.
        groups::mark_fault(sb.data(), group, &mut state, Which::Inodes, &fault);
    }
    drop(state);
    groups::report_fault(sb, "allocate", number, block, fault)?;
    Ok(None)
}

/// Makes the block of the inode table in which `index` lies if none of its inodes was ever used.
fn make_table_block(handle: &Handle<'_>, sb: &Sb, desc: &GroupDesc, index: u32) -> Result {
    let vol = sb.data();
    let per_block = vol.geo.inodes_per_block;
    let nr = index.checked_div(per_block).ok_or(EINVAL)?;
    if nr.saturating_mul(per_block) < groups::first_unused(vol, desc) {
        return Ok(());
    }
    let block = desc.inode_table.checked_add(u64::from(nr)).ok_or(EINVAL)?;
    handle.create(block, |_| ())?;
    Ok(())
}

/// Gives back what [`allocate`] gave, in the same handle and before anything else refers to it.
///
/// # Errors
///
/// `EROFS` if the handle is aborted, `EFSCORRUPTED` if the inode is not in use: nothing is given
/// back then.
pub(crate) fn undo(handle: &Handle<'_>, sb: &Sb, new: &NewIno, mode: u16) -> Result {
    free(handle, sb, new.ino, mode)
}

/// Frees the inode `ino`, of the given mode (type and permissions), that no directory names and
/// nobody has open. In the table it is a deleted one by now, in the same handle, and is not written
/// again by its old owner: the number can be taken at once. The group lock is taken. Sleeps. Takes
/// [`CREDITS_FREE`].
///
/// # Errors
///
/// `EFSCORRUPTED` if the inode is not in use, or its group's bitmap is bad: reported, and nothing
/// is freed. Otherwise the volume has stopped.
pub(crate) fn free(handle: &Handle<'_>, sb: &Sb, ino: u32, mode: u16) -> Result {
    let vol = sb.data();
    let place = vol.geo.inode_place(ino).ok_or(EINVAL)?;
    let group = groups::get(vol, place.group)?;
    {
        let state = group.lock.lock();
        if state.inodes_corrupt {
            return Err(EFSCORRUPTED);
        }
        let desc = groups::desc(sb, place.group)?;
        let map = groups::inode_bitmap(sb, place.group, &desc).and_then(|map| {
            let in_use = !groups::inodes_uninit(vol, &desc)
                && map.read(|bytes| bitmap::test(bytes, place.index));
            let free = ext4rs_layout::Error::Corrupt("freeing an inode that is free");
            in_use.then_some(map).ok_or(Fault::Bad(free))
        });
        let map = match map {
            Ok(map) => map,
            Err(fault) => {
                let block = desc.inode_bitmap;
                pass_over(sb, group, place.group, state, Which::Inodes, block, fault)?;
                return Err(EFSCORRUPTED);
            }
        };
        groups::desc_access(handle, sb, place.group)?;
        let mut sums = desc;
        map.modify(handle, desc.inode_bitmap, |bytes| {
            bitmap::clear(bytes, place.index);
            group::update_inode_bitmap_csum(bytes, &mut sums, vol.seed, &vol.geo)
        })?
        .map_err(|_| EINVAL)?;
        // The table's block was made, so the inode stays in the used part of the table.
        groups::modify_desc(handle, sb, place.group, |desc| {
            desc.inode_bitmap_csum = sums.inode_bitmap_csum;
            desc.free_inodes = desc.free_inodes.saturating_add(1);
            if is_dir(mode) {
                desc.used_dirs = desc.used_dirs.saturating_sub(1);
            }
        })?;
        group
            .free_inodes
            .store(desc.free_inodes.saturating_add(1), Relaxed);
        if is_dir(mode) {
            group.dirs.store(desc.used_dirs.saturating_sub(1), Relaxed);
        }
    }
    let mut space = vol.space.lock();
    space.free_inodes = space.free_inodes.saturating_add(1);
    if is_dir(mode) {
        space.dirs = space.dirs.saturating_sub(1);
    }
    Ok(())
}

/// Whether the bitmap says that the inode `ino` is in use.
///
/// # Errors
///
/// `EINVAL` if the volume has no such inode; `EFSCORRUPTED` if the bitmap is bad, which is reported.
pub(crate) fn is_in_use(sb: &Sb, ino: u32) -> Result<bool> {
    let vol = sb.data();
    let place = vol.geo.inode_place(ino).ok_or(EINVAL)?;
    let group = groups::get(vol, place.group)?;
    let state = group.lock.lock();
    let desc = groups::desc(sb, place.group)?;
    match groups::inode_bitmap(sb, place.group, &desc) {
        Ok(map) => Ok(map.read(|bytes| bitmap::test(bytes, place.index))),
        Err(fault) => {
            let block = desc.inode_bitmap;
            pass_over(sb, group, place.group, state, Which::Inodes, block, fault)?;
            Err(EFSCORRUPTED)
        }
    }
}

/// Whether the block of the inode table that holds `ino` was never used, so that what it holds on
/// disk means nothing: it must not be read, and no inode in it exists.
///
/// # Errors
///
/// `EINVAL` if the volume has no inode of that number.
pub(crate) fn table_block_is_unused(sb: &Sb, ino: u32) -> Result<bool> {
    let vol = sb.data();
    let place = vol.geo.inode_place(ino).ok_or(EINVAL)?;
    let desc = groups::desc(sb, place.group)?;
    let first = place.table_block.saturating_mul(vol.geo.inodes_per_block);
    Ok(first >= groups::first_unused(vol, &desc))
}

/// The aligned group of `count` blocks of the inode table, a power of two, that holds `ino`: what of it
/// lies in the part of the table that was ever used. The first block and the one behind the last.
///
/// # Errors
///
/// `EINVAL` if the volume has no inode of that number.
pub(crate) fn table_neighbours(sb: &Sb, ino: u32, count: u32) -> Result<(u64, u64)> {
    let vol = sb.data();
    let place = vol.geo.inode_place(ino).ok_or(EINVAL)?;
    let desc = groups::desc(sb, place.group)?;
    let used = groups::first_unused(vol, &desc).div_ceil(vol.geo.inodes_per_block.max(1));
    let table = desc.inode_table;
    let block = table.saturating_add(place.table_block.into());
    let first = block & !u64::from(count.saturating_sub(1));
    let end = first.saturating_add(count.into());
    Ok((first.max(table), end.min(table.saturating_add(used.into()))))
}
