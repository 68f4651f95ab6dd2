// SPDX-License-Identifier: GPL-2.0

//! Mount, remount, sync, freeze and unmount.
//!
//! The order of things at a mount: superblock, features, descriptor table; then, with inodes to be
//! had, the journal (replayed if need be), the descriptors' checks, the orphans, the root. On disk
//! `needs_recovery` is set and flushed before the first handle, and cleared after the journal is
//! gone.

use crate::{
    alloc, file, inode,
    inode::{Inode, InodeInfo},
    journal, map,
    options::{self, Context},
    orphan,
    report::{self, Shown},
    shutdown, super_block,
    volume::{Ext4, Sb, Volume},
    writeback, xattr,
};
use ext4rs_layout::{
    inode as disk_inode,
    superblock::{OFFSET, SIZE, STATE_ERROR, STATE_VALID},
    Compat, Geometry, Incompat, RoCompat, SuperBlock as DiskSuper,
};
use ext4rs_vfs::{
    fs::{
        now_seconds, Attr, Dentry, File, FileAttr, FileSystem, IdMap, KStat, Limits, NewSuperBlock,
        PosixAcl, StatFs, XattrFlags, XattrNames, XattrSpace,
    },
    log::{self, Level},
};
use kernel::{
    fmt::Arguments,
    prelude::*,
    seq_file::SeqFile,
    sync::{aref::ARef, atomic::ordering::Relaxed},
    uaccess::UserPtr,
};

/// Incompatible features that a mount may have.
const INCOMPAT_BUILT: Incompat = Incompat(
    Incompat::FILETYPE.0
        | Incompat::RECOVER.0
        | Incompat::META_BG.0
        | Incompat::EXTENTS.0
        | Incompat::SIXTY_FOUR_BIT.0
        | Incompat::FLEX_BG.0
        | Incompat::CSUM_SEED.0
        | Incompat::LARGEDIR.0
        | Incompat::EA_INODE.0,
);

/// Read-only compatible features that a read-write mount may have.
const RO_COMPAT_BUILT: RoCompat = RoCompat(
    RoCompat::SPARSE_SUPER.0
        | RoCompat::LARGE_FILE.0
        | RoCompat::HUGE_FILE.0
        | RoCompat::GDT_CSUM.0
        | RoCompat::DIR_NLINK.0
        | RoCompat::EXTRA_ISIZE.0
        | RoCompat::METADATA_CSUM.0
        | RoCompat::ORPHAN_PRESENT.0,
);

/// The inode number of the root directory (`EXT4_ROOT_INO`).
const ROOT_INO: u32 = 2;

/// Says why a volume is not mounted.
pub(crate) fn refuse(sb: &NewSuperBlock<Ext4>, why: Arguments<'_>) -> Error {
    log::print(Level::Err, fmt!("EXT4RS-fs ({}): {}", sb.id(), why));
    EINVAL
}

impl FileSystem for Ext4 {
    const NAME: &'static CStr = c"ext4rs";
    const INODE_CACHE: &'static CStr = c"ext4rs_inode_cache";
    type SuperData = Volume;
    type InodeData = InodeInfo;
    type Context = Context;

    fn new_context() -> Result<Context> {
        Ok(Context::default())
    }

    fn parse_param(ctx: &mut Context, key: &CStr, value: Option<&CStr>) -> Result {
        ctx.parse(key, value)
    }

    fn fill_super(sb: &NewSuperBlock<Self>, ctx: &mut Context) -> Result<Pin<KBox<Volume>>> {
        let (disk, geo) = read_superblock(sb)?;
        check_features(sb, &disk)?;
        check_size(sb, &geo)?;
        sb.set_block_size(geo.block_size)
            .map_err(|_| refuse(sb, fmt!("bad block size {} for the device", geo.block_size)))?;
        // The size of the buffers has changed: take the one that is used from now on.
        let bh = sb.bread(geo.sb_block())?;
        let options = ctx.for_mount(&disk)?;
        sb.set_limits(&limits(&geo), &disk.uuid);
        if options.acl {
            sb.enable_acl();
        }
        sb.enable_export();
        Volume::new(sb, disk, geo, bh, options)
    }

    fn fill_root(sb: &Sb) -> Result<ARef<Inode>> {
        let vol = sb.data();
        let replayed = load_journal(sb)?;
        // Only now is what lies on the disk what counts.
        alloc::load(sb, &journal_runs(sb)?)?;
        if replayed {
            // On a read-only mount nothing else clears the flag.
            super_block::log_emptied(sb)?;
        }
        journal::take_over_error(sb)?;
        orphan::load(sb)?;
        if !sb.is_read_only() {
            start_writing(sb)?;
        }
        clean_orphans(sb)?;
        let root = inode::iget(sb, ROOT_INO).inspect_err(|_| {
            report::message(sb, Level::Err, fmt!("get root inode failed"));
        })?;
        if !root.is_dir() || root.sectors() == 0 || root.size() == 0 {
            report::message(sb, Level::Err, fmt!("corrupt root inode, run e2fsck"));
            return Err(EFSCORRUPTED);
        }
        writeback::register(sb)?;
        announce(sb);
        vol.announced.store(true, Relaxed);
        Ok(root)
    }

    fn reconfigure(sb: &Sb, ctx: &mut Context, read_only: bool) -> Result {
        let vol = sb.data();
        let was_read_only = sb.is_read_only();
        let old = *vol.options.lock();
        if let Some(why) = ctx.refused_by_remount(&old) {
            report::message(sb, Level::Err, fmt!("{}", why));
            return Err(EINVAL);
        }
        {
            let mut options = vol.options.lock();
            *options = ctx.for_remount(&options);
            sb.set_acl(options.acl);
        }
        journal::apply_options(sb);
        if read_only != was_read_only {
            if vol.is_stopped() {
                return Err(EROFS);
            }
            if read_only {
                stop_writing(sb)?;
            } else {
                if let Some(word) = unbuilt_ro_compat(&vol.disk) {
                    report::message(
                        sb,
                        Level::Err,
                        fmt!(
                            "couldn't remount RDWR because of unsupported features ({})",
                            Shown(word)
                        ),
                    );
                    return Err(EROFS);
                }
                if vol.journal.as_ref().is_none() {
                    report::message(sb, Level::Err, fmt!("can't remount RDWR with noload"));
                    return Err(EROFS);
                }
                if orphan::present(sb) {
                    report::message(
                        sb,
                        Level::Warning,
                        fmt!("Couldn't remount RDWR because of unprocessed orphan inode list"),
                    );
                    return Err(EINVAL);
                }
                start_writing(sb)?;
            }
        }
        let change = match (was_read_only, read_only) {
            (false, true) => " ro",
            (true, false) => " r/w",
            _ => "",
        };
        report::message(
            sb,
            Level::Info,
            fmt!("re-mounted {}{}.", Uuid(&vol.disk.uuid), change),
        );
        Ok(())
    }

    fn put_super(sb: &Sb) {
        let vol = sb.data();
        writeback::unregister(sb);
        if vol.announced.load(Relaxed) {
            report::message(
                sb,
                Level::Info,
                fmt!("unmounting filesystem {}.", Uuid(&vol.disk.uuid)),
            );
        }
        writeback::drain(sb);
        let mut clean = !vol.is_stopped();
        if let Some(journal) = vol.journal.as_ref() {
            let aborted = journal.is_aborted();
            if let Err(e) = journal.destroy() {
                if !aborted {
                    report::abort(sb, "put_super", e, fmt!("Couldn't clean up the journal"));
                }
                clean = false;
            }
            clean &= !aborted;
        }
        let writing = vol.super_lock.lock().writing;
        if writing && !vol.is_stopped() {
            let written = if clean {
                super_block::end_writing(sb)
            } else {
                super_block::commit(sb)
            };
            if written.is_err() {
                report::message(sb, Level::Err, fmt!("I/O error while writing superblock"));
            }
        }
    }

    fn sync_fs(sb: &Sb, wait: bool) -> Result {
        sb.data().check_running()?;
        writeback::drain(sb);
        journal::sync(sb, wait)
    }

    fn freeze_fs(sb: &Sb) -> Result {
        if sb.is_read_only() {
            return Ok(());
        }
        empty_log(sb)
    }

    fn unfreeze_fs(sb: &Sb) -> Result {
        if !sb.is_read_only() && !sb.data().is_stopped() {
            super_block::resume_writing(sb);
        }
        Ok(())
    }

    fn shutdown(sb: &Sb) {
        // At once, there is nothing that can fail.
        let _ = shutdown::shut_down(sb, shutdown::How::AtOnce);
    }

    fn ioctl(file: &File<Self>, command: u32, argument: UserPtr) -> Result {
        file::ioctl::run(file, command, argument)
    }

    fn statfs(sb: &Sb) -> Result<StatFs> {
        alloc::statfs(sb)
    }

    fn show_options(sb: &Sb, out: &SeqFile) {
        options::show(sb, out);
    }

    fn inode_data() -> impl PinInit<InodeInfo, Error> {
        InodeInfo::new()
    }

    fn write_inode(inode: &Inode, sync: bool) -> Result {
        inode::write_inode(inode, sync)
    }

    fn dirty_inode(inode: &Inode) {
        inode::dirty_inode(inode);
    }

    fn evict_inode(inode: &Inode) {
        inode::evict(inode);
    }

    fn get_xattr(inode: &Inode, space: XattrSpace, name: &[u8]) -> Result<Option<KVec<u8>>> {
        inode.super_block().data().check_readable()?;
        xattr::get(inode, xattr::index_of(space), name)
    }

    fn set_xattr(
        inode: &Inode,
        space: XattrSpace,
        name: &[u8],
        value: Option<&[u8]>,
        flags: XattrFlags,
    ) -> Result {
        xattr::set(inode, xattr::index_of(space), name, value, flags)
    }

    fn list_xattrs(inode: &Inode, names: &mut XattrNames<'_>) -> Result {
        xattr::list(inode, names)
    }

    fn get_acl(inode: &Inode, default: bool) -> Result<Option<PosixAcl>> {
        xattr::get_acl(inode, default)
    }

    fn set_acl(inode: &Inode, idmap: &IdMap, acl: Option<PosixAcl>, default: bool) -> Result {
        xattr::set_acl(inode, idmap, acl, default)
    }

    fn getattr(inode: &Inode, stat: &mut KStat) {
        inode::attr::get(inode, stat);
    }

    fn setattr(inode: &Inode, idmap: &IdMap, dentry: &Dentry<Self>, attr: &mut Attr) -> Result {
        inode::attr::set(inode, idmap, dentry, attr)
    }

    fn fileattr_get(inode: &Inode) -> FileAttr {
        inode::attr::flags(inode)
    }

    fn fileattr_set(inode: &Inode, attr: FileAttr) -> Result {
        inode::attr::set_flags(inode, attr)
    }
}

/// Finds and checks the primary superblock. Leaves some block size set.
fn read_superblock(sb: &NewSuperBlock<Ext4>) -> Result<(DiskSuper, Geometry)> {
    // The superblock is 1024 bytes into the device, whatever the block size: the smallest that the
    // device takes will do.
    let size = [1024u32, 2048, 4096]
        .into_iter()
        .find(|&size| sb.set_block_size(size).is_ok())
        .ok_or_else(|| refuse(sb, fmt!("unable to set blocksize")))?;
    let size = u64::from(size);
    let bh = sb.bread(OFFSET / size).inspect_err(|_| {
        refuse(sb, fmt!("unable to read superblock"));
    })?;
    let at = usize::try_from(OFFSET % size)?;
    let mut bytes = KVec::from_elem(0u8, SIZE, GFP_KERNEL)?;
    bh.read(|block| {
        let part = block.get(at..).and_then(|b| b.get(..SIZE)).ok_or(EIO)?;
        bytes.copy_from_slice(part);
        Ok::<(), Error>(())
    })?;
    let disk = DiskSuper::decode(&bytes).map_err(|e| refuse(sb, fmt!("{}", Shown(e))))?;
    disk.verify_checksum(&bytes).map_err(|e| {
        refuse(sb, fmt!("{}", Shown(e)));
        EFSBADCRC
    })?;
    let geo = disk
        .geometry()
        .map_err(|e| refuse(sb, fmt!("{}", Shown(e))))?;
    Ok((disk, geo))
}

/// The read-only compatible features that stand in the way of writing.
fn unbuilt_ro_compat(disk: &DiskSuper) -> Option<RoCompat> {
    let word = disk.ro_compat.without(RO_COMPAT_BUILT);
    (!word.is_empty()).then_some(word)
}

/// Refuses, by name, what is not built: whole mounts for incompatible features, writing for
/// read-only compatible ones.
fn check_features(sb: &NewSuperBlock<Ext4>, disk: &DiskSuper) -> Result {
    let unknown = disk.incompat.without(INCOMPAT_BUILT);
    if !unknown.is_empty() {
        return Err(refuse(
            sb,
            fmt!(
                "couldn't mount because of unsupported optional features ({})",
                Shown(unknown)
            ),
        ));
    }
    if !disk.incompat.has(Incompat::EXTENTS) {
        return Err(refuse(
            sb,
            fmt!("volumes without the extent feature are not built yet"),
        ));
    }
    if !disk.compat.has(Compat::HAS_JOURNAL) {
        return Err(refuse(
            sb,
            fmt!("volumes without a journal (has_journal) are not built yet"),
        ));
    }
    if disk.journal_inum == 0 || disk.journal_dev != 0 {
        return Err(refuse(sb, fmt!("external journals are not built yet")));
    }
    if disk.ro_compat.has(RoCompat::BIGALLOC) {
        return Err(refuse(sb, fmt!("bigalloc is not built yet")));
    }
    if sb.is_read_only() {
        return Ok(());
    }
    if sb.is_device_read_only() {
        log::print(
            Level::Err,
            fmt!(
                "EXT4RS-fs ({}): write access unavailable, mount read-only",
                sb.id()
            ),
        );
        return Err(EROFS);
    }
    if let Some(word) = unbuilt_ro_compat(disk) {
        return Err(refuse(
            sb,
            fmt!(
                "couldn't mount RDWR because of unsupported optional features ({})",
                Shown(word)
            ),
        ));
    }
    Ok(())
}

/// The volume must fit its device.
fn check_size(sb: &NewSuperBlock<Ext4>, geo: &Geometry) -> Result {
    let device = sb.device_bytes() >> geo.block_bits;
    if geo.blocks_count > device {
        return Err(refuse(
            sb,
            fmt!(
                "bad geometry: block count {} exceeds size of device ({} blocks)",
                geo.blocks_count,
                device
            ),
        ));
    }
    Ok(())
}

fn limits(geo: &Geometry) -> Limits {
    // Times of inodes of 128 bytes are whole 32-bit seconds.
    let wide = geo.inode_size > 128;
    let time_max = if wide {
        disk_inode::TIME_MAX
    } else {
        disk_inode::TIME_MAX_OLD
    };
    Limits {
        magic: 0xef53,
        max_bytes: geo.max_file_size(),
        // The directory's own rules say it: with dir_nlink there is no end for an indexed one.
        max_links: 0,
        time_granularity: if wide { 1 } else { 1_000_000_000 },
        time_min: disk_inode::TIME_MIN,
        time_max,
    }
}

/// Opens and, if need be, replays the journal. Returns whether it was replayed.
fn load_journal(sb: &Sb) -> Result<bool> {
    let vol = sb.data();
    let needs_recovery = vol.disk.incompat.has(Incompat::RECOVER);
    if vol.options.lock().noload {
        if !sb.is_read_only() {
            report::message(sb, Level::Err, fmt!("noload needs a read-only mount"));
            return Err(EROFS);
        }
        if needs_recovery {
            report::message(sb, Level::Warning, fmt!("journal left unreplayed (noload)"));
        }
        return Ok(false);
    }
    if needs_recovery && sb.is_read_only() {
        report::message(
            sb,
            Level::Info,
            fmt!("INFO: recovery required on readonly filesystem"),
        );
        if sb.is_device_read_only() {
            report::message(
                sb,
                Level::Err,
                fmt!("write access unavailable, cannot proceed (try mounting with noload)"),
            );
            return Err(EROFS);
        }
        report::message(
            sb,
            Level::Info,
            fmt!("write access will be enabled during recovery"),
        );
    }
    journal::load(sb, needs_recovery)?;
    if needs_recovery {
        report::message(sb, Level::Info, fmt!("recovery complete"));
        super_block::reload(sb)?;
    }
    Ok(needs_recovery)
}

/// The blocks that hold the journal, as runs of first block and number.
fn journal_runs(sb: &Sb) -> Result<KVec<(u64, u32)>> {
    let vol = sb.data();
    let inode = inode::iget_internal(sb, vol.disk.journal_inum)?;
    let end = u32::try_from(inode.size() >> vol.geo.block_bits)?;
    let mut runs = KVec::new();
    let mut at = 0;
    while at < end {
        let extent = map::lookup(&inode, at, end.saturating_sub(at))?;
        if let map::Kind::Written(block) = extent.kind {
            runs.push((block, extent.len), GFP_KERNEL)?;
        }
        at = at.saturating_add(extent.len.max(1));
    }
    Ok(runs)
}

/// Deletes and truncates what an older life of the volume left to be (`ext4_orphan_cleanup`), on a
/// read-only mount too.
fn clean_orphans(sb: &Sb) -> Result {
    let vol = sb.data();
    if !orphan::present(sb) {
        return Ok(());
    }
    if sb.is_device_read_only() || vol.journal.as_ref().is_none() {
        report::message(
            sb,
            Level::Err,
            fmt!("write access unavailable, skipping orphan cleanup"),
        );
        return Ok(());
    }
    if unbuilt_ro_compat(&vol.disk).is_some() {
        report::message(
            sb,
            Level::Info,
            fmt!("Skipping orphan cleanup due to unknown ROCOMPAT features"),
        );
        return Ok(());
    }
    if vol.errors.found.load(Relaxed) {
        report::message(
            sb,
            Level::Info,
            fmt!("Errors on filesystem, skipping orphan cleanup."),
        );
        return Ok(());
    }
    if !sb.is_read_only() {
        if let Err(e) = orphan::clean(sb) {
            report::message(
                sb,
                Level::Warning,
                fmt!(
                    "orphan inodes of a kind that is not built yet ({:?}): mounting read-only",
                    e
                ),
            );
            stop_writing(sb)?;
            sb.set_read_only();
        }
        return Ok(());
    }
    report::message(sb, Level::Info, fmt!("orphan cleanup on readonly fs"));
    super_block::begin_cleaning(sb)?;
    vol.cleaning.store(true, Relaxed);
    let cleaned = orphan::clean(sb);
    writeback::drain(sb);
    vol.cleaning.store(false, Relaxed);
    if let Err(e) = cleaned {
        report::message(
            sb,
            Level::Warning,
            fmt!(
                "orphan inodes of a kind that is not built yet ({:?}) are left",
                e
            ),
        );
    }
    if vol.is_stopped() {
        return Ok(());
    }
    journal::checkpoint(sb)?;
    super_block::end_writing(sb)
}

/// The volume becomes writable: says so on disk, before the first handle.
fn start_writing(sb: &Sb) -> Result {
    warn_unchecked(sb);
    super_block::begin_writing(sb)
}

/// The volume stops being writable, cleanly.
fn stop_writing(sb: &Sb) -> Result {
    writeback::drain(sb);
    if sb.data().is_stopped() {
        return Ok(());
    }
    empty_log(sb)
}

/// Brings the volume into a state that needs no recovery, and says so on disk. If that fails the
/// volume goes on being written to, as the disk then says again.
fn empty_log(sb: &Sb) -> Result {
    journal::checkpoint(sb)?;
    match super_block::end_writing(sb) {
        // The device has become read-only. What the disk says is no harm: the log is empty.
        Err(e) if e == EROFS => Ok(()),
        result => result.inspect_err(|_| super_block::resume_writing(sb)),
    }
}

fn warn_unchecked(sb: &Sb) {
    let disk = &sb.data().disk;
    let overdue = disk.checkinterval != 0
        && disk.lastcheck.saturating_add(disk.checkinterval.into()) <= now_seconds();
    let too_many =
        u16::try_from(disk.max_mnt_count).is_ok_and(|max| max > 0 && disk.mnt_count >= max);
    let what = if disk.state & STATE_VALID == 0 {
        "mounting unchecked fs"
    } else if disk.state & STATE_ERROR != 0 {
        "mounting fs with errors"
    } else if too_many {
        "maximal mount count reached"
    } else if overdue {
        "checktime reached"
    } else {
        return;
    };
    report::message(
        sb,
        Level::Warning,
        fmt!("warning: {}, running e2fsck is recommended", what),
    );
}

fn announce(sb: &Sb) {
    let mode = if sb.is_read_only() { "ro" } else { "r/w" };
    let journal = if sb.data().journal.as_ref().is_some() {
        " ordered data mode"
    } else {
        "out journal"
    };
    report::message(
        sb,
        Level::Info,
        fmt!(
            "mounted filesystem {} {} with{}.",
            Uuid(&sb.data().disk.uuid),
            mode,
            journal
        ),
    );
}

/// Prints a UUID in the usual form.
struct Uuid<'a>(&'a [u8; 16]);

impl kernel::fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
