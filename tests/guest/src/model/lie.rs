// SPDX-License-Identifier: GPL-2.0

//! Deliberate differences: what a comparison that works has to report.

use super::op::Op;
use super::side::{Answer, Side};
use crate::sys::meta::{self, Time};
use crate::sys::{stat, xattr};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// What is done to the twin that is not done to the volume under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A byte of a file that was written is another one.
    Byte,
    /// A new file has another mode.
    Mode,
    /// A time that was set is another one.
    Time,
    /// A new directory has something in it.
    Name,
    /// An attribute that was set is gone.
    Attribute,
    /// A file that got another name is another file with the same content.
    Link,
    /// What was removed is said to have been there no more.
    Answer,
    /// A symbolic link is not made.
    Skip,
}

impl Lie {
    /// All of them, and their names.
    pub const ALL: [(&'static str, Lie); 8] = [
        ("byte", Lie::Byte),
        ("mode", Lie::Mode),
        ("time", Lie::Time),
        ("name", Lie::Name),
        ("attribute", Lie::Attribute),
        ("link", Lie::Link),
        ("answer", Lie::Answer),
        ("skip", Lie::Skip),
    ];

    /// Does `op` on `side`, and then the difference; `own` is what the other side has answered.
    pub fn run(self, side: &mut Side, op: &Op, own: &Answer) -> Answer {
        if let (Lie::Skip, Op::Symlink { .. }) = (self, op) {
            return own.clone();
        }
        let answer = side.run(op);
        match (self, op) {
            (Lie::Answer, Op::Unlink { .. }) if answer.is_ok() => Err(libc::ENOENT),
            _ if answer.is_ok() => self
                .spoil(side, op)
                .map_or_else(|e| Err(e.raw_os_error().unwrap_or(libc::EIO)), |()| answer),
            _ => answer,
        }
    }

    fn spoil(self, side: &Side, op: &Op) -> io::Result<()> {
        match (self, op) {
            (Lie::Byte, Op::Put { path, length, .. }) if *length > 0 => {
                let file = File::options()
                    .read(true)
                    .write(true)
                    .open(side.at(&path.0))?;
                let mut byte = [0];
                file.read_exact_at(&mut byte, 0)?;
                file.write_all_at(&[!byte[0]], 0)
            }
            (Lie::Mode, Op::Create { path, mode }) => {
                fs::set_permissions(side.at(&path.0), Permissions::from_mode(mode.0 ^ 1))
            }
            (Lie::Time, Op::Times { path, modified, .. }) => {
                let time = Time {
                    seconds: modified + 1,
                    nanos: 0,
                };
                meta::set_times(&side.at(&path.0), time, time)
            }
            (Lie::Name, Op::Mkdir { path, .. }) => {
                File::create_new(side.at(&path.0).join("extra")).map(drop)
            }
            (Lie::Attribute, Op::SetAttr { path, name, .. }) => {
                xattr::remove(&side.at(&path.0), name.0.as_bytes())
            }
            (Lie::Link, Op::Link { from, to }) => {
                let (from, to) = (side.at(&from.0), side.at(&to.0));
                if stat::of(&from)?.mode & libc::S_IFMT == libc::S_IFREG {
                    fs::remove_file(&to)?;
                    fs::copy(&from, &to)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
