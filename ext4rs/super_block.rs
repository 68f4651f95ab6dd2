// SPDX-License-Identifier: GPL-2.0

//! The superblock on disk: what of it changes while the volume is mounted, and writing it.
//!
//! The primary superblock is written directly, past the journal: what changes in it here (state,
//! features, times, counts, error records) is either checked or recomputed on the next mount. What
//! must change with something else goes through the journal: the head of the list of orphans
//! ([`crate::orphan`]), and the feature that large files need. A write past the journal while a
//! transaction runs, which only an error makes, takes the head along as it is in memory.
//!
//! Source of the fields: `struct ext4_super_block`; of the order of writes: `ext4_setup_super`,
//! `ext4_put_super`, `ext4_update_super`.

use crate::{
    journal::{self, Handle},
    orphan, report,
    volume::{Ext4, Sb},
};
use ext4rs_layout::{
    superblock::STATE_ERROR, Compat, Incompat, RoCompat, SuperBlock as DiskSuper, SuperBlockMut,
};
use ext4rs_vfs::{
    buffer_head::{BufferHead, Durability},
    fs::{now_seconds, File},
    log::Level,
};
use kernel::{prelude::*, sync::atomic::ordering};

/// Bytes of `s_last_mounted`.
const LAST_MOUNTED_LEN: usize = 64;

/// What of the superblock on disk the mount has changed.
pub(crate) struct Mutable {
    /// `STATE_*` as found at mount, to be restored at a clean end.
    pub(crate) state: u16,
    /// The incompatible features now.
    pub(crate) incompat: Incompat,
    /// The read-only compatible features now.
    pub(crate) ro_compat: RoCompat,
    /// Mounts since the last check.
    pub(crate) mnt_count: u16,
    /// Mounts after which a check is wanted.
    pub(crate) max_mnt_count: i16,
    /// When the volume was mounted read-write last, in seconds.
    pub(crate) mtime: u64,
    /// Errors recorded on disk.
    pub(crate) error_count: u32,
    /// A first error is recorded on disk.
    pub(crate) has_first_error: bool,
    /// Where the volume is mounted, filled up with zeros, once a file was opened on it.
    pub(crate) mount_point: Option<[u8; LAST_MOUNTED_LEN]>,
    /// The volume is mounted for writing, and the disk says so.
    pub(crate) writing: bool,
}

impl Mutable {
    /// What `disk` says.
    pub(crate) fn new(disk: &DiskSuper) -> Self {
        Self {
            state: disk.state,
            incompat: disk.incompat,
            ro_compat: disk.ro_compat,
            mnt_count: disk.mnt_count,
            max_mnt_count: disk.max_mnt_count,
            mtime: disk.mtime,
            error_count: disk.error_count,
            has_first_error: disk.first_error.time != 0,
            mount_point: None,
            writing: false,
        }
    }
}

/// Changes what the superblock says of the volume's state, and writes it.
///
/// # Errors
///
/// As [`commit`]. What memory says is as it was: a later write must not tell the disk what the caller
/// was refused.
fn update(sb: &Sb, change: impl FnOnce(&mut Mutable)) -> Result {
    let vol = sb.data();
    let before = {
        let mut m = vol.super_lock.lock();
        let before = (m.incompat, m.ro_compat, m.writing);
        change(&mut m);
        before
    };
    commit(sb).inspect_err(|_| {
        let mut m = vol.super_lock.lock();
        (m.incompat, m.ro_compat, m.writing) = before;
    })
}

/// The volume is going to be changed: says so on disk, before the first handle. If it did not, the
/// journal of a crashed volume would be wiped on its next mount instead of replayed.
pub(crate) fn begin_writing(sb: &Sb) -> Result {
    let orphan_file = sb.data().disk.compat.has(Compat::ORPHAN_FILE);
    update(sb, |m| {
        m.mnt_count = m.mnt_count.saturating_add(1);
        if m.max_mnt_count == 0 {
            // EXT4_DFL_MAX_MNT_COUNT
            m.max_mnt_count = 20;
        }
        m.mtime = now_seconds();
        m.writing = true;
        m.incompat = m.incompat.with(Incompat::RECOVER);
        if orphan_file {
            m.ro_compat = m.ro_compat.with(RoCompat::ORPHAN_PRESENT);
        }
    })
}

/// Orphans are going to be processed on a volume that is mounted read-only: says so on disk, before
/// the first handle, as [`begin_writing`] does. Ends with [`end_writing`].
pub(crate) fn begin_cleaning(sb: &Sb) -> Result {
    update(sb, |m| m.incompat = m.incompat.with(Incompat::RECOVER))
}

/// Reads the superblock anew after the journal was replayed, which may have changed it: the list of
/// orphans goes through the journal. An error that was recorded after the transaction that is
/// replayed is kept (as `ext4_load_journal` does).
pub(crate) fn reload(sb: &Sb) -> Result {
    let vol = sb.data();
    let offset = vol.geo.sb_offset();
    let disk = vol
        .super_block
        .read(|block| DiskSuper::decode(block.get(offset..).unwrap_or(&[])))
        .map_err(|e| report::from_layout(sb, "reload", None, None, e))?;
    if disk.geometry().ok() != Some(vol.geo) {
        return Err(report::corrupt(
            sb,
            "reload",
            None,
            None,
            fmt!("the journal held another geometry than the superblock"),
        ));
    }
    let before = &vol.disk;
    {
        let mut m = vol.super_lock.lock();
        *m = Mutable::new(&disk);
        m.state |= before.state & STATE_ERROR;
        m.error_count = before.error_count;
        m.has_first_error = before.first_error.time != 0;
        if m.state & STATE_ERROR != 0 {
            vol.errors.found.store(true, ordering::Relaxed);
        }
    }
    if disk.error_count == before.error_count || sb.is_device_read_only() {
        return Ok(());
    }
    {
        let mut new = vol.errors.new.lock();
        new.first = Some(before.first_error).filter(|e| e.time != 0);
        new.last = Some(before.last_error).filter(|e| e.time != 0);
    }
    vol.super_lock.lock().has_first_error = false;
    commit(sb)
}

/// A file is opened: remembers where the volume is mounted, once, for whoever sorts through many
/// volumes later (`ext4_sample_last_mounted`). The superblock's next write takes it along.
pub(crate) fn note_mount_point(sb: &Sb, file: &File<Ext4>) {
    let vol = sb.data();
    if vol.mount_point_noted.load(ordering::Relaxed) || sb.is_read_only() {
        return;
    }
    vol.mount_point_noted.store(true, ordering::Relaxed);
    let mut buf = [0u8; LAST_MOUNTED_LEN];
    let Some(path) = file.mount_point(&mut buf) else {
        return;
    };
    let mut field = [0u8; LAST_MOUNTED_LEN];
    for (to, from) in field.iter_mut().zip(path) {
        *to = *from;
    }
    vol.super_lock.lock().mount_point = Some(field);
}

/// The log is empty, but the volume is not one that was left in order: orphans may be there.
pub(crate) fn log_emptied(sb: &Sb) -> Result {
    update(sb, |m| m.incompat = m.incompat.without(Incompat::RECOVER))
}

/// A file of more than 2 GiB comes into being: says so in the same handle, as older readers have to
/// know. Takes a credit.
pub(crate) fn note_large_file(handle: &Handle<'_>) -> Result {
    let sb = handle.super_block();
    let vol = sb.data();
    {
        let mut m = vol.super_lock.lock();
        if m.ro_compat.has(RoCompat::LARGE_FILE) {
            return Ok(());
        }
        m.ro_compat = m.ro_compat.with(RoCompat::LARGE_FILE);
    }
    let offset = vol.geo.sb_offset();
    let done = handle.modify(&vol.super_block, |block| {
        let bytes = block.get_mut(offset..).unwrap_or(&mut []);
        let mut disk = SuperBlockMut::new(bytes)?;
        // Only this: the handle does not hold the lock of the rest.
        disk.add_ro_compat(RoCompat::LARGE_FILE);
        disk.update_checksum();
        Ok(())
    })?;
    done.map_err(|e| report::from_layout(sb, "large_file", None, None, e))
}

/// An extended attribute comes into being: says so, if no volume-maker has, by `handle`. Costs a
/// credit the first time.
pub(crate) fn note_ext_attr(handle: &Handle<'_>) -> Result {
    let sb = handle.super_block();
    let vol = sb.data();
    if vol.disk.compat.has(Compat::EXT_ATTR) {
        return Ok(());
    }
    let offset = vol.geo.sb_offset();
    let known = vol.super_block.read(|block| {
        DiskSuper::decode(block.get(offset..).unwrap_or(&[]))
            .is_ok_and(|disk| disk.compat.has(Compat::EXT_ATTR))
    });
    if known {
        return Ok(());
    }
    let done = handle.modify(&vol.super_block, |block| {
        let bytes = block.get_mut(offset..).unwrap_or(&mut []);
        let mut disk = SuperBlockMut::new(bytes)?;
        disk.add_compat(Compat::EXT_ATTR);
        disk.update_checksum();
        Ok(())
    })?;
    done.map_err(|e| report::from_layout(sb, "ext_attr", None, None, e))
}

/// The volume's label, filled up with zeros.
pub(crate) fn label(sb: &Sb) -> Result<[u8; 16]> {
    let vol = sb.data();
    let offset = vol.geo.sb_offset();
    vol.super_block
        .read(|block| DiskSuper::decode(block.get(offset..).unwrap_or(&[])))
        .map(|disk| disk.label)
        .map_err(|e| report::from_layout(sb, "label", None, None, e))
}

/// Gives the volume a label, in its superblock and in the copies of that.
///
/// # Errors
///
/// As [`journal::start`]. A copy that is damaged is left alone.
pub(crate) fn set_label(sb: &Sb, label: &[u8; 16]) -> Result {
    let vol = sb.data();
    let geo = &vol.geo;
    put_label(sb, &vol.super_block, geo.sb_offset(), label)?;
    for group in (1..geo.groups_count).filter(|&group| geo.has_super(group)) {
        let copy = sb.bread(geo.group_first_block(group))?;
        put_label(sb, &copy, 0, label)?;
    }
    Ok(())
}

/// Puts the label into the superblock that is `offset` bytes into a block, in a handle of its own.
fn put_label(sb: &Sb, bh: &BufferHead, offset: usize, label: &[u8; 16]) -> Result {
    let is_whole = bh.read(|block| {
        let bytes = block.get(offset..).unwrap_or(&[]);
        DiskSuper::decode(bytes).is_ok_and(|disk| disk.verify_checksum(bytes).is_ok())
    });
    if !is_whole {
        report::message(
            sb,
            Level::Err,
            fmt!("Invalid checksum for backup superblock {}", bh.block()),
        );
        return Ok(());
    }
    let handle = journal::start(sb, 1, journal::Kind::Misc)?;
    let done = handle.modify(bh, |block| {
        let bytes = block.get_mut(offset..).unwrap_or(&mut []);
        let mut disk = SuperBlockMut::new(bytes)?;
        disk.set_label(label);
        disk.update_checksum();
        Ok(())
    })?;
    done.map_err(|e| report::from_layout(sb, "set_label", None, Some(bh.block()), e))?;
    handle.stop()
}

/// The journal is empty: the volume needs no recovery, and unless an inode is in the orphan file
/// nobody need look there.
pub(crate) fn end_writing(sb: &Sb) -> Result {
    let no_orphans = orphan::is_file_empty(sb);
    update(sb, |m| {
        m.writing = false;
        m.incompat = m.incompat.without(Incompat::RECOVER);
        if no_orphans {
            m.ro_compat = m.ro_compat.without(RoCompat::ORPHAN_PRESENT);
        }
    })
}

/// The journal may be used again: the volume is thawed, or [`end_writing`] failed. If that cannot be
/// said on disk the volume stops, for what would be logged from now on might never be replayed.
/// Waiters are let go in any case.
pub(crate) fn resume_writing(sb: &Sb) {
    let orphan_file = sb.data().disk.compat.has(Compat::ORPHAN_FILE);
    let result = update(sb, |m| {
        m.writing = true;
        m.incompat = m.incompat.with(Incompat::RECOVER);
        if orphan_file {
            m.ro_compat = m.ro_compat.with(RoCompat::ORPHAN_PRESENT);
        }
    });
    if let Err(e) = result {
        report::abort(
            sb,
            "resume_writing",
            e,
            fmt!("unable to say that the journal is in use"),
        );
    }
}

/// Writes the superblock, with all that was changed and counted, to stable storage.
///
/// # Errors
///
/// `EIO` if the write failed, `EROFS` if the device refuses writes.
pub(crate) fn commit(sb: &Sb) -> Result {
    let vol = sb.data();
    let durability = if vol.options.lock().barrier {
        Durability::FlushFua
    } else {
        Durability::Cached
    };
    let (free_blocks, free_inodes) = {
        let space = vol.space.lock();
        (space.free, space.free_inodes)
    };
    let offset = vol.geo.sb_offset();
    let kbytes = vol.kbytes_written(sb);
    let mut m = vol.super_lock.lock();
    let new = core::mem::take(&mut *vol.errors.new.lock());
    if vol.errors.found.load(ordering::Relaxed) {
        m.state |= STATE_ERROR;
    }
    m.error_count = m.error_count.saturating_add(new.count);
    let first = new.first.filter(|_| !m.has_first_error);
    m.has_first_error |= first.is_some();
    vol.super_block.write_through(durability, |block| {
        let bytes = block.get_mut(offset..).ok_or(EINVAL)?;
        let mut disk = SuperBlockMut::new(bytes).map_err(|_| EINVAL)?;
        disk.set_state(m.state);
        disk.set_incompat(m.incompat);
        disk.set_ro_compat(m.ro_compat);
        disk.set_mnt_count(m.mnt_count);
        disk.set_max_mnt_count(m.max_mnt_count);
        disk.set_mtime(m.mtime);
        disk.set_wtime(now_seconds());
        if let Some(path) = &m.mount_point {
            disk.set_last_mounted(path);
        }
        disk.set_free_blocks(free_blocks);
        disk.set_free_inodes(u32::try_from(free_inodes).unwrap_or(u32::MAX));
        disk.set_kbytes_written(kbytes);
        disk.set_error_count(m.error_count);
        if let Some(e) = &first {
            disk.set_first_error(e);
        }
        if let Some(e) = &new.last {
            disk.set_last_error(e);
        }
        disk.update_checksum();
        Ok::<(), Error>(())
    })??;
    Ok(())
}
