// SPDX-License-Identifier: GPL-2.0

//! Inodes in memory, and their way from and to the disk.
//!
//! Source of the format: `struct ext4_inode`; of the rules for reading one: `__ext4_iget`.

pub(crate) mod attr;
mod create;
mod evict;
mod truncate;

pub(crate) use self::{
    create::{create, CREDITS_CREATE},
    evict::evict,
    truncate::truncate,
};

use crate::{
    alloc,
    journal::{self, Handle},
    map::Map,
    orphan::OrphanState,
    report, super_block,
    volume::{Ext4, Sb},
};
use ext4rs_layout::{
    inode::{
        self as disk, Time, FL_APPEND, FL_DIRSYNC, FL_EA_INODE, FL_EXTENTS, FL_IMMUTABLE,
        FL_INLINE_DATA, FL_JOURNAL_DATA, FL_NOATIME, FL_SYNC, I_BLOCK_SIZE, MODE_DIR, MODE_LINK,
        MODE_REG, MODE_TYPE,
    },
    xattr::Rules,
    Inode as DiskInode, Seed,
};
use ext4rs_vfs::{
    buffer_head::BufferHead,
    fs::{now_seconds, AttributeFlags, INode, Iget, NewINode, Timespec},
    plug::with_plug,
    rwsem::RwSemaphore,
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering::Relaxed, Atomic, AtomicFlag},
        SpinLock,
    },
};

/// An inode in memory, as the VFS sees it; [`InodeInfo`] is its data.
pub(crate) type Inode = INode<Ext4>;

/// Blocks that [`mark_dirty`] changes: the one of the inode table, and the superblock if the file is
/// the first large one.
pub(crate) const CREDITS_DIRTY: u32 = 2;

/// What of the disk's inode has no place in the VFS inode.
pub(crate) struct RawInode {
    /// `FL_*` flags.
    pub(crate) flags: u32,
    /// The size on disk, in bytes: never beyond what is allocated and written (rule 7). Grows in
    /// the converting handle, or in `setattr`.
    pub(crate) disk_size: u64,
    /// The root of the extent tree, or a fast symlink's target, or a device number. Changed only
    /// with the mapping lock held for writing; copied out and in under this spinlock.
    pub(crate) i_block: [u8; I_BLOCK_SIZE],
    /// Bytes of the extra part of the inode that are in use.
    pub(crate) extra_isize: u16,
    /// The block of extended attributes, or 0.
    pub(crate) file_acl: u64,
    /// Time of creation.
    pub(crate) crtime: Time,
    /// Change counter.
    pub(crate) version: u64,
    /// Project.
    pub(crate) projid: u32,
}

/// The filesystem's data of an inode in memory.
///
/// Lock order: `i_rwsem`, invalidate_lock, folio lock or journal handle (never both), `xattrs`, `map.lock`,
/// group lock, a buffer's content lock, `map.status`, `raw`.
#[pin_data]
pub(crate) struct InodeInfo {
    /// Logical to physical blocks, and what waits for allocation.
    #[pin]
    pub(crate) map: Map,
    /// Fields that only the disk's inode has.
    #[pin]
    pub(crate) raw: SpinLock<RawInode>,
    /// Held for whoever looks at the inode's extended attributes, or changes them.
    #[pin]
    pub(crate) xattrs: RwSemaphore<()>,
    /// The transaction that last changed the inode: what fsync waits for.
    pub(crate) sync_tid: Atomic<u32>,
    /// The transaction that last changed what fdatasync needs.
    pub(crate) datasync_tid: Atomic<u32>,
    /// The group whose table holds the inode; where its data is best put.
    pub(crate) block_group: Atomic<u32>,
    /// Whether the inode is to be deleted or truncated.
    pub(crate) orphan: OrphanState,
    /// The target of the symbolic link is in the inode. Set once, when the inode is read or made: the
    /// number of its blocks, which tells it, and that of attributes change one after the other.
    pub(crate) fast_link: AtomicFlag,
    /// The file was emptied: what is written to it next is to be on disk soon after it is closed.
    pub(crate) flush_on_close: AtomicFlag,
}

impl InodeInfo {
    /// The data of an inode that is still to be read or made.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            map <- Map::new(),
            raw <- new_spinlock!(
                RawInode {
                    flags: 0,
                    disk_size: 0,
                    i_block: [0; I_BLOCK_SIZE],
                    extra_isize: 0,
                    file_acl: 0,
                    crtime: Time::default(),
                    version: 0,
                    projid: 0,
                },
                "ext4rs_inode_raw"
            ),
            xattrs <- RwSemaphore::new((), c"ext4rs_xattrs", kernel::static_lock_class!()),
            sync_tid: Atomic::new(0),
            datasync_tid: Atomic::new(0),
            block_group: Atomic::new(0),
            orphan: OrphanState::new(),
            fast_link: AtomicFlag::new(false),
            flush_on_close: AtomicFlag::new(false),
        }? Error)
    }
}

/// The inode's flags.
pub(crate) fn flags(inode: &Inode) -> u32 {
    inode.data().raw.lock().flags
}

/// The seed of the checksums of the inode's blocks.
pub(crate) fn checksum_seed(inode: &Inode) -> Option<Seed> {
    let ino = u32::try_from(inode.ino()).ok()?;
    let seed = inode.super_block().data().seed?;
    Some(seed.inode(ino, inode.generation()))
}

/// The inode that a directory entry names.
///
/// # Errors
///
/// `EFSCORRUPTED` if the number cannot be that of a file, or the inode is bad; `ESTALE` if it is
/// not in use.
pub(crate) fn iget(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    if !sb.data().disk.valid_inum(ino) {
        return Err(report::corrupt(
            sb,
            "iget",
            Some(ino.into()),
            None,
            fmt!("bad inode number"),
        ));
    }
    check_use(get(sb, ino)?, false)
}

/// The inode that holds the value of an extended attribute.
///
/// # Errors
///
/// As [`iget`].
pub(crate) fn iget_value(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    check_use(get(sb, ino)?, true)
}

/// The inode of a file handle, whose number can be any.
///
/// # Errors
///
/// `ESTALE` if there is no such inode, or it is none that has a name. Otherwise as [`iget`].
pub(crate) fn iget_of_handle(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    if !sb.data().disk.valid_inum(ino) {
        return Err(ESTALE);
    }
    let inode = get(sb, ino)?;
    if flags(&inode) & FL_EA_INODE != 0 {
        return Err(ESTALE);
    }
    Ok(inode)
}

/// An inode that is in use, from memory or the disk.
fn get(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    match sb.iget(ino.into())? {
        Iget::Cached(inode) if inode.is_bad() => Err(EIO),
        Iget::Cached(inode) => Ok(inode),
        Iget::New(new) => {
            read(&new, ino)?;
            if new.nlink() == 0 {
                return Err(ESTALE);
            }
            set_ops(&new)?;
            Ok(new.publish())
        }
    }
}

/// Checks that an inode is one that names refer to or, with `value`, one that attributes refer to:
/// none is both.
fn check_use(inode: ARef<Inode>, value: bool) -> Result<ARef<Inode>> {
    let why = match (flags(&inode) & FL_EA_INODE != 0, value) {
        (true, false) => "unexpected EA_INODE flag",
        (false, true) => "missing EA_INODE flag",
        (true, true) if !inode.is_reg() => "EA_INODE flag on what is no regular file",
        _ => return Ok(inode),
    };
    let ino = Some(inode.ino());
    let e = report::corrupt(inode.super_block(), "iget", ino, None, fmt!("{why}"));
    Err(e)
}

/// An inode that was left as an orphan: it may have no link, and goes with the last reference then.
///
/// # Errors
///
/// As [`iget`]; `ESTALE` if it was never used. `EOPNOTSUPP` for one that ext4rs cannot handle.
pub(crate) fn iget_orphan(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    match sb.iget(ino.into())? {
        Iget::Cached(inode) if inode.is_bad() => Err(EIO),
        Iget::Cached(inode) => Ok(inode),
        Iget::New(new) => {
            read(&new, ino)?;
            set_ops(&new)?;
            Ok(new.publish())
        }
    }
}

/// An inode of the filesystem's own: the journal's, the orphan file's. Only its mapping is used.
pub(crate) fn iget_internal(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    match sb.iget(ino.into())? {
        Iget::Cached(inode) if inode.is_bad() => Err(EIO),
        Iget::Cached(inode) => Ok(inode),
        Iget::New(new) => {
            read(&new, ino)?;
            if !new.is_reg() || new.nlink() == 0 {
                return Err(report::corrupt(
                    sb,
                    "iget_internal",
                    Some(ino.into()),
                    None,
                    fmt!("not a regular file"),
                ));
            }
            new.set_internal();
            Ok(new.publish())
        }
    }
}

/// The block of the inode table that holds an inode, and the inode's place in it in bytes.
fn locate(sb: &Sb, ino: u32) -> Result<(u64, usize)> {
    let geo = &sb.data().geo;
    let place = geo.inode_place(ino).ok_or(EFSCORRUPTED)?;
    let table = alloc::group_desc(sb, place.group)?.inode_table;
    let block = table
        .checked_add(place.table_block.into())
        .filter(|&block| geo.valid_blocks(block, 1))
        .ok_or(EFSCORRUPTED)?;
    Ok((block, place.offset))
}

/// Blocks of the inode table that are read together: ext4's default for `inode_readahead_blks`.
const READ_AHEAD: u32 = 32;

/// The block of the inode table that holds an inode, read, and the inode's place in it in bytes.
///
/// With a block that is not in memory its neighbours are read: inodes that are used together lie
/// together.
pub(crate) fn table_block(sb: &Sb, ino: u32) -> Result<(BufferHead, usize)> {
    let (block, offset) = locate(sb, ino)?;
    if let Some(bh) = sb.cached(block) {
        return Ok((bh, offset));
    }
    let (first, end) = alloc::table_neighbours(sb, ino, READ_AHEAD)?;
    let read = with_plug(|| {
        for neighbour in first..end {
            sb.readahead(neighbour);
        }
        sb.bread(block)
    });
    let bh = read.map_err(|e| {
        report::error(
            sb,
            "get_inode_loc",
            report::Place {
                ino: Some(ino.into()),
                block: Some(block),
            },
            e,
            fmt!("unable to read itable block"),
        )
    })?;
    Ok((bh, offset))
}

/// Reads an inode from the disk into a new one in memory.
fn read(inode: &NewINode<Ext4>, ino: u32) -> Result {
    let sb = inode.super_block();
    let vol = sb.data();
    if alloc::table_block_is_unused(sb, ino)? {
        return Err(ESTALE);
    }
    let (bh, offset) = table_block(sb, ino)?;
    let format = &vol.inode_format;
    let decoded = bh.read(|block| {
        let raw = block
            .get(offset..)
            .ok_or(ext4rs_layout::Error::Corrupt("inode beyond its block"))?;
        if disk::is_unused(raw) {
            return Ok(None);
        }
        disk::verify(raw, format, disk::seed(raw, ino, vol.seed))?;
        let mut decoded = DiskInode::decode(raw, format)?;
        // The high half is a size's for regular files only (`ext4_isize`).
        let wide = decoded.file_type() == MODE_REG
            || vol.disk.incompat.has(ext4rs_layout::Incompat::LARGEDIR);
        if !wide {
            decoded.size &= u64::from(u32::MAX);
        }
        decoded.validate(vol.geo.max_file_size())?;
        Ok(Some(decoded))
    });
    let decoded = decoded
        .map_err(|e| report::from_layout(sb, "iget", Some(ino.into()), Some(bh.block()), e))?
        .ok_or(ESTALE)?;
    fill(inode, &decoded);
    // Whoever changed the inode last may have been forgotten with it, but came no later than this.
    let tid = journal::current_tid(sb);
    inode.data().sync_tid.store(tid, Relaxed);
    inode.data().datasync_tid.store(tid, Relaxed);
    if let Some(place) = vol.geo.inode_place(ino) {
        inode.data().block_group.store(place.group, Relaxed);
    }
    Ok(())
}

/// Copies a decoded inode into the one in memory.
fn fill(inode: &NewINode<Ext4>, d: &DiskInode) {
    inode.set_mode(d.mode);
    inode.set_owner(d.uid, d.gid);
    inode.set_nlink(d.links.into());
    inode.set_size(d.size);
    inode.set_sectors(d.sectors);
    inode.set_times(
        to_timespec(d.atime),
        to_timespec(d.mtime),
        to_timespec(d.ctime),
    );
    inode.set_generation(d.generation);
    inode.set_attribute_flags(attribute_flags(d.flags));
    let mut raw = inode.data().raw.lock();
    raw.flags = d.flags;
    raw.disk_size = d.size;
    raw.i_block = d.i_block;
    raw.extra_isize = d.extra_isize;
    raw.file_acl = d.file_acl;
    raw.crtime = d.crtime;
    raw.version = d.version;
    raw.projid = d.projid;
}

/// Gives an inode that was read the operations of its type.
///
/// # Errors
///
/// `EOPNOTSUPP` for an inode that ext4rs cannot handle yet; `EFSCORRUPTED` for an impossible one.
fn set_ops(inode: &NewINode<Ext4>) -> Result {
    let sb = inode.super_block();
    let ino = Some(inode.ino());
    let (flags, i_block, file_acl) = {
        let raw = inode.data().raw.lock();
        (raw.flags, raw.i_block, raw.file_acl)
    };
    if file_acl != 0 && !sb.data().geo.valid_blocks(file_acl, 1) {
        return Err(report::corrupt(
            sb,
            "iget",
            ino,
            None,
            fmt!("bad extended attribute block {}", file_acl),
        ));
    }
    if flags & FL_INLINE_DATA != 0 {
        return Err(report::corrupt(
            sb,
            "iget",
            ino,
            None,
            fmt!("inline data on a volume without the feature"),
        ));
    }
    let kind = inode.mode() & MODE_TYPE;
    let fast_link = kind == MODE_LINK && looks_like_fast_symlink(inode);
    inode.data().fast_link.store(fast_link, Relaxed);
    let mapped = matches!(kind, MODE_REG | MODE_DIR | MODE_LINK) && !fast_link;
    if mapped {
        if flags & FL_EXTENTS == 0 {
            report::warning(
                sb,
                "iget",
                fmt!(
                    "inode #{}: block-mapped inodes are not built yet",
                    inode.ino()
                ),
            );
            return Err(EOPNOTSUPP);
        }
        ext4rs_layout::extent::check_root(&i_block, &sb.data().geo)
            .map_err(|e| report::from_layout(sb, "iget", ino, None, e))?;
    }
    match kind {
        MODE_REG => set_regular(inode),
        MODE_DIR => inode.set_directory(),
        MODE_LINK => inode.set_symlink(),
        disk::MODE_CHAR | disk::MODE_BLOCK | disk::MODE_FIFO | disk::MODE_SOCK => {
            let (major, minor) = device_of(inode);
            inode.set_special(kernel_device(major, minor));
        }
        _ => {
            return Err(report::corrupt(
                sb,
                "iget",
                ino,
                None,
                fmt!("bogus i_mode ({:o})", inode.mode()),
            ))
        }
    }
    Ok(())
}

/// A regular file's operations, and folios as large as the page cache makes them.
fn set_regular(inode: &NewINode<Ext4>) {
    inode.set_regular();
    crate::writeback::set_folio_sizes(inode);
}

/// The inode as the disk has it, but for its time of deletion, which is not in memory: see
/// [`set_dtime`].
fn to_disk(inode: &Inode) -> DiskInode {
    let raw = inode.data().raw.lock();
    DiskInode {
        mode: inode.mode(),
        uid: inode.uid(),
        gid: inode.gid(),
        links: u16::try_from(inode.nlink()).unwrap_or(u16::MAX),
        size: raw.disk_size,
        sectors: inode.sectors(),
        flags: raw.flags,
        generation: inode.generation(),
        atime: to_time(inode.atime()),
        ctime: to_time(inode.ctime()),
        mtime: to_time(inode.mtime()),
        crtime: raw.crtime,
        dtime: 0,
        file_acl: raw.file_acl,
        version: raw.version,
        projid: raw.projid,
        i_block: raw.i_block,
        extra_isize: raw.extra_isize,
    }
}

/// Puts the inode in memory into the inode table, under a handle with [`CREDITS_DIRTY`] to spare.
/// Waits for no lock but `raw`: the mapping lock may be held.
pub(crate) fn mark_dirty(handle: &Handle<'_>, inode: &Inode) -> Result {
    write(handle, inode, None)
}

/// As [`mark_dirty`], and gives the inode the current time as that of its deletion.
pub(crate) fn mark_deleted(handle: &Handle<'_>, inode: &Inode) -> Result {
    // At least 1: a deletion time of 0 is none.
    let now = u32::try_from(now_seconds()).unwrap_or(u32::MAX).max(1);
    write(handle, inode, Some(now))
}

/// Puts the inode into the inode table, with its time of deletion, or the one that is there.
fn write(handle: &Handle<'_>, inode: &Inode, dtime: Option<u32>) -> Result {
    let sb = inode.super_block();
    let vol = sb.data();
    let ino = u32::try_from(inode.ino()).map_err(|_| EFSCORRUPTED)?;
    let (bh, offset) = table_block(sb, ino)?;
    if inode.data().raw.lock().disk_size > i32::MAX as u64 {
        super_block::note_large_file(handle)?;
    }
    let format = &vol.inode_format;
    // Attributes may have to make room. Whoever looks at them, or has them changed, need not be
    // waited for: there will be another time.
    let growing = wants_fields(inode)
        .then(|| inode.data().xattrs.try_write())
        .flatten();
    // What is in memory is looked at under the block's content lock: of two who write the inode at
    // once, the second writes what is newest.
    let needs_datasync = handle
        .modify(&bh, |block| {
            let raw = block
                .get_mut(offset..)
                .ok_or(ext4rs_layout::Error::Corrupt("inode beyond its block"))?;
            let old = DiskInode::decode(raw, format).ok();
            if growing.is_some() {
                add_fields(inode, raw);
            }
            let mut new = to_disk(inode);
            new.dtime = dtime.or(old.as_ref().map(|old| old.dtime)).unwrap_or(0);
            new.encode(raw, format)?;
            disk::update_checksum(raw, format, disk::seed(raw, ino, vol.seed))?;
            Ok(old.is_none_or(|old| old.size != new.size || old.i_block != new.i_block))
        })?
        .map_err(|e| {
            report::from_layout(
                sb,
                "mark_inode_dirty",
                Some(ino.into()),
                Some(bh.block()),
                e,
            )
        })?;
    note_transaction(handle, inode, needs_datasync);
    Ok(())
}

/// Whether the inode lacks fields that the volume wants its inodes to have: it was made by an older
/// system, or the volume wanted fewer then.
fn wants_fields(inode: &Inode) -> bool {
    let want = inode.super_block().data().geo.want_extra_isize;
    inode.nlink() != 0 && u32::from(inode.data().raw.lock().extra_isize) < want
}

/// Gives the inode, which begins at the first byte of `raw`, these fields if its attributes leave room.
/// The caller holds the attribute lock.
fn add_fields(inode: &Inode, raw: &mut [u8]) {
    let vol = inode.super_block().data();
    let Ok(want) = u16::try_from(vol.geo.want_extra_isize) else {
        return;
    };
    let rules = Rules::new(&vol.disk);
    // Damaged attributes are reported by those who use them.
    if let Ok(extra) = disk::grow_extra(raw, &vol.inode_format, want, &rules) {
        inode.data().raw.lock().extra_isize = extra;
    }
}

/// The inode's time of deletion on disk, or the inode that follows it in the list of orphans.
pub(crate) fn dtime(sb: &Sb, ino: u32) -> Result<u32> {
    let (bh, offset) = table_block(sb, ino)?;
    let format = &sb.data().inode_format;
    bh.read(|block| DiskInode::decode(block.get(offset..).unwrap_or(&[]), format))
        .map(|inode| inode.dtime)
        .map_err(|e| report::from_layout(sb, "dtime", Some(ino.into()), Some(bh.block()), e))
}

/// Sets what [`dtime`] gives, whether or not the inode is in memory. Takes [`CREDITS_DIRTY`], of
/// that inode.
pub(crate) fn set_dtime(handle: &Handle<'_>, sb: &Sb, ino: u32, dtime: u32) -> Result {
    let vol = sb.data();
    let (bh, offset) = table_block(sb, ino)?;
    handle
        .modify(&bh, |block| {
            let raw = block
                .get_mut(offset..)
                .ok_or(ext4rs_layout::Error::Corrupt("inode beyond its block"))?;
            disk::set_dtime(raw, dtime);
            disk::update_checksum(raw, &vol.inode_format, disk::seed(raw, ino, vol.seed))
        })?
        .map_err(|e| report::from_layout(sb, "set_dtime", Some(ino.into()), Some(bh.block()), e))
}

/// Remembers the transaction that fsync, and fdatasync if `data`, has to wait for.
pub(crate) fn note_transaction(handle: &Handle<'_>, inode: &Inode, data: bool) {
    let info = inode.data();
    let tid = handle.tid().to_raw();
    info.sync_tid.store(tid, Relaxed);
    if data {
        info.datasync_tid.store(tid, Relaxed);
    }
}

/// The VFS changed an attribute, such as a time, and wants it kept.
pub(crate) fn dirty_inode(inode: &Inode) {
    let sb = inode.super_block();
    let result = journal::start(sb, CREDITS_DIRTY, journal::Kind::Inode).and_then(|handle| {
        mark_dirty(&handle, inode)?;
        handle.stop()
    });
    if let Err(e) = result {
        // The change stays in memory; who asked for it cannot be told.
        if !sb.data().is_stopped() {
            report::warning(
                sb,
                "dirty_inode",
                fmt!("inode #{}: not written: {:?}", inode.ino(), e),
            );
        }
    }
}

/// Writes an inode: its place in the table was changed under a handle, so for `sync` it is that
/// transaction which must be on disk.
pub(crate) fn write_inode(inode: &Inode, sync: bool) -> Result {
    if !sync {
        return Ok(());
    }
    journal::commit(inode.super_block(), inode.data().sync_tid.load(Relaxed))
}

/// Whether the inode has an extent tree.
pub(crate) fn has_extents(inode: &Inode) -> bool {
    inode.is_reg() || inode.is_dir() || (inode.is_symlink() && !is_fast_symlink(inode))
}

/// Whether a symlink's target is in the inode.
pub(crate) fn is_fast_symlink(inode: &Inode) -> bool {
    inode.data().fast_link.load(Relaxed)
}

/// Whether the fields of an inode that is being read say that it is a fast symlink.
fn looks_like_fast_symlink(inode: &Inode) -> bool {
    let geo = &inode.super_block().data().geo;
    let ea_inode = inode
        .super_block()
        .data()
        .disk
        .incompat
        .has(ext4rs_layout::Incompat::EA_INODE);
    to_disk(inode).is_fast_symlink(ea_inode, geo.block_size)
}

/// Whether the file's data would have to go through the journal, which is not built.
pub(crate) fn is_data_journalled(inode: &Inode) -> bool {
    flags(inode) & FL_JOURNAL_DATA != 0
}

fn device_of(inode: &Inode) -> (u32, u32) {
    to_disk(inode).device()
}

/// A device number as the kernel keeps it in memory (`MKDEV`).
fn kernel_device(major: u32, minor: u32) -> u32 {
    ((major & 0xfff) << 20) | (minor & 0xf_ffff)
}

/// The `S_*` flags that follow from the inode's own.
fn attribute_flags(flags: u32) -> AttributeFlags {
    AttributeFlags {
        sync: flags & FL_SYNC != 0,
        append: flags & FL_APPEND != 0,
        immutable: flags & FL_IMMUTABLE != 0,
        noatime: flags & FL_NOATIME != 0,
        dirsync: flags & FL_DIRSYNC != 0,
    }
}

fn to_timespec(t: Time) -> Timespec {
    Timespec {
        sec: t.sec,
        nsec: t.nsec,
    }
}

fn to_time(t: Timespec) -> Time {
    Time {
        sec: t.sec,
        nsec: t.nsec,
    }
}
