// SPDX-License-Identifier: GPL-2.0

//! Write-back: dirty folios go to disk, in three steps.
//!
//! 1. *Map* ([`writepages`]). A folio with blocks that wait for allocation (DELALLOC) is let go,
//!    and then, with no folio locked and no bio open, the whole run of such blocks is taken from
//!    the inode's status tree, allocated as one extent and put into the tree of extents as
//!    unwritten, under one handle. Credits for step 3 are reserved with it.
//! 2. *Submit* ([`submit`]). Each folio is locked, its mapping looked up again, and sent. No handle
//!    is open, nothing is allocated.
//! 3. *Complete* ([`completion`]). When the last bio of a window is done, a worker converts its
//!    blocks to written ones and raises the size on disk, on the credits of step 1. Only then does
//!    the write-back of the folios end.
//!
//! The numbers of the rules in these files are those of `DESIGN.md`.

mod completion;
mod counters;
mod mapping;
mod ordered;
mod submit;
mod writepages;

pub(crate) use self::{mapping::map_now, writepages::writepages};

use self::counters::{Counters, GROUPS};
use crate::{
    inode::Inode,
    volume::{Sb, Volume},
};
use ext4rs_layout::extent::MAX_UNWRITTEN;
use ext4rs_vfs::{
    folio::{PAGE_SHIFT, PAGE_SIZE},
    sysfs::Directory,
    workqueue::Workqueue,
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{Arc, Mutex},
};

/// The largest folio of a file, as a power of two of pages: 2 MiB.
const MAX_FOLIO_ORDER: u32 = 9;

/// What write-back keeps for one volume.
#[pin_data]
pub(crate) struct WritebackState {
    /// Conversions run here, and nothing else does.
    queue: Workqueue,
    counters: Arc<Counters>,
    /// The volume's directory under `/sys/fs/ext4rs/`.
    #[pin]
    directory: Mutex<Option<Pin<KBox<Directory<Counters>>>>>,
}

impl WritebackState {
    /// The state of a volume that is being mounted, on the device `name`.
    pub(crate) fn new(name: &CStr) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            queue: Workqueue::new(&CString::try_from_fmt(fmt!("ext4rs-conv/{}", name))?)?,
            counters: Arc::pin_init(Counters::new(), GFP_KERNEL)?,
            directory <- new_mutex!(None, "ext4rs_sysfs"),
        }? Error)
    }
}

/// Shows the volume's counters under `/sys/fs/ext4rs/`.
pub(crate) fn register(sb: &Sb) -> Result {
    let state = &sb.data().writeback;
    state
        .counters
        .set_cap_bytes(u64::from(cap(sb.data())) << sb.data().geo.block_bits);
    let directory = Directory::new(sb, state.counters.clone(), GROUPS)?;
    *state.directory.lock() = Some(directory);
    Ok(())
}

/// Takes the counters from sight; waits for who looks at them.
pub(crate) fn unregister(sb: &Sb) {
    let directory = sb.data().writeback.directory.lock().take();
    drop(directory);
}

/// Waits for the conversions that are under way. With no write-back left none comes after.
pub(crate) fn drain(sb: &Sb) {
    sb.data().writeback.queue.flush();
}

/// Lets a regular file have large folios.
pub(crate) fn set_folio_sizes(inode: &Inode) {
    inode.mapping().set_large_folios(0, MAX_FOLIO_ORDER);
}

/// How many blocks the largest folio has.
fn folio_blocks(vol: &Volume) -> u32 {
    let bytes = PAGE_SIZE << MAX_FOLIO_ORDER;
    u32::try_from(bytes >> vol.geo.block_bits).unwrap_or(1)
}

/// How many blocks step 1 maps at most at a time: what one unwritten extent holds, in whole folios.
fn cap(vol: &Volume) -> u32 {
    let folio = folio_blocks(vol);
    MAX_UNWRITTEN.saturating_sub(MAX_UNWRITTEN.checked_rem(folio).unwrap_or(0))
}

/// The logical block that a page begins with, as far as block numbers go.
fn page_to_block(vol: &Volume, index: u64) -> u64 {
    let shift = PAGE_SHIFT.saturating_sub(vol.geo.block_bits);
    index.checked_mul(1 << shift).unwrap_or(u64::MAX)
}
