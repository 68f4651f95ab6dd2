// SPDX-License-Identifier: GPL-2.0

//! The command line: names and values.

use crate::why::{Why, Within};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// What follows the subcommand: plain words, `--name value` pairs and `--flag`s.
pub struct Args {
    words: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Args {
    /// Sorts `args` into words and names. A `--name` that another one or nothing follows is a
    /// flag.
    pub fn new(args: impl Iterator<Item = String>) -> Self {
        let mut args = args.peekable();
        let (mut words, mut named) = (Vec::new(), BTreeMap::new());
        while let Some(arg) = args.next() {
            match arg.strip_prefix("--") {
                Some(name) => {
                    let value = args
                        .next_if(|next| !next.starts_with("--"))
                        .unwrap_or_default();
                    named.insert(name.to_owned(), value);
                }
                None => words.push(arg),
            }
        }
        Self { words, named }
    }

    /// The path that is word number `i`.
    pub fn path(&self, i: usize) -> Result<PathBuf, Why> {
        let word = self
            .words
            .get(i)
            .ok_or_else(|| format!("argument {} is missing", i + 1))?;
        Ok(word.into())
    }

    /// All words, as paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.words.iter().map(PathBuf::from).collect()
    }

    /// True where `--name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// The text after `--name`, or `default`.
    pub fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.named.get(name).map_or(default, String::as_str)
    }

    /// The number after `--name`, or `default`.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Why> {
        self.named.get(name).map_or(Ok(default), |text| {
            text.parse()
                .map_err(|_| format!("--{name} wants a number, not {text:?}").into())
        })
    }

    /// The bytes after `--name`, with K, M or G for powers of 1,024, or `default`.
    pub fn bytes(&self, name: &str, default: &str) -> Result<u64, Why> {
        size(self.text(name, default)).within(|| format!("--{name}"))
    }
}

/// `64M` and the like in bytes.
fn size(text: &str) -> Result<u64, Why> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        unit => return Err(format!("unknown unit {unit}").into()),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text} is too large").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_names_and_flags() {
        let args = ["a", "--size", "3M", "--quick", "--seed", "7", "b"].map(String::from);
        let args = Args::new(args.into_iter());
        assert_eq!(args.words, ["a", "b"]);
        assert_eq!(args.bytes("size", "0").unwrap(), 3 << 20);
        assert_eq!(args.number("seed", 0).unwrap(), 7);
        assert!(args.has("quick") && !args.has("slow"));
        assert!(args.number("size", 0).is_err());
        assert!(size("1T").is_err() && size("99999999999G").is_err() && size("").is_err());
    }
}
