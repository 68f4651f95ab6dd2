// SPDX-License-Identifier: GPL-2.0

//! ext4rs: a filesystem for ext4 volumes.
//!
//! See `DESIGN.md` for how it is built. This file registers the filesystem type, and nothing else.

#![deny(unsafe_code)]

mod alloc;
mod dir;
mod export;
mod file;
mod inode;
mod journal;
mod map;
mod metadata;
mod mount;
mod options;
mod orphan;
mod report;
mod shutdown;
mod super_block;
mod volume;
mod writeback;
mod xattr;

use crate::volume::Ext4;
use ext4rs_vfs::fs::Registration;
use kernel::prelude::*;

module! {
    type: Ext4rsModule,
    name: "ext4rs",
    authors: ["The ext4rs developers"],
    description: "Filesystem for ext4 volumes, written in Rust",
    license: "GPL",
    alias: ["fs-ext4rs"],
}

#[pin_data]
struct Ext4rsModule {
    #[pin]
    fs: Registration<Ext4>,
}

impl kernel::InPlaceModule for Ext4rsModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            fs <- Registration::new(module),
        })
    }
}
