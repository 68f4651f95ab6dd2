// SPDX-License-Identifier: GPL-2.0

//! The smallest list of operations that still fails.

use std::time::Instant;

/// Leaves out of `list` what `fails` does not need, until `deadline`. The list itself fails.
pub fn shrink<T: Clone>(
    mut list: Vec<T>,
    deadline: Instant,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut piece = list.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        let mut less = false;
        while at < list.len() {
            if Instant::now() > deadline {
                return list;
            }
            let end = (at + piece).min(list.len());
            let rest: Vec<T> = list[..at].iter().chain(&list[end..]).cloned().collect();
            if fails(&rest) {
                list = rest;
                less = true;
            } else {
                at = end;
            }
        }
        // A single one may have become needless with another.
        piece = if piece == 1 && less { 1 } else { piece / 2 };
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_matters_is_left() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let fails = |list: &[u32]| list.contains(&17) && list.contains(&640);
        assert_eq!(shrink((0..1000).collect(), deadline, fails), [17, 640]);
        assert_eq!(shrink(vec![1], deadline, |_| true), []);
    }

    #[test]
    fn it_ends_in_time() {
        let list: Vec<u32> = (0..100).collect();
        assert_eq!(shrink(list.clone(), Instant::now(), |_| false), list);
    }
}
