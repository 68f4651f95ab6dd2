// SPDX-License-Identifier: GPL-2.0

//! The on-disk format of ext4, and nothing else.
//!
//! Every structure, checksum, hash and feature bit of the format that the filesystem uses, as pure
//! code on byte slices. The crate knows nothing of the kernel: the same files build as part of the
//! module and as an ordinary host crate, where they are held against what e2fsprogs makes.
//!
//! # Conventions
//!
//! - Decoding takes `&[u8]` and gives a plain [`Copy`] structure in which the low and high halves
//!   of a number are already one number, or an [`Error`] that says what was wrong.
//! - Encoding takes `&mut [u8]` and changes only the fields that it knows; all other bytes stay.
//! - No function panics, overflows or loops without bound, whatever the bytes and the arguments.
//!   A length or an index that comes from the disk is checked before it is used.
//! - Block numbers are in filesystem blocks ([`Geometry::block_size`] bytes) unless a name says
//!   clusters. Logical blocks are `u32` (a file's own numbering), physical blocks `u64`.
//! - A checksum seed is an [`Option`]: `None` on a volume without the `metadata_csum` feature.
//!   Verifying then succeeds and updating changes nothing.
//!
//! The format is described in `Documentation/filesystems/ext4/` of the kernel source; the names
//! here are the ones used there.

#![cfg_attr(not(MODULE), no_std)]
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod bytes;

pub mod acl;
pub mod bitmap;
pub mod checksum;
pub mod dir;
pub mod error;
pub mod extent;
pub mod features;
pub mod geometry;
pub mod group;
pub mod hash;
pub mod htree;
pub mod inode;
pub mod journal;
pub mod orphan;
pub mod sort;
pub mod split;
pub mod superblock;
pub mod xattr;

pub use checksum::Seed;
pub use error::{Error, Result};
pub use features::{Compat, Incompat, RoCompat};
pub use geometry::Geometry;
pub use group::GroupDesc;
pub use inode::Inode;
pub use superblock::{SuperBlock, SuperBlockMut};
