// SPDX-License-Identifier: GPL-2.0

//! Mount options, with ext4's names.

use crate::{map::Fresh, volume::Sb};
use ext4rs_layout::superblock;
use ext4rs_vfs::log::{self, Level};
use kernel::{prelude::*, seq_file::SeqFile, seq_print, sync::atomic::ordering::Relaxed};

/// What to do when an error is found (`errors=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// Go on.
    Continue,
    /// Take no more changes.
    ReadOnly,
    /// Stop the machine.
    Panic,
}

impl From<superblock::OnError> for OnError {
    fn from(e: superblock::OnError) -> Self {
        match e {
            superblock::OnError::Continue => OnError::Continue,
            superblock::OnError::ReadOnly => OnError::ReadOnly,
            superblock::OnError::Panic => OnError::Panic,
        }
    }
}

/// What is known of a file's data when its metadata is committed (`data=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataMode {
    /// The data of blocks that were allocated is on disk.
    Ordered,
    /// Nothing.
    Writeback,
}

/// Seconds between commits (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
const DEFAULT_COMMIT_SECONDS: u32 = 5;

/// The options in force on a volume.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// `errors=`
    pub(crate) errors: OnError,
    /// `barrier`: flush the device's cache where order matters.
    pub(crate) barrier: bool,
    /// `commit=`, in seconds.
    pub(crate) commit_seconds: u32,
    /// `acl`: obey ACLs.
    pub(crate) acl: bool,
    /// `minixdf`: `statfs` counts the filesystem's own metadata as blocks too.
    pub(crate) minixdf: bool,
    /// `noload`: leave the journal alone. Only for a read-only mount.
    pub(crate) noload: bool,
    /// `auto_da_alloc`: a file that replaces another, or its own old content, is soon on disk.
    pub(crate) auto_da_alloc: bool,
    /// `delalloc`: blocks are allocated at write-back, not when the write call ends.
    pub(crate) delalloc: bool,
    /// `dioread_nolock`: blocks are unwritten until their data is on disk.
    pub(crate) dioread_nolock: bool,
    /// `data=`, for blocks that are written from the beginning. Not changed by a remount.
    pub(crate) data: DataMode,
}

impl Options {
    /// What blocks are on disk when they have just been allocated for a file's data.
    pub(crate) fn fresh(&self) -> Fresh {
        match (self.dioread_nolock, self.data) {
            (true, _) => Fresh::Unwritten,
            (false, DataMode::Ordered) => Fresh::Ordered,
            (false, DataMode::Writeback) => Fresh::Written,
        }
    }
}

/// Options as given by the user: what was not given stays as it is, or as the superblock says.
#[derive(Default)]
pub(crate) struct Context {
    errors: Option<OnError>,
    barrier: Option<bool>,
    commit_seconds: Option<u32>,
    acl: Option<bool>,
    minixdf: Option<bool>,
    noload: Option<bool>,
    auto_da_alloc: Option<bool>,
    delalloc: Option<bool>,
    dioread_nolock: Option<bool>,
    data: Option<DataMode>,
}

/// Options of ext4 that ask for what ext4rs does anyway.
const ACCEPTED: &[&[u8]] = &[
    b"nodiscard",
    b"noinit_itable",
    b"noquota",
    b"nogrpid",
    b"sysvgroups",
    b"journal_checksum",
    b"block_validity",
    b"user_xattr",
    b"nodebug",
    b"nombcache",
    b"no_mbcache",
];

/// Options of ext4 that ext4rs does not know how to honour yet.
const NOT_BUILT: &[&[u8]] = &[
    b"discard",
    b"init_itable",
    b"grpid",
    b"bsdgroups",
    b"grpquota",
    b"usrquota",
    b"prjquota",
    b"quota",
    b"grpjquota",
    b"usrjquota",
    b"jqfmt",
    b"journal_async_commit",
    b"journal_dev",
    b"journal_path",
    b"journal_ioprio",
    b"nojournal_checksum",
    b"i_version",
    b"dax",
    b"inlinecrypt",
    b"test_dummy_encryption",
    b"sb",
    b"resuid",
    b"resgid",
    b"stripe",
    b"max_batch_time",
    b"min_batch_time",
    b"max_dir_size_kb",
    b"inode_readahead_blks",
    b"mb_optimize_scan",
    b"data_err",
    b"noblock_validity",
    b"nouser_xattr",
    b"debug",
    b"debug_want_extra_isize",
    b"abort",
    b"warn_on_error",
    b"nouid32",
    b"prefetch_block_bitmaps",
    b"no_prefetch_block_bitmaps",
];

fn bad_value(key: &[u8], value: &CStr) -> Error {
    let key = core::str::from_utf8(key).unwrap_or("?");
    log::print(
        Level::Err,
        fmt!("EXT4RS-fs: bad value for option '{}': '{}'", key, value),
    );
    EINVAL
}

fn number(key: &[u8], value: &CStr) -> Result<u32> {
    value
        .to_str()
        .ok()
        .and_then(|s| s.parse::<u32>().ok())
        .ok_or_else(|| bad_value(key, value))
}

impl Context {
    /// Takes one option.
    ///
    /// # Errors
    ///
    /// `ENOPARAM` for one that is not ext4's, `EINVAL` for a bad value, `EOPNOTSUPP` for one of
    /// ext4's that is not built.
    pub(crate) fn parse(&mut self, key: &CStr, value: Option<&CStr>) -> Result {
        let name = key.to_bytes();
        match (name, value) {
            (b"errors", Some(v)) => {
                self.errors = Some(match v.to_bytes() {
                    b"continue" => OnError::Continue,
                    b"remount-ro" => OnError::ReadOnly,
                    b"panic" => OnError::Panic,
                    _ => return Err(bad_value(name, v)),
                })
            }
            (b"data", Some(v)) => match v.to_bytes() {
                b"ordered" => self.data = Some(DataMode::Ordered),
                b"writeback" => self.data = Some(DataMode::Writeback),
                b"journal" => return Err(Self::not_built(key, Some(v))),
                _ => return Err(bad_value(name, v)),
            },
            (b"barrier", None) => self.barrier = Some(true),
            (b"barrier", Some(v)) => self.barrier = Some(number(name, v)? != 0),
            (b"nobarrier", None) => self.barrier = Some(false),
            (b"commit", Some(v)) => {
                let seconds = number(name, v)?;
                // Milliseconds of this must fit the kernel's clock arithmetic.
                if seconds > (i32::MAX as u32) / 1000 {
                    return Err(bad_value(name, v));
                }
                self.commit_seconds = Some(if seconds == 0 {
                    DEFAULT_COMMIT_SECONDS
                } else {
                    seconds
                });
            }
            (b"acl", None) => self.acl = Some(true),
            (b"noacl", None) => self.acl = Some(false),
            (b"minixdf", None) => self.minixdf = Some(true),
            (b"bsddf", None) => self.minixdf = Some(false),
            (b"auto_da_alloc", None) => self.auto_da_alloc = Some(true),
            (b"auto_da_alloc", Some(v)) => self.auto_da_alloc = Some(number(name, v)? != 0),
            (b"noauto_da_alloc", None) => self.auto_da_alloc = Some(false),
            (b"delalloc", None) => self.delalloc = Some(true),
            (b"nodelalloc", None) => self.delalloc = Some(false),
            (b"dioread_nolock", None) => self.dioread_nolock = Some(true),
            (b"dioread_lock" | b"nodioread_nolock", None) => self.dioread_nolock = Some(false),
            (b"noload" | b"norecovery", None) => self.noload = Some(true),
            (name, None) if ACCEPTED.contains(&name) => {}
            (name, value) if NOT_BUILT.contains(&name) => return Err(Self::not_built(key, value)),
            _ => return Err(ENOPARAM),
        }
        Ok(())
    }

    fn not_built(key: &CStr, value: Option<&CStr>) -> Error {
        match value {
            Some(v) => log::print(
                Level::Err,
                fmt!("EXT4RS-fs: option '{}={}' is not built yet", key, v),
            ),
            None => log::print(
                Level::Err,
                fmt!("EXT4RS-fs: option '{}' is not built yet", key),
            ),
        }
        EOPNOTSUPP
    }

    /// The options of a new mount: those given over the superblock's defaults.
    pub(crate) fn for_mount(&self, disk: &superblock::SuperBlock) -> Options {
        let default = |bit: u32| disk.default_mount_opts & bit != 0;
        Options {
            errors: self.errors.unwrap_or(disk.on_error().into()),
            barrier: self.barrier.unwrap_or(!default(superblock::DEFM_NOBARRIER)),
            commit_seconds: self.commit_seconds.unwrap_or(DEFAULT_COMMIT_SECONDS),
            acl: self.acl.unwrap_or(true),
            minixdf: self.minixdf.unwrap_or(false),
            noload: self.noload.unwrap_or(false),
            auto_da_alloc: self.auto_da_alloc.unwrap_or(true),
            delalloc: self.delalloc.unwrap_or(true),
            dioread_nolock: self.dioread_nolock.unwrap_or(true),
            data: self.data.unwrap_or(DataMode::Ordered),
        }
    }

    /// What a remount asks for that only a mount can set, if it does
    /// (`ext4_check_opt_consistency`, `ext4_check_journal_data_mode`).
    pub(crate) fn refused_by_remount(&self, old: &Options) -> Option<&'static str> {
        if self.data.is_some_and(|data| data != old.data) {
            return Some("Cannot change data mode on remount");
        }
        if old.delalloc && self.delalloc == Some(false) {
            return Some("can't disable delalloc during remount");
        }
        None
    }

    /// The options after a remount: those given over those in force.
    pub(crate) fn for_remount(&self, old: &Options) -> Options {
        Options {
            errors: self.errors.unwrap_or(old.errors),
            barrier: self.barrier.unwrap_or(old.barrier),
            commit_seconds: self.commit_seconds.unwrap_or(old.commit_seconds),
            acl: self.acl.unwrap_or(old.acl),
            minixdf: self.minixdf.unwrap_or(old.minixdf),
            noload: old.noload,
            auto_da_alloc: self.auto_da_alloc.unwrap_or(old.auto_da_alloc),
            delalloc: self.delalloc.unwrap_or(old.delalloc),
            dioread_nolock: self.dioread_nolock.unwrap_or(old.dioread_nolock),
            data: old.data,
        }
    }
}

/// Prints the options that differ from the defaults, as `/proc/mounts` shows them.
pub(crate) fn show(sb: &Sb, out: &SeqFile) {
    let vol = sb.data();
    let o = *vol.options.lock();
    if o.errors != vol.disk.on_error().into() {
        let policy = match o.errors {
            OnError::Continue => "continue",
            OnError::ReadOnly => "remount-ro",
            OnError::Panic => "panic",
        };
        seq_print!(out, ",errors={}", policy);
    }
    if !o.barrier {
        seq_print!(out, ",nobarrier");
    }
    if o.commit_seconds != DEFAULT_COMMIT_SECONDS {
        seq_print!(out, ",commit={}", o.commit_seconds);
    }
    if !o.acl {
        seq_print!(out, ",noacl");
    }
    if o.minixdf {
        seq_print!(out, ",minixdf");
    }
    if o.noload {
        seq_print!(out, ",norecovery");
    }
    if !o.auto_da_alloc {
        seq_print!(out, ",noauto_da_alloc");
    }
    if !o.delalloc {
        seq_print!(out, ",nodelalloc");
    }
    if !o.dioread_nolock {
        seq_print!(out, ",dioread_lock");
    }
    if o.data == DataMode::Writeback {
        seq_print!(out, ",data=writeback");
    }
    if vol.errors.emergency_read_only.load(Relaxed) {
        seq_print!(out, ",emergency_ro");
    }
    if vol.is_shut_down() {
        seq_print!(out, ",shutdown");
    }
}
