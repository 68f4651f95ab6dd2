// SPDX-License-Identifier: GPL-2.0

//! Allocation of blocks: one call, one contiguous run in one group.
//!
//! The choice has three steps, each from the goal's group on through all others:
//!
//! 1. a run of the whole length (of nearly all of it, if it is great) that keeps off the windows of
//!    other files ([`super::windows`]) and, for data, off the first group of a flex group, where
//!    inodes, directories and extent blocks gather; then one that keeps off windows only;
//! 2. such a run anywhere;
//! 3. at least half of the longest run that any group is known to have, again and again, down to
//!    one block.
//!
//! A group is looked into only if it may hold such a run: by the longest run that it is known to
//! have, or by its free count as long as its bitmap was not looked at. One call reads the bitmaps
//! of few groups; only the last resort reads them all.

pub(crate) use super::free::free;

use super::{
    buddy::{self, Span, Wish},
    groups::{self, Bitmap, Which},
    held::HeldRuns,
    orlov::ring,
    space::{self, Depth},
};
use crate::{
    inode::Inode,
    journal::{self, Handle},
    volume::{Group, Sb, Volume},
};
use ext4rs_layout::{bitmap, group, GroupDesc};
use kernel::{prelude::*, sync::atomic::ordering::Relaxed};

/// Bitmaps never looked at before that one call reads, the last resort apart.
const READS: u32 = 8;

/// Bytes from which on a request to the device is a large one.
const LARGE_REQUEST: u32 = 512 * 1024;

/// The smallest window, in blocks.
const WINDOW_MIN: u64 = 64;

/// Groups of a flex group from which on its first one is kept for directories and other metadata
/// (`EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME`).
const FLEX_FOR_METADATA: u32 = 4;

/// What blocks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file's own blocks. Those of directories and symlinks are treated as metadata.
    Data,
    /// Extent blocks.
    Metadata,
}

/// Out of which part of the free space an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// What nobody has been promised.
    Free,
    /// What [`space::reserve`] promised. The promise ends with the allocation.
    Delayed,
    /// What nobody has been promised, with all that is kept back: for the metadata of write-back,
    /// which must not fail.
    Completion,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The block to begin at if possible; see [`goal`].
    pub(crate) goal: u64,
    /// The greatest number of blocks; not 0.
    pub(crate) want: u32,
    /// What they are for.
    pub(crate) kind: Kind,
    /// Where they come from.
    pub(crate) from: Pool,
}

/// Blocks of the volume, one after another in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first block.
    pub(crate) start: u64,
    /// How many. Not 0.
    pub(crate) len: u32,
}

/// The best place for logical block `lblk` of a file: where it would lie if the file went on from
/// `neighbour`, the nearest extent's logical and physical block, without a break
/// (`ext4_ext_find_goal`). Without one, the start of the group that the inode's data belongs to
/// (`ext4_inode_to_goal_block`).
pub(crate) fn goal(inode: &Inode, lblk: u32, neighbour: Option<(u32, u64)>) -> u64 {
    let near = neighbour.and_then(|(at, block)| {
        if lblk >= at {
            block.checked_add(u64::from(lblk.saturating_sub(at)))
        } else {
            block.checked_sub(u64::from(at.saturating_sub(lblk)))
        }
    });
    near.unwrap_or_else(|| home(inode, inode.is_reg()))
}

/// The best place for an extent block of a file: with the other metadata of its flex group, where
/// it breaks no file's run.
pub(crate) fn metadata_goal(inode: &Inode) -> u64 {
    home(inode, false)
}

fn home(inode: &Inode, data: bool) -> u64 {
    let geo = &inode.super_block().data().geo;
    let own = u32::try_from(inode.ino())
        .ok()
        .and_then(|ino| geo.inode_place(ino))
        .map_or(0, |place| place.group);
    let per_flex = geo.groups_per_flex();
    if per_flex < FLEX_FOR_METADATA {
        return geo.group_first_block(own);
    }
    let first = own.saturating_sub(own.checked_rem(per_flex).unwrap_or(0));
    let group = first.saturating_add(u32::from(data));
    geo.group_first_block(if group < geo.groups_count {
        group
    } else {
        first
    })
}

/// Allocates a run of at most `request.want` blocks, marked in bitmap, descriptor and counters.
///
/// The mapping lock of the inode may be held; the group lock is taken. Sleeps. Takes two credits, for
/// the block bitmap and the descriptor of one group; an [`undo`] in the same handle takes none.
///
/// # Errors
///
/// `ENOSPC` if the pool has no block; `ENOMEM`; `EROFS` if the handle is aborted. Groups that are
/// found corrupt are reported and passed over.
pub(crate) fn allocate(handle: &Handle<'_>, inode: &Inode, request: &Request) -> Result<Run> {
    let vol = inode.super_block().data();
    let want = request.want.min(vol.geo.blocks_per_group);
    if want == 0 {
        return Err(EINVAL);
    }
    let want = match request.from {
        Pool::Free => promise(vol, want, Depth::Ordinary)?,
        Pool::Completion => promise(vol, want, Depth::Pool)?,
        Pool::Delayed => want,
    };
    let result = Search::new(handle, inode, request, want).run();
    let taken = result.as_ref().map_or(0, |run| u64::from(run.len));
    let promised = match request.from {
        Pool::Delayed => taken,
        Pool::Free | Pool::Completion => u64::from(want),
    };
    space::claim(vol, promised, taken);
    result
}

/// Promises `want` blocks, or as many of them as there are by halving.
fn promise(vol: &Volume, mut want: u32, depth: Depth) -> Result<u32> {
    loop {
        match space::promise(vol, u64::from(want), depth) {
            Ok(()) => return Ok(want),
            Err(e) if want <= 1 => return Err(e),
            Err(_) => want /= 2,
        }
    }
}

/// Gives back what [`allocate`] gave, in the same handle and before anything else refers to it.
/// With [`Pool::Delayed`] the blocks are promised to delayed allocation again.
///
/// # Errors
///
/// `EROFS` if the handle is aborted, `EFSCORRUPTED` if the blocks are not in use: nothing is given
/// back then.
pub(crate) fn undo(handle: &Handle<'_>, sb: &Sb, run: Run, from: Pool) -> Result {
    let vol = sb.data();
    let (number, start) = vol.geo.block_group(run.start).ok_or(EINVAL)?;
    let span = Span {
        start,
        len: run.len,
    };
    let group = groups::get(vol, number)?;
    {
        let mut state = group.lock.lock();
        let desc = groups::desc(sb, number)?;
        let map = match groups::block_bitmap(sb, number, &desc) {
            Ok(map) if !groups::blocks_uninit(vol, &desc) => map,
            Ok(_) => return Err(EINVAL),
            Err(fault) => {
                groups::mark_fault(vol, group, &mut state, Which::Blocks, &fault);
                drop(state);
                groups::report_fault(sb, "undo", number, desc.block_bitmap, fault)?;
                return Err(EFSCORRUPTED);
            }
        };
        if !map.read(|bytes| bitmap::all_set(bytes, span.start, span.end())) {
            return Err(EFSCORRUPTED);
        }
        write(handle, sb, number, &desc, map, span, false)?;
        let free = desc.free_clusters.saturating_add(run.len);
        group.free.store(free, Relaxed);
        group.longest_run.store(free, Relaxed);
    }
    let promised = match from {
        Pool::Delayed => u64::from(run.len),
        Pool::Free | Pool::Completion => 0,
    };
    space::give_back(vol, u64::from(run.len), promised);
    Ok(())
}

/// The bits of a group with those set that are held; `None` if none are.
fn usable_bits(map: &Bitmap, held: &HeldRuns) -> Result<Option<KVec<u8>>> {
    if held.is_empty() {
        return Ok(None);
    }
    let mut bytes = KVec::from_elem(0u8, map.read(<[u8]>::len), GFP_KERNEL)?;
    map.read(|bits| bytes.copy_from_slice(bits));
    held.cover(&mut bytes);
    Ok(Some(bytes))
}

/// Sets or clears the bits of `span`, and brings the descriptor up to date. The group lock is held.
pub(super) fn write(
    handle: &Handle<'_>,
    sb: &Sb,
    number: u32,
    desc: &GroupDesc,
    map: Bitmap,
    span: Span,
    used: bool,
) -> Result {
    let vol = sb.data();
    groups::desc_access(handle, sb, number)?;
    let mut sums = *desc;
    map.modify(handle, desc.block_bitmap, |bytes| {
        if used {
            bitmap::set_range(bytes, span.start, span.end());
        } else {
            bitmap::clear_range(bytes, span.start, span.end());
        }
        group::update_block_bitmap_csum(bytes, &mut sums, vol.seed, &vol.geo)
    })?
    .map_err(|_| EINVAL)?;
    groups::modify_desc(handle, sb, number, |desc| {
        desc.block_bitmap_csum = sums.block_bitmap_csum;
        desc.flags &= !group::BLOCK_UNINIT;
        desc.free_clusters = if used {
            desc.free_clusters.saturating_sub(span.len)
        } else {
            desc.free_clusters.saturating_add(span.len)
        };
    })
}

/// What one group gave.
enum Tried {
    /// Blocks, marked as used.
    Got(Run),
    /// Nothing. No free run in it is longer than this.
    AtMost(u32),
}

/// What a turn of the search keeps off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manners {
    /// Other files' windows, and for data the groups for metadata.
    Best,
    /// Other files' windows.
    Windows,
    /// Nothing.
    None,
}

/// How groups are looked at in one turn of the search.
#[derive(Clone, Copy)]
struct Turn {
    /// The least length that will do.
    need: u32,
    /// What to keep off.
    manners: Manners,
    /// How many more bitmaps may be read that have not been looked at.
    reads: u32,
}

/// One allocation under way.
struct Search<'a> {
    handle: &'a Handle<'a>,
    inode: &'a Inode,
    sb: &'a Sb,
    vol: &'a Volume,
    kind: Kind,
    want: u32,
    goal_group: u32,
    goal_bit: u32,
}

impl<'a> Search<'a> {
    fn new(handle: &'a Handle<'a>, inode: &'a Inode, request: &Request, want: u32) -> Self {
        let sb = inode.super_block();
        let vol = sb.data();
        // Directories and symlinks lie with the other metadata.
        let kind = if inode.is_reg() {
            request.kind
        } else {
            Kind::Metadata
        };
        // A file that ends with the volume wants to go on beyond it.
        let (goal_group, goal_bit) = vol
            .geo
            .block_group(request.goal)
            .or_else(|| vol.geo.block_group(home(inode, kind == Kind::Data)))
            .unwrap_or((0, 0));
        Self {
            handle,
            inode,
            sb,
            vol,
            kind,
            want,
            goal_group,
            goal_bit,
        }
    }

    fn run(&self) -> Result<Run> {
        let mut turn = Turn {
            need: self.first_need(),
            manners: Manners::Best,
            reads: READS,
        };
        loop {
            let mut most = 0;
            for number in ring(self.goal_group, self.vol.geo.groups_count) {
                match self.visit(number, &mut turn)? {
                    Tried::Got(run) => return Ok(run),
                    Tried::AtMost(len) => most = most.max(len),
                }
            }
            match turn.manners {
                Manners::Best => turn.manners = Manners::Windows,
                Manners::Windows => turn.manners = Manners::None,
                Manners::None if turn.need <= 1 => return Err(ENOSPC),
                Manners::None => {
                    turn.need = (most / 2).clamp(1, turn.need.saturating_sub(1));
                }
            }
        }
    }

    /// [`LARGE_REQUEST`] in blocks.
    fn large(&self) -> u32 {
        let size = self.vol.geo.block_size;
        LARGE_REQUEST.checked_div(size).unwrap_or(0)
    }

    /// The length that will do as long as there is more than enough room. A large request need not
    /// be met in full: if it is for a whole group, one that holds a copy of the superblock is as
    /// good as the next one.
    fn first_need(&self) -> u32 {
        if self.want > self.large() {
            self.want.saturating_sub(self.want / 8)
        } else {
            self.want
        }
    }

    /// Looks at a group from outside, and into it if it may have what is needed.
    fn visit(&self, number: u32, turn: &mut Turn) -> Result<Tried> {
        let group = groups::get(self.vol, number)?;
        let longest = group.longest_run.load(Relaxed);
        let passed = Ok(Tried::AtMost(longest));
        if longest == 0 {
            return passed;
        }
        let unfit = longest < turn.need || self.keeps_off(number, turn);
        if number == self.goal_group {
            // To go on where the file ends less will do.
            return self.enter(group, number, turn, unfit);
        }
        if unfit {
            return passed;
        }
        if !group.seen.load(Relaxed) {
            if turn.reads == 0 && turn.need > 1 {
                // What it has is not known, so it counts for nothing.
                return Ok(Tried::AtMost(0));
            }
            turn.reads = turn.reads.saturating_sub(1);
        }
        self.enter(group, number, turn, false)
    }

    /// Whether the turn leaves the group to metadata. A file that has got there all the same may
    /// go on where it ends.
    fn keeps_off(&self, number: u32, turn: &Turn) -> bool {
        let per_flex = self.vol.geo.groups_per_flex();
        turn.manners == Manners::Best
            && self.kind == Kind::Data
            && per_flex >= FLEX_FOR_METADATA
            && number.checked_rem(per_flex) == Some(0)
    }

    /// Looks into a group, or only at the goal in it, and takes what is good enough.
    fn enter(&self, group: &Group, number: u32, turn: &Turn, only_goal: bool) -> Result<Tried> {
        let mut state = group.lock.lock();
        if state.blocks_corrupt {
            return Ok(Tried::AtMost(0));
        }
        let desc = groups::desc(self.sb, number)?;
        let map = match groups::block_bitmap(self.sb, number, &desc) {
            Ok(map) => map,
            Err(fault) => {
                groups::mark_fault(self.vol, group, &mut state, Which::Blocks, &fault);
                drop(state);
                groups::report_fault(self.sb, "allocate", number, desc.block_bitmap, fault)?;
                return Ok(Tried::AtMost(0));
            }
        };
        group.seen.store(true, Relaxed);
        state
            .held
            .release(|tid| journal::is_committed(self.vol, tid));
        let usable = usable_bits(&map, &state.held)?;
        let windows = (turn.manners != Manners::None).then_some(&state.windows);
        let wish = Wish {
            goal: if number == self.goal_group {
                self.goal_bit
            } else {
                0
            },
            want: self.want,
            room: self.want.saturating_add(self.ahead()),
            need: turn.need,
            stay: self.large(),
            only_goal,
        };
        let blocks = self.vol.geo.blocks_in_group(number);
        let owner = self.owner();
        let find = |bytes: &[u8]| buddy::find(bytes, blocks, &wish, windows, owner);
        let found = match &usable {
            Some(bytes) => find(bytes),
            None => map.read(find),
        };
        let Some(found) = found else {
            if !only_goal {
                // What is held is a part of it: nobody comes by when that can be used.
                let longest = map.read(|bytes| buddy::longest(bytes, blocks));
                group.longest_run.store(longest, Relaxed);
            }
            return Ok(Tried::AtMost(group.longest_run.load(Relaxed)));
        };
        let span = found.span;
        write(self.handle, self.sb, number, &desc, map, span, true)?;
        let free = desc.free_clusters.saturating_sub(span.len);
        group.free.store(free, Relaxed);
        let longest = group.longest_run.load(Relaxed).min(free);
        group.longest_run.store(longest, Relaxed);
        if let Some(owner) = owner {
            let until = span.start.saturating_add(found.room);
            state.windows.taken(owner, span.start, span.end(), until);
        }
        let first = self.vol.geo.group_first_block(number);
        Ok(Tried::Got(Run {
            start: first.checked_add(u64::from(span.start)).ok_or(EINVAL)?,
            len: span.len,
        }))
    }

    /// Who has windows: regular files, for their data.
    fn owner(&self) -> Option<u32> {
        match self.kind {
            Kind::Data => u32::try_from(self.inode.ino()).ok(),
            Kind::Metadata => None,
        }
    }

    /// How much more than it asks for the file is likely to want soon.
    fn ahead(&self) -> u32 {
        // A file that gets all its blocks in one call is not likely to want more.
        let blocks = self.inode.size() >> self.vol.geo.block_bits;
        if self.kind == Kind::Metadata || blocks <= u64::from(self.want) {
            return 0;
        }
        let most = u64::from(self.vol.geo.blocks_per_group / 4);
        u32::try_from(blocks.min(most).max(WINDOW_MIN)).unwrap_or(0)
    }
}
