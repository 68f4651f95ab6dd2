// SPDX-License-Identifier: GPL-2.0

//! What is true of one mounted volume: geometry, features, the group table and the counters.

use crate::{
    alloc::{HeldCounts, HeldRuns, Windows, Zones},
    options::Options,
    orphan::Orphans,
    report::Errors,
    super_block::Mutable,
    writeback::WritebackState,
};
use ext4rs_layout::{
    group::GroupChecksum, inode::InodeFormat, superblock::STATE_ERROR, Geometry, Incompat, Seed,
    SuperBlock as DiskSuper,
};
use ext4rs_vfs::{
    buffer_head::BufferHead,
    fs::{NewSuperBlock, SuperBlock},
    jbd2::Journal,
    mbcache::MbCache,
};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag},
        Mutex, SetOnce, SpinLock,
    },
};

/// Buckets of the cache of attribute blocks, as a power of two (ext4's `HASH_BUCKET_BITS`).
const XATTR_CACHE_BITS: u8 = 10;

/// The filesystem type. Never instantiated.
pub(crate) enum Ext4 {}

/// A mounted volume, as the VFS sees it; [`Volume`] is its data.
pub(crate) type Sb = SuperBlock<Ext4>;

/// One block group: its lock, and what is known of it in memory.
///
/// The counts are copies of the descriptor's, for choosing a group without its lock: they are
/// written under the lock, and may be out of date for whoever reads them without it.
#[pin_data]
pub(crate) struct Group {
    /// The group lock: orders every change of the group's bitmaps and descriptor, so that a
    /// bitmap and the checksum of it in the descriptor are one. Taken under a handle and under a
    /// mapping lock; innermost but for the status tree's lock.
    #[pin]
    pub(crate) lock: Mutex<GroupState>,
    /// Free blocks.
    pub(crate) free: Atomic<u32>,
    /// Free inodes.
    pub(crate) free_inodes: Atomic<u32>,
    /// Directories.
    pub(crate) dirs: Atomic<u32>,
    /// An upper bound of the longest run of free blocks.
    pub(crate) longest_run: Atomic<u32>,
    /// The block bitmap was looked at since the mount, or need not be read for that.
    pub(crate) seen: Atomic<bool>,
}

/// What the group lock protects besides the group's blocks.
#[derive(Default)]
pub(crate) struct GroupState {
    /// The block bitmap was found bad: no block is allocated in the group any more.
    pub(crate) blocks_corrupt: bool,
    /// The inode bitmap was found bad: no inode is allocated in the group any more.
    pub(crate) inodes_corrupt: bool,
    /// Free blocks that growing files are likely to want next.
    pub(crate) windows: Windows,
    /// Free blocks that cannot be used before a commit.
    pub(crate) held: HeldRuns,
}

/// The volume's free space, in blocks. All are exact.
#[derive(Default)]
pub(crate) struct Space {
    /// Free in the bitmaps.
    pub(crate) free: u64,
    /// How many of `free` cannot be used, nor promised, before a commit.
    pub(crate) held: HeldCounts,
    /// Promised to delayed allocation: part of `free`, and of what is not held.
    pub(crate) delayed: u64,
    /// Free inodes.
    pub(crate) free_inodes: u64,
    /// Directories.
    pub(crate) dirs: u64,
}

/// One mounted volume.
#[pin_data]
pub(crate) struct Volume {
    /// The superblock as it was read at the mount. Features, geometry and seeds do not change
    /// while mounted; counters in here are out of date.
    pub(crate) disk: DiskSuper,
    /// Sizes and places derived from it.
    pub(crate) geo: Geometry,
    /// How inodes are encoded.
    pub(crate) inode_format: InodeFormat,
    /// Seed of all metadata checksums; `None` without `metadata_csum`.
    pub(crate) seed: Option<Seed>,
    /// How group descriptors are checksummed.
    pub(crate) group_checksum: GroupChecksum,
    /// The block that holds the primary superblock, at [`Geometry::sb_offset`].
    pub(crate) super_block: BufferHead,
    /// The blocks of the group descriptor table, in order.
    pub(crate) desc_blocks: KVVec<BufferHead>,
    /// The groups, by number.
    pub(crate) groups: KVVec<Pin<KBox<Group>>>,
    /// The blocks that hold the volume's own structures, from [`crate::alloc::load`] on.
    pub(crate) zones: SetOnce<Zones>,
    /// Finds blocks of extended attributes by the hash of what they hold, to share them.
    pub(crate) xattr_cache: MbCache,
    /// Free space. Innermost of all locks.
    #[pin]
    pub(crate) space: SpinLock<Space>,
    /// The mount options in force.
    #[pin]
    pub(crate) options: SpinLock<Options>,
    /// The journal, from the end of the mount on; closed, not taken out, when the volume goes.
    /// Empty on a mount with `noload`.
    pub(crate) journal: SetOnce<Journal>,
    /// Blocks of the volume that hold its own metadata (superblocks, descriptors, bitmaps, inode
    /// tables, journal): what `statfs` takes off unless `minixdf` is given.
    pub(crate) overhead: Atomic<u64>,
    /// Blocks that only completion of write-back may take (rule 6; ext4's `s_resv_clusters`):
    /// part of `free`, never promised to anyone else.
    pub(crate) completion_pool: Atomic<u64>,
    /// What of the superblock on disk changes; the lock also serialises its writes. Taken under
    /// any other mutex; no handle is started under it.
    #[pin]
    pub(crate) super_lock: Mutex<Mutable>,
    /// Errors found, and what follows from them.
    #[pin]
    pub(crate) errors: Errors,
    /// Where the volume is mounted is known to the superblock.
    pub(crate) mount_point_noted: AtomicFlag,
    /// Inodes that are to be deleted or truncated. See [`crate::orphan`] for its order.
    #[pin]
    pub(crate) orphans: Mutex<Orphans>,
    /// Orphans are being processed while the volume is mounted read-only: handles may be started.
    pub(crate) cleaning: AtomicFlag,
    /// The mount is complete: its end is worth a message.
    pub(crate) announced: AtomicFlag,
    /// Sectors that had been written to the device when the volume was mounted.
    sectors_at_mount: u64,
    /// The write-back engine's counters and its queue of conversions.
    #[pin]
    pub(crate) writeback: WritebackState,
}

impl Volume {
    /// Builds the volume's data from its superblock; reads the group descriptor table. Nothing is
    /// checked in it yet: the journal may have to be replayed first.
    pub(crate) fn new(
        sb: &NewSuperBlock<Ext4>,
        disk: DiskSuper,
        geo: Geometry,
        super_block: BufferHead,
        options: Options,
    ) -> Result<Pin<KBox<Self>>> {
        let desc_blocks = read_descriptors(sb, &geo)?;
        let groups = new_groups(geo.groups_count)?;
        let sectors_at_mount = sb.device_sectors_written();
        KBox::try_pin_init(
            try_pin_init!(Self {
                disk,
                geo,
                inode_format: InodeFormat::new(geo, disk.incompat.has(Incompat::SIXTY_FOUR_BIT)),
                seed: disk.csum_seed(),
                group_checksum: disk.group_checksum(),
                super_block,
                desc_blocks,
                groups,
                zones: SetOnce::new(),
                xattr_cache: MbCache::new(XATTR_CACHE_BITS)?,
                space <- new_spinlock!(Space::default(), "ext4rs_space"),
                options <- new_spinlock!(options, "ext4rs_options"),
                journal: SetOnce::new(),
                overhead: Atomic::new(0),
                completion_pool: Atomic::new(0),
                super_lock <- new_mutex!(Mutable::new(disk), "ext4rs_super"),
                errors <- Errors::new(disk.state & STATE_ERROR != 0),
                mount_point_noted: AtomicFlag::new(false),
                orphans <- new_mutex!(Orphans::default(), "ext4rs_orphans"),
                cleaning: AtomicFlag::new(false),
                announced: AtomicFlag::new(false),
                sectors_at_mount,
                writeback <- WritebackState::new(sb.id()),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Kilobytes ever written to the volume, for the superblock.
    pub(crate) fn kbytes_written(&self, sb: &Sb) -> u64 {
        let sectors = sb
            .device_sectors_written()
            .saturating_sub(self.sectors_at_mount);
        self.disk.kbytes_written.saturating_add(sectors >> 1)
    }
}

/// Reads the group descriptor table, with read-ahead.
fn read_descriptors(sb: &NewSuperBlock<Ext4>, geo: &Geometry) -> Result<KVVec<BufferHead>> {
    let mut blocks = KVVec::with_capacity(usize::try_from(geo.desc_blocks)?, GFP_KERNEL)?;
    for nr in 0..geo.desc_blocks {
        sb.readahead(geo.desc_block(nr).ok_or(EFSCORRUPTED)?);
    }
    for nr in 0..geo.desc_blocks {
        let block = geo.desc_block(nr).ok_or(EFSCORRUPTED)?;
        let bh = sb.bread(block).inspect_err(|_| {
            crate::mount::refuse(sb, fmt!("can't read group descriptor {}", nr));
        })?;
        blocks.push(bh, GFP_KERNEL)?;
    }
    Ok(blocks)
}

fn new_groups(count: u32) -> Result<KVVec<Pin<KBox<Group>>>> {
    let mut groups = KVVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
    for _ in 0..count {
        let group = KBox::pin_init(
            pin_init!(Group {
                lock <- new_mutex!(GroupState::default(), "ext4rs_group"),
                free: Atomic::new(0),
                free_inodes: Atomic::new(0),
                dirs: Atomic::new(0),
                longest_run: Atomic::new(0),
                seen: Atomic::new(false),
            }),
            GFP_KERNEL,
        )?;
        groups.push(group, GFP_KERNEL)?;
    }
    Ok(groups)
}
