// SPDX-License-Identifier: GPL-2.0

//! Which group a new inode goes to.
//!
//! Files go near their directory. Directories right below the root are spread over the volume, each
//! a tree of its own; deeper ones stay near their parent unless that would crowd the place. This is
//! the algorithm of Grigoriy Orlov as ext4 has it (`find_group_orlov`, `find_group_other`), on the
//! counts of flex groups where the volume has them. Pure code.

/// Inodes, blocks and directories of a group, a flex group or the volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Free inodes.
    pub(super) free_inodes: u64,
    /// Free blocks.
    pub(super) free_blocks: u64,
    /// Directories.
    pub(super) dirs: u64,
}

/// A volume as the choice sees it.
pub(super) struct View<F: Fn(u32) -> Counts> {
    /// Groups. Not 0.
    pub(super) groups: u32,
    /// Groups of a flex group; 1 without them. Not 0.
    pub(super) per_flex: u32,
    /// Inodes of a group.
    pub(super) inodes_per_group: u32,
    /// Blocks of a group.
    pub(super) blocks_per_group: u32,
    /// The sums of all groups.
    pub(super) total: Counts,
    /// The counts of a group.
    pub(super) group: F,
}

/// The numbers `first..count` and then `0..first`.
pub(super) fn ring(first: u32, count: u32) -> impl Iterator<Item = u32> {
    let first = if first < count { first } else { 0 };
    (first..count).chain(0..first)
}

impl<F: Fn(u32) -> Counts> View<F> {
    fn has_inode(&self, group: u32) -> bool {
        (self.group)(group).free_inodes > 0
    }

    /// Number of flex groups, the last one perhaps short.
    fn flexes(&self) -> u32 {
        self.groups.div_ceil(self.per_flex.max(1))
    }

    fn flex_of(&self, group: u32) -> u32 {
        group.checked_div(self.per_flex).unwrap_or(0)
    }

    /// The groups of a flex group.
    fn members(&self, flex: u32) -> core::ops::Range<u32> {
        let first = flex.saturating_mul(self.per_flex);
        first..first.saturating_add(self.per_flex).min(self.groups)
    }

    fn flex_counts(&self, flex: u32) -> Counts {
        let mut sum = Counts::default();
        for group in self.members(flex) {
            let c = (self.group)(group);
            sum.free_inodes = sum.free_inodes.saturating_add(c.free_inodes);
            sum.free_blocks = sum.free_blocks.saturating_add(c.free_blocks);
            sum.dirs = sum.dirs.saturating_add(c.dirs);
        }
        sum
    }

    fn average(&self, of: u64) -> u64 {
        of.checked_div(u64::from(self.flexes())).unwrap_or(0)
    }

    /// The first group of a flex group that has an inode: inodes are packed at the start of it.
    fn first_with_inode(&self, flex: u32) -> Option<u32> {
        self.members(flex).find(|&g| self.has_inode(g))
    }

    /// The group for a directory whose parent lies in `parent`, or `None` if no inode is free.
    ///
    /// With `top` it is one of those to be spread, and the search begins at flex group `salt`
    /// modulo their number, so that equals take turns.
    pub(super) fn for_directory(&self, parent: u32, top: bool, salt: u32) -> Option<u32> {
        let chosen = if top {
            self.emptiest(salt)
        } else {
            self.near(parent)
        };
        chosen
            .and_then(|flex| self.first_with_inode(flex))
            .or_else(|| self.fallback(parent))
    }

    /// The flex group with the fewest directories among those with at least the average of free
    /// inodes and blocks.
    fn emptiest(&self, salt: u32) -> Option<u32> {
        let inodes = self.average(self.total.free_inodes).max(1);
        let blocks = self.average(self.total.free_blocks);
        let mut best = None;
        let mut fewest = u64::from(self.inodes_per_group);
        let start = salt.checked_rem(self.flexes()).unwrap_or(0);
        for flex in ring(start, self.flexes()) {
            let c = self.flex_counts(flex);
            if c.free_inodes >= inodes && c.free_blocks >= blocks && c.dirs < fewest {
                fewest = c.dirs;
                best = Some(flex);
            }
        }
        best
    }

    /// The first flex group from the parent's on that is not crowded with directories, nor much
    /// fuller than the average.
    fn near(&self, parent: u32) -> Option<u32> {
        let per_flex = u64::from(self.per_flex);
        let inodes = u64::from(self.inodes_per_group).saturating_mul(per_flex);
        let blocks = u64::from(self.blocks_per_group).saturating_mul(per_flex);
        let max_dirs = self.average(self.total.dirs).saturating_add(inodes / 16);
        let min_inodes = self
            .average(self.total.free_inodes)
            .saturating_sub(inodes / 4)
            .max(1);
        let min_blocks = self
            .average(self.total.free_blocks)
            .saturating_sub(blocks / 4);
        ring(self.flex_of(parent), self.flexes()).find(|&flex| {
            let c = self.flex_counts(flex);
            c.dirs < max_dirs && c.free_inodes >= min_inodes && c.free_blocks >= min_blocks
        })
    }

    /// The first group from the parent's on with an average number of free inodes, or with any.
    fn fallback(&self, parent: u32) -> Option<u32> {
        let average = self
            .total
            .free_inodes
            .checked_div(u64::from(self.groups))
            .unwrap_or(0)
            .max(1);
        ring(parent, self.groups)
            .find(|&g| (self.group)(g).free_inodes >= average)
            .or_else(|| ring(parent, self.groups).find(|&g| self.has_inode(g)))
    }

    /// The group for anything else in a directory that lies in `parent` and has the inode number
    /// `salt`, or `None` if no inode is free.
    pub(super) fn for_file(&self, parent: u32, salt: u32) -> Option<u32> {
        if self.per_flex > 1 {
            return self
                .first_with_inode(self.flex_of(parent))
                .or_else(|| self.for_directory(parent, false, salt));
        }
        let good = |g: u32| {
            let c = (self.group)(g);
            c.free_inodes > 0 && c.free_blocks > 0
        };
        if good(parent) {
            return Some(parent);
        }
        // The files of one directory shall go to one group, those of another that shares its
        // group to another one: hash by the directory, quadratically.
        let wrap = |n: u64| u32::try_from(n.checked_rem(u64::from(self.groups))?).ok();
        let mut at = wrap(u64::from(parent).saturating_add(u64::from(salt)))?;
        let mut step = 1u32;
        while step < self.groups {
            at = wrap(u64::from(at).saturating_add(u64::from(step)))?;
            if good(at) {
                return Some(at);
            }
            step = step.saturating_mul(2);
        }
        ring(parent, self.groups).find(|&g| self.has_inode(g))
    }
}
