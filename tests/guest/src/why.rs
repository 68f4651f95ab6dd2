// SPDX-License-Identifier: GPL-2.0

//! Why a test failed, in words.

use std::fmt;
use std::io;
use std::path::{Component, Path};

/// The reason, innermost last.
#[derive(Debug, PartialEq, Eq)]
pub struct Why(String);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever bytes a file's name has: the report has one line for a test.
        f.write_str(&self.0.replace(['\n', '\r'], " "))
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Why {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Puts what was being done before why it failed.
pub trait Within<T> {
    /// `what` is asked for only after a failure.
    fn within(self, what: impl FnOnce() -> String) -> Result<T, Why>;
}

impl<T, E: Into<Why>> Within<T> for Result<T, E> {
    fn within(self, what: impl FnOnce() -> String) -> Result<T, Why> {
        self.map_err(|e| Why(format!("{}: {}", what(), e.into().0)))
    }
}

/// Fails with `what` and both values unless they are equal.
pub fn equal<T: PartialEq + fmt::Debug>(what: &str, is: T, want: T) -> Result<(), Why> {
    if is == want {
        Ok(())
    } else {
        Err(Why(format!("{what}: is {is:?}, must be {want:?}")))
    }
}

/// Fails with `what` unless `holds`.
pub fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), Why> {
    if holds {
        Ok(())
    } else {
        Err(Why(what()))
    }
}

/// `path` with its names cut to what tells them apart, for a message.
pub fn shortened(path: &Path) -> String {
    let cut = |part: Component| {
        part.as_os_str()
            .to_string_lossy()
            .chars()
            .take(20)
            .collect()
    };
    path.components()
        .map(cut)
        .collect::<Vec<String>>()
        .join("/")
}
