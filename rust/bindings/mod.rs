// SPDX-License-Identifier: GPL-2.0

//! Raw bindings.
//!
//! What bindgen made of `bindings_helper.h`, over the kernel crate's own bindings. Private to this
//! crate: nothing above it sees a C type.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

mod raw {
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    // Types that the kernel's bindings define are blocked in ours and come from there.
    pub(crate) use kernel::bindings::*;

    include!(concat!(
        env!("EXT4RS_OBJ"),
        "/rust/bindings/bindings_generated.rs"
    ));
}

pub(crate) use raw::*;
