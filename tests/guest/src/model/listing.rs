// SPDX-License-Identifier: GPL-2.0

//! A directory that is listed while it changes: what was there from the beginning to the end is seen
//! once.

use super::op::Op;
use super::side::crowd_name;
use crate::sys::dir;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// One listing, from the opening of the directory on.
pub struct Session {
    /// What was in the directory then.
    initial: BTreeSet<OsString>,
    /// Names that operations have used since, in any directory.
    mentioned: BTreeSet<OsString>,
}

impl Session {
    /// `readdir` of so many times goes to the end.
    pub const TO_THE_END: u64 = 10_000;

    /// Begins with what is in `path`.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let all = dir::read_all(&dir::open(path)?, 32 << 10)?;
        Ok(Self {
            initial: all.into_iter().map(|entry| entry.name).collect(),
            mentioned: BTreeSet::new(),
        })
    }

    /// Takes down what names `op` uses.
    pub fn mention(&mut self, op: &Op) {
        for path in op.paths() {
            let name = Path::new(path).file_name().unwrap_or_default();
            self.mentioned.insert(name.to_owned());
        }
        if let Op::Crowd {
            count, length, key, ..
        }
        | Op::Thin {
            count, length, key, ..
        } = op
        {
            let names = (0..*count).map(|n| crowd_name(*key, n, *length).into());
            self.mentioned.extend(names);
        }
    }

    /// Whether a listing that has seen `seen` was right.
    pub fn judge(&self, seen: &[OsString]) -> Result<(), String> {
        let mut counts: BTreeMap<&OsStr, usize> = BTreeMap::new();
        for name in seen {
            *counts.entry(name).or_default() += 1;
        }
        for name in self.initial.difference(&self.mentioned) {
            match counts.get(name.as_os_str()) {
                Some(1) => {}
                n => {
                    let n = n.unwrap_or(&0);
                    return Err(format!("{} was seen {n} times", name.to_string_lossy()));
                }
            }
        }
        for name in counts.keys() {
            if !self.initial.contains(*name) && !self.mentioned.contains(*name) {
                return Err(format!(
                    "{} was seen and never made",
                    name.to_string_lossy()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_seen_once() {
        let set = |names: &[&str]| names.iter().map(OsString::from).collect::<BTreeSet<_>>();
        let session = Session {
            initial: set(&["a", "b", "c"]),
            mentioned: set(&["b", "d"]),
        };
        let judge = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(OsString::from).collect();
            session.judge(&names).is_ok()
        };
        assert!(judge(&["a", "c"]) && judge(&["c", "b", "d", "a"]));
        assert!(!judge(&["a"]) && !judge(&["a", "c", "a"]) && !judge(&["a", "c", "e"]));
    }
}
