// SPDX-License-Identifier: GPL-2.0

//! Buffers: blocks of a volume's device in its page cache.
//!
//! C header: [`include/linux/buffer_head.h`](srctree/include/linux/buffer_head.h)
//!
//! # Who may touch the content
//!
//! The bytes of a buffer are memory that many can reach. References to them exist only inside the
//! closures of [`BufferHead::read`], [`BufferHead::write_through`] and the journal's `modify` and
//! `create`, and each closure runs under the buffer's *content lock*, one of a small array of
//! spinlocks. So references made here never meet: `&mut [u8]` is alone, and `&[u8]` has only its
//! like beside it. The others who can reach the bytes:
//!
//! - The device, reading a block into memory. It does so only into a buffer that is locked and not
//!   up to date. A [`BufferHead`] is made only once the content is valid. After that only a failed
//!   write takes the up-to-date bit away, and then the memory is newer than the disk: nothing here
//!   reads such a block again ([`SuperBlock::bread`] sets the bit instead, as ext4 does).
//! - The device, writing a block out, and jbd2's commit, which copies blocks or has them logged.
//!   They only read. Beside `&[u8]` that is no conflict. Before a handle hands out `&mut [u8]`, it
//!   has had write access granted: jbd2 then has made its copy of what an older transaction needs,
//!   has waited for writes under way, and logs the block only after the handle has stopped. (The
//!   bytes that `write_through` changes are excluded from both by the buffer's lock and jbd2's
//!   `b_state_lock`.)
//! - jbd2's recovery, which writes blocks. It runs only on a volume that is not born yet, in the
//!   one task that mounts it.
//! - The page cache itself: a buffer with a reference is neither freed nor migrated, so `b_data`
//!   and `b_size` stay what they were.
//!
//! Left is root, writing to the block device of a mounted volume past the filesystem. A kernel with
//! `bdev_allow_write_mounted=0` refuses that, because it breaks every filesystem. It can change
//! bytes under a `&[u8]` here, as it does under ext4's feet. Blocks of the log itself belong to jbd2:
//! a filesystem does not read them through here while the journal is loaded.

use crate::{
    bindings,
    fs::{FileSystem, NewSuperBlock, SuperBlock},
};
use core::{mem::ManuallyDrop, ptr::NonNull, slice};
use kernel::{error::to_result, prelude::*};

/// The content lock of one buffer, held.
struct ContentLock<'a>(&'a RawBuffer);

impl<'a> ContentLock<'a> {
    fn new(buffer: &'a RawBuffer) -> Self {
        // SAFETY: The buffer is live.
        unsafe { bindings::buffer_content_lock(buffer.as_ptr()) };
        Self(buffer)
    }
}

impl Drop for ContentLock<'_> {
    fn drop(&mut self) {
        // SAFETY: Taken in `new`; the guard stays in the function that made it.
        unsafe { bindings::buffer_content_unlock(self.0.as_ptr()) };
    }
}

/// One reference to a buffer, whatever its content.
///
/// # Invariants
///
/// Owns one count of `b_count`. The buffer lies in the page cache of a block device, so its memory
/// is mapped, `b_size` bytes at `b_data`, and neither changes while the count is held.
struct RawBuffer(NonNull<bindings::buffer_head>);

impl RawBuffer {
    /// Finds or makes the buffer of `block`, without reading it.
    ///
    /// # Safety
    ///
    /// `sb` is a live superblock with its block device and block size set.
    unsafe fn get(sb: *mut bindings::super_block, block: u64) -> Result<Self> {
        // SAFETY: By the caller's promise.
        if unsafe { !block_exists(sb, block) } {
            return Err(EIO);
        }
        // SAFETY: By the caller's promise.
        let bh = unsafe { bindings::sb_getblk(sb, block) };
        // INVARIANT: `sb_getblk` gives a counted buffer of the device's page cache, whose pages are
        // not highmem.
        Ok(Self(NonNull::new(bh).ok_or(EIO)?))
    }

    /// Finds the buffer of `block`, if there is one. May sleep.
    ///
    /// # Safety
    ///
    /// `sb` is a live superblock with its block device and block size set.
    unsafe fn find(sb: *mut bindings::super_block, block: u64) -> Option<Self> {
        // SAFETY: By the caller's promise.
        let bh = unsafe { bindings::sb_find_get_block(sb, block) };
        // INVARIANT: As in `get`.
        Some(Self(NonNull::new(bh)?))
    }

    fn as_ptr(&self) -> *mut bindings::buffer_head {
        self.0.as_ptr()
    }

    /// Takes the buffer's own lock (`BH_Lock`), which keeps the device away. Sleeps.
    fn lock(&self) {
        // SAFETY: The buffer is live.
        unsafe { bindings::lock_buffer(self.as_ptr()) };
    }

    /// Releases the buffer's own lock.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    unsafe fn unlock(&self) {
        // SAFETY: The buffer is live and, by the caller's promise, locked.
        unsafe { bindings::unlock_buffer(self.as_ptr()) };
    }

    /// Makes the content valid: reads the block unless the memory holds it.
    fn read_in(&self) -> Result {
        // SAFETY: The buffer is live.
        if unsafe { bindings::buffer_uptodate(self.as_ptr()) } {
            return Ok(());
        }
        self.lock();
        // SAFETY: The buffer is live and locked, and mapped before it is submitted; the read ends
        // with the buffer unlocked. Its other users are described at the module's head.
        unsafe {
            let bh = self.as_ptr();
            if bindings::buffer_write_io_error(bh) {
                bindings::set_buffer_uptodate(bh);
            }
            if bindings::buffer_uptodate(bh) {
                self.unlock();
                return Ok(());
            }
            if !bindings::buffer_mapped(bh) {
                self.unlock();
                return Err(EIO);
            }
            let flags = (1 << bindings::req_flag_bits___REQ_META)
                | (1 << bindings::req_flag_bits___REQ_PRIO);
            to_result(bindings::__bh_read(bh, flags, true))
        }
    }

    /// The content.
    ///
    /// # Safety
    ///
    /// The caller holds the content lock for `'a`, and the content is valid.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: By the type's invariant the memory is there; by the caller's promise and the
        // argument at the module's head nobody writes to it.
        unsafe {
            let bh = self.as_ptr();
            slice::from_raw_parts((*bh).b_data.cast_const().cast(), (*bh).b_size)
        }
    }

    /// The content, to change.
    ///
    /// # Safety
    ///
    /// The caller holds the content lock for `'a`, and keeps the device and jbd2 from reading the
    /// bytes in one of the ways named at the module's head.
    unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        // SAFETY: By the type's invariant the memory is there; by the caller's promise and the
        // argument at the module's head nobody else uses it. Page memory is initialised as far as
        // the compiler is concerned: it comes from C.
        unsafe {
            let bh = self.as_ptr();
            slice::from_raw_parts_mut((*bh).b_data.cast(), (*bh).b_size)
        }
    }

    /// The block's number on the device, in units of the buffer's size.
    fn block(&self) -> u64 {
        // SAFETY: Constant while the buffer is referenced.
        unsafe { (*self.as_ptr()).b_blocknr }
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        // SAFETY: By the invariant the count is ours.
        unsafe { bindings::__brelse(self.as_ptr()) };
    }
}

/// Whether `block` lies on the volume's device.
///
/// # Safety
///
/// `sb` is a live superblock with its block device and block size set.
unsafe fn block_exists(sb: *mut bindings::super_block, block: u64) -> bool {
    // SAFETY: By the caller's promise.
    let (bytes, bits) = unsafe {
        (
            bindings::bdev_nr_bytes((*sb).s_bdev),
            (*sb).s_blocksize_bits,
        )
    };
    u64::try_from(bytes).is_ok_and(|bytes| block < bytes >> bits)
}

/// Reads `block` of the volume `sb`.
///
/// # Safety
///
/// `sb` is a live superblock with its block device and block size set.
unsafe fn bread(sb: *mut bindings::super_block, block: u64) -> Result<BufferHead> {
    // SAFETY: By the caller's promise.
    let raw = unsafe { RawBuffer::get(sb, block)? };
    raw.read_in()?;
    // INVARIANT: Read just now, or found valid.
    Ok(BufferHead(raw))
}

/// Starts to read `block` of the volume `sb`, if it exists and nothing stands in the way.
///
/// # Safety
///
/// `sb` is a live superblock with its block device and block size set.
unsafe fn readahead(sb: *mut bindings::super_block, block: u64) {
    // SAFETY: By the caller's promise.
    unsafe {
        if block_exists(sb, block) {
            bindings::sb_breadahead(sb, block);
        }
    }
}

/// A reference to a block in memory whose content is valid.
///
/// # Invariants
///
/// The buffer has been up to date since this reference, or the one it was cloned from, was made,
/// but for failed writes: its memory holds the block's newest content.
pub struct BufferHead(RawBuffer);

// SAFETY: Buffers are shared between tasks by design: the count and the state bits are atomic, the
// content is behind the content lock.
unsafe impl Send for BufferHead {}
// SAFETY: As above.
unsafe impl Sync for BufferHead {}

impl Clone for BufferHead {
    fn clone(&self) -> Self {
        // SAFETY: The buffer is live.
        unsafe { bindings::get_bh(self.as_ptr()) };
        // INVARIANT: The count just taken; the content is as valid as ours.
        Self(RawBuffer(self.0 .0))
    }
}

impl BufferHead {
    /// The C buffer.
    pub(crate) fn as_ptr(&self) -> *mut bindings::buffer_head {
        self.0.as_ptr()
    }

    /// Gives the reference away.
    pub(crate) fn into_raw(self) -> *mut bindings::buffer_head {
        ManuallyDrop::new(self).as_ptr()
    }

    /// The block's number on the device, in units of the buffer's size.
    pub fn block(&self) -> u64 {
        self.0.block()
    }

    /// The block's size in bytes.
    pub fn size(&self) -> usize {
        // SAFETY: Constant while the buffer is referenced.
        unsafe { (*self.as_ptr()).b_size }
    }

    /// Whether the content was found good since the block came into memory. The bit belongs to the
    /// filesystem: see [`BufferHead::set_verified`].
    pub fn is_verified(&self) -> bool {
        // SAFETY: The buffer is live.
        unsafe { bindings::buffer_verified(self.as_ptr()) }
    }

    /// Notes that the content was found good, so that nobody need check it again. The note goes
    /// with the memory, and when the block gets a new use.
    pub fn set_verified(&self) {
        // SAFETY: The buffer is live.
        unsafe { bindings::set_buffer_verified(self.as_ptr()) };
    }

    /// Looks at the content.
    ///
    /// `f` runs under a spinlock: it does not sleep, and touches no other buffer's content nor
    /// this one's again.
    pub fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        let _lock = ContentLock::new(&self.0);
        // SAFETY: The content lock is held for the call, and the content is valid by the invariant.
        f(unsafe { self.0.bytes() })
    }

    /// Changes the content on behalf of a journal handle.
    ///
    /// # Safety
    ///
    /// A live handle of this task has write access to the buffer, or create access and the buffer
    /// is locked.
    pub(crate) unsafe fn modify_granted<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let _lock = ContentLock::new(&self.0);
        // SAFETY: The content lock is held for the call; jbd2 and the device stay away until the
        // handle stops, because of the access that the caller vouches for.
        f(unsafe { self.0.bytes_mut() })
    }

    /// Changes the content outside any transaction and writes the block to its place, as
    /// `durability` says, before returning. For the volume's superblock, whose state cannot wait
    /// for a commit.
    ///
    /// `f` runs under spinlocks: it does not sleep, and touches no buffer's content but its
    /// argument.
    ///
    /// # Errors
    ///
    /// `EIO` if the write failed, or the device is gone; `EROFS` if it refuses writes. The memory
    /// keeps the change then.
    pub fn write_through<R>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let bh = self.as_ptr();
        self.0.lock();
        // SAFETY: The buffer is live and locked by us; a mapped buffer's device is live.
        let err = unsafe {
            if !bindings::buffer_mapped(bh) {
                Some(EIO)
            } else if bindings::bdev_read_only((*bh).b_bdev) {
                Some(EROFS)
            } else {
                None
            }
        };
        if let Some(err) = err {
            // SAFETY: Locked above.
            unsafe { self.0.unlock() };
            return Err(err);
        }

        // SAFETY: The buffer is live and locked by us.
        let jh = unsafe { bindings::buffer_content_lock_unjournaled(bh) };
        // SAFETY: The content lock is held; the buffer's lock keeps the device away and the lock
        // taken with the content lock keeps jbd2 away.
        let result = f(unsafe { self.0.bytes_mut() });
        // SAFETY: Both were taken above, by this task.
        unsafe { bindings::buffer_content_unlock_unjournaled(bh, jh) };

        // SAFETY: The buffer is live, mapped, and locked by us. The write ends with the buffer
        // unlocked. An error of an earlier write is none of this one.
        let failed = unsafe {
            bindings::clear_buffer_write_io_error(bh);
            bindings::set_buffer_uptodate(bh);
            bindings::clear_buffer_dirty(bh);
            bindings::bh_submit(bh, durability.flags(), Some(bindings::bh_end_write));
            bindings::wait_on_buffer(bh);
            bindings::buffer_write_io_error(bh)
        };
        if failed {
            // SAFETY: The buffer is live. The memory is newer than the disk, so it is what counts.
            unsafe {
                bindings::clear_buffer_write_io_error(bh);
                bindings::set_buffer_uptodate(bh);
            }
            return Err(EIO);
        }
        Ok(result)
    }
}

/// What has to be safe from a loss of power when a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the device's cache will do.
    Cached,
    /// The block (`REQ_FUA`).
    Fua,
    /// The block and all that the device was given before it (`REQ_PREFLUSH`, then `REQ_FUA`).
    FlushFua,
}

impl Durability {
    /// The request flags of a write that somebody waits for.
    fn flags(self) -> bindings::blk_opf_t {
        let write = bindings::req_op_REQ_OP_WRITE | (1 << bindings::req_flag_bits___REQ_SYNC);
        let fua = 1 << bindings::req_flag_bits___REQ_FUA;
        match self {
            Durability::Cached => write,
            Durability::Fua => write | fua,
            Durability::FlushFua => write | fua | (1 << bindings::req_flag_bits___REQ_PREFLUSH),
        }
    }
}

/// A reference to a block's place in memory, whose content may be anything. It becomes a
/// [`BufferHead`] when a journal handle fills it.
pub struct BlankBuffer(RawBuffer);

// SAFETY: As for `BufferHead`; of the content nothing can be seen.
unsafe impl Send for BlankBuffer {}
// SAFETY: As above.
unsafe impl Sync for BlankBuffer {}

impl BlankBuffer {
    /// The block's number on the device, in units of the buffer's size.
    pub fn block(&self) -> u64 {
        self.0.block()
    }

    /// Fills the block: `access` is called with the buffer locked and gets the right to change it,
    /// then `f` sees the bytes, all zero. What the block was verified for is forgotten.
    ///
    /// # Safety
    ///
    /// If `access` succeeds, a live handle of this task has create access to the buffer.
    pub(crate) unsafe fn fill<R>(
        self,
        access: impl FnOnce(*mut bindings::buffer_head) -> Result,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<(BufferHead, R)> {
        // The content counts as valid from here on: it is about to be filled, and until then nobody
        // but this function has the value.
        let buffer = BufferHead(self.0);
        let bh = buffer.as_ptr();
        buffer.0.lock();
        let result = access(bh).map(|()| {
            // SAFETY: The buffer is locked; the caller vouches for create access.
            let result = unsafe {
                buffer.modify_granted(|bytes| {
                    bytes.fill(0);
                    f(bytes)
                })
            };
            // SAFETY: The buffer is live, and filled.
            unsafe {
                bindings::clear_buffer_verified(bh);
                bindings::clear_buffer_write_io_error(bh);
                bindings::set_buffer_uptodate(bh);
            }
            result
        });
        // SAFETY: Locked above.
        unsafe { buffer.0.unlock() };
        // INVARIANT: On success the buffer is up to date.
        Ok((buffer, result?))
    }
}

impl<T: FileSystem> SuperBlock<T> {
    /// Reads a block of the volume, or finds it in memory. `block` counts the volume's blocks from
    /// the start of the device. Sleeps.
    ///
    /// # Errors
    ///
    /// `EIO` if the block cannot be read or lies beyond the device.
    pub fn bread(&self, block: u64) -> Result<BufferHead> {
        // SAFETY: A mounted volume's superblock is live, with device and block size.
        unsafe { bread(self.as_ptr(), block) }
    }

    /// Gets a block's place in memory, without reading it. Sleeps.
    ///
    /// # Errors
    ///
    /// `EIO` if the block lies beyond the device.
    pub fn getblk(&self, block: u64) -> Result<BlankBuffer> {
        // SAFETY: A mounted volume's superblock is live, with device and block size.
        let raw = unsafe { RawBuffer::get(self.as_ptr(), block)? };
        Ok(BlankBuffer(raw))
    }

    /// A block of the volume, if it is in memory with a valid content. Reads nothing. May sleep.
    pub fn cached(&self, block: u64) -> Option<BufferHead> {
        // SAFETY: A mounted volume's superblock is live, with device and block size.
        let raw = unsafe { RawBuffer::find(self.as_ptr(), block)? };
        // SAFETY: The buffer is referenced.
        let valid = unsafe { bindings::buffer_uptodate(raw.as_ptr()) };
        // INVARIANT: Found valid.
        valid.then(|| BufferHead(raw))
    }

    /// Starts to read a block that will be wanted soon. Does nothing if that is not possible now.
    pub fn readahead(&self, block: u64) {
        // SAFETY: A mounted volume's superblock is live, with device and block size.
        unsafe { readahead(self.as_ptr(), block) };
    }
}

impl<T: FileSystem> NewSuperBlock<T> {
    /// Reads a block of the volume, in units of the block size set last. Sleeps.
    ///
    /// # Errors
    ///
    /// `EIO` if the block cannot be read or lies beyond the device.
    pub fn bread(&self, block: u64) -> Result<BufferHead> {
        // SAFETY: The superblock is live; the VFS has set device and block size.
        unsafe { bread(self.as_ptr(), block) }
    }

    /// Starts to read a block that will be wanted soon. Does nothing if that is not possible now.
    pub fn readahead(&self, block: u64) {
        // SAFETY: The superblock is live; the VFS has set device and block size.
        unsafe { readahead(self.as_ptr(), block) };
    }
}
