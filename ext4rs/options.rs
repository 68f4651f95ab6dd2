// SPDX-License-Identifier: GPL-2.0

//! Mount options, with ext4's names.

use crate::{map::Fresh, volume::Sb};
use ext4rs_layout::superblock;
use ext4rs_vfs::log::{self, Level};
use kernel::{
    prelude::*, seq_file::SeqFile, seq_print, str::CString, sync::atomic::ordering::Relaxed,
};

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
    /// `resuid=`: the user that may take reserved blocks.
    pub(crate) resuid: u32,
    /// `resgid=`: the group that may take reserved blocks.
    pub(crate) resgid: u32,
    /// Which [`SWITCHES`] are on.
    switches: u32,
    /// The values of [`NUMBERS`].
    numbers: [u32; NUMBERS.len()],
    /// `dax=never`, to be shown.
    dax_never: bool,
}

/// What becomes of a default in the superblock that is not simply taken.
enum Stored {
    NoEffect,
    Unknown,
    Refused,
}

/// Said of an option that ext4 has no more.
const IGNORED: &str = "Ignoring removed";

/// Said of an option that asks for what is not done.
const NO_EFFECT: &str = "without effect:";

fn text_of(bytes: &[u8]) -> Result<CString> {
    CString::try_from_fmt(fmt!("{}", core::str::from_utf8(bytes).map_err(|_| EINVAL)?))
}

impl Options {
    /// What a volume is mounted with if nobody asks for anything.
    fn bare(disk: &superblock::SuperBlock) -> Self {
        Self {
            errors: disk.on_error().into(),
            barrier: true,
            commit_seconds: DEFAULT_COMMIT_SECONDS,
            acl: true,
            minixdf: false,
            noload: false,
            auto_da_alloc: true,
            resuid: disk.resuid,
            resgid: disk.resgid,
            switches: 0,
            numbers: NUMBERS.map(|(_, default)| default),
            dax_never: false,
            delalloc: true,
            dioread_nolock: true,
            data: DataMode::Ordered,
        }
    }

    /// What blocks are on disk when they have just been allocated for a file's data.
    pub(crate) fn fresh(&self) -> Fresh {
        match (self.dioread_nolock, self.data) {
            (true, _) => Fresh::Unwritten,
            (false, DataMode::Ordered) => Fresh::Ordered,
            (false, DataMode::Writeback) => Fresh::Written,
        }
    }

    /// `min_batch_time=`, in microseconds.
    pub(crate) fn min_batch_time(&self) -> u32 {
        let [min, ..] = self.numbers;
        min
    }

    /// `max_batch_time=`, in microseconds.
    pub(crate) fn max_batch_time(&self) -> u32 {
        let [_, max, ..] = self.numbers;
        max
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
    resuid: Option<u32>,
    resgid: Option<u32>,
    /// Which of [`SWITCHES`] were given, and those of them that are on.
    switches_given: u32,
    switches: u32,
    numbers: [Option<u32>; NUMBERS.len()],
    dax_never: bool,
}

/// Options of ext4 that ask for what ext4rs does anyway.
const ACCEPTED: &[&[u8]] = &[
    b"noquota",
    b"nogrpid",
    b"sysvgroups",
    b"journal_checksum",
    b"user_xattr",
    b"nodebug",
    b"nowarn_on_error",
];

/// Options that ext4 has given up, and takes with a warning (`Opt_removed`). The others of them,
/// `check=` and `journal=`, have a value.
const REMOVED: &[&[u8]] = &[
    b"oldalloc",
    b"orlov",
    b"bh",
    b"nobh",
    b"i_version",
    b"mblk_io_submit",
    b"nomblk_io_submit",
    b"prefetch_block_bitmaps",
    b"nocheck",
    b"reservation",
    b"noreservation",
];

/// A switch of ext4 that only makes things faster or shows more: it is taken and shown, and what it
/// asks for is not done.
struct Switch {
    /// Turns it on.
    on: &'static str,
    /// Turns it off, or nothing does.
    off: Option<&'static str>,
    /// To be warned of.
    warn: bool,
}

impl Switch {
    const fn new(on: &'static str, off: Option<&'static str>, warn: bool) -> Self {
        Self { on, off, warn }
    }
}

/// The switches, in the order in which ext4 shows them; the place is the bit in
/// [`Options::switches`].
const SWITCHES: [Switch; 6] = [
    Switch::new("noblock_validity", Some("block_validity"), false),
    Switch::new("discard", Some("nodiscard"), true),
    Switch::new("noinit_itable", None, false),
    Switch::new("debug", None, false),
    Switch::new("nombcache", None, false),
    Switch::new("no_prefetch_block_bitmaps", None, false),
];

/// The bit of `noinit_itable`, which `init_itable` clears.
const NO_INIT_ITABLE: u32 = 1 << 2;

/// Numbers that ext4 takes for its own tuning, in the order in which it shows them, with their
/// defaults. They are taken and shown; the first two are the journal's.
const NUMBERS: [(&str, u32); 5] = [
    ("min_batch_time", 0),
    ("max_batch_time", 15_000),
    ("stripe", 0),
    ("inode_readahead_blks", 32),
    ("init_itable", 10),
];

/// The place of `init_itable` in [`NUMBERS`].
const INIT_ITABLE: usize = 4;

/// What the superblock may ask for by a bit (`tune2fs -o`): the bits to look at, their value, and
/// the option.
const STORED: &[(u32, u32, &CStr, Option<&CStr>)] = &[
    bit(superblock::DEFM_DEBUG, c"debug"),
    bit(superblock::DEFM_BSDGROUPS, c"bsdgroups"),
    bit(superblock::DEFM_UID16, c"nouid32"),
    mode(superblock::DEFM_JMODE_DATA, c"journal"),
    mode(superblock::DEFM_JMODE_ORDERED, c"ordered"),
    mode(superblock::DEFM_JMODE_WBACK, c"writeback"),
    bit(superblock::DEFM_NOBARRIER, c"nobarrier"),
    bit(superblock::DEFM_DISCARD, c"discard"),
    bit(superblock::DEFM_NODELALLOC, c"nodelalloc"),
];

const fn bit(bit: u32, key: &CStr) -> (u32, u32, &CStr, Option<&CStr>) {
    (bit, bit, key, None)
}

const fn mode(value: u32, name: &CStr) -> (u32, u32, &CStr, Option<&CStr>) {
    (superblock::DEFM_JMODE, value, c"data", Some(name))
}

/// Options of ext4 that ext4rs does not know how to honour yet.
const NOT_BUILT: &[&[u8]] = &[
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
    b"nojournal_checksum",
    b"test_dummy_encryption",
    b"max_dir_size_kb",
    b"debug_want_extra_isize",
    b"abort",
    b"warn_on_error",
    b"nouid32",
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
        let taken = self.take(key, value);
        match taken {
            Err(e) if e == EOPNOTSUPP => Err(Self::not_built(key, value)),
            Ok(warning) => {
                if let Some(warning) = warning {
                    log::print(
                        Level::Warning,
                        fmt!("EXT4RS-fs: {} option '{}'", warning, key),
                    );
                }
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Takes one option, and answers what the log should say of it. An option that is not built is
    /// `EOPNOTSUPP`, and not logged.
    fn take(&mut self, key: &CStr, value: Option<&CStr>) -> Result<Option<&'static str>> {
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
                b"journal" => return Err(EOPNOTSUPP),
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
            (b"resuid", Some(v)) => self.resuid = Some(number(name, v)?),
            (b"resgid", Some(v)) => self.resgid = Some(number(name, v)?),
            // The superblock's usual place.
            (b"sb", Some(v)) => {
                if number(name, v)? != 1 {
                    return Err(EOPNOTSUPP);
                }
            }
            (b"data_err", Some(v)) => match v.to_bytes() {
                b"ignore" => {}
                b"abort" => return Err(EOPNOTSUPP),
                _ => return Err(bad_value(name, v)),
            },
            (b"dax", None) => return Err(EOPNOTSUPP),
            (b"dax", Some(v)) => match v.to_bytes() {
                b"never" => self.dax_never = true,
                b"always" | b"inode" => return Err(EOPNOTSUPP),
                _ => return Err(bad_value(name, v)),
            },
            (b"journal_ioprio", Some(v)) => {
                if number(name, v)? > 7 {
                    return Err(bad_value(name, v));
                }
            }
            (b"mb_optimize_scan", Some(v)) => {
                if number(name, v)? > 1 {
                    return Err(bad_value(name, v));
                }
            }
            (b"inlinecrypt", None) => return Ok(Some(NO_EFFECT)),
            (b"init_itable", None) => self.set_number(INIT_ITABLE, 10),
            (b"no_mbcache", None) => return self.take(c"nombcache", None),
            (b"check", Some(_)) => return Ok(Some(IGNORED)),
            (b"journal", Some(v)) => {
                number(name, v)?;
                return Ok(Some(IGNORED));
            }
            (name, None) if REMOVED.contains(&name) => return Ok(Some(IGNORED)),
            (name, None) if ACCEPTED.contains(&name) => {}
            (name, _) if NOT_BUILT.contains(&name) => return Err(EOPNOTSUPP),
            (name, None) => return self.take_switch(name),
            (name, Some(v)) => self.take_number(name, v)?,
        }
        Ok(None)
    }

    /// Takes one of [`SWITCHES`].
    fn take_switch(&mut self, name: &[u8]) -> Result<Option<&'static str>> {
        let mut bit = 1;
        for switch in &SWITCHES {
            let on = switch.on.as_bytes() == name;
            if on || switch.off.is_some_and(|off| off.as_bytes() == name) {
                self.switches_given |= bit;
                self.switches = if on {
                    self.switches | bit
                } else {
                    self.switches & !bit
                };
                return Ok((on && switch.warn).then_some(NO_EFFECT));
            }
            bit <<= 1;
        }
        Err(ENOPARAM)
    }

    /// Takes one of [`NUMBERS`].
    fn take_number(&mut self, name: &[u8], value: &CStr) -> Result {
        let at = NUMBERS
            .iter()
            .position(|(known, _)| known.as_bytes() == name)
            .ok_or(ENOPARAM)?;
        let given = number(name, value)?;
        if name == b"inode_readahead_blks"
            && given != 0
            && (given > 1 << 30 || !given.is_power_of_two())
        {
            return Err(bad_value(name, value));
        }
        self.set_number(at, given);
        Ok(())
    }

    fn set_number(&mut self, at: usize, value: u32) {
        if let Some(slot) = self.numbers.get_mut(at) {
            *slot = Some(value);
        }
        if at == INIT_ITABLE {
            self.switches_given |= NO_INIT_ITABLE;
            self.switches &= !NO_INIT_ITABLE;
        }
    }

    fn switches_over(&self, old: u32) -> u32 {
        (old & !self.switches_given) | (self.switches & self.switches_given)
    }

    fn numbers_over(&self, mut old: [u32; NUMBERS.len()]) -> [u32; NUMBERS.len()] {
        for (old, new) in old.iter_mut().zip(self.numbers) {
            *old = new.unwrap_or(*old);
        }
        old
    }

    /// The defaults that are stored in the superblock, by bits and as text; `say` is told of those
    /// that are left out, with why.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for one that is not built and that changes what the volume promises, which
    /// `say` was told of as well.
    fn stored(disk: &superblock::SuperBlock, say: impl Fn(&str, Stored)) -> Result<Self> {
        let mut ctx = Self::default();
        for &(mask, bits, key, value) in STORED {
            if disk.default_mount_opts & mask == bits {
                ctx.take_stored(key, value, &say)?;
            }
        }
        let end = disk.mount_opts.iter().position(|&byte| byte == 0);
        let text = disk.mount_opts.get(..end.unwrap_or(0)).unwrap_or(&[]);
        for word in text.split(|&byte| byte == b',').filter(|w| !w.is_empty()) {
            let mut parts = word.splitn(2, |&byte| byte == b'=');
            let key = text_of(parts.next().unwrap_or(&[]))?;
            let value = parts.next().map(text_of).transpose()?;
            ctx.take_stored(&key, value.as_deref(), &say)?;
        }
        Ok(ctx)
    }

    fn take_stored(
        &mut self,
        key: &CStr,
        value: Option<&CStr>,
        say: &impl Fn(&str, Stored),
    ) -> Result {
        let name = key.to_str().unwrap_or("?");
        match self.take(key, value) {
            Ok(None) => {}
            Ok(Some(_)) => say(name, Stored::NoEffect),
            Err(e) if e == EOPNOTSUPP => {
                say(name, Stored::Refused);
                return Err(e);
            }
            // As ext4: what nobody understands keeps no volume from its user.
            Err(_) => say(name, Stored::Unknown),
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
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a stored default that is not built; the log names it.
    pub(crate) fn for_mount(&self, disk: &superblock::SuperBlock) -> Result<Options> {
        let stored = Self::stored(disk, |name, what| match what {
            Stored::NoEffect => log::print(
                Level::Warning,
                fmt!("EXT4RS-fs: stored mount option '{}' has no effect", name),
            ),
            Stored::Unknown => log::print(
                Level::Warning,
                fmt!("EXT4RS-fs: failed to parse options in superblock: {}", name),
            ),
            Stored::Refused => log::print(
                Level::Err,
                fmt!("EXT4RS-fs: stored mount option '{}' is not built yet", name),
            ),
        })?;
        let mut options = self.for_remount(&stored.for_remount(&Options::bare(disk)));
        options.noload = self.noload.or(stored.noload).unwrap_or(false);
        Ok(options)
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
            data: self.data.unwrap_or(old.data),
            resuid: self.resuid.unwrap_or(old.resuid),
            resgid: self.resgid.unwrap_or(old.resgid),
            switches: self.switches_over(old.switches),
            numbers: self.numbers_over(old.numbers),
            dax_never: self.dax_never || old.dax_never,
        }
    }
}

/// Prints the options that differ from the defaults, as `/proc/mounts` shows them: switches that
/// differ from what the superblock stores, and numbers that differ from ext4's own defaults
/// (`_ext4_show_options`).
pub(crate) fn show(sb: &Sb, out: &SeqFile) {
    let vol = sb.data();
    let o = *vol.options.lock();
    let bare = Options::bare(&vol.disk);
    let d = Context::stored(&vol.disk, |_, _| {}).map_or(bare, |ctx| ctx.for_remount(&bare));
    let flag = |is: bool, was: bool, on: &str, off: &str| {
        if is != was {
            seq_print!(out, ",{}", if is { on } else { off });
        }
    };
    flag(o.minixdf, d.minixdf, "minixdf", "bsddf");
    flag(o.barrier, d.barrier, "barrier", "nobarrier");
    flag(o.acl, d.acl, "acl", "noacl");
    flag(
        o.auto_da_alloc,
        d.auto_da_alloc,
        "auto_da_alloc",
        "noauto_da_alloc",
    );
    flag(o.delalloc, d.delalloc, "delalloc", "nodelalloc");
    flag(
        o.dioread_nolock,
        d.dioread_nolock,
        "dioread_nolock",
        "dioread_lock",
    );
    if o.data != d.data {
        let mode = match o.data {
            DataMode::Ordered => "ordered",
            DataMode::Writeback => "writeback",
        };
        seq_print!(out, ",data={}", mode);
    }
    if o.noload {
        seq_print!(out, ",norecovery");
    }
    let mut bit = 1;
    for switch in &SWITCHES {
        let off = switch.off.unwrap_or("");
        let is = o.switches & bit != 0;
        if is || !off.is_empty() {
            flag(is, d.switches & bit != 0, switch.on, off);
        }
        bit <<= 1;
    }
    if o.resuid != 0 || vol.disk.resuid != 0 {
        seq_print!(out, ",resuid={}", o.resuid);
    }
    if o.resgid != 0 || vol.disk.resgid != 0 {
        seq_print!(out, ",resgid={}", o.resgid);
    }
    if o.errors != vol.disk.on_error().into() {
        let policy = match o.errors {
            OnError::Continue => "continue",
            OnError::ReadOnly => "remount-ro",
            OnError::Panic => "panic",
        };
        seq_print!(out, ",errors={}", policy);
    }
    if o.commit_seconds != DEFAULT_COMMIT_SECONDS {
        seq_print!(out, ",commit={}", o.commit_seconds);
    }
    for ((name, default), value) in NUMBERS.iter().zip(o.numbers) {
        if value != *default {
            seq_print!(out, ",{}={}", *name, value);
        }
    }
    if o.dax_never {
        seq_print!(out, ",dax=never");
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
