// SPDX-License-Identifier: GPL-2.0

//! Values that are in inodes of their own (`ea_inode`): read, and released. Such an inode counts the
//! attributes that have it, in the seconds of its change time (high) and in its version (low); the
//! seconds of its access time are the value's hash. Behaviour: `ext4_xattr_inode_get`,
//! `ext4_xattr_inode_dec_ref`.

use crate::{
    inode::{self, Inode},
    journal::Handle,
    map::{self, Kind},
    orphan, report,
};
use ext4rs_layout::{
    inode::FL_EA_INODE,
    xattr::{entry_hash, entry_hash_signed, Attr},
};
use ext4rs_vfs::fs::Timespec;
use kernel::{prelude::*, sync::aref::ARef};

/// Blocks that [`let_go`] changes.
pub(crate) const CREDITS: u32 = inode::CREDITS_DIRTY + orphan::CREDITS;

/// The longest value that a program can ask for, in bytes (`XATTR_SIZE_MAX`).
const SIZE_MAX: u32 = 65536;

/// Inodes of values that are to be let go once the handle has stopped: with the last reference the
/// inode is deleted, which takes handles of its own.
pub(crate) struct Released(KVec<ARef<Inode>>);

impl Released {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(KVec::new())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, value: ARef<Inode>) -> Result {
        Ok(self.0.push(value, GFP_KERNEL)?)
    }
}

/// What is kept of an attribute whose value is in an inode.
#[derive(Clone, Copy)]
pub(super) struct Outside {
    /// The inode.
    ino: u32,
    /// Bytes of the value.
    size: u32,
    /// The stored hash of name and value.
    hash: u32,
}

impl Outside {
    /// Of an attribute; `None` if its value is not in an inode.
    pub(super) fn new(attr: &Attr<'_>) -> Option<Self> {
        (attr.value_ino != 0).then_some(Self {
            ino: attr.value_ino,
            size: attr.size,
            hash: attr.hash,
        })
    }
}

fn corrupt(owner: &Inode, why: kernel::fmt::Arguments<'_>) -> Error {
    let ino = Some(owner.ino());
    report::corrupt(owner.super_block(), "xattr_inode_get", ino, None, why)
}

/// Attributes that have the value, where the inode has this version.
fn count_of(value: &Inode, version: u64) -> u64 {
    let high = u64::try_from(value.ctime().sec).unwrap_or(0) & 0xffff_ffff;
    (high << 32) | (version & 0xffff_ffff)
}

/// Attributes that have the value.
fn count(value: &Inode) -> u64 {
    let version = value.data().raw.lock().version;
    count_of(value, version)
}

/// The value's hash, as its inode has it.
fn stored_hash(value: &Inode) -> u32 {
    (value.atime().sec & 0xffff_ffff) as u32
}

/// Lustre's older form: no hash and no count; the inode names its owner.
fn is_lustre(owner: &Inode, value: &Inode, hash: u32) -> bool {
    let parent = u64::from((value.mtime().sec & 0xffff_ffff) as u32);
    hash != stored_hash(value) && parent == owner.ino() && value.generation() == owner.generation()
}

/// The inode that holds a value.
fn open(owner: &Inode, value: &Outside) -> Result<ARef<Inode>> {
    let ino = value.ino;
    if owner.ino() == u64::from(ino) {
        return Err(corrupt(
            owner,
            fmt!("Parent and EA inode have the same ino {ino}"),
        ));
    }
    let inode = inode::iget_value(owner.super_block(), ino).map_err(|e| {
        corrupt(
            owner,
            fmt!("error while reading EA inode {ino} err={}", e.to_errno()),
        )
    })?;
    let (links, count) = (inode.nlink(), count(&inode));
    if links != 1 || (count == 0 && !is_lustre(owner, &inode, value.hash)) {
        return Err(corrupt(
            owner,
            fmt!("EA inode {ino} has unexpected i_nlink={links} ref_count={count}"),
        ));
    }
    Ok(inode)
}

/// A value, and the inode that held it, to be let go when the attribute lock is. The lock is held.
///
/// # Errors
///
/// `ERANGE` if it is longer than any program can read; `EFSCORRUPTED`, reported.
pub(super) fn read(owner: &Inode, value: &Outside, name: &[u8]) -> Result<(KVec<u8>, ARef<Inode>)> {
    let inode = open(owner, value)?;
    let (ino, size, found) = (value.ino, value.size, inode.size());
    if found != u64::from(size) {
        return Err(corrupt(
            owner,
            fmt!("ea_inode #{ino} file size={found} entry size={size}"),
        ));
    }
    if size > SIZE_MAX {
        return Err(ERANGE);
    }
    let bytes = read_data(owner, &inode, usize::try_from(size)?)?;
    let hash = owner.super_block().data().disk.seed().checksum(&bytes);
    let word = hash.to_le_bytes();
    let good = hash == stored_hash(&inode)
        && (value.hash == entry_hash(name, &word) || value.hash == entry_hash_signed(name, &word));
    if !good && !is_lustre(owner, &inode, value.hash) {
        return Err(corrupt(
            owner,
            fmt!("EA inode #{ino} hash validation failed"),
        ));
    }
    Ok((bytes, inode))
}

fn read_data(owner: &Inode, inode: &Inode, size: usize) -> Result<KVec<u8>> {
    let sb = owner.super_block();
    let mut bytes = KVec::from_elem(0u8, size, GFP_KERNEL)?;
    let block_size = usize::try_from(sb.data().geo.block_size)?;
    for (lblk, piece) in (0u32..).zip(bytes.chunks_mut(block_size)) {
        let Kind::Written(block) = map::lookup(inode, lblk, 1)?.kind else {
            return Err(corrupt(owner, fmt!("hole in EA inode #{}", inode.ino())));
        };
        sb.bread(block)?.read(|b| {
            for (to, from) in piece.iter_mut().zip(b) {
                *to = *from;
            }
        });
    }
    Ok(bytes)
}

/// An attribute of `owner` that has this value goes: what the value takes is no longer the owner's,
/// and with `counted` the value has one attribute less. It is not if others share the block of the
/// attribute, which count as one. Takes [`CREDITS`]; the caller writes the owner. A value that is bad
/// is reported and stays, until e2fsck.
pub(super) fn let_go(
    handle: &Handle<'_>,
    owner: &Inode,
    value: &Outside,
    counted: bool,
    released: &mut Released,
) -> Result {
    let Ok(inode) = open(owner, value) else {
        return Ok(());
    };
    let lustre = is_lustre(owner, &inode, value.hash);
    if !lustre {
        owner.sub_bytes(space(owner, value.size));
    }
    if counted {
        let left = if lustre { 0 } else { count_off(&inode) };
        if left == 0 {
            inode.set_nlink(0);
            orphan::add(handle, &inode)?;
        }
        inode::mark_dirty(handle, &inode)?;
    }
    released.add(inode)
}

/// Bytes that each owner of a value of `size` bytes is charged for it: whole blocks.
fn space(owner: &Inode, size: u32) -> u64 {
    let bits = owner.super_block().data().geo.block_bits;
    let mask = (1u64 << (bits & 31)).saturating_sub(1);
    u64::from(size).saturating_add(mask) & !mask
}

/// Counts one attribute less, and gives how many are left. Two that do so at once do it one after the
/// other.
fn count_off(value: &Inode) -> u64 {
    let mut raw = value.data().raw.lock();
    let left = count_of(value, raw.version).saturating_sub(1);
    raw.version = left & 0xffff_ffff;
    let ctime = Timespec {
        sec: i64::try_from(left >> 32).unwrap_or(0),
        nsec: 0,
    };
    value.set_times(value.atime(), value.mtime(), ctime);
    left
}

/// Whether an inode holds a value itself.
pub(super) fn is_value(inode: &Inode) -> bool {
    inode::flags(inode) & FL_EA_INODE != 0
}
