// SPDX-License-Identifier: GPL-2.0

//! Feature bits of the superblock, under the names that e2fsprogs prints.

use core::fmt;

/// Makes one feature word: a type around its `u32`, a constant a bit, and the names.
macro_rules! feature_word {
    (
        $(#[$doc:meta])*
        $name:ident, $letter:literal, {
            $( $(#[$bit_doc:meta])* $konst:ident = $value:literal, $text:literal; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            $( $(#[$bit_doc])* pub const $konst: Self = Self($value); )*

            /// No feature.
            pub const NONE: Self = Self(0);

            /// Every bit that has a name here.
            pub const NAMED: Self = Self(0 $(| $value)*);

            /// The word as it is on disk.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// True if all bits of `other` are set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits that are not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The name of the lowest bit that is set, if it has one.
            fn lowest_name(self) -> Option<&'static str> {
                match 1u32.checked_shl(self.0.trailing_zeros()) {
                    $( Some($value) => Some($text), )*
                    _ => None,
                }
            }
        }

        /// The names of the set bits, with blanks between; a bit without a name prints as
        /// e2fsprogs prints it, `FEATURE_` with the word's letter and the bit number.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut rest = *self;
                let mut blank = "";
                while !rest.is_empty() {
                    f.write_str(blank)?;
                    match rest.lowest_name() {
                        Some(name) => f.write_str(name)?,
                        None => write!(f, "FEATURE_{}{}", $letter, rest.0.trailing_zeros())?,
                    }
                    blank = " ";
                    // Clears the lowest bit that is set.
                    rest = Self(rest.0 & rest.0.wrapping_sub(1));
                }
                Ok(())
            }
        }
    };
}

feature_word! {
    /// `s_feature_compat`: a volume with an unknown bit may still be mounted read-write.
    Compat, 'C', {
        /// Directory preallocation (never implemented).
        DIR_PREALLOC = 0x0001, "dir_prealloc";
        /// AFS server inodes.
        IMAGIC_INODES = 0x0002, "imagic_inodes";
        /// There is a journal.
        HAS_JOURNAL = 0x0004, "has_journal";
        /// Extended attributes.
        EXT_ATTR = 0x0008, "ext_attr";
        /// Reserved descriptor blocks for growing, held by the resize inode.
        RESIZE_INODE = 0x0010, "resize_inode";
        /// Directories may be hash-indexed.
        DIR_INDEX = 0x0020, "dir_index";
        /// Lazily initialised groups (obsolete).
        LAZY_BG = 0x0040, "lazy_bg";
        /// Exclude bitmaps of snapshots (never merged).
        EXCLUDE_BITMAP = 0x0100, "snapshot_bitmap";
        /// Two superblock backups at most, in the groups that the superblock names.
        SPARSE_SUPER2 = 0x0200, "sparse_super2";
        /// The journal may have a fast-commit area. Whether it holds blocks is a bit of the
        /// journal's own superblock.
        FAST_COMMIT = 0x0400, "fast_commit";
        /// Inode numbers never change (no shrinking).
        STABLE_INODES = 0x0800, "stable_inodes";
        /// An orphan file is used in place of the orphan list.
        ORPHAN_FILE = 0x1000, "orphan_file";
    }
}

feature_word! {
    /// `s_feature_incompat`: a volume with an unknown bit must not be mounted.
    Incompat, 'I', {
        /// Compression (never implemented).
        COMPRESSION = 0x0001, "compression";
        /// Directory entries hold the file type.
        FILETYPE = 0x0002, "filetype";
        /// The journal holds transactions to be replayed.
        RECOVER = 0x0004, "needs_recovery";
        /// The volume is an external journal, not a filesystem.
        JOURNAL_DEV = 0x0008, "journal_dev";
        /// Descriptor blocks lie in their own meta group.
        META_BG = 0x0010, "meta_bg";
        /// Files may be mapped by extents.
        EXTENTS = 0x0040, "extent";
        /// 64-bit block counts and 64-byte descriptors.
        SIXTY_FOUR_BIT = 0x0080, "64bit";
        /// Multiple-mount protection.
        MMP = 0x0100, "mmp";
        /// Bitmaps and inode tables may lie outside their group.
        FLEX_BG = 0x0200, "flex_bg";
        /// Values of attributes may be stored in inodes of their own.
        EA_INODE = 0x0400, "ea_inode";
        /// Data in directory entries (never merged).
        DIRDATA = 0x1000, "dirdata";
        /// The checksum seed is stored instead of made from the UUID.
        CSUM_SEED = 0x2000, "metadata_csum_seed";
        /// Directories over 2 GiB and three-level indexes.
        LARGEDIR = 0x4000, "large_dir";
        /// Small files and directories live in the inode.
        INLINE_DATA = 0x8000, "inline_data";
        /// There may be encrypted inodes.
        ENCRYPT = 0x1_0000, "encrypt";
        /// There may be case-insensitive directories.
        CASEFOLD = 0x2_0000, "casefold";
    }
}

feature_word! {
    /// `s_feature_ro_compat`: a volume with an unknown bit may be mounted read-only.
    RoCompat, 'R', {
        /// Only some groups hold a superblock backup.
        SPARSE_SUPER = 0x0001, "sparse_super";
        /// There is a file of 2 GiB or more.
        LARGE_FILE = 0x0002, "large_file";
        /// B-tree directories (never implemented).
        BTREE_DIR = 0x0004, "btree_dir";
        /// `i_blocks` is 48 bits wide and may count filesystem blocks.
        HUGE_FILE = 0x0008, "huge_file";
        /// Group descriptors have a CRC-16, and groups may be uninitialised.
        GDT_CSUM = 0x0010, "uninit_bg";
        /// A directory may have more subdirectories than a link count can hold.
        DIR_NLINK = 0x0020, "dir_nlink";
        /// Inodes reserve room for the fields beyond 128 bytes.
        EXTRA_ISIZE = 0x0040, "extra_isize";
        /// There is a snapshot (never merged).
        HAS_SNAPSHOT = 0x0080, "snapshot";
        /// Quota files are hidden inodes.
        QUOTA = 0x0100, "quota";
        /// Bitmaps count clusters of several blocks.
        BIGALLOC = 0x0200, "bigalloc";
        /// All metadata has a CRC-32C.
        METADATA_CSUM = 0x0400, "metadata_csum";
        /// A replica (never merged).
        REPLICA = 0x0800, "replica";
        /// The volume may only be mounted read-only.
        READONLY = 0x1000, "read-only";
        /// Inodes have a project.
        PROJECT = 0x2000, "project";
        /// Blocks may be shared by several files; read-only.
        SHARED_BLOCKS = 0x4000, "shared_blocks";
        /// There may be inodes protected by fs-verity.
        VERITY = 0x8000, "verity";
        /// The orphan file may hold orphans.
        ORPHAN_PRESENT = 0x1_0000, "orphan_present";
    }
}
