// SPDX-License-Identifier: GPL-2.0

//! The lines that the test runner counts.

use crate::why::Why;
use std::time::Instant;

/// Collects the results of several tests and prints each as it comes.
pub struct Report {
    prefix: String,
    only: String,
    failed: usize,
}

impl Report {
    /// A report whose tests are called `prefix` and their own name. Where `only` is not empty,
    /// tests without it in their names are left out.
    pub fn new(prefix: &str, only: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            only: only.to_owned(),
            failed: 0,
        }
    }

    /// Runs one test and prints `ok NAME` or `not ok NAME: why`.
    pub fn test(&mut self, name: &str, test: impl FnOnce() -> Result<(), Why>) {
        if !name.contains(&self.only) {
            return;
        }
        let start = Instant::now();
        let done = test();
        let seconds = start.elapsed().as_secs_f32();
        match done {
            Ok(()) => println!("ok {}{name} # {seconds:.1} s", self.prefix),
            Err(why) => {
                self.failed += 1;
                println!("not ok {}{name}: {why}", self.prefix);
            }
        }
    }

    /// Fails where a test did.
    pub fn finish(self) -> Result<(), Why> {
        match self.failed {
            0 => Ok(()),
            n => Err(format!("{n} tests failed").into()),
        }
    }
}
