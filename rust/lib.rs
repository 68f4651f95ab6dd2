// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers for writing a filesystem: what the kernel's own Rust API does not have yet.
//!
//! This crate is the only place of the project with `unsafe` code and with C types. No public item
//! names a raw pointer or a binding. It is laid out as if to be merged into the kernel's
//! `rust/kernel/`; a port to another kernel version touches this crate alone.

mod bindings;

pub mod buffer_head;
pub mod cred;
pub mod folio;
pub mod fs;
pub mod iomap;
pub mod jbd2;
pub mod log;
pub mod mapping;
pub mod mbcache;
pub mod memalloc;
pub mod percpu_counter;
pub mod plug;
pub mod rwsem;
pub mod sysfs;
pub mod workqueue;
pub mod writeback;
