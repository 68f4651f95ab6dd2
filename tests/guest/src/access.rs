// SPDX-License-Identifier: GPL-2.0

//! Who may do what with files that have modes and ACLs: text that two filesystems must agree on.

use crate::sys::meta;
use crate::sys::process::{become_user, in_child, End};
use crate::why::{Why, Within};
use std::fs;
use std::path::Path;

/// Users and groups that ask: the ones that the ACLs name, and one that they do not.
const USERS: [(u32, u32); 3] = [(1000, 1000), (1001, 2000), (5000, 5000)];

/// Prints a line for every user and file below `dir`: what the user may do with it.
pub fn print(dir: &Path) -> Result<(), Why> {
    let listed: Result<Vec<_>, _> = fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect();
    let mut paths = listed?;
    paths.sort();
    let inside: Vec<_> = paths.iter().map(|path| path.join("inside")).collect();
    paths.extend(inside);
    for (uid, gid) in USERS {
        let end = in_child(|| {
            become_user(uid, gid).map_err(|e| e.to_string())?;
            for path in &paths {
                let may = |what| meta::may(path, what).is_ok();
                let may = [may(libc::R_OK), may(libc::W_OK), may(libc::X_OK)];
                println!(
                    "{uid} {} {may:?}",
                    path.strip_prefix(dir).unwrap_or(path).display()
                );
            }
            Ok(())
        })?;
        let End::Answer(answer) = end else {
            return Err(format!("the child of user {uid}: {end:?}").into());
        };
        answer.within(|| format!("user {uid}"))?;
    }
    Ok(())
}
