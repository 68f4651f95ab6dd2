// SPDX-License-Identifier: GPL-2.0

//! A volume in memory with one file on it: what the mapping uses of the rooms below.

use crate::{kernel_model::might_sleep, Rng};
use ext4rs_layout::{Geometry, Seed, SuperBlock};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

pub(crate) mod volume {
    use super::*;
    use crate::{buffer_head::BufferHead, kernel_model::prelude::*};

    /// What the mapping reads of a mounted volume.
    pub(crate) struct Volume {
        pub(crate) disk: SuperBlock,
        pub(crate) geo: Geometry,
        pub(crate) seed: Option<Seed>,
    }

    /// A volume, its blocks and its free space.
    pub(crate) struct Sb {
        volume: Volume,
        pub(super) blocks: RefCell<HashMap<u64, BufferHead>>,
        /// Blocks in use.
        pub(crate) used: RefCell<BTreeSet<u64>>,
        /// Blocks promised to delayed allocation.
        pub(crate) delayed: Cell<u64>,
        /// Allocations that succeed before one fails; `None`: all.
        pub(crate) allocations: Cell<Option<u32>>,
        /// The longest run that an allocation gives.
        pub(crate) longest: Cell<u32>,
        pub(super) rng: RefCell<Rng>,
    }

    impl Sb {
        /// A volume with so many blocks of so many bytes, a power of two.
        pub(crate) fn new(blocks_count: u64, block_size: u32, seed: u64) -> Self {
            let disk = SuperBlock::decode(&super_block()).unwrap();
            let mut geo = disk.geometry().unwrap();
            geo.blocks_count = blocks_count;
            geo.block_size = block_size;
            geo.block_bits = block_size.trailing_zeros();
            // Each allocation may be in a group of its own.
            geo.groups_count = 1 << 20;
            geo.desc_blocks = 1 << 20;
            Self {
                volume: Volume {
                    disk,
                    geo,
                    seed: Some(Seed(0x1234_5678)),
                },
                blocks: RefCell::default(),
                used: RefCell::new((0..geo.first_data_block as u64 + 1).collect()),
                delayed: Cell::new(0),
                allocations: Cell::new(None),
                longest: Cell::new(u32::MAX),
                rng: RefCell::new(Rng::new(seed)),
            }
        }

        pub(crate) fn data(&self) -> &Volume {
            &self.volume
        }

        pub(crate) fn bread(&self, block: u64) -> Result<BufferHead> {
            might_sleep();
            if block >= self.volume.geo.blocks_count {
                return Err(EIO);
            }
            let size = self.volume.geo.block_size as usize;
            let mut blocks = self.blocks.borrow_mut();
            let buffer = blocks
                .entry(block)
                .or_insert_with(|| BufferHead::new(block, size));
            Ok(buffer.clone())
        }

        pub(crate) fn free(&self) -> u64 {
            self.volume.geo.blocks_count - self.used.borrow().len() as u64
        }

        /// Forgets which blocks were found good: as after a mount.
        pub(crate) fn forget_verified(&self) {
            for buffer in self.blocks.borrow().values() {
                buffer.clear_verified();
            }
        }
    }

    /// A superblock that decodes; the numbers do not matter.
    fn super_block() -> [u8; 1024] {
        let mut raw = [0; 1024];
        let mut put = |at: usize, value: u32, len: usize| {
            raw[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        put(0x00, 1024, 4); // inodes
        put(0x04, 8192, 4); // blocks
        put(0x14, 1, 4); // first data block, of 1 KiB
        put(0x20, 8192, 4); // blocks per group
        put(0x24, 8192, 4); // clusters per group
        put(0x28, 1024, 4); // inodes per group
        put(0x38, 0xef53, 2); // magic
        put(0x4c, 1, 4); // revision
        put(0x54, 11, 4); // first inode
        put(0x58, 256, 2); // inode size
        put(0xe0, 8, 4); // journal
        raw
    }
}

pub(crate) mod buffer_head {
    use super::*;
    use crate::kernel_model::{enter_atomic, leave_atomic};

    struct Block {
        number: u64,
        bytes: RefCell<Vec<u8>>,
        verified: Cell<bool>,
    }

    #[derive(Clone)]
    pub(crate) struct BufferHead(Rc<Block>);

    impl BufferHead {
        pub(super) fn new(number: u64, size: usize) -> Self {
            Self(Rc::new(Block {
                number,
                bytes: RefCell::new(vec![0xa5; size]),
                verified: Cell::new(false),
            }))
        }

        pub(crate) fn block(&self) -> u64 {
            self.0.number
        }

        pub(crate) fn size(&self) -> usize {
            self.0.bytes.borrow().len()
        }

        pub(crate) fn is_verified(&self) -> bool {
            self.0.verified.get()
        }

        pub(crate) fn set_verified(&self) {
            self.0.verified.set(true);
        }

        pub(super) fn clear_verified(&self) {
            self.0.verified.set(false);
        }

        pub(crate) fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
            enter_atomic(false);
            let result = f(&self.0.bytes.borrow());
            leave_atomic();
            result
        }

        /// Changes the bytes, as a handle may, or as somebody who damages the volume.
        pub(crate) fn write<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> R {
            enter_atomic(false);
            let result = f(&mut self.0.bytes.borrow_mut());
            leave_atomic();
            result
        }
    }
}

pub(crate) mod journal {
    use super::{volume::Sb, *};
    use crate::{buffer_head::BufferHead, kernel_model::prelude::*};

    /// What a handle changes.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Changed {
        Block(u64),
        /// The bitmap, or the descriptor, of the group of an allocated run.
        Bitmap(u64),
        Descriptor(u64),
        Inode,
    }

    /// A handle that may change so many blocks, and revoke so many; more fail the test.
    pub(crate) struct Handle<'a> {
        sb: &'a Sb,
        credits: Cell<u32>,
        revokes: Cell<u32>,
        changed: RefCell<BTreeSet<Changed>>,
        /// How often it got a new transaction.
        pub(crate) restarts: Cell<u32>,
    }

    impl<'a> Handle<'a> {
        pub(crate) fn new(sb: &'a Sb, credits: u32) -> Self {
            Self::freeing(sb, credits, 0)
        }

        pub(crate) fn freeing(sb: &'a Sb, credits: u32, revokes: u32) -> Self {
            Self {
                sb,
                credits: Cell::new(credits),
                revokes: Cell::new(revokes),
                changed: RefCell::default(),
                restarts: Cell::new(0),
            }
        }

        pub(crate) fn credits_left(&self) -> u32 {
            self.credits.get() - self.changed.borrow().len() as u32
        }

        pub(crate) fn revokes_left(&self) -> u32 {
            self.revokes.get()
        }

        /// Now and then there is no room in the transaction.
        pub(crate) fn extend(&self, credits: u32, revokes: u32) -> Result<bool> {
            if self.sb.rng.borrow_mut().once_in(3) {
                return Ok(false);
            }
            self.credits.set(self.credits.get() + credits);
            self.revokes.set(self.revokes.get() + revokes);
            Ok(true)
        }

        pub(crate) fn ensure(&mut self, credits: u32, revokes: u32) -> Result {
            might_sleep();
            let more = credits.saturating_sub(self.credits_left());
            let more_revokes = revokes.saturating_sub(self.revokes_left());
            if (more > 0 || more_revokes > 0) && !self.extend(more, more_revokes)? {
                self.changed.borrow_mut().clear();
                self.credits.set(credits);
                self.revokes.set(revokes);
                self.restarts.set(self.restarts.get() + 1);
            }
            Ok(())
        }

        pub(super) fn revoke(&self) {
            let left = self.revokes.get().checked_sub(1);
            self.revokes.set(left.expect("more revokes than asked for"));
        }

        pub(super) fn change(&self, what: Changed) {
            might_sleep();
            let mut changed = self.changed.borrow_mut();
            changed.insert(what);
            assert!(
                changed.len() <= self.credits.get() as usize,
                "more than {} credits",
                self.credits.get()
            );
        }

        pub(crate) fn modify<R>(
            &self,
            buffer: &BufferHead,
            f: impl FnOnce(&mut [u8]) -> R,
        ) -> Result<R> {
            self.change(Changed::Block(buffer.block()));
            Ok(buffer.write(f))
        }

        pub(crate) fn create<R>(
            &self,
            block: u64,
            f: impl FnOnce(&mut [u8]) -> R,
        ) -> Result<(BufferHead, R)> {
            self.change(Changed::Block(block));
            let buffer = self.sb.bread(block)?;
            let result = buffer.write(|bytes| {
                bytes.fill(0);
                f(bytes)
            });
            buffer.set_verified();
            Ok((buffer, result))
        }
    }
}

pub(crate) mod alloc {
    use super::{volume::Sb, *};
    use crate::kernel_model::prelude::*;

    pub(crate) fn valid_blocks(sb: &Sb, start: u64, count: u32, _journal: bool) -> bool {
        sb.data().geo.valid_blocks(start, count.into())
    }

    pub(crate) mod space {
        use super::*;

        pub(crate) fn reserve(sb: &Sb, blocks: u64) -> Result {
            let delayed = sb.delayed.get() + blocks;
            if delayed > sb.free() {
                return Err(ENOSPC);
            }
            sb.delayed.set(delayed);
            Ok(())
        }

        pub(crate) fn unreserve(sb: &Sb, blocks: u64) {
            let delayed = sb.delayed.get().checked_sub(blocks);
            sb.delayed.set(delayed.expect("more given back than taken"));
        }
    }

    pub(crate) mod blocks {
        use super::*;
        use crate::{
            inode::Inode,
            journal::{Changed, Handle},
            report,
        };

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            Data,
            Metadata,
        }

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Pool {
            Free,
            Delayed,
            Completion,
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Request {
            pub(crate) goal: u64,
            pub(crate) want: u32,
            pub(crate) kind: Kind,
            pub(crate) from: Pool,
        }

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct Run {
            pub(crate) start: u64,
            pub(crate) len: u32,
        }

        pub(crate) fn goal(_: &Inode, lblk: u32, neighbour: Option<(u32, u64)>) -> u64 {
            neighbour.map_or(0, |(at, block)| {
                (block + u64::from(lblk)).saturating_sub(at.into())
            })
        }

        pub(crate) fn metadata_goal(_: &Inode) -> u64 {
            0
        }

        /// The first free block at or after the goal, or now and then after another one, and some
        /// of those after it.
        pub(crate) fn allocate(
            handle: &Handle<'_>,
            inode: &Inode,
            request: &Request,
        ) -> Result<Run> {
            might_sleep();
            let sb = inode.super_block();
            match sb.allocations.get() {
                Some(0) => return Err(ENOSPC),
                Some(left) => sb.allocations.set(Some(left - 1)),
                None => {}
            }
            let end = sb.data().geo.blocks_count;
            let mut used = sb.used.borrow_mut();
            let free = |block: &u64| !used.contains(block);
            let mut rng = sb.rng.borrow_mut();
            let goal = if rng.once_in(3) {
                rng.below(end as u32).into()
            } else {
                request.goal
            };
            let start = (goal..end).chain(0..end).find(free).ok_or(ENOSPC)?;
            let len = rng.length(request.want.min(sb.longest.get()));
            let len = (start..end).take(len as usize).take_while(free).count() as u32;
            used.extend(start..start + u64::from(len));
            handle.change(Changed::Bitmap(start));
            handle.change(Changed::Descriptor(start));
            drop(used);
            if request.from == Pool::Delayed {
                space::unreserve(sb, len.into());
            }
            Ok(Run { start, len })
        }

        /// Frees a run; one of metadata block by block.
        pub(crate) fn free(handle: &Handle<'_>, inode: &Inode, run: Run, kind: Kind) -> Result {
            might_sleep();
            handle.change(Changed::Bitmap(run.start));
            handle.change(Changed::Descriptor(run.start));
            for block in run.start..run.start + u64::from(run.len) {
                let sb = inode.super_block();
                if !sb.used.borrow_mut().remove(&block) {
                    report::corrupt(sb, "free", None, Some(block), format_args!("freed twice"));
                    continue;
                }
                if kind == Kind::Metadata || !inode.is_reg() {
                    handle.revoke();
                }
            }
            Ok(())
        }

        pub(crate) fn undo(_: &Handle<'_>, sb: &Sb, run: Run, from: Pool) -> Result {
            might_sleep();
            for block in run.start..run.start + u64::from(run.len) {
                assert!(sb.used.borrow_mut().remove(&block), "freed twice");
            }
            if from == Pool::Delayed {
                sb.delayed.set(sb.delayed.get() + u64::from(run.len));
            }
            Ok(())
        }
    }
}

pub(crate) mod inode {
    use super::{volume::Sb, *};
    use crate::{
        journal::{Changed, Handle},
        kernel_model::{prelude::*, sync::SpinLock},
        map::Map,
    };
    use ext4rs_layout::{extent::NodeMut, inode::I_BLOCK_SIZE};

    pub(crate) const CREDITS_DIRTY: u32 = 1;

    pub(crate) struct RawInode {
        pub(crate) i_block: [u8; I_BLOCK_SIZE],
        pub(crate) disk_size: u64,
    }

    pub(crate) struct InodeInfo {
        pub(crate) map: Map,
        pub(crate) raw: SpinLock<RawInode>,
    }

    /// A file.
    pub(crate) struct Inode {
        sb: Sb,
        info: InodeInfo,
        pub(crate) size: Cell<u64>,
        pub(crate) bytes: Cell<u64>,
        /// A directory's blocks are metadata.
        pub(crate) is_dir: Cell<bool>,
        /// What of the inode a handle has put into the inode table.
        pub(crate) on_disk: RefCell<([u8; I_BLOCK_SIZE], u64)>,
    }

    impl Inode {
        /// An empty file, the only one of a volume.
        pub(crate) fn new(sb: Sb) -> Self {
            let mut i_block = [0; I_BLOCK_SIZE];
            NodeMut::format(&mut i_block, 0).unwrap();
            Self {
                sb,
                info: InodeInfo {
                    map: Map::new().value(),
                    raw: SpinLock::new(RawInode {
                        i_block,
                        disk_size: 0,
                    }),
                },
                size: Cell::new(0),
                bytes: Cell::new(0),
                is_dir: Cell::new(false),
                on_disk: RefCell::new((i_block, 0)),
            }
        }

        pub(crate) fn super_block(&self) -> &Sb {
            &self.sb
        }

        pub(crate) fn data(&self) -> &InodeInfo {
            &self.info
        }

        pub(crate) fn ino(&self) -> u64 {
            12
        }

        pub(crate) fn size(&self) -> u64 {
            self.size.get()
        }

        pub(crate) fn set_size(&self, size: u64) {
            self.size.set(size);
        }

        pub(crate) fn is_reg(&self) -> bool {
            !self.is_dir.get()
        }

        pub(crate) fn sub_bytes(&self, bytes: u64) {
            self.bytes.set(self.bytes.get() - bytes);
        }

        pub(crate) fn add_bytes(&self, bytes: u64) {
            self.bytes.set(self.bytes.get() + bytes);
        }

        pub(crate) fn root(&self) -> [u8; I_BLOCK_SIZE] {
            self.info.raw.lock().i_block
        }
    }

    pub(crate) fn checksum_seed(inode: &Inode) -> Option<Seed> {
        let seed = inode.super_block().data().seed?;
        Some(seed.inode(12, 1))
    }

    pub(crate) fn note_transaction(_: &Handle<'_>, _: &Inode, data: bool) {
        assert!(data, "fdatasync has to wait for a change of the mapping");
    }

    pub(crate) fn mark_dirty(handle: &Handle<'_>, inode: &Inode) -> Result {
        handle.change(Changed::Inode);
        *inode.on_disk.borrow_mut() = (inode.root(), inode.bytes.get());
        Ok(())
    }
}

pub(crate) mod memalloc {
    pub(crate) fn with_nofs<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

pub(crate) mod rwsem {
    use super::*;
    use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) struct RwSemaphore<T>(RwLock<T>);

    impl<T> RwSemaphore<T> {
        pub(crate) fn new(value: T, _name: &'static core::ffi::CStr, _key: ()) -> Self {
            Self(RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            might_sleep();
            self.0.try_read().expect("deadlock")
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            might_sleep();
            self.0.try_write().expect("deadlock")
        }
    }
}

pub(crate) mod report {
    use super::{volume::Sb, *};
    use crate::kernel_model::{fmt::Arguments, prelude::*};

    thread_local! {
        static DAMAGED: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on a volume of this thread may be found corrupt; before that it fails the test.
    pub(crate) fn expect_damage() {
        DAMAGED.set(true);
    }

    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Place {
        pub(crate) ino: Option<u64>,
        pub(crate) block: Option<u64>,
    }

    pub(crate) fn error(
        _: &Sb,
        function: &str,
        place: Place,
        errno: Error,
        args: Arguments<'_>,
    ) -> Error {
        might_sleep();
        assert!(DAMAGED.get(), "{function}: {place:?}: {args}");
        errno
    }

    pub(crate) fn corrupt(
        sb: &Sb,
        function: &str,
        ino: Option<u64>,
        block: Option<u64>,
        args: Arguments<'_>,
    ) -> Error {
        error(sb, function, Place { ino, block }, EFSCORRUPTED, args)
    }

    pub(crate) fn from_layout(
        sb: &Sb,
        function: &str,
        ino: Option<u64>,
        block: Option<u64>,
        e: ext4rs_layout::Error,
    ) -> Error {
        corrupt(sb, function, ino, block, format_args!("{e}"))
    }
}
