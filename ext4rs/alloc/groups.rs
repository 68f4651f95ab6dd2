// SPDX-License-Identifier: GPL-2.0

//! Group descriptors and bitmaps: read, checked once, changed with their checksums.
//!
//! A descriptor holds the counts and the checksums of its group's two bitmaps, so the three change
//! in one handle under the group lock. A bitmap that does not fit its descriptor makes the group
//! *corrupt* for what the bitmap says: that is reported once, nothing is allocated there any more,
//! and what was free in the group no longer counts as free (ext4's `EXT4_GROUP_INFO_*_CORRUPT`).

use super::zones::{overlapping, settle, Zone};
use crate::{
    journal::Handle,
    report,
    volume::{Group, GroupState, Sb, Volume},
};
use ext4rs_layout::{
    self as layout, bitmap,
    group::{self, GroupChecksum, BLOCK_UNINIT, INODE_UNINIT},
    GroupDesc,
};
use ext4rs_vfs::{buffer_head::BufferHead, log::Level};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// The system zones of a volume, sorted; see [`super::zones`].
pub(crate) struct Zones(KVVec<Zone>);

/// The group of that number.
pub(super) fn get(vol: &Volume, group: u32) -> Result<&Group> {
    let group = vol.groups.get(usize::try_from(group)?).ok_or(EINVAL)?;
    Ok(group.as_ref().get_ref())
}

/// Where a group's descriptor lies: the block and the byte in it.
fn place(vol: &Volume, group: u32) -> Result<(&BufferHead, usize)> {
    let (nr, offset) = vol.geo.desc_place(group).ok_or(EINVAL)?;
    let block = vol.desc_blocks.get(usize::try_from(nr)?).ok_or(EINVAL)?;
    Ok((block, offset))
}

/// Reads a group's descriptor, which was checked at the mount. Its places do not change while
/// mounted; its counts and flags do, under the group lock.
///
/// # Errors
///
/// `EINVAL` if the volume has no such group.
pub(crate) fn desc(sb: &Sb, group: u32) -> Result<GroupDesc> {
    let vol = sb.data();
    let (block, offset) = place(vol, group)?;
    block
        .read(|bytes| GroupDesc::decode(bytes.get(offset..).unwrap_or(&[]), &vol.geo))
        .map_err(|_| EINVAL)
}

/// Gets the right to change a group's descriptor, so that [`modify_desc`] cannot fail after the
/// bitmap was changed.
pub(super) fn desc_access(handle: &Handle<'_>, sb: &Sb, group: u32) -> Result {
    handle.write_access(place(sb.data(), group)?.0)
}

/// Changes a group's descriptor and its checksum. The group lock is held.
pub(super) fn modify_desc(
    handle: &Handle<'_>,
    sb: &Sb,
    group: u32,
    change: impl FnOnce(&mut GroupDesc),
) -> Result {
    let vol = sb.data();
    let (block, offset) = place(vol, group)?;
    handle
        .modify(block, |bytes| {
            // Others in the block belong to other groups: only this one is written.
            let bytes = bytes.get_mut(offset..).unwrap_or(&mut []);
            let mut desc = GroupDesc::decode(bytes, &vol.geo)?;
            change(&mut desc);
            desc.encode(bytes, &vol.geo)?;
            group::update_checksum(bytes, group, &vol.group_checksum, &vol.geo)
        })?
        .map_err(|_| EINVAL)
}

/// Whether descriptors have flags and a count of unused inodes that mean something: only where
/// they have checksums.
pub(super) fn has_flags(vol: &Volume) -> bool {
    vol.group_checksum != GroupChecksum::None
}

/// Whether the block bitmap on disk means nothing yet.
pub(super) fn blocks_uninit(vol: &Volume, desc: &GroupDesc) -> bool {
    has_flags(vol) && desc.has(BLOCK_UNINIT)
}

/// Whether the inode bitmap on disk means nothing yet.
pub(super) fn inodes_uninit(vol: &Volume, desc: &GroupDesc) -> bool {
    has_flags(vol) && desc.has(INODE_UNINIT)
}

/// The first inode of a group, by its bit, that was never used; all after it are so too.
pub(super) fn first_unused(vol: &Volume, desc: &GroupDesc) -> u32 {
    let all = vol.geo.inodes_per_group;
    if !has_flags(vol) {
        all
    } else if desc.has(INODE_UNINIT) {
        0
    } else {
        all.saturating_sub(desc.itable_unused)
    }
}

/// Checks every descriptor (`ext4_check_descriptors`) and sums their counts, which are what counts:
/// those in the superblock are brought up to date at unmount only.
pub(super) fn load(sb: &Sb) -> Result {
    let vol = sb.data();
    let (mut free, mut free_inodes, mut dirs) = (0u64, 0u64, 0u64);
    for number in 0..vol.geo.groups_count {
        let desc = check_desc(vol, number).inspect_err(|e| {
            report::message(sb, Level::Err, fmt!("group {}: {}", number, e.as_str()));
        });
        let desc = desc.map_err(|e| match e {
            layout::Error::BadChecksum(_) => EFSBADCRC,
            _ => EFSCORRUPTED,
        })?;
        let group = get(vol, number)?;
        group.free.store(desc.free_clusters, Relaxed);
        group.free_inodes.store(desc.free_inodes, Relaxed);
        group.dirs.store(desc.used_dirs, Relaxed);
        group.longest_run.store(desc.free_clusters, Relaxed);
        // What need not be read costs no more than what has been.
        group.seen.store(blocks_uninit(vol, &desc), Relaxed);
        free = free.saturating_add(u64::from(desc.free_clusters));
        free_inodes = free_inodes.saturating_add(u64::from(desc.free_inodes));
        dirs = dirs.saturating_add(u64::from(desc.used_dirs));
    }
    let mut space = vol.space.lock();
    space.free = free;
    space.free_inodes = free_inodes;
    space.dirs = dirs;
    Ok(())
}

fn check_desc(vol: &Volume, group: u32) -> layout::Result<GroupDesc> {
    let (block, offset) = place(vol, group)
        .map_err(|_| layout::Error::Corrupt("descriptor beyond the descriptor table"))?;
    let desc = block.read(|bytes| {
        let bytes = bytes.get(offset..).unwrap_or(&[]);
        group::verify(bytes, group, &vol.group_checksum, &vol.geo)?;
        GroupDesc::decode(bytes, &vol.geo)
    })?;
    desc.validate(group, &vol.geo)?;
    if group == 0 && (blocks_uninit(vol, &desc) || inodes_uninit(vol, &desc)) {
        return Err(layout::Error::Corrupt("bitmaps marked uninitialized"));
    }
    Ok(desc)
}

/// Lists the blocks that hold the volume's own structures.
pub(super) fn load_zones(sb: &Sb, journal: &[(u64, u32)]) -> Result {
    let vol = sb.data();
    let geo = &vol.geo;
    let mut zones = KVVec::new();
    let mut add = |start: u64, count: u32, journal: bool| {
        let end = start.saturating_add(u64::from(count));
        let zone = Zone {
            start,
            end,
            journal,
        };
        if start < end {
            zones.push(zone, GFP_KERNEL)?;
        }
        Ok::<(), Error>(())
    };
    for group in 0..geo.groups_count {
        let desc = desc(sb, group)?;
        add(
            geo.group_first_block(group),
            geo.base_meta_blocks(group),
            false,
        )?;
        add(desc.block_bitmap, 1, false)?;
        add(desc.inode_bitmap, 1, false)?;
        add(desc.inode_table, geo.itable_blocks, false)?;
    }
    for &(start, count) in journal {
        add(start, count, true)?;
    }
    let Some(count) = settle(&mut zones) else {
        report::message(
            sb,
            Level::Err,
            fmt!("two of the volume's own structures share a block"),
        );
        return Err(EFSCORRUPTED);
    };
    zones.truncate(count);
    vol.zones.populate(Zones(zones));
    Ok(())
}

/// Whether a file may have the `count` blocks from `start` on: they exist, and hold none of the
/// volume's own structures. `journal` says that the file is the journal's inode.
pub(crate) fn valid_blocks(sb: &Sb, start: u64, count: u32, journal: bool) -> bool {
    let vol = sb.data();
    let end = start.saturating_add(u64::from(count));
    vol.geo.valid_blocks(start, u64::from(count))
        && vol.zones.as_ref().is_none_or(|zones| {
            overlapping(&zones.0, start, end).all(|zone| journal && zone.journal)
        })
}

/// A group's bitmap, good to search in.
pub(super) enum Bitmap {
    /// The block on disk.
    OnDisk(BufferHead),
    /// The block on disk means nothing yet; these bytes are to become its content.
    Fresh(KVec<u8>),
}

impl Bitmap {
    /// Looks at the bits. `f` runs under a spinlock.
    pub(super) fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Bitmap::OnDisk(bh) => bh.read(f),
            Bitmap::Fresh(bytes) => f(bytes),
        }
    }

    /// Changes the bits through the handle; `block` is where the bitmap lies.
    pub(super) fn modify<R>(
        self,
        handle: &Handle<'_>,
        block: u64,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        match self {
            Bitmap::OnDisk(bh) => handle.modify(&bh, f),
            Bitmap::Fresh(bytes) => {
                let (_, result) = handle.create(block, |content| {
                    // Both are one block; bits that were not copied would read as free.
                    for (to, from) in content.iter_mut().zip(&bytes) {
                        *to = *from;
                    }
                    f(content)
                })?;
                Ok(result)
            }
        }
    }
}

/// Why there is no bitmap.
pub(super) enum Fault {
    /// No memory, or the block cannot be read.
    Io(Error),
    /// It is not what it should be.
    Bad(layout::Error),
}

impl From<Error> for Fault {
    fn from(e: Error) -> Self {
        Fault::Io(e)
    }
}

impl From<layout::Error> for Fault {
    fn from(e: layout::Error) -> Self {
        Fault::Bad(e)
    }
}

impl From<kernel::alloc::AllocError> for Fault {
    fn from(e: kernel::alloc::AllocError) -> Self {
        Fault::Io(e.into())
    }
}

fn blank(vol: &Volume) -> Result<KVec<u8>, Fault> {
    let size = usize::try_from(vol.geo.block_size).map_err(|_| EINVAL)?;
    Ok(KVec::from_elem(0, size, GFP_KERNEL)?)
}

/// Gets a group's block bitmap; reads and checks it if need be. The group lock is held.
pub(super) fn block_bitmap(sb: &Sb, group: u32, desc: &GroupDesc) -> Result<Bitmap, Fault> {
    let vol = sb.data();
    if blocks_uninit(vol, desc) {
        let mut bytes = blank(vol)?;
        group::init_block_bitmap(&mut bytes, group, desc, &vol.geo)?;
        check_block_bits(vol, &bytes, group, desc)?;
        return Ok(Bitmap::Fresh(bytes));
    }
    let bh = sb.bread(desc.block_bitmap)?;
    if !bh.is_verified() {
        bh.read(|bytes| {
            group::verify_block_bitmap(bytes, desc, vol.seed, &vol.geo)?;
            group::validate_block_bitmap(bytes, group, desc, &vol.geo)?;
            check_block_bits(vol, bytes, group, desc)
        })?;
        bh.set_verified();
    }
    Ok(Bitmap::OnDisk(bh))
}

/// The volume's own structures are in use, and the number of free blocks is what it should be.
fn check_block_bits(
    vol: &Volume,
    bytes: &[u8],
    group: u32,
    desc: &GroupDesc,
) -> layout::Result<()> {
    let first = vol.geo.group_first_block(group);
    let count = vol.geo.blocks_in_group(group);
    let end = first.saturating_add(u64::from(count));
    let bit = |block: u64| u32::try_from(block.saturating_sub(first)).unwrap_or(u32::MAX);
    let zones = vol.zones.as_ref().map_or(&[][..], |zones| &zones.0);
    for zone in overlapping(zones, first, end) {
        if !bitmap::all_set(bytes, bit(zone.start.max(first)), bit(zone.end.min(end))) {
            return Err(layout::Error::Corrupt(
                "blocks of the volume's own structures are free in the block bitmap",
            ));
        }
    }
    if bitmap::count_zero(bytes, 0, count) != desc.free_clusters {
        return Err(layout::Error::Corrupt(
            "number of free blocks differs between block bitmap and descriptor",
        ));
    }
    Ok(())
}

/// Gets a group's inode bitmap; reads and checks it if need be. The group lock is held.
pub(super) fn inode_bitmap(sb: &Sb, group: u32, desc: &GroupDesc) -> Result<Bitmap, Fault> {
    let vol = sb.data();
    if inodes_uninit(vol, desc) {
        let mut bytes = blank(vol)?;
        group::init_inode_bitmap(&mut bytes, &vol.geo)?;
        check_inode_bits(vol, &bytes, group, desc)?;
        return Ok(Bitmap::Fresh(bytes));
    }
    let bh = sb.bread(desc.inode_bitmap)?;
    if !bh.is_verified() {
        bh.read(|bytes| {
            group::verify_inode_bitmap(bytes, desc, vol.seed, &vol.geo)?;
            check_inode_bits(vol, bytes, group, desc)
        })?;
        bh.set_verified();
    }
    Ok(Bitmap::OnDisk(bh))
}

/// Reserved inodes are in use, those that were never used are free, and the number of free ones is
/// what it should be.
fn check_inode_bits(
    vol: &Volume,
    bytes: &[u8],
    group: u32,
    desc: &GroupDesc,
) -> layout::Result<()> {
    let all = vol.geo.inodes_per_group;
    let reserved = first_ordinary(vol, group);
    let problem = if !bitmap::all_set(bytes, 0, reserved) {
        "reserved inode found cleared in the inode bitmap"
    } else if !bitmap::all_zero(bytes, first_unused(vol, desc), all) {
        "inode in use beyond the used part of the inode table"
    } else if bitmap::count_zero(bytes, 0, all) != desc.free_inodes {
        "number of free inodes differs between inode bitmap and descriptor"
    } else {
        return Ok(());
    };
    Err(layout::Error::Corrupt(problem))
}

/// The first inode of a group, by its bit, that is not reserved.
pub(super) fn first_ordinary(vol: &Volume, group: u32) -> u32 {
    if group == 0 {
        vol.geo.first_ino.saturating_sub(1)
    } else {
        0
    }
}

/// Which of a group's bitmaps is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The block bitmap.
    Blocks,
    /// The inode bitmap.
    Inodes,
}

/// Takes a group out of use for what the bitmap says, and takes off what the volume had free there.
/// A want of memory is no fault of the group's. The caller holds the group lock, and calls
/// [`report_fault`] without it.
pub(super) fn mark_fault(
    vol: &Volume,
    group: &Group,
    state: &mut GroupState,
    which: Which,
    fault: &Fault,
) {
    if matches!(fault, Fault::Io(e) if *e == ENOMEM) {
        return;
    }
    match which {
        Which::Blocks => {
            state.blocks_corrupt = true;
            let lost = group.free.xchg(0, Relaxed);
            group.longest_run.store(0, Relaxed);
            let mut space = vol.space.lock();
            space.free = space.free.saturating_sub(u64::from(lost));
        }
        Which::Inodes => {
            state.inodes_corrupt = true;
            let lost = group.free_inodes.xchg(0, Relaxed);
            let mut space = vol.space.lock();
            space.free_inodes = space.free_inodes.saturating_sub(u64::from(lost));
        }
    }
}

/// Reports what is wrong with a group's bitmap. `Ok` if the search can go on in other groups.
pub(super) fn report_fault(
    sb: &Sb,
    function: &str,
    group: u32,
    block: u64,
    fault: Fault,
) -> Result {
    match fault {
        Fault::Io(e) if e == ENOMEM => return Err(e),
        Fault::Io(_) => report::corrupt(
            sb,
            function,
            None,
            Some(block),
            fmt!("cannot read bitmap of group {}", group),
        ),
        Fault::Bad(e) => report::from_layout(sb, function, None, Some(block), e),
    };
    Ok(())
}
