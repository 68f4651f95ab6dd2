// SPDX-License-Identifier: GPL-2.0

//! The orphan file: blocks of inode numbers, 0 where a place is free.

use super::bad;
use crate::{inode, journal::Handle, map, metadata, report, volume::Sb};
use ext4rs_layout::{orphan, Seed};
use ext4rs_vfs::buffer_head::BufferHead;
use kernel::prelude::*;

/// A block of the file.
struct Block {
    buffer: BufferHead,
    /// Places that are free.
    free: usize,
}

/// The file, which neither grows nor moves.
pub(super) struct OrphanFile {
    /// The seed of the blocks' checksums.
    seed: Option<Seed>,
    /// Places in a block.
    places: usize,
    blocks: KVec<Block>,
    /// The block that the last search ended in.
    cursor: usize,
}

impl OrphanFile {
    /// Reads and checks the file.
    pub(super) fn load(sb: &Sb) -> Result<Self> {
        let vol = sb.data();
        let ino = vol.disk.orphan_file_inum;
        let corrupt = |args| report::corrupt(sb, "orphan_file", Some(ino.into()), None, args);
        let inode = inode::iget_internal(sb, ino)?;
        let count = inode.size() >> vol.geo.block_bits;
        if count > u64::from(orphan::MAX_BLOCKS) {
            return Err(corrupt(fmt!("orphan file too big: {} blocks", count)));
        }
        let seed = inode::checksum_seed(&inode);
        let places = orphan::places(usize::try_from(vol.geo.block_size)?);
        let mut blocks = KVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
        for nr in 0..u32::try_from(count)? {
            let map::Kind::Written(block) = map::lookup(&inode, nr, 1)?.kind else {
                return Err(corrupt(fmt!("orphan file block {} is not mapped", nr)));
            };
            let source = metadata::Source {
                function: "orphan_file",
                what: "orphan file block",
                ino: Some(ino.into()),
            };
            let buffer = metadata::read(sb, source, block, |bytes| {
                orphan::check_block(bytes, block, seed)
            })?;
            let used = buffer.read(|bytes| orphan::inodes(bytes).count());
            let free = places.saturating_sub(used);
            blocks.push(Block { buffer, free }, GFP_KERNEL)?;
        }
        Ok(Self {
            seed,
            places,
            blocks,
            cursor: 0,
        })
    }

    /// Whether no place is taken.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.free == self.places)
    }

    /// The block and the place in it that `at` stands for.
    fn locate(&self, at: u32) -> Option<(usize, usize)> {
        let at = usize::try_from(at).ok()?;
        Some((at.checked_div(self.places)?, at.checked_rem(self.places)?))
    }

    /// The inode at place `at` of all blocks', 0 if it is free; `None` behind the last.
    pub(super) fn get(&self, at: u32) -> Option<u32> {
        let (nr, i) = self.locate(at)?;
        let block = self.blocks.get(nr)?;
        block.buffer.read(|bytes| orphan::get(bytes, i))
    }

    /// Takes a free place for the inode, `None` if there is none. Changes one block.
    pub(super) fn add(&mut self, handle: &Handle<'_>, ino: u32) -> Result<Option<u32>> {
        let count = self.blocks.len();
        // `Init` has a method of that name too.
        let mut turn = Iterator::chain(self.cursor..count, 0..self.cursor);
        let has_room = |&nr: &usize| self.blocks.get(nr).is_some_and(|block| block.free > 0);
        let Some(nr) = turn.find(has_room) else {
            return Ok(None);
        };
        self.cursor = nr;
        let seed = self.seed;
        let Some(block) = self.blocks.get_mut(nr) else {
            return Ok(None);
        };
        let number = block.buffer.block();
        let place = handle.modify(&block.buffer, |bytes| {
            let place = orphan::find_free(bytes, 0)?;
            orphan::set(bytes, place, ino).ok()?;
            orphan::update_checksum(bytes, number, seed);
            Some(place)
        })?;
        let Some(place) = place else {
            // The count said otherwise.
            block.free = 0;
            return Ok(None);
        };
        block.free = block.free.saturating_sub(1);
        let at = nr
            .checked_mul(self.places)
            .and_then(|n| n.checked_add(place));
        at.map(|at| Ok(u32::try_from(at)?)).transpose()
    }

    /// Frees the place `at`. Changes one block.
    pub(super) fn del(&mut self, handle: &Handle<'_>, at: u32) -> Result {
        let Some((nr, i)) = self.locate(at) else {
            return Ok(());
        };
        let seed = self.seed;
        let Some(block) = self.blocks.get_mut(nr) else {
            return Ok(());
        };
        let number = block.buffer.block();
        let done = handle.modify(&block.buffer, |bytes| {
            orphan::set(bytes, i, 0)?;
            orphan::update_checksum(bytes, number, seed);
            Ok(())
        })?;
        done.map_err(|e| bad(handle.super_block(), number, e))?;
        block.free = block.free.saturating_add(1);
        Ok(())
    }
}
