// SPDX-License-Identifier: GPL-2.0

//! Inodes.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h)

use super::{DirectoryOps, FileOps, FileSystem, IdMap, SuperBlock, SymlinkOps};
use crate::{bindings, iomap::AddressSpaceOps, jbd2::JbdInode, mapping::Mapping};
use core::{
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Deref,
    ptr::NonNull,
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};

/// A point in time as an inode holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timespec {
    /// Seconds since the epoch.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

/// Now, in seconds since the epoch.
pub fn now_seconds() -> u64 {
    // SAFETY: Reads the clock.
    u64::try_from(unsafe { bindings::ktime_get_real_seconds() }).unwrap_or(0)
}

/// A random number, for inode generations.
pub fn random_u32() -> u32 {
    // SAFETY: No preconditions.
    unsafe { bindings::get_random_u32() }
}

/// The slab object of one inode: the VFS's part, the journal's part and the filesystem's.
#[repr(C)]
pub(crate) struct InodeSlot<T: FileSystem> {
    /// The VFS inode; first, so that a pointer to it is a pointer to the slot.
    pub(crate) inode: Opaque<bindings::inode>,
    /// jbd2's view of the inode, for ordered data.
    pub(crate) jbd: MaybeUninit<JbdInode>,
    /// The filesystem's data, initialised from `alloc_inode` until `free_inode`.
    pub(crate) data: MaybeUninit<T::InodeData>,
}

/// An inode of filesystem `T`.
///
/// # Invariants
///
/// The inode was allocated by `T`'s `alloc_inode`, so it stands at the head of an [`InodeSlot<T>`]
/// whose `data` is initialised, and its superblock is a `SuperBlock<T>`.
#[repr(transparent)]
pub struct INode<T: FileSystem>(Opaque<bindings::inode>, PhantomData<T>);

// SAFETY: Inodes are shared between tasks by design; `InodeData` is `Send + Sync`, and the accessors
// below either read fields that the VFS allows to be read without a lock or take the lock.
unsafe impl<T: FileSystem> Send for INode<T> {}
// SAFETY: As above.
unsafe impl<T: FileSystem> Sync for INode<T> {}

// SAFETY: `inode_hold` and `iput` count the inode's references.
unsafe impl<T: FileSystem> AlwaysRefCounted for INode<T> {
    /// Takes a reference. Some callbacks get an inode of which there is none any more:
    /// [`FileSystem::evict_inode`] and [`OrderedData::ordered_flush`]. There this is a bug, and ends
    /// the task: nothing could keep the inode.
    ///
    /// [`OrderedData::ordered_flush`]: crate::jbd2::OrderedData::ordered_flush
    fn inc_ref(&self) {
        // SAFETY: The inode is live. The callee does not return if the count is zero.
        unsafe { bindings::inode_hold(self.as_ptr()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference and gives it up.
        unsafe { bindings::iput(obj.as_ptr().cast()) };
    }
}

impl<T: FileSystem> INode<T> {
    /// Borrows a C inode.
    ///
    /// # Safety
    ///
    /// `ptr` points to a live inode of filesystem `T` that stays alive for `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::inode) -> &'a Self {
        // SAFETY: `INode` is transparent over `inode`; the caller vouches for the rest.
        unsafe { &*ptr.cast() }
    }

    /// The C inode.
    pub(crate) fn as_ptr(&self) -> *mut bindings::inode {
        self.0.get()
    }

    /// jbd2's part of this inode.
    pub(crate) fn jbd(&self) -> &JbdInode {
        // SAFETY: By the type invariant the inode heads a slot whose parts are initialised.
        unsafe {
            (*self.as_ptr().cast::<InodeSlot<T>>())
                .jbd
                .assume_init_ref()
        }
    }

    /// The filesystem's data of this inode.
    pub fn data(&self) -> &T::InodeData {
        // SAFETY: By the type invariant the inode heads a slot whose data is initialised.
        unsafe {
            (*self.as_ptr().cast::<InodeSlot<T>>())
                .data
                .assume_init_ref()
        }
    }

    /// The volume that the inode belongs to.
    pub fn super_block(&self) -> &SuperBlock<T> {
        // SAFETY: `i_sb` is set once and outlives the inode; it is a superblock of `T`. An `INode`
        // is handed out only after the superblock's data was set.
        unsafe { SuperBlock::from_raw((*self.as_ptr()).i_sb) }
    }

    /// The inode's page cache.
    pub fn mapping(&self) -> &Mapping<T> {
        // SAFETY: `i_mapping` of an inode that `T` made is its own `i_data` and lives with it.
        unsafe { Mapping::from_raw((*self.as_ptr()).i_mapping) }
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        // SAFETY: `i_ino` does not change while anybody holds the inode.
        unsafe { (*self.as_ptr()).i_ino }
    }

    /// The file's size in bytes. No lock needed.
    pub fn size(&self) -> u64 {
        // SAFETY: The inode is live.
        let size = unsafe { bindings::i_size_read(self.as_ptr()) };
        u64::try_from(size).unwrap_or(0)
    }

    /// Sets the file's size in bytes. The caller holds the inode's `i_rwsem`, or is the only user.
    pub fn set_size(&self, size: u64) {
        // SAFETY: The inode is live. Two racing calls on a 64-bit machine are two plain stores.
        unsafe { bindings::i_size_write(self.as_ptr(), size as i64) };
    }

    /// Type and permission bits.
    pub fn mode(&self) -> u16 {
        // SAFETY: The inode is live; a racing chmod makes this the old or the new value.
        unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).i_mode) }
    }

    /// Sets type and permission bits. For an inode being made or read.
    pub fn set_mode(&self, mode: u16) {
        // SAFETY: The inode is live.
        unsafe { core::ptr::write_volatile(&raw mut (*self.as_ptr()).i_mode, mode) };
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        u32::from(self.mode()) & bindings::S_IFMT == bindings::S_IFDIR
    }

    /// Whether this is a regular file.
    pub fn is_reg(&self) -> bool {
        u32::from(self.mode()) & bindings::S_IFMT == bindings::S_IFREG
    }

    /// Whether this is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        u32::from(self.mode()) & bindings::S_IFMT == bindings::S_IFLNK
    }

    /// Owner, as the initial user namespace numbers it.
    pub fn uid(&self) -> u32 {
        // SAFETY: The inode is live.
        unsafe { bindings::i_uid_read(self.as_ptr()) }
    }

    /// Group, as the initial user namespace numbers it.
    pub fn gid(&self) -> u32 {
        // SAFETY: The inode is live.
        unsafe { bindings::i_gid_read(self.as_ptr()) }
    }

    /// Sets owner and group. For an inode being made or read.
    pub fn set_owner(&self, uid: u32, gid: u32) {
        // SAFETY: The inode is live.
        unsafe {
            bindings::i_uid_write(self.as_ptr(), uid);
            bindings::i_gid_write(self.as_ptr(), gid);
        }
    }

    /// Sets owner, group and mode of a new inode from its creator and its directory.
    pub fn init_owner(&self, idmap: &IdMap, dir: &INode<T>, mode: u16) {
        // SAFETY: All three are live; the inode is new, nobody else sees it.
        unsafe { bindings::inode_init_owner(idmap.as_ptr(), self.as_ptr(), dir.as_ptr(), mode) };
    }

    /// The link count.
    pub fn nlink(&self) -> u32 {
        // SAFETY: The inode is live; racing changes make this the old or the new value.
        unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).__bindgen_anon_1.__i_nlink) }
    }

    /// Sets the link count.
    pub fn set_nlink(&self, nlink: u32) {
        // SAFETY: The inode is live.
        unsafe { bindings::set_nlink(self.as_ptr(), nlink) };
    }

    /// Adds one link. The caller holds the directory's `i_rwsem`.
    pub fn inc_nlink(&self) {
        // SAFETY: The inode is live.
        unsafe { bindings::inc_nlink(self.as_ptr()) };
    }

    /// Takes one link away, of those that there are. The caller holds the directory's `i_rwsem`.
    pub fn drop_nlink(&self) {
        // SAFETY: The inode is live.
        unsafe { bindings::drop_nlink(self.as_ptr()) };
    }

    /// Last access.
    pub fn atime(&self) -> Timespec {
        // SAFETY: The inode is live; a torn pair can be seen, as by every reader in the VFS.
        unsafe {
            let i = self.as_ptr();
            Timespec {
                sec: (*i).i_atime_sec,
                nsec: (*i).i_atime_nsec,
            }
        }
    }

    /// Last change of the content.
    pub fn mtime(&self) -> Timespec {
        // SAFETY: As in `atime`.
        unsafe {
            let i = self.as_ptr();
            Timespec {
                sec: (*i).i_mtime_sec,
                nsec: (*i).i_mtime_nsec,
            }
        }
    }

    /// Last change of the inode.
    pub fn ctime(&self) -> Timespec {
        // SAFETY: The inode is live. The helper strips the multigrain flag.
        let ts = unsafe { bindings::inode_get_ctime(self.as_ptr()) };
        Timespec {
            sec: ts.tv_sec,
            nsec: ts.tv_nsec as u32,
        }
    }

    /// Sets the three times. For an inode being read.
    pub fn set_times(&self, atime: Timespec, mtime: Timespec, ctime: Timespec) {
        // SAFETY: The inode is live, and new: nobody else uses it.
        unsafe {
            let i = self.as_ptr();
            (*i).i_atime_sec = atime.sec;
            (*i).i_atime_nsec = atime.nsec;
            (*i).i_mtime_sec = mtime.sec;
            (*i).i_mtime_nsec = mtime.nsec;
            bindings::inode_set_ctime_to_ts(
                i,
                bindings::timespec64 {
                    tv_sec: ctime.sec,
                    tv_nsec: ctime.nsec as isize,
                },
            );
        }
    }

    /// Sets ctime, and mtime too if `content`, to now. The caller holds the inode's `i_rwsem`.
    pub fn touch(&self, content: bool) -> Timespec {
        // SAFETY: The inode is live; the caller's lock orders writers of the times.
        let now = unsafe { bindings::inode_set_ctime_current(self.as_ptr()) };
        if content {
            // SAFETY: As above.
            unsafe {
                (*self.as_ptr()).i_mtime_sec = now.tv_sec;
                (*self.as_ptr()).i_mtime_nsec = now.tv_nsec as u32;
            }
        }
        Timespec {
            sec: now.tv_sec,
            nsec: now.tv_nsec as u32,
        }
    }

    /// Sets all three times to now. For a new inode.
    pub fn touch_all(&self) -> Timespec {
        let now = self.touch(true);
        // SAFETY: The inode is live and new.
        unsafe {
            (*self.as_ptr()).i_atime_sec = now.sec;
            (*self.as_ptr()).i_atime_nsec = now.nsec;
        }
        now
    }

    /// Space used, in 512-byte sectors.
    pub fn sectors(&self) -> u64 {
        // SAFETY: The inode is live.
        let bytes = unsafe { bindings::inode_get_bytes(self.as_ptr()) };
        u64::try_from(bytes).unwrap_or(0) >> 9
    }

    /// Sets the space used, in 512-byte sectors. For an inode being read.
    pub fn set_sectors(&self, sectors: u64) {
        // SAFETY: The inode is live and new.
        unsafe { (*self.as_ptr()).i_blocks = sectors };
    }

    /// Adds to the space used, in bytes. Takes the inode's `i_lock`.
    pub fn add_bytes(&self, bytes: u64) {
        // SAFETY: The inode is live; the callee takes `i_lock`.
        unsafe { bindings::inode_add_bytes(self.as_ptr(), bytes as i64) };
    }

    /// Subtracts from the space used, in bytes. Takes the inode's `i_lock`.
    pub fn sub_bytes(&self, bytes: u64) {
        // SAFETY: The inode is live; the callee takes `i_lock`.
        unsafe { bindings::inode_sub_bytes(self.as_ptr(), bytes as i64) };
    }

    /// The generation number, for NFS handles.
    pub fn generation(&self) -> u32 {
        // SAFETY: Set once when the inode is read or made.
        unsafe { (*self.as_ptr()).i_generation }
    }

    /// Sets the generation number. For an inode being made or read.
    pub fn set_generation(&self, generation: u32) {
        // SAFETY: The inode is live and new.
        unsafe { (*self.as_ptr()).i_generation = generation };
    }

    /// The device number of a special file, in the kernel's own encoding (12 bits major, 20 minor).
    pub fn rdev(&self) -> u32 {
        // SAFETY: Set once when the inode is read or made.
        unsafe { (*self.as_ptr()).i_rdev }
    }

    /// The VFS's `S_*` flags that follow from the file's attributes.
    pub fn set_attribute_flags(&self, flags: AttributeFlags) {
        let mask = bindings::S_SYNC
            | bindings::S_APPEND
            | bindings::S_IMMUTABLE
            | bindings::S_NOATIME
            | bindings::S_DIRSYNC;
        let mut value = 0;
        for (on, bit) in [
            (flags.sync, bindings::S_SYNC),
            (flags.append, bindings::S_APPEND),
            (flags.immutable, bindings::S_IMMUTABLE),
            (flags.noatime, bindings::S_NOATIME),
            (flags.dirsync, bindings::S_DIRSYNC),
        ] {
            if on {
                value |= bit;
            }
        }
        // SAFETY: The inode is live; `inode_set_flags` swaps the word atomically.
        unsafe { bindings::inode_set_flags(self.as_ptr(), value, mask) };
    }

    /// Whether the file may not be changed at all.
    pub fn is_immutable(&self) -> bool {
        // SAFETY: The inode is live.
        let flags = unsafe { core::ptr::read_volatile(&raw const (*self.as_ptr()).i_flags) };
        flags & bindings::S_IMMUTABLE != 0
    }

    /// Whether writes to this inode are to be synchronous (`sync`, `dirsync`, `chattr +S`).
    pub fn is_sync(&self) -> bool {
        // SAFETY: The inode is live.
        unsafe { bindings::inode_is_sync(self.as_ptr()) }
    }

    /// Whether reading the inode failed and it stands in the cache as a bad one.
    pub fn is_bad(&self) -> bool {
        // SAFETY: The inode is live.
        unsafe { bindings::is_bad_inode(self.as_ptr()) }
    }

    /// Marks the inode's attributes dirty, with no call back into the filesystem for a handle of
    /// its own beyond [`FileSystem::dirty_inode`].
    pub fn mark_dirty(&self) {
        // SAFETY: The inode is live.
        unsafe { bindings::mark_inode_dirty(self.as_ptr()) };
    }

    /// Waits until no direct I/O is under way. The caller holds the inode's `i_rwsem` for writing, so
    /// that none begins.
    pub fn wait_direct_io(&self) {
        // SAFETY: The inode is live.
        unsafe { bindings::inode_dio_wait(self.as_ptr()) };
    }

    /// Takes the inode's `i_rwsem` for writing.
    pub fn lock(&self) -> INodeLock<'_, T> {
        // SAFETY: The inode is live.
        unsafe { bindings::inode_lock(self.as_ptr()) };
        INodeLock {
            inode: self,
            shared: false,
            _not_send: PhantomData,
        }
    }

    /// Takes the inode's `i_rwsem` for writing if nobody holds it.
    pub fn try_lock(&self) -> Option<INodeLock<'_, T>> {
        // SAFETY: The inode is live.
        let got = unsafe { bindings::inode_trylock(self.as_ptr()) } != 0;
        got.then_some(INodeLock {
            inode: self,
            shared: false,
            _not_send: PhantomData,
        })
    }

    /// Takes the inode's `i_rwsem` for reading.
    pub fn lock_shared(&self) -> INodeLock<'_, T> {
        // SAFETY: The inode is live.
        unsafe { bindings::inode_lock_shared(self.as_ptr()) };
        INodeLock {
            inode: self,
            shared: true,
            _not_send: PhantomData,
        }
    }
}

/// What `chattr` sets that the VFS itself obeys.
#[derive(Clone, Copy, Default)]
pub struct AttributeFlags {
    /// Writes are synchronous.
    pub sync: bool,
    /// Only appending is allowed.
    pub append: bool,
    /// No change is allowed.
    pub immutable: bool,
    /// The access time is not kept.
    pub noatime: bool,
    /// Changes of the directory are synchronous.
    pub dirsync: bool,
}

/// The inode's `i_rwsem`, held.
pub struct INodeLock<'a, T: FileSystem> {
    inode: &'a INode<T>,
    shared: bool,
    _not_send: PhantomData<*mut ()>,
}

impl<T: FileSystem> Drop for INodeLock<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The guard's maker took the lock in this mode and the guard is not `Send`.
        unsafe {
            if self.shared {
                bindings::inode_unlock_shared(self.inode.as_ptr());
            } else {
                bindings::inode_unlock(self.inode.as_ptr());
            }
        }
    }
}

/// An inode found in, or added to, the inode cache.
pub enum Iget<T: FileSystem> {
    /// It was there, complete.
    Cached(ARef<INode<T>>),
    /// It is new: fill it in and call [`NewINode::publish`].
    New(NewINode<T>),
}

/// An inode in the cache that is still being filled in: others who look it up wait.
///
/// Dropped without [`NewINode::publish`], it becomes a bad inode and leaves the cache.
///
/// # Invariants
///
/// Owns one reference to the inode, whose `I_NEW` is set and cleared only through this value.
pub struct NewINode<T: FileSystem>(ARef<INode<T>>);

impl<T: FileSystem> NewINode<T> {
    /// Lets the waiters go: the inode is complete.
    pub fn publish(self) -> ARef<INode<T>> {
        // SAFETY: By the invariant `I_NEW` is set.
        unsafe { bindings::unlock_new_inode(self.0.as_ptr()) };
        let me = ManuallyDrop::new(self);
        // SAFETY: `me` is not used or dropped again: its reference moves out.
        unsafe { core::ptr::read(&me.0) }
    }

    /// The reference, with `I_NEW` still set; the receiver clears it.
    pub(super) fn into_raw(self) -> *mut bindings::inode {
        let me = ManuallyDrop::new(self);
        me.0.as_ptr()
    }
}

impl<T: FileSystem> Deref for NewINode<T> {
    type Target = INode<T>;
    fn deref(&self) -> &INode<T> {
        &self.0
    }
}

impl<T: FileSystem> Drop for NewINode<T> {
    fn drop(&mut self) {
        // `iget_failed` drops a reference, and so does the field: take one more.
        self.0.inc_ref();
        // SAFETY: By the invariant `I_NEW` is set; the reference just taken is given up here.
        unsafe { bindings::iget_failed(self.0.as_ptr()) };
    }
}

/// An inode just made for a new file, not in the cache yet: only its maker sees it.
pub struct FreshINode<T: FileSystem>(ARef<INode<T>>);

impl<T: FileSystem> FreshINode<T> {
    /// Gives the inode its number and puts it into the cache, locked as new.
    ///
    /// # Errors
    ///
    /// `EBUSY` if an inode of this number is in the cache already.
    pub fn insert(self, ino: u64) -> Result<NewINode<T>> {
        // SAFETY: The inode is ours alone until it is hashed.
        unsafe { (*self.0.as_ptr()).i_ino = ino };
        // SAFETY: The inode is live and not hashed. On success it is `I_NEW`.
        to_result(unsafe { bindings::insert_inode_locked(self.0.as_ptr()) })?;
        Ok(NewINode(self.0))
    }
}

impl<T: FileSystem> Deref for FreshINode<T> {
    type Target = INode<T>;
    fn deref(&self) -> &INode<T> {
        &self.0
    }
}

impl<T: FileSystem> SuperBlock<T> {
    /// Looks an inode up in the cache, adding a new one if it is not there.
    pub fn iget(&self, ino: u64) -> Result<Iget<T>> {
        // SAFETY: The superblock is live.
        let ptr = unsafe { bindings::iget_locked(self.as_ptr(), ino) };
        let inode = NonNull::new(ptr).ok_or(ENOMEM)?;
        // SAFETY: `iget_locked` returns a reference, made by `T`'s `alloc_inode`.
        let aref: ARef<INode<T>> = unsafe { ARef::from_raw(inode.cast()) };
        // SAFETY: The inode is live.
        if unsafe { bindings::inode_is_new(ptr) } {
            Ok(Iget::New(NewINode(aref)))
        } else {
            Ok(Iget::Cached(aref))
        }
    }

    /// Makes an inode for a new file.
    pub fn new_inode(&self) -> Result<FreshINode<T>> {
        // SAFETY: The superblock is live.
        let inode = NonNull::new(unsafe { bindings::new_inode(self.as_ptr()) }).ok_or(ENOMEM)?;
        // SAFETY: `new_inode` returns a reference, made by `T`'s `alloc_inode`.
        Ok(FreshINode(unsafe { ARef::from_raw(inode.cast()) }))
    }
}

/// Which object the inode is decides its operations. For an inode being made or read.
impl<T: FileSystem> NewINode<T> {
    /// A directory.
    pub fn set_directory(&self)
    where
        T: DirectoryOps,
    {
        // SAFETY: The inode is `I_NEW`: no operation runs on it. The tables are constants.
        unsafe {
            (*self.as_ptr()).i_op = super::dir::inode_ops::<T>().cast();
            (*self.as_ptr()).__bindgen_anon_3.i_fop = super::dir::file_ops::<T>().cast();
        }
    }

    /// A regular file.
    pub fn set_regular(&self)
    where
        T: FileOps + AddressSpaceOps,
    {
        // SAFETY: As in `set_directory`.
        unsafe {
            (*self.as_ptr()).i_op = super::file::inode_ops::<T>().cast();
            (*self.as_ptr()).__bindgen_anon_3.i_fop = super::file::file_ops::<T>().cast();
            (*(*self.as_ptr()).i_mapping).a_ops = crate::iomap::aops::<T>();
        }
    }

    /// A symbolic link; its target is asked of [`SymlinkOps::target`] when it is followed.
    pub fn set_symlink(&self)
    where
        T: SymlinkOps,
    {
        // SAFETY: As in `set_directory`.
        unsafe { (*self.as_ptr()).i_op = super::symlink::inode_ops::<T>().cast() };
    }

    /// A device, FIFO or socket, whose type is in the mode; `rdev` is the device number in the
    /// kernel's own encoding.
    pub fn set_special(&self, rdev: u32) {
        // SAFETY: As in `set_directory`; `init_special_inode` sets the file operations by type.
        unsafe {
            bindings::init_special_inode(self.as_ptr(), self.mode(), rdev);
            (*self.as_ptr()).i_op = super::symlink::special_inode_ops::<T>().cast();
        }
    }

    /// An inode of the filesystem's own, such as the journal: block mapping only.
    pub fn set_internal(&self)
    where
        T: AddressSpaceOps,
    {
        // SAFETY: As in `set_directory`.
        unsafe { (*(*self.as_ptr()).i_mapping).a_ops = crate::iomap::aops::<T>() };
    }
}

/// Callbacks of the superblock that make and free inode objects.
pub(super) struct SlotOps<T>(PhantomData<T>);

impl<T: FileSystem> SlotOps<T> {
    /// Called by the slab for each new object, once.
    ///
    /// # Safety
    ///
    /// Called by the slab alone, with a new object of the cache.
    pub(super) unsafe extern "C" fn init_once(ptr: *mut kernel::ffi::c_void) {
        // SAFETY: The slab gives an object of our size; the inode is at its head.
        unsafe { bindings::inode_init_once(ptr.cast()) };
    }

    /// Makes an inode object.
    ///
    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `alloc_inode`: the arguments live for the call.
    pub(super) unsafe extern "C" fn alloc_inode(
        sb: *mut bindings::super_block,
    ) -> *mut bindings::inode {
        // SAFETY: `s_type` of a superblock of `T` stands in a `Registration<T>`.
        let cache = unsafe { super::registration::inode_cache::<T>((*sb).s_type.cast()) };
        // SAFETY: Superblock and cache are live.
        let slot = unsafe { bindings::alloc_inode_sb(sb, cache, bindings::GFP_KERNEL) };
        let slot: *mut InodeSlot<T> = slot.cast();
        if slot.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: `data` is memory of the right size that nobody else sees.
        let data = unsafe { (&raw mut (*slot).data).cast::<T::InodeData>() };
        // SAFETY: On success the data is initialised and stays where it is until `free_inode`.
        if unsafe { pin_init::raw_try_init(data, T::inode_data()) }.is_err() {
            // SAFETY: The slot came from this cache and nobody has seen it.
            unsafe { bindings::kmem_cache_free(cache, slot.cast()) };
            return core::ptr::null_mut();
        }
        // SAFETY: `jbd` is memory of the right size that nobody else sees, in the inode's own slot;
        // `evict_inode` releases it.
        unsafe {
            let jbd = (&raw mut (*slot).jbd).cast::<JbdInode>();
            pin_init::raw_init(jbd, JbdInode::new(slot.cast()));
        }
        slot.cast()
    }

    /// Frees an inode object, after an RCU grace period.
    ///
    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `free_inode`: the arguments live for the call.
    pub(super) unsafe extern "C" fn free_inode(inode: *mut bindings::inode) {
        let slot: *mut InodeSlot<T> = inode.cast();
        // SAFETY: The VFS is done with the inode, and so are RCU readers: both parts were
        // initialised by `alloc_inode` and are dropped once.
        unsafe {
            (*slot).data.assume_init_drop();
            (*slot).jbd.assume_init_drop();
        }
        // SAFETY: The slot is a slab object; `kfree` finds its cache. The superblock may be gone.
        unsafe { bindings::kfree(slot.cast()) };
    }

    /// The last reference is gone.
    ///
    /// # Safety
    ///
    /// Called by the VFS alone, as its operation `evict_inode`: the arguments live for the call.
    pub(super) unsafe extern "C" fn evict_inode(ptr: *mut bindings::inode) {
        // SAFETY: The inode is live and ours until `clear_inode`.
        let inode = unsafe { INode::<T>::from_raw(ptr) };
        // SAFETY: No one else uses the inode; this waits for its write-back.
        unsafe { bindings::truncate_inode_pages_final(&raw mut (*ptr).i_data) };
        T::evict_inode(inode);
        inode.jbd().release();
        // SAFETY: The page cache is empty.
        unsafe { bindings::clear_inode(ptr) };
    }
}
