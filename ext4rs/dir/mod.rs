// SPDX-License-Identifier: GPL-2.0

//! Directories: their blocks, and what is done with names.
//!
//! A directory is a file of blocks of entries; an indexed one (`FL_INDEX`) has among them blocks
//! that hold a tree over the hashes of the names. [`linear`] looks at entries, block by block;
//! [`htree`] goes by the tree; [`edit`] finds and changes entries either way; [`ops`] is what the
//! VFS calls.
//!
//! Everything here runs with the directory's `i_rwsem` held, so that its blocks and its size stay
//! what they are but for what the caller itself changes.

mod create;
pub(crate) mod edit;
pub(crate) mod htree;
pub(crate) mod linear;
mod links;
pub(crate) mod listing;
pub(crate) mod ops;
mod rename;

use crate::{
    alloc::blocks,
    inode::{flags as inode_flags, Inode},
    journal::Handle,
    map::{self, Extent, Kind},
    report,
    volume::{Sb, Volume},
};
use core::cell::Cell;
use ext4rs_layout::{
    dir::{self, DirFormat},
    htree as format,
    inode::{FL_CASEFOLD, FL_ENCRYPT, FL_INDEX, FL_INLINE_DATA},
    Compat, Incompat, Seed,
};
use ext4rs_vfs::{buffer_head::BufferHead, plug::with_plug};
use kernel::{fmt::Arguments, prelude::*};

/// Blocks that are asked for ahead when a directory is read from one end to the other.
const READ_AHEAD: u32 = 16;

/// What a caller expects in a directory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Entries; where the directory is indexed, a block of the index is met in passing.
    Any,
    /// Entries, because the index says so.
    Leaf,
    /// A root or node of the index.
    Index,
}

/// A directory during one operation.
pub(crate) struct Dir<'a> {
    inode: &'a Inode,
    /// The format of its blocks.
    fmt: DirFormat,
    /// The seed of their checksums.
    seed: Option<Seed>,
    /// The run of blocks that was looked up last: directories are read in order.
    run: Cell<Option<Extent>>,
}

impl<'a> Dir<'a> {
    /// Begins an operation. The caller holds the directory's `i_rwsem`, as long as the value lives.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a directory whose names are stored in a way that is not known here.
    pub(crate) fn new(inode: &'a Inode) -> Result<Self> {
        let vol = inode.super_block().data();
        let flags = inode_flags(inode);
        let foreign = FL_INLINE_DATA | FL_ENCRYPT | FL_CASEFOLD;
        if flags & foreign != 0 {
            return Err(EOPNOTSUPP);
        }
        let ino = u32::try_from(inode.ino()).map_err(|_| EINVAL)?;
        Ok(Self {
            inode,
            fmt: format_of(vol),
            seed: vol.seed.map(|s| s.inode(ino, inode.generation())),
            run: Cell::new(None),
        })
    }

    /// The directory's inode.
    pub(crate) fn inode(&self) -> &'a Inode {
        self.inode
    }

    fn sb(&self) -> &'a Sb {
        self.inode.super_block()
    }

    fn vol(&self) -> &'a Volume {
        self.sb().data()
    }

    /// Whether the directory has an index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.vol().disk.compat.has(Compat::DIR_INDEX) && inode_flags(self.inode) & FL_INDEX != 0
    }

    /// The directory has an index from now on. The caller dirties the inode.
    fn set_indexed(&self) {
        self.inode.data().raw.lock().flags |= FL_INDEX;
    }

    /// The index is not used any more: the directory is one without. The caller dirties the inode.
    fn forget_index(&self) {
        self.inode.data().raw.lock().flags &= !FL_INDEX;
    }

    /// What is expected in block `lblk` by someone who goes through all of them.
    fn want_at(&self, lblk: u32) -> Want {
        if lblk == 0 && self.is_indexed() {
            Want::Index
        } else {
            Want::Any
        }
    }

    /// How many blocks the directory has, holes included.
    pub(crate) fn blocks(&self) -> u32 {
        let blocks = self.inode.size() >> self.vol().geo.block_bits;
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// The run of equally mapped blocks that holds block `lblk`; its end is behind `lblk`.
    fn run_at(&self, lblk: u32) -> Result<Extent> {
        let holds = |run: &Extent| {
            lblk.checked_sub(run.lblk)
                .is_some_and(|into| into < run.len)
        };
        if let Some(run) = self.run.get().filter(holds) {
            return Ok(run);
        }
        let max = self.blocks().saturating_sub(lblk).max(1);
        let run = map::lookup(self.inode, lblk, max)?;
        if !holds(&run) {
            return Err(EINVAL);
        }
        self.run.set(Some(run));
        Ok(run)
    }

    /// The format of the entries of block `lblk`. The root of an index has no entry with a checksum,
    /// but can show one that its block had before.
    fn entry_format(&self, lblk: u32) -> DirFormat {
        DirFormat {
            checksums: self.fmt.checksums && !(self.is_indexed() && lblk == 0),
            ..self.fmt
        }
    }

    /// Where block `lblk` lies on disk; `None` for a hole. Preallocated blocks are holes.
    fn physical(&self, lblk: u32) -> Result<Option<u64>> {
        let run = self.run_at(lblk)?;
        Ok(match run.kind {
            Kind::Written(first) => {
                let into = u64::from(lblk.saturating_sub(run.lblk));
                Some(first.checked_add(into).ok_or(EFSCORRUPTED)?)
            }
            _ => None,
        })
    }

    /// The first block at or behind `lblk` that is there, skipping holes; `None` at the end.
    pub(crate) fn next_block(&self, mut lblk: u32) -> Result<Option<u32>> {
        while lblk < self.blocks() {
            let run = self.run_at(lblk)?;
            // The first block is never a hole: reading it says so if it is.
            if lblk == 0 || matches!(run.kind, Kind::Written(_)) {
                return Ok(Some(lblk));
            }
            lblk = run.lblk.saturating_add(run.len);
        }
        Ok(None)
    }

    /// Asks for the blocks from `lblk` on that the caller will come to next.
    pub(crate) fn read_ahead(&self, lblk: u32) -> Result {
        let end = lblk.saturating_add(READ_AHEAD).min(self.blocks());
        if end.saturating_sub(lblk) < 2 {
            return Ok(());
        }
        with_plug(|| {
            for lblk in lblk..end {
                if let Some(block) = self.physical(lblk)? {
                    self.sb().readahead(block);
                }
            }
            Ok(())
        })
    }

    /// As [`Dir::read_ahead`], when `lblk` is the first block of a group of that many.
    fn read_ahead_in_groups(&self, lblk: u32) -> Result {
        if lblk % READ_AHEAD == 0 {
            self.read_ahead(lblk)?;
        }
        Ok(())
    }

    /// Reads block `lblk` and checks what can be checked of it as a whole, once while it is in
    /// memory. `None` for a hole where one is possible: in a block that is wanted as [`Want::Any`]
    /// and is not the first.
    ///
    /// # Errors
    ///
    /// `EIO`, or `EFSCORRUPTED` or `EFSBADCRC`, reported.
    pub(crate) fn read(&self, lblk: u32, want: Want) -> Result<Option<BufferHead>> {
        if lblk >= self.blocks() {
            let size = self.inode.size();
            return Err(self.corrupt(
                "read_dirblock",
                None,
                fmt!("Attempting to read directory block ({lblk}) that is past i_size ({size})"),
            ));
        }
        let Some(block) = self.physical(lblk)? else {
            if want == Want::Any && lblk != 0 {
                return Ok(None);
            }
            let kind = if want == Want::Index { "index" } else { "leaf" };
            return Err(self.corrupt(
                "read_dirblock",
                None,
                fmt!("Directory hole found for htree {kind} block {lblk}"),
            ));
        };
        let buffer = self.sb().bread(block).inspect_err(|e| {
            let ino = self.inode.ino();
            report::warning(
                self.sb(),
                "read_dirblock",
                fmt!("inode #{ino}: lblock {lblk}: error {e:?} reading directory block"),
            );
        })?;
        self.verify(&buffer, lblk, want)?;
        Ok(Some(buffer))
    }

    /// Checks a block's kind and checksum.
    fn verify(&self, buffer: &BufferHead, lblk: u32, want: Want) -> Result {
        let is_index =
            self.is_indexed() && buffer.read(|b| dir::is_index_block(b, lblk, &self.fmt));
        if want == Want::Index && !is_index {
            return Err(self.corrupt(
                "read_dirblock",
                Some(buffer.block()),
                fmt!("directory leaf block found instead of index block"),
            ));
        }
        // Without a checksum a leaf that has no entries looks like a node, so only who comes from
        // the index knows which it is. A node met in passing is not looked into.
        if want == Want::Leaf && is_index && (lblk == 0 || self.fmt.checksums) {
            return Err(self.corrupt(
                "read_dirblock",
                Some(buffer.block()),
                fmt!("directory index block found instead of leaf block"),
            ));
        }
        if buffer.is_verified() || (is_index && want != Want::Index) {
            return Ok(());
        }
        buffer
            .read(|b| {
                if is_index {
                    format::verify(b, &self.fmt, self.seed)
                } else {
                    dir::verify(b, &self.fmt, self.seed)
                }
            })
            .map_err(|e| self.bad("read_dirblock", buffer, e))?;
        if self.seed.is_some() {
            buffer.set_verified();
        }
        Ok(())
    }

    /// Adds a block to the directory's end, filled by `init`, which sees zeros, under a spinlock; the
    /// block's checksum is its to make.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the volume is full or the directory cannot grow any more. Nothing is changed
    /// then.
    pub(crate) fn append(
        &self,
        handle: &Handle<'_>,
        init: impl FnOnce(&mut [u8]) -> ext4rs_layout::Result<()>,
    ) -> Result<BufferHead> {
        let lblk = self.blocks();
        let size = self
            .inode
            .size()
            .checked_add(self.vol().geo.block_size.into())
            .filter(|&size| self.may_be_as_large_as(size))
            .ok_or(ENOSPC)?;
        let (block, is_new) = map::allocate_block(handle, self.inode, lblk)?;
        if !is_new {
            return Err(self.corrupt("append", None, fmt!("Logical block already allocated")));
        }
        let (buffer, filled) = handle.create(block, init)?;
        filled.map_err(|e| self.bad("append", &buffer, e))?;
        self.run.set(None);
        self.inode.set_size(size);
        self.inode.data().raw.lock().disk_size = size;
        crate::inode::mark_dirty(handle, self.inode)?;
        Ok(buffer)
    }

    /// Whether the format lets the directory have `size` bytes: without `large_dir` the upper half
    /// of a directory's size is used for something else.
    fn may_be_as_large_as(&self, size: u64) -> bool {
        self.vol().disk.incompat.has(Incompat::LARGEDIR) || u32::try_from(size).is_ok()
    }

    /// Gives back the only block of a directory that was made, and is given up, in this handle; and
    /// what the block was filled with, which would otherwise be written over its next user's data.
    ///
    /// # Errors
    ///
    /// The volume has stopped.
    pub(crate) fn undo_append(&self, handle: &Handle<'_>, buffer: BufferHead) -> Result {
        let run = blocks::Run {
            start: buffer.block(),
            len: 1,
        };
        handle.forget(buffer)?;
        blocks::undo(handle, self.sb(), run, blocks::Pool::Free)
    }

    /// Reports the directory as corrupt, at `block` of the disk if it is about one.
    fn corrupt(&self, function: &str, block: Option<u64>, args: Arguments<'_>) -> Error {
        report::corrupt(self.sb(), function, Some(self.inode.ino()), block, args)
    }

    /// Reports what a decoder said of a block.
    fn bad(&self, function: &str, buffer: &BufferHead, e: ext4rs_layout::Error) -> Error {
        let ino = Some(self.inode.ino());
        report::from_layout(self.sb(), function, ino, Some(buffer.block()), e)
    }

    /// Reports a bad entry of a block of entries, as ext4's `__ext4_check_dir_entry` does.
    fn bad_entry(
        &self,
        function: &str,
        buffer: &BufferHead,
        lblk: u32,
        e: ext4rs_layout::Error,
    ) -> Error {
        if !matches!(e, ext4rs_layout::Error::Corrupt(_)) {
            return self.bad(function, buffer, e);
        }
        // Where the good entries end.
        let fmt = self.entry_format(lblk);
        let offset = buffer.read(|b| {
            dir::entries(b, &fmt).map_or(0, |entries| {
                entries
                    .map_while(|e| e.ok())
                    .last()
                    .map_or(0, |e| e.offset.saturating_add(e.rec_len))
            })
        });
        self.corrupt(
            function,
            Some(buffer.block()),
            fmt!(
                "lblock {lblk}: bad entry in directory: {} - offset={offset}, size={}",
                e.as_str(),
                buffer.size()
            ),
        )
    }
}

/// The format of the directories of a volume.
pub(crate) fn format_of(vol: &Volume) -> DirFormat {
    DirFormat::new(
        &vol.geo,
        vol.seed.is_some(),
        vol.disk.incompat.has(Incompat::FILETYPE),
    )
}
