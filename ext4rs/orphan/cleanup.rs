// SPDX-License-Identifier: GPL-2.0

//! What an older life of the volume left to be done, is done at the mount. Behaviour:
//! `ext4_orphan_cleanup`.

use super::Place;
use crate::{
    alloc,
    inode::{self, Inode},
    report,
    volume::Sb,
};
use ext4rs_vfs::log::Level;
use kernel::{prelude::*, sync::aref::ARef};

/// How much was done.
#[derive(Default)]
struct Done {
    deleted: u32,
    truncated: u32,
}

impl Done {
    /// Finishes what was to be done to an inode that is known as an orphan.
    fn process(&mut self, inode: ARef<Inode>) {
        if inode.nlink() == 0 {
            // It goes when the reference does, which is the last one.
            self.deleted = self.deleted.saturating_add(1);
            return;
        }
        let _lock = inode.lock();
        self.truncated = self.truncated.saturating_add(1);
        let result = {
            let _lock = inode.mapping().invalidate_lock();
            inode.mapping().truncate_pagecache(inode.size());
            inode::truncate(&inode)
        };
        if let Err(e) = result {
            report::warning(
                inode.super_block(),
                "orphan_cleanup",
                fmt!("inode #{}: not truncated: {:?}", inode.ino(), e),
            );
        }
    }

    fn announce(&self, sb: &Sb) {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        if self.deleted > 0 {
            report::message(
                sb,
                Level::Info,
                fmt!(
                    "{} orphan inode{} deleted",
                    self.deleted,
                    plural(self.deleted)
                ),
            );
        }
        if self.truncated > 0 {
            report::message(
                sb,
                Level::Info,
                fmt!(
                    "{} truncate{} cleaned up",
                    self.truncated,
                    plural(self.truncated)
                ),
            );
        }
    }
}

/// Deletes and truncates the volume's orphans; the volume can be written to. Those that are bad are
/// reported and left.
///
/// # Errors
///
/// `EOPNOTSUPP` if there are some that ext4rs cannot handle: then the volume is not to be written to.
pub(crate) fn clean(sb: &Sb) -> Result {
    let mut done = Done::default();
    let result = clean_list(sb, &mut done).and_then(|()| clean_file(sb, &mut done));
    done.announce(sb);
    result
}

/// Processes the list. The head changes as its inode leaves; an inode that stays ends it.
fn clean_list(sb: &Sb, done: &mut Done) -> Result {
    loop {
        let head = sb.data().orphans.lock().list.head();
        if head == 0 {
            return Ok(());
        }
        let result = get(sb, head).and_then(|inode| {
            // Its own link, before anything changes it.
            let next = inode::dtime(sb, head)?;
            if next > sb.data().geo.inodes_count {
                return Err(report::corrupt(
                    sb,
                    "orphan_get",
                    Some(head.into()),
                    None,
                    fmt!("bad orphan inode: next is {}", next),
                ));
            }
            sb.data().orphans.lock().list.adopt_head(next)?;
            inode.data().orphan.set(Place::List);
            done.process(inode);
            Ok(())
        });
        if let Err(e) = result {
            if e == EOPNOTSUPP {
                return Err(e);
            }
            sb.data().orphans.lock().list.cut();
            return Ok(());
        }
        if sb.data().orphans.lock().list.head() == head {
            // It could not be done, which was reported.
            sb.data().orphans.lock().list.cut();
            return Ok(());
        }
    }
}

/// Processes the orphan file.
fn clean_file(sb: &Sb, done: &mut Done) -> Result {
    let mut at = 0u32;
    loop {
        let ino = {
            let orphans = sb.data().orphans.lock();
            orphans.file.as_ref().and_then(|file| file.get(at))
        };
        let Some(ino) = ino else {
            return Ok(());
        };
        if ino != 0 {
            match get(sb, ino) {
                Ok(inode) => {
                    inode.data().orphan.set(Place::File(at));
                    done.process(inode);
                }
                Err(e) if e == EOPNOTSUPP => return Err(e),
                // Reported; the place stays taken.
                Err(_) => {}
            }
        }
        at = at.saturating_add(1);
    }
}

/// The inode of that number, which an older life of the volume left as an orphan
/// (`ext4_orphan_get`).
fn get(sb: &Sb, ino: u32) -> Result<ARef<Inode>> {
    let geo = &sb.data().geo;
    let bad = |what: &str| {
        report::corrupt(
            sb,
            "orphan_get",
            Some(ino.into()),
            None,
            fmt!("bad orphan inode: {}", what),
        )
    };
    if ino < geo.first_ino || ino > geo.inodes_count {
        return Err(bad("no such inode"));
    }
    if !alloc::inode_is_in_use(sb, ino)? {
        return Err(bad("it is free"));
    }
    let inode = inode::iget_orphan(sb, ino).map_err(|e| match e {
        e if e == ESTALE => bad("it was never used"),
        e => e,
    })?;
    let can_truncate = inode.is_reg() || inode.is_dir() || inode.is_symlink();
    if inode.nlink() > 0 && !can_truncate {
        return Err(bad("it has no blocks"));
    }
    Ok(inode)
}
