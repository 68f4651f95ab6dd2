// SPDX-License-Identifier: GPL-2.0

//! Comparisons of what the crate reads and what e2fsprogs prints.

pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod names;
pub(crate) mod rewrite;

use std::collections::HashMap;

/// `Key: value` lines.
fn fields(text: &str) -> HashMap<&str, &str> {
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .map(|(k, v)| (k.trim(), v.trim()))
        .collect()
}

/// The number at the start of `text`, in hexadecimal if it says so.
fn number(text: &str) -> u64 {
    let text = text.trim_start();
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(rest) => (rest, 16),
        None => (text, 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).unwrap_or_else(|_| panic!("no number in {text:?}"))
}
