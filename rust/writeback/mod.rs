// SPDX-License-Identifier: GPL-2.0

//! Writing dirty folios back.
//!
//! The loop over the folios is the filesystem's. It is called with a [`Control`], finds folios with
//! [`crate::mapping::Mapping::tagged`], and gives each of them to a [`Submitter`], which builds
//! bios as long as the device takes them. Blocks that hold no data yet are sent within a
//! [`Window`]: it gathers the bios of a range, and when the last one is done a worker tells the
//! filesystem that they hold data now ([`WindowOps::convert`]), and only then ends the
//! write-back of the folios.
//!
//! C headers: [`include/linux/writeback.h`](srctree/include/linux/writeback.h),
//! [`include/linux/iomap.h`](srctree/include/linux/iomap.h)

mod control;
mod ends;
mod submitter;
mod window;

pub use self::control::Control;
pub use self::ends::{Ranges, Written};
pub use self::submitter::{Counts, Sent, Submitter, WritebackOps};
pub use self::window::WindowOps;
