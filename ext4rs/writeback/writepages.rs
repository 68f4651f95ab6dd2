// SPDX-License-Identifier: GPL-2.0

//! Step 1, and the loop around it.

use super::{
    cap, completion, folio_blocks, mapping, ordered, page_to_block,
    submit::{Sender, Verdict},
};
use crate::{
    alloc,
    file::blocks_over,
    inode::Inode,
    journal::{self, Kind},
    map::{self, Fresh},
    report,
    volume::Ext4,
};
use ext4rs_vfs::{
    folio::{Folio, FolioBatch, LockedFolio},
    jbd2::ReservedHandle,
    mapping::Tag,
    plug::with_plug,
    writeback::{Control, Sent, Submitter},
};
use kernel::prelude::*;

/// Writes dirty folios of a file as `control` asks.
///
/// # Errors
///
/// `EROFS` if the volume takes no changes: the folios stay dirty. After a passing error they do so
/// too; those that can never be written are dropped, and the page cache keeps the error for fsync.
pub(crate) fn writepages(inode: &Inode, control: &mut Control) -> Result {
    if !inode.mapping().has_tagged(Tag::Dirty) {
        return Ok(());
    }
    inode.super_block().data().check_running()?;
    with_plug(|| {
        let mut pass = Pass::new(inode, control);
        let result = pass.run();
        pass.finish(result)
    })
}

/// One call of `writepages`.
///
/// # Invariants
///
/// - At most one folio is locked, and none while `submitter` has a bio or a window open and a
///   handle is started: [`Pass::start_handle`] closes both first (rule 5).
/// - Folios are locked in the order of their index while a bio is open.
pub(super) struct Pass<'a> {
    inode: &'a Inode,
    submitter: Submitter<'a, Ext4, Sender>,
    pages_scanned: u64,
    pages_written: u64,
    /// The first error of a call that goes on after errors.
    error: Option<Error>,
}

/// How a walk over a part of the file ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// All of it was looked at.
    Complete,
    /// The budget is spent; the index of the page to go on with.
    Spent(u64),
}

impl<'a> Pass<'a> {
    pub(super) fn new(inode: &'a Inode, control: &'a mut Control) -> Self {
        Self {
            inode,
            submitter: Submitter::new(inode, control, Sender::default()),
            pages_scanned: 0,
            pages_written: 0,
            error: None,
        }
    }

    /// Walks over what was asked for. A cyclic call wraps once, and only with budget left (rule 8).
    fn run(&mut self) -> Result {
        let mapping = self.inode.mapping();
        let control = self.submitter.control();
        if !control.is_cyclic() {
            let (first, last) = (control.first_index(), control.last_index());
            self.walk(first, last)?;
            return Ok(());
        }
        let start = mapping.writeback_index();
        let mut walk = self.walk(start, u64::MAX)?;
        if walk == Walk::Complete && start > 0 {
            walk = self.wrap(start)?;
        }
        mapping.set_writeback_index(match walk {
            Walk::Complete => 0,
            Walk::Spent(next) => next,
        });
        Ok(())
    }

    /// Goes on at the beginning of the file, up to where the call began. Nothing is open then: a
    /// folio that comes before an open bio must not be waited for.
    fn wrap(&mut self, start: u64) -> Result<Walk> {
        self.close_window()?;
        let counters = self.counters();
        counters.wraps.add(1);
        if self.submitter.control().budget() <= 0 {
            counters.wraps_no_budget.add(1);
        }
        self.walk(0, start.saturating_sub(1))
    }

    /// Writes the dirty folios with a page from `first` to `last`, each once.
    fn walk(&mut self, first: u64, last: u64) -> Result<Walk> {
        let mapping = self.inode.mapping();
        let control = self.submitter.control();
        let sync = control.is_sync();
        let tag = if sync || control.is_tagged() {
            mapping.tag_for_writeback(first, last);
            Tag::ToWrite
        } else {
            Tag::Dirty
        };
        let mut cursor = first;
        loop {
            let batch = self.find(&mut cursor, last, tag);
            if batch.is_empty() {
                return Ok(Walk::Complete);
            }
            for folio in batch.iter() {
                self.pages_scanned = self.pages_scanned.saturating_add(folio.nr_pages());
            }
            for folio in batch.iter() {
                match self.write_folio(folio, last) {
                    Ok(()) => {}
                    Err(e) if sync => {
                        self.error.get_or_insert(e);
                    }
                    Err(e) => return Err(e),
                }
                if self.is_spent() {
                    let next = folio.index().saturating_add(folio.nr_pages());
                    return Ok(Walk::Spent(next));
                }
            }
        }
    }

    /// Finds the next folios to look at. Where they lie close together, no more than the budget is
    /// for: those that are not sent now would be looked up again by the next call.
    fn find(&mut self, cursor: &mut u64, last: u64, tag: Tag) -> FolioBatch {
        let mapping = self.inode.mapping();
        let budget = u64::try_from(self.submitter.control().budget()).unwrap_or(0);
        let near = cursor.saturating_add(budget).saturating_sub(1).min(last);
        let batch = mapping.tagged(cursor, near, tag);
        if batch.is_empty() && near < last {
            return mapping.tagged(cursor, last, tag);
        }
        batch
    }

    /// Whether the call has written what it was asked for. A call for integrity writes all.
    fn is_spent(&mut self) -> bool {
        let control = self.submitter.control();
        !control.is_sync() && control.budget() <= 0
    }

    /// Sends a folio, if it is still to be written; maps it first if need be.
    ///
    /// Each turn but the last maps blocks of the folio or opens the window that it needs, so that
    /// there are no more turns than these; others may take the folio's blocks from under us, but
    /// then they map or send it themselves.
    fn write_folio(&mut self, folio: &Folio, last: u64) -> Result {
        let vol = self.inode.super_block().data();
        let blocks = page_to_block(vol, folio.nr_pages());
        for turn in 0..blocks.saturating_mul(2).saturating_add(4) {
            if turn > 1 {
                self.counters().retries.add(1);
            }
            let locked = folio.lock();
            if !self.is_wanted(&locked) {
                return Ok(());
            }
            match self.submitter.ops().examine(self.inode, &locked) {
                Ok(Verdict::Ready) => {
                    if self.send(locked)? {
                        return Ok(());
                    }
                }
                Ok(Verdict::Map(lblk)) => {
                    drop(locked);
                    let mapped = match self.map_run(lblk, folio.index(), last) {
                        // The handle has stopped, and nothing is open.
                        Err(e) if e == ENOSPC && alloc::commit_freed(self.inode.super_block()) => {
                            self.map_run(lblk, folio.index(), last)
                        }
                        mapped => mapped,
                    };
                    if let Err(e) = mapped {
                        return self.give_up(folio, e);
                    }
                }
                Ok(Verdict::Window) => {
                    drop(locked);
                    let (handle, reserved) = self.start_handle(0)?;
                    handle.stop()?;
                    self.open_window(reserved)?;
                }
                Ok(Verdict::ReadIn) => {
                    drop(locked);
                    self.close_window()?;
                    self.inode.mapping().read_in(folio.index())?;
                }
                Err(e) => {
                    drop(locked);
                    return self.give_up(folio, e);
                }
            }
        }
        self.give_up(folio, EIO)
    }

    /// Whether a folio is to be written. Waits for one that is being written, if the call is for
    /// integrity; it lies behind the open bio.
    fn is_wanted(&mut self, folio: &LockedFolio<'_>) -> bool {
        if !folio.belongs_to(self.inode.mapping()) || !folio.is_dirty() {
            return false;
        }
        if folio.is_writeback() {
            if !self.submitter.control().is_sync() {
                return false;
            }
            folio.wait_writeback();
        }
        true
    }

    /// Sends a folio that is ready. `false` if a part had to be left out: then nothing is open, and
    /// the folio is to be sent again.
    pub(super) fn send(&mut self, folio: LockedFolio<'_>) -> Result<bool> {
        match self.submitter.send(folio)? {
            Sent::Nothing => Ok(true),
            Sent::Pages(pages) => {
                self.pages_written = self.pages_written.saturating_add(pages);
                self.submitter.control().spend(pages);
                Ok(true)
            }
            Sent::Again => {
                self.close_window()?;
                Ok(false)
            }
        }
    }

    /// Whether a locked dirty folio can be sent with no handle for its end: each block in the file is
    /// written, or a hole. No window is open.
    pub(super) fn is_wholly_written(&mut self, folio: &LockedFolio<'_>) -> Result<bool> {
        Ok(self.submitter.ops().examine(self.inode, folio)? == Verdict::Ready)
    }

    /// Writes a part of a locked folio that stays dirty: see [`Submitter::write_part`].
    pub(super) fn write_part(
        &mut self,
        folio: &LockedFolio<'_>,
        pos: u64,
        len: u64,
        disk: u64,
    ) -> Result {
        self.submitter.write_part(folio, pos, len, disk)
    }

    /// Step 1: allocates the run of waiting blocks from `from` on, as far as it goes and may be
    /// mapped now, and opens a window over it.
    fn map_run(&mut self, from: u32, index: u64, last: u64) -> Result {
        let end = self.clip(from, index, last);
        let fresh = self.inode.super_block().data().options.lock().fresh();
        if fresh != Fresh::Unwritten {
            self.close_window()?;
            return mapping::map_written(self.inode, from, end, fresh).map(drop);
        }
        let (handle, reserved) = self.start_handle(map::credits_map(self.inode))?;
        let mapped = mapping::map_run(&handle, self.inode, from, end, fresh)?;
        handle.stop()?;
        // Otherwise somebody else was faster.
        if mapped.is_some() {
            self.open_window(reserved)?;
        }
        Ok(())
    }

    /// Up to which block step 1 may go from block `from`, which is in the folio at `index`: to the
    /// end of the range (`last`, in pages), of the budget, and the cap. All are moved to where a
    /// folio of any size ends, so that no folio stays half mapped (rule 3). The end of the file is
    /// seen to where it cannot move, under the mapping lock.
    fn clip(&mut self, from: u32, index: u64, last: u64) -> u32 {
        let vol = self.inode.super_block().data();
        let folio = u64::from(folio_blocks(vol));
        let budget = u64::try_from(self.submitter.control().budget()).unwrap_or(0);
        let pages = last
            .saturating_add(1)
            .min(index.saturating_add(budget.max(1)));
        let wanted = page_to_block(vol, pages)
            .checked_next_multiple_of(folio)
            .unwrap_or(u64::MAX);
        let capped = u64::from(from).saturating_add(cap(vol).into());
        let capped = capped.saturating_sub(capped.checked_rem(folio).unwrap_or(0));
        u32::try_from(wanted.min(capped)).unwrap_or(u32::MAX)
    }

    /// Starts a handle, and reserves what the end of a window needs. Nothing is open afterwards but
    /// the handle.
    fn start_handle(&mut self, credits: u32) -> Result<(journal::Handle<'a>, ReservedHandle)> {
        self.close_window()?;
        journal::start_reserving(
            self.inode.super_block(),
            credits,
            completion::credits(self.inode),
            Kind::WritePage,
        )
    }

    /// Opens a window.
    fn open_window(&mut self, reserved: ReservedHandle) -> Result {
        self.submitter.open_window(reserved)?;
        let blocks = cap(self.inode.super_block().data());
        self.submitter.ops().window_opened(blocks);
        Ok(())
    }

    /// Sends the open bio and closes the window, if they are open.
    pub(super) fn close_window(&mut self) -> Result {
        self.submitter.ops().window_closed();
        self.submitter.close_window()
    }

    /// A folio could not be mapped. If that may pass it stays dirty, as it does on a volume that has
    /// stopped; otherwise its data is dropped, or else it would be tried for ever (rule 9).
    fn give_up(&mut self, folio: &Folio, error: Error) -> Result {
        let sb = self.inode.super_block();
        if error == ENOMEM || error == EAGAIN || sb.data().is_stopped() {
            return Err(error);
        }
        self.close_window()?;
        report::warning(
            sb,
            "writepages",
            fmt!(
                "inode #{}: delayed block allocation failed at page {} with error {}: \
                 this should not happen, data will be lost",
                self.inode.ino(),
                folio.index(),
                error.to_errno()
            ),
        );
        let locked = folio.lock();
        let mapping = self.inode.mapping();
        if locked.belongs_to(mapping) {
            mapping.set_error(error);
            let blocks = blocks_over(self.inode, locked.pos(), locked.end())?;
            let len = blocks.end.saturating_sub(blocks.start);
            // What of it has its place is not dropped with the rest.
            if let Err(e) = ordered::write_unsent(self, self.inode, &locked) {
                mapping.set_error(e);
            }
            // Nobody writes to the folio, or looks whether it is dirty, before it is gone.
            map::release(self.inode, blocks.start, len, map::Which::All);
            locked.discard(mapping);
        }
        Err(error)
    }

    fn counters(&self) -> &'a super::Counters {
        &self.inode.super_block().data().writeback.counters
    }

    /// Sends what is open, and counts.
    pub(super) fn finish(mut self, result: Result) -> Result {
        let closed = self.close_window();
        let counters = self.counters();
        let sent = self.submitter.counts();
        counters.passes.add(1);
        counters.pages_scanned.add(self.pages_scanned);
        counters.pages_written.add(self.pages_written);
        counters.bios.add(sent.bios);
        counters.bio_bytes.add(sent.bytes);
        let control = self.submitter.control();
        if !control.is_sync() && control.budget() < 0 {
            counters
                .pages_over_budget
                .add(control.budget().unsigned_abs());
        }
        result?;
        closed?;
        self.error.map_or(Ok(()), Err)
    }
}
